//! Convolution made of attention: one head for each place of the kernel.
//!
//! ```text
//! s_ij = −α_h (‖δ‖² − 2Δ_h·δ)        c_i^h = Σ_j softmax_j(s_ij) v_j^h        y_i = Σ_h W_h c_i^h
//! ```
//!
//! Cordonnier et al. 2020, theorem 1 (<https://arxiv.org/abs/1911.03584>): with a head for each shift
//! Δ of a K × K square and α → ∞, c_i^h is the pixel at i + Δ_h, and the heads' projections are the
//! kernel. Queries and keys play no part: they are zero.
//!
//! Departures: the scope is full, so that at a border the nearest pixel answers; for a border of
//! zeros give the keys one ([`Grid::padded`]).

use regard_tensor::Real;

use super::{SELF, convolution};
use crate::catalogue::{Entry, Kind, Parts, Taxonomy, example};
use crate::normaliser::Softmax;
use crate::position::{Grid, Quadratic, quadratic};
use crate::scope::Full;
use crate::score::Dot;
use crate::{Call, Dims, Item};

/// The entry of the catalogue.
pub const ENTRY: Entry = Entry {
    name: "attention_as_convolution",
    kind: Kind::Mechanism,
    title: "convolution as multi-head self-attention",
    formula: "y_i = Σ_h W_h Σ_j a_ij^h x_j, a_i^h = softmax over j of −α_h (‖δ‖² − 2Δ_h·δ), δ = place of j − place of i",
    parts: Some(Parts {
        score: &["dot"],
        normaliser: &["softmax"],
        scope: &["full"],
        position: &["quadratic"],
    }),
    paper: quadratic::ENTRY.paper,
    taxonomy: Some(Taxonomy { positions: "local", ..SELF }),
    shapes: "pixels x [h·w, d_in] row by row → v [h·w, K², d_v] → c [h·w, K², d_v] → y [h·w, d_out]",
    cost: "O(K²·(h·w)²·d_v) time, where a convolution takes O(K²·h·w·d_in·d_out); memory O(h·w·K²·d_v)",
    mistakes: &[
        "the border: without zeros around the keys the nearest pixel answers",
        "α too small: the error falls with e^{−α}",
        "content scores left in place: queries and keys must be zero",
    ],
    example: example!(convolution::new::<f32>(
        &Quadratic { params: &[20.0, 0.0, -1.0, 20.0, 0.0, 0.0, 20.0, 0.0, 1.0], grid: Grid::LINE },
        Dims { n_heads: 3, n_kv_heads: 3, d_k: 1, d_v: 16 },
        &Item::packed(&[28]),
    )),
};

/// Joins dot × softmax × full × quadratic; queries and keys are to be zero.
pub fn new<'a, T: Real>(
    position: &'a Quadratic<'a, T>,
    dims: Dims,
    items: &'a [Item],
) -> Call<'a, T> {
    Call { score: &Dot, normaliser: &Softmax, scope: &Full, position, dropout: None, dims, items }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{run, same};
    use super::*;

    #[test]
    fn three_heads_are_a_kernel_of_three() {
        // Kernel (1, 10, 100) over 1, 2, 3 with a border of one zero; e^{−50} is below rounding.
        let params = [50.0, 0.0, -1.0, 50.0, 0.0, 0.0, 50.0, 0.0, 1.0];
        let position = Quadratic { params: &params, grid: Grid { left: 1, ..Grid::LINE } };
        let dims = Dims { n_heads: 3, n_kv_heads: 1, d_k: 1, d_v: 1 };
        let items = super::super::tests::item(3, 5);
        let out =
            run(&new(&position, dims, &items), &[0.0; 9], &[0.0; 5], &[0.0, 1.0, 2.0, 3.0, 0.0]);
        let convolved: Vec<f64> =
            out.context.chunks(3).map(|c| c[0] + 10.0 * c[1] + 100.0 * c[2]).collect();
        same(&convolved, &[210.0, 321.0, 32.0]);
    }
}
