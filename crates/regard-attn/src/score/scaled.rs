//! `s = factor · s'` around any score s'.

use regard_tensor::Real;

use super::{Block, BlockMut, Lowering, Score, own_keys_of_inner};
use crate::catalogue::{Entry, Kind, example};
use crate::score::Cosine;
use crate::{AttnError, Dims};

pub(crate) const ENTRY: Entry = Entry {
    name: "scaled",
    kind: Kind::Score,
    title: "constant factor on any score (inverse temperature)",
    formula: "s = factor · s', s' any score",
    parts: None,
    paper: None,
    taxonomy: None,
    shapes: "as the score inside",
    cost: "that of the score inside and a multiplication a pair",
    mistakes: &[
        "a factor that is to be learned: `head_scale` has its gradient",
        "the temperature itself as the factor: it is 1/temperature",
    ],
    example: example!(Scaled { inner: Cosine, factor: 10.0f32 }),
};

/// `s = factor · s'`
///
/// With factor 1/τ, the softmax of it is the softmax with temperature τ, and still runs piece by
/// piece; a product stays a product. Derivative: that of s' times the factor. Parameters are those
/// of the score inside.
///
/// ```
/// use regard_attn::score::{Dot, Lowering, Scaled, Score};
///
/// let score = Scaled { inner: Dot, factor: 0.5f64 };
/// assert_eq!(score.pair(0, &[3.0], &[4.0]), 6.0);
/// assert_eq!(score.lowering(), Lowering::Product { scale: 0.5 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaled<S, T> {
    /// The score inside.
    pub inner: S,
    /// The factor, finite.
    pub factor: T,
}

impl<T: Real, S: Score<T>> Score<T> for Scaled<S, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn formula(&self) -> &'static str {
        ENTRY.formula
    }

    fn check(&self, dims: Dims) -> Result<(), AttnError> {
        if !self.factor.is_finite() {
            return Err(AttnError::Option {
                option: "factor",
                expected: "finite".into(),
                actual: self.factor.to_string(),
            });
        }
        self.inner.check(dims)
    }

    own_keys_of_inner!();

    fn pair(&self, head: usize, q: &[T], k: &[T]) -> T {
        self.factor * self.inner.pair(head, q, k)
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
        self.inner.pair_backward(head, q, k, g * self.factor, dq, dk, dparams);
    }

    fn n_params(&self) -> usize {
        self.inner.n_params()
    }

    fn lowering(&self) -> Lowering<T> {
        match self.inner.lowering() {
            Lowering::Product { scale } => Lowering::Product { scale: self.factor * scale },
            Lowering::Tile => Lowering::Tile,
        }
    }

    fn tile(&self, head: usize, q: Block<'_, T>, k: Block<'_, T>, out: &mut [T], stride: usize) {
        self.inner.tile(head, q, k, out, stride);
        for i in 0..q.rows {
            for s in &mut out[i * stride..i * stride + k.rows] {
                *s = self.factor * *s;
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
        let g: Vec<T> = g.iter().map(|g| *g * self.factor).collect();
        self.inner.tile_backward(head, q, k, &g, stride, dq, dk, dparams);
    }
}
