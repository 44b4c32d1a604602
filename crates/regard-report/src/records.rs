//! What a training run tells: single steps, evaluations, and its end.
//!
//! A float that is not finite (a loss that diverged, a rate of 0 out of 0) is `null` in JSON,
//! which has no other name for it, and is read back as NaN.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// One optimiser step, or the mean over the steps since the last record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Optimiser updates done so far, from 1.
    pub step: u64,
    /// Passes over the training data begun so far, from 1.
    pub epoch: u64,
    /// Tokens learned from so far, padding not counted.
    pub tokens: u64,
    /// Training loss, mean over tokens.
    #[serde(deserialize_with = "null_is_nan")]
    pub loss: f64,
    /// Learning rate of this step.
    #[serde(deserialize_with = "null_is_nan")]
    pub lr: f64,
    /// Euclidean norm of all gradients before clipping.
    #[serde(deserialize_with = "null_is_nan")]
    pub grad_norm: f64,
    /// Tokens per second since the last record.
    #[serde(deserialize_with = "null_is_nan")]
    pub tokens_per_s: f64,
    /// Seconds of training so far, over all resumptions.
    #[serde(deserialize_with = "null_is_nan")]
    pub elapsed_s: f64,
}

/// One evaluation of the model on a split of the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvalRecord {
    /// Optimiser updates done before the evaluation.
    pub step: u64,
    /// Passes over the training data begun before the evaluation.
    pub epoch: u64,
    /// Name of the data: `dev`, `test`.
    pub split: String,
    /// Each metric's value under its name. Rates are fractions in \[0, 1\].
    #[serde(deserialize_with = "nulls_are_nan")]
    pub metrics: BTreeMap<String, f64>,
    /// Seconds of training so far.
    #[serde(deserialize_with = "null_is_nan")]
    pub elapsed_s: f64,
}

/// One line of `metrics.jsonl`: `{"type":"step","data":{…}}` or `{"type":"eval","data":{…}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "kebab-case")]
pub enum MetricsRecord {
    /// Training went on.
    Step(StepRecord),
    /// The model was evaluated.
    Eval(EvalRecord),
}

impl MetricsRecord {
    /// Optimiser updates done when the record was made.
    pub fn step(&self) -> u64 {
        match self {
            Self::Step(record) => record.step,
            Self::Eval(record) => record.step,
        }
    }
}

impl From<StepRecord> for MetricsRecord {
    fn from(record: StepRecord) -> Self {
        Self::Step(record)
    }
}

impl From<EvalRecord> for MetricsRecord {
    fn from(record: EvalRecord) -> Self {
        Self::Eval(record)
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// All epochs or steps asked for are done.
    Finished,
    /// The metric that chooses the best model stopped rising.
    EarlyStop,
    /// The time allowed ran out.
    TimeLimit,
    /// The user interrupted the run; it can be resumed.
    Interrupted,
}

/// A training run as it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The task, for instance `tag`.
    pub task: String,
    /// The model, for instance `transformer`.
    pub model: String,
    /// The run folder, as the user named it.
    pub run_dir: String,
    /// Seed of the run.
    pub seed: u64,
    /// Threads that computed.
    pub n_threads: usize,
    /// Numbers that were learned.
    pub n_parameters: u64,
    /// Optimiser updates done.
    pub steps: u64,
    /// Passes over the training data begun.
    pub epochs: u64,
    /// Tokens learned from.
    pub tokens: u64,
    /// Seconds of training, over all resumptions.
    #[serde(deserialize_with = "null_is_nan")]
    pub elapsed_s: f64,
    /// Name of the metric that chose the best model.
    pub best_metric: String,
    /// Its value for the best model; NaN when no evaluation was made.
    #[serde(deserialize_with = "null_is_nan")]
    pub best_value: f64,
    /// The step after which that value was measured.
    pub best_step: u64,
    /// All metrics of the best model, under `split/metric` or `metric`.
    #[serde(deserialize_with = "nulls_are_nan")]
    pub metrics: BTreeMap<String, f64>,
    /// Why the run ended.
    pub stop: StopReason,
}

fn null_is_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

fn nulls_are_nan<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, f64>, D::Error> {
    let map = BTreeMap::<String, Option<f64>>::deserialize(deserializer)?;
    Ok(map.into_iter().map(|(name, value)| (name, value.unwrap_or(f64::NAN))).collect())
}
