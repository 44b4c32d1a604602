//! Self-attention with learned vectors of the distance beside keys and values.
//!
//! ```text
//! s_ij = q_i·(k_j + r^K_δ) / √d_k        c_i = Σ_j softmax_j(s_ij) (v_j + r^V_δ)        δ = j − i, clipped to ±radius
//! ```
//!
//! Shaw et al. 2018, equations 3 to 5 (<https://arxiv.org/abs/1803.02155>). The score is the scaled dot
//! product; what the distance adds is the position's, with the same factor 1/√d_k.
//!
//! Departures: none. The paper's tables serve all heads; here each head may also have its own.

use regard_tensor::Real;

use super::{SELF, relative};
use crate::catalogue::{Entry, Kind, Parts, example};
use crate::normaliser::Softmax;
use crate::position::{Shaw, shaw};
use crate::scope::{Full, Scope};
use crate::score::ScaledDot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "relative_self_attention",
    kind: Kind::Mechanism,
    title: "self-attention with relative positions (Shaw)",
    formula: "c_i = Σ_j a_ij (v_j + r^V_δ), a_i = softmax over j of q_i·(k_j + r^K_δ) / √d_k, δ = j − i clipped",
    parts: Some(Parts {
        score: &["scaled_dot"],
        normaliser: &["softmax"],
        scope: &["full", "causal"],
        position: &["shaw"],
    }),
    paper: shaw::ENTRY.paper,
    taxonomy: Some(SELF),
    shapes: "x [L, d_model] → q, k [L, H, d_k], v [L, H, d_v]; r^K [2·radius + 1, d_k], r^V [2·radius + 1, d_v] → c [L, H, d_v]",
    cost: "O(L²·d_model) time; memory O(L·d_model): the vectors of all pairs are never spread out",
    mistakes: &[
        "δ = i − j: the two directions change places",
        "the term with r^K not divided by √d_k",
        "absolute positions added to the inputs besides",
    ],
    example: example!(relative::new::<f32>(
        &ScaledDot::new(16),
        &Full,
        &Shaw { keys: &[0.1; 33 * 16], values: &[0.1; 33 * 16], radius: 16, scale: 0.25 },
        Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        &Item::packed(&[5, 3]),
    )),
};

/// Joins scaled dot × softmax × `scope` (full or causal) × Shaw, whose `scale` is 1/√d_k.
pub fn new<'a, T: Real>(
    score: &'a ScaledDot,
    scope: &'a dyn Scope,
    position: &'a Shaw<'a, T>,
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
    fn distances_alone_decide_between_equal_keys() {
        // Scores of the distances −1, 0 and 1: ln 3, 0, ln 2.
        let keys = [3f64.ln(), 0.0, 2f64.ln()];
        let position = Shaw { keys: &keys, values: &[-1.0, 0.0, 1.0], radius: 1, scale: 1.0 };
        let (score, items) = (ScaledDot::new(1), Item::packed(&[3]));
        let call = new(&score, &Full, &position, one_head(1, 1), &items);
        let out = run(&call, &[1.0; 3], &[0.0; 3], &[6.0; 3]);
        let sixth = 1.0 / 6.0;
        let want =
            [0.2, 0.4, 0.4, 3.0 * sixth, sixth, 2.0 * sixth, 3.0 / 7.0, 3.0 / 7.0, 1.0 / 7.0];
        same(&out.weights, &want);
        // The values of the distances: + 0.8, − 1/2 + 1/3, − 6/7.
        same(&out.context, &[6.8, 6.0 - sixth, 6.0 - 6.0 / 7.0]);
    }
}
