//! A convolutional network over the tokens.

use regard_tensor::Real;

use crate::layers::Linear;
use crate::ops::Activation;
use crate::{NnError, ParamSpecs, Ragged, Tape, Var};

/// Sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CnnConfig {
    /// Tokens that a filter sees.
    pub kernel: usize,
    /// Filters of each layer.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
    /// Dropout after each.
    pub dropout: f64,
}

/// `h^l_i = relu(W^l [h^{l−1}_{i−c}; …; h^{l−1}_{i+c}] + b^l) + h^{l−1}_i` (no residual at the first
/// layer, whose input has another width).
#[derive(Debug, Clone)]
pub struct Cnn {
    config: CnnConfig,
    layers: Vec<Linear>,
}

impl Cnn {
    pub(super) fn new(specs: &mut ParamSpecs, d: usize, config: CnnConfig) -> Self {
        let width = |l| if l == 0 { d } else { config.hidden };
        let layers = (0..config.layers)
            .map(|l| {
                let name = format!("layers.{l}");
                Linear::new(specs, &name, config.kernel * width(l), config.hidden)
            })
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
        let left = (self.config.kernel - 1) / 2;
        let right = self.config.kernel - 1 - left;
        let mut x = x;
        for (l, layer) in self.layers.iter().enumerate() {
            let windows = tape.windows(x, items, left, right)?;
            let y = layer.apply(tape, windows, Activation::Relu, (l > 0).then_some(x))?;
            x = tape.dropout(y, self.config.dropout)?;
        }
        Ok(x)
    }
}
