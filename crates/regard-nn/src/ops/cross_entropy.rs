//! Softmax cross-entropy.

use regard_tensor::kernels::reduce::{max, sum};
use regard_tensor::{Real, ShapeError, Tensor, parallel, simd};

use crate::{NnError, Tape, Var};

/// A target that counts neither in the loss nor in the mean.
pub const IGNORED: u32 = u32::MAX;

impl<T: Real> Tape<'_, T> {
    /// Mean over the targets that are not [`IGNORED`] of
    /// `−Σ_c t_c log softmax(z)_c`, with t_c = (1 − ε)·[c = target] + ε/C.
    ///
    /// logits z `[n, C]`, targets n, ε = `smoothing` in [0, 1); the loss is a scalar `[1]`, and 0
    /// when every target is ignored. dz = (softmax(z) − t)/counted. The logits' gradient is
    /// computed in forward, where the probabilities are at hand.
    /// Source: Szegedy et al. 2016, §7, for the smoothing.
    ///
    /// # Errors
    /// The number of targets is not n, a target is outside 0..C, or ε outside its range.
    pub fn cross_entropy(
        &mut self,
        logits: Var,
        targets: &[u32],
        smoothing: f64,
    ) -> Result<Var, NnError> {
        Ok(self.cross_entropy_and_nll(logits, targets, smoothing)?.0)
    }

    /// As [`Tape::cross_entropy`], and with Σ −log softmax(z)_target over the counted targets, whatever
    /// the smoothing.
    ///
    /// # Errors
    /// As [`Tape::cross_entropy`].
    pub fn cross_entropy_and_nll(
        &mut self,
        logits: Var,
        targets: &[u32],
        smoothing: f64,
    ) -> Result<(Var, f64), NnError> {
        let zv = self.value(logits).clone();
        let (n, classes) = (zv.rows(), zv.cols());
        ShapeError::expect("cross_entropy", "targets", &[n], &[targets.len()])?;
        if !(0.0..1.0).contains(&smoothing) {
            let (expected, actual) = ("in [0, 1)".into(), smoothing.to_string());
            return Err(NnError::Hyper { name: "label_smoothing", expected, actual });
        }
        let outside = |t: &u32| *t != IGNORED && *t as usize >= classes;
        if let Some(at) = targets.iter().position(outside) {
            let index = targets[at] as usize;
            let (operation, what) = ("cross_entropy", "target");
            return Err(NnError::Index { operation, what, index, at, limit: classes });
        }
        let counted = targets.iter().filter(|t| **t != IGNORED).count();
        let share = T::from_f64(1.0 / counted.max(1) as f64);
        let floor = T::from_f64(smoothing / classes.max(1) as f64);
        let peak = T::from_f64(1.0 - smoothing);

        let mut dz = Tensor::stale(&[n, classes]);
        // The loss and −log p of every row.
        let mut losses = Tensor::<T>::zeros(&[n, 2]);
        let rows = parallel::rows_per_chunk(classes);
        let step = rows * classes;
        let work = n * classes * 12;
        parallel::chunks2(
            dz.data_mut(),
            step,
            losses.data_mut(),
            2 * rows,
            work,
            |i, dz, losses| {
                let z = &zv.data()[i * step..i * step + dz.len()];
                let targets = &targets[i * rows..];
                simd::vectorise(
                    #[inline(always)]
                    move || {
                        let lines = z.chunks_exact(classes).zip(dz.chunks_exact_mut(classes));
                        for (((z, dz), loss), target) in
                            lines.zip(losses.chunks_exact_mut(2)).zip(targets)
                        {
                            if *target == IGNORED {
                                dz.fill(T::ZERO);
                                continue;
                            }
                            let target = *target as usize;
                            let top = max(z);
                            for (p, z) in dz.iter_mut().zip(z) {
                                *p = (*z - top).exp();
                            }
                            let total = sum(dz);
                            let lse = top + total.ln();
                            loss[1] = lse - z[target];
                            loss[0] = peak * loss[1];
                            if floor > T::ZERO {
                                loss[0] += floor * (lse * T::from_usize(classes) - sum(z));
                            }
                            let scale = share / total;
                            for p in dz.iter_mut() {
                                *p = *p * scale - floor * share;
                            }
                            dz[target] -= peak * share;
                        }
                    },
                );
            },
        );
        let nll = losses.data().chunks_exact(2).map(|row| row[1].to_f64()).sum();
        let losses: Vec<T> = losses.data().chunks_exact(2).map(|row| row[0]).collect();
        let loss = sum(&losses) * share;
        let loss = Tensor::from_slice(&[1], &[loss])?;
        let loss = self.record(loss, &[logits], move |dy, grads| {
            let g = dy.data()[0];
            if g != T::ONE {
                dz.data_mut().iter_mut().for_each(|x| *x *= g);
            }
            grads.add(logits, dz);
        });
        Ok((loss, nll))
    }
}
