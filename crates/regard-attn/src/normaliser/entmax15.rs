//! `a_j = (s_j/2 − τ)₊²`

use regard_tensor::Real;

use super::{Normaliser, sparse};
use crate::catalogue::{Entry, Kind, Paper, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "entmax15",
    kind: Kind::Normaliser,
    title: "entmax-1.5",
    formula: "a_j = ((s_j/2 − τ)₊)², with τ such that Σ_j a_j = 1",
    parts: None,
    paper: Some(Paper {
        author: "Peters",
        year: 2019,
        title: "Sparse Sequence-to-Sequence Models",
        link: "https://arxiv.org/abs/1905.05702",
    }),
    taxonomy: None,
    shapes: "s [kv_len] → a [kv_len], sum 1, zero for low scores",
    cost: "a sort of the scores within 2 of the largest; needs the whole row",
    mistakes: &[
        "the factor 1/2 on the scores left out",
        "the variance of the sorted scores as mean of squares less square of mean, which cancels",
    ],
    example: example!(Entmax15),
};

/// `a_j = ((s_j/2 − τ)₊)²`, with τ such that `Σ_j a_j = 1`: between the softmax and
/// [`Sparsemax`](super::Sparsemax).
///
/// Peters et al. 2019, algorithm 2 (<https://arxiv.org/abs/1905.05702>): with z = s/2 sorted,
/// z_(1) ≥ z_(2) ≥ …, the support is the first n for which `Σ_{i<n} (z_(i) − z_(n))² < 1`, and with
/// M the mean and S the sum of squared deviations of those n, `τ = M − √((1 − S)/n)`. M and S are
/// carried along without cancellation. Scores of −∞ have the weight 0; a row of −∞ alone becomes
/// zero; NaN or +∞ among the scores makes NaN of all weights but those of forbidden keys. No
/// log-sum-exp.
///
/// Derivative, with r_j = √a_j: `∂L/∂s_j = r_j (∂L/∂a_j − (Σ_l r_l ∂L/∂a_l) / Σ_l r_l)`.
///
/// ```
/// use regard_attn::normaliser::{Entmax15, Normaliser};
///
/// let mut row = [0.0f64, 0.0, -4.0];
/// Entmax15.row(&mut row);
/// assert!((row[0] - 0.5).abs() < 1e-15 && row[0] == row[1] && row[2] == 0.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entmax15;

impl<T: Real> Normaliser<T> for Entmax15 {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn rows_sum_to_one(&self) -> bool {
        true
    }

    fn row(&self, row: &mut [T]) -> T {
        let largest = match sparse::largest(row, T::from_f64(0.5)) {
            Ok(largest) => largest,
            Err(lse) => return lse,
        };
        // Number, mean and sum of squared deviations of the support.
        let (mut n, mut mean, mut squares) = (T::ZERO, T::ZERO, T::ZERO);
        for z in largest {
            let deviation = z - mean;
            // Σ_{i<n} (z_i − z)²: the weights of those before if τ were z.
            if squares + n * deviation * deviation >= T::ONE {
                break;
            }
            n += T::ONE;
            mean += deviation / n;
            squares += deviation * (z - mean);
        }
        let tau = mean - ((T::ONE - squares).max(T::ZERO) / n).sqrt();
        for z in row {
            let root = (*z - tau).max(T::ZERO);
            *z = root * root;
        }
        T::ZERO
    }

    fn row_backward(&self, weights: &[T], dweights: &mut [T]) {
        let (mut sum, mut roots) = (T::ZERO, T::ZERO);
        for (a, da) in weights.iter().zip(dweights.iter()) {
            if *a != T::ZERO {
                sum += a.sqrt() * *da;
                roots += a.sqrt();
            }
        }
        for (a, da) in weights.iter().zip(dweights) {
            *da = if *a == T::ZERO { T::ZERO } else { a.sqrt() * (*da - sum / roots) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_scores_have_a_closed_form() {
        // z = (t, −t): (t − τ)² + (−t − τ)² = 1 gives τ = −√(1/2 − t²), below −t up to t = 1/2.
        for t in [0.0f64, 0.1, 0.25, 0.5] {
            let mut row = [2.0 * t, -2.0 * t];
            Entmax15.row(&mut row);
            let root = t + (0.5 - t * t).sqrt();
            assert!((row[0] - root * root).abs() < 8.0 * f64::EPSILON, "{t}");
        }
        let mut row = [2.0f64, 0.0];
        Entmax15.row(&mut row);
        assert_eq!(row, [1.0, 0.0]);
    }
}
