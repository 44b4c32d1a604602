//! Fully connected layers over each token alone, or over it and its neighbours: what
//! self-attention is compared with first.

use regard_tensor::Real;

use crate::layers::Linear;
use crate::ops::Activation;
use crate::{NnError, ParamSpecs, Ragged, Tape, Var};

/// Sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FeedForwardConfig {
    /// Neighbours seen on each side; 0 for each token alone.
    pub context: usize,
    /// Width of the layers.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
    /// Dropout after each.
    pub dropout: f64,
}

/// `h_i = relu(W [x_{i−c}; …; x_{i+c}] + b)`, then layers over h_i alone.
#[derive(Debug, Clone)]
pub struct FeedForward {
    config: FeedForwardConfig,
    layers: Vec<Linear>,
}

impl FeedForward {
    pub(super) fn new(specs: &mut ParamSpecs, d: usize, config: FeedForwardConfig) -> Self {
        let width = |l| if l == 0 { d * (2 * config.context + 1) } else { config.hidden };
        let layers = (0..config.layers)
            .map(|l| Linear::new(specs, &format!("layers.{l}"), width(l), config.hidden))
            .collect();
        Self { config, layers }
    }

    pub(super) fn width(&self) -> usize {
        self.config.hidden
    }

    pub(super) fn forward<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        items: &Ragged,
    ) -> Result<Var, NnError> {
        let context = self.config.context;
        let mut x = if context == 0 { x } else { tape.windows(x, items, context, context)? };
        for layer in &self.layers {
            x = layer.apply(tape, x, Activation::Relu, None)?;
            x = tape.dropout(x, self.config.dropout)?;
        }
        Ok(x)
    }
}
