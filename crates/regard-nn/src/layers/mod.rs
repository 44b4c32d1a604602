//! Layers: parameters with a `forward`.

mod attention;
mod basic;
mod recurrent;
mod stack;
mod transformer;
mod transformer_decoder;

pub use attention::{AttentionConfig, LayerAttention, MultiHeadAttention, ScopeConfig, ScoreKind};
pub use basic::{Embedding, LayerNorm, Linear};
pub use recurrent::{Gru, Lstm};
pub use stack::{CellParams, Stack, StateVars};
pub use transformer::{Norm, TransformerLayer, TransformerLayerConfig};
pub use transformer_decoder::{
    CrossAttention, DecoderLayerWeights, KvCache, TransformerDecoderLayer,
};
