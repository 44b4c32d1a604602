//! Multi-head self-attention: several small attentions side by side, mixed by W^o.
//!
//! ```text
//! c_i^h = Σ_j softmax_j(q_i^h·k_j^h / √d_k) v_j^h        output_i = W^o [c_i^1; …; c_i^H]
//! ```

use crate::catalogue::{Entry, Kind, Parts, Taxonomy, VASWANI, example};
use crate::normaliser::Softmax;
use crate::position::Sinusoidal;
use crate::scope::Full;
use crate::score::ScaledDot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "multi_head_self_attention",
    kind: Kind::Mechanism,
    title: "multi-head self-attention",
    formula: "output_i = W^o [c_i^1; …; c_i^H], c_i^h = Σ_j softmax_j(q_i^h·k_j^h / √d_k) v_j^h",
    parts: Some(Parts {
        score: &["scaled_dot", "dot", "additive"],
        normaliser: &["softmax"],
        scope: &["full"],
        position: &["none", "sinusoidal", "learned", "rotary"],
    }),
    paper: Some(VASWANI),
    taxonomy: Some(Taxonomy {
        sequences: "self",
        levels: "single",
        positions: "soft",
        representations: "single",
    }),
    shapes: "x [L, d_model] → q, k [L, H, d_k], v [L, H, d_v] → c [L, H·d_v] → output [L, d_model]",
    cost: "O(L²·d_model) time, the same for any number of heads; memory O(L·d_model)",
    mistakes: &[
        "d_k = d_model in every head: the usual width is d_model / H",
        "√d_model in place of √d_k",
        "heads cut along the sequence by a reshape without a transpose",
        "W^o left out: without it heads never mix",
        "the padding mask broadcast over the wrong axis",
    ],
    example: example!(Call::<f32> {
        score: &ScaledDot::new(16),
        normaliser: &Softmax,
        scope: &Full,
        position: &Sinusoidal,
        dropout: None,
        dims: Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        items: &Item::packed(&[5, 3]),
    }),
};
