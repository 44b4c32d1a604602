//! One fixed context at every step.
//!
//! ```text
//! encoder   h = GRU(E_x x)        c = tanh(V h_last)
//! decoder   s_0 = tanh(V' c)      s_i = GRU([E_y y_{i−1}; c], s_{i−1})
//! read-out  t̃ = O_s s_i + O_y E_y y_{i−1} + O_c c ∈ R^{2l}     t_k = max(t̃_{2k}, t̃_{2k+1})
//! output    p(y_i) = softmax(W t + b)
//! ```
//!
//! Cho et al. 2014 (<https://arxiv.org/abs/1406.1078>), appendix A; RNNencdec of Bahdanau et al. 2015.
//! Departure: the GRU has its reset gate behind the recurrent matrix: see
//! [`Tape::gru`](crate::Tape::gru).

use regard_tensor::{Real, Tensor};

use super::decoding::RnnState;
use super::{Cho2014Config, Sequences};
use crate::layers::{Embedding, Linear, Stack, StateVars};
use crate::models::at_least_one;
use crate::ops::{Activation, Cell, Direction};
use crate::{NnError, PackedParams, ParamSpecs, Ragged, Tape, Var};

/// See the [module](self).
#[derive(Debug, Clone)]
pub struct Cho2014 {
    config: Cho2014Config,
    source: Embedding,
    target: Embedding,
    encoder: Stack,
    context: Linear,
    start: Linear,
    decoder: Stack,
    readout: Linear,
    output: Linear,
}

impl Cho2014 {
    pub(super) fn new(
        specs: &mut ParamSpecs,
        (source_vocab, target_vocab): (usize, usize),
        config: Cho2014Config,
    ) -> Result<Self, NnError> {
        let Cho2014Config { embedding: m, hidden: n, readout: l, .. } = config;
        at_least_one(&[("embedding", m), ("hidden", n), ("readout", l)])?;
        let gru = Cell::Gru;
        Ok(Self {
            config,
            source: Embedding::new(specs, "source", source_vocab, m, 0.1),
            target: Embedding::new(specs, "target", target_vocab, m, 0.1),
            encoder: Stack::new(specs, "encoder", gru, (m, n, 1), false, 0.0)?,
            context: Linear::new(specs, "context", n, n),
            start: Linear::new(specs, "start", n, n),
            decoder: Stack::new(specs, "decoder", gru, (m + n, n, 1), false, 0.0)?,
            readout: Linear::new(specs, "readout", n + m + n, 2 * l),
            output: Linear::new(specs, "output", l, target_vocab),
        })
    }

    /// c and s_0, `[items, n]`.
    fn encode<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
    ) -> Result<(Var, StateVars), NnError> {
        let x = self.source.forward(tape, &source.ids)?;
        let x = tape.dropout(x, self.config.dropout)?;
        let (_, last) = self.encoder.forward(tape, x, &source.items, Direction::Forward, None)?;
        let c = self.context.apply(tape, last[0].h, Activation::Tanh, None)?;
        let h = self.start.apply(tape, c, Activation::Tanh, None)?;
        Ok((c, StateVars { h, c: None }))
    }

    /// The logits after each of `ids`, and the last states; c `[items, n]`.
    fn decode<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        (ids, items): (&[u32], &Ragged),
        c: Var,
        before: &[StateVars],
    ) -> Result<(Var, Vec<StateVars>), NnError> {
        let y = self.target.forward(tape, ids)?;
        let y = tape.dropout(y, self.config.dropout)?;
        let lengths = items.lengths().iter().enumerate();
        let of_row: Vec<u32> =
            lengths.flat_map(|(item, len)| std::iter::repeat_n(item as u32, *len)).collect();
        let c = tape.embedding(c, &of_row)?;
        let x = tape.concat(&[y, c])?;
        let (s, last) = self.decoder.forward(tape, x, items, Direction::Forward, Some(before))?;
        let read = tape.concat(&[s, y, c])?;
        let read = self.readout.forward(tape, read)?;
        let t = tape.maxout(read)?;
        let t = tape.dropout(t, self.config.dropout)?;
        Ok((self.output.forward(tape, t)?, last))
    }

    pub(super) fn logits<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
        inputs: &Sequences,
    ) -> Result<Var, NnError> {
        let (c, start) = self.encode(tape, source)?;
        Ok(self.decode(tape, (&inputs.ids, &inputs.items), c, &[start])?.0)
    }

    pub(super) fn start<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
    ) -> Result<RnnState<T>, NnError> {
        let (c, start) = self.encode(tape, source)?;
        let mut state = RnnState::new(tape, source.items.items(), &[start]);
        state.feed = Some(tape.value(c).clone());
        Ok(state)
    }

    pub(super) fn step<T: Real>(
        &self,
        packed: &PackedParams<T>,
        state: &mut RnnState<T>,
        previous: &[u32],
    ) -> Result<Tensor<T>, NnError> {
        let mut tape = Tape::inference(packed);
        let before = state.vars(&mut tape);
        let c = state.feed_var(&mut tape);
        let items = Ragged::new(&vec![1; previous.len()]);
        let (logits, after) = self.decode(&mut tape, (previous, &items), c, &before)?;
        state.set(&tape, &after);
        Ok(tape.value(logits).clone())
    }
}
