//! Global and local attention over stacked recurrent layers, with input feeding.
//!
//! ```text
//! encoder    h̄ = RNN(E_x x), the top layer's states        decoder starts from its last states, layer by layer
//! decoder    s_t = RNN([E_y y_{t−1}; h̃_{t−1}], s_{t−1}), h̃_{t−1} where the input is fed; h_t its top state
//! score      dot h_t·h̄_s | general h_tᵀ W_a h̄_s | concat v_aᵀ tanh(W_a [h_t; h̄_s]) | location (W_a h_t)_s
//! scope      global | local-m: |s − t| ≤ D | local-p: |s − ⌊p_t⌋| ≤ D, weights times exp(−(s − p_t)²/2σ²), σ = D/2,
//!            p_t = (S − 1) σ(v_pᵀ tanh(W_p h_t)), positions from 0
//! output     h̃_t = tanh(W_c [h_t; c_t])        p(y_t) = softmax(W_s h̃_t)
//! ```
//!
//! Luong, Pham and Manning 2015 (<https://arxiv.org/abs/1508.04025>): four LSTM layers of 1000, D = 10, the source
//! reversed. As in the paper's code the centre of local-m is moved back into the source, and the weights are
//! not normalised again after the Gaussian. Departures: W_s has a bias; a reversed source is read from its last
//! token to its first, with the annotations left where their tokens stand.

use regard_tensor::Real;

use super::alignment::{Alignment, AlignmentConfig};
use super::decoding::{RnnState, Step};
use super::{Annotations, LuongConfig, Sequences};
use crate::layers::{Embedding, Linear, Stack, StateVars};
use crate::models::at_least_one;
use crate::ops::{
    Activation, AlignSpec, DecoderLayer, DecoderSpec, Direction, Order, Resumed, Seen,
};
use crate::{Init, NnError, PackedParams, ParamId, ParamSpecs, Ragged, Tape, Var};

/// See the [module](self).
#[derive(Debug, Clone)]
pub struct Luong {
    config: LuongConfig,
    source: Embedding,
    encoder: Stack,
    decoder: LuongDecoder,
}

/// The decoder, over whatever yields [`Annotations`].
#[derive(Debug, Clone)]
pub struct LuongDecoder {
    config: LuongConfig,
    target: Embedding,
    stack: Stack,
    alignment: Alignment,
    /// How h̃ enters the first layer.
    w_feed: Option<ParamId>,
    /// W_c
    combine: ParamId,
    output: Linear,
}

/// What a decoder's run gives.
struct Run<T: Real> {
    /// h̃ of every step.
    read: Var,
    states: Vec<StateVars>,
    seen: Option<Seen<T>>,
}

impl LuongDecoder {
    /// A decoder of `target_vocab` tokens over annotations `d_annotation` wide.
    ///
    /// # Errors
    /// A size of 0, or parts that do not go together.
    pub fn new(
        specs: &mut ParamSpecs,
        d_annotation: usize,
        target_vocab: usize,
        config: LuongConfig,
    ) -> Result<Self, NnError> {
        let LuongConfig { cell, embedding, hidden, layers, dropout, .. } = config;
        at_least_one(&[("embedding", embedding), ("hidden", hidden), ("layers", layers)])?;
        let alignment = AlignmentConfig {
            d_state: hidden,
            d_annotation,
            d_hidden: hidden,
            score: config.score,
            scope: config.scope,
            radius: config.radius,
            max_source: config.max_source,
            normaliser: config.normaliser,
            location_aware: config.location_aware,
        };
        let sizes = (embedding, hidden, layers);
        Ok(Self {
            config,
            target: Embedding::new(specs, "target", target_vocab, embedding, 0.1),
            stack: Stack::new(specs, "decoder", cell, sizes, false, dropout)?,
            alignment: Alignment::new(specs, "attention", alignment)?,
            w_feed: config.input_feeding.then(|| {
                specs.add("decoder.w_feed", &[cell.gates() * hidden, hidden], Init::Glorot)
            }),
            combine: specs.add("combine", &[hidden, hidden + d_annotation], Init::Glorot),
            output: Linear::new(specs, "output", hidden, target_vocab),
        })
    }

    /// The logits of the token after each of `inputs`, `[inputs, target_vocab]`, from these states of
    /// the layers, and what each step looked at, where asked for.
    ///
    /// # Errors
    /// Shapes that do not fit, an id outside the vocabulary.
    pub fn logits<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        annotations: &Annotations,
        states: &[StateVars],
        inputs: &Sequences,
        want_seen: bool,
    ) -> Result<(Var, Option<Seen<T>>), NnError> {
        let align = self.alignment.spec(tape, annotations)?;
        let of_item: Vec<usize> = (0..inputs.items.items()).collect();
        let inputs = (&inputs.ids[..], &inputs.items);
        let run =
            self.run(tape, inputs, &of_item, align, states, &Resumed::default(), want_seen)?;
        let read = tape.dropout(run.read, self.config.dropout)?;
        Ok((self.output.forward(tape, read)?, run.seen))
    }

    fn run<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        (ids, items): (&[u32], &Ragged),
        of_item: &[usize],
        align: AlignSpec<T>,
        states: &[StateVars],
        resumed: &Resumed<T>,
        want_seen: bool,
    ) -> Result<Run<T>, NnError> {
        let y = self.target.forward(tape, ids)?;
        let y = tape.dropout(y, self.config.dropout)?;
        let combine = tape.param(self.combine);
        if self.w_feed.is_none() && align.location.is_none() {
            // No step depends on what the one before looked at: all times at once.
            let (h, states) =
                self.stack.forward(tape, y, items, Direction::Forward, Some(states))?;
            let aligned = tape.align(h, items, of_item, resumed.time, align, want_seen)?;
            let read = tape.concat(&[h, aligned.context])?;
            let read = tape.linear(read, combine, None, Activation::Tanh, None)?;
            return Ok(Run { read, states, seen: aligned.seen });
        }
        let cells = self.stack.cells();
        let (w, b) = (tape.param(cells[0].w_ih), tape.param(cells[0].b));
        let xw = tape.linear(y, w, Some(b), Activation::None, None)?;
        let layers = cells.iter().zip(states).enumerate().map(|(l, (cell, initial))| {
            let input = (l > 0).then(|| (tape.param(cell.w_ih), tape.param(cell.b)));
            let (w_hh, b_hh) = (tape.param(cell.w_hh), cell.b_hh.map(|b| tape.param(b)));
            DecoderLayer { input, w_hh, b_hh, initial: *initial }
        });
        let layers = layers.collect();
        let spec = DecoderSpec {
            cell: self.config.cell,
            order: Order::UpdateFirst,
            layers,
            w_feed: self.w_feed.map(|w| tape.param(w)),
            combine: Some(combine),
            align,
            dropout: self.config.dropout,
        };
        let decoded = tape.attentive_decoder(xw, items, of_item, spec, resumed, want_seen)?;
        let states = decoded
            .states
            .into_iter()
            .map(|(h, c)| StateVars { h: tape.constant(h), c: c.map(|c| tape.constant(c)) });
        let states = states.collect();
        Ok(Run { read: decoded.read, states, seen: decoded.seen })
    }

    /// A row a source before the first token.
    pub(super) fn start<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        annotations: &Annotations,
        states: &[StateVars],
    ) -> Result<RnnState<T>, NnError> {
        let mut state = RnnState::new(tape, annotations.items.items(), states);
        state.annotations = Some(self.alignment.source(tape, annotations)?);
        Ok(state)
    }

    pub(super) fn step<T: Real>(
        &self,
        packed: &PackedParams<T>,
        state: &mut RnnState<T>,
        previous: &[u32],
        keep: bool,
    ) -> Result<Step<T>, NnError> {
        let mut tape = Tape::inference(packed);
        let align = self.alignment.resumed(&mut tape, state.annotations()?);
        let items = Ragged::new(&vec![1; previous.len()]);
        let before = state.vars(&mut tape);
        let aware = self.config.location_aware.is_some();
        let run = self.run(
            &mut tape,
            (previous, &items),
            &state.source,
            align,
            &before,
            &state.resumed(),
            keep || aware,
        )?;
        let logits = self.output.forward(&mut tape, run.read)?;
        let value = |s: &StateVars| (tape.value(s.h).clone(), s.c.map(|c| tape.value(c).clone()));
        let states = run.states.iter().map(value).collect();
        state.advance(states, run.seen.as_ref(), aware);
        if self.w_feed.is_some() {
            state.feed = Some(tape.value(run.read).clone());
        }
        Ok(Step { logits: tape.value(logits).clone(), seen: run.seen })
    }
}

impl Luong {
    pub(super) fn new(
        specs: &mut ParamSpecs,
        (source_vocab, target_vocab): (usize, usize),
        config: LuongConfig,
    ) -> Result<Self, NnError> {
        let LuongConfig { cell, embedding, hidden, layers, bidirectional, dropout, .. } = config;
        at_least_one(&[("embedding", embedding), ("hidden", hidden), ("layers", layers)])?;
        let sizes = (embedding, hidden, layers);
        Ok(Self {
            config,
            source: Embedding::new(specs, "source", source_vocab, embedding, 0.1),
            encoder: Stack::new(specs, "encoder", cell, sizes, bidirectional, dropout)?,
            decoder: LuongDecoder::new(specs, hidden, target_vocab, config)?,
        })
    }

    /// The annotations, and the last state of every layer.
    fn encode<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
    ) -> Result<(Annotations, Vec<StateVars>), NnError> {
        let x = self.source.forward(tape, &source.ids)?;
        let x = tape.dropout(x, self.config.dropout)?;
        let way = if self.config.reverse_source { Direction::Backward } else { Direction::Forward };
        let (values, states) = self.encoder.forward(tape, x, &source.items, way, None)?;
        Ok((Annotations { values, items: source.items.clone() }, states))
    }

    pub(super) fn logits<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
        inputs: &Sequences,
        want_seen: bool,
    ) -> Result<(Var, Option<Seen<T>>), NnError> {
        let (annotations, states) = self.encode(tape, source)?;
        self.decoder.logits(tape, &annotations, &states, inputs, want_seen)
    }

    pub(super) fn start<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
    ) -> Result<RnnState<T>, NnError> {
        let (annotations, states) = self.encode(tape, source)?;
        self.decoder.start(tape, &annotations, &states)
    }

    pub(super) fn step<T: Real>(
        &self,
        packed: &PackedParams<T>,
        state: &mut RnnState<T>,
        previous: &[u32],
        keep: bool,
    ) -> Result<Step<T>, NnError> {
        self.decoder.step(packed, state, previous, keep)
    }

    /// The radius of a local scope, and the σ of its Gaussian.
    pub(super) fn window(&self) -> (Option<usize>, Option<f64>) {
        use super::AlignmentScope::{Global, LocalM, LocalP};
        match self.config.scope {
            Global => (None, None),
            LocalM => (Some(self.config.radius), None),
            LocalP => (Some(self.config.radius), Some(self.config.radius as f64 / 2.0)),
        }
    }
}
