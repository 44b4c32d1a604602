//! What next? Causal self-attention over the things that someone chose, N in and N out.
//!
//! ```text
//! x_t = √d·M_{s_t} + P_t        c_t = Σ_{u ≤ t} softmax over u ≤ t of (q_t·k_u / √d) v_u
//! ```
//!
//! Kang and McAuley 2018, section III (<https://arxiv.org/abs/1808.09781>): embeddings of items with learned
//! positions go in, and the row of each t scores the item of t + 1. One head.
//!
//! Departures: the block around it, its normalised queries beside plain keys and values, the
//! feed-forward layer and the loss at every t are made outside. Items are packed, where the paper's
//! code pads on the left: a position then counts from the first item there is.

use regard_tensor::Real;

use super::{SELF, sasrec};
use crate::catalogue::{Entry, Kind, Paper, Parts, example};
use crate::normaliser::Softmax;
use crate::position::Learned;
use crate::scope::Causal;
use crate::score::ScaledDot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "sasrec",
    kind: Kind::Mechanism,
    title: "self-attention for recommendation (SASRec)",
    formula: "c_t = Σ_{u ≤ t} a_tu v_u, a_t = softmax over u ≤ t of q_t·k_u / √d, from x_t = √d·M_{s_t} + P_t",
    parts: Some(Parts {
        score: &["scaled_dot"],
        normaliser: &["softmax"],
        scope: &["causal"],
        position: &["learned"],
    }),
    paper: Some(Paper {
        author: "Kang and McAuley",
        year: 2018,
        title: "Self-Attentive Sequential Recommendation",
        link: "https://arxiv.org/abs/1808.09781",
    }),
    taxonomy: Some(SELF),
    shapes: "items s [n] → x [n, d] → q, k, v [n, d] → c [n, d], a guess of the next item at each place",
    cost: "O(n²·d) time; memory O(n·d)",
    mistakes: &[
        "padding on the right with positions counted from the left, or the reverse",
        "negative examples drawn from items that were chosen",
        "ranks among all items compared with published ranks among a hundred",
    ],
    example: example!(sasrec::new::<f32>(
        &ScaledDot::new(50),
        &Learned { table: &[0.1; 200 * 50], max_len: 200, d: 50 },
        Dims { n_heads: 1, n_kv_heads: 1, d_k: 50, d_v: 50 },
        &Item::packed(&[5, 3]),
    )),
};

/// No item sees a later one.
const SCOPE: Causal = Causal::square();

/// Joins scaled dot × softmax × causal × learned, which is added to the inputs of the layer.
pub fn new<'a, T: Real>(
    score: &'a ScaledDot,
    position: &'a Learned<'a, T>,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score, normaliser: &Softmax, scope: &SCOPE, position, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{one_head, run, same};
    use super::*;
    use crate::Position;

    #[test]
    fn positions_go_into_the_inputs_and_later_items_stay_out() {
        let position = Learned { table: &[0.0, 2f64.ln(), 0.0], max_len: 3, d: 1 };
        let mut x = [0.0; 3];
        for (t, x) in x.chunks_mut(1).enumerate() {
            position.input(t, x).unwrap();
        }
        let (score, items) = (ScaledDot::new(1), Item::packed(&[3]));
        let call = new(&score, &position, one_head(1, 1), &items);
        // Keys 0, ln 2, 0 for queries of 1: weights 1; 1/3, 2/3; 1/4, 1/2, 1/4.
        let out = run(&call, &[1.0; 3], &x, &[6.0, 12.0, 24.0]);
        same(&out.context, &[6.0, 10.0, 13.5]);
    }
}
