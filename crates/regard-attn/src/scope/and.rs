//! What every one of several scopes allows.

use super::{Coverage, Scope};
use crate::AttnError;
use crate::call::{At, Item, Span};
use crate::catalogue::{Entry, Kind, example};
use crate::scope::{Causal, Lengths};

pub(crate) const ENTRY: Entry = Entry {
    name: "and",
    kind: Kind::Scope,
    title: "intersection of scopes",
    formula: "scope(i) = scope_1(i) ∩ scope_2(i) ∩ …",
    parts: None,
    paper: None,
    taxonomy: None,
    shapes: "as its members",
    cost: "that of the narrowest member",
    mistakes: &["the intersection of a row can be empty though no member's is"],
    example: example!(And(&[&Causal::square(), &Lengths { kv: &[5, 3] }])),
};

/// scope(i) = scope_1(i) ∩ scope_2(i) ∩ …; of no scopes at all: everything.
///
/// ```
/// use regard_attn::scope::{And, Causal, Lengths, Scope};
///
/// let scope = And(&[&Causal::square(), &Lengths { kv: &[5, 3] }]);
/// assert_eq!(scope.describe(), "causal and real keys only, no padding");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct And<'a>(pub &'a [&'a dyn Scope]);

/// The common part of two ranges; empty with start = end where there is none.
fn intersect(a: &Span, b: &Span) -> Span {
    let end = a.end.min(b.end);
    a.start.max(b.start).min(end)..end
}

impl Scope for And<'_> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn describe(&self) -> String {
        let members: Vec<String> = self.0.iter().map(|scope| scope.describe()).collect();
        if members.is_empty() { "everything".into() } else { members.join(" and ") }
    }

    fn check(&self, items: &[Item]) -> Result<(), AttnError> {
        self.0.iter().try_for_each(|scope| scope.check(items))
    }

    fn allows(&self, at: At, query: usize, key: usize) -> bool {
        self.0.iter().all(|scope| scope.allows(at, query, key))
    }

    fn tile(&self, at: At, queries: Span, keys: Span) -> Coverage {
        let mut coverage = Coverage::Whole;
        for scope in self.0 {
            match scope.tile(at, queries.clone(), keys.clone()) {
                Coverage::Skip => return Coverage::Skip,
                Coverage::Partial => coverage = Coverage::Partial,
                Coverage::Whole => {}
            }
        }
        coverage
    }

    fn keys(&self, at: At, queries: Span) -> Span {
        let members = self.0.iter().map(|scope| scope.keys(at, queries.clone()));
        members.fold(0..at.kv_len, |common, keys| intersect(&common, &keys))
    }

    fn contiguous(&self) -> bool {
        self.0.iter().all(|scope| scope.contiguous())
    }

    fn lists(&self, at: At) -> bool {
        self.0.iter().any(|scope| scope.lists(at))
    }

    fn same_for_heads(&self) -> bool {
        self.0.iter().all(|scope| scope.same_for_heads())
    }

    fn reads_pairs(&self) -> bool {
        self.0.iter().any(|scope| scope.reads_pairs())
    }

    fn list(&self, at: At, query: usize, keys: &mut Vec<usize>) {
        let Some(first) = self.0.iter().position(|scope| scope.lists(at)) else {
            return keys.extend((0..at.kv_len).filter(|key| self.allows(at, query, *key)));
        };
        let start = keys.len();
        self.0[first].list(at, query, keys);
        let allowed = |key: &usize| {
            let mut others = self.0.iter().enumerate().filter(|(n, _)| *n != first);
            others.all(|(_, scope)| scope.allows(at, query, *key))
        };
        let kept: Vec<usize> = keys.drain(start..).filter(allowed).collect();
        keys.extend(kept);
    }

    fn queries(&self, at: At, keys: Span) -> Span {
        let members = self.0.iter().map(|scope| scope.queries(at, keys.clone()));
        members.fold(0..at.q_len, |common, queries| intersect(&common, &queries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::{Full, Window};

    const AT: At = At { item: 0, head: 0, q_len: 9, kv_len: 9, q_offset: 0 };

    #[test]
    fn of_no_scopes_is_everything() {
        assert!(And(&[]).allows(AT, 0, 8));
        assert_eq!(And(&[]).tile(AT, 0..9, 0..9), Coverage::Whole);
        assert_eq!((And(&[]).keys(AT, 0..1), And(&[]).queries(AT, 0..1)), (0..9, 0..9));
        assert_eq!(And(&[]).describe(), "everything");
    }

    #[test]
    fn one_member_that_skips_is_enough() {
        let window = Window { left: 1, right: 1 };
        let both = And(&[&Full, &window]);
        assert_eq!(both.tile(AT, 0..2, 5..9), Coverage::Skip);
        assert_eq!(both.tile(AT, 3..4, 2..5), Coverage::Whole);
        assert_eq!(both.tile(AT, 3..5, 2..5), Coverage::Partial);
        assert_eq!(both.keys(AT, 3..5), 2..6);
        let never = And(&[&window, &Lengths { kv: &[1] }]);
        assert!(never.keys(AT, 5..9).is_empty() && never.queries(AT, 3..9).is_empty());
    }
}
