//! What the recurrent operators share: the order of rows in which a packed batch of different
//! lengths becomes one matrix product a step.

use std::sync::{Arc, OnceLock};

use regard_tensor::kernels::matmul::{Mat, MatMut, Packed, matmul, matmul_packed};
use regard_tensor::{Real, Tensor};

use crate::{Grads, Ragged, Tape, Var};

/// In which direction a recurrence runs over each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first row to the last.
    Forward,
    /// From the last row to the first.
    Backward,
}

/// Which recurrent cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cell {
    /// Long short-term memory: see [`Tape::lstm`](crate::Tape::lstm).
    Lstm,
    /// Gated recurrent unit: see [`Tape::gru`](crate::Tape::gru).
    Gru,
}

impl Cell {
    /// Blocks of rows in the cell's matrices.
    pub(crate) fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }
}

/// What a recurrence leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recurrence {
    /// The state after every row, `[total, h]`, in the order of the input.
    pub states: Var,
    /// The memory cell after the last step of every item, `[items, h]`: an LSTM's alone.
    pub last_cells: Option<Var>,
}

/// How `n` rows go through a cell of width `h`: so many at a time, which cost so many operations in all.
pub(crate) fn cell_pieces(n: usize, h: usize) -> (usize, usize) {
    (n.div_ceil(8).max(4), n * h * 32)
}

/// A gradient that the backward pass of one node leaves for another's.
pub(crate) type Handed<T> = Arc<std::sync::Mutex<Option<Tensor<T>>>>;

/// Takes what was left.
pub(crate) fn take<T: Real>(handed: &Handed<T>) -> Option<Tensor<T>> {
    handed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
}

impl<T: Real> Tape<'_, T> {
    /// Writes down a second output of the operator whose first is `main`: its gradient is left in
    /// `handed` before the way back reaches `main`, which it does even where nothing used `main`.
    pub(crate) fn second_output(&mut self, value: Tensor<T>, main: Var, handed: &Handed<T>) -> Var {
        let (handed, shape) = (Arc::clone(handed), self.shape(main));
        self.record(value, &[main], move |dy, grads| {
            *handed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(dy.clone());
            grads.add(main, Tensor::zeros(&shape));
        })
    }
}

/// Step-major order of a packed batch: the rows of step 0 of every item, then of step 1, …, items
/// sorted by length, longest first. So the items that are still running at a step are a prefix of
/// those of the step before, and each step's rows are contiguous.
pub(crate) struct Steps {
    /// First step-major row of each step; one more entry holds the total.
    pub starts: Vec<usize>,
    /// Step-major row to row of the packed array.
    pub source: Vec<u32>,
    /// The items, longest first.
    pub order: Vec<usize>,
}

impl Steps {
    pub(crate) fn new(items: &Ragged, direction: Direction) -> Self {
        let mut order: Vec<usize> = (0..items.items()).collect();
        order.sort_by_key(|b| std::cmp::Reverse(items.lengths()[*b]));
        let mut starts = vec![0];
        let mut source = Vec::with_capacity(items.total());
        for t in 0..items.longest() {
            for rows in order.iter().map(|b| items.rows(*b)).take_while(|rows| rows.len() > t) {
                let row = match direction {
                    Direction::Forward => rows.start + t,
                    Direction::Backward => rows.end - 1 - t,
                };
                source.push(row as u32);
            }
            starts.push(source.len());
        }
        Self { starts, source, order }
    }

    /// Number of steps.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Items running at step `t`.
    pub(crate) fn width(&self, t: usize) -> usize {
        self.starts[t + 1] - self.starts[t]
    }

    /// Items running at the first step.
    pub(crate) fn widest(&self) -> usize {
        self.starts.get(1).copied().unwrap_or(0)
    }

    /// The rows `[items, d]` of the items running at the first step, in step-major order.
    pub(crate) fn first<T: Real>(&self, of_items: &Tensor<T>) -> Tensor<T> {
        let (n, d) = (self.widest(), of_items.cols());
        let mut out = Tensor::stale(&[n, d]);
        for (row, item) in out.data_mut().chunks_exact_mut(d.max(1)).zip(&self.order) {
            row.copy_from_slice(of_items.row(*item));
        }
        out
    }

    /// Adds step-major rows of the first step to the rows of their items.
    pub(crate) fn add_first<T: Real>(&self, rows: &[T], d: usize, of_items: &mut [T]) {
        for (row, item) in rows.chunks_exact(d.max(1)).zip(&self.order) {
            let out = &mut of_items[item * d..(item + 1) * d];
            out.iter_mut().zip(row).for_each(|(o, x)| *o += *x);
        }
    }

    /// The step-major row of the last step of every item; `None` for an empty one.
    pub(crate) fn last_rows(&self) -> Vec<Option<usize>> {
        let mut last = vec![None; self.order.len()];
        for t in 0..self.len() {
            for r in 0..self.width(t) {
                last[self.order[r]] = Some(self.starts[t] + r);
            }
        }
        last
    }

    /// The states after the last step of every item, `[items, d]`; an empty item keeps `initial`, or
    /// zero.
    pub(crate) fn last<T: Real>(
        &self,
        state: &Tensor<T>,
        initial: Option<&Tensor<T>>,
    ) -> Tensor<T> {
        let d = state.cols();
        let mut out = match initial {
            Some(initial) => initial.clone(),
            None => Tensor::zeros(&[self.order.len(), d]),
        };
        let data = out.data_mut();
        for (item, row) in self.last_rows().into_iter().enumerate() {
            if let Some(row) = row {
                data[item * d..(item + 1) * d].copy_from_slice(state.row(row));
            }
        }
        out
    }

    /// Copies step-major rows to packed order.
    pub(crate) fn scatter<T: Real>(&self, from: &Tensor<T>) -> Tensor<T> {
        let d = from.cols();
        let mut to = Tensor::stale(&[from.rows(), d]);
        let data = to.data_mut();
        for (row, place) in from.data().chunks_exact(d.max(1)).zip(&self.source) {
            let at = *place as usize * d;
            data[at..at + d].copy_from_slice(row);
        }
        to
    }

    /// The state before each step: for the rows of step t ≥ 1 the state after step t − 1 of the
    /// same item; for the first step `initial` (in step-major order), or nothing where that is zero.
    pub(crate) fn previous<T: Real>(
        &self,
        state: &Tensor<T>,
        initial: Option<&Tensor<T>>,
    ) -> Tensor<T> {
        let d = state.cols();
        let first = if initial.is_some() { 0 } else { self.widest() };
        let mut out = Tensor::stale(&[state.rows() - first, d]);
        let data = out.data_mut();
        if let Some(initial) = initial {
            data[..initial.len()].copy_from_slice(initial.data());
        }
        for t in 1..self.len() {
            let (from, to) = (self.starts[t - 1] * d, (self.starts[t] - first) * d);
            let n = self.width(t) * d;
            data[to..to + n].copy_from_slice(&state.data()[from..from + n]);
        }
        out
    }
}

/// A matrix W `[out, in]` that every step multiplies with, packed once for all of them and when first asked for.
pub(crate) struct Matrix<T: Real> {
    w: Tensor<T>,
    columns: std::ops::Range<usize>,
    forward: OnceLock<Arc<Packed<T>>>,
    backward: OnceLock<Packed<T>>,
}

impl<T: Real> Tape<'_, T> {
    /// A parameter as a matrix for many products.
    pub(crate) fn matrix(&self, w: Var) -> Matrix<T> {
        self.matrix_part(w, 0..self.value(w).cols())
    }

    /// Some of the columns of a parameter as a matrix of their own.
    pub(crate) fn matrix_part(&self, w: Var, columns: std::ops::Range<usize>) -> Matrix<T> {
        let forward = self.packed(w, columns.clone()).map_or_else(OnceLock::new, OnceLock::from);
        Matrix { w: self.value(w).clone(), columns, forward, backward: OnceLock::new() }
    }
}

impl<T: Real> Matrix<T> {
    pub(crate) fn rows(&self) -> usize {
        self.w.dim(0)
    }

    pub(crate) fn cols(&self) -> usize {
        self.columns.len()
    }

    fn mat(&self) -> Mat<'_, T> {
        Mat::strided(&self.w.data()[self.columns.start..], self.rows(), self.cols(), self.w.cols())
    }

    /// `out ← β·out + x Wᵀ` for `n` rows.
    pub(crate) fn times(&self, out: &mut [T], beta: f64, x: &[T], n: usize) {
        let w = self.forward.get_or_init(|| Arc::new(Packed::new(self.mat().t())));
        let (out, x) = (MatMut::new(out, n, self.rows()), Mat::new(x, n, self.cols()));
        matmul_packed(out, beta, 1.0, x, w);
    }

    /// `out ← β·out + dz W` for `n` rows.
    pub(crate) fn back(&self, out: &mut [T], beta: f64, dz: &[T], n: usize) {
        let w = self.backward.get_or_init(|| Packed::new(self.mat()));
        let (out, dz) = (MatMut::new(out, n, self.cols()), Mat::new(dz, n, self.rows()));
        matmul_packed(out, beta, 1.0, dz, w);
    }
}

/// x Wᵀ + b for the rows of all steps at once.
pub(crate) fn project<T: Real>(x: &Tensor<T>, w: &Tensor<T>, b: &Tensor<T>) -> Tensor<T> {
    let (n, d, out) = (x.rows(), x.cols(), w.dim(0));
    let mut y = Tensor::stale(&[n, out]);
    for row in y.data_mut().chunks_exact_mut(out.max(1)) {
        row.copy_from_slice(b.data());
    }
    let (x, w) = (Mat::new(x.data(), n, d), Mat::new(w.data(), out, d).t());
    matmul(MatMut::new(y.data_mut(), n, out), 1.0, 1.0, x, w);
    y
}

/// The derivative of [`project`] by x and W, given ∂L/∂(x Wᵀ + b) in the order of x.
pub(crate) fn project_backward<T: Real>(
    dz: &Tensor<T>,
    x: &Tensor<T>,
    x_var: Var,
    w: &Tensor<T>,
    w_var: Var,
    grads: &mut Grads<'_, T>,
) {
    let (n, d, out) = (x.rows(), x.cols(), w.dim(0));
    let dz = Mat::new(dz.data(), n, out);
    if grads.wants(w_var) {
        let (dw, keep) = grads.slot(w_var);
        matmul(MatMut::new(dw, out, d), keep, 1.0, dz.t(), Mat::new(x.data(), n, d));
    }
    if grads.wants(x_var) {
        let (dx, keep) = grads.slot(x_var);
        matmul(MatMut::new(dx, n, d), keep, 1.0, dz, Mat::new(w.data(), out, d));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_one_place_and_running_items_are_a_prefix() {
        let items = Ragged::new(&[2, 0, 3, 1]);
        let forward = Steps::new(&items, Direction::Forward);
        assert_eq!(forward.starts, [0, 3, 5, 6]);
        assert_eq!(forward.source, [2, 0, 5, 3, 1, 4]);
        let backward = Steps::new(&items, Direction::Backward);
        assert_eq!(backward.source, [4, 1, 5, 3, 0, 2]);
    }
}
