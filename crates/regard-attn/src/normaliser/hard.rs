//! `a_j = 1 where s_j is largest, else 0`

use regard_tensor::{Real, kernels::reduce};

use super::{Normaliser, Streaming, pick, spread_nan};
use crate::catalogue::{Entry, Kind, Paper, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "hard",
    kind: Kind::Normaliser,
    title: "hard (arg max)",
    formula: "a_j = 1 at the first largest s_j, else 0",
    parts: None,
    paper: Some(Paper {
        author: "Xu",
        year: 2015,
        title: "Show, Attend and Tell: Neural Image Caption Generation with Visual Attention",
        link: "https://arxiv.org/abs/1502.03044",
    }),
    taxonomy: None,
    shapes: "s [kv_len] → a [kv_len], one of them 1",
    cost: "one comparison a key",
    mistakes: &[
        "training through it: its gradient is zero; train with samples and the score function, or \
         with the softmax, and take the arg max afterwards",
        "ties that fall to another key with another order of work",
    ],
    example: example!(Hard),
};

/// `a_j = 1` at the largest score, else 0; of equal scores the first.
///
/// What hard attention does once it is trained (Xu et al. 2015, §4.1,
/// <https://arxiv.org/abs/1502.03044>): the limit of [`Temperature`](super::Temperature) τ → 0.
/// Rows with nothing allowed are zero. The log-sum-exp is that of the scores' softmax, so that the
/// log-probability of the key is its score less that; −∞ for those rows.
///
/// Derivative: zero everywhere (the weights are constant between jumps), so scores do not learn
/// through it.
///
/// ```
/// use regard_attn::normaliser::{Hard, Normaliser};
///
/// let mut row = [2.0f64, 5.0, 5.0];
/// Hard.row(&mut row);
/// assert_eq!(row, [0.0, 1.0, 0.0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hard;

impl<T: Real> Normaliser<T> for Hard {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn rows_sum_to_one(&self) -> bool {
        true
    }

    fn streaming(&self) -> Streaming<T> {
        Streaming::Pick { noise: None }
    }

    fn row(&self, row: &mut [T]) -> T {
        if let Some(nan) = spread_nan(row) {
            return nan;
        }
        let top = reduce::max(row);
        let first = row.iter().position(|s| *s == top);
        pick(row, first)
    }

    fn row_backward(&self, _: &[T], dweights: &mut [T]) {
        dweights.fill(T::ZERO);
    }
}
