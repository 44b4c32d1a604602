//! Spans by the rules of the CoNLL-2000 script `conlleval` (version 2004-01-26).
//!
//! The script looks at two neighbouring tags to say whether a chunk ends between them and whether one starts. It counts a chunk when it
//! starts, and counts it as correct when one that started at the same token, with the same type, in gold and
//! prediction, ends at the same token in both. With `[` and `]` a chunk may start before the last one has ended, so
//! this is not quite the overlap of two sets of spans; hence both sequences are walked together, as the script does.

use super::scheme::{self, Scheme};
use super::tag::{OUTSIDE, Prefix, Tag};
use crate::classes::Counts;
use crate::error::MetricsError;

/// Reads tags as the script does: the type `0` counts as none, since it is false in Perl.
pub(super) fn read<T: AsRef<str>>(
    tags: &[T],
    scheme: Scheme,
) -> Result<Vec<Tag<'_>>, MetricsError> {
    let allowed = |prefix| prefix != Prefix::S || scheme == Scheme::Iobes;
    let mut parsed = scheme::read(tags, scheme, allowed)?;
    for tag in &mut parsed {
        if tag.kind == "0" {
            tag.kind = "";
        }
    }
    Ok(parsed)
}

/// Hands on, chunk by chunk, what is in gold, in the prediction, and in both. Both have the same length.
pub(super) fn count(
    gold: &[Tag<'_>],
    predicted: &[Tag<'_>],
    scheme: Scheme,
    mut add: impl FnMut(&str, Counts),
) {
    let iobes = scheme == Scheme::Iobes;
    // Whether a chunk that started in both at one token with one type is still open in both.
    let mut open = false;
    let (mut last_gold, mut last_predicted) = (OUTSIDE, OUTSIDE);
    let pairs = gold.iter().zip(predicted);
    for (&gold, &predicted) in pairs.chain([(&OUTSIDE, &OUTSIDE)]) {
        if open {
            let gold_ends = ends(last_gold, gold, iobes);
            let predicted_ends = ends(last_predicted, predicted, iobes);
            if gold_ends && predicted_ends {
                let correct = Counts { correct: 1, ..Counts::default() };
                add(last_gold.kind, correct);
            }
            open = !gold_ends && !predicted_ends && gold.kind == predicted.kind;
        }
        let in_gold = starts(last_gold, gold, iobes);
        let in_predicted = starts(last_predicted, predicted, iobes);
        if in_gold {
            let one = Counts { gold: 1, ..Counts::default() };
            add(gold.kind, one);
        }
        if in_predicted {
            let one = Counts { predicted: 1, ..Counts::default() };
            add(predicted.kind, one);
        }
        open |= in_gold && in_predicted && gold.kind == predicted.kind;
        (last_gold, last_predicted) = (gold, predicted);
    }
}

/// Whether a chunk ends between `last` and `tag`. What concerns `S`, or `B` after `E` with `iobes`, is not the script's:
/// see [`SpanMode::ConllEval`](super::SpanMode::ConllEval). `S` is never read without `iobes`.
fn ends(last: Tag<'_>, tag: Tag<'_>, iobes: bool) -> bool {
    use Prefix::{B, Close, E, I, O, Open, S};
    let types_differ = last.kind != tag.kind;
    match (last.prefix, tag.prefix) {
        (O, _) => false,
        (B | I, B | O) | (E, E | I | O) | (Open | Close | S, _) | (_, S) => true,
        (E, B) => iobes || types_differ,
        _ => types_differ,
    }
}

/// Whether a chunk starts with `tag`; on `S` and `iobes` see [`ends`].
fn starts(last: Tag<'_>, tag: Tag<'_>, iobes: bool) -> bool {
    use Prefix::{B, Close, E, I, O, Open, S};
    let types_differ = last.kind != tag.kind;
    match (last.prefix, tag.prefix) {
        (_, O) => false,
        (B | I | O, B) | (E | O, E | I) | (_, Open | Close | S) | (S, _) => true,
        (E, B) => iobes || types_differ,
        _ => types_differ,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Counts, Scheme, SpanMetrics, SpanMode};

    /// Counts (gold, predicted, correct), found by applying the script's rules by hand.
    #[test]
    fn by_hand() {
        for (why, gold, predicted, counts) in [
            ("perfect", "B-X I-X O B-Y", "B-X I-X O B-Y", (2, 2, 2)),
            ("I after O starts a chunk", "O I-X I-X", "O B-X I-X", (1, 1, 1)),
            ("I after another type starts one", "B-X I-Y", "B-X B-Y", (2, 2, 2)),
            ("I after the same type does not", "I-X I-X", "B-X B-X", (1, 2, 0)),
            ("B between chunks of one type", "I-X B-X", "B-X I-X", (2, 1, 0)),
            ("type wrong", "B-X I-X", "B-Y I-Y", (1, 1, 0)),
            ("type changes within", "B-X I-X", "B-X I-Y", (1, 2, 0)),
            ("ends too early", "B-X I-X I-X", "B-X I-X O", (1, 1, 0)),
            ("ends too late", "B-X O", "B-X I-X", (1, 1, 0)),
            ("starts too late", "B-X I-X", "O I-X", (1, 1, 0)),
            ("open at the end", "O B-X", "O I-X", (1, 1, 1)),
            ("E after O starts one", "O E-X", "O B-X", (1, 1, 1)),
            ("I after E starts one", "I-X E-X I-X", "B-X I-X B-X", (2, 2, 2)),
            ("E after E starts one", "E-X E-X", "B-X B-X", (2, 2, 2)),
            ("E B is one chunk to the script", "E-X B-X", "E-X I-X", (1, 2, 0)),
            ("brackets are one token each", "[-X ]-X O", "B-X B-X O", (2, 2, 2)),
            ("no type", "B I O", "B I O", (1, 1, 1)),
            ("a hyphen in the type", "B-X-Y I-X-Y", "B-X-Y I-X-Z", (1, 2, 0)),
        ] {
            let (g, p): (Vec<_>, Vec<_>) =
                (gold.split(' ').collect(), predicted.split(' ').collect());
            let mut metrics = SpanMetrics::new(SpanMode::ConllEval, Scheme::Iob2);
            metrics.update(&g, &p).unwrap();
            let (gold, predicted, correct) = counts;
            let expected = Counts { gold, predicted, correct };
            assert_eq!(metrics.finish().spans, expected, "{why}");
        }
    }

    #[test]
    fn single_tags_need_iobes() {
        let tags = ["S-X", "B-X", "E-X", "B-X", "E-X"];
        let mut metrics = SpanMetrics::new(SpanMode::ConllEval, Scheme::Iobes);
        metrics.update(&tags, &tags).unwrap();
        assert_eq!(metrics.finish().spans.correct, 3);
        let error =
            SpanMetrics::new(SpanMode::ConllEval, Scheme::Iob2).update(&tags, &tags).unwrap_err();
        assert_eq!(error.to_string(), "gold sequence 1");
        let source = std::error::Error::source(&error).unwrap();
        assert_eq!(source.to_string(), "token 1: `S-X` does not belong to scheme iob2");
    }
}
