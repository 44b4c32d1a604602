//! Truncated self-attention: each position sees a window around itself.
//!
//! ```text
//! c_i = Σ_{j = i−left}^{i+right} a_ij v_j        a_i = softmax over the window of q_i·k_j / √d_k
//! ```

use crate::catalogue::{Entry, Kind, Parts, Taxonomy, YEH, example};
use crate::normaliser::Softmax;
use crate::position::NoPosition;
use crate::scope::Window;
use crate::score::ScaledDot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "truncated_self_attention",
    kind: Kind::Mechanism,
    title: "truncated (windowed) self-attention",
    formula: "c_i = Σ_{j=i−left}^{i+right} a_ij v_j, a_i = softmax over the window of q_i·k_j / √d_k",
    parts: Some(Parts {
        score: &["scaled_dot", "dot", "additive"],
        normaliser: &["softmax"],
        scope: &["window"],
        position: &["none", "sinusoidal", "learned", "rotary"],
    }),
    paper: Some(YEH),
    taxonomy: Some(Taxonomy {
        sequences: "self",
        levels: "single",
        positions: "local",
        representations: "single",
    }),
    shapes: "x [L, d_model] → q, k [L, H, d_k], v [L, H, d_v] → c [L, H, d_v]",
    cost: "O(L·(left + right + 1)·d_model) time; memory O(L·d_model)",
    mistakes: &[
        "layers add up: N of them look N·right ahead, which is the delay of a stream",
        "left and right counted in frames where the layer sees sub-sampled ones",
        "a convolution before it that is not causal and so looks further ahead",
        "rows of −∞ at the edges",
    ],
    example: example!(Call::<f32> {
        score: &ScaledDot::new(16),
        normaliser: &Softmax,
        scope: &Window { left: 32, right: 4 },
        position: &NoPosition,
        dropout: None,
        dims: Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        items: &Item::packed(&[50, 30]),
    }),
};
