//! One hop of an end-to-end memory network: a question looks at facts.
//!
//! ```text
//! p_i = softmax_i(u·m_i)        o = Σ_i p_i c_i        u' = u + o
//! ```
//!
//! Sukhbaatar et al. 2015, §2 (<https://arxiv.org/abs/1503.08895>): the question's embedding u is the
//! query; each fact has an embedding m_i as key and another, c_i, as value.
//!
//! Departures: this is one hop. The sum u + o, further hops, and the vectors of time that m_i and
//! c_i hold are made outside. "Linear start" leaves the softmax out at first: the normaliser
//! identity.

use regard_tensor::Real;

use super::{DISTINCTIVE, memory};
use crate::catalogue::{Entry, Kind, Paper, Parts, example};
use crate::normaliser::{Normaliser, Softmax};
use crate::position::NoPosition;
use crate::scope::{Full, Scope};
use crate::score::Dot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "memory_hop",
    kind: Kind::Mechanism,
    title: "one hop of an end-to-end memory network",
    formula: "o = Σ_i p_i c_i, p = softmax over i of u·m_i",
    parts: Some(Parts {
        score: &["dot"],
        normaliser: &["softmax", "identity"],
        scope: &["full", "lengths"],
        position: &["none"],
    }),
    paper: Some(Paper {
        author: "Sukhbaatar",
        year: 2015,
        title: "End-To-End Memory Networks",
        link: "https://arxiv.org/abs/1503.08895",
    }),
    taxonomy: Some(DISTINCTIVE),
    shapes: "question u [1, d], facts m, c [n, d] → o [1, d]",
    cost: "O(n·d) time and memory a hop",
    mistakes: &[
        "the time of a fact counted from the oldest: 1 is the newest",
        "no linear start: some tasks are then not learned",
        "memory without facts left in the scope",
    ],
    example: example!(memory::new::<f32>(
        &Softmax,
        &Full,
        Dims { n_heads: 1, n_kv_heads: 1, d_k: 20, d_v: 20 },
        &[Item { q_start: 0, q_len: 1, kv_start: 0, kv_len: 50, q_offset: 0 }],
    )),
};

/// Joins dot × `normaliser` (softmax; identity for the linear start) × `scope` (full, or lengths
/// where memories are padded) × none.
pub fn new<'a, T: Real>(
    normaliser: &'a dyn Normaliser<T>,
    scope: &'a dyn Scope,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score: &Dot, normaliser, scope, position: &NoPosition, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{item, one_head, run, same};
    use super::*;
    use crate::normaliser::Identity;

    #[test]
    fn a_question_and_two_facts() {
        let (items, l) = (item(1, 2), 3f64.ln());
        let answer = |normaliser: &dyn Normaliser<f64>| {
            let call = new(normaliser, &Full, one_head(2, 2), &items);
            run(&call, &[1.0, 0.0], &[l, 5.0, 0.0, 5.0], &[1.0, 0.0, 0.0, 1.0]).context
        };
        same(&answer(&Softmax), &[0.75, 0.25]);
        same(&answer(&Identity), &[l, 0.0]); // linear start
    }
}
