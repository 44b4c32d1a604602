//! Self-attention with one head: queries, keys and values are projections of one sequence.
//!
//! ```text
//! q_i = W^q x_i    k_j = W^k x_j    v_j = W^v x_j    a_i = softmax_j(score(q_i, k_j))    c_i = Σ_j a_ij v_j
//! ```
//!
//! The scores of Luong et al. 2015 (<https://arxiv.org/abs/1508.04025>; of an encoder-decoder there)
//! and of Vaswani et al. 2017 (<https://arxiv.org/abs/1706.03762>) within one sequence. For the
//! additive score see [`additive_self`](super::additive_self).
//!
//! Departures: the projections, and W^o where there is one, are made outside.

use regard_tensor::Real;

use super::{ORDERS, SELF, self_attention};
use crate::catalogue::{Entry, Kind, LUONG, Parts, VASWANI, example};
use crate::normaliser::Softmax;
use crate::position::{NoPosition, Position, Sinusoidal};
use crate::scope::{Full, Scope};
use crate::score::{Dot, ScaledDot, Score};
use crate::{Call, Dims, Item};

/// The dot product as score.
pub const DOT: Entry = Entry {
    name: "dot_self_attention",
    kind: Kind::Mechanism,
    title: "self-attention, one head, dot product",
    formula: "c_i = Σ_j softmax_j(q_i·k_j) v_j, with q = W^q x, k = W^k x, v = W^v x",
    parts: Some(Parts {
        score: &["dot"],
        normaliser: &["softmax"],
        scope: &["full", "lengths"],
        position: ORDERS,
    }),
    paper: Some(LUONG),
    taxonomy: Some(SELF),
    shapes: "x [L, d_model] → q, k [L, d_k], v [L, d_v] → c [L, d_v]",
    cost: "O(L²·d) time; memory O(L·d), or O(L²) where the weights are asked for",
    mistakes: &[
        "v^i = W^v a^1 in some lecture notes: it is W^v a^i, of the same position",
        "without a position the order of the sequence is lost",
        "padding of shorter items left in the scope",
    ],
    example: example!(self_attention::new::<f32>(
        &Dot,
        &Full,
        &NoPosition,
        Dims { n_heads: 1, n_kv_heads: 1, d_k: 16, d_v: 16 },
        &Item::packed(&[5, 3]),
    )),
};

/// The dot product divided by √d_k as score.
pub const SCALED_DOT: Entry = Entry {
    name: "scaled_dot_self_attention",
    title: "self-attention, one head, scaled dot product",
    formula: "c_i = Σ_j softmax_j(q_i·k_j / √d_k) v_j, with q = W^q x, k = W^k x, v = W^v x",
    parts: Some(Parts {
        score: &["scaled_dot"],
        normaliser: &["softmax"],
        scope: &["full", "lengths"],
        position: ORDERS,
    }),
    paper: Some(VASWANI),
    example: example!(self_attention::new::<f32>(
        &ScaledDot::new(16),
        &Full,
        &Sinusoidal,
        Dims { n_heads: 1, n_kv_heads: 1, d_k: 16, d_v: 16 },
        &Item::packed(&[5, 3]),
    )),
    ..DOT
};

/// Joins `score` (dot or scaled dot) × softmax × `scope` (full or lengths) × `position`.
pub fn new<'a, T: Real>(
    score: &'a dyn Score<T>,
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

    #[test]
    fn the_root_of_the_width_halves_scores_of_width_four() {
        let (items, l) = (Item::packed(&[2]), 2f64.ln());
        let first = |score: &dyn Score<f64>| {
            let call = new(score, &Full, &NoPosition, one_head(4, 1), &items);
            run(&call, &[1.0; 8], &[l, l, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], &[5.0, 0.0]).context[0]
        };
        // 4 : 1 and 2 : 1.
        same(&[first(&Dot), first(&ScaledDot::new(4))], &[4.0, 10.0 / 3.0]);
    }
}
