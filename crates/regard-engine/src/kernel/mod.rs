//! What runs on a tile beside its products ([`regard_tensor::kernels::product`]): the softmax of its rows, dropout.

pub(crate) mod dropout;
pub(crate) mod softmax;

/// Columns of a tile that take part in row operations come in whole groups of this many, filled
/// up with scores of −∞ or zeros, so that no sum depends on where the keys end.
pub(crate) const LANES: usize = regard_tensor::kernels::product::COLUMNS;

/// The number of columns of a tile with `n` keys, filled up to whole lanes.
#[inline(always)]
pub(crate) fn padded(n: usize) -> usize {
    n.next_multiple_of(LANES)
}
