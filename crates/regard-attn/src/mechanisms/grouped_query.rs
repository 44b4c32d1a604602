//! Several query heads on one key head: a smaller cache.
//!
//! ```text
//! c_i^h = Σ_j softmax_j(q_i^h·k_j^g / √d_k) v_j^g        g = ⌊h / (H/G)⌋
//! ```
//!
//! Shazeer 2019 (<https://arxiv.org/abs/1911.02150>) has one key and value head for all, G = 1; Ainslie
//! et al. 2023 (<https://arxiv.org/abs/2305.13245>) have G of them, between that and multi-head, G = H.
//!
//! Departures: none. [`Dims::n_kv_heads`] is G.

use regard_tensor::Real;

use super::{ORDERS, SELF, grouped_query};
use crate::catalogue::{Entry, Kind, Paper, Parts, example};
use crate::normaliser::Softmax;
use crate::position::{Position, Rotary, RotaryLayout};
use crate::scope::{Causal, Scope};
use crate::score::ScaledDot;
use crate::{Call, Dims, Item};

/// G key heads.
pub const GROUPED: Entry = Entry {
    name: "grouped_query_attention",
    kind: Kind::Mechanism,
    title: "grouped-query attention",
    formula: "c_i^h = Σ_j softmax_j(q_i^h·k_j^g / √d_k) v_j^g, g = ⌊h / (H/G)⌋",
    parts: Some(Parts {
        score: &["scaled_dot"],
        normaliser: &["softmax"],
        scope: &["causal", "full"],
        position: ORDERS,
    }),
    paper: Some(Paper {
        author: "Ainslie",
        year: 2023,
        title: "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints",
        link: "https://arxiv.org/abs/2305.13245",
    }),
    taxonomy: Some(SELF),
    shapes: "x [L, d_model] → q [L, H, d_k], k [L, G, d_k], v [L, G, d_v] → c [L, H, d_v]",
    cost: "the time of multi-head attention; keys and values, and their cache, H/G times smaller",
    mistakes: &[
        "heads interleaved, h mod G, where neighbours share: h / (H/G)",
        "keys repeated H/G times in memory, which gives the saving away",
        "gradients of k and v taken from one head of the group: they add up",
    ],
    example: example!(grouped_query::new::<f32>(
        &ScaledDot::new(16),
        &Causal::square(),
        &Rotary::new(10000.0, RotaryLayout::Half),
        Dims { n_heads: 8, n_kv_heads: 2, d_k: 16, d_v: 16 },
        &Item::packed(&[5, 3]),
    )),
};

/// One key head.
pub const MULTI_QUERY: Entry = Entry {
    name: "multi_query_attention",
    title: "multi-query attention",
    formula: "c_i^h = Σ_j softmax_j(q_i^h·k_j / √d_k) v_j, one k and v for all heads h",
    paper: Some(Paper {
        author: "Shazeer",
        year: 2019,
        title: "Fast Transformer Decoding: One Write-Head is All You Need",
        link: "https://arxiv.org/abs/1911.02150",
    }),
    shapes: "x [L, d_model] → q [L, H, d_k], k [L, 1, d_k], v [L, 1, d_v] → c [L, H, d_v]",
    cost: "the time of multi-head attention; keys and values, and their cache, H times smaller",
    example: example!(grouped_query::new::<f32>(
        &ScaledDot::new(16),
        &Causal::square(),
        &Rotary::new(10000.0, RotaryLayout::Half),
        Dims { n_heads: 8, n_kv_heads: 1, d_k: 16, d_v: 16 },
        &Item::packed(&[5, 3]),
    )),
    ..GROUPED
};

/// Joins scaled dot × softmax × `scope` (causal or full) × `position`, with fewer key heads.
pub fn new<'a, T: Real>(
    score: &'a ScaledDot,
    scope: &'a dyn Scope,
    position: &'a dyn Position<T>,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score, normaliser: &Softmax, scope, position, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{item, run, same};
    use super::*;
    use crate::{position::NoPosition, scope::Full};

    #[test]
    fn neighbouring_heads_share_keys() {
        // Four query heads, two key heads; head h asks h·ln 2.
        let dims = Dims { n_heads: 4, n_kv_heads: 2, d_k: 1, d_v: 1 };
        let (score, items, l) = (ScaledDot::new(1), item(1, 2), 2f64.ln());
        let call = new(&score, &Full, &NoPosition, dims, &items);
        // Keys (1, −1) and then (0, 0) of the two heads; values (3, 90) and then (0, 0).
        let out = run(&call, &[0.0, l, 0.0, l], &[1.0, -1.0, 0.0, 0.0], &[3.0, 90.0, 0.0, 0.0]);
        same(&out.context, &[1.5, 2.0, 45.0, 30.0]);
    }
}
