//! `regard score`: files against files.

use std::fs;
use std::path::Path;

use crate::support::{run, run_with_input};

#[test]
fn the_reports_of_the_programs_followed() {
    let folder = tempfile::tempdir().unwrap();
    // "I-LOC" after "O" is a span to conlleval and none to strict IOB2.
    let gold = "U.N.\tB-ORG\nofficial\tO\nEkeus\tB-PER\nin\tO\nBaghdad\tB-LOC\n\n";
    let predicted = gold.replace("B-LOC", "I-LOC").replace("Ekeus\tB-PER", "Ekeus\tB-ORG");
    fs::write(folder.path().join("gold.bio"), gold).unwrap();
    fs::write(folder.path().join("predicted.bio"), predicted).unwrap();
    let conlleval = "\
processed 5 tokens with 3 phrases; found: 3 phrases; correct: 2.
accuracy:  60.00%; precision:  66.67%; recall:  66.67%; FB1:  66.67
              LOC: precision: 100.00%; recall: 100.00%; FB1: 100.00  1
              ORG: precision:  50.00%; recall: 100.00%; FB1:  66.67  2
              PER: precision:   0.00%; recall:   0.00%; FB1:   0.00  0
";
    let line = "score spans {}/gold.bio {}/predicted.bio";
    assert_eq!(run(folder.path(), line).ok(), conlleval);
    let strict = run(folder.path(), &format!("{line} --mode strict")).ok();
    let micro = strict.lines().find(|line| line.contains("micro avg")).unwrap();
    let micro: Vec<&str> = micro.split_whitespace().collect();
    assert_eq!(micro, ["micro", "avg", "0.5000", "0.3333", "0.4000", "3"]);
    let json = run(folder.path(), &format!("{line} --json")).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["type"], "span-scores");
    assert_eq!(json["data"]["spans"]["correct"], 2);

    let tags = run(folder.path(), "score tags {}/gold.bio {}/predicted.bio").ok();
    let all: Vec<&str> = tags.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(all, ["all", "5", "3", "60.00"]);
}

#[test]
fn files_that_do_not_match_are_refused_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("gold.bio", "a\tB-X\nb\tO\n\nc\tO\n"),
        ("word.bio", "a\tB-X\nB\tO\n\nc\tO\n"),
        ("short.bio", "a\tB-X\n\nc\tO\n"),
        ("few.bio", "a\tB-X\nb\tO\n"),
        ("tag.bio", "a\tB-X\nb\tQ-X\n\nc\tO\n"),
        ("columns.bio", "a\tB-X\nb\n\nc\tO\n"),
        ("pos.bio", "a\tDET\nb\tNOUN\n\nc\tVERB\n"),
        ("plain.txt", "a b\n"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    for (gold, predicted, messages) in [
        (
            "gold.bio",
            "word.bio",
            &["word.bio, sentence 1", "word \"B\" where the gold file has \"b\""][..],
        ),
        ("gold.bio", "short.bio", &["short.bio, sentence 1", "1 words, the gold file has 2"]),
        ("gold.bio", "few.bio", &["few.bio", "1 sentences, the gold file has 2"]),
        ("gold.bio", "tag.bio", &["predicted sequence 1", "token 2: `Q-X` is not a span tag"]),
        ("gold.bio", "columns.bio", &["columns.bio, line 2", "1 columns, expected 2"]),
        ("gold.bio", "none.bio", &["none.bio: no such file"]),
        (
            "pos.bio",
            "pos.bio",
            &["pos.bio: the labels name no spans", "hint: spans are labels such as"],
        ),
        ("plain.txt", "plain.txt", &["plain.txt: no labels in this format"]),
    ] {
        let err = run(folder.path(), &format!("score spans {{}}/{gold} {{}}/{predicted}")).fails();
        for message in messages {
            assert!(err.contains(message), "{gold} {predicted}: {err}");
        }
    }
}

/// A folder with references, two systems, and the second references.
fn translations(folder: &Path) {
    for (name, text) in [
        (
            "ref.en",
            "The dog bit the man.\nIt was not unexpected.\nThe man bit him first.\nWe paid 3.50, twice!\n",
        ),
        (
            "ref2.en",
            "The dog had bit the man.\nNo one was surprised.\nThe man had bitten the dog.\nTwice we paid 3.50.\n",
        ),
        ("old.en", "The dog bit the man.\nIt wasn't surprising.\nThe man had just bitten him.\n\n"),
        (
            "new.en",
            "the dog bit the man\nIt was not surprising.\nThe man had bitten him first.\ntwice we paid 3.50!\n",
        ),
        ("short.en", "The dog bit the man.\nIt wasn't surprising.\n"),
        ("blank.en", "\n \n\t\n\n"),
        ("empty.en", ""),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    fs::write(folder.join("bytes.en"), b"The dog\nbit\xff the man\n\n\n").unwrap();
}

/// Texts from sacreBLEU 2.6.0, but for the version.
#[test]
fn translations_get_the_lines_of_sacrebleu() {
    let folder = tempfile::tempdir().unwrap();
    translations(folder.path());
    let version = concat!("|version:regard-", env!("CARGO_PKG_VERSION"), "\n");
    for (line, expected, signature) in [
        (
            "bleu ref.en --hyp {}/new.en",
            "BLEU = 30.97 77.3/50.0/28.6/10.0 (BP = 0.956 ratio = 0.957 hyp_len = 22 ref_len = 23)",
            "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp",
        ),
        (
            "bleu ref.en ref2.en --lowercase --hyp {}/new.en",
            "BLEU = 63.16 95.5/77.8/64.3/40.0 (BP = 0.956 ratio = 0.957 hyp_len = 22 ref_len = 23)",
            "nrefs:2|case:lc|eff:no|tok:13a|smooth:exp",
        ),
        (
            "bleu ref.en --tokenize intl --smooth add-k --smooth-value 2 --hyp {}/new.en",
            "BLEU = 40.91 71.4/52.6/40.0/27.3 (BP = 0.909 ratio = 0.913 hyp_len = 21 ref_len = 23)",
            "nrefs:1|case:mixed|eff:no|tok:intl|smooth:add-k[2.00]",
        ),
        (
            "bleu ref.en --tokenize none --smooth floor --hyp {}/new.en",
            "BLEU = 15.66 57.9/40.0/18.2/1.4 (BP = 1.000 ratio = 1.056 hyp_len = 19 ref_len = 18)",
            "nrefs:1|case:mixed|eff:no|tok:none|smooth:floor[0.10]",
        ),
        (
            "chrf ref.en --hyp {}/new.en",
            "chrF2 = 60.69",
            "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no",
        ),
        (
            "chrf ref.en ref2.en --word-order 2 --whitespace --hyp {}/new.en",
            "chrF2++ = 70.77",
            "nrefs:2|case:mixed|eff:yes|nc:6|nw:2|space:yes",
        ),
        (
            "chrf ref.en --char-order 3 --beta 1 --lowercase --hyp {}/new.en",
            "chrF1 = 74.14",
            "nrefs:1|case:lc|eff:yes|nc:3|nw:0|space:no",
        ),
        (
            "ter ref.en --hyp {}/new.en",
            "TER = 38.89",
            "nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no",
        ),
        (
            "ter ref.en ref2.en --normalized --no-punct --case-sensitive --hyp {}/new.en",
            "TER = 26.32",
            "nrefs:2|case:mixed|tok:tercom|norm:yes|punct:no|asian:no",
        ),
    ] {
        let printed =
            run(folder.path(), &format!("score {line}").replace(" ref", " --ref {}/ref")).ok();
        assert_eq!(printed, format!("{expected}\n{signature}{version}"), "{line}");
    }
}

#[test]
fn each_sentence_and_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    translations(folder.path());
    let line = "score bleu --ref {}/ref.en --hyp {}/new.en --sentence";
    let done = run(folder.path(), line);
    assert!(done.err.starts_with("nrefs:1|case:mixed|eff:yes|tok:13a|"), "{done:?}");
    let printed = done.ok();
    assert_eq!(
        printed,
        "\
BLEU = 54.75 80.0/75.0/66.7/50.0 (BP = 0.819 ratio = 0.833 hyp_len = 5 ref_len = 6)
BLEU = 42.73 80.0/50.0/33.3/25.0 (BP = 1.000 ratio = 1.000 hyp_len = 5 ref_len = 5)
BLEU = 30.74 71.4/50.0/20.0/12.5 (BP = 1.000 ratio = 1.167 hyp_len = 7 ref_len = 6)
BLEU = 20.80 80.0/25.0/16.7/12.5 (BP = 0.819 ratio = 0.833 hyp_len = 5 ref_len = 6)
"
    );
    let input = fs::read(folder.path().join("new.en")).unwrap();
    let line = "score bleu --ref {}/ref.en --hyp - --sentence";
    assert_eq!(run_with_input(folder.path(), line, &input).ok(), printed);

    let json =
        run(folder.path(), "score bleu --ref {}/ref.en --hyp {}/new.en --sentence --json").ok();
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(
        (&lines[1]["type"], &lines[1]["data"]["line"]),
        (&"bleu-sentence".into(), &2.into())
    );
    assert_eq!(lines[3]["data"]["scores"]["hypothesis_len"], 5);

    let json = run(folder.path(), "score ter --ref {}/ref.en --hyp {}/blank.en --json").ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["type"], "ter-score");
    assert_eq!(json["data"]["scores"]["score"], 100.0);
    assert_eq!(json["data"]["metric"]["higher_is_better"], false);
}

#[test]
fn systems_are_compared_and_the_seed_decides() {
    let folder = tempfile::tempdir().unwrap();
    translations(folder.path());
    let line = "score chrf --ref {}/ref.en --hyp {}/old.en --hyp {}/new.en --hyp {}/ref2.en --paired-bootstrap";
    let text = run(folder.path(), line).ok();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["system", "chrF2", "mean", "±", "95", "%", "p"]);
    assert_eq!((rows[2][0], rows[2][5]), ("baseline:", "-"));
    for (row, file) in [(2, "old.en"), (3, "new.en"), (4, "ref2.en")] {
        let alone =
            run(folder.path(), &format!("score chrf --ref {{}}/ref.en --hyp {{}}/{file}")).ok();
        let score = alone.lines().next().unwrap().strip_prefix("chrF2 = ").unwrap();
        assert_eq!(rows[row][usize::from(row == 2) + 1], score, "{text}");
    }
    assert!(
        rows[5][0].starts_with("nrefs:1|bs:1000|seed:12345|case:mixed|eff:yes|nc:6|"),
        "{text}"
    );
    assert_eq!(run(folder.path(), line).ok(), text);
    assert_ne!(run(folder.path(), &format!("{line} --seed 7")).ok(), text);

    let json = run(folder.path(), &format!("{line} --resamples 200 --json")).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["type"], "paired-bootstrap");
    assert_eq!(json["data"]["systems"][0]["p_value"], serde_json::Value::Null);
    // A multiple of 1/201.
    let p = json["data"]["systems"][1]["p_value"].as_f64().unwrap() * 201.0;
    assert!((p - p.round()).abs() < 1e-9 && (1.0..=201.0).contains(&p.round()), "{json}");
}

#[test]
fn translations_that_cannot_be_scored() {
    let folder = tempfile::tempdir().unwrap();
    translations(folder.path());
    for (line, messages) in [
        (
            "bleu --ref {}/ref.en --hyp {}/short.en",
            &["short.en: 2 lines, but ", "ref.en has 4"][..],
        ),
        ("chrf --ref {}/ref.en --ref {}/short.en --hyp {}/new.en", &["short.en: 2 lines, but "]),
        ("ter --ref {}/ref.en --hyp {}/empty.en", &["empty.en: the file is empty"]),
        ("ter --ref {}/empty.en --hyp {}/new.en", &["empty.en: the file is empty"]),
        ("bleu --ref {}/blank.en --hyp {}/new.en", &["blank.en: no sentence among 4 lines"]),
        ("bleu --ref {}/ref.en --hyp {}/bytes.en", &["bytes.en, line 2: not UTF-8"]),
        ("bleu --ref {}/none.en --hyp {}/new.en", &["none.en: no such file"]),
        (
            "bleu --ref {}/ref.en --hyp {}/new.en --tokenize moses",
            &["invalid value 'moses' for '--tokenize <NAME>'", "13a, intl, zh, char, none"],
        ),
        ("bleu --ref {}/ref.en --hyp {}/new.en --smooth log", &["exp, floor, add-k, none"]),
        (
            "bleu --ref {}/ref.en --hyp {}/new.en --smooth-value 1",
            &["--smooth-value 1 with --smooth exp", "only floor and add-k have one"],
        ),
        (
            "bleu --ref {}/ref.en --hyp {}/new.en --smooth floor --smooth-value 0",
            &["smoothing value must be above 0, got 0"],
        ),
        (
            "chrf --ref {}/ref.en --hyp {}/new.en --char-order 0",
            &["character order must be in 1..=16, got 0"],
        ),
        ("bleu --ref {}/ref.en", &["--hyp <FILE>"]),
        ("ter --hyp {}/new.en", &["--ref <FILE>"]),
        ("ter --ref {}/ref.en --hyp {}/new.en --paired-bootstrap", &["there is one --hyp"]),
        (
            "ter --ref {}/ref.en --hyp {}/new.en --hyp {}/old.en",
            &["2 times --hyp", "hint: --paired-bootstrap"],
        ),
        (
            "ter --ref {}/ref.en --hyp {}/new.en --hyp {}/old.en --paired-bootstrap --sentence",
            &["cannot be used with"],
        ),
        ("ter --ref {}/ref.en --hyp {}/new.en --seed 3", &["--paired-bootstrap"]),
        (
            "ter --ref {}/ref.en --hyp {}/new.en --hyp {}/old.en --paired-bootstrap --resamples 0",
            &["--resamples"],
        ),
    ] {
        let err = run(folder.path(), &format!("score {line}")).fails();
        for message in messages {
            assert!(err.contains(message), "{line}: {err}");
        }
    }
    let too_many = format!("score ter --hyp {{}}/new.en{}", " --ref {}/ref.en".repeat(17));
    let err = run(folder.path(), &too_many).fails();
    assert!(err.contains("17 references, expected 1 to 16"), "{err}");
}

#[test]
fn tokenised_translations_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("hyp"), "a b c d .\n".repeat(100)).unwrap();
    let done = run(folder.path(), "score bleu --ref {}/hyp --hyp {}/hyp");
    assert!(done.err.contains("100 lines end in a full stop after a blank"), "{done:?}");
    assert!(done.ok().starts_with("BLEU = 100.00 "));
    let done = run(folder.path(), "score bleu --ref {}/hyp --hyp {}/hyp --tokenize none");
    assert_eq!(done.err, "");
}

#[test]
fn the_metrics_of_translations_explain_themselves() {
    for metric in ["bleu", "chrf", "ter"] {
        let help = run(Path::new("."), &format!("score {metric} --help")).ok();
        assert!(help.contains("Examples:\n") && help.contains("--paired-bootstrap"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}
