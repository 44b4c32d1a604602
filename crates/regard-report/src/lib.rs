//! Serialisable results and their writers: JSON lines, CSV, NPZ, SVG, plain text.
//!
//! Nothing here computes a result: other crates fill these plain structs and this crate
//! writes, reads and checks them.
//!
//! | to hold | type | to write |
//! |---|---|---|
//! | one line of `--json` output | [`Event`] | [`json_line`] |
//! | progress of a training run | [`StepRecord`], [`EvalRecord`] | [`MetricsLog`], [`learning_curve_svg`] |
//! | the end of a training run | [`RunSummary`] | [`json_line`] |
//! | the attention of one sentence | [`AttentionReport`] | [`attention_csv`], [`attention_npz`], [`heatmap_svg`], [`grid_svg`], [`terminal_heatmap`] |
//! | the attentions of one translation | [`AlignmentReport`] | [`alignment_csv`], [`alignment_svg`], [`terminal_alignment`] |
//! | a table of results | [`Table`] | [`Table::to_text`], [`Table::to_markdown`] |
//!
//! Every file should be written with [`write_atomic`], so that a reader never meets half of one.

mod alignment;
mod attention;
mod error;
mod event;
mod files;
mod learning_curve;
mod lines;
mod matrix;
mod metrics_log;
mod records;
mod table;
mod text;

pub use alignment::{
    AlignmentHead, AlignmentKind, AlignmentReport, alignment_csv, alignment_svg, terminal_alignment,
};
pub use attention::csv::attention_csv;
pub use attention::heatmap::heatmap_svg;
pub use attention::npz::attention_npz;
pub use attention::recompute::Differences;
pub use attention::sample::{SampleShape, sample_report};
pub use attention::score::ScoreKind;
pub use attention::terminal::terminal_heatmap;
pub use attention::thumbnails::grid_svg;
pub use attention::{
    AttentionReport, HeadAttention, LayerAttention, ModelDescription, PredictedLabel,
    ROW_SUM_TOLERANCE,
};
pub use error::ReportError;
pub use event::{Event, json_line};
pub use files::write_atomic;
pub use learning_curve::learning_curve_svg;
pub use lines::lines_svg;
pub use matrix::Matrix;
pub use metrics_log::{MetricsLog, read_metrics};
pub use records::{EvalRecord, MetricsRecord, RunSummary, StepRecord, StopReason};
pub use table::{Align, Column, Table};
