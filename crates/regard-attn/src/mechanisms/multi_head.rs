//! Multi-head self-attention: several small attentions side by side, mixed by W^o.
//!
//! ```text
//! c_i^h = Σ_j softmax_j(q_i^h·k_j^h / √d_k) v_j^h        output_i = W^o [c_i^1; …; c_i^H]
//! ```
//!
//! Vaswani et al. 2017, §3.2.2 (<https://arxiv.org/abs/1706.03762>): the Transformer encoder's
//! attention to its own rows.
//!
//! Departures: W^o is applied outside; a call gives the contexts of the heads side by side.

use regard_tensor::Real;

use super::{ORDERS, SELF, multi_head};
use crate::catalogue::{Entry, Kind, Parts, VASWANI, example};
use crate::normaliser::Softmax;
use crate::position::{Position, Sinusoidal};
use crate::scope::{Full, Scope};
use crate::score::{ScaledDot, Score};
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "multi_head_self_attention",
    kind: Kind::Mechanism,
    title: "multi-head self-attention (Transformer encoder)",
    formula: "output_i = W^o [c_i^1; …; c_i^H], c_i^h = Σ_j softmax_j(q_i^h·k_j^h / √d_k) v_j^h",
    parts: Some(Parts {
        score: &["scaled_dot", "dot", "additive"],
        normaliser: &["softmax"],
        scope: &["full", "lengths"],
        position: ORDERS,
    }),
    paper: Some(VASWANI),
    taxonomy: Some(SELF),
    shapes: "x [L, d_model] → q, k [L, H, d_k], v [L, H, d_v] → c [L, H·d_v] → output [L, d_model]",
    cost: "O(L²·d_model) time, the same for any number of heads; memory O(L·d_model)",
    mistakes: &[
        "d_k = d_model in every head: the usual width is d_model / H",
        "√d_model in place of √d_k",
        "heads cut along the sequence by a reshape without a transpose",
        "W^o left out: without it heads never mix",
        "the padding mask broadcast over the wrong axis",
    ],
    example: example!(multi_head::new::<f32>(
        &ScaledDot::new(16),
        &Full,
        &Sinusoidal,
        Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        &Item::packed(&[5, 3]),
    )),
};

/// Joins `score` (scaled dot, dot or additive) × softmax × `scope` (full or lengths) × `position`.
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
    use super::super::tests::{run, same};
    use super::*;
    use crate::position::NoPosition;

    #[test]
    fn each_head_looks_for_itself() {
        // Two rows of two heads of width 1: scores ln 2 and 0 for the first, 0 and ln 3 for the second.
        let dims = Dims { n_heads: 2, n_kv_heads: 2, d_k: 1, d_v: 1 };
        let (score, items) = (ScaledDot::new(1), Item::packed(&[2]));
        let call = new(&score, &Full, &NoPosition, dims, &items);
        let k = [2f64.ln(), 0.0, 0.0, 3f64.ln()];
        let out = run(&call, &[1.0; 4], &k, &[3.0, 4.0, 6.0, 8.0]);
        same(&out.context, &[4.0, 7.0, 4.0, 7.0]);
    }
}
