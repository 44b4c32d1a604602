//! A recurrent decoder with attention over a whole packed batch, as one operator.
//!
//! ```text
//! attend, then update (Bahdanau)            update, then attend (Luong)
//! c_t = attend(s_{t−1})                     s_t = RNN([x_t; h̃_{t−1}], s_{t−1})
//! s_t = RNN([x_t; c_t], s_{t−1})            c_t = attend(s_t)
//! result [s_{t−1}; c_t]                     result h̃_t = tanh(W_c [s_t; c_t]), or [s_t; c_t] without W_c
//! ```
//!
//! RNN is one layer or several, the state of the top one asks. What does not depend on the recurrence
//! is done outside for all times at once: W_x x_t + b comes as an argument, keys come projected, and the
//! read-out takes the result. Here, each time is one product over the rows that still run, and the
//! gradients of all matrices are one product each after the last.

mod backward;
mod layer;
mod run;

use regard_tensor::{Real, ShapeError, Tensor};

use layer::Layer;
use run::Decoder;

use super::align::{AlignSpec, Arrays, Seen, seen};
use super::recurrent::{Cell, Direction, Steps};
use crate::layers::StateVars;
use crate::{NnError, Ragged, Tape, Var};

/// Whether a decoder asks with the state before its step or after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// c_t from s_{t−1}; c_t is fed into the step.
    AttendFirst,
    /// c_t from s_t; h̃_{t−1} is fed into the step, where there is W_feed.
    UpdateFirst,
}

/// One layer of a decoder.
#[derive(Debug, Clone, Copy)]
pub struct DecoderLayer {
    /// W `[gates·h, h]` and b `[gates·h]` by the layer below; none for the first, whose input comes
    /// projected.
    pub input: Option<(Var, Var)>,
    /// The recurrent matrix `[gates·h, h]`.
    pub w_hh: Var,
    /// A GRU's recurrent bias `[3h]`.
    pub b_hh: Option<Var>,
    /// The state before the first step, `[items, h]`.
    pub initial: StateVars,
}

/// A decoder.
#[derive(Debug, Clone)]
pub struct DecoderSpec<T: Real> {
    /// The recurrent cell.
    pub cell: Cell,
    /// When it attends.
    pub order: Order,
    /// The layers, the first one first.
    pub layers: Vec<DecoderLayer>,
    /// W_feed `[gates·h, d_feed]`: how the context (attend first) or h̃ (update first) enters the first layer.
    pub w_feed: Option<Var>,
    /// W_c `[d_h̃, h + d_v]`, under update first.
    pub combine: Option<Var>,
    /// The attention.
    pub align: AlignSpec<T>,
    /// Dropout on the input of every layer but the first.
    pub dropout: f64,
}

/// What a step needs to know of the one before, where a decoder goes on from a given place.
#[derive(Debug, Clone, Default)]
pub struct Resumed<T: Real> {
    /// The time of the first step.
    pub time: usize,
    /// h̃ before the first step, `[items, d_h̃]`; zero without it.
    pub feed: Option<Tensor<T>>,
    /// The weights before the first step; zero without them.
    pub weights: Option<Vec<Vec<T>>>,
}

/// What [`Tape::attentive_decoder`] gives.
#[derive(Debug, Clone)]
pub struct Decoded<T: Real> {
    /// The result of every step, in the order of the inputs.
    pub read: Var,
    /// h and an LSTM's c of every layer after the last step, `[items, h]`.
    pub states: Vec<(Tensor<T>, Option<Tensor<T>>)>,
    /// What each step looked at, where asked for.
    pub seen: Option<Seen<T>>,
}

impl<T: Real> Tape<'_, T> {
    /// A recurrent decoder with attention over every item of a packed batch.
    ///
    /// xw `[total, gates·h]` is W_x x + b of the first layer for every input; item b looks at source
    /// `of_item[b]`. With h̃ (W_c) the result is `[total, d_h̃]`, else `[total, h + d_v]`: the state that
    /// asked and its context. Memory for backward: about (6·layers·h + d_k + d_v + S)·total numbers,
    /// S the keys that a step may see.
    ///
    /// # Errors
    /// Names the argument whose shape does not fit.
    pub fn attentive_decoder(
        &mut self,
        xw: Var,
        items: &Ragged,
        of_item: &[usize],
        spec: DecoderSpec<T>,
        resumed: &Resumed<T>,
        want_seen: bool,
    ) -> Result<Decoded<T>, NnError> {
        let name = "attentive_decoder";
        let (total, n_items) = (items.total(), items.items());
        let Some(first) = spec.layers.first() else {
            return Err(ShapeError::new(name, "layers", "at least one", 0).into());
        };
        let h = self.value(first.w_hh).cols();
        let wide = spec.cell.gates() * h;
        if h == 0 {
            return Err(ShapeError::new(name, "w_hh", "at least 1 wide", 0).into());
        }
        ShapeError::expect(name, "xw", &[total, wide], &self.shape(xw))?;
        ShapeError::expect(name, "sources of items", &[n_items], &[of_item.len()])?;
        spec.align.check(self, h, of_item)?;
        let d_v = self.value(spec.align.values).cols();
        let mut inputs = spec.align.vars();
        inputs.push(xw);
        for (l, layer) in spec.layers.iter().enumerate() {
            ShapeError::expect(name, "w_hh", &[wide, h], &self.shape(layer.w_hh))?;
            ShapeError::expect(name, "initial", &[n_items, h], &self.shape(layer.initial.h))?;
            if (spec.cell == Cell::Lstm) != layer.initial.c.is_some() {
                let expected = "a cell for an LSTM, and none for a GRU";
                return Err(ShapeError::new(name, "initial", expected, "other").into());
            }
            if let Some(c) = layer.initial.c {
                ShapeError::expect(name, "initial cell", &[n_items, h], &self.shape(c))?;
            }
            if let Some(b) = layer.b_hh {
                ShapeError::expect(name, "b_hh", &[wide], &self.shape(b))?;
            }
            if layer.input.is_some() != (l > 0) {
                let expected = "one for each layer but the first";
                return Err(ShapeError::new(name, "input", expected, format!("layer {l}")).into());
            }
            if let Some((w, b)) = layer.input {
                ShapeError::expect(name, "input", &[wide, h], &self.shape(w))?;
                ShapeError::expect(name, "input bias", &[wide], &self.shape(b))?;
                inputs.extend([w, b]);
            }
            inputs.extend([layer.w_hh, layer.initial.h]);
            inputs.extend(layer.b_hh.iter().chain(&layer.initial.c));
        }
        let first = spec.order == Order::AttendFirst;
        let d_fed = match spec.combine {
            Some(w) if !first => {
                let d = self.shape(w)[0];
                ShapeError::expect(name, "combine", &[d, h + d_v], &self.shape(w))?;
                d
            }
            None => 0,
            Some(_) => {
                let expected = "none where attention comes first";
                return Err(ShapeError::new(name, "combine", expected, "one").into());
            }
        };
        if let Some(w) = spec.w_feed {
            let d = if first { d_v } else { d_fed };
            ShapeError::expect(name, "w_feed", &[wide, d], &self.shape(w))?;
        }
        inputs.extend(spec.w_feed.iter().chain(&spec.combine));
        if let Some(feed) = &resumed.feed {
            ShapeError::expect(name, "feed", &[n_items, d_fed], feed.shape())?;
        }
        if let Some(weights) = &resumed.weights {
            if self.records() {
                let expected = "none while gradients are recorded";
                return Err(ShapeError::new(name, "weights", expected, "some").into());
            }
            ShapeError::expect(name, "weights", &[n_items], &[weights.len()])?;
            for (row, item) in weights.iter().zip(of_item) {
                let len = spec.align.sources.lengths()[*item];
                ShapeError::expect(name, "weights", &[len], &[row.len()])?;
            }
        }
        if !(0.0..1.0).contains(&spec.dropout) {
            let (expected, actual) = ("in [0, 1)".into(), spec.dropout.to_string());
            return Err(NnError::Hyper { name: "dropout", expected, actual });
        }
        let drops = spec.dropout > 0.0 && spec.layers.len() > 1;
        let key = if drops { self.next_key() } else { None };

        let steps = Steps::new(items, Direction::Forward);
        let mut places = vec![(0, 0); total];
        for t in 0..steps.len() {
            for r in 0..steps.width(t) {
                places[steps.starts[t] + r] = (of_item[steps.order[r]], resumed.time + t);
            }
        }
        let layer = |l: usize, vars: &DecoderLayer| {
            let value = |var: Var| self.value(var).clone();
            let given = (value(vars.initial.h), vars.initial.c.map(value));
            let lstm = spec.cell == Cell::Lstm;
            Layer {
                vars: *vars,
                w_in: vars.input.map(|(w, b)| (self.matrix(w), value(b))),
                w_hh: self.matrix(vars.w_hh),
                b_hh: vars.b_hh.map(value),
                first: (steps.first(&given.0), given.1.as_ref().map(|c| steps.first(c))),
                input: Tensor::stale(&[if l > 0 { total } else { 0 }, h]),
                gates: Tensor::stale(&[total, 4 * h]),
                cell: Tensor::stale(&[if lstm { total } else { 0 }, h]),
                hidden: Tensor::stale(&[total, h]),
            }
        };
        let layers: Vec<Layer<T>> =
            spec.layers.iter().enumerate().map(|(l, vars)| layer(l, vars)).collect();
        let given: Vec<StateVars> = spec.layers.iter().map(|l| l.initial).collect();
        let arrays = Arrays::new(self, spec.align);
        let mut decoder = Decoder {
            kind: spec.cell,
            order: spec.order,
            h,
            kept: arrays.kept(places),
            first_feed: resumed.feed.as_ref().map(|feed| steps.first(feed)),
            steps,
            layers,
            w_feed: spec.w_feed.map(|w| self.matrix(w)),
            combine: spec
                .combine
                .map(|w| (self.matrix_part(w, 0..h), self.matrix_part(w, h..h + d_v))),
            context: Tensor::stale(&[total, arrays.d_v()]),
            fed: Tensor::stale(&[total, d_fed]),
            arrays,
            dropout: key.map(|key| (spec.dropout, key)),
        };
        decoder.forward(self.value(xw), resumed.weights.as_deref());
        let seen = want_seen.then(|| {
            let mut row_of = vec![0; total];
            for (row, source) in decoder.steps.source.iter().enumerate() {
                row_of[*source as usize] = row;
            }
            seen(&decoder.arrays, &decoder.kept, row_of.into_iter())
        });
        let last = |(layer, given): (&Layer<T>, &StateVars)| {
            let last = |t: &Tensor<T>, given: Var| decoder.steps.last(t, Some(self.value(given)));
            (last(&layer.hidden, given.h), given.c.map(|c| last(&layer.cell, c)))
        };
        let states = decoder.layers.iter().zip(&given).map(last).collect();
        let read = decoder.read();
        let vars = (spec.w_feed, spec.combine);
        let read =
            self.record(read, &inputs, move |dy, grads| decoder.backward(dy, xw, vars, grads));
        Ok(Decoded { read, states, seen })
    }
}
