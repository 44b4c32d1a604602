//! Spans by seqeval's strict rules: only what is encoded as the scheme demands.

use serde::Serialize;

use super::scheme::Scheme;
use super::tag::{OUTSIDE, Prefix, Tag};
use crate::classes::Counts;
use crate::error::MetricsError;

/// The tokens `start..end` of a sequence, labelled `kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Span<'a> {
    /// Index of the first token.
    pub start: usize,
    /// Index behind the last token.
    pub end: usize,
    /// The type; empty for tags without one.
    pub kind: &'a str,
}

/// Reads tags as seqeval names their types: without hyphens at either end, and `_` for none.
pub(super) fn read<T: AsRef<str>>(
    tags: &[T],
    scheme: Scheme,
) -> Result<Vec<Tag<'_>>, MetricsError> {
    let mut parsed = scheme.read(tags)?;
    for tag in &mut parsed {
        tag.kind = match tag.kind.trim_matches('-') {
            "" => "_",
            kind => kind,
        };
    }
    Ok(parsed)
}

/// The spans of `tags`, in order: from a tag that starts one, over those that carry on inside it, if what comes next lets it end there.
pub(super) fn spans<'a>(tags: &[Tag<'a>], scheme: Scheme) -> Vec<Span<'a>> {
    let mut spans = Vec::new();
    let mut previous = OUTSIDE;
    let mut start = 0;
    while start < tags.len() {
        let mut end = start + 1;
        if starts(scheme, previous, tags[start]) {
            while end < tags.len() && inside(scheme, tags[end - 1], tags[end]) {
                end += 1;
            }
            let next = tags.get(end).copied().unwrap_or(OUTSIDE);
            if ends(scheme, tags[end - 1], next) {
                spans.push(Span { start, end, kind: tags[start].kind });
            }
        }
        previous = tags[end - 1];
        start = end;
    }
    spans
}

/// Hands on, span by span, what is in gold, in the prediction, and in both.
pub(super) fn count(gold: &[Span<'_>], predicted: &[Span<'_>], mut add: impl FnMut(&str, Counts)) {
    for span in gold {
        // Spans are sorted by their start, and no two start at one token.
        let twin = predicted.binary_search_by_key(&span.start, |p| p.start);
        let correct = twin.is_ok_and(|i| predicted[i] == *span);
        add(span.kind, Counts { gold: 1, predicted: 0, correct: u64::from(correct) });
    }
    for span in predicted {
        add(span.kind, Counts { predicted: 1, ..Counts::default() });
    }
}

fn starts(scheme: Scheme, previous: Tag<'_>, tag: Tag<'_>) -> bool {
    use Prefix::{B, I, O, S};
    let same = previous.kind == tag.kind;
    match (scheme, previous.prefix, tag.prefix) {
        (Scheme::Iob1, O | B, I) | (Scheme::Iob2, _, B) | (Scheme::Iobes, _, B | S) => true,
        (Scheme::Iob1, I, I) => !same,
        (Scheme::Iob1, B | I, B) => same,
        _ => false,
    }
}

fn inside(scheme: Scheme, previous: Tag<'_>, tag: Tag<'_>) -> bool {
    use Prefix::{B, E, I};
    let goes_on = tag.prefix == I || (scheme == Scheme::Iobes && tag.prefix == E);
    goes_on && matches!(previous.prefix, B | I) && previous.kind == tag.kind
}

/// Whether a span whose last tag is `last` may end before `next`, which is not inside it.
fn ends(scheme: Scheme, last: Tag<'_>, next: Tag<'_>) -> bool {
    use Prefix::{B, E, S};
    match scheme {
        // `B-Y` right after `B-X` is no IOB1: it should be `I-Y`. seqeval then drops the first of the two.
        Scheme::Iob1 => (last.prefix, next.prefix) != (B, B) || last.kind == next.kind,
        Scheme::Iob2 => true,
        Scheme::Iobes => matches!(last.prefix, E | S),
    }
}
