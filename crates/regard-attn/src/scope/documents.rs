//! Keys of the query's own document, where several are packed into one item.

use super::{Coverage, Scope};
use crate::AttnError;
use crate::call::{At, Item, Span};
use crate::catalogue::{Entry, Kind, Paper, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "documents",
    kind: Kind::Scope,
    title: "packed documents",
    formula: "scope(i) = {j : document(j) = document(i)}",
    parts: None,
    paper: Some(Paper {
        author: "Krell",
        year: 2021,
        title: "Efficient Sequence Packing without Cross-contamination",
        link: "https://arxiv.org/abs/2107.02027",
    }),
    taxonomy: None,
    shapes: "lengths of the documents of each item, with the item's length as their sum",
    cost: "O(Σ length²)",
    mistakes: &[
        "positions that count from the item's start and not from the document's",
        "targets that reach over the end of a document into the next",
        "where nothing else needs one long row: items of a call are packed at no cost",
    ],
    example: example!(Documents::from_lengths(&[&[3, 4], &[5]])),
};

/// scope(i) = {j : document(j) = document(i)}, for documents one behind the other in an item.
///
/// Queries and keys are the same tokens, so q_len = kv_len. Krell et al. 2021, §3.2
/// (<https://arxiv.org/abs/2107.02027>). For causal attention inside documents join it with
/// [`Causal`](super::Causal) by [`And`](super::And).
///
/// ```
/// use regard_attn::scope::{Documents, Scope};
/// use regard_attn::At;
///
/// let at = At { item: 0, head: 0, q_len: 7, kv_len: 7, q_offset: 0 };
/// let scope = Documents::from_lengths(&[&[3, 4]]);
/// assert!(scope.allows(at, 3, 6) && !scope.allows(at, 2, 3));
/// assert_eq!(scope, Documents::from_ids(&[&[8, 8, 8, 5, 5, 5, 5]])?);
/// # Ok::<(), regard_attn::AttnError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Documents {
    /// For each item, one past the last token of each document.
    ends: Vec<Vec<usize>>,
}

impl Documents {
    /// Documents of these lengths, for each item; 0 is allowed.
    pub fn from_lengths(lengths: &[&[usize]]) -> Self {
        let ends = |lengths: &&[usize]| {
            let running = lengths.iter().scan(0, |end, length| {
                *end += length;
                Some(*end)
            });
            running.collect()
        };
        Self { ends: lengths.iter().map(ends).collect() }
    }

    /// Documents by an id for each token of each item; the ids need no order.
    ///
    /// # Errors
    /// The tokens of a document do not stand side by side.
    pub fn from_ids(ids: &[&[u32]]) -> Result<Self, AttnError> {
        let mut ends = Vec::with_capacity(ids.len());
        for (item, ids) in ids.iter().enumerate() {
            let mut seen = std::collections::HashSet::new();
            let mut item_ends = Vec::new();
            for document in ids.chunk_by(|a, b| a == b) {
                let (id, start) = (document[0], item_ends.last().copied().unwrap_or(0));
                AttnError::size(
                    seen.insert(id),
                    "ids",
                    "tokens of one document side by side",
                    format_args!("id {id} once more at token {start} of item {item}"),
                )?;
                item_ends.push(start + document.len());
            }
            ends.push(item_ends);
        }
        Ok(Self { ends })
    }

    /// The document of a token, by its number.
    fn document(&self, item: usize, token: usize) -> usize {
        self.ends[item].partition_point(|end| *end <= token)
    }

    /// The documents of the first and the last token of a span, which is not empty.
    fn touched(&self, item: usize, span: &Span) -> (usize, usize) {
        (self.document(item, span.start), self.document(item, span.end - 1))
    }

    /// The tokens of all documents that a span touches.
    fn around(&self, item: usize, span: &Span) -> Span {
        if span.is_empty() {
            return 0..0;
        }
        let (first, last) = self.touched(item, span);
        let ends = &self.ends[item];
        first.checked_sub(1).map_or(0, |before| ends[before])..ends[last]
    }
}

impl Scope for Documents {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn describe(&self) -> String {
        "the query's own document".into()
    }

    fn check(&self, items: &[Item]) -> Result<(), AttnError> {
        let n = items.len();
        let expected = format_args!("one list for each of the {n} items");
        AttnError::size(self.ends.len() == n, "documents", expected, self.ends.len())?;
        for (i, (item, ends)) in items.iter().zip(&self.ends).enumerate() {
            let total = ends.last().copied().unwrap_or(0);
            for (argument, len) in [("q_len", item.q_len), ("kv_len", item.kv_len)] {
                let expected = format_args!("the {total} tokens of the documents of item {i}");
                AttnError::size(len == total, argument, expected, len)?;
            }
        }
        Ok(())
    }

    fn same_for_heads(&self) -> bool {
        true
    }

    fn allows(&self, at: At, query: usize, key: usize) -> bool {
        self.document(at.item, query) == self.document(at.item, key)
    }

    fn contiguous(&self) -> bool {
        true
    }

    fn tile(&self, at: At, queries: Span, keys: Span) -> Coverage {
        if queries.is_empty() || keys.is_empty() {
            return Coverage::Skip;
        }
        let (q, k) = (self.touched(at.item, &queries), self.touched(at.item, &keys));
        if q.1 < k.0 || k.1 < q.0 {
            Coverage::Skip
        } else if q.0 == q.1 && q == k {
            Coverage::Whole
        } else {
            Coverage::Partial
        }
    }

    fn keys(&self, at: At, queries: Span) -> Span {
        self.around(at.item, &queries)
    }

    fn queries(&self, at: At, keys: Span) -> Span {
        self.around(at.item, &keys)
    }
}
