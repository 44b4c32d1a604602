//! Additive attention of an encoder-decoder: the state before each word asks for what it needs of
//! the source.
//!
//! ```text
//! e_ij = v_a·tanh(W_a s_{i−1} + U_a h_j)        a_i = softmax_j(e_ij)        c_i = Σ_j a_ij h_j
//! ```
//!
//! Bahdanau et al. 2015, §3.1 and appendix A.1.2 (<https://arxiv.org/abs/1409.0473>), with
//! q_i = W_a s_{i−1}, k_j = U_a h_j and the annotations h_j as values. Cho et al. 2015
//! (<https://arxiv.org/abs/1507.01053>) use the same block for images and video, with other
//! annotations.
//!
//! Departures: none. Several steps may be queries of one call where their states are known, as
//! they are not in a decoder that feeds the context back.

use regard_tensor::Real;

use super::{DISTINCTIVE, bahdanau};
use crate::catalogue::{BAHDANAU, Entry, Kind, Parts, example};
use crate::normaliser::Softmax;
use crate::position::NoPosition;
use crate::scope::{Full, Scope};
use crate::score::Additive;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "bahdanau",
    kind: Kind::Mechanism,
    title: "additive attention of an encoder-decoder (Bahdanau)",
    formula: "c_i = Σ_j a_ij h_j, a_i = softmax over j of v_a·tanh(W_a s_{i−1} + U_a h_j)",
    parts: Some(Parts {
        score: &["additive"],
        normaliser: &["softmax"],
        scope: &["full", "lengths"],
        position: &["none"],
    }),
    paper: Some(BAHDANAU),
    taxonomy: Some(DISTINCTIVE),
    shapes: "states s [T, n], annotations h [S, 2n] → q [T, n'], k [S, n'] → c [T, 2n]",
    cost: "O(T·S·n') time, all of it tanh; memory O(S·n')",
    mistakes: &[
        "the new state s_i as the query in place of s_{i−1}",
        "U_a h_j projected again at every step",
        "padded source words left in the scope",
        "the decoder begun from the wrong end: s_0 comes from the backward state at word 1",
    ],
    example: example!(bahdanau::new::<f32>(
        &Additive { v: &[0.1; 16] },
        &Full,
        Dims { n_heads: 1, n_kv_heads: 1, d_k: 16, d_v: 32 },
        &[Item { q_start: 0, q_len: 1, kv_start: 0, kv_len: 7, q_offset: 0 }],
    )),
};

/// Joins additive × softmax × `scope` (full, or lengths where the source is padded) × none.
///
/// Queries are the projected states, keys the projected annotations, values the annotations.
pub fn new<'a, T: Real>(
    score: &'a Additive<'a, T>,
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
    use crate::scope::Lengths;

    #[test]
    fn two_words() {
        // Scores v tanh(0 + 1) = ln 3 and v tanh(0 + 0) = 0: weights 3/4 and 1/4.
        let v = [3f64.ln() / 1f64.tanh()];
        let (score, items) = (Additive { v: &v }, item(1, 3));
        let scope = Lengths { kv: &[2] };
        let call = new(&score, &scope, one_head(1, 1), &items);
        let out = run(&call, &[0.0], &[1.0, 0.0, 9.0], &[8.0, 16.0, f64::NAN]);
        same(&out.weights, &[0.75, 0.25, 0.0]);
        same(&out.context, &[10.0]);
        same(&out.lse, &[4f64.ln()]);
    }
}
