//! `s = qᵀ W k`

use regard_tensor::{Real, kernels::reduce};

use super::{Block, BlockMut, Score, add_scaled};
use crate::catalogue::{Entry, Kind, LUONG, example};
use crate::{AttnError, Dims};

pub(crate) const ENTRY: Entry = Entry {
    name: "general",
    kind: Kind::Score,
    title: "general (bilinear)",
    formula: "s = qᵀ W k",
    parts: None,
    paper: Some(LUONG),
    taxonomy: None,
    shapes: "q, k [d_k], W [n_heads, d_k, d_k] → one number",
    cost: "d_k multiply-adds a pair, and d_k² a query",
    mistakes: &[
        "W k computed again for every query: qᵀ W once a query, or W k once a key, is enough",
        "W transposed: the first axis belongs to the query",
        "no factor 1/√d_k, so W must begin small",
    ],
    example: example!(General { w: &[1.0f32, 0.0, 0.0, 1.0] }),
};

/// `s = qᵀ W k = Σ_c Σ_e q_c W_ce k_e`
///
/// Luong et al. 2015, §3.1, "general" (<https://arxiv.org/abs/1508.04025>). Queries and keys have
/// one width here; where they do not, project one of them and take [`Dot`](super::Dot), which is the
/// same thing. Derivative: ∂s/∂q = W k, ∂s/∂k = Wᵀ q, ∂s/∂W = q kᵀ.
///
/// A tile computes u = Wᵀ q once a query and then u·k; its derivative sums g_ij k_j over the keys
/// before it multiplies by W, so that W costs d_k² a query and not a pair.
///
/// ```
/// use regard_attn::score::{General, Score};
///
/// // W = (0 2; 1 0): q₁ meets twice k₂, q₂ meets k₁.
/// let score = General { w: &[0.0f64, 2.0, 1.0, 0.0] };
/// assert_eq!(score.pair(0, &[3.0, 5.0], &[10.0, 100.0]), 3.0 * 2.0 * 100.0 + 5.0 * 10.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct General<'a, T> {
    /// The matrices W of all heads, `[n_heads, d_k, d_k]`: row c belongs to entry c of the query.
    pub w: &'a [T],
}

impl<T: Real> General<'_, T> {
    /// The matrix of one head.
    fn head(&self, head: usize, d: usize) -> &[T] {
        &self.w[head * d * d..(head + 1) * d * d]
    }
}

/// `u = Wᵀ q`
fn project<T: Real>(w: &[T], q: &[T], u: &mut [T]) {
    u.fill(T::ZERO);
    for (row, q) in w.chunks_exact(u.len()).zip(q) {
        add_scaled(u, *q, row);
    }
}

/// For a sum k of keys, weighted by g: `dq += W k` and `dW += q kᵀ`.
fn by_query_and_matrix<T: Real>(w: &[T], q: &[T], k: &[T], dq: &mut [T], dw: &mut [T]) {
    let d = q.len();
    for c in 0..d {
        let row = c * d..(c + 1) * d;
        dq[c] += reduce::dot(&w[row.clone()], k);
        add_scaled(&mut dw[row], q[c], k);
    }
}

impl<T: Real> Score<T> for General<'_, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn formula(&self) -> &'static str {
        ENTRY.formula
    }

    fn check(&self, dims: Dims) -> Result<(), AttnError> {
        let Dims { n_heads, d_k, .. } = dims;
        AttnError::size(
            self.w.len() == n_heads * d_k * d_k,
            "w",
            format_args!("n_heads × d_k × d_k = {n_heads} × {d_k} × {d_k} elements"),
            self.w.len(),
        )
    }

    fn pair(&self, head: usize, q: &[T], k: &[T]) -> T {
        let mut u = vec![T::ZERO; q.len()];
        project(self.head(head, q.len()), q, &mut u);
        reduce::dot(&u, k)
    }

    fn pair_backward(
        &self,
        head: usize,
        q: &[T],
        k: &[T],
        g: T,
        dq: &mut [T],
        dk: &mut [T],
        dparams: &mut [T],
    ) {
        let d = q.len();
        let w = self.head(head, d);
        let mut u = vec![T::ZERO; d];
        project(w, q, &mut u);
        add_scaled(dk, g, &u);
        let k: Vec<T> = k.iter().map(|k| g * *k).collect();
        by_query_and_matrix(w, q, &k, dq, &mut dparams[head * d * d..(head + 1) * d * d]);
    }

    fn n_params(&self) -> usize {
        self.w.len()
    }

    fn tile(&self, head: usize, q: Block<'_, T>, k: Block<'_, T>, out: &mut [T], stride: usize) {
        let w = self.head(head, q.width);
        let mut u = vec![T::ZERO; q.width];
        for i in 0..q.rows {
            project(w, q.row(i), &mut u);
            for j in 0..k.rows {
                out[i * stride + j] = reduce::dot(&u, k.row(j));
            }
        }
    }

    fn tile_backward(
        &self,
        head: usize,
        q: Block<'_, T>,
        k: Block<'_, T>,
        g: &[T],
        stride: usize,
        dq: &mut BlockMut<'_, T>,
        dk: &mut BlockMut<'_, T>,
        dparams: &mut [T],
    ) {
        let d = q.width;
        let w = self.head(head, d);
        let dw = &mut dparams[head * d * d..(head + 1) * d * d];
        let (mut u, mut sum) = (vec![T::ZERO; d], vec![T::ZERO; d]);
        for i in 0..q.rows {
            let g = &g[i * stride..i * stride + k.rows];
            if g.iter().all(|g| *g == T::ZERO) {
                continue;
            }
            project(w, q.row(i), &mut u);
            sum.fill(T::ZERO);
            for (j, g) in g.iter().enumerate() {
                if *g != T::ZERO {
                    add_scaled(&mut sum, *g, k.row(j));
                    add_scaled(dk.row(j), *g, &u);
                }
            }
            by_query_and_matrix(w, q.row(i), &sum, dq.row(i), dw);
        }
    }
}
