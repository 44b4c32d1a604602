//! `regard look`: heat map, page, and the files for other programs tell the same numbers.

use std::fs;

use regard::report::AttentionReport;

use crate::support::{data, regard, run, train, words};

#[test]
fn page_json_csv_and_npz_agree() {
    let folder = data();
    for kind in ["transformer", "self-attention"] {
        train(folder.path(), kind, 6, kind);
        let line = format!(
            "look {{}}/{kind} --out {{}}/look.html --svg {{}}/a.svg --csv {{}}/a.csv --npz {{}}/a.npz --json {{}}/a.json --text"
        );
        let mut arguments = words(folder.path(), &line);
        arguments.push("the saw cut the old tree .".into());
        let output = regard(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{err}");
        assert!(text.contains("layer 0, head 0") && text.contains("\n1 saw"), "{text}");
        assert!(err.contains("wrote ") && err.contains("look.html"), "{err}");

        let json = fs::read_to_string(folder.path().join("a.json")).unwrap();
        let report: AttentionReport = serde_json::from_str(&json).unwrap();
        assert_eq!(report.tokens, ["the", "saw", "cut", "the", "old", "tree", "."]);
        report.validate().unwrap();
        // Scores, weights and contexts follow from q, k and v by the formulas, up to the rounding
        // of numbers of their size.
        let numbers = report.heads().flat_map(|(_, _, head)| &head.scores.data);
        let size = numbers.fold(1.0, |size: f32, x| size.max(x.abs()));
        let differences = report.recompute().unwrap();
        assert!(differences.largest() < 1e-6 * f64::from(size), "{differences:?}");

        let page = fs::read_to_string(folder.path().join("look.html")).unwrap();
        let (_, data) = page.split_once("id=\"data\"").unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        let (_, data) = data.split_once('>').unwrap();
        let shown: Vec<AttentionReport> = serde_json::from_str(data).unwrap();
        assert_eq!(shown, std::slice::from_ref(&report));

        let csv = fs::read_to_string(folder.path().join("a.csv")).unwrap();
        let heads = report.model.n_layers * report.model.n_heads;
        assert_eq!(csv.lines().count(), 1 + heads * 7 * 7);
        assert!(fs::read(folder.path().join("a.npz")).unwrap().starts_with(b"PK"));
        assert!(fs::read_to_string(folder.path().join("a.svg")).unwrap().contains("<svg"));
    }
}

#[test]
fn a_sentence_of_a_file_comes_with_its_labels() {
    let folder = data();
    train(folder.path(), "transformer", 1, "run");
    let line =
        "look {}/run --file {}/dev.conllu --sentence 15 --out {}/p.html --json {}/a.json --head 1";
    let out = run(folder.path(), line).ok();
    assert!(out.contains("layer 0, head 1"), "{out}");
    let json = fs::read_to_string(folder.path().join("a.json")).unwrap();
    let report: AttentionReport = serde_json::from_str(&json).unwrap();
    let gold = report.gold.unwrap();
    assert_eq!(gold.len(), report.tokens.len());
    assert_eq!((gold[0].as_str(), report.tokens[0].as_str()), ("DET", "the"));

    let err = run(folder.path(), "look {}/run --file {}/dev.conllu --sentence 16").fails();
    assert!(err.contains("there is no sentence 16") && err.contains("the file has 15"), "{err}");
}

#[test]
fn what_cannot_be_shown_is_refused_before_anything_is_written() {
    let folder = data();
    train(folder.path(), "transformer", 1, "run");
    train(folder.path(), "fc", 1, "fc");
    let long = "the ".repeat(301);
    fs::write(folder.path().join("long.txt"), format!("{long}\n")).unwrap();
    for (line, message) in [
        ("look {}/fc --text the", "model `fc` has no attention to look at; train one with --model"),
        ("look {}/run --text the --head 2", "there is no layer 0 with a head 2"),
        ("look {}/run --text the --csv {}/none/a.csv", "cannot write"),
        ("look {}/run --text the --svg {}/run", "cannot write"),
        ("look {}/run --text the --layer 1", "the model has 1 layers of 2 heads"),
        ("look {}/run --file {}/long.txt", "301 words; look shows 300 at most"),
    ] {
        let done = run(folder.path(), &format!("{line} --out {{}}/no.html"));
        let err = done.fails();
        assert!(err.contains(message), "{line}: {err}");
        assert!(!folder.path().join("no.html").exists());
    }
    let mut arguments = words(folder.path(), "look {}/run --out {}/no.html --text");
    arguments.push(" ".into());
    let output = regard(arguments).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err.contains("there is no word to look at"), "{err}");
}

#[test]
fn two_outputs_do_not_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let line = "look nowhere --out {}/same --svg {}/same --text word";
    let output = regard(words(folder.path(), line)).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("--out and --svg both name"), "{err}");
    assert_eq!((output.status.code(), folder.path().join("same").exists()), (Some(2), false));
}
