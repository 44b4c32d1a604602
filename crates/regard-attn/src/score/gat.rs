//! `s = LeakyReLU(a₁·q + a₂·k)`

use regard_tensor::{Real, kernels::reduce};

use super::hidden::{Activation, LeakyRelu};
use super::{Block, BlockMut, Score, SumOfParts, add_scaled};
use crate::catalogue::{Entry, Kind, Paper, example};
use crate::{AttnError, Dims};

pub(crate) const ENTRY: Entry = Entry {
    name: "gat",
    kind: Kind::Score,
    title: "GAT (split additive, LeakyReLU)",
    formula: "s = LeakyReLU(a₁·q + a₂·k)",
    parts: None,
    paper: Some(Paper {
        author: "Veličković",
        year: 2018,
        title: "Graph Attention Networks",
        link: "https://arxiv.org/abs/1710.10903",
    }),
    taxonomy: None,
    shapes: "q, k [d_k] already projected, a [n_heads, 2·d_k] → one number",
    cost: "a few operations a pair, d_k multiply-adds a query and a key",
    mistakes: &[
        "every query ranks the keys alike: what tells queries apart needs GATv2",
        "the halves of a exchanged: the first belongs to the query, the node that is updated",
        "normalising over the queries of a key in place of the keys of a query",
        "self-loops forgotten where the paper adds them",
    ],
    example: example!(Gat { a: &[0.5f32, 0.5, -1.0, 1.0], slope: 0.2 }),
};

/// `s = LeakyReLU(a₁·q + a₂·k)`, LeakyReLU(x) = x for x > 0, else slope·x.
///
/// Veličković et al. 2018, equation 3 (<https://arxiv.org/abs/1710.10903>), with q = W h_i and
/// k = W h_j made outside, once a node; `aᵀ[W h_i ; W h_j]` falls apart into a₁·q + a₂·k, so that a
/// pair costs a sum. Derivative, with δ the slope of the LeakyReLU (`slope` at 0):
/// ∂s/∂q = δ a₁, ∂s/∂k = δ a₂, ∂s/∂a₁ = δ q, ∂s/∂a₂ = δ k.
///
/// ```
/// use regard_attn::score::{Gat, Score};
///
/// let score = Gat { a: &[1.0f64, 0.0, 0.0, 1.0], slope: 0.2 }; // a₁ = (1, 0), a₂ = (0, 1)
/// assert_eq!(score.pair(0, &[2.0, 9.0], &[9.0, 1.0]), 3.0);
/// assert_eq!(score.pair(0, &[-6.0, 9.0], &[9.0, 1.0]), -1.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gat<'a, T> {
    /// a₁ and then a₂ of each head, `[n_heads, 2·d_k]`.
    pub a: &'a [T],
    /// Slope of the LeakyReLU below zero, finite; 0.2 in the paper.
    pub slope: T,
}

impl<T: Real> Gat<'_, T> {
    /// a₁ and a₂ of one head.
    fn head(&self, head: usize, d: usize) -> (&[T], &[T]) {
        self.a[head * 2 * d..(head + 1) * 2 * d].split_at(d)
    }

    fn activation(&self) -> LeakyRelu<T> {
        LeakyRelu(self.slope)
    }
}

/// # Errors
/// The slope is not finite.
pub(super) fn check_slope<T: Real>(slope: T) -> Result<(), AttnError> {
    if slope.is_finite() {
        return Ok(());
    }
    Err(AttnError::Option { option: "slope", expected: "finite".into(), actual: slope.to_string() })
}

impl<T: Real> Score<T> for Gat<'_, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn formula(&self) -> &'static str {
        ENTRY.formula
    }

    fn check(&self, dims: Dims) -> Result<(), AttnError> {
        let Dims { n_heads, d_k, .. } = dims;
        AttnError::size(
            self.a.len() == n_heads * 2 * d_k,
            "a",
            format_args!("n_heads × 2·d_k = {n_heads} × {} elements", 2 * d_k),
            self.a.len(),
        )?;
        check_slope(self.slope)
    }

    fn pair(&self, head: usize, q: &[T], k: &[T]) -> T {
        let (by_q, by_k) = self.head(head, q.len());
        self.activation().value::<false>(reduce::dot(by_q, q) + reduce::dot(by_k, k))
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
        let (by_q, by_k) = self.head(head, d);
        let (_, slope) =
            self.activation().with_slope::<false>(reduce::dot(by_q, q) + reduce::dot(by_k, k));
        let g = g * slope;
        add_scaled(dq, g, by_q);
        add_scaled(dk, g, by_k);
        add_scaled(&mut dparams[head * 2 * d..][..d], g, q);
        add_scaled(&mut dparams[head * 2 * d + d..][..d], g, k);
    }

    fn n_params(&self) -> usize {
        self.a.len()
    }

    fn sum_of_parts(&self, head: usize, d_k: usize) -> Option<SumOfParts<'_, T>> {
        let ((by_query, by_key), first) = (self.head(head, d_k), head * 2 * d_k);
        let (query_params, key_params) = (first, first + d_k);
        Some(SumOfParts { by_query, by_key, slope: self.slope, query_params, key_params })
    }

    fn tile(&self, head: usize, q: Block<'_, T>, k: Block<'_, T>, out: &mut [T], stride: usize) {
        let (by_q, by_k) = self.head(head, q.width);
        if q.rows == 1 {
            // One query, as in a sparse graph: nothing of the keys is used twice.
            let of_query = reduce::dot(by_q, q.row(0));
            for (j, out) in out.iter_mut().take(k.rows).enumerate() {
                *out = self.activation().value::<false>(of_query + reduce::dot(by_k, k.row(j)));
            }
            return;
        }
        let of_keys: Vec<T> = (0..k.rows).map(|j| reduce::dot(by_k, k.row(j))).collect();
        for i in 0..q.rows {
            let of_query = reduce::dot(by_q, q.row(i));
            for (out, of_key) in out[i * stride..].iter_mut().zip(&of_keys) {
                *out = self.activation().value::<false>(of_query + *of_key);
            }
        }
    }

    /// What a pair gives to its query is a multiple of a₁, and to its key of a₂: the multiples are
    /// summed first.
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
        let (by_q, by_k) = self.head(head, d);
        let (d_by_q, d_by_k) = dparams[head * 2 * d..(head + 1) * 2 * d].split_at_mut(d);
        if q.rows == 1 {
            // One query, as in a sparse graph: a key gets one multiple, which need not be kept.
            let of_query = reduce::dot(by_q, q.row(0));
            let mut to_query = T::ZERO;
            for (j, g) in g.iter().enumerate().take(k.rows).filter(|(_, g)| **g != T::ZERO) {
                let of_key = reduce::dot(by_k, k.row(j));
                let to_key = *g * self.activation().with_slope::<false>(of_query + of_key).1;
                to_query += to_key;
                if to_key != T::ZERO {
                    add_scaled(dk.row(j), to_key, by_k);
                    add_scaled(d_by_k, to_key, k.row(j));
                }
            }
            if to_query != T::ZERO {
                add_scaled(dq.row(0), to_query, by_q);
                add_scaled(d_by_q, to_query, q.row(0));
            }
            return;
        }
        let of_keys: Vec<T> = (0..k.rows).map(|j| reduce::dot(by_k, k.row(j))).collect();
        let mut to_keys = vec![T::ZERO; k.rows];
        for i in 0..q.rows {
            let of_query = reduce::dot(by_q, q.row(i));
            let mut to_query = T::ZERO;
            for j in 0..k.rows {
                let g = g[i * stride + j];
                if g != T::ZERO {
                    let (_, slope) = self.activation().with_slope::<false>(of_query + of_keys[j]);
                    to_query += g * slope;
                    to_keys[j] += g * slope;
                }
            }
            // A query or key of no allowed pair may hold anything, NaN too.
            if to_query != T::ZERO {
                add_scaled(dq.row(i), to_query, by_q);
                add_scaled(d_by_q, to_query, q.row(i));
            }
        }
        for (j, to_key) in to_keys.into_iter().enumerate() {
            if to_key != T::ZERO {
                add_scaled(dk.row(j), to_key, by_k);
                add_scaled(d_by_k, to_key, k.row(j));
            }
        }
    }
}
