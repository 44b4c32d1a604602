//! Only real keys, no padding.

use super::{Coverage, Scope};
use crate::AttnError;
use crate::call::{At, Item, Span};
use crate::catalogue::{Entry, Kind, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "lengths",
    kind: Kind::Scope,
    title: "lengths (padding hidden)",
    formula: "scope(i) = {0 … length−1}",
    parts: None,
    paper: None,
    taxonomy: None,
    shapes: "lengths [batch], each at most the kv_len of its item",
    cost: "O(q_len·length)",
    mistakes: &[
        "the mask laid over the queries' axis in place of the keys'",
        "padded positions counted in the loss or in an average over positions",
        "padding with another token in place of hiding it",
    ],
    example: example!(Lengths { kv: &[5, 3] }),
};

/// scope(i) = {0 … length−1}: the first `kv[item]` keys of each item are real, the rest padding.
///
/// Length 0 is allowed: the item's queries see nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths<'a> {
    /// Number of real keys of each item.
    pub kv: &'a [usize],
}

impl Scope for Lengths<'_> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn describe(&self) -> String {
        "real keys only, no padding".into()
    }

    fn check(&self, items: &[Item]) -> Result<(), AttnError> {
        let n = items.len();
        let expected = format_args!("one length for each of the {n} items");
        AttnError::size(self.kv.len() == n, "lengths", expected, self.kv.len())?;
        for (i, (item, length)) in items.iter().zip(self.kv).enumerate() {
            let expected = format_args!("at most the {} keys of item {i}", item.kv_len);
            AttnError::size(*length <= item.kv_len, "lengths", expected, length)?;
        }
        Ok(())
    }

    fn same_for_heads(&self) -> bool {
        true
    }

    fn allows(&self, at: At, _: usize, key: usize) -> bool {
        key < self.kv[at.item]
    }

    fn contiguous(&self) -> bool {
        true
    }

    fn tile(&self, at: At, _: Span, keys: Span) -> Coverage {
        let length = self.kv[at.item];
        if keys.start >= length {
            Coverage::Skip
        } else if keys.end <= length {
            Coverage::Whole
        } else {
            Coverage::Partial
        }
    }

    fn keys(&self, at: At, _: Span) -> Span {
        0..self.kv[at.item]
    }

    fn queries(&self, at: At, keys: Span) -> Span {
        if keys.start < self.kv[at.item] { 0..at.q_len } else { 0..0 }
    }
}
