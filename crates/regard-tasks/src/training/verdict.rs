//! What speaks against a training: numbers that ran away, or that came to nothing.

use std::iter;

use regard_nn::{Mode, NnError, Tape};
use regard_tensor::Key;

use super::{DevScores, Learner, Trainer};
use crate::TaskError;

/// How many times the loss of guessing a training may end with before it says so.
const ABSURD: f64 = 2.0;

/// How many times the loss of guessing the last loss may be: above it the training has run away. Scores
/// (logits) that differ by tens, as those of trained models do, are far below it even where every answer is wrong.
const RUNAWAY: f64 = 1e3;

impl DevScores {
    /// A figure that is no finite number: a model with one is never the best.
    pub(super) fn not_finite(&self) -> Option<f64> {
        iter::once(&self.value).chain(self.figures.values()).copied().find(|x| !x.is_finite())
    }
}

impl<L: Learner> Trainer<L> {
    /// What to do with the folder of a training whose numbers ran away.
    pub(super) fn diverged(&self, error: TaskError) -> TaskError {
        match (error, &self.run) {
            (TaskError::Model(source @ NnError::NotFinite { .. }), Some(run)) => {
                TaskError::Diverged { folder: run.path().into(), source: source.into() }
            }
            (error, _) => error,
        }
    }

    /// The error of a number that is none after the last step.
    pub(super) fn not_finite(&self, what: &'static str, value: f64) -> TaskError {
        self.diverged(NnError::NotFinite { what, value, step: self.state.step }.into())
    }

    /// Refuses weights whose loss is no number, or an absurd one: that of the last step, and that which the step
    /// left, on the first batch of the epoch.
    pub(super) fn check_loss(&self) -> Result<(), TaskError> {
        let key = Key::new(self.settings.seed).named("verdict");
        let mut left = 0.0;
        if let Some(batch) = self.learner.batches(self.state.epoch).first() {
            let mut tape = Tape::new(self.learner.params(), Mode::Inference);
            let loss = self.learner.loss(&mut tape, batch, key)?;
            left = f64::from(tape.value(loss).data()[0]);
        }
        if !left.is_finite() {
            return Err(self.not_finite("the loss that the last update left", left));
        }
        let (loss, guess) = (self.state.loss.max(left), self.learner.chance_loss());
        match &self.run {
            Some(run) if loss > RUNAWAY * guess => {
                let (folder, step) = (run.path().into(), self.state.step);
                Err(TaskError::RanAway { folder, step, loss, guess })
            }
            _ => Ok(()),
        }
    }

    /// What speaks against the result of a training that is at its end.
    pub(super) fn doubt(&self) -> Option<String> {
        let guess = self.learner.chance_loss();
        let scored = self.state.figures.get("loss").copied();
        let is_absurd = |loss: &f64| loss.is_nan() || *loss > ABSURD * guess;
        let trained = (self.losses.1 > 0).then(|| self.losses.0 / self.losses.1 as f64);
        if let Some(loss) = trained.into_iter().chain(scored).find(is_absurd) {
            return Some(format!(
                "the loss is {loss:.3} at the end, and that of guessing {guess:.3}; train again into \
                 another folder, with a lower train.lr"
            ));
        }
        let evaluations = self.state.epoch - 1;
        let is_stale = evaluations > 1 && self.state.stale_epochs + 1 == evaluations;
        let best = self.state.best_value.unwrap_or(f64::NAN);
        let is_perfect = self.learner.metric().unit == "fraction" && best >= 1.0;
        (is_stale && !is_perfect).then(|| {
            "no epoch was better on the development file than the first one; train again into another \
             folder, with another train.lr"
                .into()
        })
    }
}
