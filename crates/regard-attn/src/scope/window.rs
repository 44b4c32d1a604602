//! Keys near the query.

use super::{Coverage, Scope};
use crate::call::{At, Span};
use crate::catalogue::{Entry, Kind, YEH, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "window",
    kind: Kind::Scope,
    title: "window (truncated)",
    formula: "scope(i) = {j : p − left ≤ j ≤ p + right}, p = q_offset + i",
    parts: None,
    paper: Some(YEH),
    taxonomy: None,
    shapes: "at most left + right + 1 keys a query",
    cost: "O(q_len·(left + right + 1))",
    mistakes: &[
        "layers add up: N of them look N·right ahead and N·left back",
        "left and right counted in frames where the layer sees sub-sampled ones",
        "rows at the edges normalised as if the missing keys were there",
    ],
    example: example!(Window { left: 2, right: 0 }),
};

/// scope(i) = {j : i − left ≤ j ≤ i + right}
///
/// Indices count from the item's start, for queries as for keys. `usize::MAX` is without limit.
/// Yeh et al. 2019 (<https://arxiv.org/abs/1910.12977>).
///
/// ```
/// use regard_attn::scope::{Scope, Window};
/// use regard_attn::At;
///
/// let window = Window { left: 2, right: 1 };
/// let at = At { item: 0, head: 0, q_len: 9, kv_len: 9, q_offset: 0 };
/// let sees = |i| (0..9).filter(|j| window.allows(at, i, *j)).collect::<Vec<_>>();
/// assert_eq!(sees(0), [0, 1]);
/// assert_eq!(sees(5), [3, 4, 5, 6]);
/// assert_eq!(window.describe(), "window of 2 before and 1 after");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Keys before the query.
    pub left: usize,
    /// Keys after the query.
    pub right: usize,
}

impl Window {
    /// First key that the query at a position sees.
    fn first(self, query: usize) -> usize {
        query.saturating_sub(self.left)
    }

    /// Last key that the query at a position sees, if the item is so long.
    fn last(self, query: usize) -> usize {
        query.saturating_add(self.right)
    }
}

impl Scope for Window {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn describe(&self) -> String {
        let side = |n: usize| if n == usize::MAX { "all".into() } else { n.to_string() };
        format!("window of {} before and {} after", side(self.left), side(self.right))
    }

    fn same_for_heads(&self) -> bool {
        true
    }

    fn allows(&self, at: At, query: usize, key: usize) -> bool {
        let query = at.q_offset + query;
        self.first(query) <= key && key <= self.last(query)
    }

    fn contiguous(&self) -> bool {
        true
    }

    fn tile(&self, at: At, queries: Span, keys: Span) -> Coverage {
        // Both borders move to the right with the query and the windows of neighbours touch, so
        // the outermost queries decide.
        if queries.is_empty() || keys.is_empty() {
            return Coverage::Skip;
        }
        let (top, bottom) = (at.q_offset + queries.start, at.q_offset + queries.end - 1);
        let last = keys.end - 1;
        if last < self.first(top) || keys.start > self.last(bottom) {
            Coverage::Skip
        } else if self.first(bottom) <= keys.start && last <= self.last(top) {
            Coverage::Whole
        } else {
            Coverage::Partial
        }
    }

    fn keys(&self, at: At, queries: Span) -> Span {
        if queries.is_empty() {
            return 0..0;
        }
        let (top, bottom) = (at.q_offset + queries.start, at.q_offset + queries.end - 1);
        let end = self.last(bottom).saturating_add(1).min(at.kv_len);
        self.first(top).min(end)..end
    }

    fn queries(&self, at: At, keys: Span) -> Span {
        if keys.is_empty() {
            return 0..0;
        }
        // p − left ≤ j ≤ p + right  ⇔  j − right ≤ p ≤ j + left
        let end = keys.end.saturating_add(self.left).saturating_sub(at.q_offset).min(at.q_len);
        keys.start.saturating_sub(self.right).saturating_sub(at.q_offset).min(end)..end
    }
}
