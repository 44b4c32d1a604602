//! Single-head self-attention over the tokens, the first form of the lecture notes.

use regard_tensor::Real;

use super::transformer::{PositionKind, Positions};
use crate::layers::{
    AttentionConfig, LayerAttention, LayerNorm, Linear, MultiHeadAttention, ScopeConfig, ScoreKind,
};
use crate::ops::Activation;
use crate::{NnError, ParamSpecs, Ragged, Tape, Var};

/// Sizes and parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SelfAttentionConfig {
    /// Width of queries, keys and values.
    pub d_model: usize,
    /// Number of layers.
    pub layers: usize,
    /// The score.
    pub score: ScoreKind,
    /// The scope.
    pub scope: ScopeConfig,
    /// The position.
    pub position: PositionKind,
    /// Dropout on inputs and layers.
    pub dropout: f64,
}

#[derive(Debug, Clone)]
struct Layer {
    attention: MultiHeadAttention,
    mix: Linear,
}

/// The input is `norm(x Wᵀ + b) + p`, as the Transformer's. In each layer: q = W_q x, k = W_k x, v = W_v x; `c_i = Σ_j softmax_j(score(q_i, k_j)) v_j`;
/// `h_i = relu(W [x_i; c_i] + b)`.
///
/// Departure: the notes feed c_i alone to the next layer; x_i beside it lets a token keep what it
/// is without attending to itself.
#[derive(Debug, Clone)]
pub struct SelfAttention {
    config: SelfAttentionConfig,
    input: Linear,
    input_norm: LayerNorm,
    positions: Positions,
    layers: Vec<Layer>,
}

impl SelfAttention {
    pub(super) fn new(
        specs: &mut ParamSpecs,
        d: usize,
        config: SelfAttentionConfig,
    ) -> Result<Self, NnError> {
        let d_model = config.d_model;
        let attention = AttentionConfig {
            d_model,
            n_heads: 1,
            score: config.score,
            scope: config.scope,
            rotary: config.position.rotary(),
            dropout: 0.0,
        };
        let input = Linear::new(specs, "input", d, d_model);
        let input_norm = LayerNorm::new(specs, "input_norm", d_model);
        let positions = Positions::new(specs, config.position, d_model);
        let layers = (0..config.layers).map(|l| {
            specs.scope(format!("layers.{l}"), |specs| {
                let attention = MultiHeadAttention::without_output(specs, "attention", attention)?;
                Ok(Layer { attention, mix: Linear::new(specs, "mix", 2 * d_model, d_model) })
            })
        });
        let layers = layers.collect::<Result<_, NnError>>()?;
        Ok(Self { config, input, input_norm, positions, layers })
    }

    pub(super) fn width(&self) -> usize {
        self.config.d_model
    }

    pub(super) fn forward<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        items: &Ragged,
        mut look: Option<&mut Vec<LayerAttention<T>>>,
    ) -> Result<Var, NnError> {
        let x = self.input.forward(tape, x)?;
        let x = self.input_norm.forward(tape, x)?;
        let x = self.positions.add(tape, x, items)?;
        let mut x = tape.dropout(x, self.config.dropout)?;
        for layer in &self.layers {
            let want = look.is_some();
            let (context, weights) = layer.attention.forward(tape, x, items, None, want)?;
            if let (Some(look), Some(weights)) = (&mut look, weights) {
                look.push(layer.attention.looked_at(tape, weights));
            }
            let both = tape.concat(&[x, context])?;
            x = layer.mix.apply(tape, both, Activation::Relu, None)?;
            x = tape.dropout(x, self.config.dropout)?;
        }
        Ok(x)
    }
}
