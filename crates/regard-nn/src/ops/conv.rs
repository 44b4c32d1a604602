//! Windows of neighbours side by side, and the 1-D convolution made from them.

use regard_tensor::{Real, ShapeError, Tensor};

use super::Activation;
use crate::{NnError, Ragged, Tape, Var};

impl<T: Real> Tape<'_, T> {
    /// `y_i = [x_{i−left}; …; x_i; …; x_{i+right}]`, zero beyond the item's edges.
    ///
    /// x `[total, d]`, y `[total, (left + 1 + right)·d]`; tap t of row i is x_{i−left+t}.
    ///
    /// # Errors
    /// x has another number of rows than the items together.
    pub fn windows(
        &mut self,
        x: Var,
        items: &Ragged,
        left: usize,
        right: usize,
    ) -> Result<Var, NnError> {
        let xv = self.value(x).clone();
        let d = xv.cols();
        ShapeError::expect("windows", "x", &[items.total(), d], xv.shape())?;
        let width = left + 1 + right;
        let mut y = Tensor::stale(&[items.total(), width * d]);
        for b in 0..items.items() {
            let rows = items.rows(b);
            for i in rows.clone() {
                let out = &mut y.data_mut()[i * width * d..(i + 1) * width * d];
                for (tap, out) in out.chunks_exact_mut(d.max(1)).enumerate() {
                    match source(i, tap, left, &rows) {
                        Some(j) => out.copy_from_slice(xv.row(j)),
                        None => out.fill(T::ZERO),
                    }
                }
            }
        }
        let items = items.clone();
        Ok(self.record(y, &[x], move |dy, grads| {
            let dx = grads.sum(x);
            for b in 0..items.items() {
                let rows = items.rows(b);
                for i in rows.clone() {
                    for (tap, dy) in dy.row(i).chunks_exact(d.max(1)).enumerate() {
                        if let Some(j) = source(i, tap, left, &rows) {
                            let dx = &mut dx[j * d..(j + 1) * d];
                            dx.iter_mut().zip(dy).for_each(|(s, g)| *s += *g);
                        }
                    }
                }
            }
        }))
    }

    /// `y_i = act(Σ_t W_t x_{i−left+t} + b)`, zero beyond the item's edges, as many rows out as in.
    ///
    /// x `[total, d]`; w `[filters, width·d]`, column t·d + c for tap t and channel c; b
    /// `[filters]`; left = (width − 1)/2. Memory total·width·d for the windows.
    ///
    /// # Errors
    /// Shapes that do not fit; a width of 0.
    pub fn conv1d(
        &mut self,
        x: Var,
        items: &Ragged,
        w: Var,
        b: Option<Var>,
        width: usize,
        activation: Activation,
    ) -> Result<Var, NnError> {
        if width == 0 {
            return Err(ShapeError::new("conv1d", "width", "at least 1", 0).into());
        }
        let left = (width - 1) / 2;
        let windows = self.windows(x, items, left, width - 1 - left)?;
        self.linear(windows, w, b, activation, None)
    }
}

/// The row that tap `tap` of row `i` reads, if it lies inside the item.
fn source(i: usize, tap: usize, left: usize, rows: &std::ops::Range<usize>) -> Option<usize> {
    (i + tap).checked_sub(left).filter(|j| rows.contains(j))
}
