//! Linear map with bias, activation and residual in one operator.

use regard_tensor::kernels::matmul::{Mat, MatMut, matmul, matmul_packed_then, matmul_then};
use regard_tensor::kernels::reduce::add_column_sums;
use regard_tensor::{Real, ShapeError, Tensor, parallel, simd};

use super::activation::{Activation, apply, apply_saving, needs_more, slope};
use crate::{NnError, Tape, Var};

impl<T: Real> Tape<'_, T> {
    /// `y = act(x Wᵀ + b) + r`
    ///
    /// x `[n, d_in]`, w `[d_out, d_in]`, b `[d_out]`, r and y `[n, d_out]`.
    /// With z the argument of act: dz = dy ∘ act'(z), dx = dz W, dW = dzᵀ x, db = Σ_rows dz, dr = dy.
    ///
    /// # Errors
    /// Names the argument whose shape does not fit.
    pub fn linear(
        &mut self,
        x: Var,
        w: Var,
        b: Option<Var>,
        activation: Activation,
        residual: Option<Var>,
    ) -> Result<Var, NnError> {
        let (xv, wv) = (self.value(x).clone(), self.value(w).clone());
        let (n, d_in, d_out) = (xv.rows(), xv.cols(), wv.dim(0));
        ShapeError::expect("linear", "w", &[d_out, d_in], wv.shape())?;
        let bv = b.map(|b| self.value(b).clone());
        if let Some(bv) = &bv {
            ShapeError::expect("linear", "b", &[d_out], bv.shape())?;
        }
        let rv = residual.map(|r| self.value(r).clone());
        if let Some(rv) = &rv {
            ShapeError::expect("linear", "residual", &[n, d_out], rv.shape())?;
        }

        let mut y = Tensor::stale(&[n, d_out]);
        // What backward needs beside y: the slope of GELU, act(z) where a residual hides it.
        let keeps = self.records()
            && activation != Activation::None
            && (needs_more(activation) || rv.is_some());
        let mut saved = if keeps { Tensor::stale(&[n, d_out]) } else { Tensor::stale(&[0, d_out]) };
        let (bias, residual_rows) = (bv.as_ref().map(Tensor::data), rv.as_ref().map(Tensor::data));
        let finish = |first: usize, y: &mut [T], saved: &mut [T]| {
            simd::vectorise(
                #[inline(always)]
                move || {
                    for (j, row) in y.chunks_exact_mut(d_out).enumerate() {
                        if let Some(bias) = bias {
                            add(row, bias);
                        }
                        let place = j * d_out..(j + 1) * d_out;
                        if keeps {
                            apply_saving(activation, row, &mut saved[place.clone()]);
                        } else {
                            apply(activation, row);
                        }
                        if let Some(residual) = residual_rows {
                            let from = first * d_out + place.start;
                            add(row, &residual[from..from + d_out]);
                        }
                    }
                },
            );
        };
        let (x_mat, out) = (Mat::new(xv.data(), n, d_in), y.data_mut());
        if let Some(w) = self.packed(w, 0..d_in) {
            matmul_packed_then(out, saved.data_mut(), x_mat, &w, finish);
        } else {
            let w = Mat::new(wv.data(), d_out, d_in).t();
            matmul_then(out, saved.data_mut(), x_mat, w, finish);
        }
        let saved = if keeps { saved } else { y.clone() };
        let inputs = [Some(x), Some(w), b, residual].into_iter().flatten().collect::<Vec<_>>();
        Ok(self.record(y, &inputs, move |dy, grads| {
            if let Some(r) = residual {
                grads.add(r, dy.clone());
            }
            let dz = if activation == Activation::None {
                dy.clone()
            } else {
                let mut dz = Tensor::stale(&[n, d_out]);
                let step = parallel::rows_per_chunk(d_out) * d_out;
                parallel::chunks(dz.data_mut(), step, n * d_out * 20, |i, dz| {
                    let place = i * step..i * step + dz.len();
                    let (dy, saved) = (&dy.data()[place.clone()], &saved.data()[place]);
                    simd::vectorise(
                        #[inline(always)]
                        move || slope(activation, dy, saved, dz),
                    );
                });
                dz
            };
            if let Some(b) = b
                && grads.wants(b)
            {
                add_column_sums(dz.data(), d_out, grads.sum(b));
            }
            let dz = Mat::new(dz.data(), n, d_out);
            let of_w = |(dw, keep): (&mut [T], f64)| {
                let x = Mat::new(xv.data(), n, d_in);
                matmul(MatMut::new(dw, d_out, d_in), keep, 1.0, dz.t(), x);
            };
            let of_x = |(dx, keep): (&mut [T], f64)| {
                let w = Mat::new(wv.data(), d_out, d_in);
                matmul(MatMut::new(dx, n, d_in), keep, 1.0, dz, w);
            };
            let (wants_w, wants_x) = (grads.wants(w), grads.wants(x));
            // Both at once: threads that are done with one go on with the other.
            if wants_w
                && wants_x
                && x != w
                && let Some((mut dx, keep)) = grads.take(x)
            {
                let (dw, of_x) = (grads.slot(w), || of_x((dx.data_mut(), keep)));
                parallel::join_if(n * d_in * d_out, || of_w(dw), of_x);
                grads.put(x, dx);
                return;
            }
            if wants_w {
                of_w(grads.slot(w));
            }
            if wants_x {
                of_x(grads.slot(x));
            }
        }))
    }
}

#[inline(always)]
fn add<T: Real>(out: &mut [T], x: &[T]) {
    let n = out.len();
    let x = &x[..n];
    for i in 0..n {
        out[i] += x[i];
    }
}
