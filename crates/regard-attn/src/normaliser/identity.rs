//! `a_j = s_j`

use regard_tensor::Real;

use super::{Normaliser, Streaming, lse_of_unnormalised};
use crate::catalogue::{Entry, Kind, Paper, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "identity",
    kind: Kind::Normaliser,
    title: "none: the scores are the weights",
    formula: "a_j = s_j",
    parts: None,
    paper: Some(Paper {
        author: "Yin",
        year: 2016,
        title: "ABCNN: Attention-Based Convolutional Neural Network for Modeling Sentence Pairs",
        link: "https://arxiv.org/abs/1512.05193",
    }),
    taxonomy: None,
    shapes: "s [kv_len] → a [kv_len], any numbers",
    cost: "none",
    mistakes: &["padded keys count with their score unless the scope hides them"],
    example: example!(Identity),
};

/// `a_j = s_j`, and 0 at forbidden keys: no normalisation.
///
/// What Yin et al. 2016 (<https://arxiv.org/abs/1512.05193>) do with their match scores. Rows do not
/// sum to one and may hold any number. There is no log-sum-exp: it is given as 0, and as −∞ where
/// nothing is allowed.
///
/// Derivative: `∂L/∂s_j = ∂L/∂a_j`. A weight of 0 may be a score of 0 as well as a forbidden key, so
/// nothing is set to zero: the caller knows which keys are forbidden.
///
/// ```
/// use regard_attn::normaliser::{Identity, Normaliser};
///
/// let mut row = [2.0f64, -1.0, f64::NEG_INFINITY];
/// Identity.row(&mut row);
/// assert_eq!(row, [2.0, -1.0, 0.0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity;

impl<T: Real> Normaliser<T> for Identity {
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
            if *s == T::NEG_INFINITY {
                *s = T::ZERO;
            }
        }
        lse
    }

    fn row_backward(&self, _: &[T], _: &mut [T]) {}
}
