//! Local attention with monotonic alignment: word t of the target looks at the source around its
//! place t.
//!
//! ```text
//! p_t = t        a_t = softmax over s in [p_t − D, p_t + D] of score(h_t, h̄_s)        c_t = Σ_s a_t(s) h̄_s
//! ```
//!
//! Luong et al. 2015, §3.2, "local-m" (<https://arxiv.org/abs/1508.04025>), with D = 10. The
//! query's place counts from [`Item::q_offset`], so that one step of a decoder is one query with its
//! offset.
//!
//! Departures: a window beyond the end of the source is empty and gives a zero context; the paper's
//! code moves its centre back inside.

use regard_tensor::Real;

use super::{DISTINCTIVE, luong_local_m};
use crate::catalogue::{Entry, Kind, LUONG, Parts, Taxonomy, example};
use crate::normaliser::Softmax;
use crate::position::NoPosition;
use crate::scope::Window;
use crate::score::{General, Score};
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "luong_local_m",
    kind: Kind::Mechanism,
    title: "local attention, monotonic (Luong local-m)",
    formula: "c_t = Σ_s a_t(s) h̄_s, a_t = softmax over |s − t| ≤ D of score(h_t, h̄_s)",
    parts: Some(Parts {
        score: &["general", "dot", "additive"],
        normaliser: &["softmax"],
        scope: &["window"],
        position: &["none"],
    }),
    paper: Some(LUONG),
    taxonomy: Some(Taxonomy { positions: "local", ..DISTINCTIVE }),
    shapes: "states h [T, n], h̄ [S, n] → c [T, n], at most 2·D + 1 keys a query",
    cost: "O(T·(2·D + 1)·n) time, whatever the length of the source; memory O(S·n)",
    mistakes: &[
        "languages whose words come in another order: the window misses what is needed",
        "places counted from 1 on one side and from 0 on the other",
        "a softmax over all scores that is cut to the window afterwards",
    ],
    example: example!(luong_local_m::new::<f32>(
        &General { w: &[0.1; 16 * 16] },
        &Window { left: 10, right: 10 },
        Dims { n_heads: 1, n_kv_heads: 1, d_k: 16, d_v: 16 },
        &[Item { q_start: 0, q_len: 5, kv_start: 0, kv_len: 7, q_offset: 0 }],
    )),
};

/// Joins `score` (general, dot or additive) × softmax × window × none.
pub fn new<'a, T: Real>(
    score: &'a dyn Score<T>,
    window: &'a Window,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call {
        score,
        normaliser: &Softmax,
        scope: window,
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
    fn a_window_of_one_to_each_side() {
        // The fifth step of six, and one beyond the source.
        let items = [4, 7].map(|q_offset| Item {
            q_start: q_offset / 7,
            q_len: 1,
            kv_start: 0,
            kv_len: 6,
            q_offset,
        });
        let window = Window { left: 1, right: 1 };
        let call = new(&Dot, &window, one_head(1, 1), &items);
        let keys = [9.0, 9.0, 9.0, 0.0, 2f64.ln(), 0.0];
        let out = run(&call, &[1.0, 1.0], &keys, &[0.0, 0.0, 0.0, 4.0, 8.0, 12.0]);
        same(&out.weights[..6], &[0.0, 0.0, 0.0, 0.25, 0.5, 0.25]);
        same(&out.context, &[8.0, 0.0]);
    }
}
