//! `s = 1 / (1 + ‖q − k‖)`

use regard_tensor::{Real, simd};

use super::{Block, Score};
use crate::catalogue::{Entry, Kind, Paper, example};
use crate::{AttnError, Dims};

pub(crate) const ENTRY: Entry = Entry {
    name: "distance",
    kind: Kind::Score,
    title: "distance (match)",
    formula: "s = 1 / (1 + ‖q − k‖)",
    parts: None,
    paper: Some(Paper {
        author: "Yin",
        year: 2016,
        title: "ABCNN: Attention-Based Convolutional Neural Network for Modeling Sentence Pairs",
        link: "https://arxiv.org/abs/1512.05193",
    }),
    taxonomy: None,
    shapes: "q, k [d_k] → one number in (0, 1]",
    cost: "d_k multiply-adds and a root a pair",
    mistakes: &[
        "‖q‖² − 2 q·k + ‖k‖² in place of the differences: near vectors lose all digits, and the \
         root of a negative number is NaN",
        "the derivative of the root at 0, which is NaN where q = k",
        "padded columns compared as if they were words",
    ],
    example: example!(Distance),
};

/// `s = 1 / (1 + ‖q − k‖)`
///
/// "match" of Yin et al. 2016, §4.1 (<https://arxiv.org/abs/1512.05193>); with
/// [`Identity`](crate::normaliser::Identity) the weights are its attention matrix A. Derivative, with
/// r = ‖q − k‖: ∂s/∂q = −(q − k) / (r (1 + r)²) = −∂s/∂k. At q = k, where s has its peak and the
/// derivative jumps, it is taken as 0. No parameters.
///
/// ```
/// use regard_attn::score::{Distance, Score};
///
/// assert_eq!(Distance.pair(0, &[3.0f64, 0.0], &[0.0, 4.0]), 1.0 / 6.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distance;

const LANES: usize = 8;

/// `‖q − k‖`: eight partial sums of squares, then those in order, then the rest.
#[inline(always)]
fn distance<T: Real>(q: &[T], k: &[T]) -> T {
    let d = q.len();
    let k = &k[..d];
    let mut lanes = [T::ZERO; LANES];
    let body = d / LANES * LANES;
    for c in (0..body).step_by(LANES) {
        let (q, k) = (&q[c..c + LANES], &k[c..c + LANES]);
        for l in 0..LANES {
            let difference = q[l] - k[l];
            lanes[l] += difference * difference;
        }
    }
    let mut total = T::ZERO;
    for lane in lanes {
        total += lane;
    }
    for c in body..d {
        let difference = q[c] - k[c];
        total += difference * difference;
    }
    total.sqrt()
}

#[inline(always)]
fn score<T: Real>(q: &[T], k: &[T]) -> T {
    T::ONE / (T::ONE + distance(q, k))
}

impl<T: Real> Score<T> for Distance {
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
        score(q, k)
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
        let r = distance(q, k);
        if r == T::ZERO {
            return;
        }
        let factor = g / (r * (T::ONE + r) * (T::ONE + r));
        for c in 0..q.len() {
            let by_difference = factor * (q[c] - k[c]);
            dq[c] += -by_difference;
            dk[c] += by_difference;
        }
    }

    fn tile(&self, _: usize, q: Block<'_, T>, k: Block<'_, T>, out: &mut [T], stride: usize) {
        simd::vectorise(
            #[inline(always)]
            || {
                for i in 0..q.rows {
                    let out = &mut out[i * stride..i * stride + k.rows];
                    for (j, out) in out.iter_mut().enumerate() {
                        *out = score(q.row(i), k.row(j));
                    }
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_vectors_have_the_score_one_and_no_gradient() {
        let x = [0.3f32; 11];
        let (mut dq, mut dk) = ([0.0; 11], [0.0; 11]);
        Distance.pair_backward(0, &x, &x, 1.0, &mut dq, &mut dk, &mut []);
        assert_eq!(Distance.pair(0, &x, &x), 1.0);
        assert_eq!((dq, dk), ([0.0; 11], [0.0; 11]));
    }

    #[test]
    fn near_vectors_keep_their_distance() {
        // ‖q‖² − 2 q·k + ‖k‖² is 0 here in f32; the differences are exact.
        let (q, k) = ([4096.0f32, 4096.0], [4096.5, 4096.0]);
        assert_eq!(Distance.pair(0, &q, &k), 1.0 / 1.5);
    }
}
