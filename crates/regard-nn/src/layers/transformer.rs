//! One layer of the Transformer's encoder.

use regard_tensor::Real;
use serde::{Deserialize, Serialize};

use super::{AttentionConfig, LayerNorm, Linear, MultiHeadAttention};
use crate::ops::{Activation, AttentionWeights};
use crate::{NnError, ParamSpecs, Ragged, Tape, Var};

/// Where the layer norm stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// x + sub(norm(x)): before each sub-layer (and once more after the last layer).
    Before,
    /// norm(x + sub(x)): after each sub-layer, as in the paper.
    After,
}

/// Sizes and parts of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TransformerLayerConfig {
    /// The attention.
    pub attention: AttentionConfig,
    /// Width of the feed-forward layer.
    pub d_ff: usize,
    /// Its activation.
    pub activation: Activation,
    /// Where the norms stand.
    pub norm: Norm,
    /// Dropout on the output of each sub-layer.
    pub dropout: f64,
}

/// `y = x + Attention(x);  z = y + W₂ act(W₁ y + b₁) + b₂`, with layer norms before or after
/// each (Vaswani et al. 2017, §3.1).
#[derive(Debug, Clone)]
pub struct TransformerLayer {
    config: TransformerLayerConfig,
    attention: MultiHeadAttention,
    inner: Linear,
    outer: Linear,
    norms: [LayerNorm; 2],
}

impl TransformerLayer {
    /// Parameters `attention`, `inner`, `outer`, `norm1`, `norm2`.
    ///
    /// # Errors
    /// As [`MultiHeadAttention::new`].
    pub fn new(
        specs: &mut ParamSpecs,
        name: &str,
        config: TransformerLayerConfig,
    ) -> Result<Self, NnError> {
        let d = config.attention.d_model;
        specs.scope(name, |specs| {
            Ok(Self {
                config,
                attention: MultiHeadAttention::new(specs, "attention", config.attention)?,
                inner: Linear::new(specs, "inner", d, config.d_ff),
                outer: Linear::new(specs, "outer", config.d_ff, d),
                norms: [LayerNorm::new(specs, "norm1", d), LayerNorm::new(specs, "norm2", d)],
            })
        })
    }

    /// The layer's attention.
    pub fn attention(&self) -> &MultiHeadAttention {
        &self.attention
    }

    /// The layer's output `[total, d_model]`, and what attention did where `want_weights`.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        items: &Ragged,
        want_weights: bool,
    ) -> Result<(Var, Option<AttentionWeights<T>>), NnError> {
        let before = self.config.norm == Norm::Before;
        // Without dropout the residual is added inside the matrix product's last pass.
        let fused = |x| if self.config.dropout == 0.0 { Some(x) } else { None };
        let rate = self.config.dropout;
        let close = |tape: &mut Tape<'_, T>, sub: Var, x: Var, norm: &LayerNorm| {
            let sum = if rate == 0.0 {
                sub
            } else {
                let sub = tape.dropout(sub, rate)?;
                tape.add(x, sub)?
            };
            if before { Ok(sum) } else { norm.forward(tape, sum) }
        };

        let input = if before { self.norms[0].forward(tape, x)? } else { x };
        let (sub, weights) = self.attention.forward(tape, input, items, fused(x), want_weights)?;
        let y = close(tape, sub, x, &self.norms[0])?;

        let input = if before { self.norms[1].forward(tape, y)? } else { y };
        let inner = self.inner.apply(tape, input, self.config.activation, None)?;
        let inner = tape.dropout(inner, rate)?;
        let sub = self.outer.apply(tape, inner, Activation::None, fused(y))?;
        Ok((close(tape, sub, y, &self.norms[1])?, weights))
    }
}
