//! Operators that put arrays together: sums, scaled copies, columns side by side.

use regard_tensor::{Real, ShapeError, Tensor, kernels::elementwise};

use crate::{NnError, Tape, Var};

impl<T: Real> Tape<'_, T> {
    /// `y = a + b`, same shapes.
    ///
    /// # Errors
    /// The shapes differ.
    pub fn add(&mut self, a: Var, b: Var) -> Result<Var, NnError> {
        ShapeError::expect("add", "b", &self.shape(a), &self.shape(b))?;
        let mut y = self.value(a).clone();
        elementwise::add(y.data_mut(), self.value(b).data());
        Ok(self.record(y, &[a, b], move |dy, grads| {
            grads.add(a, dy.clone());
            grads.add(b, dy.clone());
        }))
    }

    /// `y = factor·x`
    pub fn scale(&mut self, x: Var, factor: f64) -> Var {
        let factor = T::from_f64(factor);
        let scaled = move |x: &Tensor<T>| {
            let mut y = Tensor::stale(x.shape());
            elementwise::map(y.data_mut(), x.data(), 1, |x| x * factor);
            y
        };
        let y = scaled(self.value(x));
        self.record(y, &[x], move |dy, grads| grads.add(x, scaled(dy)))
    }

    /// `y = [a; b; …]` along the last axis: parts `[n, d_p]`, y `[n, Σ d_p]`.
    ///
    /// # Errors
    /// There is no part, or the numbers of rows differ.
    pub fn concat(&mut self, parts: &[Var]) -> Result<Var, NnError> {
        let Some(first) = parts.first() else {
            return Err(ShapeError::new("concat", "parts", "at least one", 0).into());
        };
        if parts.len() == 1 {
            return Ok(*first);
        }
        let n = self.value(*first).rows();
        let widths: Vec<usize> = parts.iter().map(|p| self.value(*p).cols()).collect();
        let total: usize = widths.iter().sum();
        let mut y = Tensor::stale(&[n, total]);
        let mut start = 0;
        for (part, d) in parts.iter().zip(&widths) {
            let value = self.value(*part);
            ShapeError::expect("concat", "parts", &[n, *d], &[value.rows(), *d])?;
            let rows = y.data_mut().chunks_exact_mut(total.max(1));
            for (y, x) in rows.zip(value.data().chunks_exact((*d).max(1))) {
                y[start..start + d].copy_from_slice(x);
            }
            start += d;
        }
        let inputs: Vec<Var> = parts.into();
        Ok(self.record(y, parts, move |dy, grads| {
            let mut start = 0;
            for (part, d) in inputs.into_iter().zip(widths) {
                if grads.wants(part) {
                    let sums = grads.sum(part).chunks_exact_mut(d.max(1));
                    for (sum, dy) in sums.zip(dy.data().chunks_exact(total.max(1))) {
                        sum.iter_mut().zip(&dy[start..start + d]).for_each(|(s, g)| *s += *g);
                    }
                }
                start += d;
            }
        }))
    }
}
