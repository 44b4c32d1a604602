//! Captions of pictures: the decoder looks at places of the picture, at all a little or at one.
//!
//! ```text
//! e_ti = u·tanh(W_c a_i + W_d h_{t−1} + b)        α_t = softmax_i(e_ti)
//! soft: ẑ_t = Σ_i α_ti a_i        hard: ẑ_t = a_s, s drawn with probability α_t
//! ```
//!
//! Xu et al. 2015, §3 and §4 (<https://arxiv.org/abs/1502.03044>), with q = W_d h_{t−1}, k_i = W_c a_i + b
//! and the annotations a_i of the places as values. Hard attention learns by the log-probability of
//! its draws and their entropy ([`Upstream`](crate::Upstream)); once trained it takes the arg max.
//!
//! Departures: the gate β_t on ẑ_t, the doubly stochastic term and the baseline are made outside.

use regard_tensor::{Key, Real};

use super::{DISTINCTIVE, show_attend_tell};
use crate::catalogue::{Entry, Kind, Parts, Taxonomy, example};
use crate::normaliser::{Normaliser, Sampled, Softmax, hard};
use crate::position::NoPosition;
use crate::scope::Full;
use crate::score::Additive;
use crate::{Call, Dims, Item};

/// Every place a little.
pub const SOFT: Entry = Entry {
    name: "show_attend_tell_soft",
    kind: Kind::Mechanism,
    title: "soft attention to the places of a picture (Show, attend and tell)",
    formula: "ẑ_t = Σ_i α_ti a_i, α_t = softmax over i of u·tanh(W_c a_i + W_d h_{t−1} + b)",
    parts: Some(Parts {
        score: &["additive"],
        normaliser: &["softmax"],
        scope: &["full"],
        position: &["none"],
    }),
    paper: hard::ENTRY.paper,
    taxonomy: Some(DISTINCTIVE),
    shapes: "annotations a [L, D], states h [T, n] → q [T, D], k [L, D] → ẑ [T, D]",
    cost: "O(T·L·D) time, all of it tanh; memory O(L·D)",
    mistakes: &[
        "the state h_t in place of h_{t−1} as the query",
        "a gate for each feature where the paper has one number for the whole of ẑ_t",
        "the doubly stochastic term summed over padded words",
    ],
    example: example!(show_attend_tell::new::<f32>(
        &Additive { v: &[0.1; 16] },
        &Softmax,
        Dims { n_heads: 1, n_kv_heads: 1, d_k: 16, d_v: 16 },
        &[Item { q_start: 0, q_len: 5, kv_start: 0, kv_len: 196, q_offset: 0 }],
    )),
};

/// One place, drawn.
pub const HARD: Entry = Entry {
    name: "show_attend_tell_hard",
    title: "hard attention to one place of a picture (Show, attend and tell)",
    formula: "ẑ_t = a_s, s ~ softmax over i of u·tanh(W_c a_i + W_d h_{t−1} + b)",
    parts: Some(Parts {
        score: &["additive"],
        normaliser: &["sampled", "hard"],
        scope: &["full"],
        position: &["none"],
    }),
    taxonomy: Some(Taxonomy { positions: "hard", ..DISTINCTIVE }),
    mistakes: &[
        "a gradient expected through the draw: only ln p(draw) and the entropy have one",
        "the sign of the baseline: the score function is times (reward − baseline)",
        "the same random key at every step",
        "draws at test time, where the arg max or the expectation is meant",
    ],
    example: example!(show_attend_tell::new::<f32>(
        &Additive { v: &[0.1; 16] },
        &Sampled { key: Key::new(7) },
        Dims { n_heads: 1, n_kv_heads: 1, d_k: 16, d_v: 16 },
        &[Item { q_start: 0, q_len: 5, kv_start: 0, kv_len: 196, q_offset: 0 }],
    )),
    ..SOFT
};

/// Joins additive × `normaliser` (softmax; sampled or hard) × full × none.
pub fn new<'a, T: Real>(
    score: &'a Additive<'a, T>,
    normaliser: &'a dyn Normaliser<T>,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score, normaliser, scope: &Full, position: &NoPosition, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{item, one_head, run, same};
    use super::*;
    use crate::normaliser::Hard;

    #[test]
    fn soft_is_what_hard_is_on_average() {
        // Probabilities 3/4 and 1/4 for 1000 words.
        let v = [3f64.ln() / 1f64.tanh()];
        let (score, items, dims) = (Additive { v: &v }, item(1000, 2), one_head(1, 1));
        let context = |normaliser: &dyn Normaliser<f64>| {
            let call = new(&score, normaliser, dims, &items);
            run(&call, &[0.0; 1000], &[1.0, 0.0], &[1.0, 0.0]).context
        };
        same(&context(&Softmax), &[0.75; 1000]);
        assert_eq!(context(&Hard), [1.0; 1000]);
        let drawn = context(&Sampled { key: Key::new(7) });
        assert!(drawn.iter().all(|z| *z == 0.0 || *z == 1.0));
        // Five times the standard deviation √(1000·3/16) = 13.7.
        assert!((drawn.iter().sum::<f64>() - 750.0).abs() < 69.0);
    }
}
