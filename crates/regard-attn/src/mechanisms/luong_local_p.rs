//! Local attention with predictive alignment: each query says where to look.
//!
//! ```text
//! p_t = S·σ(v_p·tanh(W_p h_t))
//! a_t(s) = exp(−(s − p_t)² / 2σ²) · softmax over s in [p_t − D, p_t + D] of score(h_t, h̄_s),  σ = D/2
//! ```
//!
//! Luong et al. 2015, §3.2, "local-p", equations 9 and 10 (<https://arxiv.org/abs/1508.04025>). The
//! centres p_t are made outside; they learn through the Gaussian, whose centre is not rounded.
//!
//! Departures: as in the paper's code the window is around ⌊p_t⌋ and the weights are not normalised
//! again after the Gaussian. Here places count from 0.

use regard_tensor::Real;

use super::{DISTINCTIVE, luong_local_p};
use crate::catalogue::{Entry, Kind, LUONG, Parts, Taxonomy, example};
use crate::normaliser::Softmax;
use crate::position::Gaussian;
use crate::scope::PredictedCentre;
use crate::score::{General, Score};
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "luong_local_p",
    kind: Kind::Mechanism,
    title: "local attention, predictive (Luong local-p)",
    formula: "c_t = Σ_s a_t(s) h̄_s, a_t(s) = exp(−(s − p_t)²/2σ²) · softmax over |s − ⌊p_t⌋| ≤ D of score(h_t, h̄_s)",
    parts: Some(Parts {
        score: &["general", "dot", "additive"],
        normaliser: &["softmax"],
        scope: &["predicted_centre"],
        position: &["gaussian"],
    }),
    paper: Some(LUONG),
    taxonomy: Some(Taxonomy { positions: "local", ..DISTINCTIVE }),
    shapes: "states h [T, n], h̄ [S, n], centres p [T] → c [T, n], at most 2·D + 1 keys a query",
    cost: "O(T·(2·D + 1)·n) time where neighbouring queries have near centres; memory O(S·n)",
    mistakes: &[
        "weights normalised again after the Gaussian",
        "the centre rounded in the Gaussian: then nothing learns where to look",
        "S counted with or without the end mark here and otherwise there",
    ],
    example: example!(luong_local_p::new::<f32>(
        &General { w: &[0.1; 16 * 16] },
        &PredictedCentre { centres: &[&[0.0, 1.3, 2.9]], radius: 10 },
        &Gaussian::new(&[0.0, 1.3, 2.9, 5.0], &[3]),
        Dims { n_heads: 1, n_kv_heads: 1, d_k: 16, d_v: 16 },
        &[Item { q_start: 0, q_len: 3, kv_start: 0, kv_len: 7, q_offset: 0 }],
    )),
};

/// Joins `score` (general, dot or additive) × softmax × predicted centre × Gaussian.
///
/// Both parts take the same centres: the scope for the window, the position, with σ behind them,
/// for the factor and its gradient.
pub fn new<'a, T: Real>(
    score: &'a dyn Score<T>,
    scope: &'a PredictedCentre<'a>,
    position: &'a Gaussian<'a, T>,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score, normaliser: &Softmax, scope, position, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{item, one_head, run};
    use super::*;
    use crate::score::Dot;

    #[test]
    fn ten_places() {
        // Places 1 to 10 of the paper, centre 4.6, D = 2: window 2 to 6; figures of six decimals.
        let scores = [0.3, -0.2, 0.5, 0.1, 0.9, 0.0, 0.4, -0.6, 0.2, 0.7];
        let scope = PredictedCentre { centres: &[&[3.6]], radius: 2 };
        let (position, items) = (Gaussian::new(&[3.6, 1.0], &[1]), item(1, 10));
        let call = new(&Dot, &scope, &position, one_head(1, 1), &items);
        let out = run(&call, &[1.0], &scores, &[1.0; 10]);
        let want = [0.0, 0.003964, 0.065186, 0.131269, 0.322871, 0.053370, 0.0, 0.0, 0.0, 0.0];
        assert!(out.weights.iter().zip(want).all(|(a, want)| (a - want).abs() < 6e-7));
        assert!((out.context[0] - 0.576661).abs() < 6e-7); // the sum of the weights
    }
}
