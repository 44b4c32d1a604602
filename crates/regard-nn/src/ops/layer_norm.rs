//! Layer normalisation.

use regard_tensor::kernels::reduce::{dot, sum};
use regard_tensor::{Real, ShapeError, Tensor, parallel, simd};

use crate::{NnError, Tape, Var};

/// Added to the variance, as in the paper's implementations.
const EPS: f64 = 1e-5;

impl<T: Real> Tape<'_, T> {
    /// `y = g ∘ (x − μ)/√(σ² + 1e-5) + b`, with μ and σ² the mean and (biased) variance of each row.
    ///
    /// x, y `[n, d]`; g, b `[d]`. With x̂ the normalised row and ĝ = dy ∘ g:
    /// dx = (ĝ − mean(ĝ) − x̂·mean(ĝ ∘ x̂))/√(σ² + ε), dg = Σ_rows dy ∘ x̂, db = Σ_rows dy.
    /// Source: Ba, Kiros, Hinton 2016, eq. 3–4.
    ///
    /// # Errors
    /// Names the argument whose shape does not fit.
    pub fn layer_norm(&mut self, x: Var, gain: Var, bias: Var) -> Result<Var, NnError> {
        let (xv, gv, bv) =
            (self.value(x).clone(), self.value(gain).clone(), self.value(bias).clone());
        let (n, d) = (xv.rows(), xv.cols());
        ShapeError::expect("layer_norm", "gain", &[d], gv.shape())?;
        ShapeError::expect("layer_norm", "bias", &[d], bv.shape())?;
        let mut y = Tensor::stale(&[n, d]);
        // μ and 1/√(σ² + ε) of each row.
        let mut stats = Tensor::stale(&[n, 2]);
        let rows = parallel::rows_per_chunk(d);
        let work = n * d * 8;
        let (scale, eps) = (T::ONE / T::from_usize(d.max(1)), T::from_f64(EPS));
        parallel::chunks2(
            y.data_mut(),
            rows * d,
            stats.data_mut(),
            rows * 2,
            work,
            |i, y, stats| {
                let x = &xv.data()[i * rows * d..i * rows * d + y.len()];
                let (gain, bias) = (gv.data(), bv.data());
                simd::vectorise(
                    #[inline(always)]
                    move || {
                        let lines = x.chunks_exact(d).zip(y.chunks_exact_mut(d));
                        for ((x, y), stats) in lines.zip(stats.chunks_exact_mut(2)) {
                            let mean = sum(x) * scale;
                            for (y, x) in y.iter_mut().zip(x) {
                                *y = *x - mean;
                            }
                            let inverse = T::ONE / (dot(y, y) * scale + eps).sqrt();
                            for ((y, g), b) in y.iter_mut().zip(gain).zip(bias) {
                                *y = *y * inverse * *g + *b;
                            }
                            stats[0] = mean;
                            stats[1] = inverse;
                        }
                    },
                );
            },
        );
        Ok(self.record(y, &[x, gain, bias], move |dy, grads| {
            // One pass fills dx and, per piece of rows, that piece's part of dg and db.
            let mut dx = Tensor::stale(&[n, d]);
            let pieces = n.div_ceil(rows);
            let mut parts = Tensor::zeros(&[pieces, 2 * d]);
            let step = rows * d;
            parallel::chunks2(dx.data_mut(), step, parts.data_mut(), 2 * d, work, |i, dx, part| {
                let (dg, db) = part.split_at_mut(d);
                let x = &xv.data()[i * step..i * step + dx.len()];
                let dy = &dy.data()[i * step..i * step + dx.len()];
                let stats = &stats.data()[i * rows * 2..];
                let gain = gv.data();
                simd::vectorise(
                    #[inline(always)]
                    move || {
                        let lines = x.chunks_exact(d).zip(dy.chunks_exact(d));
                        let lines = lines.zip(dx.chunks_exact_mut(d));
                        for (((x, dy), dx), stats) in lines.zip(stats.chunks_exact(2)) {
                            let (mean, inverse) = (stats[0], stats[1]);
                            for (dx, (dy, g)) in dx.iter_mut().zip(dy.iter().zip(gain)) {
                                *dx = *dy * *g;
                            }
                            let mean_g = sum(dx) * scale;
                            // mean(ĝ ∘ x̂) = (ĝ·x − μ·Σĝ)·inverse/d
                            let along = dot(dx, x) - mean * mean_g * T::from_usize(d);
                            let along = along * inverse * scale;
                            for (dx, x) in dx.iter_mut().zip(x) {
                                let normalised = (*x - mean) * inverse;
                                *dx = (*dx - mean_g - normalised * along) * inverse;
                            }
                            for (((dg, db), dy), x) in
                                dg.iter_mut().zip(db.iter_mut()).zip(dy).zip(x)
                            {
                                *dg += *dy * (*x - mean) * inverse;
                                *db += *dy;
                            }
                        }
                    },
                );
            });
            for part in parts.data().chunks_exact((2 * d).max(1)) {
                for (var, part) in [(gain, &part[..d]), (bias, &part[d..])] {
                    if grads.wants(var) {
                        grads.sum(var).iter_mut().zip(part).for_each(|(s, p)| *s += *p);
                    }
                }
            }
            grads.add(x, dx);
        }))
    }
}
