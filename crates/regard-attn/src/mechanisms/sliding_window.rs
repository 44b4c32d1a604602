//! Self-attention within a window around each position, for long texts.
//!
//! ```text
//! c_i = Σ_{|i−j| ≤ w} a_ij v_j        a_i = softmax over |i − j| ≤ w of q_i·k_j / √d_k
//! ```
//!
//! Beltagy et al. 2020, §3.1 (<https://arxiv.org/abs/2004.05150>): N layers see N·w far to each side.
//!
//! Departures: no dilation, and no global tokens with projections of their own. First tokens that
//! everyone sees are `or` of the window and lengths.

use regard_tensor::Real;

use super::{ORDERS, SELF, sliding_window};
use crate::catalogue::{Entry, Kind, Paper, Parts, Taxonomy, example};
use crate::normaliser::Softmax;
use crate::position::{NoPosition, Position};
use crate::scope::{Scope, Window};
use crate::score::ScaledDot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "sliding_window_attention",
    kind: Kind::Mechanism,
    title: "sliding-window self-attention (Longformer)",
    formula: "c_i = Σ_{|i−j| ≤ w} a_ij v_j, a_i = softmax over |i − j| ≤ w of q_i·k_j / √d_k",
    parts: Some(Parts {
        score: &["scaled_dot"],
        normaliser: &["softmax"],
        scope: &["window", "or"],
        position: ORDERS,
    }),
    paper: Some(Paper {
        author: "Beltagy",
        year: 2020,
        title: "Longformer: The Long-Document Transformer",
        link: "https://arxiv.org/abs/2004.05150",
    }),
    taxonomy: Some(Taxonomy { positions: "local", ..SELF }),
    shapes: "x [L, d_model] → q, k [L, H, d_k], v [L, H, d_v] → c [L, H, d_v]",
    cost: "O(L·w·d_model) time; memory O(L·d_model)",
    mistakes: &[
        "w for the whole window here and for one side there",
        "a mask of L × L over full attention, which saves nothing",
        "far words expected in one layer: each layer reaches w further",
    ],
    example: example!(sliding_window::new::<f32>(
        &ScaledDot::new(16),
        &Window { left: 256, right: 256 },
        &NoPosition,
        Dims { n_heads: 4, n_kv_heads: 4, d_k: 16, d_v: 16 },
        &Item::packed(&[4096]),
    )),
};

/// Joins scaled dot × softmax × `scope` (a window, or one joined with tokens for all) × `position`.
pub fn new<'a, T: Real>(
    score: &'a ScaledDot,
    scope: &'a dyn Scope,
    position: &'a dyn Position<T>,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score, normaliser: &Softmax, scope, position, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{one_head, run, same};
    use super::*;
    use crate::scope::{Lengths, Or};

    #[test]
    fn a_window_and_a_token_for_all() {
        let (window, first) = (Window { left: 1, right: 1 }, Lengths { kv: &[1] });
        let (score, items) = (ScaledDot::new(1), Item::packed(&[5]));
        let means = |scope: &dyn Scope| {
            let call = new(&score, scope, &NoPosition, one_head(1, 1), &items);
            run(&call, &[0.0; 5], &[0.0; 5], &[12.0, 0.0, 6.0, 24.0, 48.0]).context
        };
        same(&means(&window), &[6.0, 6.0, 10.0, 26.0, 36.0]);
        same(&means(&Or(&[&window, &first])), &[6.0, 6.0, 10.5, 22.5, 28.0]);
    }
}
