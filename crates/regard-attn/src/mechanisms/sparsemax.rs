//! Attention that ignores most keys altogether.
//!
//! ```text
//! a_i = sparsemax_j(v·tanh(W q_i + U k_j))        c_i = Σ_j a_ij v_j
//! ```
//!
//! Martins and Astudillo 2016, §4.3 (<https://arxiv.org/abs/1602.02068>), where a hypothesis looks at the
//! words of a premise. Weights are exactly 0 for keys that score too far below the best.
//!
//! Departures: any score may stand in place of the paper's additive one.

use regard_tensor::Real;

use super::{DISTINCTIVE, sparsemax};
use crate::catalogue::{Entry, Kind, Parts, example};
use crate::normaliser::{self, Sparsemax};
use crate::position::NoPosition;
use crate::scope::{Full, Scope};
use crate::score::{Additive, Score};
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "sparsemax_attention",
    kind: Kind::Mechanism,
    title: "sparse attention (sparsemax)",
    formula: "c_i = Σ_j a_ij v_j, a_i = sparsemax over j of score(q_i, k_j)",
    parts: Some(Parts {
        score: &["additive", "dot", "scaled_dot", "general"],
        normaliser: &["sparsemax"],
        scope: &["full", "lengths"],
        position: &["none"],
    }),
    paper: normaliser::sparsemax::ENTRY.paper,
    taxonomy: Some(DISTINCTIVE),
    shapes: "q [T, d], k [S, d], v [S, d_v] → c [T, d_v], few weights above 0",
    cost: "O(T·S·d) time and a sort of the near scores of each row; rows of scores are held whole",
    mistakes: &[
        "sparse weights taken for less work: every score is computed",
        "ln a in a loss or an entropy: most weights are 0",
        "scores too far apart at the start: keys out of the support learn nothing",
    ],
    example: example!(sparsemax::new::<f32>(
        &Additive { v: &[0.1; 16] },
        &Full,
        Dims { n_heads: 1, n_kv_heads: 1, d_k: 16, d_v: 16 },
        &[Item { q_start: 0, q_len: 5, kv_start: 0, kv_len: 7, q_offset: 0 }],
    )),
};

/// Joins `score` × sparsemax × `scope` (full or lengths) × none.
pub fn new<'a, T: Real>(
    score: &'a dyn Score<T>,
    scope: &'a dyn Scope,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score, normaliser: &Sparsemax, scope, position: &NoPosition, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{item, one_head, run, same};
    use super::*;
    use crate::score::Dot;

    #[test]
    fn far_keys_weigh_nothing() {
        let items = item(1, 3);
        let call = new(&Dot, &Full, one_head(1, 1), &items);
        // Scores 1, 0.5 and −1: τ = (1.5 − 1)/2.
        let out = run(&call, &[1.0], &[1.0, 0.5, -1.0], &[4.0, 8.0, 1e9]);
        same(&out.weights, &[0.75, 0.25, 0.0]);
        same(&out.context, &[5.0]);
    }
}
