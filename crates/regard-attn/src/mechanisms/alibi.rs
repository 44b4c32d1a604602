//! Causal self-attention whose scores fall with the distance, each head by a slope of its own.
//!
//! ```text
//! c_i = Σ_{j ≤ i} a_ij v_j        a_i = softmax over j ≤ i of q_i·k_j / √d_k − m_h (i − j)
//! ```
//!
//! Press et al. 2022, §3 (<https://arxiv.org/abs/2108.12409>). No position is added to the inputs; a
//! model trained on short sequences can read longer ones.
//!
//! Departures: none.

use regard_tensor::Real;

use super::{SELF, alibi};
use crate::catalogue::{Entry, Kind, Parts, example};
use crate::normaliser::Softmax;
use crate::position::{self, Alibi};
use crate::scope::{Causal, Scope};
use crate::score::ScaledDot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "alibi_self_attention",
    kind: Kind::Mechanism,
    title: "causal self-attention with linear biases (ALiBi)",
    formula: "c_i = Σ_{j ≤ i} a_ij v_j, a_i = softmax over j ≤ i of q_i·k_j / √d_k − m_h (i − j)",
    parts: Some(Parts {
        score: &["scaled_dot"],
        normaliser: &["softmax"],
        scope: &["causal", "full"],
        position: &["alibi"],
    }),
    paper: position::alibi::ENTRY.paper,
    taxonomy: Some(SELF),
    shapes: "x [L, d_model] → q, k [L, H, d_k], v [L, H, d_v] → c [L, H, d_v]",
    cost: "half of full self-attention; memory O(L·d_model); no parameters",
    mistakes: &[
        "sinusoidal or learned positions added besides",
        "slopes of another number of heads",
        "distances counted from the first new query in a cached step: it stands at q_offset",
    ],
    example: example!(alibi::new::<f32>(
        &ScaledDot::new(16),
        &Causal::square(),
        &Alibi::new(4),
        Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        &Item::packed(&[5, 3]),
    )),
};

/// Joins scaled dot × softmax × `scope` (causal; full, which takes |i − j|) × ALiBi.
pub fn new<'a, T: Real>(
    score: &'a ScaledDot,
    scope: &'a dyn Scope,
    position: &'a Alibi,
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
    fn weights_of_equal_keys_halve_with_each_step() {
        let (score, position) = (ScaledDot::new(1), Alibi::with_slopes(vec![2f64.ln()]));
        let (scope, items) = (Causal::square(), Item::packed(&[3]));
        let call = new(&score, &scope, &position, one_head(1, 1), &items);
        let out = run(&call, &[0.0; 3], &[0.0; 3], &[7.0, 14.0, 28.0]);
        let third = 1.0 / 3.0;
        let want = [1.0, 0.0, 0.0, third, 2.0 * third, 0.0, 1.0 / 7.0, 2.0 / 7.0, 4.0 / 7.0];
        same(&out.weights, &want);
        same(&out.context, &[7.0, 35.0 * third, 21.0]);
    }
}
