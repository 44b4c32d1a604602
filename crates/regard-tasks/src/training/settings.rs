//! Optimiser, schedule, clipping, averaging, stopping: what every training has.

use std::fmt;

use regard_nn::optim::OptimiserConfig;
use regard_nn::schedule::Schedule;
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;

/// Which optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimiserKind {
    /// Stochastic gradient descent with momentum.
    Sgd,
    /// Adam.
    Adam,
    /// Adam with decay apart from the gradient.
    Adamw,
}

/// Which schedule of the learning rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleKind {
    /// Always the same.
    Constant,
    /// Linear warm-up, then falling with the square root of the step.
    InverseSqrt,
    /// Linear warm-up, then a half cosine down to `floor` at the last step.
    Cosine,
}

/// The settings of the training loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LoopSettings {
    pub(crate) epochs: u64,
    /// Minutes of training after which it ends; 0 for no limit.
    pub(crate) minutes: f64,
    pub(crate) optimiser: OptimiserConfig,
    pub(crate) lr: f64,
    pub(crate) schedule: ScheduleKind,
    pub(crate) warmup: u64,
    pub(crate) floor: f64,
    /// Largest gradient norm; 0 for no clipping.
    pub(crate) clip: f64,
    /// Batches that make one step.
    pub(crate) accumulate: usize,
    /// Decay of the running average of the weights; 0 for none.
    pub(crate) average: f64,
    pub(crate) patience: u64,
    pub(crate) checkpoint_every: u64,
    pub(crate) seed: u64,
}

impl LoopSettings {
    /// The schedule for a training of `total` steps.
    pub(crate) fn schedule(&self, total: u64) -> Schedule {
        // A short training on a small file would otherwise end before the rate has risen.
        let warmup = self.warmup.min(total / 5);
        match self.schedule {
            ScheduleKind::Constant => Schedule::Constant,
            ScheduleKind::InverseSqrt => Schedule::InverseSqrt { warmup },
            ScheduleKind::Cosine => Schedule::Cosine { warmup, total, floor: self.floor },
        }
    }
}

/// Momentum, β₁, β₂, ε and decay as the optimiser that they are for.
pub(crate) fn optimiser(
    kind: OptimiserKind,
    [momentum, beta1, beta2, eps, weight_decay]: [f64; 5],
) -> OptimiserConfig {
    match kind {
        OptimiserKind::Sgd => OptimiserConfig::Sgd { momentum, weight_decay },
        OptimiserKind::Adam => OptimiserConfig::Adam { beta1, beta2, eps, weight_decay },
        OptimiserKind::Adamw => OptimiserConfig::Adamw { beta1, beta2, eps, weight_decay },
    }
}

/// Ranges of settings; each names the key at fault.
pub(crate) struct SettingsCheck;

impl SettingsCheck {
    pub(crate) fn at_least(key: &'static str, n: usize, least: usize) -> Result<(), ConfigError> {
        if n >= least { Ok(()) } else { Err(range(key, format!("at least {least}"), n)) }
    }

    pub(crate) fn within(key: &'static str, n: usize, most: usize) -> Result<(), ConfigError> {
        if (1..=most).contains(&n) { Ok(()) } else { Err(range(key, format!("in 1..={most}"), n)) }
    }

    pub(crate) fn rate(key: &'static str, x: f64) -> Result<(), ConfigError> {
        if (0.0..1.0).contains(&x) { Ok(()) } else { Err(range(key, "in [0, 1)", x)) }
    }

    pub(crate) fn positive(key: &'static str, x: f64) -> Result<(), ConfigError> {
        single(key, x, x > 0.0, "above 0")
    }

    pub(crate) fn not_negative(key: &'static str, x: f64) -> Result<(), ConfigError> {
        single(key, x, x >= 0.0, "at least 0")
    }
}

/// A number that training takes in single precision: what is too large for that, or so small that it would be 0, is refused.
fn single(
    key: &'static str,
    x: f64,
    fits: bool,
    expected: &'static str,
) -> Result<(), ConfigError> {
    let narrow = x as f32;
    if !narrow.is_finite() || (narrow == 0.0 && x != 0.0) {
        return Err(range(key, format!("finite and {expected} in single precision"), x));
    }
    if fits { Ok(()) } else { Err(range(key, expected, x)) }
}

/// A value out of its range.
pub(crate) fn range(
    key: &'static str,
    expected: impl Into<String>,
    actual: impl fmt::Display,
) -> ConfigError {
    ConfigError::Range { key: key.into(), expected: expected.into(), actual: actual.to_string() }
}
