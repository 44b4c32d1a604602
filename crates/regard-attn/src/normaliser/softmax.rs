//! `a_j = e^{s_j} / Σ_l e^{s_l}`

use regard_tensor::{Real, kernels::reduce};

use super::{Normaliser, Streaming, spread_nan};
use crate::catalogue::{Entry, Kind, Paper, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "softmax",
    kind: Kind::Normaliser,
    title: "softmax",
    formula: "a_j = exp(s_j) / Σ_l exp(s_l)",
    parts: None,
    paper: Some(Paper {
        author: "Bridle",
        year: 1990,
        title: "Probabilistic Interpretation of Feedforward Classification Network Outputs",
        link: "https://doi.org/10.1007/978-3-642-76153-9_28",
    }),
    taxonomy: None,
    shapes: "s [kv_len] → a [kv_len], sum 1",
    cost: "one exp a key; runs piece by piece",
    mistakes: &[
        "normalising over the queries in place of the keys",
        "a forbidden score of 0 or of a large negative number in place of −∞",
        "a row with nothing allowed: 0/0 unless it is set to zero",
        "exp without taking the row's maximum off first overflows",
    ],
    example: example!(Softmax),
};

/// `a_j = exp(s_j) / Σ_l exp(s_l)`
///
/// The row's maximum is taken off first, so that any finite scores are safe. Scores of −∞ get
/// the weight 0; a row of −∞ alone becomes zero, with log-sum-exp −∞. A NaN among the scores
/// makes NaN of all weights but those of forbidden keys, so that it cannot pass for a row with
/// nothing allowed.
///
/// Derivative: `∂L/∂s_j = a_j (∂L/∂a_j − Σ_l a_l ∂L/∂a_l)`. Keys of weight 0 get none and
/// give none, whatever ∂L/∂a holds there.
///
/// ```
/// use regard_attn::normaliser::{Normaliser, Softmax};
///
/// let mut row = [0.0f64, 3f64.ln(), f64::NEG_INFINITY];
/// let lse = Softmax.row(&mut row);
/// assert!((row[0] - 0.25).abs() < 1e-15 && (row[1] - 0.75).abs() < 1e-15 && row[2] == 0.0);
/// assert!((lse - 4f64.ln()).abs() < 1e-15);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Softmax;

impl<T: Real> Normaliser<T> for Softmax {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn rows_sum_to_one(&self) -> bool {
        true
    }

    fn streaming(&self) -> Streaming<T> {
        Streaming::Softmax { scale: T::ONE }
    }

    fn row(&self, row: &mut [T]) -> T {
        if let Some(nan) = spread_nan(row) {
            return nan;
        }
        reduce::softmax_in_place(row)
    }

    fn row_backward(&self, weights: &[T], dweights: &mut [T]) {
        let mut mean = T::ZERO;
        for (a, da) in weights.iter().zip(dweights.iter()) {
            if *a != T::ZERO {
                mean += *a * *da;
            }
        }
        for (a, da) in weights.iter().zip(dweights) {
            *da = if *a == T::ZERO { T::ZERO } else { *a * (*da - mean) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: f64 = f64::NEG_INFINITY;

    #[test]
    fn a_row_with_nothing_allowed_is_zero() {
        for n in [0, 1, 7] {
            let mut row = vec![NEVER; n];
            assert_eq!(Softmax.row(&mut row), NEVER);
            assert!(row.iter().all(|a| *a == 0.0));
        }
    }

    #[test]
    fn scores_of_any_size_are_safe() {
        let mut row = [1e4, 1e4, -1e4, NEVER];
        let lse = Softmax.row(&mut row);
        assert_eq!(row, [0.5, 0.5, 0.0, 0.0]);
        assert!((lse - (1e4 + 2f64.ln())).abs() < 1e-11);
    }

    #[test]
    fn a_nan_shows_but_not_behind_the_mask() {
        for mut row in [[f64::NAN, NEVER, f64::NAN], [1.0, NEVER, f64::NAN]] {
            assert!(Softmax.row(&mut row).is_nan());
            assert!(row[0].is_nan() && row[2].is_nan());
            assert_eq!(row[1], 0.0);
        }
    }

    #[test]
    fn the_gradient_of_a_forbidden_key_is_not_looked_at() {
        let mut row = [0.3, NEVER, -0.2];
        Softmax.row(&mut row);
        let (mut with_nan, mut without) = ([1.0, f64::NAN, 2.0], [1.0, 0.0, 2.0]);
        Softmax.row_backward(&row, &mut with_nan);
        Softmax.row_backward(&row, &mut without);
        assert_eq!(with_nan, without);
        assert_eq!(with_nan[1], 0.0);
        // A softmax does not change when all scores move together.
        assert!(with_nan.iter().sum::<f64>().abs() < 1e-16);
    }
}
