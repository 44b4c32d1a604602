//! What the arrays of a call must be, beyond [`Call::check`].

use std::ops::Range;

use regard_attn::{AttnError, Call, Item, Rows};
use regard_tensor::Real;

use crate::rows::Extent;

/// The query rows of the items, in order; empty items are left out.
///
/// # Errors
/// Two items share a query row, so that they would write the same contexts.
pub(crate) fn query_rows<T: Real>(call: &Call<'_, T>) -> Result<Vec<Range<usize>>, AttnError> {
    apart(call.items, "q_start", |item| item.q_start..item.q_start + item.q_len)
}

/// The key rows of the items, in order; empty items are left out.
///
/// # Errors
/// Two items share a key row, so that they would write the same gradients.
pub(crate) fn key_rows<T: Real>(call: &Call<'_, T>) -> Result<Vec<Range<usize>>, AttnError> {
    apart(call.items, "kv_start", |item| item.kv_start..item.kv_start + item.kv_len)
}

fn apart(
    items: &[Item],
    argument: &'static str,
    rows: impl Fn(&Item) -> Range<usize>,
) -> Result<Vec<Range<usize>>, AttnError> {
    let mut ranges: Vec<_> = items.iter().map(rows).filter(|rows| !rows.is_empty()).collect();
    // Mostly in order already, which the sort notices.
    ranges.sort_by_key(|rows| rows.start);
    for pair in ranges.windows(2) {
        AttnError::size(
            pair[0].end <= pair[1].start,
            argument,
            format_args!("at least {}, the end of the item before", pair[0].end),
            pair[1].start,
        )?;
    }
    Ok(ranges)
}

/// # Errors
/// `rows` does not hold what `extent` says.
pub(crate) fn holds<T: Real>(
    argument: &'static str,
    rows: Rows<'_, T>,
    extent: Extent<'_>,
) -> Result<(), AttnError> {
    let needed = extent.span(rows.row_stride, rows.head_stride);
    AttnError::size(
        needed <= rows.data.len(),
        argument,
        format_args!("at least {needed} elements ({extent})"),
        rows.data.len(),
    )
}

/// # Errors
/// `data` has another length than `len`.
pub(crate) fn exactly<T>(argument: &'static str, data: &[T], len: usize) -> Result<(), AttnError> {
    AttnError::size(data.len() == len, argument, format_args!("{len} elements"), data.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_may_come_in_any_order_but_not_share_rows() {
        let item =
            |start, len| Item { q_start: start, q_len: len, kv_start: 0, kv_len: 0, q_offset: 0 };
        let check = |items: &[Item]| {
            apart(items, "q_start", |item| item.q_start..item.q_start + item.q_len)
        };
        let ranges = check(&[item(5, 3), item(0, 5), item(6, 0), item(8, 1)]).unwrap();
        assert_eq!(ranges, [0..5, 5..8, 8..9]);
        let error = check(&[item(5, 3), item(0, 6)]).unwrap_err();
        let message = "attention: `q_start` must be at least 6, the end of the item before, got 5";
        assert_eq!(error.to_string(), message);
    }
}
