//! Whole rows of scores, for normalisers that cannot take a row piece by piece.

use std::ops::Range;

use regard_attn::score::Block;
use regard_attn::{Call, TileAt};
use regard_tensor::{Buffer, Real};

use crate::kernel::{LANES, padded};
use crate::pack::grow;
use crate::plan::{KEYS, tiles};
use crate::score::Keys;

/// The layout of a tile's whole rows: the keys from `start` to `end`, rows `stride` apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Panel {
    pub(crate) start: usize,
    end: usize,
    pub(crate) stride: usize,
}

impl Panel {
    /// For the keys of `range`, begun at a whole number of lanes; grows `buffer` to hold `rows` rows.
    pub(crate) fn new<T: Real>(range: Range<usize>, buffer: &mut Buffer<T>, rows: usize) -> Self {
        let start = range.start / LANES * LANES;
        let end = if range.is_empty() { start } else { range.end };
        let stride = padded(end - start);
        grow(buffer, rows * stride);
        Self { start, end, stride }
    }

    pub(crate) fn len(self) -> usize {
        self.end - self.start
    }

    /// The entries of row i.
    pub(crate) fn row(self, i: usize) -> Range<usize> {
        i * self.stride..i * self.stride + self.len()
    }

    pub(crate) fn tiles(self) -> impl Iterator<Item = Range<usize>> {
        tiles(self.start..self.end, KEYS)
    }

    /// Fills `scores` with the scores of the rows, −∞ where forbidden.
    pub(crate) fn scores<T: Real>(
        self,
        call: &Call<'_, T>,
        tile: &mut TileAt,
        keys: &Keys<'_, T>,
        q: Block<'_, T>,
        scores: &mut [T],
    ) {
        for span in self.tiles() {
            tile.keys = span;
            let part = &mut scores[tile.keys.start - self.start..];
            if keys.scores(call, tile, q, T::ONE, part, self.stride).is_none() {
                for row in part.chunks_mut(self.stride).take(tile.queries.len()) {
                    row[..tile.keys.len()].fill(T::NEG_INFINITY);
                }
            }
        }
    }
}
