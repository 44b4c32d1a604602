//! Stacked LSTMs over the tokens, in one direction or both.

use regard_tensor::Real;

use crate::layers::Lstm;
use crate::{NnError, ParamSpecs, Ragged, Tape, Var};

/// Sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RnnConfig {
    /// Hidden size of each direction.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
    /// Both directions.
    pub bidirectional: bool,
    /// Dropout after each layer.
    pub dropout: f64,
}

/// h = LSTM(…LSTM(x)), or both directions side by side in every layer (Graves and Schmidhuber
/// 2005).
#[derive(Debug, Clone)]
pub struct Rnn {
    config: RnnConfig,
    layers: Vec<Lstm>,
}

impl Rnn {
    pub(super) fn new(specs: &mut ParamSpecs, d: usize, config: RnnConfig) -> Self {
        let out = config.hidden * if config.bidirectional { 2 } else { 1 };
        let layers = (0..config.layers)
            .map(|l| {
                let d = if l == 0 { d } else { out };
                Lstm::new(specs, &format!("layers.{l}"), d, config.hidden, config.bidirectional)
            })
            .collect();
        Self { config, layers }
    }

    pub(super) fn width(&self) -> usize {
        self.config.hidden * if self.config.bidirectional { 2 } else { 1 }
    }

    pub(super) fn forward<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        items: &Ragged,
    ) -> Result<Var, NnError> {
        let mut x = x;
        for layer in &self.layers {
            x = layer.forward(tape, x, items)?;
            x = tape.dropout(x, self.config.dropout)?;
        }
        Ok(x)
    }
}
