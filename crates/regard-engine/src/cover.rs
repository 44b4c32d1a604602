//! Which parts of a tile of pairs need to be computed.

use std::ops::Range;

use regard_attn::{Coverage, Scope, TileAt};
use regard_tensor::Real;

use crate::kernel::LANES;
use crate::plan::QUERIES;

/// Queries that are looked at together.
const STRIP: usize = 16;
const STRIPS: usize = QUERIES / STRIP;

/// For each strip of sixteen queries of a tile, the stretch of keys that holds all it may see.
///
/// Whatever lies outside counts as a weight of 0, so that a stretch wider than need be changes no bit: every sum
/// over keys or queries is one sum a tile, from first to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cover {
    rows: usize,
    /// Keys of the tile.
    n: usize,
    /// Groups of [`LANES`] keys, from the tile's first.
    spans: [(usize, usize); STRIPS],
}

/// A part of a tile: rows and columns, from the tile's first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
}

impl Part {
    /// Where the part begins in a tile whose rows are `stride` apart.
    pub(crate) fn first(&self, stride: usize) -> usize {
        self.rows.start * stride + self.columns.start
    }

    /// Its place in the item.
    pub(crate) fn of(&self, tile: &TileAt) -> TileAt {
        let shift = |range: &Range<usize>, by: usize| range.start + by..range.end + by;
        TileAt {
            at: tile.at,
            queries: shift(&self.rows, tile.queries.start),
            keys: shift(&self.columns, tile.keys.start),
        }
    }
}

impl Cover {
    /// All of a tile.
    pub(crate) fn whole(tile: &TileAt) -> Self {
        let (rows, n) = (tile.queries.len(), tile.keys.len());
        Self { rows, n, spans: [(0, n.div_ceil(LANES)); STRIPS] }
    }

    /// What a scope leaves of a tile; none if nothing.
    pub(crate) fn of(scope: &dyn Scope, tile: &TileAt) -> Option<Self> {
        let mut cover = Self::whole(tile);
        match scope.tile(tile.at, tile.queries.clone(), tile.keys.clone()) {
            Coverage::Whole => return Some(cover),
            Coverage::Skip => return None,
            Coverage::Partial => {}
        }
        for (strip, span) in cover.spans.iter_mut().enumerate() {
            let start = strip * STRIP;
            let seen = |group: &usize| {
                let rows = start..cover.rows.min(start + STRIP);
                let columns = group * LANES..cover.n.min((group + 1) * LANES);
                let TileAt { at, queries, keys } = Part { rows, columns }.of(tile);
                scope.tile(at, queries, keys) != Coverage::Skip
            };
            *span = (0, 0);
            if start >= cover.rows {
                continue;
            }
            let first_query = tile.queries.start + start;
            let hull =
                scope.keys(tile.at, first_query..(first_query + STRIP).min(tile.queries.end));
            let place = |key: usize| key.clamp(tile.keys.start, tile.keys.end) - tile.keys.start;
            let groups = place(hull.start) / LANES..place(hull.end).div_ceil(LANES);
            if let Some(first) = groups.clone().find(seen) {
                let last = (first..groups.end).rev().find(seen).unwrap_or(first);
                *span = (first, last + 1);
            }
        }
        cover.spans.iter().any(|(first, end)| first < end).then_some(cover)
    }

    /// The parts to compute: strips of one stretch are one part.
    pub(crate) fn parts(self) -> impl Iterator<Item = Part> {
        let mut strip = 0;
        std::iter::from_fn(move || {
            while strip * STRIP < self.rows {
                let (first, span) = (strip, self.spans[strip]);
                while strip * STRIP < self.rows && self.spans[strip] == span {
                    strip += 1;
                }
                if span.0 < span.1 {
                    let rows = first * STRIP..self.rows.min(strip * STRIP);
                    return Some(Part { rows, columns: self.columns(span) });
                }
            }
            None
        })
    }

    /// The same turned over: stretches of keys, each with the queries from the first to the last that may see it.
    pub(crate) fn parts_by_key(self) -> impl Iterator<Item = Part> {
        let strips = move |group: usize| {
            let sees = |strip: &usize| {
                let (first, end) = self.spans[*strip];
                *strip * STRIP < self.rows && first <= group && group < end
            };
            let first = (0..STRIPS).find(sees)?;
            Some((first, (first..STRIPS).rev().find(sees).unwrap_or(first) + 1))
        };
        let (mut group, groups) = (0, self.n.div_ceil(LANES));
        std::iter::from_fn(move || {
            while group < groups {
                let (first, span) = (group, strips(group));
                while group < groups && strips(group) == span {
                    group += 1;
                }
                if let Some((start, end)) = span {
                    let rows = start * STRIP..self.rows.min(end * STRIP);
                    return Some(Part { rows, columns: self.columns((first, group)) });
                }
            }
            None
        })
    }

    fn columns(self, (first, end): (usize, usize)) -> Range<usize> {
        first * LANES..self.n.min(end * LANES)
    }

    /// Writes `value` at all that is in no part, as far as whole lanes reach.
    pub(crate) fn fill_outside<T: Real>(self, value: T, out: &mut [T], stride: usize) {
        let end = self.n.next_multiple_of(LANES);
        for (strip, span) in self.spans.iter().enumerate() {
            let (from, to) = (span.0 * LANES, span.1 * LANES);
            if (from, to) == (0, end) {
                continue;
            }
            for i in strip * STRIP..self.rows.min((strip + 1) * STRIP) {
                out[i * stride..i * stride + from].fill(value);
                out[i * stride + to..i * stride + end].fill(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::KEYS;
    use regard_attn::At;
    use regard_attn::scope::{Alignment, Causal, Full, Window};

    const CAUSAL: Causal = Causal { alignment: Alignment::TopLeft };
    const WINDOW: Window = Window { left: 20, right: 7 };

    fn tile(queries: Range<usize>, keys: Range<usize>) -> TileAt {
        let at = At { item: 0, head: 0, q_len: 300, kv_len: 300, q_offset: 0 };
        TileAt { at, queries, keys }
    }

    #[test]
    fn the_border_of_a_causal_scope_is_a_staircase() {
        let cover = Cover::of(&CAUSAL, &tile(64..128, 64..128)).unwrap();
        let parts: Vec<_> = cover.parts().collect();
        let want = |n: usize| Part { rows: 16 * n..16 * (n + 1), columns: 0..16 * (n + 1) };
        assert_eq!(parts, [0, 1, 2, 3].map(want));
        let by_key: Vec<_> = cover.parts_by_key().collect();
        let want = |n: usize| Part { rows: 16 * n..64, columns: 16 * n..16 * (n + 1) };
        assert_eq!(by_key, [0, 1, 2, 3].map(want));
    }

    #[test]
    fn every_allowed_pair_is_in_one_part_and_the_rest_is_filled() {
        let scopes: [&dyn Scope; 3] = [&Full, &CAUSAL, &WINDOW];
        for scope in scopes {
            for (queries, keys) in [(64..128, 64..128), (64..111, 48..64), (0..5, 0..64)] {
                let tile = tile(queries, keys);
                let Some(cover) = Cover::of(scope, &tile) else {
                    continue;
                };
                for by_key in [false, true] {
                    let parts: Vec<Part> = if by_key {
                        cover.parts_by_key().collect()
                    } else {
                        cover.parts().collect()
                    };
                    let mut seen = vec![0; 64 * KEYS];
                    for part in parts {
                        for i in part.rows.clone() {
                            for j in part.columns.clone() {
                                seen[i * KEYS + j] += 1;
                            }
                        }
                    }
                    for (i, query) in tile.queries.clone().enumerate() {
                        for (j, key) in tile.keys.clone().enumerate() {
                            let times = seen[i * KEYS + j];
                            assert!(times <= 1, "{query} {key}");
                            assert!(times == 1 || !scope.allows(tile.at, query, key));
                        }
                    }
                }
                let mut out = vec![0.0; tile.queries.len() * KEYS];
                cover.fill_outside(1.0, &mut out, KEYS);
                for part in cover.parts() {
                    for i in part.rows.clone() {
                        for j in part.columns.clone() {
                            assert_eq!(out[i * KEYS + j], 0.0);
                            out[i * KEYS + j] = 1.0;
                        }
                    }
                }
                for row in out.chunks(KEYS) {
                    assert!(row[..tile.keys.len()].iter().all(|x| *x == 1.0));
                }
            }
        }
    }
}
