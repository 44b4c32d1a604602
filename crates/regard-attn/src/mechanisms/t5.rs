//! Self-attention with one learned number for each bucket of distances and each head.
//!
//! ```text
//! s_ij = q_i·k_j + b[bucket(j − i), h]        c_i = Σ_j softmax_j(s_ij) v_j
//! ```
//!
//! Raffel et al. 2020, §2.1 (<https://arxiv.org/abs/1910.10683>). The product is not divided by √d_k: the
//! factor is part of how the weights begin. An encoder has buckets in both directions, a decoder
//! (causal) in one; all layers of a stack share the table, whose gradients then add up.
//!
//! Departures: none.

use regard_tensor::Real;

use super::{SELF, t5};
use crate::catalogue::{Entry, Kind, Parts, example};
use crate::normaliser::Softmax;
use crate::position::{RelativeBias, relative_bias};
use crate::scope::{Full, Scope};
use crate::score::Dot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "t5",
    kind: Kind::Mechanism,
    title: "self-attention with a bias by buckets of distance (T5)",
    formula: "c_i = Σ_j a_ij v_j, a_i = softmax over j of q_i·k_j + b[bucket(j − i), h]",
    parts: Some(Parts {
        score: &["dot"],
        normaliser: &["softmax"],
        scope: &["full", "causal", "lengths"],
        position: &["relative_bias"],
    }),
    paper: relative_bias::ENTRY.paper,
    taxonomy: Some(SELF),
    shapes: "x [L, d_model] → q, k [L, H, d_k], v [L, H, d_v]; b [n_buckets, H] → c [L, H, d_v]",
    cost: "O(L²·H·d_k) time; memory O(L·H·d_k): the bias of all pairs is never spread out",
    mistakes: &[
        "the product divided by √d_k, with weights that were trained without",
        "buckets of both directions in the decoder",
        "a table for each layer",
    ],
    example: example!(t5::new::<f32>(
        &Full,
        &RelativeBias {
            table: &[0.1; 32 * 4],
            n_buckets: 32,
            max_distance: 128,
            bidirectional: true
        },
        Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        &Item::packed(&[5, 3]),
    )),
};

/// Joins dot × softmax × `scope` (full, causal or lengths) × relative bias.
pub fn new<'a, T: Real>(
    scope: &'a dyn Scope,
    position: &'a RelativeBias<'a, T>,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score: &Dot, normaliser: &Softmax, scope, position, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{run, same};
    use super::*;

    #[test]
    fn each_head_has_its_own_numbers() {
        // Buckets 0 and 1 for keys at and before the query, 3 for those after it.
        let l = 2f64.ln();
        let table = [0.0, 0.0, l, 0.0, 0.0, 0.0, 0.0, 2.0 * l];
        let position =
            RelativeBias { table: &table, n_buckets: 4, max_distance: 8, bidirectional: true };
        let dims = Dims { n_heads: 2, n_kv_heads: 1, d_k: 1, d_v: 1 };
        let items = Item::packed(&[2]);
        let call = new(&Full, &position, dims, &items);
        let out = run(&call, &[0.0; 4], &[0.0; 2], &[0.0; 2]);
        let third = 1.0 / 3.0;
        same(&out.weights[..4], &[0.5, 0.5, 2.0 * third, third]);
        same(&out.weights[4..], &[0.2, 0.8, 0.5, 0.5]);
    }
}
