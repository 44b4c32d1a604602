//! Pixels near the query's pixel.

use super::{Coverage, Scope};
use crate::AttnError;
use crate::call::{At, Item, Span};
use crate::catalogue::{Entry, Kind, Paper, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "window_2d",
    kind: Kind::Scope,
    title: "window in two dimensions",
    formula: "scope(y, x) = {(y', x') : |y' − y| ≤ radius and |x' − x| ≤ radius}",
    parts: None,
    paper: Some(Paper {
        author: "Ramachandran",
        year: 2019,
        title: "Stand-Alone Self-Attention in Vision Models",
        link: "https://arxiv.org/abs/1906.05909",
    }),
    taxonomy: None,
    shapes: "pixels row by row; at most (2·radius + 1)² keys a query",
    cost: "O(q_len·(2·radius + 1)²)",
    mistakes: &[
        "a window over the row-by-row index in place of two: it wraps around the edges",
        "rows at the border normalised as if the missing pixels were there",
        "the width in pixels where the layer sees patches",
    ],
    example: example!(Window2d { width: 28, radius: 3 }),
};

/// scope(y, x) = {(y', x') : |y' − y| ≤ radius and |x' − x| ≤ radius}
///
/// Queries and keys are the pixels of images of one width, row by row: index i is the pixel
/// y = i / width, x = i mod width. Every item holds whole rows; images may differ in height.
/// Ramachandran et al. 2019, §3.1 (<https://arxiv.org/abs/1906.05909>), with k = 2·radius + 1.
///
/// ```
/// use regard_attn::scope::{Scope, Window2d};
/// use regard_attn::At;
///
/// let window = Window2d { width: 4, radius: 1 };
/// let at = At { item: 0, head: 0, q_len: 12, kv_len: 12, q_offset: 0 };
/// let sees = |i| (0..12).filter(|j| window.allows(at, i, *j)).collect::<Vec<_>>();
/// assert_eq!(sees(5), [0, 1, 2, 4, 5, 6, 8, 9, 10]);
/// assert_eq!(sees(3), [2, 3, 6, 7]); // a corner; nothing of the other edge
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window2d {
    /// Pixels in a row of the image, at least 1.
    pub width: usize,
    /// Pixels to each side.
    pub radius: usize,
}

impl Window2d {
    /// The rows that a span touches, each with its first and last column.
    fn rows(self, span: &Span) -> impl Iterator<Item = (usize, usize, usize)> + Clone + use<> {
        let (start, end, width) = (span.start, span.end, self.width);
        (start / width..end.div_ceil(width)).map(move |y| {
            let first = start.max(y * width) - y * width;
            (y, first, end.min((y + 1) * width) - 1 - y * width)
        })
    }

    /// The narrowest range, below `len`, of what is near to one of `span`.
    fn near(self, len: usize, span: &Span) -> Span {
        let Self { width, radius } = self;
        if span.is_empty() || len == 0 {
            return 0..0;
        }
        let bottom = (len - 1) / width;
        let (mut start, mut end) = (len, 0);
        for (y, first, last) in self.rows(span) {
            let top = y.saturating_sub(radius);
            if top <= bottom {
                let left = first.saturating_sub(radius);
                let right = last.saturating_add(radius).min(width - 1);
                start = start.min(top * width + left);
                end = end.max(y.saturating_add(radius).min(bottom) * width + right + 1);
            }
        }
        let end = end.min(len);
        start.min(end)..end
    }
}

impl Scope for Window2d {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn describe(&self) -> String {
        format!("window of {} to each side in images {} wide", self.radius, self.width)
    }

    fn check(&self, items: &[Item]) -> Result<(), AttnError> {
        let width = self.width;
        AttnError::size(width > 0, "width", "at least 1", width)?;
        for (i, item) in items.iter().enumerate() {
            for (argument, len) in [("q_len", item.q_len), ("kv_len", item.kv_len)] {
                let expected = format_args!("a multiple of the width {width} in item {i}");
                AttnError::size(len.is_multiple_of(width), argument, expected, len)?;
            }
        }
        Ok(())
    }

    fn allows(&self, _: At, query: usize, key: usize) -> bool {
        let Self { width, radius } = *self;
        (query / width).abs_diff(key / width) <= radius
            && (query % width).abs_diff(key % width) <= radius
    }

    fn tile(&self, _: At, queries: Span, keys: Span) -> Coverage {
        if queries.is_empty() || keys.is_empty() {
            return Coverage::Skip;
        }
        let (mut any, mut all) = (false, true);
        for (y, a, b) in self.rows(&queries) {
            for (key_y, c, d) in self.rows(&keys) {
                // Columns a to b against c to d.
                let near = y.abs_diff(key_y) <= self.radius;
                let gap = c.saturating_sub(b).max(a.saturating_sub(d));
                let reach = b.abs_diff(c).max(d.abs_diff(a));
                any |= near && gap <= self.radius;
                all &= near && reach <= self.radius;
                if any && !all {
                    return Coverage::Partial;
                }
            }
        }
        if any { Coverage::Whole } else { Coverage::Skip }
    }

    fn keys(&self, at: At, queries: Span) -> Span {
        self.near(at.kv_len, &queries)
    }

    fn queries(&self, at: At, keys: Span) -> Span {
        // To be near is mutual.
        self.near(at.q_len, &keys)
    }
}
