//! `s = Σ_c a_c LeakyReLU(q_c + k_c)`

use regard_tensor::Real;

use super::gat::check_slope;
use super::hidden::{self, LeakyRelu};
use super::{Block, BlockMut, Score};
use crate::catalogue::{Entry, Kind, Paper, example};
use crate::{AttnError, Dims};

pub(crate) const ENTRY: Entry = Entry {
    name: "gatv2",
    kind: Kind::Score,
    title: "GATv2 (additive, LeakyReLU)",
    formula: "s = Σ_c a_c LeakyReLU(q_c + k_c)",
    parts: None,
    paper: Some(Paper {
        author: "Brody",
        year: 2022,
        title: "How Attentive are Graph Attention Networks?",
        link: "https://arxiv.org/abs/2105.14491",
    }),
    taxonomy: None,
    shapes: "q, k [d_k] already projected, a [n_heads, d_k] → one number",
    cost: "d_k multiply-adds a pair",
    mistakes: &[
        "the LeakyReLU after the sum with a, which is GAT again",
        "values projected by another matrix than the keys: the paper takes W_r h for both",
        "self-loops added where the task has none, or missing where it needs them",
    ],
    example: example!(Gatv2 { a: &[0.5f32, -1.0], slope: 0.2 }),
};

/// `s = Σ_c a_c LeakyReLU(q_c + k_c)`, LeakyReLU(x) = x for x > 0, else slope·x.
///
/// Brody et al. 2022, equation 7 (<https://arxiv.org/abs/2105.14491>), with q = W_l h_i and
/// k = W_r h_j made outside. The [additive](super::Additive) score with another activation; with
/// slope 1 it is [`Gat`](super::Gat). Derivative, with δ_c the slope of the LeakyReLU at
/// x_c = q_c + k_c (`slope` at 0): ∂s/∂q_c = ∂s/∂k_c = a_c δ_c, ∂s/∂a_c = LeakyReLU(x_c).
///
/// ```
/// use regard_attn::score::{Gatv2, Score};
///
/// let score = Gatv2 { a: &[1.0f64, 10.0], slope: 0.5 };
/// // x = (3, −2), LeakyReLU(x) = (3, −1)
/// assert_eq!(score.pair(0, &[2.0, 0.0], &[1.0, -2.0]), 3.0 - 10.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gatv2<'a, T> {
    /// The vectors a of all heads, `[n_heads, d_k]`.
    pub a: &'a [T],
    /// Slope of the LeakyReLU below zero, finite; 0.2 in the paper.
    pub slope: T,
}

impl<T: Real> Gatv2<'_, T> {
    /// The vector of one head.
    fn head(&self, head: usize, d_k: usize) -> &[T] {
        &self.a[head * d_k..(head + 1) * d_k]
    }

    fn activation(&self) -> LeakyRelu<T> {
        LeakyRelu(self.slope)
    }
}

impl<T: Real> Score<T> for Gatv2<'_, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn formula(&self) -> &'static str {
        ENTRY.formula
    }

    fn check(&self, dims: Dims) -> Result<(), AttnError> {
        let Dims { n_heads, d_k, .. } = dims;
        AttnError::size(
            self.a.len() == n_heads * d_k,
            "a",
            format_args!("n_heads × d_k = {n_heads} × {d_k} elements"),
            self.a.len(),
        )?;
        check_slope(self.slope)
    }

    fn pair(&self, head: usize, q: &[T], k: &[T]) -> T {
        hidden::score(self.activation(), self.head(head, q.len()), q, k)
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
        let da = &mut dparams[head * d..(head + 1) * d];
        hidden::backward(self.activation(), self.head(head, d), q, k, g, dq, dk, da);
    }

    fn n_params(&self) -> usize {
        self.a.len()
    }

    fn tile(&self, head: usize, q: Block<'_, T>, k: Block<'_, T>, out: &mut [T], stride: usize) {
        hidden::tile(self.activation(), self.head(head, q.width), q, k, out, stride);
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
        let da = &mut dparams[head * d..(head + 1) * d];
        let (f, a) = (self.activation(), self.head(head, d));
        hidden::tile_backward(f, a, q, k, g, stride, dq, dk, da);
    }
}
