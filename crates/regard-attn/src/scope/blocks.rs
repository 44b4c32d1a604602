//! Keys of the query's own block.

use super::{Coverage, Scope};
use crate::AttnError;
use crate::call::{At, Item, Span};
use crate::catalogue::{Entry, Kind, Paper, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "blocks",
    kind: Kind::Scope,
    title: "blocks (block-diagonal)",
    formula: "scope(i) = {j : ⌊j/size⌋ = ⌊i/size⌋}",
    parts: None,
    paper: Some(Paper {
        author: "Shen",
        year: 2018,
        title: "Bi-Directional Block Self-Attention for Fast and Memory-Efficient Sequence Modeling",
        link: "https://arxiv.org/abs/1804.00857",
    }),
    taxonomy: None,
    shapes: "at most size keys a query",
    cost: "O(q_len·size)",
    mistakes: &[
        "nothing passes from one block to another in any number of layers",
        "padding in the last block: it is shorter, not filled up",
    ],
    example: example!(Blocks { size: 16 }),
};

/// scope(i) = {j : ⌊j/size⌋ = ⌊i/size⌋}: blocks of `size` positions from the item's start on, each
/// to itself; the last one may be shorter.
///
/// Shen et al. 2018, §3.1 (<https://arxiv.org/abs/1804.00857>), without its second step between
/// blocks.
///
/// ```
/// use regard_attn::scope::{Blocks, Scope};
/// use regard_attn::At;
///
/// let at = At { item: 0, head: 0, q_len: 7, kv_len: 7, q_offset: 0 };
/// assert_eq!(Blocks { size: 3 }.keys(at, 4..5), 3..6);
/// assert_eq!(Blocks { size: 3 }.keys(at, 6..7), 6..7);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// Positions in a block, at least 1.
    pub size: usize,
}

impl Blocks {
    /// First and last block that a span, not empty, touches.
    fn touched(self, span: &Span) -> (usize, usize) {
        (span.start / self.size, (span.end - 1) / self.size)
    }

    /// The positions, below `len`, of the blocks that `span` touches.
    fn around(self, len: usize, span: &Span) -> Span {
        if span.is_empty() {
            return 0..0;
        }
        let (first, last) = self.touched(span);
        let end = (last + 1).saturating_mul(self.size).min(len);
        (first * self.size).min(end)..end
    }
}

/// The positions of a span of queries.
fn positions(at: At, queries: &Span) -> Span {
    at.q_offset + queries.start..at.q_offset + queries.end
}

impl Scope for Blocks {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn describe(&self) -> String {
        format!("blocks of {}", self.size)
    }

    fn check(&self, _: &[Item]) -> Result<(), AttnError> {
        AttnError::size(self.size > 0, "size", "at least 1", self.size)
    }

    fn allows(&self, at: At, query: usize, key: usize) -> bool {
        (at.q_offset + query) / self.size == key / self.size
    }

    fn contiguous(&self) -> bool {
        true
    }

    fn tile(&self, at: At, queries: Span, keys: Span) -> Coverage {
        if queries.is_empty() || keys.is_empty() {
            return Coverage::Skip;
        }
        let (q, k) = (self.touched(&positions(at, &queries)), self.touched(&keys));
        if q.1 < k.0 || k.1 < q.0 {
            Coverage::Skip
        } else if q.0 == q.1 && q == k {
            Coverage::Whole
        } else {
            Coverage::Partial
        }
    }

    fn keys(&self, at: At, queries: Span) -> Span {
        self.around(at.kv_len, &positions(at, &queries))
    }

    fn queries(&self, at: At, keys: Span) -> Span {
        let around = self.around(at.q_offset + at.q_len, &keys);
        let end = around.end.saturating_sub(at.q_offset);
        around.start.saturating_sub(at.q_offset).min(end)..end
    }
}
