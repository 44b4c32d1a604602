//! The training core: a tape of few, large operators, layers and models built from them, losses,
//! optimisers, schedules and checkpoints.

pub mod checkpoint;
mod error;
pub mod layers;
pub mod models;
pub mod ops;
pub mod optim;
mod packed;
mod params;
mod profile;
mod ragged;
pub mod schedule;
mod tape;

pub use error::NnError;
pub use packed::PackedParams;
pub use params::{Init, ParamId, ParamSpec, ParamSpecs, Params};
pub use profile::{OperatorTime, OperatorTimes};
pub use ragged::Ragged;
pub use tape::{Gradients, Grads, Mode, Tape, Var};
