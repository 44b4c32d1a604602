//! `a_j = (s_j − τ)₊`

use regard_tensor::Real;

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
    cost: "a sort of the scores within 1 of the largest; needs the whole row",
    mistakes: &[
        "its logarithm in a loss: most weights are exactly 0",
        "keys out of the support get no gradient and stay out: begin with small scores",
    ],
    example: example!(Sparsemax),
};

/// `a_j = (s_j − τ)₊`, with τ such that `Σ_j a_j = 1`: the point of the simplex that is nearest to s.
///
/// Martins and Astudillo 2016, algorithm 1 (<https://arxiv.org/abs/1602.02068>): with the scores
/// sorted, s_(1) ≥ s_(2) ≥ …, the support is the first n for which `Σ_{i<n} (s_(i) − s_(n)) < 1`,
/// and `τ = (Σ_{i≤n} s_(i) − 1) / n`. Scores of −∞ have the weight 0; a row of −∞ alone becomes
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

    fn row(&self, row: &mut [T]) -> T {
        let largest = match sparse::largest(row, T::ONE) {
            Ok(largest) => largest,
            Err(lse) => return lse,
        };
        let (mut sum, mut tau) = (T::ZERO, T::ZERO);
        for (n, z) in largest.into_iter().enumerate() {
            // Σ_{i<n} (z_i − z): the weights of those before if τ were z.
            if sum - T::from_usize(n) * z >= T::ONE {
                break;
            }
            sum += z;
            tau = (sum - T::ONE) / T::from_usize(n + 1);
        }
        for z in row {
            *z = (*z - tau).max(T::ZERO);
        }
        T::ZERO
    }

    fn row_backward(&self, weights: &[T], dweights: &mut [T]) {
        let (mut sum, mut n) = (T::ZERO, T::ZERO);
        for (a, da) in weights.iter().zip(dweights.iter()) {
            if *a != T::ZERO {
                sum += *da;
                n += T::ONE;
            }
        }
        for (a, da) in weights.iter().zip(dweights) {
            *da = if *a == T::ZERO { T::ZERO } else { *da - sum / n };
        }
    }
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
