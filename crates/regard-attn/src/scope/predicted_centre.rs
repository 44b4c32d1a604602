//! Keys near a centre that each query predicts.

use super::{Coverage, Scope};
use crate::AttnError;
use crate::call::{At, Item, Span};
use crate::catalogue::{Entry, Kind, LUONG, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "predicted_centre",
    kind: Kind::Scope,
    title: "window around a predicted centre (local-p)",
    formula: "scope(i) = {j : ⌊p_i⌋ − radius ≤ j ≤ ⌊p_i⌋ + radius}",
    parts: None,
    paper: Some(LUONG),
    taxonomy: None,
    shapes: "centres p [q_len] for each item, in key indices from 0; at most 2·radius + 1 keys a query",
    cost: "O(q_len·(2·radius + 1)) where neighbouring queries have near centres",
    mistakes: &[
        "centres counted from 1, as in the paper's code, against keys counted from 0",
        "the rounded centre in the Gaussian factor: that takes p_i itself",
        "a gradient expected through the window: the centre learns through the Gaussian factor alone",
    ],
    example: example!(PredictedCentre { centres: &[&[0.0, 1.3, 2.9]], radius: 10 }),
};

/// scope(i) = {j : ⌊p_i⌋ − radius ≤ j ≤ ⌊p_i⌋ + radius}, with a centre p_i that a model predicts for
/// each query.
///
/// Luong et al. 2015, §3.2, "local-p" (<https://arxiv.org/abs/1508.04025>), with radius D and
/// p_t = S·σ(v_pᵀ tanh(W_p h_t)); all heads share the centres. A centre beyond the keys is allowed:
/// the query sees what its window leaves of them, which may be nothing.
///
/// ```
/// use regard_attn::scope::{PredictedCentre, Scope};
/// use regard_attn::At;
///
/// let scope = PredictedCentre { centres: &[&[3.6, 0.2]], radius: 2 };
/// let at = At { item: 0, head: 0, q_len: 2, kv_len: 10, q_offset: 0 };
/// assert_eq!(scope.keys(at, 0..1), 1..6);
/// assert_eq!(scope.keys(at, 1..2), 0..3);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictedCentre<'a> {
    /// For each item, the centre of each query, finite, in key indices from the item's start.
    pub centres: &'a [&'a [f64]],
    /// Keys to each side of the centre.
    pub radius: usize,
}

impl PredictedCentre<'_> {
    /// The keys that a query sees; empty with start = end.
    fn seen(&self, at: At, query: usize) -> Span {
        let centre = self.centres[at.item][query].floor() as i64;
        let radius = i64::try_from(self.radius).unwrap_or(i64::MAX);
        let inside = |n: i64| n.clamp(0, at.kv_len as i64) as usize;
        inside(centre.saturating_sub(radius))
            ..inside(centre.saturating_add(radius).saturating_add(1))
    }
}

impl Scope for PredictedCentre<'_> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn describe(&self) -> String {
        format!("window of {} to each side of a predicted centre", self.radius)
    }

    fn check(&self, items: &[Item]) -> Result<(), AttnError> {
        let n = items.len();
        let expected = format_args!("one list for each of the {n} items");
        AttnError::size(self.centres.len() == n, "centres", expected, self.centres.len())?;
        for (i, (item, centres)) in items.iter().zip(self.centres).enumerate() {
            let expected = format_args!("one for each of the {} queries of item {i}", item.q_len);
            AttnError::size(centres.len() == item.q_len, "centres", expected, centres.len())?;
            if let Some(query) = centres.iter().position(|centre| !centre.is_finite()) {
                let actual = format_args!("{} for query {query} of item {i}", centres[query]);
                return AttnError::size(false, "centres", "finite", actual);
            }
        }
        Ok(())
    }

    fn allows(&self, at: At, query: usize, key: usize) -> bool {
        self.seen(at, query).contains(&key)
    }

    fn contiguous(&self) -> bool {
        true
    }

    fn tile(&self, at: At, queries: Span, keys: Span) -> Coverage {
        let (mut any, mut all) = (false, true);
        for i in queries {
            let seen = self.seen(at, i);
            any |= seen.start.max(keys.start) < seen.end.min(keys.end);
            all &= seen.start <= keys.start && keys.end <= seen.end;
            if any && !all {
                return Coverage::Partial;
            }
        }
        if any { Coverage::Whole } else { Coverage::Skip }
    }

    fn keys(&self, at: At, queries: Span) -> Span {
        let (mut start, mut end) = (at.kv_len, 0);
        for seen in queries.map(|i| self.seen(at, i)).filter(|seen| !seen.is_empty()) {
            start = start.min(seen.start);
            end = end.max(seen.end);
        }
        start.min(end)..end
    }

    fn queries(&self, at: At, keys: Span) -> Span {
        let sees = |i: &usize| {
            let seen = self.seen(at, *i);
            seen.start.max(keys.start) < seen.end.min(keys.end)
        };
        let Some(first) = (0..at.q_len).find(sees) else { return 0..0 };
        first..(first..at.q_len).rfind(sees).map_or(first, |last| last + 1)
    }
}
