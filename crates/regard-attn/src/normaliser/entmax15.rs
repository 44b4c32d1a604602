//! `a_j = (s_j/2 − τ)₊²`

use regard_tensor::{Real, simd};

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
    cost: "a few passes over the row, which it needs whole",
    mistakes: &[
        "the factor 1/2 on the scores left out",
        "the variance of the support as mean of squares less square of mean, which cancels",
    ],
    example: example!(Entmax15),
};

/// `a_j = ((s_j/2 − τ)₊)²`, with τ such that `Σ_j a_j = 1`: between the softmax and
/// [`Sparsemax`](super::Sparsemax).
///
/// Peters et al. 2019 (<https://arxiv.org/abs/1905.05702>): with z = s/2, and M the mean and V the sum of squared deviations
/// of the n scores of the support, `τ = M − √((1 − V)/n)`. Their algorithm 2 sorts the scores to find the
/// support; here Newton's steps find it, which take a pass over the few scores that may belong to it each and no order. Scores of −∞ have the weight 0; a row of −∞ alone becomes
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

    fn is_sparse(&self) -> bool {
        true
    }

    fn row(&self, row: &mut [T]) -> T {
        let mut room = sparse::Room::NEW;
        let scores = match sparse::Scores::of(row, T::from_f64(0.5), &mut room) {
            Ok(scores) => scores,
            Err(lse) => return lse,
        };
        let tau = threshold(&scores);
        scores.weigh(
            tau,
            #[inline(always)]
            |root| root * root,
        );
        T::ZERO
    }

    fn row_backward(&self, weights: &[T], dweights: &mut [T]) {
        let [sum, roots] = sparse::sums(
            weights,
            dweights,
            #[inline(always)]
            |a, da| {
                let root = a.sqrt();
                if a == T::ZERO { [T::ZERO; 2] } else { [root * da, root] }
            },
        );
        let mean = sum / roots;
        simd::vectorise(
            #[inline(always)]
            move || {
                for (a, da) in weights.iter().zip(dweights) {
                    let ds = a.sqrt() * (*da - mean);
                    *da = if *a == T::ZERO { T::ZERO } else { ds };
                }
            },
        );
    }
}

/// The τ for which `Σ_j (z_j − τ)₊² = 1`, where the largest z is 0.
///
/// The sum is convex in τ: from τ = −1 on, where it is at least 1, Newton's steps never pass the solution. Once they leave
/// the support as it is, τ is the root of the support's own quadratic, if that leaves it as it is, too.
fn threshold<T: Real>(scores: &sparse::Scores<'_, T>) -> T {
    let (mut tau, mut support) = (-T::ONE, T::ZERO);
    for _ in 0..sparse::MOST_STEPS {
        let [n, sum, squares] = scores.above(tau);
        let excess = squares - T::ONE;
        if n == T::ZERO || excess <= T::ZERO {
            break;
        }
        if n == support {
            // n·δ² − 2·sum·δ + excess = 0, without cancellation.
            let root = (sum * sum - n * excess).max(T::ZERO).sqrt();
            let there = tau + excess / (sum + root);
            if scores.above(there)[0] == n {
                return there;
            }
        }
        tau += excess / (sum + sum);
        support = n;
    }
    tau
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
