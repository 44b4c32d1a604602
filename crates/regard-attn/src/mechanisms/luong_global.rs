//! Global attention of an encoder-decoder, with one of four scores.
//!
//! ```text
//! dot       s = h_t·h̄_s
//! general   s = h_tᵀ W_a h̄_s
//! concat    s = v_a·tanh(W_a [h_t; h̄_s])
//! location  s = W_a h_t, one entry a place
//! a_t = softmax_s(s)        c_t = Σ_s a_t(s) h̄_s
//! ```
//!
//! Luong et al. 2015, §3.1 (<https://arxiv.org/abs/1508.04025>): the current state h_t is the query,
//! the encoder's states h̄_s are keys and values. Concat is the additive score, with the halves of
//! W_a as projections of q and k.
//!
//! Departures: the softmax of location runs over the places of the source alone, not over all that
//! the table has.

use regard_tensor::Real;

use super::{DISTINCTIVE, luong_global};
use crate::catalogue::{Entry, Kind, LUONG, Parts, example};
use crate::normaliser::Softmax;
use crate::position::NoPosition;
use crate::scope::{Full, Scope};
use crate::score::{General, Score};
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "luong_global",
    kind: Kind::Mechanism,
    title: "global attention of an encoder-decoder (Luong)",
    formula: "c_t = Σ_s a_t(s) h̄_s, a_t = softmax over s of score(h_t, h̄_s)",
    parts: Some(Parts {
        score: &["dot", "general", "additive", "location"],
        normaliser: &["softmax"],
        scope: &["full", "lengths"],
        position: &["none"],
    }),
    paper: Some(LUONG),
    taxonomy: Some(DISTINCTIVE),
    shapes: "states h [T, n], h̄ [S, n] → c [T, n]; h̃ = tanh(W_c [c; h]) is made outside",
    cost: "O(T·S·n) time; memory O(S·n)",
    mistakes: &[
        "the state before, h_{t−1}, as the query: that is Bahdanau",
        "c_t fed to the next step in place of h̃_t",
        "padded source words left in the scope",
    ],
    example: example!(luong_global::new::<f32>(
        &General { w: &[0.1; 16 * 16] },
        &Full,
        Dims { n_heads: 1, n_kv_heads: 1, d_k: 16, d_v: 16 },
        &[Item { q_start: 0, q_len: 5, kv_start: 0, kv_len: 7, q_offset: 0 }],
    )),
};

/// Joins `score` (dot, general, additive or location) × softmax × `scope` (full or lengths) × none.
pub fn new<'a, T: Real>(
    score: &'a dyn Score<T>,
    scope: &'a dyn Scope,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score, normaliser: &Softmax, scope, position: &NoPosition, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{item, one_head, run, same};
    use super::*;
    use crate::score::{Additive, Dot, Location};

    #[test]
    fn four_scores_of_one_step() {
        // h = (1, 2) against h̄ = (ln 2, 0) and (0, ln 2).
        let (l, items) = (2f64.ln(), item(1, 2));
        let states = [l, 0.0, 0.0, l];
        let weights = |score: &dyn Score<f64>| {
            let call = new(score, &Full, one_head(2, 2), &items);
            run(&call, &[1.0, 2.0], &states, &states).weights
        };
        // e^{ln 2} : e^{2 ln 2}
        same(&weights(&Dot), &[1.0 / 3.0, 2.0 / 3.0]);
        // W exchanges the entries of the query.
        same(&weights(&General { w: &[0.0, 1.0, 1.0, 0.0] }), &[2.0 / 3.0, 1.0 / 3.0]);
        // The rows of the table meet h, whatever the states are: e^{ln 2} : e^{0}.
        let location = Location { table: &[l, 0.0, 0.0, 0.0, 7.0, 7.0], max_len: 3, d_k: 2 };
        same(&weights(&location), &[2.0 / 3.0, 1.0 / 3.0]);
        // v = (1, 0): tanh(1 + ln 2) against tanh(1).
        let (a, b) = ((1.0 + l).tanh().exp(), 1f64.tanh().exp());
        same(&weights(&Additive { v: &[1.0, 0.0] }), &[a / (a + b), b / (a + b)]);
    }
}
