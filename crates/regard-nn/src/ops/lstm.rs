//! LSTM over whole sequences.

use regard_tensor::kernels::matmul::{Mat, MatMut, matmul};
use regard_tensor::kernels::reduce::add_column_sums;
use regard_tensor::{Real, ShapeError, Tensor, parallel, simd};

use super::recurrent::{Direction, Handed, Matrix, Recurrence, Steps, cell_pieces, take};
use crate::{NnError, Ragged, Tape, Var};

/// What backward needs, in step-major order.
struct Kept<T: Real> {
    steps: Steps,
    /// σ(i), σ(f), tanh(g), σ(o): `[total, 4h]`.
    gates: Tensor<T>,
    /// c and h after each step: `[total, h]`.
    cell: Tensor<T>,
    hidden: Tensor<T>,
    /// h and c before the first step, in step-major order; zero where there is none.
    initial: Option<(Tensor<T>, Tensor<T>)>,
}

/// The four gates of one row.
#[inline(always)]
pub(super) fn quarters<T>(row: &[T], h: usize) -> (&[T], &[T], &[T], &[T]) {
    (&row[..h], &row[h..2 * h], &row[2 * h..3 * h], &row[3 * h..4 * h])
}

/// One step of one item: turns the gates' arguments into the gates, and computes c and h.
#[inline(always)]
pub(super) fn cell_forward<T: Real>(gates: &mut [T], old: Option<&[T]>, c: &mut [T], y: &mut [T]) {
    let h = c.len();
    let (input_forget, rest) = gates.split_at_mut(2 * h);
    let (g, o) = rest.split_at_mut(h);
    for x in input_forget {
        *x = x.sigmoid();
    }
    for x in g {
        *x = x.tanh();
    }
    for x in o {
        *x = x.sigmoid();
    }
    let (i, f, g, o) = quarters(gates, h);
    let (c, y) = (&mut c[..h], &mut y[..h]);
    match old {
        None => {
            for j in 0..h {
                c[j] = i[j] * g[j];
            }
        }
        Some(old) => {
            let old = &old[..h];
            for j in 0..h {
                c[j] = f[j] * old[j] + i[j] * g[j];
            }
        }
    }
    for j in 0..h {
        y[j] = o[j] * c[j].tanh();
    }
}

/// The derivative of [`cell_forward`]: fills `dz`, the gradient of the gates' arguments, and turns
/// `dc` into the gradient of the cell before.
#[inline(always)]
pub(super) fn cell_backward<T: Real>(
    gates: &[T],
    c: &[T],
    old: Option<&[T]>,
    dy: &[T],
    dh: &[T],
    dc: &mut [T],
    dz: &mut [T],
) {
    let h = c.len();
    let (i, f, g, o) = quarters(gates, h);
    let (zi, rest) = dz.split_at_mut(h);
    let (zf, rest) = rest.split_at_mut(h);
    let (zg, zo) = rest.split_at_mut(h);
    let (zg, zo, dy, dh, dc) = (&mut zg[..h], &mut zo[..h], &dy[..h], &dh[..h], &mut dc[..h]);
    for j in 0..h {
        let (dh, tc) = (dh[j] + dy[j], c[j].tanh());
        // h = o·tanh(c)
        zo[j] = dh * tc * o[j] * (T::ONE - o[j]);
        let now = dc[j] + dh * o[j] * (T::ONE - tc * tc);
        // c = f·c' + i·g
        zi[j] = now * g[j] * i[j] * (T::ONE - i[j]);
        zg[j] = now * i[j] * (T::ONE - g[j] * g[j]);
        dc[j] = now * f[j];
    }
    match old {
        None => zf.fill(T::ZERO),
        Some(old) => {
            let (old, zf) = (&old[..h], &mut zf[..h]);
            for j in 0..h {
                zf[j] = dc[j] * (T::ONE - f[j]) * old[j];
            }
        }
    }
}

/// One step of all rows: [`cell_forward`] for gates `[n, 4h]`, c and y `[n, h]`.
pub(super) fn cells_forward<T: Real>(
    h: usize,
    (gates, c, y): (&mut [T], &mut [T], &mut [T]),
    old: Option<&[T]>,
) {
    let (rows, work) = cell_pieces(y.len() / h, h);
    let chunks = [rows * 4 * h, rows * h, rows * h];
    parallel::chunks3((gates, c, y), chunks, work, |p, (gates, c, y)| {
        let old = old.map(|old| &old[p * rows * h..]);
        simd::vectorise(
            #[inline(always)]
            move || {
                let lines = gates.chunks_exact_mut(4 * h).zip(c.chunks_exact_mut(h));
                for (r, ((gates, c), y)) in lines.zip(y.chunks_exact_mut(h)).enumerate() {
                    cell_forward(gates, old.map(|old| &old[r * h..(r + 1) * h]), c, y);
                }
            },
        );
    });
}

/// The way back of [`cells_forward`]: [`cell_backward`] for all rows, given gates, c and the c before, which may
/// be empty; `dy` gives each row's gradient from outside.
pub(super) fn cells_backward<'a, T: Real>(
    h: usize,
    (gates, cell, old): (&[T], &[T], &[T]),
    dy: impl Fn(usize) -> &'a [T] + Sync,
    dh: &[T],
    (dc, dz): (&mut [T], &mut [T]),
) {
    let (rows, work) = cell_pieces(dh.len() / h, h);
    parallel::chunks2(dc, rows * h, dz, rows * 4 * h, work, |p, dc, dz| {
        let (first, dy) = (p * rows, &dy);
        simd::vectorise(
            #[inline(always)]
            move || {
                let lines = dz.chunks_exact_mut(4 * h).zip(dc.chunks_exact_mut(h));
                for (r, (dz, dc)) in lines.enumerate() {
                    let at = first + r;
                    let row = at * h..(at + 1) * h;
                    let gates = &gates[at * 4 * h..(at + 1) * 4 * h];
                    let (cell, old) = (&cell[row.clone()], old.get(row.clone()));
                    cell_backward(gates, cell, old, dy(at), &dh[row], dc, dz);
                }
            },
        );
    });
}

fn forward<T: Real>(
    xw: &Tensor<T>,
    w_hh: &Matrix<T>,
    steps: Steps,
    initial: Option<(Tensor<T>, Tensor<T>)>,
) -> Kept<T> {
    let h = w_hh.cols();
    let total = xw.rows();
    let mut gates = Tensor::stale(&[total, 4 * h]);
    let mut cell = Tensor::stale(&[total, h]);
    let mut hidden = Tensor::stale(&[total, h]);
    let (g, c, y) = (gates.data_mut(), cell.data_mut(), hidden.data_mut());
    for t in 0..steps.len() {
        let (from, n) = (steps.starts[t], steps.width(t));
        let now = &mut g[from * 4 * h..(from + n) * 4 * h];
        for (row, source) in now.chunks_exact_mut(4 * h).zip(&steps.source[from..from + n]) {
            row.copy_from_slice(xw.row(*source as usize));
        }
        // The states of step t − 1 end where those of step t begin.
        let (c_before, c_now) = c.split_at_mut(from * h);
        let (y_before, y_now) = y.split_at_mut(from * h);
        let before = if t == 0 { 0 } else { steps.starts[t - 1] * h };
        let (y_old, old) = match (t, &initial) {
            (0, None) => (None, None),
            (0, Some((y, c))) => (Some(y.data()), Some(c.data())),
            _ => {
                let rows = before..before + n * h;
                (Some(&y_before[rows.clone()]), Some(&c_before[rows]))
            }
        };
        if let Some(y_old) = y_old {
            w_hh.times(now, 1.0, y_old, n);
        }
        cells_forward(h, (now, &mut c_now[..n * h], &mut y_now[..n * h]), old);
    }
    Kept { steps, gates, cell, hidden, initial }
}

/// Gradients of the gates' arguments, step-major `[total, 4h]`, and of the initial h and c, given those
/// of the states and of the last cells (step-major order of items).
fn backward<T: Real>(
    kept: &Kept<T>,
    dy: &Tensor<T>,
    d_last: Option<Tensor<T>>,
    w_hh: &Matrix<T>,
) -> (Tensor<T>, Tensor<T>, Tensor<T>) {
    let h = w_hh.cols();
    let steps = &kept.steps;
    let widest = steps.widest();
    let mut dz = Tensor::stale(&[kept.gates.rows(), 4 * h]);
    // ∂L/∂h and ∂L/∂c that come from the step after; zero for items that end here.
    let mut dh = Tensor::<T>::zeros(&[widest, h]);
    let mut dc = d_last.unwrap_or_else(|| Tensor::zeros(&[widest, h]));
    let (dz_all, dh_all, dc_all) = (dz.data_mut(), dh.data_mut(), dc.data_mut());
    for t in (0..steps.len()).rev() {
        let (from, n) = (steps.starts[t], steps.width(t));
        let span = from * 4 * h..(from + n) * 4 * h;
        let now = &mut dz_all[span.clone()];
        let (dh_now, dc_now) = (&dh_all[..n * h], &mut dc_all[..n * h]);
        let (gates, cell) = (&kept.gates.data()[span.start..], kept.cell.data());
        let old = match (t, &kept.initial) {
            (0, None) => &[],
            (0, Some((_, c))) => c.data(),
            _ => &cell[steps.starts[t - 1] * h..],
        };
        let sources = &steps.source[from..from + n];
        let dy = |r: usize| dy.row(sources[r] as usize);
        cells_backward(h, (gates, &cell[from * h..], old), dy, dh_now, (dc_now, now));
        if t > 0 || kept.initial.is_some() {
            w_hh.back(&mut dh_all[..n * h], 0.0, &dz_all[span], n);
        }
    }
    (dz, dh, dc)
}

impl<T: Real> Tape<'_, T> {
    /// LSTM in one direction over every item of a packed batch, from zero state:
    ///
    /// ```text
    /// [i; f; g; o] = W_ih x_t + W_hh h_{t−1} + b
    /// c_t = σ(f)∘c_{t−1} + σ(i)∘tanh(g)        h_t = σ(o)∘tanh(c_t)
    /// ```
    ///
    /// x `[total, d]`, w_ih `[4h, d]`, w_hh `[4h, h]`, b `[4h]`, result `[total, h]` in x's order.
    /// Source: Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000; gate
    /// order as in PyTorch. Memory 6·total·h for backward.
    ///
    /// # Errors
    /// Names the argument whose shape does not fit.
    pub fn lstm(
        &mut self,
        x: Var,
        items: &Ragged,
        w_ih: Var,
        w_hh: Var,
        b: Var,
        direction: Direction,
    ) -> Result<Var, NnError> {
        Ok(self.lstm_from(x, items, w_ih, w_hh, b, direction, None)?.states)
    }

    /// As [`Tape::lstm`], from given states and cells `[items, h]` before the first step of each item,
    /// and with the cells after its last step.
    ///
    /// # Errors
    /// As [`Tape::lstm`].
    pub fn lstm_from(
        &mut self,
        x: Var,
        items: &Ragged,
        w_ih: Var,
        w_hh: Var,
        b: Var,
        direction: Direction,
        initial: Option<(Var, Var)>,
    ) -> Result<Recurrence, NnError> {
        let (xv, wi, wh, bv) = (
            self.value(x).clone(),
            self.value(w_ih).clone(),
            self.value(w_hh).clone(),
            self.value(b).clone(),
        );
        let (total, d, h) = (items.total(), xv.cols(), wh.cols());
        if h == 0 {
            return Err(ShapeError::new("lstm", "w_hh", "at least 1 wide", wh.shape()).into());
        }
        ShapeError::expect("lstm", "x", &[total, d], xv.shape())?;
        ShapeError::expect("lstm", "w_ih", &[4 * h, d], wi.shape())?;
        ShapeError::expect("lstm", "w_hh", &[4 * h, h], wh.shape())?;
        ShapeError::expect("lstm", "b", &[4 * h], bv.shape())?;
        let given = initial.map(|(y, c)| (self.value(y).clone(), self.value(c).clone()));
        if let Some((y, c)) = &given {
            ShapeError::expect("lstm", "initial state", &[items.items(), h], y.shape())?;
            ShapeError::expect("lstm", "initial cell", &[items.items(), h], c.shape())?;
        }
        let xw = super::recurrent::project(&xv, &wi, &bv);
        let steps = Steps::new(items, direction);
        let first = given.as_ref().map(|(y, c)| (steps.first(y), steps.first(c)));
        let wh = self.matrix(w_hh);
        let kept = forward(&xw, &wh, steps, first);
        drop(xw);
        let y = kept.steps.scatter(&kept.hidden);
        let last = kept.steps.last(&kept.cell, given.as_ref().map(|(_, c)| c));
        let mut inputs = vec![x, w_ih, w_hh, b];
        inputs.extend(initial.iter().flat_map(|(y, c)| [*y, *c]));
        let handed = Handed::default();
        let from_last = Handed::clone(&handed);
        let states = self.record(y, &inputs, move |dy, grads| {
            let d_last = take(&from_last);
            // An empty item passes the gradient of its last cell on to its initial one.
            if let (Some((_, c)), Some(d_last)) = (initial, &d_last)
                && grads.wants(c)
            {
                let sums = grads.sum(c).chunks_exact_mut(h);
                for (item, (sum, g)) in sums.zip(d_last.data().chunks_exact(h)).enumerate() {
                    if kept.steps.order[kept.steps.widest()..].contains(&item) {
                        sum.iter_mut().zip(g).for_each(|(s, g)| *s += *g);
                    }
                }
            }
            let d_last = d_last.map(|d| kept.steps.first(&d));
            let (dz, dh, dc) = backward(&kept, dy, d_last, &wh);
            if let Some((y, c)) = initial {
                for (var, d) in [(y, &dh), (c, &dc)] {
                    if grads.wants(var) {
                        kept.steps.add_first(d.data(), h, grads.sum(var));
                    }
                }
            }
            let before = kept.initial.as_ref().map(|(y, _)| y);
            let first = if before.is_some() { 0 } else { kept.steps.widest() };
            if grads.wants(w_hh) && total > first {
                let before = kept.steps.previous(&kept.hidden, before);
                let n = total - first;
                let (dw, keep) = grads.slot(w_hh);
                let dz = Mat::new(&dz.data()[first * 4 * h..], n, 4 * h);
                matmul(MatMut::new(dw, 4 * h, h), keep, 1.0, dz.t(), Mat::new(before.data(), n, h));
            }
            let dz = kept.steps.scatter(&dz);
            if grads.wants(b) {
                add_column_sums(dz.data(), 4 * h, grads.sum(b));
            }
            super::recurrent::project_backward(&dz, &xv, x, &wi, w_ih, grads);
        });
        Ok(Recurrence { states, last_cells: Some(self.second_output(last, states, &handed)) })
    }
}
