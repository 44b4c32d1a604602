//! Normalisers: how a row of scores becomes weights.

pub(crate) mod entmax15;
pub(crate) mod hard;
pub(crate) mod identity;
pub(crate) mod sigmoid;
pub(crate) mod softmax;
mod sparse;
pub(crate) mod sparsemax;
pub(crate) mod temperature;

use std::fmt::Debug;

use regard_tensor::Real;

pub use entmax15::Entmax15;
pub use hard::Hard;
pub use identity::Identity;
pub use sigmoid::Sigmoid;
pub use softmax::Softmax;
pub use sparsemax::Sparsemax;
pub use temperature::Temperature;

/// A map from the scores of one query to its weights.
///
/// Forbidden keys have the score −∞ and must get the weight 0; a row that is all −∞ becomes all
/// zero.
pub trait Normaliser<T: Real>: Sync + Debug {
    /// The name in the catalogue, such as `softmax`.
    fn name(&self) -> &'static str;

    /// Whether the weights of a row with an allowed key sum to one.
    fn rows_sum_to_one(&self) -> bool;

    /// Whether rows may be taken piece by piece: true only for the softmax, whose running
    /// maximum and sum can be rescaled. Others get the whole row at once.
    fn streams(&self) -> bool {
        false
    }

    /// Turns a row of scores into weights, in place, and returns the row's log-sum-exp where
    /// that means something, else 0; −∞ for a row with nothing allowed.
    fn row(&self, row: &mut [T]) -> T;

    /// Turns `dweights = ∂L/∂a` into ∂L/∂s, in place, given the row's weights.
    fn row_backward(&self, weights: &[T], dweights: &mut [T]);
}

/// Where one of the scores is NaN, makes NaN of all but those of forbidden keys, which become 0, so
/// that the row cannot pass for one with nothing allowed. Returns the NaN.
fn spread_nan<T: Real>(row: &mut [T]) -> Option<T> {
    // NaN is the one number that does not equal itself.
    #[allow(clippy::eq_op, reason = "the test for NaN of a generic number")]
    let nan = row.iter().copied().find(|s| s != s)?;
    for s in row {
        *s = if *s == T::NEG_INFINITY { T::ZERO } else { nan };
    }
    Some(nan)
}

/// What stands for the log-sum-exp where there is none: −∞ for a row with nothing allowed, else 0.
fn lse_of_unnormalised<T: Real>(row: &[T]) -> T {
    if row.iter().all(|s| *s == T::NEG_INFINITY) { T::NEG_INFINITY } else { T::ZERO }
}
