//! `s = q·k / √d_k`

use regard_tensor::{Real, kernels::reduce};

use super::dot::product_backward;
use super::{Lowering, Score};
use crate::catalogue::{Entry, Kind, VASWANI, example};
use crate::{AttnError, Dims};

pub(crate) const ENTRY: Entry = Entry {
    name: "scaled_dot",
    kind: Kind::Score,
    title: "scaled dot product",
    formula: "s = q·k / √d_k",
    parts: None,
    paper: Some(VASWANI),
    taxonomy: None,
    shapes: "q, k [d_k] → one number",
    cost: "d_k multiply-adds a pair",
    mistakes: &[
        "√d_model in place of √d_k, the width of one head",
        "the factor forgotten, or applied twice (to q and again to the scores)",
    ],
    example: example!(ScaledDot::new(64)),
};

/// `s = q·k / √d_k`
///
/// Vaswani et al. 2017, equation 1 (<https://arxiv.org/abs/1706.03762>). With independent entries
/// of variance 1, q·k has the variance d_k; the factor brings it back to 1. Derivative:
/// ∂s/∂q = k/√d_k, ∂s/∂k = q/√d_k. No parameters.
///
/// ```
/// use regard_attn::score::{ScaledDot, Score};
///
/// // 8 / √4
/// assert_eq!(ScaledDot::new(4).pair(0, &[2.0f64; 4], &[1.0; 4]), 4.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScaledDot {
    d_k: usize,
}

impl ScaledDot {
    /// The score for queries and keys of width `d_k`, at least 1; another width at the call is
    /// an error of [`Score::check`].
    pub const fn new(d_k: usize) -> Self {
        Self { d_k }
    }

    /// 1 / √d_k
    fn scale<T: Real>(self) -> T {
        T::from_f64(1.0 / (self.d_k as f64).sqrt())
    }
}

impl<T: Real> Score<T> for ScaledDot {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn formula(&self) -> &'static str {
        ENTRY.formula
    }

    fn check(&self, dims: Dims) -> Result<(), AttnError> {
        let expected = format_args!("{}, the width that the score divides by", self.d_k);
        AttnError::size(dims.d_k == self.d_k, "d_k", expected, dims.d_k)
    }

    fn pair(&self, _: usize, q: &[T], k: &[T]) -> T {
        reduce::dot(q, k) * self.scale()
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
        product_backward(q, k, g * self.scale(), dq, dk);
    }

    fn lowering(&self) -> Lowering<T> {
        Lowering::Product { scale: self.scale() }
    }
}
