//! Additive attention from the state before.
//!
//! ```text
//! encoder    h_j = [→GRU; ←GRU](E_x x)_j ∈ R^{2n}        s_0 = tanh(W_s ←h_1)
//! attention  e_ij = v_aᵀ tanh(W_a s_{i−1} + U_a h_j)     α_i = softmax_j e_ij     c_i = Σ_j α_ij h_j
//! decoder    s_i = GRU([E_y y_{i−1}; c_i], s_{i−1})
//! read-out   t̃ = U_o s_{i−1} + V_o E_y y_{i−1} + C_o c_i ∈ R^{2l}     t_k = max(t̃_{2k}, t̃_{2k+1})
//! output     p(y_i) = softmax(W_o t)
//! ```
//!
//! Bahdanau, Cho and Bengio 2015 (<https://arxiv.org/abs/1409.0473>), appendix A: RNNsearch. The paper has
//! n = n' = 1000, m = 620, l = 500. Departures: the GRU has its reset gate behind the recurrent matrix, and
//! biases (see [`Tape::gru`](crate::Tape::gru)); so have the keys and the output layer. First values are those of the
//! layers (Glorot, recurrent matrices orthogonal) in place of the paper's narrow normal ones.

use regard_tensor::{Real, Tensor};

use super::alignment::{Alignment, AlignmentConfig};
use super::decoding::{RnnState, Step};
use super::{AlignmentScope, AlignmentScore, Annotations, BahdanauConfig, Sequences};
use crate::layers::{CellParams, Embedding, Gru, Linear, StateVars};
use crate::models::at_least_one;
use crate::ops::{
    Activation, AlignSpec, Cell, Decoded, DecoderLayer, DecoderSpec, Order, Resumed, Seen,
};
use crate::{Init, NnError, PackedParams, ParamId, ParamSpecs, Ragged, Tape, Var};

/// See the [module](self).
#[derive(Debug, Clone)]
pub struct Bahdanau {
    config: BahdanauConfig,
    source: Embedding,
    encoder: Gru,
    decoder: BahdanauDecoder,
}

/// The decoder, over whatever yields [`Annotations`].
#[derive(Debug, Clone)]
pub struct BahdanauDecoder {
    config: BahdanauConfig,
    target: Embedding,
    start: Linear,
    alignment: Alignment,
    cell: CellParams,
    /// C: how the context enters the step.
    w_context: ParamId,
    readout: Linear,
    output: Linear,
}

impl BahdanauDecoder {
    /// A decoder of `target_vocab` tokens over annotations `d_annotation` wide, whose first state is made of
    /// a summary `d_summary` wide.
    ///
    /// # Errors
    /// A size of 0, or parts that do not go together.
    pub fn new(
        specs: &mut ParamSpecs,
        (d_annotation, d_summary): (usize, usize),
        target_vocab: usize,
        config: BahdanauConfig,
    ) -> Result<Self, NnError> {
        let BahdanauConfig { embedding: m, hidden: n, readout: l, .. } = config;
        at_least_one(&[("embedding", m), ("hidden", n), ("readout", l)])?;
        let alignment = AlignmentConfig {
            d_state: n,
            d_annotation,
            d_hidden: config.attention,
            score: AlignmentScore::Concat,
            scope: AlignmentScope::Global,
            radius: 0,
            max_source: 0,
            normaliser: config.normaliser,
            location_aware: config.location_aware,
        };
        Ok(Self {
            config,
            target: Embedding::new(specs, "target", target_vocab, m, 0.1),
            start: Linear::new(specs, "start", d_summary, n),
            alignment: Alignment::new(specs, "attention", alignment)?,
            cell: specs.scope("decoder", |specs| CellParams::new(specs, Cell::Gru, m, n)),
            w_context: specs.scope("decoder", |specs| {
                specs.add("w_context", &[3 * n, d_annotation], Init::Glorot)
            }),
            readout: Linear::new(specs, "readout", n + d_annotation + m, 2 * l),
            output: Linear::new(specs, "output", l, target_vocab),
        })
    }

    /// s_0 `[items, n]`, of a summary `[items, d_summary]`.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn first_state<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        summary: Var,
    ) -> Result<Var, NnError> {
        self.start.apply(tape, summary, Activation::Tanh, None)
    }

    /// The logits of the token after each of `inputs`, `[inputs, target_vocab]`, and what each step looked
    /// at, where asked for.
    ///
    /// # Errors
    /// Shapes that do not fit, an id outside the vocabulary.
    pub fn logits<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        annotations: &Annotations,
        summary: Var,
        inputs: &Sequences,
        want_seen: bool,
    ) -> Result<(Var, Option<Seen<T>>), NnError> {
        let align = self.alignment.spec(tape, annotations)?;
        let state = self.first_state(tape, summary)?;
        let of_item: Vec<usize> = (0..inputs.items.items()).collect();
        let resumed = Resumed::default();
        let inputs = (&inputs.ids[..], &inputs.items);
        let (logits, decoded) =
            self.run(tape, inputs, &of_item, align, state, &resumed, want_seen)?;
        Ok((logits, decoded.seen))
    }

    fn run<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        (ids, items): (&[u32], &Ragged),
        of_item: &[usize],
        align: AlignSpec<T>,
        state: Var,
        resumed: &Resumed<T>,
        want_seen: bool,
    ) -> Result<(Var, Decoded<T>), NnError> {
        let y = self.target.forward(tape, ids)?;
        let y = tape.dropout(y, self.config.dropout)?;
        let (w, b) = (tape.param(self.cell.w_ih), tape.param(self.cell.b));
        let xw = tape.linear(y, w, Some(b), Activation::None, None)?;
        let spec = DecoderSpec {
            cell: Cell::Gru,
            order: Order::AttendFirst,
            layers: vec![DecoderLayer {
                input: None,
                w_hh: tape.param(self.cell.w_hh),
                b_hh: self.cell.b_hh.map(|b| tape.param(b)),
                initial: StateVars { h: state, c: None },
            }],
            w_feed: Some(tape.param(self.w_context)),
            combine: None,
            align,
            dropout: 0.0,
        };
        let decoded = tape.attentive_decoder(xw, items, of_item, spec, resumed, want_seen)?;
        let read = tape.concat(&[decoded.read, y])?;
        let read = self.readout.forward(tape, read)?;
        let t = tape.maxout(read)?;
        let t = tape.dropout(t, self.config.dropout)?;
        Ok((self.output.forward(tape, t)?, decoded))
    }

    /// A row a source before the first token.
    pub(super) fn start<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        annotations: &Annotations,
        summary: Var,
    ) -> Result<RnnState<T>, NnError> {
        let h = self.first_state(tape, summary)?;
        let rows = annotations.items.items();
        let mut state = RnnState::new(tape, rows, &[StateVars { h, c: None }]);
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
        let before = state.vars(&mut tape)[0].h;
        let aware = self.config.location_aware.is_some();
        let (logits, decoded) = self.run(
            &mut tape,
            (previous, &items),
            &state.source,
            align,
            before,
            &state.resumed(),
            keep || aware,
        )?;
        state.advance(decoded.states, decoded.seen.as_ref(), aware);
        Ok(Step { logits: tape.value(logits).clone(), seen: decoded.seen })
    }
}

impl Bahdanau {
    pub(super) fn new(
        specs: &mut ParamSpecs,
        (source_vocab, target_vocab): (usize, usize),
        config: BahdanauConfig,
    ) -> Result<Self, NnError> {
        let (m, n) = (config.embedding, config.hidden);
        at_least_one(&[("embedding", m), ("hidden", n)])?;
        Ok(Self {
            config,
            source: Embedding::new(specs, "source", source_vocab, m, 0.1),
            encoder: Gru::new(specs, "encoder", m, n, true),
            decoder: BahdanauDecoder::new(specs, (2 * n, n), target_vocab, config)?,
        })
    }

    /// The annotations, and ←h_1 of every item.
    fn encode<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
    ) -> Result<(Annotations, Var), NnError> {
        let x = self.source.forward(tape, &source.ids)?;
        let x = tape.dropout(x, self.config.dropout)?;
        let (there, back) = self.encoder.directions(tape, x, &source.items)?;
        let starts: Vec<u32> =
            (0..source.items.items()).map(|b| source.items.rows(b).start as u32).collect();
        let summary = tape.embedding(back.unwrap_or(there), &starts)?;
        let parts: Vec<Var> = [Some(there), back].into_iter().flatten().collect();
        let values = tape.concat(&parts)?;
        let values = tape.dropout(values, self.config.dropout)?;
        Ok((Annotations { values, items: source.items.clone() }, summary))
    }

    pub(super) fn logits<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
        inputs: &Sequences,
        want_seen: bool,
    ) -> Result<(Var, Option<Seen<T>>), NnError> {
        let (annotations, summary) = self.encode(tape, source)?;
        self.decoder.logits(tape, &annotations, summary, inputs, want_seen)
    }

    pub(super) fn start<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Sequences,
    ) -> Result<RnnState<T>, NnError> {
        let (annotations, summary) = self.encode(tape, source)?;
        self.decoder.start(tape, &annotations, summary)
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
}

impl<T: Real> Step<T> {
    /// A step of a model without attention.
    pub(super) fn blind(logits: Tensor<T>) -> Self {
        Self { logits, seen: None }
    }
}
