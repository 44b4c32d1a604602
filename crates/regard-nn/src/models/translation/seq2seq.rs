//! Encoder and decoder without attention.
//!
//! ```text
//! encoder   h = RNN(E_x x), layers on top of each other, read from the last token to the first by option
//! decoder   s = RNN(E_y [begin; y]) from the encoder's last states, layer by layer
//! output    p(y_i) = softmax(W s_i + b)
//! ```
//!
//! Sutskever, Vinyals and Le 2014 (<https://arxiv.org/abs/1409.3215>): four LSTM layers of 1000, the
//! source reversed, so that its first words stand next to the target's first. All that the decoder
//! knows of the source is one state a layer, whatever the length: what attention was made to mend.

use regard_tensor::Real;

use super::decoding::RnnState;
use super::{Seq2seqConfig, Sequences};
use crate::layers::{Embedding, Linear, Stack};
use crate::models::at_least_one;
use crate::ops::Direction;
use crate::{NnError, PackedParams, ParamSpecs, Ragged, Tape, Var};

/// See the [module](self).
#[derive(Debug, Clone)]
pub struct Seq2seq {
    config: Seq2seqConfig,
    source: Embedding,
    target: Embedding,
    encoder: Stack,
    decoder: Stack,
    output: Linear,
}

impl Seq2seq {
    pub(super) fn new(
        specs: &mut ParamSpecs,
        (source_vocab, target_vocab): (usize, usize),
        config: Seq2seqConfig,
    ) -> Result<Self, NnError> {
        let Seq2seqConfig { cell, embedding, hidden, layers, dropout, .. } = config;
        at_least_one(&[("embedding", embedding), ("hidden", hidden), ("layers", layers)])?;
        let sizes = (embedding, hidden, layers);
        Ok(Self {
            config,
            source: Embedding::new(specs, "source", source_vocab, embedding, 0.1),
            target: Embedding::new(specs, "target", target_vocab, embedding, 0.1),
            encoder: Stack::new(specs, "encoder", cell, sizes, false, dropout)?,
            decoder: Stack::new(specs, "decoder", cell, sizes, false, dropout)?,
            output: Linear::new(specs, "output", hidden, target_vocab),
        })
    }

    /// The encoder's last states.
    fn encode<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
    ) -> Result<Vec<crate::layers::StateVars>, NnError> {
        let x = self.source.forward(tape, &source.ids)?;
        let x = tape.dropout(x, self.config.dropout)?;
        let way = if self.config.reverse_source { Direction::Backward } else { Direction::Forward };
        Ok(self.encoder.forward(tape, x, &source.items, way, None)?.1)
    }

    pub(super) fn logits<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
        inputs: &Sequences,
    ) -> Result<Var, NnError> {
        let states = self.encode(tape, source)?;
        let x = self.target.forward(tape, &inputs.ids)?;
        let x = tape.dropout(x, self.config.dropout)?;
        let (s, _) =
            self.decoder.forward(tape, x, &inputs.items, Direction::Forward, Some(&states))?;
        let s = tape.dropout(s, self.config.dropout)?;
        self.output.forward(tape, s)
    }

    pub(super) fn start<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
    ) -> Result<RnnState<T>, NnError> {
        let states = self.encode(tape, source)?;
        Ok(RnnState::new(tape, source.items.items(), &states))
    }

    pub(super) fn step<T: Real>(
        &self,
        packed: &PackedParams<T>,
        state: &mut RnnState<T>,
        previous: &[u32],
    ) -> Result<regard_tensor::Tensor<T>, NnError> {
        let mut tape = Tape::inference(packed);
        let before = state.vars(&mut tape);
        let x = self.target.forward(&mut tape, previous)?;
        let items = Ragged::new(&vec![1; previous.len()]);
        let (s, after) =
            self.decoder.forward(&mut tape, x, &items, Direction::Forward, Some(&before))?;
        let logits = self.output.forward(&mut tape, s)?;
        state.set(&tape, &after);
        Ok(tape.value(logits).clone())
    }
}
