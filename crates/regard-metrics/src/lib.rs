//! Accumulators of evaluation counts: update, merge, finish.
//!
//! An accumulator holds whole-number counts only. `update` adds one sequence, `merge` adds another
//! accumulator's counts, `finish` divides once at the end. So shards, batches and threads may be split
//! in any way: the scores are those of one pass over all data. A score whose denominator is zero is
//! `None`, never NaN; the printed reports and the macro averages read it as 0, as the programs that
//! they follow do.
//!
//! | accumulator | counts | result |
//! |---|---|---|
//! | [`Accuracy`] | right and all | a fraction |
//! | [`TagMetrics`] | one label a token | [`TagScores`]: accuracy on all, unseen and ambiguous words, scores per label, confusion table |
//! | [`SpanMetrics`] | labelled spans | [`SpanScores`]: precision, recall and F1 in the [`SpanMode`] asked for |
//! | [`translation::Corpus`] | n-grams or edits a segment | BLEU, chrF or TER as sacreBLEU has them |
//!
//! ```
//! use regard_metrics::{Scheme, SpanMetrics, SpanMode, TagMetrics, TokenFlags};
//!
//! let mut tags = TagMetrics::new();
//! tags.update(&["DET", "NOUN"], &["DET", "VERB"], &[TokenFlags::default(); 2])?;
//! assert_eq!(tags.finish().accuracy.score(), Some(0.5));
//!
//! let mut spans = SpanMetrics::new(SpanMode::Strict, Scheme::Iob2);
//! spans.update(&["B-PER", "I-PER", "O"], &["B-PER", "I-PER", "B-LOC"])?;
//! let scores = spans.finish();
//! assert_eq!(scores.averages.micro.precision, Some(0.5));
//! assert_eq!(scores.averages.micro.recall, Some(1.0));
//! # Ok::<(), regard_metrics::MetricsError>(())
//! ```

mod accuracy;
mod classes;
mod confusion;
mod error;
mod metric;
mod report;
mod spans;
mod tags;
pub mod translation;

pub use accuracy::Accuracy;
pub use classes::{Average, Averages, ClassScores, Counts};
pub use confusion::{Confused, ConfusionTable};
pub use error::{MetricsError, Side};
pub use metric::Metric;
pub use report::{ClassificationReport, ConllReport};
pub use spans::{Scheme, Span, SpanMetrics, SpanMode, SpanScores};
pub use tags::{TagMetrics, TagScores, TokenFlags};
