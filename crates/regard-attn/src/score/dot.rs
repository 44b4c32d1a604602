//! `s = q·k`

use regard_tensor::{Real, kernels::reduce};

use super::{Lowering, Score};
use crate::catalogue::{Entry, Kind, LUONG, example};
use crate::{AttnError, Dims};

pub(crate) const ENTRY: Entry = Entry {
    name: "dot",
    kind: Kind::Score,
    title: "dot product",
    formula: "s = q·k",
    parts: None,
    paper: Some(LUONG),
    taxonomy: None,
    shapes: "q, k [d_k] → one number",
    cost: "d_k multiply-adds a pair",
    mistakes: &[
        "queries and keys of different width: project one of them, or use another score",
        "wide vectors without 1/√d_k: scores grow as √d_k, the softmax saturates and its gradient \
         vanishes",
    ],
    example: example!(Dot),
};

/// `s = q·k = Σ_c q_c k_c`
///
/// Luong et al. 2015, §3.1, "dot" (<https://arxiv.org/abs/1508.04025>). Derivative:
/// ∂s/∂q = k, ∂s/∂k = q. No parameters.
///
/// ```
/// use regard_attn::score::{Dot, Score};
///
/// assert_eq!(Dot.pair(0, &[1.0f64, 2.0], &[3.0, -1.0]), 1.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dot;

/// Derivative of `Σ_c q_c k_c`: `dq += g·k`, `dk += g·q`.
pub(super) fn product_backward<T: Real>(q: &[T], k: &[T], g: T, dq: &mut [T], dk: &mut [T]) {
    for c in 0..q.len() {
        dq[c] += g * k[c];
        dk[c] += g * q[c];
    }
}

impl<T: Real> Score<T> for Dot {
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
        reduce::dot(q, k)
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
        product_backward(q, k, g, dq, dk);
    }

    fn lowering(&self) -> Lowering<T> {
        Lowering::Product { scale: T::ONE }
    }
}
