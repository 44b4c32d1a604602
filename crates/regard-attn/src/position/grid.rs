//! Sequences that are grids, row by row.

use crate::call::Span;
use crate::{At, AttnError};

/// Queries and keys as the places of two grids, row by row, and how the one lies on the other.
///
/// The query at position n stands at row ⌊n / query_width⌋ + top and column n mod query_width +
/// left of the grid of keys; key j at row ⌊j / key_width⌋ and column j mod key_width.
/// [`Grid::same`] is for an image that attends to itself, [`Grid::padded`] for keys with a border
/// around, [`Grid::LINE`] for a sequence in one dimension.
///
/// ```
/// use regard_attn::position::Grid;
///
/// // 3 × 4 queries; keys with a border of one: 5 × 6.
/// let grid = Grid::padded(4, 1);
/// assert_eq!(grid.distance(0, 0), (-1, -1));
/// assert_eq!(grid.distance(5, 14), (0, 0)); // row 1, column 1; row 2, column 2
/// assert_eq!(Grid::LINE.distance(3, 10), (0, 7));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Queries in a row, at least 1.
    pub query_width: usize,
    /// Keys in a row, at least 1.
    pub key_width: usize,
    /// Row of the first query on the grid of keys, up to 2⁴⁰ from 0.
    pub top: i64,
    /// Column of the first query on the grid of keys, up to 2⁴⁰ from 0.
    pub left: i64,
}

/// A stretch of keys in one row of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The first key, counted from the start of the span.
    pub(super) first: usize,
    /// Row and column of the first key.
    pub(super) y: i64,
    pub(super) x: i64,
    pub(super) len: usize,
}

impl Grid {
    /// All queries and all keys in one row.
    pub const LINE: Self = Self::same(usize::MAX);

    /// Queries and keys are the same places, `width` in a row.
    pub const fn same(width: usize) -> Self {
        Self { query_width: width, key_width: width, top: 0, left: 0 }
    }

    /// The keys have a border of `pad` places on every side of the queries.
    pub const fn padded(query_width: usize, pad: usize) -> Self {
        let border = pad as i64;
        Self {
            query_width,
            key_width: query_width.saturating_add(pad.saturating_mul(2)),
            top: border,
            left: border,
        }
    }

    /// Row and column of a key less those of the query at a position.
    pub const fn distance(self, position: usize, key: usize) -> (i64, i64) {
        let (y, x) = self.query(position);
        let (key_y, key_x) = self.key(key);
        (key_y - y, key_x - x)
    }

    /// Row and column of the query at a position, on the grid of keys.
    pub(super) const fn query(self, position: usize) -> (i64, i64) {
        let (y, x) = (position / self.query_width, position % self.query_width);
        (y as i64 + self.top, x as i64 + self.left)
    }

    const fn key(self, key: usize) -> (i64, i64) {
        ((key / self.key_width) as i64, (key % self.key_width) as i64)
    }

    /// [`Grid::distance`] of a pair.
    pub(super) const fn of_pair(self, at: At, query: usize, key: usize) -> (i64, i64) {
        self.distance(at.q_offset + query, key)
    }

    /// The keys of a span, row by row.
    pub(super) fn runs(self, keys: &Span) -> Vec<Run> {
        let (mut runs, mut key) = (Vec::new(), keys.start);
        while key < keys.end {
            let (y, x) = self.key(key);
            let len = (self.key_width - x as usize).min(keys.end - key);
            runs.push(Run { first: key - keys.start, y, x, len });
            key += len;
        }
        runs
    }

    /// # Errors
    /// A width of 0, or queries too far from the keys.
    pub(super) fn check(self) -> Result<(), AttnError> {
        const FAR: u64 = 1 << 40;
        for (argument, width) in [("query_width", self.query_width), ("key_width", self.key_width)]
        {
            AttnError::size(width > 0, argument, "at least 1", width)?;
        }
        for (argument, shift) in [("top", self.top), ("left", self.left)] {
            let expected = format_args!("at most {FAR} from 0");
            AttnError::size(shift.unsigned_abs() <= FAR, argument, expected, shift)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_the_keys_of_a_span_in_order() {
        for (width, start, end) in
            [(4, 0, 12), (4, 3, 9), (4, 5, 7), (1, 2, 5), (7, 3, 3), (usize::MAX, 5, 9)]
        {
            let grid = Grid::same(width);
            let mut next = start;
            for Run { first, y, x, len } in grid.runs(&(start..end)) {
                assert_eq!(first + start, next);
                assert!(len > 0);
                for n in 0..len {
                    assert_eq!(grid.key(next), (y, x + n as i64));
                    next += 1;
                }
            }
            assert_eq!(next, end);
        }
    }

    #[test]
    fn a_border_moves_the_queries_and_widens_the_rows_of_keys() {
        let grid = Grid::padded(3, 2);
        assert_eq!((grid.key_width, grid.top, grid.left), (7, 2, 2));
        // Query (1, 2) stands at (3, 4).
        assert_eq!(grid.distance(5, 3 * 7 + 4), (0, 0));
        assert_eq!(grid.distance(5, 0), (-3, -4));
        assert_eq!(Grid::LINE.distance(9, 2), (0, -7));
        assert_eq!(Grid::padded(usize::MAX, 1).key_width, usize::MAX);
    }
}
