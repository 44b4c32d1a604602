//! What a given mask says.

use super::{Coverage, Scope};
use crate::AttnError;
use crate::call::{At, Item, Span};
use crate::catalogue::{Entry, Kind, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "given",
    kind: Kind::Scope,
    title: "given mask",
    formula: "scope(i) = {j : allowed_ij}",
    parts: None,
    paper: None,
    taxonomy: None,
    shapes: "allowed [q_len, kv_len], one for all items or one for each",
    cost: "the mask is read once a tile; its memory is O(q_len·kv_len), which other scopes do without",
    mistakes: &[
        "true that means hidden, as some libraries have it: here true means that a key may be seen",
        "a mask of 0 and −10000 to be added: a forbidden score is −∞",
        "a mask for what has a rule (causal, window, lengths): the rule costs no memory",
    ],
    example: example!(Given { allowed: &[&[true, false, true, true]] }),
};

/// scope(i) = {j : allowed_ij}
///
/// Masks are boolean, `[q_len, kv_len]` row by row, true where the key may be seen; all heads share
/// them. One mask serves all items, if they have its shape; else there is one for each.
///
/// ```
/// use regard_attn::scope::{Given, Scope};
/// use regard_attn::At;
///
/// let scope = Given { allowed: &[&[true, false, true, true]] };
/// let at = At { item: 5, head: 0, q_len: 2, kv_len: 2, q_offset: 0 };
/// assert!(!scope.allows(at, 0, 1) && scope.allows(at, 1, 0));
/// assert_eq!(scope.keys(at, 0..1), 0..1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given<'a> {
    /// One mask, or one for each item.
    pub allowed: &'a [&'a [bool]],
}

impl Given<'_> {
    /// Part of a row of the item's mask.
    fn row(&self, at: At, query: usize, keys: &Span) -> &[bool] {
        let mask = if self.allowed.len() == 1 { self.allowed[0] } else { self.allowed[at.item] };
        &mask[query * at.kv_len..][keys.clone()]
    }
}

impl Scope for Given<'_> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn describe(&self) -> String {
        "given mask".into()
    }

    fn check(&self, items: &[Item]) -> Result<(), AttnError> {
        let (n, given) = (items.len(), self.allowed.len());
        let expected = format_args!("one mask, or one for each of the {n} items");
        AttnError::size(given == 1 || given == n, "allowed", expected, given)?;
        for (i, item) in items.iter().enumerate() {
            let mask = self.allowed[if given == 1 { 0 } else { i }];
            let Item { q_len, kv_len, .. } = *item;
            AttnError::size(
                mask.len() == q_len * kv_len,
                "allowed",
                format_args!("q_len × kv_len = {q_len} × {kv_len} elements for item {i}"),
                mask.len(),
            )?;
        }
        Ok(())
    }

    fn allows(&self, at: At, query: usize, key: usize) -> bool {
        self.row(at, query, &(key..key + 1))[0]
    }

    fn tile(&self, at: At, mut queries: Span, keys: Span) -> Coverage {
        let (mut any, mut all) = (false, true);
        let mixed = queries.any(|i| {
            let row = self.row(at, i, &keys);
            any |= row.contains(&true);
            all &= !row.contains(&false);
            any && !all
        });
        if mixed {
            Coverage::Partial
        } else if any {
            Coverage::Whole
        } else {
            Coverage::Skip
        }
    }

    fn keys(&self, at: At, queries: Span) -> Span {
        let (mut start, mut end) = (at.kv_len, 0);
        for i in queries {
            let row = self.row(at, i, &(0..at.kv_len));
            // Only what would widen the range is looked at.
            if let Some(first) = row[..start].iter().position(|allowed| *allowed) {
                start = first;
            }
            if let Some(last) = row[end..].iter().rposition(|allowed| *allowed) {
                end += last + 1;
            }
        }
        start.min(end)..end
    }

    fn queries(&self, at: At, keys: Span) -> Span {
        let sees = |i: &usize| self.row(at, *i, &keys).contains(&true);
        let Some(first) = (0..at.q_len).find(sees) else { return 0..0 };
        first..(first..at.q_len).rfind(sees).map_or(first, |last| last + 1)
    }
}
