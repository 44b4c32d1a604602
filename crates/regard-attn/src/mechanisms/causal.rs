//! Causal (masked) self-attention: no position sees a later one.
//!
//! ```text
//! c_i = Σ_{j ≤ i} a_ij v_j        a_i = softmax over j ≤ i of q_i·k_j / √d_k
//! ```

use crate::catalogue::{Entry, Kind, Parts, Taxonomy, VASWANI, example};
use crate::normaliser::Softmax;
use crate::position::Sinusoidal;
use crate::scope::Causal;
use crate::score::ScaledDot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "causal_self_attention",
    kind: Kind::Mechanism,
    title: "causal (masked) self-attention",
    formula: "c_i = Σ_{j ≤ i} a_ij v_j, a_i = softmax over j ≤ i of q_i·k_j / √d_k",
    parts: Some(Parts {
        score: &["scaled_dot", "dot", "additive"],
        normaliser: &["softmax"],
        scope: &["causal"],
        position: &["none", "sinusoidal", "learned", "rotary"],
    }),
    paper: Some(VASWANI),
    taxonomy: Some(Taxonomy {
        sequences: "self",
        levels: "single",
        positions: "soft",
        representations: "single",
    }),
    shapes: "x [L, d_model] → q, k [L, H, d_k], v [L, H, d_v] → c [L, H, d_v]",
    cost: "half of full self-attention; memory O(L·d_model)",
    mistakes: &[
        "targets not shifted by one: the input holds the answer",
        "forbidden scores set to 0, which is a middling score, in place of −∞",
        "a mask aligned top-left where new queries meet keys of before",
    ],
    example: example!(Call::<f32> {
        score: &ScaledDot::new(16),
        normaliser: &Softmax,
        scope: &Causal::square(),
        position: &Sinusoidal,
        dropout: None,
        dims: Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        items: &Item::packed(&[5, 3]),
    }),
};
