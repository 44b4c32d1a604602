//! Many to one: a learned vector asks which words matter.
//!
//! ```text
//! u_t = tanh(W h_t + b)        α = softmax_t(u_w·u_t)        s = Σ_t α_t h_t
//! ```
//!
//! Yang et al. 2016, §2.2, the attention over words (<https://aclanthology.org/N16-1174/>), as the
//! additive score: k_t = W h_t, the one query of each item is b, and v is the vector u_w. Values are
//! the h_t themselves.
//!
//! Departures: none for one level. The hierarchy, words to sentences to a document, is two of these
//! with an encoder between them.

use regard_tensor::Real;

use super::{SELF, additive_pooling};
use crate::catalogue::{Entry, Kind, Paper, Parts, example};
use crate::normaliser::Softmax;
use crate::position::NoPosition;
use crate::scope::{Full, Scope};
use crate::score::Additive;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "additive_pooling",
    kind: Kind::Mechanism,
    title: "pooling by attention, many to one (HAN's word attention)",
    formula: "s = Σ_t α_t h_t, α = softmax over t of u_w·tanh(W h_t + b)",
    parts: Some(Parts {
        score: &["additive"],
        normaliser: &["softmax"],
        scope: &["full", "lengths"],
        position: &["none"],
    }),
    paper: Some(Paper {
        author: "Yang",
        year: 2016,
        title: "Hierarchical Attention Networks for Document Classification",
        link: "https://aclanthology.org/N16-1174/",
    }),
    taxonomy: Some(SELF),
    shapes: "words h [L, d], one query b [1, d_a] → W h [L, d_a] → s [1, d]",
    cost: "O(L·d_a) time, all of it tanh; memory O(L·d)",
    mistakes: &[
        "padded words left in the scope: they share the weight",
        "the softmax over the batch in place of the words",
        "u_w taken for a vector of each document: it is a parameter",
    ],
    example: example!(additive_pooling::new::<f32>(
        &Additive { v: &[0.1; 100] },
        &Full,
        Dims { n_heads: 1, n_kv_heads: 1, d_k: 100, d_v: 100 },
        &[Item { q_start: 0, q_len: 1, kv_start: 0, kv_len: 7, q_offset: 0 }],
    )),
};

/// Joins additive × softmax × `scope` (full, or lengths where words are padded) × none; every item
/// has one query.
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
    fn three_words_and_padding() {
        // b = 0.5, W h = 0.5, −0.5, −0.5: u_w·tanh(1) = ln 2 and 0.
        let v = [2f64.ln() / 1f64.tanh()];
        let (score, items, scope) = (Additive { v: &v }, item(1, 4), Lengths { kv: &[3] });
        let call = new(&score, &scope, one_head(1, 2), &items);
        let h = [8.0, 0.0, 0.0, 4.0, 4.0, 4.0, 99.0, 99.0];
        let out = run(&call, &[0.5], &[0.5, -0.5, -0.5, 9.0], &h);
        same(&out.weights, &[0.5, 0.25, 0.25, 0.0]);
        same(&out.context, &[5.0, 2.0]);
    }
}
