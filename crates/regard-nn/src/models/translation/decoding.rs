//! Writing step by step: the states of a batch of half-written outputs.

use std::sync::Arc;

use regard_tensor::{Real, ShapeError, Tensor};

use super::alignment::Source;
use super::transformer::TransformerState;
use super::translator::Translator;
use crate::layers::StateVars;
use crate::ops::{Resumed, Seen};
use crate::{NnError, PackedParams, Tape, Var};

/// A batch of half-written outputs, one a row; several rows may write for one source.
///
/// Each [`Decoding::step`] takes the token that every row wrote last and gives the
/// log-probabilities of the next. They equal those of the whole output at once, as
/// [`Translator::loss`] has them, up to rounding.
#[derive(Debug, Clone)]
pub struct Decoding<'m, T: Real> {
    pub(super) model: &'m Translator,
    pub(super) packed: Arc<PackedParams<T>>,
    pub(super) state: State<T>,
    pub(super) keep_attention: bool,
    pub(super) attention: Option<Vec<Vec<T>>>,
}

/// What a model keeps between steps.
#[derive(Debug, Clone)]
pub(super) enum State<T: Real> {
    Rnn(RnnState<T>),
    Transformer(TransformerState<T>),
}

/// What a step gives.
pub(super) struct Step<T: Real> {
    /// The logits of the next token, `[rows, target_vocab]`.
    pub(super) logits: Tensor<T>,
    /// What each row looked at.
    pub(super) seen: Option<Seen<T>>,
}

/// The state of a recurrent decoder.
#[derive(Debug, Clone)]
pub(super) struct RnnState<T: Real> {
    /// The source that each row writes for.
    pub(super) source: Vec<usize>,
    /// h, and an LSTM's c, of each layer, `[rows, hidden]`.
    pub(super) layers: Vec<(Tensor<T>, Option<Tensor<T>>)>,
    /// What else each row carries: the fixed context, or h̃.
    pub(super) feed: Option<Tensor<T>>,
    /// What the decoder looks at.
    pub(super) annotations: Option<Source<T>>,
    /// Steps so far.
    time: usize,
    /// The weights of the last step, for a score that looks at them.
    weights: Option<Vec<Vec<T>>>,
}

impl<T: Real> RnnState<T> {
    /// One row a source, with these states.
    pub(super) fn new(tape: &Tape<'_, T>, rows: usize, layers: &[StateVars]) -> Self {
        let mut state = Self {
            source: (0..rows).collect(),
            layers: Vec::new(),
            feed: None,
            annotations: None,
            time: 0,
            weights: None,
        };
        state.set(tape, layers);
        state
    }

    /// The states on a tape.
    pub(super) fn vars(&self, tape: &mut Tape<'_, T>) -> Vec<StateVars> {
        let var = |(h, c): &(Tensor<T>, Option<Tensor<T>>)| StateVars {
            h: tape.constant(h.clone()),
            c: c.as_ref().map(|c| tape.constant(c.clone())),
        };
        self.layers.iter().map(var).collect()
    }

    /// What each row carries beside its states, on a tape; nothing as no columns.
    pub(super) fn feed_var(&self, tape: &mut Tape<'_, T>) -> Var {
        let none = || Tensor::zeros(&[self.source.len(), 0]);
        tape.constant(self.feed.clone().unwrap_or_else(none))
    }

    /// Takes the states after a step.
    pub(super) fn set(&mut self, tape: &Tape<'_, T>, layers: &[StateVars]) {
        let value = |s: &StateVars| (tape.value(s.h).clone(), s.c.map(|c| tape.value(c).clone()));
        self.layers = layers.iter().map(value).collect();
    }

    /// What the decoder looks at.
    pub(super) fn annotations(&self) -> Result<&Source<T>, NnError> {
        let missing = || ShapeError::new("step", "annotations", "those of the start", "none");
        Ok(self.annotations.as_ref().ok_or_else(missing)?)
    }

    /// Where the next step goes on from.
    pub(super) fn resumed(&self) -> Resumed<T> {
        Resumed { time: self.time, feed: self.feed.clone(), weights: self.weights.clone() }
    }

    /// Takes what a step of a decoder with attention left; its weights where `aware`.
    pub(super) fn advance(
        &mut self,
        layers: Vec<(Tensor<T>, Option<Tensor<T>>)>,
        seen: Option<&Seen<T>>,
        aware: bool,
    ) {
        self.layers = layers;
        self.time += 1;
        self.weights = seen.filter(|_| aware).map(|seen| seen.weights.clone());
    }

    fn select(&mut self, rows: &[usize]) {
        self.source = chosen_of(&self.source, rows);
        self.weights = self.weights.as_ref().map(|weights| chosen_of(weights, rows));
        for (h, c) in &mut self.layers {
            *h = chosen(h, rows);
            *c = c.as_ref().map(|c| chosen(c, rows));
        }
        self.feed = self.feed.as_ref().map(|feed| chosen(feed, rows));
    }
}

/// The chosen entries of a list.
pub(super) fn chosen_of<X: Clone>(of: &[X], rows: &[usize]) -> Vec<X> {
    rows.iter().map(|row| of[*row].clone()).collect()
}

/// The chosen rows of a matrix.
pub(super) fn chosen<T: Real>(of: &Tensor<T>, rows: &[usize]) -> Tensor<T> {
    let d = of.cols();
    let mut out = Tensor::stale(&[rows.len(), d]);
    for (out, row) in out.data_mut().chunks_exact_mut(d.max(1)).zip(rows) {
        out.copy_from_slice(of.row(*row));
    }
    out
}

impl<T: Real> Decoding<'_, T> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.sources().len()
    }

    /// The source that each row writes for.
    pub fn sources(&self) -> &[usize] {
        match &self.state {
            State::Rnn(state) => &state.source,
            State::Transformer(state) => &state.source,
        }
    }

    /// Whether [`Decoding::attention`] is wanted.
    pub fn keep_attention(&mut self, keep: bool) {
        self.keep_attention = keep;
        self.attention = None;
    }

    /// The weights of the last step over each row's source; `None` where they are not kept, or the
    /// model has none. The Transformer's are those of the last layer, averaged over the heads.
    pub fn attention(&self) -> Option<&[Vec<T>]> {
        self.attention.as_deref()
    }

    /// The log-probabilities of the next token, `[rows, target_vocab]`, given the one that each row wrote
    /// last: [`BEGIN`](super::BEGIN) at first.
    ///
    /// # Errors
    /// There is not one token a row, or a token is outside the vocabulary.
    pub fn step(&mut self, previous: &[u32]) -> Result<Tensor<T>, NnError> {
        ShapeError::expect("step", "previous", &[self.rows()], &[previous.len()])?;
        let vocab = self.model.config().target_vocab;
        if let Some(at) = previous.iter().position(|id| *id as usize >= vocab) {
            let (operation, index) = ("step", previous[at] as usize);
            return Err(NnError::Index { operation, what: "token", index, at, limit: vocab });
        }
        let (model, keep) = (self.model, self.keep_attention);
        let Step { mut logits, seen } =
            model.step(&self.packed, &mut self.state, previous, keep)?;
        self.attention = seen.filter(|_| keep).map(|seen| seen.weights);
        log_softmax(&mut logits);
        Ok(logits)
    }

    /// Keeps the chosen rows, in this order; a row may be chosen more than once, or not at all.
    ///
    /// # Errors
    /// A row that is not there.
    pub fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
        let limit = self.rows();
        if let Some(at) = rows.iter().position(|row| *row >= limit) {
            let (operation, index) = ("select", rows[at]);
            return Err(NnError::Index { operation, what: "row", index, at, limit });
        }
        if rows.len() == limit && rows.iter().enumerate().all(|(at, row)| at == *row) {
            return Ok(());
        }
        match &mut self.state {
            State::Rnn(state) => state.select(rows),
            State::Transformer(state) => state.select(rows),
        }
        self.attention = self.attention.take().map(|all| chosen_of(&all, rows));
        Ok(())
    }
}

/// `z ← z − lse(z)`, row by row.
pub(super) fn log_softmax<T: Real>(z: &mut Tensor<T>) {
    use regard_tensor::kernels::reduce;
    use regard_tensor::{parallel, simd};
    let classes = z.cols().max(1);
    let (step, work) = (parallel::rows_per_chunk(classes) * classes, z.len() * 12);
    parallel::chunks(z.data_mut(), step, work, |_, rows| {
        simd::vectorise(
            #[inline(always)]
            move || {
                for row in rows.chunks_exact_mut(classes) {
                    let top = reduce::max(row);
                    let mut lanes = [T::ZERO; 8];
                    let mut whole = row.chunks_exact(8);
                    for eight in &mut whole {
                        for l in 0..8 {
                            lanes[l] += (eight[l] - top).exp();
                        }
                    }
                    let rest = whole.remainder().iter().map(|z| (*z - top).exp());
                    let total = lanes.into_iter().chain(rest).fold(T::ZERO, |a, b| a + b);
                    let lse = top + total.ln();
                    for z in row {
                        *z -= lse;
                    }
                }
            },
        );
    });
}
