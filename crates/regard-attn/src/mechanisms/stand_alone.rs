//! Self-attention of pixels in place of a convolution.
//!
//! ```text
//! y_ij = Σ_{(a,b) ∈ N_k(i,j)} softmax_ab(q_ij·k_ab + q_ij·r_{a−i,b−j}) v_ab        r = [r^row_{a−i} ; r^col_{b−j}]
//! ```
//!
//! Ramachandran et al. 2019, equation 3 (<https://arxiv.org/abs/1906.05909>): N_k is the k × k square
//! around a pixel, k = 2·radius + 1. As in the paper the product is not scaled.
//!
//! Departures: the stem's values, mixed by place, and the pooling between layers are made outside.

use regard_tensor::Real;

use super::{SELF, stand_alone};
use crate::catalogue::{Entry, Kind, Parts, Taxonomy, example};
use crate::normaliser::Softmax;
use crate::position::{Grid, Relative2d};
use crate::scope::{Window2d, window_2d};
use crate::score::Dot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "stand_alone_self_attention",
    kind: Kind::Mechanism,
    title: "self-attention of pixels (stand-alone, for images)",
    formula: "y_i = Σ_j a_ij v_j, a_i = softmax over j in the k × k square around i of q_i·(k_j + [r^row_δy ; r^col_δx])",
    parts: Some(Parts {
        score: &["dot"],
        normaliser: &["softmax"],
        scope: &["window_2d"],
        position: &["relative_2d"],
    }),
    paper: window_2d::ENTRY.paper,
    taxonomy: Some(Taxonomy { positions: "local", ..SELF }),
    shapes: "pixels x [h·w, d_in] row by row → q, k, v [h·w, H, d] → y [h·w, H, d]",
    cost: "O(h·w·k²·d) time for all heads; memory O(h·w·d)",
    mistakes: &[
        "the product q∘k left without its sum, so that every channel has a softmax of its own",
        "a window of the row-by-row index, which wraps around the edges",
        "rows and columns of r exchanged",
    ],
    example: example!(stand_alone::new::<f32>(
        &Window2d { width: 28, radius: 3 },
        &Relative2d {
            rows: &[0.1; 7 * 8],
            columns: &[0.1; 7 * 8],
            radius: 3,
            grid: Grid::same(28),
            scale: 1.0
        },
        Dims { n_heads: 8, n_kv_heads: 8, d_k: 16, d_v: 16 },
        &Item::packed(&[28 * 28]),
    )),
};

/// Joins dot × softmax × 2-D window × 2-D relative; both know the same width of the picture.
pub fn new<'a, T: Real>(
    scope: &'a Window2d,
    position: &'a Relative2d<'a, T>,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score: &Dot, normaliser: &Softmax, scope, position, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{one_head, run, same};
    use super::*;

    #[test]
    fn a_corner_and_the_middle_of_three_by_three() {
        // Only the distance in columns counts: 0, 0, ln 2 for −1, 0 and 1.
        let columns = [0.0, 0.0, 2f64.ln()];
        let grid = Grid::same(3);
        let position =
            Relative2d { rows: &[5.0; 3], columns: &columns, radius: 1, grid, scale: 1.0 };
        let (scope, items) = (Window2d { width: 3, radius: 1 }, Item::packed(&[9]));
        let call = new(&scope, &position, one_head(2, 1), &items);
        let q = [0.0, 1.0].repeat(9);
        let out = run(&call, &q, &[0.0; 18], &[0.0, 6.0, 0.0, 6.0, 6.0, 0.0, 0.0, 0.0, 12.0]);
        let sixth = 1.0 / 6.0;
        let third = 1.0 / 3.0;
        same(&out.weights[..9], &[sixth, third, 0.0, sixth, third, 0.0, 0.0, 0.0, 0.0]);
        let (one, two) = (1.0 / 12.0, 2.0 / 12.0);
        same(&out.weights[36..45], &[one, one, two, one, one, two, one, one, two]);
        same(&[out.context[0], out.context[4]], &[5.0, 3.5]);
    }
}
