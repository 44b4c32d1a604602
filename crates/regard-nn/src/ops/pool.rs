//! One row out of the rows of each item: maximum or mean.

use regard_tensor::{Real, ShapeError, Tensor, parallel, simd};

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
        let n = items.items();
        let mut y = Tensor::zeros(&[n, d]);
        let mut winners = vec![0u32; if pool == Pool::Max { n * d } else { 0 }].into_boxed_slice();
        // Some items a task.
        let at_once = parallel::rows_per_chunk(d);
        let (step, work) = (at_once * d, 4 * items.total() * d);
        let rows_of = |p: usize, b: usize| {
            let rows = items.rows(p * at_once + b);
            (rows.start, &xv.data()[rows.start * d..rows.end * d])
        };
        match pool {
            Pool::Max => {
                parallel::chunks2(y.data_mut(), step, &mut winners, step, work, |p, y, winners| {
                    let both = y.chunks_exact_mut(d).zip(winners.chunks_exact_mut(d));
                    for (b, (y, winners)) in both.enumerate() {
                        let (first, x) = rows_of(p, b);
                        if !x.is_empty() {
                            largest(x, first, y, winners);
                        }
                    }
                });
            }
            Pool::Mean => parallel::chunks(y.data_mut(), step, work, |p, y| {
                for (b, y) in y.chunks_exact_mut(d).enumerate() {
                    let (_, x) = rows_of(p, b);
                    if !x.is_empty() {
                        mean(x, x.len() / d, y);
                    }
                }
            }),
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

/// The largest of each column of the rows `x`, the first of which is row `first`, and whose it is: of equals the first's. In
/// whole lanes, by choice in place of branches.
fn largest<T: Real>(x: &[T], first: usize, y: &mut [T], winners: &mut [u32]) {
    let d = y.len();
    simd::vectorise(
        #[inline(always)]
        move || {
            let winners = &mut winners[..d];
            y.copy_from_slice(&x[..d]);
            winners.fill(first as u32);
            for (r, row) in x.chunks_exact(d).enumerate().skip(1) {
                let row = &row[..d];
                for c in 0..d {
                    let better = row[c] > y[c];
                    y[c] = if better { row[c] } else { y[c] };
                    winners[c] = if better { (first + r) as u32 } else { winners[c] };
                }
            }
        },
    );
}

/// The mean of `n` rows.
fn mean<T: Real>(x: &[T], n: usize, y: &mut [T]) {
    let scale = T::ONE / T::from_usize(n);
    for row in x.chunks_exact(y.len()) {
        y.iter_mut().zip(row).for_each(|(y, x)| *y += *x);
    }
    for y in y {
        *y *= scale;
    }
}
