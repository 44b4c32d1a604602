//! GRU over whole sequences.

use regard_tensor::kernels::matmul::{Mat, MatMut, matmul};
use regard_tensor::kernels::reduce::add_column_sums;
use regard_tensor::{Real, ShapeError, Tensor, parallel, simd};

use super::recurrent::{Direction, Matrix, Steps, cell_pieces, project, project_backward};
use crate::{NnError, Ragged, Tape, Var};

/// What backward needs, in step-major order.
struct Kept<T: Real> {
    steps: Steps,
    /// σ(r), σ(z), tanh(n) and the candidate's recurrent part W_hn h + b_hn: `[total, 4h]`.
    gates: Tensor<T>,
    /// h after each step: `[total, h]`.
    hidden: Tensor<T>,
    /// h before the first step, in step-major order; zero where there is none.
    initial: Option<Tensor<T>>,
}

/// One step of one item: fills the gates and the new state.
#[inline(always)]
pub(super) fn cell_forward<T: Real>(
    xw: &[T],
    hw: &[T],
    old: Option<&[T]>,
    kept: &mut [T],
    y: &mut [T],
) {
    let h = y.len();
    let (r, rest) = kept.split_at_mut(h);
    let (z, rest) = rest.split_at_mut(h);
    let (n, un) = rest.split_at_mut(h);
    let (n, un, xw, hw) = (&mut n[..h], &mut un[..h], &xw[..3 * h], &hw[..3 * h]);
    for j in 0..h {
        r[j] = (xw[j] + hw[j]).sigmoid();
    }
    for j in 0..h {
        z[j] = (xw[h + j] + hw[h + j]).sigmoid();
    }
    un.copy_from_slice(&hw[2 * h..]);
    for j in 0..h {
        n[j] = (xw[2 * h + j] + r[j] * un[j]).tanh();
    }
    match old {
        None => {
            for j in 0..h {
                y[j] = (T::ONE - z[j]) * n[j];
            }
        }
        Some(old) => {
            let old = &old[..h];
            for j in 0..h {
                y[j] = (T::ONE - z[j]) * n[j] + z[j] * old[j];
            }
        }
    }
}

/// The derivative of [`cell_forward`]: fills the gradients of the gates' arguments by their input
/// part (`dx`) and by their recurrent part (`du`), and turns `carry`, ∂L/∂h from the step after,
/// into the part of ∂L/∂h' that does not go through the recurrent matrix.
#[inline(always)]
pub(super) fn cell_backward<T: Real>(
    gates: &[T],
    old: Option<&[T]>,
    dy: &[T],
    carry: &mut [T],
    dx: &mut [T],
    du: &mut [T],
) {
    let h = dy.len();
    let (r, z) = (&gates[..h], &gates[h..2 * h]);
    let (n, un) = (&gates[2 * h..3 * h], &gates[3 * h..4 * h]);
    let (dr, rest) = dx.split_at_mut(h);
    let (dz, dn) = rest.split_at_mut(h);
    let (dz, dn, carry) = (&mut dz[..h], &mut dn[..h], &mut carry[..h]);
    match old {
        None => {
            for j in 0..h {
                dz[j] = -n[j];
            }
        }
        Some(old) => {
            let old = &old[..h];
            for j in 0..h {
                dz[j] = old[j] - n[j];
            }
        }
    }
    for j in 0..h {
        let g = carry[j] + dy[j];
        // h = (1 − z)·n + z·h'
        dn[j] = g * (T::ONE - z[j]) * (T::ONE - n[j] * n[j]);
        dz[j] = dz[j] * g * z[j] * (T::ONE - z[j]);
        // n = tanh(… + r·un)
        dr[j] = dn[j] * un[j] * r[j] * (T::ONE - r[j]);
        carry[j] = g * z[j];
    }
    du.copy_from_slice(dx);
    let dun = &mut du[2 * h..3 * h];
    for j in 0..h {
        dun[j] *= r[j];
    }
}

/// One step of all rows: [`cell_forward`] for gates `[n, 4h]` and y `[n, h]`, given each row's argument by its
/// input.
pub(super) fn cells_forward<'a, T: Real>(
    h: usize,
    xw: impl Fn(usize) -> &'a [T] + Sync,
    hw: &[T],
    old: Option<&[T]>,
    (gates, y): (&mut [T], &mut [T]),
) {
    let (rows, work) = cell_pieces(y.len() / h, h);
    parallel::chunks2(gates, rows * 4 * h, y, rows * h, work, |p, gates, y| {
        let (first, xw) = (p * rows, &xw);
        simd::vectorise(
            #[inline(always)]
            move || {
                let lines = gates.chunks_exact_mut(4 * h).zip(y.chunks_exact_mut(h));
                for (r, (gates, y)) in lines.enumerate() {
                    let at = first + r;
                    let old = old.map(|old| &old[at * h..(at + 1) * h]);
                    cell_forward(xw(at), &hw[at * 3 * h..(at + 1) * 3 * h], old, gates, y);
                }
            },
        );
    });
}

/// The way back of [`cells_forward`]: [`cell_backward`] for all rows, given gates and the states before, which
/// may be empty; `dy` gives each row's gradient from outside.
pub(super) fn cells_backward<'a, T: Real>(
    h: usize,
    (gates, old): (&[T], &[T]),
    dy: impl Fn(usize) -> &'a [T] + Sync,
    (carry, dx, du): (&mut [T], &mut [T], &mut [T]),
) {
    let (rows, work) = cell_pieces(carry.len() / h, h);
    let chunks = [rows * h, rows * 3 * h, rows * 3 * h];
    parallel::chunks3((carry, dx, du), chunks, work, |p, (carry, dx, du)| {
        let (first, dy) = (p * rows, &dy);
        simd::vectorise(
            #[inline(always)]
            move || {
                let lines = dx.chunks_exact_mut(3 * h).zip(du.chunks_exact_mut(3 * h));
                for (r, ((dx, du), carry)) in lines.zip(carry.chunks_exact_mut(h)).enumerate() {
                    let at = first + r;
                    let gates = &gates[at * 4 * h..(at + 1) * 4 * h];
                    cell_backward(gates, old.get(at * h..(at + 1) * h), dy(at), carry, dx, du);
                }
            },
        );
    });
}

fn forward<T: Real>(
    xw: &Tensor<T>,
    w_hh: &Matrix<T>,
    b_hh: &Tensor<T>,
    steps: Steps,
    initial: Option<Tensor<T>>,
) -> Kept<T> {
    let h = w_hh.cols();
    let total = xw.rows();
    let widest = steps.widest();
    let mut gates = Tensor::stale(&[total, 4 * h]);
    let mut hidden = Tensor::stale(&[total, h]);
    let mut recurrent = Tensor::stale(&[widest, 3 * h]);
    let (kept, y, hw) = (gates.data_mut(), hidden.data_mut(), recurrent.data_mut());
    for t in 0..steps.len() {
        let (from, n) = (steps.starts[t], steps.width(t));
        let (y_before, y_now) = y.split_at_mut(from * h);
        let before = if t == 0 { 0 } else { steps.starts[t - 1] * h };
        for row in hw[..n * 3 * h].chunks_exact_mut(3 * h) {
            row.copy_from_slice(b_hh.data());
        }
        let old = match (t, &initial) {
            (0, None) => None,
            (0, Some(initial)) => Some(initial.data()),
            _ => Some(&y_before[before..before + n * h]),
        };
        if let Some(old) = old {
            w_hh.times(&mut hw[..n * 3 * h], 1.0, old, n);
        }
        let kept = &mut kept[from * 4 * h..(from + n) * 4 * h];
        let sources = &steps.source[from..from + n];
        let xw = |r: usize| xw.row(sources[r] as usize);
        cells_forward(h, xw, &hw[..n * 3 * h], old, (kept, &mut y_now[..n * h]));
    }
    Kept { steps, gates, hidden, initial }
}

/// Gradients of the arguments of the three gates by their input part (`[total, 3h]`) and by
/// their recurrent part (the same but for the candidate, where r multiplies), step-major; and of the
/// initial h.
fn backward<T: Real>(
    kept: &Kept<T>,
    dy: &Tensor<T>,
    w_hh: &Matrix<T>,
) -> (Tensor<T>, Tensor<T>, Tensor<T>) {
    let h = w_hh.cols();
    let steps = &kept.steps;
    let widest = steps.widest();
    let mut by_input = Tensor::stale(&[kept.gates.rows(), 3 * h]);
    let mut by_state = Tensor::stale(&[kept.gates.rows(), 3 * h]);
    let mut dh = Tensor::<T>::zeros(&[widest, h]);
    let (dx_all, dh_all, carry) = (by_input.data_mut(), by_state.data_mut(), dh.data_mut());
    for t in (0..steps.len()).rev() {
        let (from, n) = (steps.starts[t], steps.width(t));
        let span = from * 3 * h..(from + n) * 3 * h;
        let (gates, hidden) = (&kept.gates.data()[from * 4 * h..], kept.hidden.data());
        let old = match (t, &kept.initial) {
            (0, None) => &[],
            (0, Some(initial)) => initial.data(),
            _ => &hidden[steps.starts[t - 1] * h..],
        };
        let sources = &steps.source[from..from + n];
        let (dx, du, carry_now) =
            (&mut dx_all[span.clone()], &mut dh_all[span.clone()], &mut carry[..n * h]);
        let dy = |r: usize| dy.row(sources[r] as usize);
        cells_backward(h, (gates, old), dy, (carry_now, dx, du));
        if t > 0 || kept.initial.is_some() {
            w_hh.back(&mut carry[..n * h], 1.0, &dh_all[span], n);
        }
    }
    (by_input, by_state, dh)
}

impl<T: Real> Tape<'_, T> {
    /// GRU in one direction over every item of a packed batch, from zero state:
    ///
    /// ```text
    /// r = σ(W_ir x + b_ir + W_hr h + b_hr)      z = σ(W_iz x + b_iz + W_hz h + b_hz)
    /// n = tanh(W_in x + b_in + r∘(W_hn h + b_hn))      h' = (1 − z)∘n + z∘h
    /// ```
    ///
    /// x `[total, d]`, w_ih `[3h, d]` (rows r, z, n), w_hh `[3h, h]`, b_ih and b_hh `[3h]`, result
    /// `[total, h]` in x's order. Source: Cho et al. 2014, with the reset gate behind the matrix as
    /// in PyTorch and cuDNN.
    ///
    /// # Errors
    /// Names the argument whose shape does not fit.
    pub fn gru(
        &mut self,
        x: Var,
        items: &Ragged,
        w: (Var, Var),
        b: (Var, Var),
        direction: Direction,
    ) -> Result<Var, NnError> {
        self.gru_from(x, items, w, b, direction, None)
    }

    /// As [`Tape::gru`], from given states `[items, h]` before the first step of each item.
    ///
    /// # Errors
    /// As [`Tape::gru`].
    pub fn gru_from(
        &mut self,
        x: Var,
        items: &Ragged,
        (w_ih, w_hh): (Var, Var),
        (b_ih, b_hh): (Var, Var),
        direction: Direction,
        initial: Option<Var>,
    ) -> Result<Var, NnError> {
        let (xv, wi, wh) =
            (self.value(x).clone(), self.value(w_ih).clone(), self.value(w_hh).clone());
        let (bi, bh) = (self.value(b_ih).clone(), self.value(b_hh).clone());
        let (total, d, h) = (items.total(), xv.cols(), wh.cols());
        if h == 0 {
            return Err(ShapeError::new("gru", "w_hh", "at least 1 wide", wh.shape()).into());
        }
        ShapeError::expect("gru", "x", &[total, d], xv.shape())?;
        ShapeError::expect("gru", "w_ih", &[3 * h, d], wi.shape())?;
        ShapeError::expect("gru", "w_hh", &[3 * h, h], wh.shape())?;
        ShapeError::expect("gru", "b_ih", &[3 * h], bi.shape())?;
        ShapeError::expect("gru", "b_hh", &[3 * h], bh.shape())?;
        let given = initial.map(|y| self.value(y).clone());
        if let Some(y) = &given {
            ShapeError::expect("gru", "initial state", &[items.items(), h], y.shape())?;
        }
        let xw = project(&xv, &wi, &bi);
        let steps = Steps::new(items, direction);
        let first = given.map(|y| steps.first(&y));
        let wh = self.matrix(w_hh);
        let kept = forward(&xw, &wh, &bh, steps, first);
        drop(xw);
        let y = kept.steps.scatter(&kept.hidden);
        let mut inputs = vec![x, w_ih, w_hh, b_ih, b_hh];
        inputs.extend(initial);
        Ok(self.record(y, &inputs, move |dy, grads| {
            let (by_input, by_state, dh) = backward(&kept, dy, &wh);
            if let Some(y) = initial
                && grads.wants(y)
            {
                kept.steps.add_first(dh.data(), h, grads.sum(y));
            }
            let first = if kept.initial.is_some() { 0 } else { kept.steps.widest() };
            if grads.wants(w_hh) && total > first {
                let before = kept.steps.previous(&kept.hidden, kept.initial.as_ref());
                let n = total - first;
                let (dw, keep) = grads.slot(w_hh);
                let dz = Mat::new(&by_state.data()[first * 3 * h..], n, 3 * h);
                matmul(MatMut::new(dw, 3 * h, h), keep, 1.0, dz.t(), Mat::new(before.data(), n, h));
            }
            if grads.wants(b_hh) {
                add_column_sums(by_state.data(), 3 * h, grads.sum(b_hh));
            }
            if grads.wants(b_ih) {
                add_column_sums(by_input.data(), 3 * h, grads.sum(b_ih));
            }
            project_backward(&kept.steps.scatter(&by_input), &xv, x, &wi, w_ih, grads);
        }))
    }
}
