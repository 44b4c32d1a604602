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

/// Places of a mask that are looked at together.
const GROUP: usize = 32;

/// Whether one, and whether each, is true; of many at a time, without an early exit.
fn any_and_all(row: &[bool]) -> (bool, bool) {
    let (mut any, mut all) = (false, true);
    let (groups, rest) = row.as_chunks::<GROUP>();
    for group in groups {
        let (mut any_of_group, mut all_of_group) = (false, true);
        for allowed in group {
            any_of_group |= *allowed;
            all_of_group &= *allowed;
        }
        any |= any_of_group;
        all &= all_of_group;
    }
    for allowed in rest {
        any |= *allowed;
        all &= *allowed;
    }
    (any, all)
}

/// The first place that is true.
fn first_true(row: &[bool]) -> Option<usize> {
    let (groups, rest) = row.as_chunks::<GROUP>();
    let skipped = groups.iter().position(|group| any_and_all(group).0).unwrap_or(groups.len());
    let in_group = groups.get(skipped).map_or(rest, |group| group);
    Some(skipped * GROUP + in_group.iter().position(|allowed| *allowed)?)
}

/// The last place that is true.
fn last_true(row: &[bool]) -> Option<usize> {
    let (rest, groups) = row.as_rchunks::<GROUP>();
    let Some(n) = groups.iter().rposition(|group| any_and_all(group).0) else {
        return rest.iter().rposition(|allowed| *allowed);
    };
    Some(rest.len() + n * GROUP + groups[n].iter().rposition(|allowed| *allowed)?)
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

    fn same_for_heads(&self) -> bool {
        true
    }

    fn reads_pairs(&self) -> bool {
        true
    }

    fn tile(&self, at: At, queries: Span, keys: Span) -> Coverage {
        let (mut any, mut all) = (false, true);
        for i in queries {
            let (any_of_row, all_of_row) = any_and_all(self.row(at, i, &keys));
            any |= any_of_row;
            all &= all_of_row;
            if any && !all {
                return Coverage::Partial;
            }
        }
        if any { Coverage::Whole } else { Coverage::Skip }
    }

    fn keys(&self, at: At, queries: Span) -> Span {
        let (mut start, mut end) = (at.kv_len, 0);
        for i in queries {
            let row = self.row(at, i, &(0..at.kv_len));
            // Only what would widen the range is looked at.
            if let Some(first) = first_true(&row[..start]) {
                start = first;
            }
            if let Some(last) = last_true(&row[end..]) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_found_wherever_they_lie() {
        for n in [0, 1, 31, 32, 33, 64, 100] {
            assert_eq!(
                (first_true(&[false; 100][..n]), last_true(&[false; 100][..n])),
                (None, None)
            );
            for i in 0..n {
                for j in i..n {
                    let mut row = vec![false; n];
                    (row[i], row[j]) = (true, true);
                    assert_eq!((first_true(&row), last_true(&row)), (Some(i), Some(j)), "{n}");
                    assert_eq!(any_and_all(&row), (true, n == j - i + 1 && n <= 2));
                }
            }
        }
        assert_eq!(any_and_all(&[true; 70]), (true, true));
        assert_eq!(any_and_all(&[false; 70]), (false, false));
    }
}
