//! Real annotation: section F of the Broad Twitter Corpus, whose entities its README counts.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use regard_metrics::{Scheme, SpanMetrics, SpanMode};

#[test]
fn both_modes_count_the_entities_of_the_test_section() {
    let data = std::env::var("REGARD_DATA").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").to_owned()
    });
    let path = format!("{data}/ner-broad-twitter/f.conll");
    let Ok(text) = std::fs::read_to_string(&path) else {
        let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!ci, "{path} cannot be read");
        eprintln!("skipped: {path} cannot be read");
        return;
    };
    // Line 13045 separates two tweets by a single space: without it the file has 2000, not 2001.
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let tweets: Vec<Vec<&str>> = lines
        .split(|line| line.is_empty())
        .filter(|tweet| !tweet.is_empty())
        .map(|tweet| tweet.iter().map(|line| line.rsplit_once('\t').unwrap().1).collect())
        .collect();
    assert_eq!(tweets.len(), 2001);
    assert_eq!(Scheme::detect(&tweets).unwrap(), Scheme::Iob2);
    for mode in [SpanMode::ConllEval, SpanMode::Strict] {
        let mut metrics = SpanMetrics::new(mode, Scheme::Iob2);
        for tags in &tweets {
            metrics.update(tags, tags).unwrap();
        }
        let scores = metrics.finish();
        assert_eq!(scores.tokens.total, 35_428);
        assert_eq!(scores.averages.micro.f1, Some(1.0));
        let counts: Vec<_> =
            scores.types.iter().map(|t| (t.name.as_str(), t.counts.gold)).collect();
        assert_eq!(counts, [("LOC", 636), ("ORG", 1090), ("PER", 2650)]);
    }
}
