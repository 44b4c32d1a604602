//! One layer of a decoder: a step of its cell over the rows that still run, and the way back.

use regard_tensor::{Key, Real, Tensor};

use super::DecoderLayer;
use crate::ops::recurrent::{Cell, Matrix};
use crate::ops::{gru, lstm};

/// One layer's arrays; what backward needs in step-major order.
pub(super) struct Layer<T: Real> {
    pub(super) vars: DecoderLayer,
    pub(super) w_in: Option<(Matrix<T>, Tensor<T>)>,
    pub(super) w_hh: Matrix<T>,
    pub(super) b_hh: Option<Tensor<T>>,
    /// h and c before the first step.
    pub(super) first: (Tensor<T>, Option<Tensor<T>>),
    /// What comes from the layer below, after dropout `[total, h]`.
    pub(super) input: Tensor<T>,
    pub(super) gates: Tensor<T>,
    pub(super) cell: Tensor<T>,
    pub(super) hidden: Tensor<T>,
}

/// `rows` rows of an array `d` wide, from row `from` on.
pub(super) fn rows_of<T: Real>(t: &Tensor<T>, from: usize, rows: usize) -> &[T] {
    let d = t.cols();
    &t.data()[from * d..(from + rows) * d]
}

pub(super) fn fill_rows<T: Real>(out: &mut [T], row: &[T]) {
    for out in out.chunks_exact_mut(row.len().max(1)) {
        out.copy_from_slice(row);
    }
}

pub(super) fn add<T: Real>(out: &mut [T], x: &[T]) {
    out.iter_mut().zip(x).for_each(|(o, x)| *o += *x);
}

/// `x ∘ mask`, the mask of the rows from `first` on of layer `l`.
pub(super) fn drop_out<T: Real>(dropout: Option<(f64, Key)>, l: usize, first: usize, x: &mut [T]) {
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

impl<T: Real> Layer<T> {
    /// The states after step t, given the arguments of the gates by their input.
    pub(super) fn step(
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
                self.w_hh.times(argument, 1.0, old, n);
                gates.copy_from_slice(argument);
                let (done, cell) = self.cell.data_mut().split_at_mut(from * h);
                let first = self.first.1.as_ref().map_or(&[][..], |c| c.data());
                let old_cell = if t == 0 { first } else { &done[before * h..] };
                lstm::cells_forward(h, (gates, &mut cell[..n * h], now), Some(old_cell));
            }
            Cell::Gru => {
                match &self.b_hh {
                    Some(b) => fill_rows(recurrent, b.data()),
                    None => recurrent.fill(T::ZERO),
                }
                self.w_hh.times(recurrent, 1.0, old, n);
                let argument = &*argument;
                let xw = |r: usize| &argument[r * 3 * h..(r + 1) * 3 * h];
                gru::cells_forward(h, xw, recurrent, Some(old), (gates, now));
            }
        }
    }

    /// The way back of [`Layer::step`]: `dy` comes from outside the recurrence, `dh` and `dc` from the
    /// step after and become those of the step before.
    pub(super) fn step_backward(
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
                let dy = |r: usize| &dy[r * h..(r + 1) * h];
                lstm::cells_backward(h, (gates, cell, old), dy, dh, (dc, dx));
                self.w_hh.back(dh, 0.0, dx, n);
            }
            Cell::Gru => {
                let old =
                    if t == 0 { self.first.0.data() } else { &self.hidden.data()[before * h..] };
                let dy = |r: usize| &dy[r * h..(r + 1) * h];
                gru::cells_backward(h, (gates, old), dy, (&mut *dh, dx, &mut *du));
                self.w_hh.back(dh, 1.0, du, n);
            }
        }
    }
}
