//! The weights of a translation, for looking into it.

use regard_tensor::{Real, Tensor};

/// Who attends to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionKind {
    /// Source to source.
    EncoderSelf,
    /// Target to target, the past alone.
    DecoderSelf,
    /// Target to source.
    Cross,
}

/// The weights of one head.
#[derive(Debug, Clone)]
pub struct AlignmentMap<T: Real> {
    /// Who attends to whom.
    pub kind: AttentionKind,
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0.
    pub head: usize,
    /// `[queries, keys]`. A decoder's query i is the step that predicts token i of the target, the end
    /// last; the keys of its self-attention are the beginning and the target's tokens.
    pub weights: Tensor<T>,
    /// The centre of each query's window, in source positions from 0, under a local scope.
    pub centres: Option<Vec<T>>,
    /// The σ of the Gaussian on the weights (local-p).
    pub sigma: Option<T>,
    /// Positions to each side of the centre, under a local scope.
    pub radius: Option<usize>,
}
