//! Causal self-attention whose scores are held within a cap, in windows in every other layer.
//!
//! ```text
//! s_ij = cap · tanh(q_i·k_j / (√d_k · cap))        c_i = Σ_{j ≤ i} softmax_j(s_ij) v_j
//! ```
//!
//! Gemma Team 2024, §2 (<https://arxiv.org/abs/2408.00118>): cap 50, rotary position, grouped queries;
//! layers alternate between a window and all that came before.
//!
//! Departures: none. The scope comes after the cap, so that nothing forbidden comes back as −cap.

use regard_tensor::Real;

use super::{SELF, gemma2};
use crate::catalogue::{Entry, Kind, Parts, example};
use crate::normaliser::Softmax;
use crate::position::{Rotary, RotaryLayout};
use crate::scope::{Scope, Window};
use crate::score::{ScaledDot, Softcap, softcap};
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "gemma2",
    kind: Kind::Mechanism,
    title: "causal self-attention with capped scores (Gemma 2)",
    formula: "c_i = Σ_{j ≤ i} a_ij v_j, a_i = softmax over j ≤ i of cap·tanh(q_i·k_j / (√d_k·cap))",
    parts: Some(Parts {
        score: &["softcap"],
        normaliser: &["softmax"],
        scope: &["causal", "window", "and"],
        position: &["rotary"],
    }),
    paper: softcap::ENTRY.paper,
    taxonomy: Some(SELF),
    shapes: "x [L, d_model] → q [L, H, d_k], k [L, G, d_k], v [L, G, d_v] → c [L, H, d_v]",
    cost: "O(L²·H·d_k) time and a tanh a pair, or O(L·w·H·d_k) in a window; memory O(L·d_model)",
    mistakes: &[
        "the cap after the mask: forbidden pairs come back as −cap",
        "the cap left out at inference, to use a kernel that has none",
        "the cap of the logits (30) in place of that of the scores (50)",
    ],
    example: example!(gemma2::new::<f32>(
        &Softcap { inner: ScaledDot::new(16), cap: 50.0 },
        &Window { left: 4095, right: 0 },
        &Rotary::new(10000.0, RotaryLayout::Half),
        Dims { n_heads: 8, n_kv_heads: 4, d_k: 16, d_v: 16 },
        &Item::packed(&[5, 3]),
    )),
};

/// Joins softcap of scaled dot × softmax × `scope` (causal, or a window without keys after the
/// query) × rotary.
pub fn new<'a, T: Real>(
    score: &'a Softcap<ScaledDot, T>,
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
    fn no_score_goes_beyond_the_cap_and_none_comes_back() {
        let score = Softcap { inner: ScaledDot::new(2), cap: 3f64.ln() };
        let position = Rotary::new(10000.0, RotaryLayout::Half);
        let (window, items) = (Window { left: 1, right: 0 }, Item::packed(&[3]));
        let call = new(&score, &window, &position, one_head(2, 1), &items);
        // The last query meets the key before it at −∞ and its own at 0: capped to −ln 3 and 0.
        let (q, k) = ([0.0, 0.0, 0.0, 0.0, 1e9, 0.0], [0.0, 0.0, -1e9, 0.0, 0.0, 0.0]);
        let out = run(&call, &q, &k, &[8.0, 4.0, 16.0]);
        same(&out.weights[6..], &[0.0, 0.25, 0.75]);
        same(&out.context, &[8.0, 6.0, 13.0]);
    }
}
