//! No key after the query.

use super::{Coverage, Scope};
use crate::AttnError;
use crate::call::{At, Item, Span};
use crate::catalogue::{Entry, Kind, VASWANI, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "causal",
    kind: Kind::Scope,
    title: "causal (masked)",
    formula: "scope(i) = {j : j ≤ i}, or j ≤ i + kv_len − q_len where the ends are aligned",
    parts: None,
    paper: Some(VASWANI),
    taxonomy: None,
    shapes: "about half of q_len × kv_len pairs",
    cost: "half of full",
    mistakes: &[
        "q_len ≠ kv_len with the wrong corner aligned: a cached step needs the bottom right one",
        "future words in the input all the same, such as targets that are not shifted",
        "accuracy of 98 % at once: the future leaks",
    ],
    example: example!(Causal::square()),
};

/// Which query and key are taken as the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    /// Positions: j ≤ q_offset + i; without an offset the first query and the first key, j ≤ i.
    TopLeft,
    /// The last query and the last key: j ≤ i + kv_len − q_len. What a step needs that adds new
    /// queries to keys of before. With q_len > kv_len the first q_len − kv_len queries see nothing.
    BottomRight,
    /// No choice was made: an error of [`Scope::check`] unless q_len = kv_len.
    Square,
}

/// scope(i) = {j : j ≤ i}: no key after the query.
///
/// Where q_len ≠ kv_len, libraries differ in which corner they align, so the choice has no
/// default. Vaswani et al. 2017, §3.2.3 (<https://arxiv.org/abs/1706.03762>).
///
/// ```
/// use regard_attn::scope::{Alignment, Causal, Scope};
/// use regard_attn::At;
///
/// let at = At { item: 0, head: 0, q_len: 1, kv_len: 4, q_offset: 0 }; // one new query, four keys
/// let sees = |alignment| (0..4).filter(|j| Causal { alignment }.allows(at, 0, *j)).count();
/// assert_eq!(sees(Alignment::TopLeft), 1);
/// assert_eq!(sees(Alignment::BottomRight), 4);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Causal {
    /// Which corner of queries × keys is aligned.
    pub alignment: Alignment,
}

impl Causal {
    /// For as many queries as keys, where both corners agree.
    pub const fn square() -> Self {
        Self { alignment: Alignment::Square }
    }

    /// Number of keys that a query sees: the first so many.
    fn visible(self, at: At, query: usize) -> usize {
        let visible = match self.alignment {
            Alignment::TopLeft | Alignment::Square => at.q_offset + query + 1,
            Alignment::BottomRight => (query + 1 + at.kv_len).saturating_sub(at.q_len),
        };
        visible.min(at.kv_len)
    }
}

impl Scope for Causal {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn describe(&self) -> String {
        match self.alignment {
            Alignment::TopLeft => "causal from the first query and key on".into(),
            Alignment::BottomRight => "causal up to the last query and key".into(),
            Alignment::Square => "causal".into(),
        }
    }

    fn check(&self, items: &[Item]) -> Result<(), AttnError> {
        if self.alignment != Alignment::Square {
            return Ok(());
        }
        for (i, item) in items.iter().enumerate() {
            let expected = format_args!(
                "the kv_len {} of item {i}, or top-left or bottom-right alignment chosen",
                item.kv_len
            );
            AttnError::size(item.q_len == item.kv_len, "q_len", expected, item.q_len)?;
            let expected = format_args!("0 in item {i}, whose queries are its keys");
            AttnError::size(item.q_offset == 0, "q_offset", expected, item.q_offset)?;
        }
        Ok(())
    }

    fn same_for_heads(&self) -> bool {
        true
    }

    fn allows(&self, at: At, query: usize, key: usize) -> bool {
        key < self.visible(at, query)
    }

    fn contiguous(&self) -> bool {
        true
    }

    fn tile(&self, at: At, queries: Span, keys: Span) -> Coverage {
        if queries.is_empty() || keys.start >= self.visible(at, queries.end - 1) {
            Coverage::Skip
        } else if keys.end <= self.visible(at, queries.start) {
            Coverage::Whole
        } else {
            Coverage::Partial
        }
    }

    fn keys(&self, at: At, queries: Span) -> Span {
        if queries.is_empty() { 0..0 } else { 0..self.visible(at, queries.end - 1) }
    }

    fn queries(&self, at: At, keys: Span) -> Span {
        let first = match self.alignment {
            Alignment::TopLeft | Alignment::Square => keys.start.saturating_sub(at.q_offset),
            Alignment::BottomRight => (keys.start + at.q_len).saturating_sub(at.kv_len),
        };
        first.min(at.q_len)..at.q_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(alignment: Alignment, q_len: usize, kv_len: usize) -> Vec<String> {
        let at = At { item: 0, head: 0, q_len, kv_len, q_offset: 0 };
        let scope = Causal { alignment };
        let sees = |i, j| if scope.allows(at, i, j) { 'x' } else { '.' };
        (0..q_len).map(|i| (0..kv_len).map(|j| sees(i, j)).collect()).collect()
    }

    #[test]
    fn the_two_corners_agree_on_squares_alone() {
        use Alignment::{BottomRight, Square, TopLeft};
        for alignment in [TopLeft, BottomRight, Square] {
            assert_eq!(table(alignment, 3, 3), ["x..", "xx.", "xxx"]);
        }
        assert_eq!(table(TopLeft, 2, 4), ["x...", "xx.."]);
        assert_eq!(table(BottomRight, 2, 4), ["xxx.", "xxxx"]);
        assert_eq!(table(TopLeft, 4, 2), ["x.", "xx", "xx", "xx"]);
        // The queries before the first key see nothing.
        assert_eq!(table(BottomRight, 4, 2), ["..", "..", "x.", "xx"]);
    }
}
