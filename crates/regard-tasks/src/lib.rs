//! Tasks: configuration and wiring of readers, batches, models, metrics and reports.
//!
//! Only this crate knows the sequence file → reader → batch → model → loss/metric → report; each
//! stage hands the next a plain value.

pub mod bench;
pub mod config;
pub mod demo;

mod error;
pub mod run;
pub mod score;
pub mod tag;
pub mod training;
pub mod translate;

pub use error::TaskError;
