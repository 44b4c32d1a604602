//! A decoder's steps, one after another.

use regard_tensor::kernels::elementwise::apply;
use regard_tensor::{Key, Real, Tensor};

use super::Order;
use super::layer::{Layer, drop_out, fill_rows, rows_of};
use crate::ops::align::{Arrays, Before, Kept};
use crate::ops::recurrent::{Cell, Matrix, Steps};

pub(super) struct Decoder<T: Real> {
    pub(super) kind: Cell,
    pub(super) order: Order,
    pub(super) h: usize,
    pub(super) steps: Steps,
    pub(super) layers: Vec<Layer<T>>,
    pub(super) w_feed: Option<Matrix<T>>,
    /// The parts of W_c that meet the state and the context.
    pub(super) combine: Option<(Matrix<T>, Matrix<T>)>,
    pub(super) arrays: Arrays<T>,
    pub(super) kept: Kept<T>,
    pub(super) context: Tensor<T>,
    /// h̃, where there is W_c.
    pub(super) fed: Tensor<T>,
    /// h̃ before the first step, in step-major order.
    pub(super) first_feed: Option<Tensor<T>>,
    pub(super) dropout: Option<(f64, Key)>,
}

impl<T: Real> Decoder<T> {
    /// Runs all steps; `xw` is W_x x + b, `[total, gates·h]` in packed order.
    pub(super) fn forward(&mut self, xw: &Tensor<T>, weights: Option<&[Vec<T>]>) {
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
                    w.times(argument, 1.0, context, n);
                }
            } else if let Some(w) = &self.w_feed {
                let feed = match (t, &self.first_feed) {
                    (0, None) => None,
                    (0, Some(feed)) => Some(rows_of(feed, 0, n)),
                    _ => Some(rows_of(&self.fed, before, n)),
                };
                if let Some(feed) = feed {
                    w.times(argument, 1.0, feed, n);
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
                        w.times(argument, 1.0, input, n);
                    }
                }
                let recurrent = &mut recurrent[..n * wide];
                self.layers[l].step(self.kind, (t, from, before, n), argument, recurrent);
            }
            if self.order == Order::UpdateFirst {
                let context = &mut self.context.data_mut()[from * d_v..(from + n) * d_v];
                let asks = rows_of(&self.layers[top].hidden, from, n);
                self.arrays.forward(&mut self.kept, from..from + n, asks, context, looked);
                if let Some((by_state, by_context)) = &self.combine {
                    let d = by_state.rows();
                    let fed = &mut self.fed.data_mut()[from * d..(from + n) * d];
                    // W_c [s; c] without putting the two side by side.
                    by_state.times(fed, 0.0, asks, n);
                    by_context.times(fed, 1.0, context, n);
                    apply(fed, 20, Real::tanh);
                }
            }
        }
    }

    /// The result in packed order.
    pub(super) fn read(&self) -> Tensor<T> {
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
    pub(super) fn asks(&self) -> Tensor<T> {
        let layer = &self.layers[self.layers.len() - 1];
        match self.order {
            Order::UpdateFirst => layer.hidden.clone(),
            Order::AttendFirst => self.steps.previous(&layer.hidden, Some(&layer.first.0)),
        }
    }
}
