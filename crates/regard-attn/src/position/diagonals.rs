//! Tiles of what depends on the distance of key and query alone.

use regard_tensor::{Real, simd};

use crate::TileAt;

/// The distances j − p_i of a tile: `len` of them, from `first` on, in ascending order. Row i holds
/// those from index `start(i)` on, one for each key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Diagonals {
    first: i64,
    rows: usize,
    columns: usize,
}

impl Diagonals {
    /// `None` for a tile without pairs.
    pub(super) fn new(tile: &TileAt) -> Option<Self> {
        let (rows, columns) = (tile.queries.len(), tile.keys.len());
        if rows == 0 || columns == 0 {
            return None;
        }
        let last = tile.position(tile.queries.end - 1);
        Some(Self { first: tile.keys.start as i64 - last as i64, rows, columns })
    }

    /// Every distance.
    pub(super) fn distances(self) -> impl Iterator<Item = i64> {
        (self.first..).take(self.rows + self.columns - 1)
    }

    /// The smallest distance and the largest.
    pub(super) fn ends(self) -> (i64, i64) {
        (self.first, self.first + (self.rows + self.columns) as i64 - 2)
    }

    /// `out[i·stride + j] += values[n]` for every pair of the n-th distance.
    pub(super) fn add<T: Real>(self, out: &mut [T], stride: usize, values: &[T]) {
        for i in 0..self.rows {
            let row = &mut out[i * stride..i * stride + self.columns];
            let values = &values[self.rows - 1 - i..self.rows - 1 - i + row.len()];
            simd::vectorise(
                #[inline(always)]
                move || {
                    for (out, value) in row.iter_mut().zip(values) {
                        *out += *value;
                    }
                },
            );
        }
    }

    /// The sum of `g[i·stride + j]` over all pairs of each distance, added to `sums`.
    pub(super) fn add_sums<T: Real>(self, g: &[T], stride: usize, sums: &mut [T]) {
        for i in 0..self.rows {
            let row = &g[i * stride..i * stride + self.columns];
            let sums = &mut sums[self.rows - 1 - i..self.rows - 1 - i + row.len()];
            simd::vectorise(
                #[inline(always)]
                move || {
                    for (sum, g) in sums.iter_mut().zip(row) {
                        *sum += *g;
                    }
                },
            );
        }
    }

    /// Calls `f` with a number for each distance, zeros, which for tiles of up to 64 × 64 pairs lie on the stack.
    pub(super) fn with_numbers<T: Real, R>(self, f: impl FnOnce(&mut [T]) -> R) -> R {
        let n = self.rows + self.columns - 1;
        let mut few = [T::ZERO; 127];
        match few.get_mut(..n) {
            Some(numbers) => f(numbers),
            None => f(&mut vec![T::ZERO; n]),
        }
    }
}
