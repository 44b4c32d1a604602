//! `regard bench train`: whole training steps of models of fixed sizes.
//!
//! A step is what a training does for a batch: gradients set to zero, forward, cross-entropy, backward, one
//! update by Adam; without dropout, clipping or decay, so that another program that starts from the same
//! weights ([`save_start`]) gets the same losses.

mod cases;
mod data;
mod measure;
mod model;
mod predict;
mod save;

pub use cases::{CharSizes, TrainCase, TrainModel, chosen};
pub use data::Work;
pub use measure::{OperatorLine, PhaseLine, TrainLine, measure_training};
pub use predict::{PredictLine, measure_prediction};
pub use save::save_start;

use regard_nn::optim::OptimiserConfig;

/// Learning rate of every step.
const LEARNING_RATE: f64 = 3e-4;
const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPS: f64 = 1e-8;

const ADAM: OptimiserConfig =
    OptimiserConfig::Adam { beta1: BETA1, beta2: BETA2, eps: EPS, weight_decay: 0.0 };

/// Seed of the first weights.
const SEED: u64 = 1;
