//! `s = q·k / (‖q‖ ‖k‖)`

use regard_tensor::{Real, kernels::reduce};

use super::{Block, BlockMut, Score};
use crate::catalogue::{Entry, Kind, Paper, example};
use crate::{AttnError, Dims};

pub(crate) const ENTRY: Entry = Entry {
    name: "cosine",
    kind: Kind::Score,
    title: "cosine",
    formula: "s = q·k / (‖q‖ ‖k‖)",
    parts: None,
    paper: Some(Paper {
        author: "Graves",
        year: 2014,
        title: "Neural Turing Machines",
        link: "https://arxiv.org/abs/1410.5401",
    }),
    taxonomy: None,
    shapes: "q, k [d_k] → one number in [−1, 1]",
    cost: "d_k multiply-adds a pair, and d_k a query and a key for the norms",
    mistakes: &[
        "zero vectors (padding, unknown words) without a guard: 0/0",
        "the softmax of numbers in [−1, 1] is nearly flat: a factor is needed (`scaled`, \
         `head_scale`)",
    ],
    example: example!(Cosine),
};

/// `s = q·k / (‖q‖ ‖k‖)`, the cosine of the angle between q and k.
///
/// Graves et al. 2014, equation 6 (<https://arxiv.org/abs/1410.5401>); He et al. 2016 for pairs of
/// sentences. A vector of norm at most [`Cosine::EPSILON`] has no direction: its score is 0 and
/// nothing has a gradient (a formula that only bounds the norms from below gives zero vectors
/// gradients of 1/ε).
///
/// Derivative: ∂s/∂q = k/(‖q‖‖k‖) − s q/‖q‖², and the same with q and k exchanged. No parameters.
///
/// ```
/// use regard_attn::score::{Cosine, Score};
///
/// let s: f64 = Cosine.pair(0, &[1.0, 0.0], &[1.0, 1.0]);
/// assert!((s - 0.5f64.sqrt()).abs() < 1e-15);
/// assert_eq!(Cosine.pair(0, &[0.0, 0.0], &[1.0, 1.0]), 0.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cosine;

impl Cosine {
    /// Norm up to which a vector counts as zero.
    pub const EPSILON: f64 = 1e-8;
}

/// Whether one of two norms is that of no direction; false for NaN, which must show.
fn without_direction<T: Real>(nq: T, nk: T) -> bool {
    let epsilon = T::from_f64(Cosine::EPSILON);
    nq <= epsilon || nk <= epsilon
}

fn norm<T: Real>(x: &[T]) -> T {
    reduce::dot(x, x).sqrt()
}

/// The score, given the norms.
fn cosine<T: Real>(q: &[T], k: &[T], nq: T, nk: T) -> T {
    if without_direction(nq, nk) { T::ZERO } else { reduce::dot(q, k) / (nq * nk) }
}

/// The derivative, given the norms.
fn backward<T: Real>(q: &[T], k: &[T], nq: T, nk: T, g: T, dq: &mut [T], dk: &mut [T]) {
    if without_direction(nq, nk) {
        return;
    }
    let across = g / (nq * nk);
    let gs = across * reduce::dot(q, k);
    let (along_q, along_k) = (gs / (nq * nq), gs / (nk * nk));
    for c in 0..q.len() {
        dq[c] += across * k[c] - along_q * q[c];
        dk[c] += across * q[c] - along_k * k[c];
    }
}

fn norms<T: Real>(block: Block<'_, T>) -> Vec<T> {
    (0..block.rows).map(|i| norm(block.row(i))).collect()
}

impl<T: Real> Score<T> for Cosine {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn formula(&self) -> &'static str {
        ENTRY.formula
    }

    fn check(&self, _: Dims) -> Result<(), AttnError> {
        Ok(())
    }

    fn pair(&self, _: usize, q: &[T], k: &[T]) -> T {
        cosine(q, k, norm(q), norm(k))
    }

    fn pair_backward(
        &self,
        _: usize,
        q: &[T],
        k: &[T],
        g: T,
        dq: &mut [T],
        dk: &mut [T],
        _: &mut [T],
    ) {
        backward(q, k, norm(q), norm(k), g, dq, dk);
    }

    fn tile(&self, _: usize, q: Block<'_, T>, k: Block<'_, T>, out: &mut [T], stride: usize) {
        let nk = norms(k);
        for (i, nq) in norms(q).into_iter().enumerate() {
            for j in 0..k.rows {
                out[i * stride + j] = cosine(q.row(i), k.row(j), nq, nk[j]);
            }
        }
    }

    fn tile_backward(
        &self,
        _: usize,
        q: Block<'_, T>,
        k: Block<'_, T>,
        g: &[T],
        stride: usize,
        dq: &mut BlockMut<'_, T>,
        dk: &mut BlockMut<'_, T>,
        _: &mut [T],
    ) {
        let nk = norms(k);
        for (i, nq) in norms(q).into_iter().enumerate() {
            for j in 0..k.rows {
                let g = g[i * stride + j];
                if g != T::ZERO {
                    backward(q.row(i), k.row(j), nq, nk[j], g, dq.row(i), dk.row(j));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_vector_has_no_direction_and_no_gradient() {
        for (q, k) in [([0.0f32; 3], [1.0, 2.0, 3.0]), ([1e-9, 0.0, 0.0], [0.0; 3])] {
            let (mut dq, mut dk) = ([0.5; 3], [0.25; 3]);
            Cosine.pair_backward(0, &q, &k, 1.0, &mut dq, &mut dk, &mut []);
            assert_eq!(Cosine.pair(0, &q, &k), 0.0);
            assert_eq!((dq, dk), ([0.5; 3], [0.25; 3]));
        }
        assert!(Cosine.pair(0, &[f64::NAN, 0.0], &[1.0, 0.0]).is_nan());
    }

    #[test]
    fn lengths_do_not_matter() {
        let (q, k) = ([0.3f64, -0.7], [-1.1, 0.2]);
        let s = Cosine.pair(0, &q, &k);
        let scaled = Cosine.pair(0, &q.map(|x| 64.0 * x), &k.map(|x| x / 1024.0));
        assert!((s - scaled).abs() < 4.0 * f64::EPSILON);
        assert!((Cosine.pair(0, &q, &q.map(|x| -3.0 * x)) + 1.0).abs() < 4.0 * f64::EPSILON);
    }
}
