//! Additive self-attention with one head.
//!
//! ```text
//! s_ij = v_a·tanh(W x_i + U x_j)        c_i = Σ_j softmax_j(s_ij) v_j
//! ```
//!
//! The score of Bahdanau et al. 2015, appendix A.1.2 (<https://arxiv.org/abs/1409.0473>; of an
//! encoder-decoder there), within one sequence.
//!
//! Departures: the projections are made outside.

use regard_tensor::Real;

use super::{SELF, additive_self};
use crate::catalogue::{BAHDANAU, Entry, Kind, Parts, example};
use crate::normaliser::Softmax;
use crate::position::{Position, Sinusoidal};
use crate::scope::{Full, Scope};
use crate::score::Additive;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "additive_self_attention",
    kind: Kind::Mechanism,
    title: "self-attention, one head, additive",
    formula: "c_i = Σ_j softmax_j(v_a·tanh(W x_i + U x_j)) v_j, with v = W^v x",
    parts: Some(Parts {
        score: &["additive"],
        normaliser: &["softmax"],
        scope: &["full", "lengths"],
        position: &["none", "sinusoidal", "learned", "relative_bias", "alibi", "shaw"],
    }),
    paper: Some(BAHDANAU),
    taxonomy: Some(SELF),
    shapes: "x [L, d_model] → q = W x, k = U x [L, d_k], v [L, d_v] → c [L, d_v]",
    cost: "O(L²·d) time, all of it tanh; memory O(L·d)",
    mistakes: &[
        "W and U applied for each pair: L² projections in place of 2·L",
        "an array of L·L·d tanh values kept for the backward pass",
        "without a position the order of the sequence is lost",
    ],
    example: example!(additive_self::new::<f32>(
        &Additive { v: &[0.1; 16] },
        &Full,
        &Sinusoidal,
        Dims { n_heads: 1, n_kv_heads: 1, d_k: 16, d_v: 16 },
        &Item::packed(&[5, 3]),
    )),
};

/// Joins additive × softmax × `scope` (full or lengths) × `position`.
pub fn new<'a, T: Real>(
    score: &'a Additive<'a, T>,
    scope: &'a dyn Scope,
    position: &'a dyn Position<T>,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score, normaliser: &Softmax, scope, position, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{one_head, run, same};
    use super::*;
    use crate::position::NoPosition;

    #[test]
    fn a_sum_of_zero_scores_nothing() {
        // q = (1, −1), k = (0, 1), v·tanh(1) = ln 2: the first row scores ln 2 and v·tanh(2), the
        // second −ln 2 and 0.
        let (items, v) = (Item::packed(&[2]), [2f64.ln() / 1f64.tanh()]);
        let score = Additive { v: &v };
        let call = new(&score, &Full, &NoPosition, one_head(1, 1), &items);
        let out = run(&call, &[1.0, -1.0], &[0.0, 1.0], &[3.0, 6.0]);
        let (one, two) = (2.0, (v[0] * 2f64.tanh()).exp());
        same(&out.weights, &[one / (one + two), two / (one + two), 1.0 / 3.0, 2.0 / 3.0]);
        same(&out.context[1..], &[5.0]);
    }
}
