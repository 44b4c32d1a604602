//! `a_j = (s_j − τ)₊`

use regard_tensor::{Real, simd};

use super::{Normaliser, sparse};
use crate::catalogue::{Entry, Kind, Paper, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "sparsemax",
    kind: Kind::Normaliser,
    title: "sparsemax",
    formula: "a_j = (s_j − τ)₊, with τ such that Σ_j a_j = 1",
    parts: None,
    paper: Some(Paper {
        author: "Martins",
        year: 2016,
        title: "From Softmax to Sparsemax: A Sparse Model of Attention and Multi-Label Classification",
        link: "https://arxiv.org/abs/1602.02068",
    }),
    taxonomy: None,
    shapes: "s [kv_len] → a [kv_len], sum 1, mostly 0",
    cost: "a few passes over the row, which it needs whole",
    mistakes: &[
        "its logarithm in a loss: most weights are exactly 0",
        "keys out of the support get no gradient and stay out: begin with small scores",
    ],
    example: example!(Sparsemax),
};

/// `a_j = (s_j − τ)₊`, with τ such that `Σ_j a_j = 1`: the point of the simplex that is nearest to s.
///
/// Martins and Astudillo 2016 (<https://arxiv.org/abs/1602.02068>): on the support S,
/// `τ = (Σ_{j∈S} s_j − 1) / |S|`. Their algorithm 1 sorts the scores to find S; here Newton's steps find it, from
/// τ = max s − 1 on, which take a pass over the scores above that each and no order. Scores of −∞ have the weight 0; a row of −∞ alone becomes
/// zero; NaN or +∞ among the scores makes NaN of all weights but those of forbidden keys. No
/// log-sum-exp.
///
/// Derivative, on the support S: `∂L/∂s_j = ∂L/∂a_j − (Σ_{l∈S} ∂L/∂a_l) / |S|`; elsewhere 0.
///
/// ```
/// use regard_attn::normaliser::{Normaliser, Sparsemax};
///
/// let mut row = [1.0f64, 0.5, -3.0];
/// Sparsemax.row(&mut row); // τ = (1.5 − 1)/2
/// assert_eq!(row, [0.75, 0.25, 0.0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sparsemax;

impl<T: Real> Normaliser<T> for Sparsemax {
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
        let scores = match sparse::Scores::of(row, T::ONE, &mut room) {
            Ok(scores) => scores,
            Err(lse) => return lse,
        };
        let tau = threshold(&scores);
        scores.weigh(
            tau,
            #[inline(always)]
            |over| over,
        );
        T::ZERO
    }

    fn row_backward(&self, weights: &[T], dweights: &mut [T]) {
        let [sum, n] = sparse::sums(
            weights,
            dweights,
            #[inline(always)]
            |a, da| if a == T::ZERO { [T::ZERO; 2] } else { [da, T::ONE] },
        );
        let mean = sum / n;
        simd::vectorise(
            #[inline(always)]
            move || {
                for (a, da) in weights.iter().zip(dweights) {
                    *da = if *a == T::ZERO { T::ZERO } else { *da - mean };
                }
            },
        );
    }
}

/// The τ for which `Σ_j (z_j − τ)₊ = 1`, where the largest z is 0.
///
/// The sum is convex in τ: from the left, Newton's steps never pass the solution, and on the support itself one step
/// reaches it.
fn threshold<T: Real>(scores: &sparse::Scores<'_, T>) -> T {
    let (mut tau, mut support) = (-T::ONE, T::ZERO);
    for _ in 0..sparse::MOST_STEPS {
        let [n, sum, _] = scores.above(tau);
        if n == support || n == T::ZERO {
            break;
        }
        tau += (sum - T::ONE) / n;
        support = n;
    }
    tau
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_scores_give_one_key_everything_and_equal_ones_share() {
        for (mut row, want) in [
            ([2.0f64, 0.9, -1.0, 0.0], [1.0, 0.0, 0.0, 0.0]),
            ([7.0, 7.0, 7.0, 7.0], [0.25; 4]),
            ([1e9, f64::NEG_INFINITY, 1e9, 0.0], [0.5, 0.0, 0.5, 0.0]),
        ] {
            Sparsemax.row(&mut row);
            assert_eq!(row, want);
        }
    }
}
