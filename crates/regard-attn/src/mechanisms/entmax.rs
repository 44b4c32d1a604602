//! Sparse attention of an encoder-decoder, between softmax and sparsemax.
//!
//! ```text
//! a_t = entmax_1.5 over s of h_tᵀ W_a h̄_s        c_t = Σ_s a_t(s) h̄_s
//! ```
//!
//! Peters et al. 2019 (<https://arxiv.org/abs/1905.05702>): Luong's global attention with a sparse
//! map in place of the softmax. Words that play no part get the weight 0, near ones share smoothly.
//!
//! Departures: α = 1.5 alone; α = 2 is [`sparsemax`](super::sparsemax), α = 1 the softmax.

use regard_tensor::Real;

use super::{DISTINCTIVE, entmax};
use crate::catalogue::{Entry, Kind, Parts, example};
use crate::normaliser::{Entmax15, entmax15};
use crate::position::NoPosition;
use crate::scope::{Full, Scope};
use crate::score::{General, Score};
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "entmax_attention",
    kind: Kind::Mechanism,
    title: "sparse attention (entmax-1.5)",
    formula: "c_t = Σ_s a_t(s) h̄_s, a_t = entmax_1.5 over s of score(h_t, h̄_s)",
    parts: Some(Parts {
        score: &["general", "dot", "additive", "scaled_dot"],
        normaliser: &["entmax15"],
        scope: &["full", "lengths"],
        position: &["none"],
    }),
    paper: entmax15::ENTRY.paper,
    taxonomy: Some(DISTINCTIVE),
    shapes: "states h [T, n], h̄ [S, n] → c [T, n], few weights above 0",
    cost: "O(T·S·n) time and a sort of the near scores of each row; rows of scores are held whole",
    mistakes: &[
        "the factor 1/2 on the scores left out",
        "sparse weights taken for less work: every score is computed",
        "a softmax at test time after training with entmax",
    ],
    example: example!(entmax::new::<f32>(
        &General { w: &[0.1; 16 * 16] },
        &Full,
        Dims { n_heads: 1, n_kv_heads: 1, d_k: 16, d_v: 16 },
        &[Item { q_start: 0, q_len: 5, kv_start: 0, kv_len: 7, q_offset: 0 }],
    )),
};

/// Joins `score` × entmax-1.5 × `scope` (full or lengths) × none.
pub fn new<'a, T: Real>(
    score: &'a dyn Score<T>,
    scope: &'a dyn Scope,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score, normaliser: &Entmax15, scope, position: &NoPosition, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{item, one_head, run, same};
    use super::*;

    #[test]
    fn two_near_words_share_and_the_far_one_gets_nothing() {
        // s/2 = (1/4, −1/4, −3): (1/4 − τ)² + (1/4 + τ)² = 1 gives τ = −√7/4.
        let (score, items) = (General { w: &[0.5] }, item(1, 3));
        let call = new(&score, &Full, one_head(1, 1), &items);
        let out = run(&call, &[1.0], &[1.0, -1.0, -12.0], &[1.0, 0.0, 1e9]);
        let root = 7f64.sqrt() / 4.0;
        let (near, next) = ((0.25 + root).powi(2), (root - 0.25).powi(2));
        same(&out.weights, &[near, next, 0.0]);
        same(&[near + next], &[1.0]);
        same(&out.context, &[near]);
    }
}
