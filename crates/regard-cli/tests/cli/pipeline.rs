//! Train, evaluate, predict, score: the numbers agree, the user's columns stay, pipes work.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use crate::support::{TINY, data, regard, run, run_with_input, train, widths, words};

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn every_model_learns_and_its_predictions_score_as_it_does() {
    let folder = data();
    for kind in ["fc", "window", "cnn", "lstm", "bilstm", "self-attention", "transformer"] {
        train(folder.path(), kind, 12, kind);
        let line = format!("evaluate {{}}/{kind} {{}}/dev.conllu --json");
        let scores = json(&run(folder.path(), &line).ok());
        assert_eq!(scores["type"], "evaluation");
        let accuracy = scores["data"]["figures"]["accuracy"].as_f64().unwrap();
        // More than a third of the words can be read alone; context is worth more.
        assert!(accuracy > 0.8, "{kind}: {accuracy}");

        let line = format!("predict {{}}/{kind} {{}}/dev.conllu -o {{}}/{kind}.conllu");
        let done = run(folder.path(), &line);
        assert!(done.err.contains("15 sentences"), "{done:?}");
        assert_eq!(done.ok(), "");
        let line = format!(
            "score tags {{}}/dev.conllu {{}}/{kind}.conllu --train {{}}/train.conllu --json"
        );
        let again = json(&run(folder.path(), &line).ok());
        for part in ["accuracy", "unseen", "ambiguous", "labels"] {
            assert_eq!(
                again["data"][part], scores["data"]["scores"]["tags"][part],
                "{kind} {part}"
            );
        }
    }
    // Who sees the neighbours tells a saw from to saw.
    let ambiguous = |kind: &str| {
        let line = format!("evaluate {{}}/{kind} {{}}/dev.conllu --json");
        json(&run(folder.path(), &line).ok())["data"]["figures"]["accuracy_ambiguous"]
            .as_f64()
            .unwrap()
    };
    assert!(ambiguous("window") > ambiguous("fc") + 0.1);
}

#[test]
fn bars_decide_the_exit_code() {
    let folder = data();
    train(folder.path(), "fc", 2, "run");
    let evaluate =
        |flags: &str| run(folder.path(), &format!("evaluate {{}}/run {{}}/dev.conllu {flags}"));
    let table = evaluate("--min-accuracy 0").ok();
    assert!(table.starts_with("words "), "{table}");
    let missed = evaluate("--min-accuracy 1.0");
    assert_eq!(missed.code, Some(1));
    assert_eq!(missed.out, table);
    assert!(missed.err.contains("below --min-accuracy 1"), "{}", missed.err);
    let err = evaluate("--min-f1 0.5").fails();
    assert!(err.contains("the labels name no spans") && err.contains("hint: "), "{err}");
    assert!(evaluate("--labels").ok().contains("\nNOUN "));
}

#[test]
fn spans_are_scored_in_both_modes() {
    let folder = data();
    let line = format!(
        "train tag --model window --crf --train {{}}/train.bio --dev {{}}/dev.bio --out {{}}/run --epochs 15 {TINY} {}",
        widths("window")
    );
    let out = run(folder.path(), &line).ok();
    assert!(out.contains("span F1 (conlleval)") && out.contains("span F1 (strict)"), "{out}");
    let evaluate =
        |flags: &str| run(folder.path(), &format!("evaluate {{}}/run {{}}/dev.bio {flags}"));
    let table = evaluate("").ok();
    assert!(table.contains("\nconlleval ") && table.contains("\nstrict "), "{table}");
    let report = evaluate("--conll").ok();
    assert!(report.starts_with("processed ") && report.contains("FB1:"), "{report}");
    assert_eq!(evaluate("--min-f1 0.5").code, Some(0));
    // The same report from the file of predictions.
    run(folder.path(), "predict {}/run {}/dev.bio -o {}/out.bio").ok();
    assert_eq!(run(folder.path(), "score spans {}/dev.bio {}/out.bio").ok(), report);
    let line = "score spans {}/dev.bio {}/out.bio --mode strict";
    let strict = run(folder.path(), line).ok();
    assert!(strict.contains("micro avg") && strict.contains("f1-score"), "{strict}");
}

#[test]
fn a_pipe_keeps_comments_and_other_columns() {
    let folder = data();
    train(folder.path(), "window", 12, "run");
    let input = "# newdoc\n1-2\tcut's\t_\t_\t_\t_\t_\t_\t_\t_\n1\tThe\ta\t_\tX\tY=z\t7\tr\td\tm m\n\
                 2\tcut\tb\t_\tX\t_\t0\tr\t_\t_\n\n\n# the end\n";
    let done = run_with_input(folder.path(), "predict {}/run", input.as_bytes());
    assert_eq!(done.err, "");
    let expected = input.replace("The\ta\t_", "The\ta\tDET").replace("cut\tb\t_", "cut\tb\tNOUN");
    assert_eq!(done.ok(), expected);
    let line = "predict {}/run - -o - --format conllu";
    assert_eq!(run_with_input(folder.path(), line, input.as_bytes()).ok(), expected);

    let text =
        run_with_input(folder.path(), "predict {}/run --format text", b"the cut\r\nthe dog").ok();
    assert_eq!(text, "the\tDET\r\ncut\tNOUN\r\n\r\nthe\tDET\ndog\tNOUN\n\n");

    fs::write(folder.path().join("words.tsv"), "1\tthe\n2\tcut\n").unwrap();
    let line = "predict {}/run {}/words.tsv --column token=1,label=none";
    assert_eq!(run(folder.path(), line).ok(), "1\tthe\tDET\n2\tcut\tNOUN\n");
}

#[test]
fn the_trained_column_is_filled_wherever_the_format_is_the_same() {
    let folder = data();
    let line = format!(
        "train tag --model fc --train {{}}/train.conllu --column lemma --out {{}}/run --epochs 2 {TINY} {}",
        widths("fc")
    );
    run(folder.path(), &line).ok();
    let input = "1\tthe\t_\tX\t_\t_\t0\t_\t_\t_\n";
    for flags in ["", "--format conllu", "--column lemma", "--format auto"] {
        let line = format!("predict {{}}/run {flags}");
        let out = run_with_input(folder.path(), &line, input.as_bytes()).ok();
        let columns: Vec<&str> = out.split('\t').collect();
        assert_ne!(columns[2], "_", "{flags}: {out}");
        assert_eq!(columns[3], "X", "{flags}: {out}");
    }
}

#[test]
fn a_file_may_be_labelled_in_its_own_place() {
    let folder = data();
    train(folder.path(), "window", 2, "run");
    let path = folder.path().join("dev.conllu");
    let unlabelled = fs::read_to_string(&path).unwrap().replace("\tNOUN\t", "\t_\t");
    fs::write(&path, &unlabelled).unwrap();
    let line = "predict {}/run {}/dev.conllu";
    let expected = run(folder.path(), line).ok();
    run(folder.path(), &format!("{line} --output {{}}/dev.conllu --chunk-words 7")).ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    assert_ne!(expected, unlabelled);
}

#[test]
fn a_failing_prediction_leaves_the_old_file() {
    let folder = data();
    train(folder.path(), "fc", 1, "run");
    fs::write(folder.path().join("out.conllu"), "old").unwrap();
    let mut broken = fs::read_to_string(folder.path().join("dev.conllu")).unwrap();
    broken += "1\tonly two\n";
    fs::write(folder.path().join("broken.conllu"), broken).unwrap();
    let line = "predict {}/run {}/broken.conllu -o {}/out.conllu --chunk-words 1";
    let err = run(folder.path(), line).fails();
    assert!(
        err.contains("out.conllu is not written") && err.contains("broken.conllu, line"),
        "{err}"
    );
    assert_eq!(fs::read_to_string(folder.path().join("out.conllu")).unwrap(), "old");
    let leftovers = fs::read_dir(folder.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp"));
    assert_eq!(leftovers.count(), 0);

    let err = run(folder.path(), "predict {}/run {}/dev.conllu -o {}/out.conllu.gz").fails();
    assert!(err.contains("not compressed") && err.contains("hint: "), "{err}");
    let err = run(folder.path(), "predict {}/run {}/dev.conllu -o {}/none/out.conllu").fails();
    assert!(err.contains("none/out.conllu") && err.contains("No such file"), "{err}");
}

#[test]
fn an_answer_comes_after_each_sentence_where_asked() {
    let folder = data();
    train(folder.path(), "fc", 1, "run");
    let mut child = regard(words(folder.path(), "predict {}/run --format text --chunk-words 1"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for word in ["the", "dog"] {
        writeln!(stdin, "{word}").unwrap();
        let mut answer = String::new();
        stdout.read_line(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("{word}\t")), "{answer}");
        stdout.read_line(&mut answer).unwrap();
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let folder = data();
    train(folder.path(), "fc", 1, "run");
    let many = fs::read_to_string(folder.path().join("dev.conllu")).unwrap().repeat(200);
    fs::write(folder.path().join("many.conllu"), many).unwrap();
    for line in ["predict {}/run {}/many.conllu", "mechanisms", "completions bash"] {
        let mut child = regard(words(folder.path(), line))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The reader goes away after a byte, or before the first one.
        let mut stdout = child.stdout.take().unwrap();
        if line.starts_with("predict") {
            stdout.read_exact(&mut [0]).unwrap();
        }
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{line}");
    }
}
