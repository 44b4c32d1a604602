//! `s = Σ_c v_c tanh(q_c + k_c)`

use regard_tensor::Real;

use super::hidden::{self, Tanh};
use super::{Block, BlockMut, Score};
use crate::catalogue::{BAHDANAU, Entry, Kind, example};
use crate::{AttnError, Dims};

pub(crate) const ENTRY: Entry = Entry {
    name: "additive",
    kind: Kind::Score,
    title: "additive (concat, one-layer perceptron)",
    formula: "s = Σ_c v_c tanh(q_c + k_c)",
    parts: None,
    paper: Some(BAHDANAU),
    taxonomy: None,
    shapes: "q, k [d_k] already projected, v [n_heads, d_k] → one number",
    cost: "d_k tanh a pair, each dearer by far than a multiply-add",
    mistakes: &[
        "projecting the keys again for every query: U_a h is computed once",
        "the decoder's new state s_i as the query in place of s_{i-1}",
        "rotary position with it: a sum of turned vectors does not depend on the distance alone",
    ],
    example: example!(Additive { v: &[0.5f32, -1.0] }),
};

/// `s = Σ_c v_c tanh(q_c + k_c)`
///
/// Bahdanau et al. 2015, appendix A.1.2 (<https://arxiv.org/abs/1409.0473>): `v_a^T tanh(W_a s + U_a h)`.
/// The two projections are done outside, once a row and not once a pair: here q = W_a s and
/// k = U_a h, each of the width d_k of the hidden layer. A bias inside the tanh may be added
/// to either. The same score is called "concat" (`v^T tanh(W [s; h])`, W = [W_a U_a]) and MLP.
///
/// Derivative, with t_c = tanh(q_c + k_c): ∂s/∂q_c = ∂s/∂k_c = v_c (1 − t_c²), ∂s/∂v_c = t_c.
/// Nothing is kept for it; t is computed again.
///
/// ```
/// use regard_attn::score::{Additive, Score};
///
/// let score = Additive { v: &[2.0f64, 1.0] }; // one head of width 2
/// let s = score.pair(0, &[0.5, 3.0], &[0.0, -3.0]);
/// assert!((s - 2.0 * 0.5f64.tanh()).abs() < 1e-15);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Additive<'a, T> {
    /// The vectors v of all heads, `[n_heads, d_k]`.
    pub v: &'a [T],
}

impl<T: Real> Additive<'_, T> {
    /// The vector of one head.
    fn head(&self, head: usize, d_k: usize) -> &[T] {
        &self.v[head * d_k..(head + 1) * d_k]
    }
}

impl<T: Real> Score<T> for Additive<'_, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn formula(&self) -> &'static str {
        ENTRY.formula
    }

    fn check(&self, dims: Dims) -> Result<(), AttnError> {
        let Dims { n_heads, d_k, .. } = dims;
        AttnError::size(
            self.v.len() == n_heads * d_k,
            "v",
            format_args!("n_heads × d_k = {n_heads} × {d_k} elements"),
            self.v.len(),
        )
    }

    fn pair(&self, head: usize, q: &[T], k: &[T]) -> T {
        hidden::score(Tanh, self.head(head, q.len()), q, k)
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
        let dv = &mut dparams[head * d..(head + 1) * d];
        hidden::backward(Tanh, self.head(head, d), q, k, g, dq, dk, dv);
    }

    fn n_params(&self) -> usize {
        self.v.len()
    }

    fn tile(&self, head: usize, q: Block<'_, T>, k: Block<'_, T>, out: &mut [T], stride: usize) {
        hidden::tile(Tanh, self.head(head, q.width), q, k, out, stride);
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
        let dv = &mut dparams[head * d..(head + 1) * d];
        hidden::tile_backward(Tanh, self.head(head, d), q, k, g, stride, dq, dk, dv);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_testkit::random_vec_f32;

    #[test]
    fn one_projected_sum_is_bahdanaus_formula() {
        // v^T tanh(W s + U h) with W = (1 2; 0 1), U = (1 0; −1 1), s = (0.1, 0.2), h = (0.3, −0.1).
        let (q, k) = ([0.1 + 0.4, 0.2], [0.3, -0.3 - 0.1]);
        let score = Additive { v: &[2.0f64, -1.0] };
        let want = 2.0 * 0.8f64.tanh() - (-0.2f64).tanh();
        assert!((score.pair(0, &q, &k) - want).abs() < 1e-15);
    }

    #[test]
    fn each_head_has_its_own_vector() {
        let v = [1.0f64, 0.0, 0.0, 1.0];
        let score = Additive { v: &v };
        let (q, k) = ([0.5, 2.0], [0.0, 0.0]);
        assert_eq!(score.pair(0, &q, &k), 0.5f64.tanh());
        assert_eq!(score.pair(1, &q, &k), 2f64.tanh());
        let (mut dq, mut dk, mut dv) = ([0.0; 2], [0.0; 2], [0.0; 4]);
        score.pair_backward(1, &q, &k, 1.0, &mut dq, &mut dk, &mut dv);
        assert_eq!(dv, [0.0, 0.0, 0.5f64.tanh(), 2f64.tanh()]);
    }

    #[test]
    fn far_sums_saturate() {
        let v = random_vec_f32(1, 19);
        let score = Additive { v: &v };
        let (mut dq, mut dk, mut dv) = ([0.0; 19], [0.0; 19], [0.0; 19]);
        score.pair_backward(0, &[1e30; 19], &[f32::MAX; 19], 1.0, &mut dq, &mut dk, &mut dv);
        assert_eq!((dq, dv), ([0.0; 19], [1.0; 19]));
    }
}
