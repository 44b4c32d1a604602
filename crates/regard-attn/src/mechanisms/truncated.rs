//! Truncated self-attention: each position sees a window around itself.
//!
//! ```text
//! c_i = Σ_{j = i−left}^{i+right} a_ij v_j        a_i = softmax over the window of q_i·k_j / √d_k
//! ```
//!
//! Yeh et al. 2019 (<https://arxiv.org/abs/1910.12977>), for speech that is transcribed while it is
//! spoken: `right` frames of each layer are what a stream must wait for.
//!
//! Departures: none.

use regard_tensor::Real;

use super::{ORDERS, SELF, truncated};
use crate::catalogue::{Entry, Kind, Parts, Taxonomy, YEH, example};
use crate::normaliser::Softmax;
use crate::position::{NoPosition, Position};
use crate::scope::Window;
use crate::score::{ScaledDot, Score};
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "truncated_self_attention",
    kind: Kind::Mechanism,
    title: "truncated (windowed) self-attention",
    formula: "c_i = Σ_{j=i−left}^{i+right} a_ij v_j, a_i = softmax over the window of q_i·k_j / √d_k",
    parts: Some(Parts {
        score: &["scaled_dot", "dot", "additive"],
        normaliser: &["softmax"],
        scope: &["window"],
        position: ORDERS,
    }),
    paper: Some(YEH),
    taxonomy: Some(Taxonomy { positions: "local", ..SELF }),
    shapes: "x [L, d_model] → q, k [L, H, d_k], v [L, H, d_v] → c [L, H, d_v]",
    cost: "O(L·(left + right + 1)·d_model) time; memory O(L·d_model)",
    mistakes: &[
        "layers add up: N of them look N·right ahead, which is the delay of a stream",
        "left and right counted in frames where the layer sees sub-sampled ones",
        "a convolution before it that is not causal and so looks further ahead",
        "rows of −∞ at the edges",
    ],
    example: example!(truncated::new::<f32>(
        &ScaledDot::new(16),
        &Window { left: 32, right: 4 },
        &NoPosition,
        Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        &Item::packed(&[50, 30]),
    )),
};

/// Joins `score` (scaled dot, dot or additive) × softmax × window × `position`.
pub fn new<'a, T: Real>(
    score: &'a dyn Score<T>,
    window: &'a Window,
    position: &'a dyn Position<T>,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score, normaliser: &Softmax, scope: window, position, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{one_head, run, same};
    use super::*;

    #[test]
    fn one_frame_ahead_and_two_back() {
        let (score, window) = (ScaledDot::new(1), Window { left: 2, right: 1 });
        let items = Item::packed(&[5]);
        let call = new(&score, &window, &NoPosition, one_head(1, 1), &items);
        let out = run(&call, &[0.0; 5], &[0.0; 5], &[12.0, 24.0, 36.0, 48.0, 60.0]);
        same(&out.context, &[18.0, 24.0, 30.0, 42.0, 48.0]);
        assert_eq!(out.weights[20..], [0.0, 0.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]);
    }
}
