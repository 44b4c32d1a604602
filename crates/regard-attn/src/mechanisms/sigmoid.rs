//! Self-attention in which each key counts for itself.
//!
//! ```text
//! c_i = Σ_j σ(q_i·k_j / √d_k + b) v_j        b = −ln L
//! ```
//!
//! Ramapuram et al. 2024, equation 3 (<https://arxiv.org/abs/2409.04431>). The bias keeps the sum of a
//! row near that of a softmax at the start; it is a given bias of one number for each item, or for
//! all of them where lengths are equal.
//!
//! Departures: none. Rows do not sum to one.

use regard_tensor::Real;

use super::{SELF, sigmoid};
use crate::catalogue::{Entry, Kind, Parts, example};
use crate::normaliser::{self, Sigmoid};
use crate::position::{DenseBias, Position};
use crate::scope::{Full, Scope};
use crate::score::ScaledDot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "sigmoid_self_attention",
    kind: Kind::Mechanism,
    title: "self-attention by sigmoids",
    formula: "c_i = Σ_j σ(q_i·k_j / √d_k + b) v_j, b = −ln L",
    parts: Some(Parts {
        score: &["scaled_dot"],
        normaliser: &["sigmoid"],
        scope: &["full", "causal", "lengths"],
        position: &["dense_bias", "chain"],
    }),
    paper: normaliser::sigmoid::ENTRY.paper,
    taxonomy: Some(SELF),
    shapes: "x [L, d_model] → q, k [L, H, d_k], v [L, H, d_v]; b [items or 1, 1, 1, 1] → c [L, H, d_v]",
    cost: "O(L²·d_model) time; memory O(L·d_model); no row need be seen whole",
    mistakes: &[
        "the bias left out: contexts then begin about L/2 times too large",
        "the bias of the longest item for all",
        "averages that expect rows that sum to one",
    ],
    example: example!(sigmoid::new::<f32>(
        &ScaledDot::new(16),
        &Full,
        &DenseBias { data: &[-5f32.ln(), -3f32.ln()], sizes: [2, 1, 1, 1] },
        Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        &Item::packed(&[5, 3]),
    )),
};

/// Joins scaled dot × sigmoid × `scope` × `position`: a given bias, or a chain of it and others.
pub fn new<'a, T: Real>(
    score: &'a ScaledDot,
    scope: &'a dyn Scope,
    position: &'a dyn Position<T>,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score, normaliser: &Sigmoid, scope, position, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{one_head, run, same};
    use super::*;

    #[test]
    fn equal_keys_weigh_about_as_in_a_softmax() {
        // Scores 0 and ln 3, of which ln 3 is taken: σ(−ln 3) = 1/4, σ(0) = 1/2.
        let bias = DenseBias { data: &[-3f64.ln()], sizes: [1, 1, 1, 1] };
        let (score, items) = (ScaledDot::new(1), Item::packed(&[3]));
        let call = new(&score, &Full, &bias, one_head(1, 1), &items);
        let out = run(&call, &[1.0; 3], &[0.0, 0.0, 3f64.ln()], &[4.0, 8.0, 16.0]);
        same(&out.weights[..3], &[0.25, 0.25, 0.5]);
        same(&out.context, &[11.0; 3]);
        // A row of zero scores sums to 3/4, and to L/(L + 1) in general.
        let out = run(&call, &[0.0; 3], &[0.0; 3], &[1.0; 3]);
        same(&out.context, &[0.75; 3]);
    }
}
