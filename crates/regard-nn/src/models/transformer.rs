//! The Transformer's encoder (Vaswani et al. 2017) over the tokens.

use regard_attn::Position;
use regard_attn::position::Sinusoidal;
use regard_tensor::{Real, Tensor};
use serde::{Deserialize, Serialize};

use crate::layers::{
    AttentionConfig, LayerAttention, LayerNorm, Linear, Norm, ScopeConfig, ScoreKind,
    TransformerLayer, TransformerLayerConfig,
};
use crate::ops::Activation;
use crate::{Init, NnError, ParamId, ParamSpecs, Ragged, Tape, Var};

/// What tells a model the order of the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PositionKind {
    /// Nothing.
    None,
    /// Sines and cosines added to the input.
    Sinusoidal,
    /// A learned vector for each of the first `MAX_LEARNED` places, added to the input.
    Learned,
    /// Queries and keys turned by their place.
    Rotary,
}

impl PositionKind {
    /// The base of the angles, for rotary position.
    pub(super) fn rotary(self) -> Option<f64> {
        (self == Self::Rotary).then_some(10_000.0)
    }
}

/// Places that learned positions cover; later tokens share the last one's vector.
pub const MAX_LEARNED: usize = 512;

/// The positions that are added to the input.
#[derive(Debug, Clone)]
pub(super) enum Positions {
    Nothing,
    Sinusoidal,
    Learned(ParamId),
}

impl Positions {
    pub(super) fn new(specs: &mut ParamSpecs, kind: PositionKind, d: usize) -> Self {
        match kind {
            PositionKind::None | PositionKind::Rotary => Self::Nothing,
            PositionKind::Sinusoidal => Self::Sinusoidal,
            PositionKind::Learned => {
                Self::Learned(specs.add("positions", &[MAX_LEARNED, d], Init::Normal(0.1)))
            }
        }
    }

    /// x_i + p(i), i counted from the start of each item.
    pub(super) fn add<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        items: &Ragged,
    ) -> Result<Var, NnError> {
        self.add_from(tape, x, items, 0)
    }

    /// x_i + p(first + i), i counted from the start of each item.
    pub(super) fn add_from<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        items: &Ragged,
        first: usize,
    ) -> Result<Var, NnError> {
        match self {
            Self::Nothing => Ok(x),
            Self::Sinusoidal => {
                // One row a position, then a copy for every token.
                let d = tape.value(x).cols();
                let mut rows = vec![T::ZERO; items.longest() * d];
                for (i, row) in rows.chunks_exact_mut(d).enumerate() {
                    Sinusoidal.input(first + i, row)?;
                }
                let mut table = Tensor::stale(&tape.shape(x));
                for (row, i) in table.data_mut().chunks_exact_mut(d).zip(items.positions()) {
                    row.copy_from_slice(&rows[i * d..(i + 1) * d]);
                }
                let table = tape.constant(table);
                tape.add(x, table)
            }
            Self::Learned(table) => {
                let ids: Vec<u32> =
                    items.positions().map(|i| (first + i).min(MAX_LEARNED - 1) as u32).collect();
                let table = tape.param(*table);
                let rows = tape.embedding(table, &ids)?;
                tape.add(x, rows)
            }
        }
    }
}

/// Sizes and parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TransformerConfig {
    /// Width of the tokens.
    pub d_model: usize,
    /// Number of heads.
    pub heads: usize,
    /// Number of layers.
    pub layers: usize,
    /// Width of the feed-forward layers.
    pub d_ff: usize,
    /// Where the norms stand.
    pub norm: Norm,
    /// The score.
    pub score: ScoreKind,
    /// The scope.
    pub scope: ScopeConfig,
    /// The position.
    pub position: PositionKind,
    /// Dropout on the input, the sub-layers and the weights.
    pub dropout: f64,
    /// Dropout on the attention weights.
    pub attention_dropout: f64,
}

/// `norm(x Wᵀ + b) + p`, layers of multi-head attention and feed-forward, a last layer norm when the
/// norms stand before the sub-layers.
///
/// Departures: a layer norm on the input in place of the paper's factor √d_model (§3.4), so that
/// words and positions keep their proportion while the word vectors grow; GELU in place of ReLU.
#[derive(Debug, Clone)]
pub struct Transformer {
    config: TransformerConfig,
    input: Linear,
    input_norm: LayerNorm,
    positions: Positions,
    layers: Vec<TransformerLayer>,
    last: Option<LayerNorm>,
}

impl Transformer {
    pub(super) fn new(
        specs: &mut ParamSpecs,
        d: usize,
        config: TransformerConfig,
    ) -> Result<Self, NnError> {
        let layer = TransformerLayerConfig {
            attention: AttentionConfig {
                d_model: config.d_model,
                n_heads: config.heads,
                score: config.score,
                scope: config.scope,
                rotary: config.position.rotary(),
                dropout: config.attention_dropout,
            },
            d_ff: config.d_ff,
            activation: Activation::Gelu,
            norm: config.norm,
            dropout: config.dropout,
        };
        let input = Linear::new(specs, "input", d, config.d_model);
        let input_norm = LayerNorm::new(specs, "input_norm", config.d_model);
        let positions = Positions::new(specs, config.position, config.d_model);
        let layers = (0..config.layers)
            .map(|l| TransformerLayer::new(specs, &format!("layers.{l}"), layer))
            .collect::<Result<_, _>>()?;
        let last =
            (config.norm == Norm::Before).then(|| LayerNorm::new(specs, "last", config.d_model));
        Ok(Self { config, input, input_norm, positions, layers, last })
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
            let (y, weights) = layer.forward(tape, x, items, look.is_some())?;
            if let (Some(look), Some(weights)) = (&mut look, weights) {
                look.push(layer.attention().looked_at(tape, weights));
            }
            x = y;
        }
        match &self.last {
            Some(last) => last.forward(tape, x),
            None => Ok(x),
        }
    }
}
