//! One row out of the rows of each item: maximum or mean.

use regard_tensor::{Real, ShapeError, Tensor};

use crate::{NnError, Ragged, Tape, Var};

/// How the rows of an item become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// The maximum of each column; its gradient goes to the first row that has it.
    Max,
    /// The mean of each column.
    Mean,
}

impl<T: Real> Tape<'_, T> {
    /// `y_b = max or mean over the rows of item b`; 0 for an item without rows.
    ///
    /// x `[total, d]`, y `[items, d]`.
    ///
    /// # Errors
    /// x has another number of rows than the items together.
    pub fn pool(&mut self, x: Var, items: &Ragged, pool: Pool) -> Result<Var, NnError> {
        let xv = self.value(x).clone();
        let d = xv.cols();
        ShapeError::expect("pool", "x", &[items.total(), d], xv.shape())?;
        let mut y = Tensor::zeros(&[items.items(), d]);
        let mut winners =
            vec![0u32; if pool == Pool::Max { items.items() * d } else { 0 }].into_boxed_slice();
        for (b, y) in y.data_mut().chunks_exact_mut(d.max(1)).enumerate() {
            let rows = items.rows(b);
            match pool {
                Pool::Max if !rows.is_empty() => {
                    let winners = &mut winners[b * d..(b + 1) * d];
                    y.copy_from_slice(xv.row(rows.start));
                    winners.fill(rows.start as u32);
                    for r in rows.skip(1) {
                        for ((y, w), x) in y.iter_mut().zip(winners.iter_mut()).zip(xv.row(r)) {
                            if *x > *y {
                                *y = *x;
                                *w = r as u32;
                            }
                        }
                    }
                }
                Pool::Mean if !rows.is_empty() => {
                    let scale = T::ONE / T::from_usize(rows.len());
                    for r in rows {
                        y.iter_mut().zip(xv.row(r)).for_each(|(y, x)| *y += *x);
                    }
                    for y in y {
                        *y *= scale;
                    }
                }
                _ => {}
            }
        }
        let items = items.clone();
        Ok(self.record(y, &[x], move |dy, grads| {
            let dx = grads.sum(x);
            for b in 0..items.items() {
                let rows = items.rows(b);
                match pool {
                    Pool::Max if !rows.is_empty() => {
                        for (c, g) in dy.row(b).iter().enumerate() {
                            dx[winners[b * d + c] as usize * d + c] += *g;
                        }
                    }
                    Pool::Mean if !rows.is_empty() => {
                        let scale = T::ONE / T::from_usize(rows.len());
                        for r in rows {
                            let dx = &mut dx[r * d..(r + 1) * d];
                            dx.iter_mut().zip(dy.row(b)).for_each(|(s, g)| *s += *g * scale);
                        }
                    }
                    _ => {}
                }
            }
        }))
    }
}
