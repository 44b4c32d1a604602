//! The larger of each pair.

use regard_tensor::{Real, ShapeError, Tensor, parallel};

use crate::{NnError, Tape, Var};

impl<T: Real> Tape<'_, T> {
    /// `y_k = max(x_{2k}, x_{2k+1})`, k from 0
    ///
    /// x `[n, 2l]`, y `[n, l]`; the gradient goes to the larger one, to the first where they are equal.
    /// Source: Goodfellow et al. 2013; as the read-out of Bahdanau et al. 2015, A.2.2.
    ///
    /// # Errors
    /// x has an odd number of columns.
    pub fn maxout(&mut self, x: Var) -> Result<Var, NnError> {
        let xv = self.value(x).clone();
        let (n, d) = (xv.rows(), xv.cols());
        if !d.is_multiple_of(2) {
            return Err(ShapeError::new("maxout", "x", "[_, 2·l]", xv.shape()).into());
        }
        let mut y = Tensor::stale(&[n, d / 2]);
        let step = parallel::rows_per_chunk(d) * d / 2;
        parallel::chunks(y.data_mut(), step, n * d, |i, y| {
            let x = &xv.data()[2 * i * step..];
            for (y, x) in y.iter_mut().zip(x.chunks_exact(2)) {
                *y = if x[1] > x[0] { x[1] } else { x[0] };
            }
        });
        Ok(self.record(y, &[x], move |dy, grads| {
            let mut dx = Tensor::stale(&[n, d]);
            for ((dx, x), dy) in
                dx.data_mut().chunks_exact_mut(2).zip(xv.data().chunks_exact(2)).zip(dy.data())
            {
                let second = x[1] > x[0];
                dx[usize::from(second)] = *dy;
                dx[usize::from(!second)] = T::ZERO;
            }
            grads.add(x, dx);
        }))
    }
}
