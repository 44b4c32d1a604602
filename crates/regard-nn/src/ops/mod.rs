//! The operators: few and large, each one file with its formula, shapes and derivative.
//!
//! All are methods of [`crate::Tape`]. Arrays of tokens are packed `[tokens, d]`: the items of a
//! batch one after another, their lengths in a [`crate::Ragged`].

mod activation;
mod align;
mod attention;
mod combine;
mod conv;
mod crf;
mod cross_entropy;
mod decoder;
mod dropout;
mod embedding;
mod gru;
mod layer_norm;
mod linear;
mod lstm;
mod maxout;
mod pool;
mod recurrent;

pub use activation::Activation;
pub use align::{AlignScope, AlignSpec, Aligned, Seen};
pub use attention::{
    Attended, AttentionSpec, AttentionWeights, Operands, PositionSpec, ScoreSpec, WithPosition,
    WithScore,
};
pub use crf::{Crf, viterbi};
pub use cross_entropy::IGNORED;
pub use decoder::{Decoded, DecoderLayer, DecoderSpec, Order, Resumed};
pub use pool::Pool;
pub use recurrent::{Cell, Direction, Recurrence};
