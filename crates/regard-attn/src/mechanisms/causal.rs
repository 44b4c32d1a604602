//! Causal (masked) self-attention: no position sees a later one.
//!
//! ```text
//! c_i = Σ_{j ≤ i} a_ij v_j        a_i = softmax over j ≤ i of q_i·k_j / √d_k
//! ```
//!
//! Vaswani et al. 2017, §3.2.3 (<https://arxiv.org/abs/1706.03762>): the Transformer decoder's
//! attention to its own rows.
//!
//! Departures: none.

use regard_tensor::Real;

use super::{ORDERS, SELF, causal};
use crate::catalogue::{Entry, Kind, Parts, VASWANI, example};
use crate::normaliser::Softmax;
use crate::position::{Position, Sinusoidal};
use crate::scope::Causal;
use crate::score::{ScaledDot, Score};
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "causal_self_attention",
    kind: Kind::Mechanism,
    title: "causal (masked) self-attention (Transformer decoder)",
    formula: "c_i = Σ_{j ≤ i} a_ij v_j, a_i = softmax over j ≤ i of q_i·k_j / √d_k",
    parts: Some(Parts {
        score: &["scaled_dot", "dot", "additive"],
        normaliser: &["softmax"],
        scope: &["causal"],
        position: ORDERS,
    }),
    paper: Some(VASWANI),
    taxonomy: Some(SELF),
    shapes: "x [L, d_model] → q, k [L, H, d_k], v [L, H, d_v] → c [L, H, d_v]",
    cost: "half of full self-attention; memory O(L·d_model)",
    mistakes: &[
        "targets not shifted by one: the input holds the answer",
        "forbidden scores set to 0, which is a middling score, in place of −∞",
        "a mask aligned top-left where new queries meet keys of before",
    ],
    example: example!(causal::new::<f32>(
        &ScaledDot::new(16),
        &Causal::square(),
        &Sinusoidal,
        Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        &Item::packed(&[5, 3]),
    )),
};

/// Joins `score` (scaled dot, dot or additive) × softmax × causal × `position`.
pub fn new<'a, T: Real>(
    score: &'a dyn Score<T>,
    causal: &'a Causal,
    position: &'a dyn Position<T>,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score, normaliser: &Softmax, scope: causal, position, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{one_head, run, same};
    use super::*;
    use crate::position::NoPosition;
    use crate::scope::Alignment;

    #[test]
    fn a_step_against_what_came_before_is_the_last_row_of_all() {
        let (score, k, v) = (ScaledDot::new(1), [0.0, 2f64.ln(), 0.0], [6.0, 12.0, 24.0]);
        let (scope, items) = (Causal::square(), Item::packed(&[3]));
        let call = new(&score, &scope, &NoPosition, one_head(1, 1), &items);
        let all = run(&call, &[1.0; 3], &k, &v);
        same(&all.context, &[6.0, 10.0, 13.5]);
        let scope = Causal { alignment: Alignment::BottomRight };
        let step = [Item { q_start: 0, q_len: 1, kv_start: 0, kv_len: 3, q_offset: 2 }];
        let call = new(&score, &scope, &NoPosition, one_head(1, 1), &step);
        assert_eq!(run(&call, &[1.0], &k, &v).context, all.context[2..]);
    }
}
