//! Scores of real sentences against sacreBLEU (`scripts/golden/translation_data.py`). Skips where the data sets are not there.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::path::{Path, PathBuf};

use regard_metrics::translation::{
    Bleu, Chrf, Ter, Tokenisation, TranslationMetric, TranslationScore,
};
use regard_tasks::score::translation::{SegmentFile, score_translations};
use serde_json::Value;

fn golden() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/golden/translation_data.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn data() -> Option<PathBuf> {
    let data = std::env::var("REGARD_DATA").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").to_owned()
    });
    let data = PathBuf::from(data);
    let is_there = ["multi30k-de-en", "tatoeba-cmn-eng"].iter().all(|set| data.join(set).is_dir());
    if !is_there {
        let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!ci, "{} lacks multi30k-de-en or tatoeba-cmn-eng", data.display());
        eprintln!("skipped: {} lacks multi30k-de-en or tatoeba-cmn-eng", data.display());
    }
    is_there.then_some(data)
}

/// The translations that the script makes of a reference.
fn disturbed(number: usize, line: &str) -> String {
    let words = line.split(' ').enumerate();
    let kept = words.filter(|(place, _)| !(number + place).is_multiple_of(7));
    let mut words: Vec<&str> = kept.map(|(_, word)| word).collect();
    if number.is_multiple_of(5) && !words.is_empty() {
        words.rotate_right(1);
    }
    words.join(" ")
}

/// Translations and references.
fn texts(data: &Path, corpus: &str) -> (SegmentFile, SegmentFile) {
    let file = |segments: Vec<String>| SegmentFile { name: corpus.to_owned(), segments };
    if let Some(language) = corpus.strip_prefix("multi30k ") {
        let path = data.join(format!("multi30k-de-en/test_2016_flickr.{language}.gz"));
        let references = SegmentFile::references(&path).unwrap();
        let translations =
            references.segments.iter().enumerate().map(|(i, line)| disturbed(i, line)).collect();
        return (file(translations), references);
    }
    let rows = SegmentFile::references(&data.join("tatoeba-cmn-eng/cmn.txt.gz")).unwrap();
    let rows: Vec<Vec<&str>> = rows.segments.iter().map(|row| row.split('\t').collect()).collect();
    let pairs = rows.windows(2).filter(|pair| pair[0][0] == pair[1][0]);
    let (translations, references) =
        pairs.map(|pair| (pair[0][1].to_owned(), pair[1][1].to_owned())).unzip();
    (file(translations), file(references))
}

fn check<M: TranslationMetric>(metric: M, case: &Value, texts: &(SegmentFile, SegmentFile)) {
    let (translations, references) = texts;
    let corpus =
        score_translations(metric, std::slice::from_ref(references), translations).unwrap();
    let name = &case["name"];
    assert_eq!(corpus.finish().to_string(), case["line"].as_str().unwrap(), "{name}");
    let rounded =
        corpus.segment_scores().map(|score| (10_000.0 * score.points()).round_ties_even() as u64);
    assert_eq!(rounded.sum::<u64>(), case["ten_thousandths"].as_u64().unwrap(), "{name}");
    assert_eq!(translations.segments.len() as u64, case["segments"].as_u64().unwrap(), "{name}");
}

#[test]
fn real_sentences_score_as_sacrebleu_says() {
    let Some(data) = data() else { return };
    let golden = golden();
    let cases = golden["cases"].as_array().unwrap();
    for corpus in ["multi30k de", "multi30k en", "tatoeba"] {
        let texts = texts(&data, corpus);
        let mut compared = 0;
        for case in cases.iter().filter(|case| case["corpus"] == corpus) {
            let bleu = |tokenisation| Bleu { tokenisation, ..Bleu::default() };
            match case["metric"].as_str().unwrap() {
                "bleu" => check(Bleu::default(), case, &texts),
                "bleu intl" => check(bleu(Tokenisation::Intl), case, &texts),
                "bleu zh" => check(bleu(Tokenisation::Zh), case, &texts),
                "chrf" => check(Chrf::default(), case, &texts),
                "chrf++" => check(Chrf::plus_plus(), case, &texts),
                "ter" => check(Ter::default(), case, &texts),
                "ter normalized asian" => {
                    let ter = Ter { normalized: true, asian_support: true, ..Ter::default() };
                    check(ter, case, &texts);
                }
                other => panic!("unknown metric {other}"),
            }
            compared += 1;
        }
        assert_eq!(compared, 7, "{corpus}");
    }
}
