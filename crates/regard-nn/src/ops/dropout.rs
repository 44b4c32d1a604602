//! Dropout.

use regard_tensor::{Real, Tensor, parallel, simd};

use crate::{NnError, Tape, Var};

/// Elements of one parallel piece.
const CHUNK: usize = 1 << 13;

impl<T: Real> Tape<'_, T> {
    /// `y = x ∘ m/(1 − rate)`, m_i = 0 with probability `rate`, else 1; y = x outside training.
    ///
    /// The mask is drawn from this step's random stream and drawn again in backward, never
    /// stored. Source: Srivastava et al. 2014.
    ///
    /// # Errors
    /// `rate` is not in [0, 1).
    pub fn dropout(&mut self, x: Var, rate: f64) -> Result<Var, NnError> {
        if !(0.0..1.0).contains(&rate) {
            let (expected, actual) = ("in [0, 1)".into(), rate.to_string());
            return Err(NnError::Hyper { name: "dropout", expected, actual });
        }
        if rate == 0.0 {
            return Ok(x);
        }
        let Some(key) = self.next_key() else { return Ok(x) };
        let threshold = (rate * f64::from(u32::MAX)) as u32;
        let scale = T::from_f64(1.0 / (1.0 - rate));
        let masked = move |from: &Tensor<T>| {
            let mut out = Tensor::stale(from.shape());
            let work = out.len() * 8;
            parallel::chunks(out.data_mut(), CHUNK, work, |i, out| {
                let from = &from.data()[i * CHUNK..i * CHUNK + out.len()];
                let first = (i * CHUNK) as u32;
                simd::vectorise(
                    #[inline(always)]
                    move || {
                        for (j, (o, x)) in out.iter_mut().zip(from).enumerate() {
                            let keep = key.bits(first.wrapping_add(j as u32)) >= threshold;
                            *o = if keep { *x * scale } else { T::ZERO };
                        }
                    },
                );
            });
            out
        };
        let y = masked(self.value(x));
        Ok(self.record(y, &[x], move |dy, grads| grads.add(x, masked(dy))))
    }
}
