//! `s = q·r_j`, r_j a learned vector of the place j

use regard_tensor::{Real, kernels::reduce};

use super::dot::product_backward;
use super::{Lowering, Score, add_scaled};
use crate::catalogue::{Entry, Kind, LUONG, example};
use crate::{AttnError, Dims, Item};

pub(crate) const ENTRY: Entry = Entry {
    name: "location",
    kind: Kind::Score,
    title: "location",
    formula: "s_j = q·r_j (all places at once: s = R q)",
    parts: None,
    paper: Some(LUONG),
    taxonomy: None,
    shapes: "q [d_k], table R [max_len, d_k], or one for each key head → one number a place; keys are not looked at",
    cost: "d_k multiply-adds a pair; max_len·d_k parameters, or as many for each key head",
    mistakes: &[
        "sequences longer than the table",
        "the softmax over the whole table, places behind the sequence's end included",
    ],
    example: example!(Location { table: &[0.5f32, 0.0, 2.0, -1.0], max_len: 2, d_k: 2 }),
};

/// `s_j = q·r_j`: the score of a place, whatever key stands there.
///
/// Luong et al. 2015, equation 8 (<https://arxiv.org/abs/1508.04025>): a = softmax(W_a h), where row j
/// of W_a is r_j. All heads share one table, or each key head has its own. The table's rows stand in place of the caller's keys, so the
/// gradient by those is zero. Derivative: ∂s_j/∂q = r_j, ∂s_j/∂r_j = q.
///
/// ```
/// use regard_attn::score::{Location, Score};
///
/// let score = Location { table: &[1.0f64, 2.0, 0.0, 5.0], max_len: 2, d_k: 2 };
/// assert_eq!(score.own_key(0, 1), [0.0, 5.0]);
/// assert_eq!(score.pair(0, &[3.0, 1.0], score.own_key(0, 1)), 5.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Location<'a, T> {
    /// R, `[max_len, d_k]` for all heads or `[n_kv_heads, max_len, d_k]`.
    pub table: &'a [T],
    /// Places in the table.
    pub max_len: usize,
    /// Width of a query.
    pub d_k: usize,
}

impl<T> Location<'_, T> {
    fn row(&self, kv_head: usize, key: usize) -> std::ops::Range<usize> {
        let one = self.max_len * self.d_k;
        let start = if self.table.len() == one { 0 } else { kv_head * one } + key * self.d_k;
        start..start + self.d_k
    }
}

impl<T: Real> Score<T> for Location<'_, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn formula(&self) -> &'static str {
        ENTRY.formula
    }

    fn check(&self, dims: Dims) -> Result<(), AttnError> {
        let Self { table, max_len, d_k } = self;
        let heads = dims.n_kv_heads;
        let expected = format_args!("{d_k}, the width of the table's rows");
        AttnError::size(dims.d_k == *d_k, "d_k", expected, dims.d_k)?;
        let expected = format_args!(
            "max_len × d_k = {max_len} × {d_k} elements, or so many for each of {heads} key heads"
        );
        let one = max_len.checked_mul(*d_k);
        let fits =
            one.is_some_and(|one| [Some(one), one.checked_mul(heads)].contains(&Some(table.len())));
        AttnError::size(fits, "table", expected, table.len())
    }

    fn check_items(&self, items: &[Item]) -> Result<(), AttnError> {
        for (i, item) in items.iter().enumerate() {
            let expected = format_args!("at most max_len = {} in item {i}", self.max_len);
            AttnError::size(item.kv_len <= self.max_len, "kv_len", expected, item.kv_len)?;
        }
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

    fn n_params(&self) -> usize {
        self.table.len()
    }

    fn has_own_keys(&self) -> bool {
        true
    }

    fn own_key(&self, kv_head: usize, key: usize) -> &[T] {
        &self.table[self.row(kv_head, key)]
    }

    fn own_key_backward(&self, kv_head: usize, key: usize, dk: &[T], dparams: &mut [T]) {
        add_scaled(&mut dparams[self.row(kv_head, key)], T::ONE, dk);
    }

    fn lowering(&self) -> Lowering<T> {
        Lowering::Product { scale: T::ONE }
    }
}
