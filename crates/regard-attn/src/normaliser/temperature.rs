//! `a_j = e^{s_j/τ} / Σ_l e^{s_l/τ}`

use regard_tensor::{Real, kernels::reduce};

use super::{Normaliser, Softmax, Streaming, spread_nan};
use crate::AttnError;
use crate::catalogue::{Entry, Kind, Paper, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "temperature",
    kind: Kind::Normaliser,
    title: "softmax with temperature",
    formula: "a_j = exp(s_j/τ) / Σ_l exp(s_l/τ)",
    parts: None,
    paper: Some(Paper {
        author: "Hinton",
        year: 2015,
        title: "Distilling the Knowledge in a Neural Network",
        link: "https://arxiv.org/abs/1503.02531",
    }),
    taxonomy: None,
    shapes: "s [kv_len] → a [kv_len], sum 1",
    cost: "one exp a key, by whole rows; the score `scaled` by 1/τ and `softmax` run piece by piece",
    mistakes: &[
        "multiplying by τ: a high temperature makes the weights flat",
        "the factor τ² left out of the loss where gradients of two temperatures are added",
    ],
    example: example!(Temperature::new(0.5)),
};

/// `a_j = exp(s_j/τ) / Σ_l exp(s_l/τ)`: sharp for small τ, flat for large.
///
/// Hinton et al. 2015, equation 1 (<https://arxiv.org/abs/1503.02531>). As τ → 0 it becomes
/// [`Hard`](super::Hard) wherever one score is largest. The row's maximum is taken off before the
/// division, so that no τ overflows. The log-sum-exp is that of s/τ. NaN and rows with nothing
/// allowed are as for the [`Softmax`].
///
/// Derivative: `∂L/∂s_j = a_j (∂L/∂a_j − Σ_l a_l ∂L/∂a_l) / τ`.
///
/// ```
/// use regard_attn::normaliser::{Normaliser, Temperature};
///
/// let mut row = [0.0f64, 3f64.ln()];
/// Temperature::new(0.5)?.row(&mut row); // e^{2·0} : e^{2 ln 3} = 1 : 9
/// assert!((row[0] - 0.1).abs() < 1e-15 && (row[1] - 0.9).abs() < 1e-15);
/// # Ok::<(), regard_attn::AttnError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Temperature {
    tau: f64,
}

impl Temperature {
    /// The softmax with temperature `tau`, from 1e-30 to 1e30 (so that it is a number in f32 too).
    ///
    /// # Errors
    /// `tau` lies outside.
    pub fn new(tau: f64) -> Result<Self, AttnError> {
        if (1e-30..=1e30).contains(&tau) {
            return Ok(Self { tau });
        }
        Err(AttnError::Option {
            option: "temperature",
            expected: "from 1e-30 to 1e30".into(),
            actual: tau.to_string(),
        })
    }
}

impl<T: Real> Normaliser<T> for Temperature {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn rows_sum_to_one(&self) -> bool {
        true
    }

    fn streaming(&self) -> Streaming<T> {
        // The maximum is taken off after the multiplication: the product must stay a number.
        if (1e-6..=1e6).contains(&self.tau) {
            Streaming::Softmax { scale: T::from_f64(1.0 / self.tau) }
        } else {
            Streaming::Rows
        }
    }

    fn row(&self, row: &mut [T]) -> T {
        if let Some(nan) = spread_nan(row) {
            return nan;
        }
        let (tau, top) = (T::from_f64(self.tau), reduce::max(row));
        if top != T::NEG_INFINITY {
            for s in row.iter_mut() {
                *s = (*s - top) / tau;
            }
        }
        top / tau + Softmax.row(row)
    }

    fn row_backward(&self, weights: &[T], dweights: &mut [T]) {
        Softmax.row_backward(weights, dweights);
        for ds in dweights {
            *ds /= T::from_f64(self.tau);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperature_one_is_the_softmax() {
        let scores = [0.5f64, -1.25, f64::NEG_INFINITY, 2.0];
        let (mut plain, mut one) = (scores, scores);
        let lse = Softmax.row(&mut plain);
        assert!((Temperature { tau: 1.0 }.row(&mut one) - lse).abs() < 1e-15);
        assert_eq!(plain, one);
    }

    #[test]
    fn no_temperature_overflows() {
        for tau in [1e-30, 1e30] {
            let mut row = [1e4f32, -1e4, f32::NEG_INFINITY];
            Temperature::new(tau).unwrap().row(&mut row);
            let want = if tau < 1.0 { [1.0, 0.0, 0.0] } else { [0.5, 0.5, 0.0] };
            assert_eq!(row, want);
        }
    }
}
