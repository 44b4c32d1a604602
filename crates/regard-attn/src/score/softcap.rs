//! `s = cap · tanh(s' / cap)` around any score s'.

use regard_tensor::Real;

use super::{Block, BlockMut, Score, own_keys_of_inner, tile_of};
use crate::catalogue::{Entry, Kind, Paper, example};
use crate::score::ScaledDot;
use crate::{AttnError, Dims};

pub(crate) const ENTRY: Entry = Entry {
    name: "softcap",
    kind: Kind::Score,
    title: "soft cap on any score",
    formula: "s = cap · tanh(s' / cap), s' any score",
    parts: None,
    paper: Some(Paper {
        author: "Gemma Team",
        year: 2024,
        title: "Gemma 2: Improving Open Language Models at a Practical Size",
        link: "https://arxiv.org/abs/2408.00118",
    }),
    taxonomy: None,
    shapes: "as the score inside; one number in [−cap, cap]",
    cost: "that of the score inside and one tanh a pair",
    mistakes: &[
        "capping after forbidden pairs became −∞: they come back as −cap",
        "leaving the cap out at inference, where training had it",
    ],
    example: example!(Softcap { inner: ScaledDot::new(64), cap: 50.0f32 }),
};

/// `s = cap · tanh(s' / cap)`: a score s' held within ±cap, hardly changed near 0.
///
/// Gemma Team 2024, §2 (<https://arxiv.org/abs/2408.00118>). Scopes come after it, so a forbidden
/// pair stays at −∞. Derivative: ∂s/∂s' = 1 − (s/cap)², times that of s'. Parameters are those of
/// the score inside.
///
/// ```
/// use regard_attn::score::{Dot, Score, Softcap};
///
/// let score = Softcap { inner: Dot, cap: 2.0f64 };
/// assert!((score.pair(0, &[1.0], &[1e-3]) - 1e-3).abs() < 1e-9);
/// assert_eq!(score.pair(0, &[1e3], &[-1e3]), -2.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Softcap<S, T> {
    /// The score inside.
    pub inner: S,
    /// The largest score, finite and above 0.
    pub cap: T,
}

impl<S, T: Real> Softcap<S, T> {
    fn capped(&self, s: T) -> T {
        self.cap * (s / self.cap).tanh()
    }

    /// ∂s/∂s' at s'.
    fn slope(&self, s: T) -> T {
        let t = (s / self.cap).tanh();
        T::ONE - t * t
    }
}

impl<T: Real, S: Score<T>> Score<T> for Softcap<S, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn formula(&self) -> &'static str {
        ENTRY.formula
    }

    fn check(&self, dims: Dims) -> Result<(), AttnError> {
        if !(self.cap > T::ZERO && self.cap.is_finite()) {
            return Err(AttnError::Option {
                option: "cap",
                expected: "finite and above 0".into(),
                actual: self.cap.to_string(),
            });
        }
        self.inner.check(dims)
    }

    own_keys_of_inner!();

    fn pair(&self, head: usize, q: &[T], k: &[T]) -> T {
        self.capped(self.inner.pair(head, q, k))
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
        let g = g * self.slope(self.inner.pair(head, q, k));
        self.inner.pair_backward(head, q, k, g, dq, dk, dparams);
    }

    fn n_params(&self) -> usize {
        self.inner.n_params()
    }

    fn tile(&self, head: usize, q: Block<'_, T>, k: Block<'_, T>, out: &mut [T], stride: usize) {
        self.inner.tile(head, q, k, out, stride);
        for i in 0..q.rows {
            for s in &mut out[i * stride..i * stride + k.rows] {
                *s = self.capped(*s);
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
        // The scores inside, turned into their gradients.
        let mut inner = tile_of(&self.inner, head, q, k);
        for i in 0..q.rows {
            for (s, g) in inner[i * k.rows..].iter_mut().zip(&g[i * stride..i * stride + k.rows]) {
                // The score of a forbidden pair may be NaN.
                *s = if *g == T::ZERO { T::ZERO } else { *g * self.slope(*s) };
            }
        }
        self.inner.tile_backward(head, q, k, &inner, k.rows, dq, dk, dparams);
    }
}
