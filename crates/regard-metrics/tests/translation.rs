//! BLEU, chrF, TER and the paired bootstrap against sacreBLEU (`scripts/golden/translation.py`).

use std::collections::BTreeMap;

use regard_metrics::translation::{
    Bleu, Chrf, Corpus, PairedBootstrap, Resampled, Smoothing, Ter, Tokenisation,
    TranslationMetric, TranslationScore, paired_bootstrap_of,
};
use serde_json::Value;

fn golden() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/golden/translation.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(text).collect()
}

struct Texts<'a> {
    hypotheses: Vec<&'a str>,
    references: Vec<Vec<&'a str>>,
}

impl<'a> Texts<'a> {
    fn all(golden: &'a Value) -> BTreeMap<&'a str, Texts<'a>> {
        let corpora = golden["corpora"].as_array().unwrap().iter();
        let texts = corpora.map(|corpus| {
            let references = corpus["references"].as_array().unwrap().iter().map(texts).collect();
            let hypotheses = texts(&corpus["hypotheses"]);
            (text(&corpus["name"]), Texts { hypotheses, references })
        });
        texts.collect()
    }
}

fn corpus<M: TranslationMetric>(
    metric: M,
    hypotheses: &[&str],
    references: &[Vec<&str>],
) -> Corpus<M> {
    let mut corpus = Corpus::new(metric);
    for (i, hypothesis) in hypotheses.iter().enumerate() {
        let references: Vec<&str> = references.iter().map(|stream| stream[i]).collect();
        corpus.update(hypothesis, &references).unwrap();
    }
    corpus
}

fn bleu(options: &Value) -> Bleu {
    let smoothing: Smoothing = text(&options["smooth_method"]).parse().unwrap();
    let smoothing = match options["smooth_value"].as_f64() {
        Some(value) => smoothing.with_value(value).unwrap(),
        None => smoothing,
    };
    Bleu {
        tokenisation: text(&options["tokenize"]).parse().unwrap(),
        lowercase: options["lowercase"].as_bool().unwrap(),
        smoothing,
        effective_order: options["effective_order"].as_bool().unwrap(),
    }
}

fn chrf(options: &Value) -> Chrf {
    let number = |key: &str| options[key].as_u64().unwrap() as usize;
    let mut chrf = Chrf::default();
    chrf.lowercase = options["lowercase"].as_bool().unwrap();
    chrf.whitespace = options["whitespace"].as_bool().unwrap();
    chrf.with_orders(number("char_order"), number("word_order"), number("beta") as u32).unwrap()
}

fn ter(options: &Value) -> Ter {
    let switch = |key: &str| options[key].as_bool().unwrap();
    Ter {
        normalized: switch("normalized"),
        no_punct: switch("no_punct"),
        asian_support: switch("asian_support"),
        case_sensitive: switch("case_sensitive"),
    }
}

/// The signature without the version, which names the program that counted.
#[track_caller]
fn settings(signature: &str, program: &str) -> String {
    let (settings, version) = signature.rsplit_once("|version:").unwrap();
    assert!(version.starts_with(program), "{signature}");
    settings.to_owned()
}

fn check<M: TranslationMetric>(metric: M, case: &Value, texts: &Texts<'_>) {
    let name = text(&case["name"]);
    let n_references = case["references"].as_u64().unwrap() as usize;
    let corpus = corpus(metric, &texts.hypotheses, &texts.references[..n_references]);
    let segments: Vec<String> =
        corpus.segment_scores().map(|score| format!("{:.4}", score.points())).collect();
    assert_eq!(segments.join(" "), text(&case["segments"]), "{name}");
    let score = corpus.finish();
    assert_eq!(score.to_string(), text(&case["line"]), "{name}");
    // Some ten operations, `exp` and `ln` among them, which two libraries may round differently.
    let expected = case["score"].as_f64().unwrap();
    let bound = 64.0 * f64::EPSILON * expected;
    assert!((score.points() - expected).abs() <= bound, "{name}: {} {expected}", score.points());
    assert_eq!(
        settings(&corpus.signature(), "regard-"),
        settings(text(&case["signature"]), "2."),
        "{name}"
    );
}

#[test]
fn scores_equal_sacrebleu_to_the_last_printed_digit() {
    let golden = golden();
    let texts = Texts::all(&golden);
    let mut compared = BTreeMap::new();
    for case in golden["cases"].as_array().unwrap() {
        let (texts, options) = (&texts[text(&case["corpus"])], &case["options"]);
        match text(&case["metric"]) {
            "bleu" => check(bleu(options), case, texts),
            "chrf" => check(chrf(options), case, texts),
            "ter" => check(ter(options), case, texts),
            other => panic!("unknown metric {other}"),
        }
        *compared.entry(text(&case["metric"])).or_insert(0) += 1;
    }
    assert!(compared["bleu"] >= 200 && compared["chrf"] >= 100 && compared["ter"] >= 100);
}

#[test]
fn tokens_equal_sacrebleu() {
    let golden = golden();
    let lines = golden["tokens"].as_array().unwrap();
    assert!(lines.len() > 100);
    for line in lines {
        for tokenisation in Tokenisation::ALL {
            let tokens = tokenisation.tokenise(text(&line["line"]));
            assert_eq!(tokens, text(&line[tokenisation.name()]), "{tokenisation} {line}");
        }
    }
}

fn compare<M: TranslationMetric>(metric: M, texts: &Texts<'_>, case: &Value) -> PairedBootstrap {
    let references = &texts.references[..2];
    let baseline = corpus(metric.clone(), &texts.hypotheses, references);
    let system = corpus(metric, &texts.references[2], references);
    let drawn = texts_of_numbers(&case["drawn"]);
    assert_eq!(
        settings(&baseline.bootstrap_signature(drawn.len(), 12345), "regard-"),
        settings(text(&case["signature"]), "2."),
    );
    paired_bootstrap_of(&baseline, &system, &drawn).unwrap()
}

fn texts_of_numbers(value: &Value) -> Vec<Vec<usize>> {
    let numbers = |line: &str| line.split(' ').map(|n| n.parse().unwrap()).collect();
    texts(value).into_iter().map(numbers).collect()
}

#[test]
fn the_paired_bootstrap_equals_sacrebleu_on_the_same_draw() {
    let golden = golden();
    let texts = Texts::all(&golden);
    let cases = golden["bootstrap"].as_array().unwrap();
    assert!(cases.len() >= 12);
    let mut p_values = Vec::new();
    for case in cases {
        let name = text(&case["name"]);
        let texts = &texts[text(&case["corpus"])];
        let result = match text(&case["metric"]) {
            "bleu" => compare(Bleu::default(), texts, case),
            "chrf" => compare(Chrf::default(), texts, case),
            "ter" => compare(Ter::default(), texts, case),
            other => panic!("unknown metric {other}"),
        };
        for (ours, theirs) in
            [(result.baseline, &case["results"][0]), (result.system, &case["results"][1])]
        {
            let Resampled { score, mean, half_width } = ours;
            let theirs: Vec<f64> =
                theirs.as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect();
            // sacreBLEU scores resamples in float32: some sixteen operations on numbers up to `largest`.
            let largest = theirs.iter().copied().fold(100.0, f64::max);
            let bound = 16.0 * f64::from(f32::EPSILON) * largest;
            for (ours, theirs) in [score, mean, half_width].into_iter().zip(&theirs) {
                assert!((ours - theirs).abs() <= bound, "{name}: {ours} {theirs}");
            }
        }
        assert_eq!(result.p_value, case["p_value"].as_f64().unwrap(), "{name}");
        p_values.push(result.p_value);
    }
    assert!(p_values.iter().any(|&p| p < 0.05) && p_values.iter().any(|&p| p > 0.05));
}
