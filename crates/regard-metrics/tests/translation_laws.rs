//! Laws that hold for any texts.

use proptest::prelude::*;
use regard_metrics::translation::{
    Bleu, Chrf, Corpus, Smoothing, Ter, Tokenisation, TranslationMetric, TranslationScore,
};

/// Texts of few words, so that they have something in common; of any characters; and of blanks and marks.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "([a-c]{1,2} ){0,11}[a-c]",
        1 => "\\PC{0,13}",
        1 => any::<String>(),
        1 => "[-., '\"&;\u{a0}\u{3000}a3我。！]{0,17}",
    ]
}

fn segments() -> impl Strategy<Value = Vec<(String, Vec<String>)>> {
    prop::collection::vec((text(), prop::collection::vec(text(), 1..4)), 0..5)
}

fn bleu() -> impl Strategy<Value = Bleu> {
    let smoothing = prop::sample::select(vec![
        Smoothing::None,
        Smoothing::Floor(0.1),
        Smoothing::AddK(1.0),
        Smoothing::Exp,
    ]);
    let tokenisation = prop::sample::select(&Tokenisation::ALL[..]);
    (tokenisation, any::<bool>(), smoothing, any::<bool>()).prop_map(
        |(tokenisation, lowercase, smoothing, effective_order)| Bleu {
            tokenisation,
            lowercase,
            smoothing,
            effective_order,
        },
    )
}

fn chrf() -> impl Strategy<Value = Chrf> {
    (1_usize..8, 0_usize..4, 1_u32..4, any::<bool>(), any::<bool>()).prop_map(
        |(char_order, word_order, beta, lowercase, whitespace)| {
            let mut chrf = Chrf::default().with_orders(char_order, word_order, beta).unwrap();
            chrf.lowercase = lowercase;
            chrf.whitespace = whitespace;
            chrf
        },
    )
}

fn ter() -> impl Strategy<Value = Ter> {
    any::<[bool; 4]>().prop_map(|[normalized, no_punct, asian_support, case_sensitive]| Ter {
        normalized,
        no_punct,
        asian_support,
        case_sensitive,
    })
}

fn corpus<M: TranslationMetric>(metric: &M, segments: &[(String, Vec<String>)]) -> Corpus<M> {
    let mut corpus = Corpus::new(metric.clone());
    for (hypothesis, references) in segments {
        let references: Vec<&str> = references.iter().map(String::as_str).collect();
        corpus.update(hypothesis, &references).unwrap();
    }
    corpus
}

/// The parts, in any split, make the whole; the score is a number in its range.
fn check<M: TranslationMetric + std::fmt::Debug>(
    metric: &M,
    segments: &[(String, Vec<String>)],
    split: usize,
    highest: f64,
) -> Result<(), TestCaseError>
where
    M::Counts: std::fmt::Debug + PartialEq,
{
    let whole = corpus(metric, segments);
    let split = split.min(segments.len());
    let mut merged = corpus(metric, &segments[..split]);
    merged.merge(&corpus(metric, &segments[split..])).unwrap();
    prop_assert_eq!(&merged, &whole);
    // Rounding can lift a score above 100 by some multiples of ε.
    let highest = highest * (1.0 + 16.0 * f64::EPSILON);
    for points in whole.segment_scores().map(|s| s.points()).chain([whole.finish().points()]) {
        prop_assert!((0.0..=highest).contains(&points), "{}", points);
    }
    Ok(())
}

proptest! {
    #[test]
    fn parts_make_the_whole(
        segments in segments(),
        split in 0_usize..6,
        bleu in bleu(),
        chrf in chrf(),
        ter in ter(),
    ) {
        check(&bleu, &segments, split, 100.0)?;
        check(&chrf, &segments, split, 100.0)?;
        check(&ter, &segments, split, f64::MAX / 2.0)?;
    }

    #[test]
    fn a_text_is_its_own_best_translation(text in "[a-z]{1,5}( [a-z]{1,5}){3,9}", other in text()) {
        let references = [other.as_str(), text.as_str()];
        let bleu = one(&Bleu::default(), &text, &references);
        let chrf = one(&Chrf::plus_plus(), &text, &references);
        prop_assert!((bleu - 100.0).abs() < 1e-9 && (chrf - 100.0).abs() < 1e-9);
        prop_assert_eq!(one(&Ter::default(), &text, &references), 0.0);
    }

    #[test]
    fn the_order_of_references_does_not_matter(
        hypothesis in text(), a in text(), b in text(), bleu in bleu(), ter in ter(),
    ) {
        prop_assert_eq!(one(&bleu, &hypothesis, &[&a, &b]), one(&bleu, &hypothesis, &[&b, &a]));
        prop_assert_eq!(one(&ter, &hypothesis, &[&a, &b]), one(&ter, &hypothesis, &[&b, &a]));
    }

    /// A shift is made only where it saves more than it costs, so that shifts never make it more edits than without; and each word of difference
    /// in length costs one.
    #[test]
    fn edits_lie_between_length_difference_and_edit_distance(
        hypothesis in prop::collection::vec(0_u8..4, 0..23), reference in prop::collection::vec(0_u8..4, 1..23),
    ) {
        let text = |words: &[u8]| words.iter().map(u8::to_string).collect::<Vec<_>>().join(" ");
        let mut corpus = Corpus::new(Ter::default());
        corpus.update(&text(&hypothesis), &[&text(&reference)]).unwrap();
        let edits = corpus.finish().edits as usize;
        prop_assert!(edits >= hypothesis.len().abs_diff(reference.len()));
        // Texts of up to 22 words lie within the beam of 25.
        prop_assert!(edits <= levenshtein(&hypothesis, &reference));
    }
}

proptest! {
    // A case tries up to 1000 shifts.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lengths_may_differ_by_far(hypothesis in 0_usize..131, reference in 0_usize..131, step in 1_usize..7) {
        let text = |n: usize, step: usize| (0..n).map(|i| (i * step % 11).to_string()).collect::<Vec<_>>().join(" ");
        let mut corpus = Corpus::new(Ter::default());
        corpus.update(&text(hypothesis, step), &[&text(reference, 1)]).unwrap();
        let edits = corpus.finish().edits as usize;
        prop_assert!(edits >= hypothesis.abs_diff(reference) && edits <= hypothesis.max(reference));
    }
}

fn one<M: TranslationMetric>(metric: &M, hypothesis: &str, references: &[&str]) -> f64 {
    let mut corpus = Corpus::new(metric.clone());
    corpus.update(hypothesis, references).unwrap();
    corpus.finish().points()
}

fn levenshtein(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[test]
fn the_number_of_references_is_limited_and_told() {
    let mut corpus = Corpus::new(Ter::default());
    assert_eq!(corpus.signature().split('|').next(), Some("nrefs:0"));
    assert_eq!(corpus.finish().score, 0.0);
    for references in [&[][..], &["a"; 17]] {
        let before = corpus.clone();
        let error = corpus.update("a", references).unwrap_err().to_string();
        assert_eq!(error, format!("segment 1: {} references, expected 1 to 16", references.len()));
        assert_eq!(corpus, before);
    }
    corpus.update("a", &["a"; 16]).unwrap();
    assert_eq!(corpus.signature().split('|').next(), Some("nrefs:16"));
    corpus.update("a b", &["a", "b c", "b a c"]).unwrap();
    assert_eq!(corpus.signature().split('|').next(), Some("nrefs:var"));
    // Means of 1 and 2 words, exactly.
    assert_eq!(corpus.finish().reference_len, 3.0);

    let other = Corpus::new(Ter { no_punct: true, ..Ter::default() });
    let error = corpus.merge(&other).unwrap_err().to_string();
    assert!(error.starts_with("counts by case:lc|tok:tercom|norm:no|punct:no|"), "{error}");
}
