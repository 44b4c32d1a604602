//! `s = f_h · s'` around any score s', with a learned factor for each head.

use regard_tensor::Real;

use super::{Block, BlockMut, Score, own_keys_of_inner, tile_of};
use crate::catalogue::{Entry, Kind, Paper, example};
use crate::score::Cosine;
use crate::{AttnError, Dims};

pub(crate) const ENTRY: Entry = Entry {
    name: "head_scale",
    kind: Kind::Score,
    title: "learned factor a head on any score (learned temperature)",
    formula: "s = f_h · s', s' any score, h the head",
    parts: None,
    paper: Some(Paper {
        author: "Henry",
        year: 2020,
        title: "Query-Key Normalization for Transformers",
        link: "https://arxiv.org/abs/2010.04245",
    }),
    taxonomy: None,
    shapes: "as the score inside; f [n_heads]",
    cost: "that of the score inside, twice in the backward pass",
    mistakes: &[
        "a factor that begins at 1 on a cosine: the softmax is flat and hardly learns",
        "a learned factor that passes 0 turns the ranking round: learn its logarithm",
    ],
    example: example!(HeadScale { inner: Cosine, factors: &[10.0f32, 5.0] }),
};

/// `s = f_h · s'`, with f a parameter: the inverse of a temperature that each head learns.
///
/// Henry et al. 2020, equation 4 (<https://arxiv.org/abs/2010.04245>), there around the cosine and
/// with one factor for all heads. Derivative: that of s' times f_h; ∂s/∂f_h = s'. The parameters
/// are those of the score inside and then f.
///
/// ```
/// use regard_attn::score::{Dot, HeadScale, Score};
///
/// let score = HeadScale { inner: Dot, factors: &[1.0f64, 10.0] };
/// assert_eq!(score.pair(1, &[3.0], &[4.0]), 120.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeadScale<'a, S, T> {
    /// The score inside.
    pub inner: S,
    /// f, `[n_heads]`.
    pub factors: &'a [T],
}

impl<T: Real, S: Score<T>> Score<T> for HeadScale<'_, S, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn formula(&self) -> &'static str {
        ENTRY.formula
    }

    fn check(&self, dims: Dims) -> Result<(), AttnError> {
        let n_heads = dims.n_heads;
        AttnError::size(
            self.factors.len() == n_heads,
            "factors",
            format_args!("one for each of the {n_heads} heads"),
            self.factors.len(),
        )?;
        self.inner.check(dims)
    }

    own_keys_of_inner!();

    fn pair(&self, head: usize, q: &[T], k: &[T]) -> T {
        self.factors[head] * self.inner.pair(head, q, k)
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
        let (dinner, dfactors) = dparams.split_at_mut(self.inner.n_params());
        dfactors[head] += g * self.inner.pair(head, q, k);
        self.inner.pair_backward(head, q, k, g * self.factors[head], dq, dk, dinner);
    }

    fn n_params(&self) -> usize {
        self.inner.n_params() + self.factors.len()
    }

    fn tile(&self, head: usize, q: Block<'_, T>, k: Block<'_, T>, out: &mut [T], stride: usize) {
        self.inner.tile(head, q, k, out, stride);
        for i in 0..q.rows {
            for s in &mut out[i * stride..i * stride + k.rows] {
                *s = self.factors[head] * *s;
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
        let (dinner, dfactors) = dparams.split_at_mut(self.inner.n_params());
        // The scores inside, turned into their gradients.
        let mut inner = tile_of(&self.inner, head, q, k);
        for i in 0..q.rows {
            for (s, g) in inner[i * k.rows..].iter_mut().zip(&g[i * stride..i * stride + k.rows]) {
                // The score of a forbidden pair may be NaN.
                if *g != T::ZERO {
                    dfactors[head] += *g * *s;
                }
                *s = *g * self.factors[head];
            }
        }
        self.inner.tile_backward(head, q, k, &inner, k.rows, dq, dk, dinner);
    }
}
