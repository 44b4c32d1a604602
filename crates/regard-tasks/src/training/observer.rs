//! Who hears how a training goes.

use regard_report::{EvalRecord, StepRecord};

/// Hears how a training goes.
pub trait Observer {
    /// The training begins, or goes on at `done` of `total` steps.
    fn begin(&mut self, model: &str, n_parameters: usize, done: u64, total: u64) {
        let _ = (model, n_parameters, done, total);
    }
    /// A step was taken, with its loss.
    fn step(&mut self, step: u64, epoch: u64, tokens: usize, loss: f64) {
        let _ = (step, epoch, tokens, loss);
    }
    /// A step was logged.
    fn logged(&mut self, record: &StepRecord) {
        let _ = record;
    }
    /// The development file was scored.
    fn evaluated(&mut self, record: &EvalRecord, is_best: bool) {
        let _ = (record, is_best);
    }
    /// An output of the model as it is now, beside what it should be.
    fn sample(&mut self, text: &str) {
        let _ = text;
    }
    /// Something that the user should know.
    fn note(&mut self, text: &str) {
        let _ = text;
    }
}

/// Hears nothing.
pub struct Silent;
impl Observer for Silent {}
