//! `a_j = σ(s_j)`

use regard_tensor::Real;

use super::{Normaliser, Streaming, lse_of_unnormalised};
use crate::catalogue::{Entry, Kind, Paper, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "sigmoid",
    kind: Kind::Normaliser,
    title: "sigmoid, each key for itself",
    formula: "a_j = 1 / (1 + exp(−s_j))",
    parts: None,
    paper: Some(Paper {
        author: "Ramapuram",
        year: 2024,
        title: "Theory, Analysis, and Best Practices for Sigmoid Self-Attention",
        link: "https://arxiv.org/abs/2409.04431",
    }),
    taxonomy: None,
    shapes: "s [kv_len] → a [kv_len], each in [0, 1], any sum",
    cost: "one exp a key",
    mistakes: &[
        "contexts grow with the number of keys: a bias of −ln kv_len on the scores keeps them small",
        "averages that expect rows that sum to one",
    ],
    example: example!(Sigmoid),
};

/// `a_j = σ(s_j) = 1 / (1 + exp(−s_j))`: each key for itself.
///
/// Ramapuram et al. 2024, equation 3 (<https://arxiv.org/abs/2409.04431>), without the bias, which
/// belongs to the scores. Rows do not sum to one. Scores of −∞ have the weight 0. There is no
/// log-sum-exp: it is given as 0, and as −∞ where nothing is allowed.
///
/// Derivative: `∂L/∂s_j = a_j (1 − a_j) ∂L/∂a_j`.
///
/// ```
/// use regard_attn::normaliser::{Normaliser, Sigmoid};
///
/// let mut row = [0.0f64, 3f64.ln(), f64::NEG_INFINITY];
/// Sigmoid.row(&mut row);
/// assert!(row[0] == 0.5 && (row[1] - 0.75).abs() < 1e-15 && row[2] == 0.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sigmoid;

impl<T: Real> Normaliser<T> for Sigmoid {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn rows_sum_to_one(&self) -> bool {
        false
    }

    fn streaming(&self) -> Streaming<T> {
        Streaming::Each
    }

    fn row(&self, row: &mut [T]) -> T {
        let lse = lse_of_unnormalised(row);
        for s in row {
            *s = s.sigmoid();
        }
        lse
    }

    fn row_backward(&self, weights: &[T], dweights: &mut [T]) {
        for (a, da) in weights.iter().zip(dweights) {
            *da = if *a == T::ZERO { T::ZERO } else { *a * (T::ONE - *a) * *da };
        }
    }
}
