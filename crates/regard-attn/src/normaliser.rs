//! Normalisers: how a row of scores becomes weights.

pub(crate) mod entmax15;
pub(crate) mod hard;
pub(crate) mod identity;
pub(crate) mod sampled;
pub(crate) mod sigmoid;
pub(crate) mod softmax;
mod sparse;
pub(crate) mod sparsemax;
pub(crate) mod temperature;

use std::fmt::Debug;

use regard_tensor::kernels::reduce;
use regard_tensor::{Key, Real};

use crate::RowAt;

pub use entmax15::Entmax15;
pub use hard::Hard;
pub use identity::Identity;
pub use sampled::Sampled;
pub use sigmoid::Sigmoid;
pub use softmax::Softmax;
pub use sparsemax::Sparsemax;
pub use temperature::Temperature;

/// How the engine may take the rows of a normaliser piece by piece, so that none need be whole.
///
/// A promise about [`Normaliser::row`], which stays the truth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Streaming<T> {
    /// Not at all: whole rows (sparsemax, entmax).
    Rows,
    /// `a_j = exp(scale·s_j − lse)`: with a running maximum and sum.
    Softmax {
        /// Factor on the scores, above 0.
        scale: T,
    },
    /// Each weight depends on its own score alone: any piece of a row is a row (sigmoid).
    Each,
    /// One key gets the weight 1: the first with the largest score, after Gumbel noise of
    /// [`gumbel`] is added where there is a stream. The log-sum-exp is that of the softmax.
    Pick {
        /// The random stream of the call; `None` for the largest score itself.
        noise: Option<Key>,
    },
}

/// Gumbel noise −ln(−ln u) at key `key` of the row whose stream is `row`
/// ([`row_stream`](crate::call::row_stream)): the largest of s_j + noise_j falls on key j with the
/// probability softmax(s)_j (Gumbel 1954; Maddison et al. 2014, <https://arxiv.org/abs/1411.0030>).
pub fn gumbel(row: Key, key: usize) -> f64 {
    let u = (f64::from(row.bits(key as u32)) + 0.5) / 4_294_967_296.0;
    -(-u.ln()).ln()
}

/// A map from the scores of one query to its weights.
///
/// Forbidden keys have the score −∞ and must get the weight 0; a row that is all −∞ becomes all
/// zero.
pub trait Normaliser<T: Real>: Sync + Debug {
    /// The name in the catalogue, such as `softmax`.
    fn name(&self) -> &'static str;

    /// Whether the weights of a row with an allowed key sum to one.
    fn rows_sum_to_one(&self) -> bool;

    /// How a row may be taken piece by piece.
    fn streaming(&self) -> Streaming<T> {
        Streaming::Rows
    }

    /// Whether most weights of a long row are 0, and a weight of 0 gets no gradient, whatever ∂L/∂a is there: products then
    /// go over the others alone.
    fn is_sparse(&self) -> bool {
        false
    }

    /// Turns a row of scores into weights, in place, and returns the row's log-sum-exp where
    /// that means something, else 0; −∞ for a row with nothing allowed.
    fn row(&self, row: &mut [T]) -> T;

    /// As [`Normaliser::row`], for the row at a place of the batch; what draws random numbers draws
    /// those of this place.
    fn row_at(&self, at: RowAt, row: &mut [T]) -> T {
        let _ = at;
        self.row(row)
    }

    /// Turns `dweights = ∂L/∂a` into ∂L/∂s, in place, given the row's weights.
    fn row_backward(&self, weights: &[T], dweights: &mut [T]);
}

/// Where one of the scores is NaN, makes NaN of all but those of forbidden keys, which become 0, so
/// that the row cannot pass for one with nothing allowed. Returns the NaN.
fn spread_nan<T: Real>(row: &mut [T]) -> Option<T> {
    // NaN is the one number that does not equal itself.
    #[allow(clippy::eq_op, reason = "the test for NaN of a generic number")]
    let is_nan = |s: &T| s != s;
    // By parts without an early exit, which are searched many numbers at a time.
    let with_nan = |part: &&[T]| part.iter().filter(|s| is_nan(s)).count() > 0;
    let nan = row.chunks(256).find(with_nan)?.iter().copied().find(is_nan)?;
    for s in row {
        *s = if *s == T::NEG_INFINITY { T::ZERO } else { nan };
    }
    Some(nan)
}

/// Gives the weight 1 to the chosen key of a row of scores, none of them NaN, and returns the
/// log-sum-exp; of a row with nothing allowed no key can be chosen, and −∞ is returned.
fn pick<T: Real>(row: &mut [T], chosen: Option<usize>) -> T {
    let allowed = chosen.filter(|chosen| row[*chosen] != T::NEG_INFINITY);
    let lse = reduce::softmax_in_place(row);
    row.fill(T::ZERO);
    if let Some(chosen) = allowed {
        row[chosen] = T::ONE;
    }
    lse
}

/// What stands for the log-sum-exp where there is none: −∞ for a row with nothing allowed, else 0.
fn lse_of_unnormalised<T: Real>(row: &[T]) -> T {
    if row.iter().all(|s| *s == T::NEG_INFINITY) { T::NEG_INFINITY } else { T::ZERO }
}
