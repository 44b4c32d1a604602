//! Laws that hold for any sequences.

use proptest::prelude::*;
use regard_metrics::{
    Counts, MetricsError, Scheme, Span, SpanMetrics, SpanMode, TagMetrics, TokenFlags,
};

const SCHEMES: [Scheme; 3] = [Scheme::Iob1, Scheme::Iob2, Scheme::Iobes];
const MODES: [SpanMode; 2] = [SpanMode::ConllEval, SpanMode::Strict];

/// A sentence of any tags of the scheme, in gold and prediction.
type Pair = Vec<(String, String)>;

fn prefixes(scheme: Scheme) -> &'static [&'static str] {
    match scheme {
        Scheme::Iob1 | Scheme::Iob2 => &["B", "I"],
        Scheme::Iobes => &["B", "I", "E", "S"],
    }
}

fn any_tag(scheme: Scheme) -> impl Strategy<Value = String> {
    let typed = (prop::sample::select(prefixes(scheme)), prop::sample::select(&["X", "Y"][..]))
        .prop_map(|(prefix, kind)| format!("{prefix}-{kind}"));
    prop_oneof![1 => Just("O".to_owned()), 3 => typed]
}

fn pair(scheme: Scheme) -> impl Strategy<Value = Pair> {
    prop::collection::vec((any_tag(scheme), any_tag(scheme)), 0..8)
}

fn pairs() -> impl Strategy<Value = (Scheme, Vec<Pair>)> {
    prop::sample::select(&SCHEMES[..])
        .prop_flat_map(|scheme| (Just(scheme), prop::collection::vec(pair(scheme), 0..6)))
}

/// Well-formed tags: the IOB2 encoding of random spans, each a gap, a length and a type.
fn well_formed() -> impl Strategy<Value = Vec<String>> {
    let span = (0_usize..3, 1_usize..4, prop::sample::select(&["", "X", "Y-Z"][..]));
    prop::collection::vec(span, 0..5).prop_map(|spans| {
        let mut tags = Vec::new();
        for (gap, length, kind) in spans {
            tags.extend(vec!["O".to_owned(); gap]);
            for position in 0..length {
                let prefix = if position == 0 { "B" } else { "I" };
                let hyphen = if kind.is_empty() { "" } else { "-" };
                tags.push(format!("{prefix}{hyphen}{kind}"));
            }
        }
        tags
    })
}

fn add(metrics: &mut SpanMetrics, pair: &Pair) {
    let (gold, predicted): (Vec<&String>, Vec<&String>) = pair.iter().map(|(g, p)| (g, p)).unzip();
    metrics.update(&gold, &predicted).unwrap();
}

fn spans_of(scheme: Scheme, tags: &[String]) -> Vec<Span<'_>> {
    scheme.spans(tags).unwrap()
}

proptest! {
    #[test]
    fn merging_shards_of_spans_equals_one_pass((scheme, pairs) in pairs(), cut in 0_usize..7) {
        for mode in MODES {
            let mut whole = SpanMetrics::new(mode, scheme);
            let mut shards = [whole.clone(), whole.clone(), whole.clone()];
            for (i, pair) in pairs.iter().enumerate() {
                add(&mut whole, pair);
                add(&mut shards[usize::from(i >= cut) + usize::from(i >= 2 * cut)], pair);
            }
            let [mut first, second, third] = shards;
            first.merge(&third).unwrap();
            first.merge(&second).unwrap();
            prop_assert_eq!(&first, &whole);
            prop_assert_eq!(first.finish(), whole.finish());
        }
    }

    #[test]
    fn merging_shards_of_tags_equals_one_pass(
        sentences in prop::collection::vec(
            prop::collection::vec((0_u32..4, 0_u32..4, any::<bool>(), any::<bool>()), 0..6), 0..6),
        cut in 0_usize..7,
    ) {
        let labels = ["a", "b", "c", "d"];
        let mut whole = TagMetrics::new();
        let (mut first, mut second) = (TagMetrics::new(), TagMetrics::new());
        for (i, sentence) in sentences.iter().enumerate() {
            let gold: Vec<u32> = sentence.iter().map(|t| t.0).collect();
            let predicted: Vec<u32> = sentence.iter().map(|t| t.1).collect();
            let flags: Vec<TokenFlags> =
                sentence.iter().map(|t| TokenFlags { unseen: t.2, ambiguous: t.3 }).collect();
            whole.update_ids(&labels, &gold, &predicted, &flags).unwrap();
            let shard = if i < cut { &mut first } else { &mut second };
            shard.update_ids(&labels, &gold, &predicted, &flags).unwrap();
        }
        second.merge(&first);
        prop_assert_eq!(&second, &whole);

        let scores = whole.finish();
        let tokens = sentences.iter().flatten();
        let right = |t: &&(u32, u32, bool, bool)| t.0 == t.1;
        prop_assert_eq!(scores.accuracy.correct, tokens.clone().filter(right).count() as u64);
        let unseen = tokens.clone().filter(|t| t.2);
        prop_assert_eq!(scores.unseen.total, unseen.clone().count() as u64);
        prop_assert_eq!(scores.unseen.correct, unseen.filter(right).count() as u64);
        let ambiguous = tokens.filter(|t| t.3);
        prop_assert_eq!(scores.ambiguous.total, ambiguous.clone().count() as u64);
        prop_assert_eq!(scores.ambiguous.correct, ambiguous.filter(right).count() as u64);
        prop_assert_eq!(scores.confusion.counts.iter().flatten().sum::<u64>(), scores.accuracy.total);
        prop_assert_eq!(scores.averages.micro.f1.is_some(), scores.accuracy.total > 0);
    }

    #[test]
    fn exchanging_gold_and_prediction_exchanges_their_counts((scheme, pairs) in pairs()) {
        for mode in MODES {
            let mut ahead = SpanMetrics::new(mode, scheme);
            let mut back = ahead.clone();
            for pair in &pairs {
                add(&mut ahead, pair);
                add(&mut back, &pair.iter().cloned().map(|(g, p)| (p, g)).collect());
            }
            let (ahead, back) = (ahead.finish(), back.finish());
            let Counts { gold, predicted, correct } = back.spans;
            prop_assert_eq!(ahead.spans, Counts { gold: predicted, predicted: gold, correct });
            prop_assert_eq!(ahead.tokens, back.tokens);
        }
    }

    #[test]
    fn a_sequence_finds_all_its_own_spans((scheme, pairs) in pairs()) {
        for mode in MODES {
            let mut metrics = SpanMetrics::new(mode, scheme);
            for pair in &pairs {
                add(&mut metrics, &pair.iter().map(|(g, _)| (g.clone(), g.clone())).collect());
            }
            let spans = metrics.finish().spans;
            prop_assert_eq!(spans.correct, spans.gold);
            prop_assert_eq!(spans.correct, spans.predicted);
        }
    }

    /// Well-formed tags mean one thing: mode and scheme do not matter.
    #[test]
    fn modes_and_schemes_agree_on_well_formed_tags(tags in well_formed(), other in well_formed()) {
        let len = tags.len().max(other.len());
        let padded = |mut tags: Vec<String>| {
            tags.resize(len, "O".to_owned());
            tags
        };
        let (gold, predicted) = (padded(tags), padded(other));
        let mut seen = Vec::new();
        for mode in MODES {
            for scheme in SCHEMES {
                let gold = Scheme::Iob2.convert(&gold, scheme).unwrap();
                let predicted = Scheme::Iob2.convert(&predicted, scheme).unwrap();
                let mut metrics = SpanMetrics::new(mode, scheme);
                metrics.update(&gold, &predicted).unwrap();
                seen.push(metrics.finish().spans);
            }
        }
        for counts in &seen {
            prop_assert_eq!(*counts, seen[0]);
        }
    }

    #[test]
    fn conversion_keeps_the_spans_and_can_be_undone(tags in well_formed()) {
        let spans = spans_of(Scheme::Iob2, &tags);
        for from in SCHEMES {
            let tags = Scheme::Iob2.convert(&tags, from).unwrap();
            for to in SCHEMES {
                let converted = from.convert(&tags, to).unwrap();
                prop_assert_eq!(&spans_of(to, &converted), &spans);
                prop_assert_eq!(&to.convert(&converted, from).unwrap(), &tags);
            }
            let detected = Scheme::detect(std::slice::from_ref(&tags)).unwrap();
            prop_assert_eq!(detected, if spans.is_empty() { Scheme::Iob2 } else { from });
        }
    }

    /// A sequence is well formed just if its spans, written down again, give the sequence.
    #[test]
    fn the_check_refuses_what_cannot_be_read_back((scheme, pairs) in pairs()) {
        for tags in pairs.iter().map(|pair| pair.iter().map(|(g, _)| g.clone()).collect::<Vec<_>>()) {
            let mut rewritten = vec!["O".to_owned(); tags.len()];
            let mut before: Option<Span> = None;
            for span in spans_of(scheme, &tags) {
                let touches = before.is_some_and(|b| b.end == span.start && b.kind == span.kind);
                for at in span.start..span.end {
                    let prefix = match scheme {
                        Scheme::Iob1 if at == span.start && touches => "B",
                        Scheme::Iobes if span.end - span.start == 1 => "S",
                        Scheme::Iob2 | Scheme::Iobes if at == span.start => "B",
                        Scheme::Iobes if at + 1 == span.end => "E",
                        _ => "I",
                    };
                    rewritten[at] = format!("{prefix}-{}", span.kind);
                }
                before = Some(span);
            }
            prop_assert_eq!(scheme.check(&tags).is_ok(), rewritten == tags, "{:?}", tags);
        }
    }

    /// Whatever text a tag holds, it is scored or refused, and a refused sequence changes nothing.
    #[test]
    fn any_text_is_scored_or_refused(
        tags in prop::collection::vec(".{0,3}|[BIESO\\[\\].][-]{0,2}[0X-]{0,2}", 0..5)
    ) {
        for mode in MODES {
            for scheme in SCHEMES {
                let mut metrics = SpanMetrics::new(mode, scheme);
                let before = metrics.clone();
                match metrics.update(&tags, &tags) {
                    Ok(()) => {
                        let scores = metrics.finish();
                        prop_assert_eq!(scores.tokens.total, tags.len() as u64);
                        prop_assert!(!scores.to_string().contains("NaN"));
                    }
                    Err(MetricsError::InSequence { sequence: 0, .. }) => {
                        prop_assert_eq!(&metrics, &before);
                    }
                    Err(other) => prop_assert!(false, "{other:?}"),
                }
            }
        }
    }
}

#[test]
fn lengths_must_agree_and_rules_must_be_the_same() {
    let mut metrics = SpanMetrics::new(SpanMode::Strict, Scheme::Iob2);
    metrics.update(&["O"], &["O"]).unwrap();
    let error = metrics.update(&["O", "O"], &["O"]).unwrap_err();
    let expected = MetricsError::LengthMismatch { sequence: 1, gold: 2, predicted: 1 };
    assert_eq!(error, expected);

    let other = SpanMetrics::new(SpanMode::ConllEval, Scheme::Iob2);
    assert_eq!(
        metrics.merge(&other).unwrap_err().to_string(),
        "cannot merge conlleval counts over iob2 into strict counts over iob2"
    );
    assert_eq!("conlleval".parse::<SpanMode>().unwrap(), SpanMode::ConllEval);
    assert_eq!(
        "lenient".parse::<SpanMode>().unwrap_err().to_string(),
        "unknown span mode `lenient`; known: conlleval, strict"
    );
}
