//! Self-attention inside blocks of a sequence.
//!
//! ```text
//! c_i = Σ_{j in the block of i} a_ij v_j        a_i = softmax over the block of score(q_i, k_j)
//! ```
//!
//! Shen et al. 2018, §3.1, the attention within blocks of Bi-BloSAN (<https://arxiv.org/abs/1804.00857>).
//!
//! Departures: one weight a pair, where the paper has one a feature; no mask of direction; the
//! attention between blocks, the paper's second step, is not here.

use regard_tensor::Real;

use super::{SELF, blocks};
use crate::catalogue::{Entry, Kind, Parts, Taxonomy, example};
use crate::normaliser::Softmax;
use crate::position::NoPosition;
use crate::scope::{self, Blocks};
use crate::score::{ScaledDot, Score};
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "block_self_attention",
    kind: Kind::Mechanism,
    title: "self-attention inside blocks (first step of Bi-BloSAN)",
    formula: "c_i = Σ_j a_ij v_j, a_i = softmax over ⌊j/size⌋ = ⌊i/size⌋ of score(q_i, k_j)",
    parts: Some(Parts {
        score: &["additive", "scaled_dot", "dot"],
        normaliser: &["softmax"],
        scope: &["blocks"],
        position: &["none"],
    }),
    paper: scope::blocks::ENTRY.paper,
    taxonomy: Some(Taxonomy { positions: "local", ..SELF }),
    shapes: "x [L, d_model] → q, k [L, H, d_k], v [L, H, d_v] → c [L, H, d_v]",
    cost: "O(L·size·d_model) time; memory O(L·d_model)",
    mistakes: &[
        "blocks alone: nothing passes from one to another in any number of layers",
        "the last block filled up with padding that is seen",
        "blocks across the ends of items in a packed batch: they begin with each item",
    ],
    example: example!(blocks::new::<f32>(
        &ScaledDot::new(16),
        &Blocks { size: 16 },
        Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        &Item::packed(&[50, 30]),
    )),
};

/// Joins `score` (additive, scaled dot or dot) × softmax × blocks × none.
pub fn new<'a, T: Real>(
    score: &'a dyn Score<T>,
    blocks: &'a Blocks,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call {
        score,
        normaliser: &Softmax,
        scope: blocks,
        position: &NoPosition,
        dropout: None,
        dims,
        items,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{one_head, run, same};
    use super::*;
    use crate::score::Dot;

    #[test]
    fn means_of_blocks_of_two() {
        let (blocks, items) = (Blocks { size: 2 }, Item::packed(&[3, 2]));
        let call = new(&Dot, &blocks, one_head(1, 1), &items);
        let out = run(&call, &[0.0; 5], &[0.0; 5], &[2.0, 4.0, 8.0, 16.0, 32.0]);
        same(&out.context, &[3.0, 3.0, 8.0, 24.0, 24.0]);
    }
}
