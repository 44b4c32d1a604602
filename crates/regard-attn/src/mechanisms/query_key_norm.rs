//! Self-attention by cosines, with a learned factor in place of 1/√d_k.
//!
//! ```text
//! s_ij = g · q_i·k_j / (‖q_i‖ ‖k_j‖)        c_i = Σ_j softmax_j(s_ij) v_j
//! ```
//!
//! Henry et al. 2020 (<https://arxiv.org/abs/2010.04245>): scores cannot grow without bound, and g
//! sets how sharp the weights may be.
//!
//! Departures: g is one number for each head. Where heads share it, give it to each and add up the
//! gradients.

use regard_tensor::Real;

use super::{ORDERS, SELF, query_key_norm};
use crate::catalogue::{Entry, Kind, Paper, Parts, example};
use crate::normaliser::Softmax;
use crate::position::{Position, Sinusoidal};
use crate::scope::{Full, Scope};
use crate::score::{Cosine, HeadScale};
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "query_key_norm",
    kind: Kind::Mechanism,
    title: "self-attention by cosines with a learned factor (QKNorm)",
    formula: "c_i = Σ_j a_ij v_j, a_i = softmax over j of g_h · q_i·k_j / (‖q_i‖ ‖k_j‖)",
    parts: Some(Parts {
        score: &["head_scale"],
        normaliser: &["softmax"],
        scope: &["full", "causal", "lengths"],
        position: ORDERS,
    }),
    paper: Some(Paper {
        author: "Henry",
        year: 2020,
        title: "Query-Key Normalization for Transformers",
        link: "https://arxiv.org/abs/2010.04245",
    }),
    taxonomy: Some(SELF),
    shapes: "x [L, d_model] → q, k [L, H, d_k], v [L, H, d_v], g [H] → c [L, H, d_v]",
    cost: "O(L²·d_model) time; memory O(L·d_model); H parameters",
    mistakes: &[
        "g begun at 1: the softmax of cosines is then nearly flat",
        "1/√d_k kept besides",
        "rows normalised over d_model in place of each head's d_k",
        "zero rows (padding) without a guard: 0/0",
    ],
    example: example!(query_key_norm::new::<f32>(
        &HeadScale { inner: Cosine, factors: &[10.0; 4] },
        &Full,
        &Sinusoidal,
        Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        &Item::packed(&[5, 3]),
    )),
};

/// Joins a factor a head on cosine × softmax × `scope` (full, causal or lengths) × `position`.
pub fn new<'a, T: Real>(
    score: &'a HeadScale<'a, Cosine, T>,
    scope: &'a dyn Scope,
    position: &'a dyn Position<T>,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score, normaliser: &Softmax, scope, position, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{item, run, same};
    use super::*;
    use crate::position::NoPosition;

    #[test]
    fn lengths_do_not_count_and_each_head_is_as_sharp_as_it_likes() {
        let (l, items) = (3f64.ln(), item(1, 2));
        let factors = [l, 2.0 * l];
        let score = HeadScale { inner: Cosine, factors: &factors };
        let dims = Dims { n_heads: 2, n_kv_heads: 1, d_k: 2, d_v: 1 };
        let call = new(&score, &Full, &NoPosition, dims, &items);
        // Cosines 1 and 0, whatever the lengths: 3 : 1 and 9 : 1.
        let out = run(&call, &[7.0, 0.0, 0.1, 0.0], &[0.5, 0.0, 0.0, 40.0], &[1.0, 0.0]);
        same(&out.context, &[0.75, 0.9]);
    }
}
