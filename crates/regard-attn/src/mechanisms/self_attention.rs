//! Self-attention with one head: queries, keys and values are projections of one sequence.
//!
//! ```text
//! q_i = W^q x_i    k_j = W^k x_j    v_j = W^v x_j    a_i = softmax_j(score(q_i, k_j))    c_i = Σ_j a_ij v_j
//! ```

use crate::catalogue::{BAHDANAU, Entry, Kind, LUONG, Parts, Taxonomy, VASWANI, example};
use crate::normaliser::Softmax;
use crate::position::{NoPosition, Sinusoidal};
use crate::scope::Full;
use crate::score::{Additive, Dot, ScaledDot};
use crate::{Call, Dims, Item};

/// One sequence, every position seen, one weight a pair.
const SOFT_SELF: Taxonomy =
    Taxonomy { sequences: "self", levels: "single", positions: "soft", representations: "single" };

/// The dot product as score.
pub const DOT: Entry = Entry {
    name: "dot_self_attention",
    kind: Kind::Mechanism,
    title: "self-attention, one head, dot product",
    formula: "c_i = Σ_j softmax_j(q_i·k_j) v_j, with q = W^q x, k = W^k x, v = W^v x",
    parts: Some(Parts {
        score: &["dot"],
        normaliser: &["softmax"],
        scope: &["full"],
        position: &["none", "sinusoidal", "learned", "rotary"],
    }),
    paper: Some(LUONG),
    taxonomy: Some(SOFT_SELF),
    shapes: "x [L, d_model] → q, k [L, d_k], v [L, d_v] → c [L, d_v]",
    cost: "O(L²·d) time; memory O(L·d), or O(L²) where the weights are asked for",
    mistakes: &[
        "v^i = W^v a^1 in some lecture notes: it is W^v a^i, of the same position",
        "without a position the order of the sequence is lost",
        "padding of shorter items left in the scope",
    ],
    example: example!(Call::<f32> {
        score: &Dot,
        normaliser: &Softmax,
        scope: &Full,
        position: &NoPosition,
        dropout: None,
        dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: 16, d_v: 16 },
        items: &Item::packed(&[5, 3]),
    }),
};

/// The dot product divided by √d_k as score.
pub const SCALED_DOT: Entry = Entry {
    name: "scaled_dot_self_attention",
    title: "self-attention, one head, scaled dot product",
    formula: "c_i = Σ_j softmax_j(q_i·k_j / √d_k) v_j, with q = W^q x, k = W^k x, v = W^v x",
    parts: Some(Parts {
        score: &["scaled_dot"],
        normaliser: &["softmax"],
        scope: &["full"],
        position: &["none", "sinusoidal", "learned", "rotary"],
    }),
    paper: Some(VASWANI),
    example: example!(Call::<f32> {
        score: &ScaledDot::new(16),
        normaliser: &Softmax,
        scope: &Full,
        position: &Sinusoidal,
        dropout: None,
        dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: 16, d_v: 16 },
        items: &Item::packed(&[5, 3]),
    }),
    ..DOT
};

/// The additive score.
pub const ADDITIVE: Entry = Entry {
    name: "additive_self_attention",
    title: "self-attention, one head, additive",
    formula: "c_i = Σ_j softmax_j(v_a·tanh(W x_i + U x_j)) v_j, with v = W^v x",
    parts: Some(Parts {
        score: &["additive"],
        normaliser: &["softmax"],
        scope: &["full"],
        position: &["none", "sinusoidal", "learned"],
    }),
    paper: Some(BAHDANAU),
    cost: "O(L²·d) time, all of it tanh; memory O(L·d)",
    mistakes: &[
        "W and U applied for each pair: L² projections in place of 2·L",
        "an array of L·L·d tanh values kept for the backward pass",
        "without a position the order of the sequence is lost",
    ],
    example: example!(Call::<f32> {
        score: &Additive { v: &[0.1; 16] },
        normaliser: &Softmax,
        scope: &Full,
        position: &Sinusoidal,
        dropout: None,
        dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: 16, d_v: 16 },
        items: &Item::packed(&[5, 3]),
    }),
    ..DOT
};
