//! Cross-attention: a decoder's rows ask, the encoder's rows answer.
//!
//! ```text
//! q_i = W^q y_i    k_j = W^k h_j    v_j = W^v h_j        c_i = Σ_j softmax_j(q_i·k_j / √d_k) v_j
//! ```
//!
//! Vaswani et al. 2017, §3.2.3, "encoder-decoder attention" (<https://arxiv.org/abs/1706.03762>): y are the
//! decoder's rows after its masked self-attention, h the encoder's output. Heads and W^o as in
//! [`multi_head`](super::multi_head).
//!
//! Departures: none.

use regard_tensor::Real;

use super::{DISTINCTIVE, cross};
use crate::catalogue::{Entry, Kind, Parts, VASWANI, example};
use crate::normaliser::Softmax;
use crate::position::NoPosition;
use crate::scope::{Full, Scope};
use crate::score::ScaledDot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "cross_attention",
    kind: Kind::Mechanism,
    title: "cross-attention (Transformer decoder to encoder)",
    formula: "c_i = Σ_j softmax_j(q_i·k_j / √d_k) v_j, with q = W^q y, k = W^k h, v = W^v h",
    parts: Some(Parts {
        score: &["scaled_dot"],
        normaliser: &["softmax"],
        scope: &["full", "lengths"],
        position: &["none"],
    }),
    paper: Some(VASWANI),
    taxonomy: Some(DISTINCTIVE),
    shapes: "y [T, d_model], h [S, d_model] → q [T, H, d_k], k [S, H, d_k], v [S, H, d_v] → c [T, H, d_v]",
    cost: "O(T·S·d_model) time; memory O((T + S)·d_model); k and v are made once for all steps",
    mistakes: &[
        "a causal scope, as in the decoder's self-attention: the whole source may be seen",
        "the padding mask of the target in place of that of the source",
        "keys and values projected again at every step of the decoder",
    ],
    example: example!(cross::new::<f32>(
        &ScaledDot::new(16),
        &Full,
        Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        &[Item { q_start: 0, q_len: 5, kv_start: 0, kv_len: 7, q_offset: 0 }],
    )),
};

/// Joins scaled dot × softmax × `scope` (full, or lengths where the source is padded) × none.
pub fn new<'a, T: Real>(
    score: &'a ScaledDot,
    scope: &'a dyn Scope,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score, normaliser: &Softmax, scope, position: &NoPosition, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{item, one_head, run, same};
    use super::*;

    #[test]
    fn two_rows_ask_three() {
        let (score, items) = (ScaledDot::new(4), item(2, 3));
        let call = new(&score, &Full, one_head(4, 1), &items);
        // q·k / √4: the first row scores ln 2, 0, 0; the second 0, 0, ln 2.
        let l = 2.0 * 2f64.ln();
        let q = [l, 0.0, 0.0, 0.0, 0.0, 0.0, l, 0.0];
        let k = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        let out = run(&call, &q, &k, &[4.0, 8.0, 16.0]);
        same(&out.weights, &[0.5, 0.25, 0.25, 0.25, 0.25, 0.5]);
        same(&out.context, &[8.0, 11.0]);
    }
}
