//! Normalisers: how a row of scores becomes weights.

pub(crate) mod softmax;

use std::fmt::Debug;

use regard_tensor::Real;

pub use softmax::Softmax;

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
