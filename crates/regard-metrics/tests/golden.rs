//! Scores and reports against seqeval, the CoNLL-2000 script and scikit-learn (`scripts/golden/spans.py`).

use regard_metrics::{Average, Scheme, SpanMetrics, SpanMode, SpanScores, TagMetrics, TokenFlags};
use serde_json::Value;

fn golden() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/golden/spans.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn words(text: &Value) -> Vec<&str> {
    text.as_str().unwrap().split(' ').collect()
}

fn score(case: &Value, mode: SpanMode) -> SpanScores {
    let scheme: Scheme = case["scheme"].as_str().unwrap().parse().unwrap();
    let mut metrics = SpanMetrics::new(mode, scheme);
    let gold = case["gold"].as_array().unwrap();
    let predicted = case["predicted"].as_array().unwrap();
    for (gold, predicted) in gold.iter().zip(predicted) {
        metrics.update(&words(gold), &words(predicted)).unwrap();
    }
    metrics.finish()
}

/// The programs print 0 where the score is not defined; here it must then be `None`.
fn assert_score(ours: Option<f64>, theirs: &Value, defined: bool, what: &str) {
    let theirs = theirs.as_f64().unwrap();
    assert_eq!(ours.is_some(), defined, "{what}");
    assert!((ours.unwrap_or(0.0) - theirs).abs() < 1e-12, "{what}: {ours:?} is not {theirs}");
}

fn assert_average(ours: Average, theirs: &Value, defined: [bool; 3], what: &str) {
    assert_score(ours.precision, &theirs[0], defined[0], what);
    assert_score(ours.recall, &theirs[1], defined[1], what);
    assert_score(ours.f1, &theirs[2], defined[2], what);
}

fn assert_like_seqeval(scores: &SpanScores, theirs: &Value, what: &str) {
    let types = theirs["types"].as_object().unwrap();
    assert_eq!(scores.types.len(), types.len(), "{what}");
    for class in &scores.types {
        let theirs = &types[&class.name];
        let what = format!("{what}, {}", class.name);
        let counts = class.counts;
        for (i, count) in [counts.gold, counts.predicted, counts.correct].into_iter().enumerate() {
            assert_eq!(count, theirs[i].as_u64().unwrap(), "{what}");
        }
        assert_score(class.precision, &theirs[3], counts.predicted > 0, &what);
        assert_score(class.recall, &theirs[4], counts.gold > 0, &what);
        assert_score(class.f1, &theirs[5], true, &what);
    }
    let (averages, theirs_averages) = (scores.averages, &theirs["averages"]);
    let has_gold = scores.spans.gold > 0;
    let micro = [scores.spans.predicted > 0, has_gold, true];
    assert_average(averages.micro, &theirs_averages["micro"], micro, what);
    assert_average(averages.macro_mean, &theirs_averages["macro"], [true; 3], what);
    assert_average(averages.weighted, &theirs_averages["weighted"], [has_gold; 3], what);
    for (ours, name) in
        [(averages.micro, "micro"), (averages.macro_mean, "macro"), (averages.weighted, "weighted")]
    {
        assert_eq!(ours.support, theirs_averages[name][3].as_u64().unwrap(), "{what}");
    }
    assert_eq!(scores.report(4).to_string(), theirs["report"].as_str().unwrap(), "{what}");
}

/// Runs `check` on the cases that have `key`, and asks for at least `least` of them.
fn for_cases(key: &str, least: usize, check: impl Fn(&Value, &Value, &str)) {
    let golden = golden();
    let cases = golden["spans"].as_array().unwrap();
    let mut compared = 0;
    for case in cases.iter().filter(|case| !case[key].is_null()) {
        check(case, &case[key], case["name"].as_str().unwrap());
        compared += 1;
    }
    assert!(compared >= least, "only {compared} cases have {key}");
}

#[test]
fn strict_equals_seqeval_strict() {
    for_cases("strict", 40, |case, theirs, name| {
        let scores = score(case, SpanMode::Strict);
        assert_like_seqeval(&scores, theirs, name);
        assert_eq!(scores.to_string(), scores.report(4).to_string());
    });
}

#[test]
fn conlleval_equals_seqeval_default() {
    for_cases("lenient", 36, |case, theirs, name| {
        let scores = score(case, SpanMode::ConllEval);
        assert_like_seqeval(&scores, theirs, name);
        assert_score(scores.tokens.score(), &theirs["accuracy"], true, name);
    });
}

#[test]
fn conlleval_prints_what_the_script_prints() {
    for_cases("conlleval", 32, |case, theirs, name| {
        let scores = score(case, SpanMode::ConllEval);
        assert_eq!(scores.to_string(), theirs.as_str().unwrap(), "{name}");
    });
}

#[test]
fn tag_scores_equal_scikit_learn() {
    for case in golden()["tags"].as_array().unwrap() {
        let (gold, predicted) = (words(&case["gold"]), words(&case["predicted"]));
        let mut metrics = TagMetrics::new();
        let flags = vec![TokenFlags::default(); gold.len()];
        metrics.update(&gold, &predicted, &flags).unwrap();
        let scores = metrics.finish();
        assert_score(scores.accuracy.score(), &case["accuracy"], true, "accuracy");
        let labels = case["labels"].as_object().unwrap();
        assert_eq!(scores.labels.len(), labels.len());
        for label in &scores.labels {
            let theirs = &labels[&label.name];
            assert_eq!(label.counts.gold, theirs[0].as_u64().unwrap());
            assert_score(label.precision, &theirs[1], label.counts.predicted > 0, &label.name);
            assert_score(label.recall, &theirs[2], label.counts.gold > 0, &label.name);
            assert_score(label.f1, &theirs[3], true, &label.name);
        }
        let averages = scores.averages;
        for (ours, name) in [
            (averages.micro, "micro"),
            (averages.macro_mean, "macro"),
            (averages.weighted, "weighted"),
        ] {
            assert_average(ours, &case["averages"][name], [true; 3], name);
        }
        let confusion = serde_json::to_value(&scores.confusion.counts).unwrap();
        assert_eq!(confusion, case["confusion"]);
    }
}

#[test]
fn results_serialise_under_the_documented_names() {
    let mut metrics = SpanMetrics::new(SpanMode::Strict, Scheme::Iob2);
    metrics.update(&["B-X"], &["O"]).unwrap();
    let json = serde_json::to_value(metrics.finish()).unwrap();
    assert_eq!(json["mode"], "strict");
    assert_eq!(json["scheme"], "iob2");
    assert_eq!(json["tokens"]["score"], 0.0);
    assert_eq!(json["types"][0]["name"], "X");
    assert_eq!(json["types"][0]["gold"], 1);
    assert_eq!(json["types"][0]["precision"], Value::Null);
    assert_eq!(json["averages"]["macro"]["f1"], 0.0);
}
