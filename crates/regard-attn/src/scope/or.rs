//! What at least one of several scopes allows.

use super::{Coverage, Scope};
use crate::AttnError;
use crate::call::{At, Item, Span};
use crate::catalogue::{Entry, Kind, Paper, example};
use crate::scope::{Blocks, Window};

pub(crate) const ENTRY: Entry = Entry {
    name: "or",
    kind: Kind::Scope,
    title: "union of scopes",
    formula: "scope(i) = scope_1(i) ∪ scope_2(i) ∪ …",
    parts: None,
    paper: Some(Paper {
        author: "Beltagy",
        year: 2020,
        title: "Longformer: The Long-Document Transformer",
        link: "https://arxiv.org/abs/2004.05150",
    }),
    taxonomy: None,
    shapes: "as its members",
    cost: "the sum of its members' at most",
    mistakes: &["padding seen by one member: join the whole with `lengths` by `and`"],
    example: example!(Or(&[&Blocks { size: 16 }, &Window { left: 4, right: 4 }])),
};

/// scope(i) = scope_1(i) ∪ scope_2(i) ∪ …; of no scopes at all: nothing.
///
/// Patterns such as a window with some keys that everyone sees (Beltagy et al. 2020,
/// <https://arxiv.org/abs/2004.05150>) are unions.
///
/// ```
/// use regard_attn::scope::{Blocks, Or, Scope, Window};
///
/// let scope = Or(&[&Blocks { size: 16 }, &Window { left: 1, right: 0 }]);
/// assert_eq!(scope.describe(), "(blocks of 16 or window of 1 before and 0 after)");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Or<'a>(pub &'a [&'a dyn Scope]);

/// The narrowest range that holds both.
fn hull(a: Span, b: Span) -> Span {
    if a.is_empty() {
        b
    } else if b.is_empty() {
        a
    } else {
        a.start.min(b.start)..a.end.max(b.end)
    }
}

impl Scope for Or<'_> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn describe(&self) -> String {
        let members: Vec<String> = self.0.iter().map(|scope| scope.describe()).collect();
        match members.len() {
            0 => "nothing".into(),
            1 => members.concat(),
            _ => format!("({})", members.join(" or ")),
        }
    }

    fn check(&self, items: &[Item]) -> Result<(), AttnError> {
        self.0.iter().try_for_each(|scope| scope.check(items))
    }

    fn allows(&self, at: At, query: usize, key: usize) -> bool {
        self.0.iter().any(|scope| scope.allows(at, query, key))
    }

    fn same_for_heads(&self) -> bool {
        self.0.iter().all(|scope| scope.same_for_heads())
    }

    fn reads_pairs(&self) -> bool {
        self.0.iter().any(|scope| scope.reads_pairs())
    }

    fn tile(&self, at: At, queries: Span, keys: Span) -> Coverage {
        let mut coverage = Coverage::Skip;
        for scope in self.0 {
            match scope.tile(at, queries.clone(), keys.clone()) {
                Coverage::Whole => return Coverage::Whole,
                Coverage::Partial => coverage = Coverage::Partial,
                Coverage::Skip => {}
            }
        }
        coverage
    }

    fn keys(&self, at: At, queries: Span) -> Span {
        self.0.iter().map(|scope| scope.keys(at, queries.clone())).fold(0..0, hull)
    }

    fn queries(&self, at: At, keys: Span) -> Span {
        self.0.iter().map(|scope| scope.queries(at, keys.clone())).fold(0..0, hull)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Full;

    const AT: At = At { item: 0, head: 0, q_len: 9, kv_len: 9, q_offset: 0 };

    #[test]
    fn of_no_scopes_is_nothing() {
        assert!(!Or(&[]).allows(AT, 0, 0));
        assert_eq!(Or(&[]).tile(AT, 0..9, 0..9), Coverage::Skip);
        assert_eq!((Or(&[]).keys(AT, 0..1), Or(&[]).queries(AT, 0..1)), (0..0, 0..0));
        assert_eq!(
            (Or(&[]).describe(), Or(&[&Full]).describe()),
            ("nothing".into(), "full".into())
        );
    }

    #[test]
    fn one_member_that_shows_all_is_enough() {
        let (blocks, window) = (Blocks { size: 3 }, Window { left: 0, right: 0 });
        let either = Or(&[&blocks, &window]);
        assert_eq!(either.tile(AT, 3..6, 3..6), Coverage::Whole);
        assert_eq!(either.tile(AT, 2..4, 2..4), Coverage::Partial);
        assert_eq!(either.tile(AT, 0..3, 6..9), Coverage::Skip);
        assert_eq!(either.keys(AT, 4..5), 3..6);
        assert_eq!(Or(&[&blocks, &Full]).keys(AT, 4..5), 0..9);
    }
}
