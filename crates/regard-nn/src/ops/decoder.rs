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

use regard_tensor::kernels::matmul::{Mat, MatMut, matmul};
use regard_tensor::kernels::reduce::add_column_sums;
use regard_tensor::{Key, Real, ShapeError, Tensor, simd};

use super::align::{AlignSpec, Arrays, Before, Kept as KeptAlign, Seen, add_sums, seen};
use super::recurrent::{Cell, Direction, Steps};
use super::{gru, lstm};
use crate::layers::StateVars;
use crate::{Grads, NnError, Ragged, Tape, Var};

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

/// One layer's arrays; what backward needs in step-major order.
struct Layer<T: Real> {
    vars: DecoderLayer,
    w_in: Option<(Tensor<T>, Tensor<T>)>,
    w_hh: Tensor<T>,
    b_hh: Option<Tensor<T>>,
    /// h and c before the first step.
    first: (Tensor<T>, Option<Tensor<T>>),
    /// What comes from the layer below, after dropout `[total, h]`.
    input: Tensor<T>,
    gates: Tensor<T>,
    cell: Tensor<T>,
    hidden: Tensor<T>,
}

struct Decoder<T: Real> {
    kind: Cell,
    order: Order,
    h: usize,
    steps: Steps,
    layers: Vec<Layer<T>>,
    w_feed: Option<Tensor<T>>,
    combine: Option<Tensor<T>>,
    arrays: Arrays<T>,
    kept: KeptAlign<T>,
    context: Tensor<T>,
    /// h̃, where there is W_c.
    fed: Tensor<T>,
    /// h̃ before the first step, in step-major order.
    first_feed: Option<Tensor<T>>,
    dropout: Option<(f64, Key)>,
}

/// `rows` rows of an array `d` wide, from row `from` on.
fn rows_of<T: Real>(t: &Tensor<T>, from: usize, rows: usize) -> &[T] {
    let d = t.cols();
    &t.data()[from * d..(from + rows) * d]
}

/// `out ← β·out + x Wᵀ`
fn times<T: Real>(out: &mut [T], beta: f64, x: &[T], n: usize, w: &Tensor<T>) {
    let (d_out, d_in) = (w.dim(0), w.dim(1));
    let w = Mat::new(w.data(), d_out, d_in).t();
    matmul(MatMut::new(out, n, d_out), beta, 1.0, Mat::new(x, n, d_in), w);
}

/// `out ← β·out + dz W`
fn back<T: Real>(out: &mut [T], beta: f64, dz: &[T], n: usize, w: &Tensor<T>) {
    let (d_out, d_in) = (w.dim(0), w.dim(1));
    let w = Mat::new(w.data(), d_out, d_in);
    matmul(MatMut::new(out, n, d_in), beta, 1.0, Mat::new(dz, n, d_out), w);
}

fn fill_rows<T: Real>(out: &mut [T], row: &[T]) {
    for out in out.chunks_exact_mut(row.len().max(1)) {
        out.copy_from_slice(row);
    }
}

fn add<T: Real>(out: &mut [T], x: &[T]) {
    out.iter_mut().zip(x).for_each(|(o, x)| *o += *x);
}

/// `x ∘ mask`, the mask of the rows from `first` on of layer `l`.
fn drop_out<T: Real>(dropout: Option<(f64, Key)>, l: usize, first: usize, x: &mut [T]) {
    if let Some((rate, key)) = dropout {
        let key = key.child(l as u64);
        let threshold = (rate * f64::from(u32::MAX)) as u32;
        let scale = T::from_f64(1.0 / (1.0 - rate));
        for (i, x) in x.iter_mut().enumerate() {
            let keep = key.bits((first + i) as u32) >= threshold;
            *x = if keep { *x * scale } else { T::ZERO };
        }
    }
}

impl<T: Real> Decoder<T> {
    /// Runs all steps; `xw` is W_x x + b, `[total, gates·h]` in packed order.
    fn forward(&mut self, xw: &Tensor<T>, weights: Option<&[Vec<T>]>) {
        let (h, wide) = (self.h, self.kind.gates() * self.h);
        let (d_v, top) = (self.arrays.d_v(), self.layers.len() - 1);
        let widest = self.steps.widest();
        let given: Vec<&[T]> = match weights {
            Some(all) => self.steps.order[..widest].iter().map(|b| &all[*b][..]).collect(),
            None => Vec::new(),
        };
        let mut argument = vec![T::ZERO; widest * wide];
        let mut recurrent = vec![T::ZERO; widest * wide];
        for t in 0..self.steps.len() {
            let (from, n) = (self.steps.starts[t], self.steps.width(t));
            let before = if t == 0 { 0 } else { self.steps.starts[t - 1] };
            let looked = match (t, given.is_empty()) {
                (0, true) => Before::Nothing,
                (0, false) => Before::Given(&given),
                _ => Before::Rows(before),
            };
            let argument = &mut argument[..n * wide];
            for (row, source) in
                argument.chunks_exact_mut(wide).zip(&self.steps.source[from..from + n])
            {
                row.copy_from_slice(xw.row(*source as usize));
            }
            if self.order == Order::AttendFirst {
                let layer = &self.layers[top];
                let asks = if t == 0 {
                    rows_of(&layer.first.0, 0, n)
                } else {
                    rows_of(&layer.hidden, before, n)
                };
                let context = &mut self.context.data_mut()[from * d_v..(from + n) * d_v];
                self.arrays.forward(&mut self.kept, from..from + n, asks, context, looked);
                if let Some(w) = &self.w_feed {
                    times(argument, 1.0, context, n, w);
                }
            } else if let Some(w) = &self.w_feed {
                let feed = match (t, &self.first_feed) {
                    (0, None) => None,
                    (0, Some(feed)) => Some(rows_of(feed, 0, n)),
                    _ => Some(rows_of(&self.fed, before, n)),
                };
                if let Some(feed) = feed {
                    times(argument, 1.0, feed, n, w);
                }
            }
            for l in 0..=top {
                if l > 0 {
                    let (below, layer) = self.layers.split_at_mut(l);
                    let (below, layer) = (&below[l - 1], &mut layer[0]);
                    let input = &mut layer.input.data_mut()[from * h..(from + n) * h];
                    input.copy_from_slice(rows_of(&below.hidden, from, n));
                    drop_out(self.dropout, l, from * h, input);
                    if let Some((w, b)) = &layer.w_in {
                        fill_rows(argument, b.data());
                        times(argument, 1.0, input, n, w);
                    }
                }
                let recurrent = &mut recurrent[..n * wide];
                self.layers[l].step(self.kind, (t, from, before, n), argument, recurrent);
            }
            if self.order == Order::UpdateFirst {
                let context = &mut self.context.data_mut()[from * d_v..(from + n) * d_v];
                let asks = rows_of(&self.layers[top].hidden, from, n);
                self.arrays.forward(&mut self.kept, from..from + n, asks, context, looked);
                if let Some(w) = &self.combine {
                    let d = w.dim(0);
                    let fed = &mut self.fed.data_mut()[from * d..(from + n) * d];
                    // W_c [s; c] without putting the two side by side.
                    for (beta, x, first, width) in [(0.0, asks, 0, h), (1.0, &*context, h, d_v)] {
                        let w = Mat::strided(&w.data()[first..], d, width, h + d_v).t();
                        let x = Mat::new(x, n, width);
                        matmul(MatMut::new(&mut *fed, n, d), beta, 1.0, x, w);
                    }
                    simd::vectorise(
                        #[inline(always)]
                        move || fed.iter_mut().for_each(|x| *x = x.tanh()),
                    );
                }
            }
        }
    }

    /// The result in packed order.
    fn read(&self) -> Tensor<T> {
        if self.combine.is_some() {
            return self.steps.scatter(&self.fed);
        }
        let (h, d_v) = (self.h, self.arrays.d_v());
        let asks = self.asks();
        let mut out = Tensor::stale(&[asks.rows(), h + d_v]);
        let data = out.data_mut();
        for (row, source) in self.steps.source.iter().enumerate() {
            let out = &mut data[*source as usize * (h + d_v)..][..h + d_v];
            out[..h].copy_from_slice(asks.row(row));
            out[h..].copy_from_slice(self.context.row(row));
        }
        out
    }

    /// The states that ask, step-major.
    fn asks(&self) -> Tensor<T> {
        let layer = &self.layers[self.layers.len() - 1];
        match self.order {
            Order::UpdateFirst => layer.hidden.clone(),
            Order::AttendFirst => self.steps.previous(&layer.hidden, Some(&layer.first.0)),
        }
    }

    /// The way back: everything that goes to `grads`, given the gradient of the result.
    fn backward(
        self,
        dy: &Tensor<T>,
        xw: Var,
        vars: (Option<Var>, Option<Var>),
        grads: &mut Grads<'_, T>,
    ) {
        let (h, d_v, d_read) = (self.h, self.arrays.d_v(), dy.cols());
        let wide = self.kind.gates() * h;
        let (top, total) = (self.layers.len() - 1, self.context.rows());
        let widest = self.steps.widest();
        let d_fed = self.combine.as_ref().map_or(0, |w| w.dim(0));
        let mut sums = self.arrays.sums(&self.kept);
        // Gradients of the arguments of the gates, by their input and by their recurrent part.
        let mut by_input: Vec<Tensor<T>> =
            self.layers.iter().map(|_| Tensor::stale(&[total, wide])).collect();
        let mut by_state: Vec<Tensor<T>> = self
            .layers
            .iter()
            .map(|_| Tensor::stale(&[if self.kind == Cell::Gru { total } else { 0 }, wide]))
            .collect();
        // ∂L/∂(W_c [s; c]).
        let mut d_combine = Tensor::stale(&[total, d_fed]);
        // What the step after leaves: ∂L/∂h and ∂L/∂c of each layer, ∂L/∂h̃.
        let mut carry_h: Vec<Tensor<T>> =
            self.layers.iter().map(|_| Tensor::zeros(&[widest, h])).collect();
        let mut carry_c: Vec<Tensor<T>> =
            self.layers.iter().map(|_| Tensor::zeros(&[widest, h])).collect();
        let mut carry_feed = vec![T::ZERO; widest * d_fed];
        let mut d_below = vec![T::ZERO; widest * h];
        let mut d_context = vec![T::ZERO; widest * d_v];
        for t in (0..self.steps.len()).rev() {
            let (from, n) = (self.steps.starts[t], self.steps.width(t));
            let rows = from..from + n;
            let before = if t == 0 { 0 } else { self.steps.starts[t - 1] };
            let looked = if t == 0 { Before::Nothing } else { Before::Rows(before) };
            let d_below = &mut d_below[..n * h];
            let d_context = &mut d_context[..n * d_v];
            let sources = &self.steps.source[rows.clone()];
            d_below.fill(T::ZERO);
            if self.order == Order::UpdateFirst {
                if let Some(w) = &self.combine {
                    let dz = &mut d_combine.data_mut()[from * d_fed..(from + n) * d_fed];
                    let fed = rows_of(&self.fed, from, n);
                    for (r, source) in sources.iter().enumerate() {
                        let (at, dy) = (r * d_fed..(r + 1) * d_fed, dy.row(*source as usize));
                        let lines = dz[at.clone()].iter_mut().zip(&fed[at.clone()]);
                        for ((dz, y), (dy, late)) in lines.zip(dy.iter().zip(&carry_feed[at])) {
                            *dz = (*dy + *late) * (T::ONE - *y * *y);
                        }
                    }
                    let dz = Mat::new(&*dz, n, d_fed);
                    let part =
                        |first, width| Mat::strided(&w.data()[first..], d_fed, width, h + d_v);
                    matmul(MatMut::new(&mut *d_below, n, h), 0.0, 1.0, dz, part(0, h));
                    matmul(MatMut::new(&mut *d_context, n, d_v), 0.0, 1.0, dz, part(h, d_v));
                } else {
                    for (r, source) in sources.iter().enumerate() {
                        let dy = dy.row(*source as usize);
                        d_below[r * h..(r + 1) * h].copy_from_slice(&dy[..h]);
                        d_context[r * d_v..(r + 1) * d_v].copy_from_slice(&dy[h..d_read]);
                    }
                }
                let (kept, rows) = (&self.kept, rows.clone());
                self.arrays.backward(kept, rows, d_context, d_below, &mut sums, looked);
            }
            for l in (0..=top).rev() {
                let layer = &self.layers[l];
                let dx = &mut by_input[l].data_mut()[from * wide..(from + n) * wide];
                let du = if self.kind == Cell::Gru {
                    &mut by_state[l].data_mut()[from * wide..(from + n) * wide]
                } else {
                    &mut []
                };
                let (dh, dc) = (carry_h[l].data_mut(), carry_c[l].data_mut());
                let (dh, dc) = (&mut dh[..n * h], &mut dc[..n * h]);
                layer.step_backward(self.kind, (t, from, before, n), d_below, (dh, dc), dx, du);
                if l > 0
                    && let Some((w, _)) = &layer.w_in
                {
                    back(d_below, 0.0, dx, n, w);
                    drop_out(self.dropout, l, from * h, d_below);
                }
            }
            let dx = rows_of(&by_input[0], from, n);
            match self.order {
                Order::UpdateFirst => {
                    if let Some(w) = &self.w_feed {
                        back(&mut carry_feed[..n * d_fed], 0.0, dx, n, w);
                    }
                }
                Order::AttendFirst => {
                    let dh = &mut carry_h[top].data_mut()[..n * h];
                    for (r, source) in sources.iter().enumerate() {
                        let dy = dy.row(*source as usize);
                        add(&mut dh[r * h..(r + 1) * h], &dy[..h]);
                        d_context[r * d_v..(r + 1) * d_v].copy_from_slice(&dy[h..d_read]);
                    }
                    if let Some(w) = &self.w_feed {
                        back(d_context, 1.0, dx, n, w);
                    }
                    self.arrays.backward(&self.kept, rows, d_context, dh, &mut sums, looked);
                }
            }
        }
        self.add_gradients((xw, vars.0, vars.1), &by_input, &by_state, &d_combine, grads);
        for (layer, (dh, dc)) in self.layers.iter().zip(carry_h.iter().zip(&carry_c)) {
            let StateVars { h: state, c } = layer.vars.initial;
            for (var, d) in [(Some(state), dh), (c, dc)] {
                if let Some(var) = var
                    && grads.wants(var)
                {
                    self.steps.add_first(d.data(), h, grads.sum(var));
                }
            }
        }
        add_sums(&self.arrays, sums, &self.kept, &self.asks(), grads);
    }

    /// The gradients of the matrices: one product each over the rows of all steps.
    fn add_gradients(
        &self,
        (xw, w_feed, combine): (Var, Option<Var>, Option<Var>),
        by_input: &[Tensor<T>],
        by_state: &[Tensor<T>],
        d_combine: &Tensor<T>,
        grads: &mut Grads<'_, T>,
    ) {
        let (h, d_v) = (self.h, self.arrays.d_v());
        let mut product = |var: Var, dz: &Tensor<T>, x: &Tensor<T>| {
            if grads.wants(var) {
                let (n, d_out, d_in) = (x.rows(), dz.cols(), x.cols());
                let skipped = dz.rows() - n;
                let dz = Mat::new(&dz.data()[skipped * d_out..], n, d_out);
                let (dw, keep) = grads.slot(var);
                matmul(
                    MatMut::new(dw, d_out, d_in),
                    keep,
                    1.0,
                    dz.t(),
                    Mat::new(x.data(), n, d_in),
                );
            }
        };
        for (l, layer) in self.layers.iter().enumerate() {
            let du = if self.kind == Cell::Gru { &by_state[l] } else { &by_input[l] };
            let before = self.steps.previous(&layer.hidden, Some(&layer.first.0));
            product(layer.vars.w_hh, du, &before);
            if let Some((w, _)) = layer.vars.input {
                product(w, &by_input[l], &layer.input);
            }
        }
        if let Some(var) = w_feed {
            match self.order {
                Order::AttendFirst => product(var, &by_input[0], &self.context),
                Order::UpdateFirst => {
                    let fed = self.steps.previous(&self.fed, self.first_feed.as_ref());
                    product(var, &by_input[0], &fed);
                }
            }
        }
        if let Some(var) = combine
            && grads.wants(var)
        {
            let (n, d) = (d_combine.rows(), d_combine.cols());
            let asks = self.asks();
            let (dw, keep) = grads.slot(var);
            for (first, x) in [(0, &asks), (h, &self.context)] {
                let width = x.cols();
                let out = MatMut::strided(&mut dw[first..], d, width, h + d_v);
                let dz = Mat::new(d_combine.data(), n, d).t();
                matmul(out, keep, 1.0, dz, Mat::new(x.data(), n, width));
            }
        }
        for (l, layer) in self.layers.iter().enumerate() {
            let wide = by_input[l].cols();
            if let Some((_, b)) = layer.vars.input
                && grads.wants(b)
            {
                add_column_sums(by_input[l].data(), wide, grads.sum(b));
            }
            if let Some(b) = layer.vars.b_hh
                && grads.wants(b)
            {
                add_column_sums(by_state[l].data(), wide, grads.sum(b));
            }
        }
        if grads.wants(xw) {
            grads.add(xw, self.steps.scatter(&by_input[0]));
        }
    }
}

impl<T: Real> Layer<T> {
    /// The states after step t, given the arguments of the gates by their input.
    fn step(
        &mut self,
        kind: Cell,
        (t, from, before, n): (usize, usize, usize, usize),
        argument: &mut [T],
        recurrent: &mut [T],
    ) {
        let h = self.w_hh.cols();
        let (done, now) = self.hidden.data_mut().split_at_mut(from * h);
        let old = if t == 0 { self.first.0.data() } else { &done[before * h..] };
        let (old, now) = (&old[..n * h], &mut now[..n * h]);
        let gates = &mut self.gates.data_mut()[from * 4 * h..(from + n) * 4 * h];
        match kind {
            Cell::Lstm => {
                times(argument, 1.0, old, n, &self.w_hh);
                gates.copy_from_slice(argument);
                let (done, cell) = self.cell.data_mut().split_at_mut(from * h);
                let first = self.first.1.as_ref().map_or(&[][..], |c| c.data());
                let old_cell = if t == 0 { first } else { &done[before * h..] };
                let cell = &mut cell[..n * h];
                simd::vectorise(
                    #[inline(always)]
                    move || {
                        let rows = gates.chunks_exact_mut(4 * h).zip(old_cell.chunks_exact(h));
                        let rows = rows.zip(cell.chunks_exact_mut(h).zip(now.chunks_exact_mut(h)));
                        for ((gates, old), (c, y)) in rows {
                            lstm::cell_forward(gates, Some(old), c, y);
                        }
                    },
                );
            }
            Cell::Gru => {
                match &self.b_hh {
                    Some(b) => fill_rows(recurrent, b.data()),
                    None => recurrent.fill(T::ZERO),
                }
                times(recurrent, 1.0, old, n, &self.w_hh);
                let (argument, recurrent) = (&*argument, &*recurrent);
                simd::vectorise(
                    #[inline(always)]
                    move || {
                        let rows = argument.chunks_exact(3 * h).zip(recurrent.chunks_exact(3 * h));
                        let rows = rows.zip(old.chunks_exact(h).zip(gates.chunks_exact_mut(4 * h)));
                        for (((xw, hw), (old, gates)), y) in rows.zip(now.chunks_exact_mut(h)) {
                            gru::cell_forward(xw, hw, Some(old), gates, y);
                        }
                    },
                );
            }
        }
    }

    /// The way back of [`Layer::step`]: `dy` comes from outside the recurrence, `dh` and `dc` from the
    /// step after and become those of the step before.
    fn step_backward(
        &self,
        kind: Cell,
        (t, from, before, n): (usize, usize, usize, usize),
        dy: &[T],
        (dh, dc): (&mut [T], &mut [T]),
        dx: &mut [T],
        du: &mut [T],
    ) {
        let h = self.w_hh.cols();
        let gates = rows_of(&self.gates, from, n);
        match kind {
            Cell::Lstm => {
                let cell = rows_of(&self.cell, from, n);
                let first = self.first.1.as_ref().map_or(&[][..], |c| c.data());
                let old = if t == 0 { first } else { &self.cell.data()[before * h..] };
                let dh_now = &*dh;
                let out = &mut *dx;
                simd::vectorise(
                    #[inline(always)]
                    move || {
                        let rows = gates.chunks_exact(4 * h).zip(cell.chunks_exact(h));
                        let rows = rows.zip(old.chunks_exact(h).zip(dy.chunks_exact(h)));
                        let sums = dh_now.chunks_exact(h).zip(dc.chunks_exact_mut(h));
                        let rows = rows.zip(sums).zip(out.chunks_exact_mut(4 * h));
                        for ((((gates, c), (old, dy)), (dh, dc)), dz) in rows {
                            lstm::cell_backward(gates, c, Some(old), dy, dh, dc, dz);
                        }
                    },
                );
                back(dh, 0.0, dx, n, &self.w_hh);
            }
            Cell::Gru => {
                let old =
                    if t == 0 { self.first.0.data() } else { &self.hidden.data()[before * h..] };
                let (carry, dx, du_now) = (&mut *dh, &mut *dx, &mut *du);
                simd::vectorise(
                    #[inline(always)]
                    move || {
                        let rows = gates.chunks_exact(4 * h).zip(old.chunks_exact(h));
                        let rows = rows.zip(dy.chunks_exact(h).zip(carry.chunks_exact_mut(h)));
                        let out = dx.chunks_exact_mut(3 * h).zip(du_now.chunks_exact_mut(3 * h));
                        for (((gates, old), (dy, carry)), (dx, du)) in rows.zip(out) {
                            gru::cell_backward(gates, Some(old), dy, carry, dx, du);
                        }
                    },
                );
                back(dh, 1.0, du, n, &self.w_hh);
            }
        }
    }
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
                w_in: vars.input.map(|(w, b)| (value(w), value(b))),
                w_hh: value(vars.w_hh),
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
            w_feed: spec.w_feed.map(|w| self.value(w).clone()),
            combine: spec.combine.map(|w| self.value(w).clone()),
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
