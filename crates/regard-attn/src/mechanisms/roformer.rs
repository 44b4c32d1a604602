//! Self-attention with rotary position: scores know the distance because queries and keys turn.
//!
//! ```text
//! c_i = Σ_j softmax_j((R_i q_i)·(R_j k_j) / √d_k) v_j        (R_i q)·(R_j k) = q·(R_{j−i} k)
//! ```
//!
//! Su et al. 2021, §3.2 (<https://arxiv.org/abs/2104.09864>). R_p turns the pairs of entries of a row at
//! position p by angles p·θ_i; values are not turned.
//!
//! Departures: the paper's pairs are (2i, 2i + 1); the other layout, (i, i + d_k/2), is the
//! position's choice.

use regard_tensor::Real;

use super::{SELF, roformer};
use crate::catalogue::{Entry, Kind, Parts, example};
use crate::normaliser::Softmax;
use crate::position::{Rotary, RotaryLayout, rotary};
use crate::scope::{Full, Scope};
use crate::score::ScaledDot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "roformer",
    kind: Kind::Mechanism,
    title: "self-attention with rotary position (RoFormer)",
    formula: "c_i = Σ_j a_ij v_j, a_i = softmax over j of q_i·(R_{j−i} k_j) / √d_k",
    parts: Some(Parts {
        score: &["scaled_dot"],
        normaliser: &["softmax"],
        scope: &["full", "causal", "window"],
        position: &["rotary"],
    }),
    paper: rotary::ENTRY.paper,
    taxonomy: Some(SELF),
    shapes: "x [L, d_model] → q, k [L, H, d_k] with d_k even, v [L, H, d_v] → c [L, H, d_v]",
    cost: "O(L²·d_model) time, the turns O(L·d_model) of it; memory O(L·d_model)",
    mistakes: &[
        "values turned too",
        "the layout of pairs of another model's weights",
        "new queries of a cached step turned as if they began at 0",
        "keys turned before they go into the cache and once more at every step",
    ],
    example: example!(roformer::new::<f32>(
        &ScaledDot::new(16),
        &Full,
        &Rotary::new(10000.0, RotaryLayout::Interleaved),
        Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        &Item::packed(&[5, 3]),
    )),
};

/// Joins scaled dot × softmax × `scope` (full, causal or a window) × rotary.
pub fn new<'a, T: Real>(
    score: &'a ScaledDot,
    scope: &'a dyn Scope,
    position: &'a Rotary,
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
    fn equal_rows_differ_by_the_cosine_of_their_distance() {
        let (score, items) = (ScaledDot::new(2), Item::packed(&[3]));
        let position = Rotary::new(10000.0, RotaryLayout::Interleaved);
        let call = new(&score, &Full, &position, one_head(2, 1), &items);
        let x = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0];
        let out = run(&call, &x, &x, &[1.0; 3]);
        // q·k / √2 = cos(i − j) / √2
        let e = [0.0f64, 1.0, 2.0].map(|distance| (distance.cos() / 2f64.sqrt()).exp());
        let (outer, middle) = (e[0] + e[1] + e[2], e[0] + 2.0 * e[1]);
        same(&out.weights[..3], &e.map(|e| e / outer));
        same(&out.weights[3..6], &[e[1] / middle, e[0] / middle, e[1] / middle]);
    }
}
