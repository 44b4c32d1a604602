//! Rows of an array that several tasks write at the same time.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use regard_attn::{AttnError, RowsMut};

/// Where the rows of one operand lie in an array: row i of head h starts at
/// `offset + i·row_stride + h·head_stride`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Element at which row 0 of head 0 starts.
    pub offset: usize,
    /// Elements between rows.
    pub row_stride: usize,
    /// Elements between heads.
    pub head_stride: usize,
}

/// An array that tasks write at disjoint places.
#[derive(Debug)]
pub(crate) struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    array: PhantomData<&'a mut [T]>,
}

impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<'_, T> {}

// SAFETY: a shared array is a mutable slice; who asks for a part promises that no one else has it.
unsafe impl<T: Send> Send for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(crate) fn new(data: &'a mut [T]) -> Self {
        Self { start: data.as_mut_ptr(), len: data.len(), array: PhantomData }
    }

    /// Elements `first..first + len`.
    ///
    /// # Safety
    /// While the slice lives, no other slice of this array reaches into it.
    ///
    /// # Panics
    /// If the elements lie outside the array.
    #[allow(clippy::mut_from_ref, reason = "handing out disjoint parts is what the type is for")]
    #[inline(always)]
    pub(crate) unsafe fn part(&self, first: usize, len: usize) -> &mut [T] {
        assert!(first <= self.len && len <= self.len - first, "a part lies inside its array");
        // SAFETY: inside the array, which is borrowed mutably for as long as `self`; the caller
        // promises that no one else reaches into these elements.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(first), len) }
    }
}

/// Which rows an operand has, and how wide they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent<'r> {
    /// The rows of each item, in order, none empty, apart from each other.
    pub(crate) items: &'r [Range<usize>],
    pub(crate) heads: usize,
    pub(crate) width: usize,
}

impl Extent<'_> {
    /// One more than the last row.
    fn rows(self) -> usize {
        self.items.last().map_or(0, |rows| rows.end)
    }

    /// Elements from the start of row 0, head 0, to the end of the last row of the last head.
    pub(crate) fn span(self, row_stride: usize, head_stride: usize) -> usize {
        // What overflows is more than any array has.
        let before = self.rows().saturating_sub(1).saturating_mul(row_stride);
        if self.rows() == 0 { 0 } else { before.saturating_add(self.columns(head_stride)) }
    }

    /// Elements from the start of head 0 to the end of the last head of one row.
    fn columns(self, head_stride: usize) -> usize {
        (self.heads - 1).saturating_mul(head_stride).saturating_add(self.width)
    }

    /// Whether no two (row, head) of the items overlap, in one of the layouts `[rows, heads, width]`,
    /// `[heads, rows, width]` and `[items, heads, rows, width]`, with gaps or not.
    fn is_apart(self, row_stride: usize, head_stride: usize) -> bool {
        let Self { items, heads, width } = self;
        let longest = items.iter().map(Range::len).max().unwrap_or(0);
        if self.rows() == 0 {
            return true;
        }
        if (self.rows() > 1 && row_stride < width) || (heads > 1 && head_stride < width) {
            return false;
        }
        let block =
            |rows: usize| rows.saturating_sub(1).saturating_mul(row_stride).saturating_add(width);
        let rows_outside = row_stride >= self.columns(head_stride);
        let heads_outside = heads == 1 || head_stride >= block(self.rows());
        let items_outside = heads == 1
            || (head_stride >= block(longest)
                && items.windows(2).all(|pair| {
                    let end = (pair[0].end - 1) * row_stride + self.columns(head_stride);
                    end <= pair[1].start * row_stride
                }));
        self.rows() <= 1 || rows_outside || heads_outside || items_outside
    }
}

impl fmt::Display for Extent<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} rows, {} heads of {}", self.rows(), self.heads, self.width)
    }
}

/// The rows of one operand, none of which overlaps another.
#[derive(Debug)]
pub(crate) struct SharedRows<'a, T> {
    array: Shared<'a, T>,
    place: Place,
    rows: usize,
    heads: usize,
    width: usize,
}

impl<'a, T> SharedRows<'a, T> {
    /// # Errors
    /// The rows do not fit into the array, or overlap.
    pub(crate) fn new(
        argument: &'static str,
        array: Shared<'a, T>,
        place: Place,
        extent: Extent<'_>,
    ) -> Result<Self, AttnError> {
        let Place { offset, row_stride, head_stride } = place;
        let span = extent.span(row_stride, head_stride);
        let needed = if span == 0 { 0 } else { offset.saturating_add(span) };
        AttnError::size(
            needed <= array.len,
            argument,
            format_args!("at least {needed} elements ({extent})"),
            array.len,
        )?;
        AttnError::size(
            extent.is_apart(row_stride, head_stride),
            argument,
            format_args!("rows that do not overlap ({extent})"),
            format_args!("strides {row_stride} and {head_stride}"),
        )?;
        let Extent { heads, width, .. } = extent;
        Ok(Self { array, place, rows: extent.rows(), heads, width })
    }

    /// As [`SharedRows::new`], for rows that have their array to themselves.
    pub(crate) fn alone(
        argument: &'static str,
        rows: RowsMut<'a, T>,
        extent: Extent<'_>,
    ) -> Result<Self, AttnError> {
        let RowsMut { data, row_stride, head_stride } = rows;
        let place = Place { offset: 0, row_stride, head_stride };
        Self::new(argument, Shared::new(data), place, extent)
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Elements from the start of head 0 to the end of the last head of one row.
    fn columns(&self) -> usize {
        (self.heads - 1) * self.place.head_stride + self.width
    }

    /// Whether no element belongs to both: one lies behind the other, or they lie side by side in
    /// rows of the same length.
    pub(crate) fn apart_from(&self, other: &Self) -> bool {
        let (a, b) =
            if self.place.offset <= other.place.offset { (self, other) } else { (other, self) };
        if a.rows == 0 || b.rows == 0 {
            return true;
        }
        let (start, stride) = (a.place.offset, a.place.row_stride);
        let behind = start + (a.rows - 1) * stride + a.columns() <= b.place.offset;
        let beside = stride == b.place.row_stride
            && start + a.columns() <= b.place.offset
            && b.place.offset + b.columns() <= start + stride;
        behind || beside
    }

    /// Row `row` of `head`.
    ///
    /// # Safety
    /// While the slice lives, no one else asks for this row of this head.
    #[allow(clippy::mut_from_ref, reason = "handing out disjoint rows is what the type is for")]
    #[inline(always)]
    pub(crate) unsafe fn row(&self, row: usize, head: usize) -> &mut [T] {
        assert!(row < self.rows && head < self.heads, "a row of the operand");
        let Place { offset, row_stride, head_stride } = self.place;
        let first = offset + row * row_stride + head * head_stride;
        // SAFETY: `new` checked that different rows do not overlap, and the caller promises that
        // this one is asked for once at a time.
        unsafe { self.array.part(first, self.width) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        (offset, row_stride, head_stride): (usize, usize, usize),
        items: &[Range<usize>],
        (heads, width): (usize, usize),
    ) -> bool {
        let mut data = [0u8; 60];
        let place = Place { offset, row_stride, head_stride };
        let extent = Extent { items, heads, width };
        let Ok(rows) = SharedRows::new("x", Shared::new(&mut data), place, extent) else {
            return false;
        };
        // What is accepted must be true: every element belongs to one (row, head).
        for row in items.iter().cloned().flatten() {
            for head in 0..heads {
                // SAFETY: one row at a time.
                for n in unsafe { rows.row(row, head) } {
                    *n += 1;
                }
            }
        }
        assert!(data.iter().all(|n| *n <= 1), "{place:?} {items:?}");
        true
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "a list of one item")]
    fn rows_must_fit_and_not_overlap() {
        let ten = [0..10];
        // [rows, heads, width], [heads, rows, width], one head, one row, nothing.
        assert!(check((0, 6, 2), &ten, (3, 2)));
        assert!(check((0, 2, 20), &ten, (3, 2)));
        assert!(check((4, 4, 0), &[0..2, 3..14], (1, 4)));
        assert!(check((0, 0, 5), &[0..1], (12, 5)));
        assert!(check((99, 0, 0), &[], (3, 2)));
        // [items, heads, rows, width]: items of 3 and 2 rows, padded to 3, with 2 heads.
        assert!(check((0, 5, 15), &[0..3, 6..8], (2, 5)));
        assert!(!check((0, 5, 15), &[0..3, 5..7], (2, 5)));
        assert!(!check((0, 5, 14), &[0..3, 6..8], (2, 5)));
        assert!(!check((1, 6, 2), &ten, (3, 2)), "one element too far");
        assert!(!check((0, 5, 2), &ten, (3, 2)), "rows overlap");
        assert!(!check((0, 6, 1), &[0..9], (3, 2)), "heads overlap");
        assert!(!check((0, 2, 18), &ten, (3, 2)));
        assert!(!check((0, 0, 0), &[0..2], (1, 1)));
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "a list of one item")]
    fn operands_side_by_side_or_behind_each_other_are_apart() {
        let mut data = [0u8; 64];
        let array = Shared::new(&mut data);
        let extent = Extent { items: &[0..5], heads: 2, width: 2 };
        let at = |offset, row_stride| {
            let place = Place { offset, row_stride, head_stride: 2 };
            SharedRows::new("x", array, place, extent).unwrap()
        };
        assert!(at(0, 12).apart_from(&at(4, 12)) && at(8, 12).apart_from(&at(0, 12)));
        assert!(at(0, 4).apart_from(&at(20, 4)));
        assert!(!at(0, 12).apart_from(&at(3, 12)) && !at(0, 12).apart_from(&at(9, 12)));
        assert!(!at(0, 4).apart_from(&at(19, 4)));
        assert!(!at(0, 12).apart_from(&at(4, 11)));
    }
}
