//! Training: what is printed, which settings win, what the run folder holds, same seed same bits.

use std::fs;

use regard::report::{MetricsRecord, RunSummary, StopReason};

use crate::support::{TINY, arrays, data, metrics_without_times, run, train, widths};

#[test]
fn the_run_folder_holds_what_the_other_commands_need() {
    let folder = data();
    let line = format!(
        "train tag --model window --train {{}}/train.conllu --dev {{}}/dev.conllu --out {{}}/a/b/run \
         --epochs 12 {TINY} {}",
        widths("window")
    );
    let done = run(folder.path(), &line);
    assert_eq!(done.code, Some(0), "{done:?}");
    // Results on standard output, progress in plain lines on standard error.
    assert!(done.out.starts_with("window: finished after "), "{}", done.out);
    assert!(done.out.contains("\n  accuracy ") && done.out.contains(" %\n"), "{}", done.out);
    assert_eq!(done.err.matches("dev accuracy").count(), 12, "{}", done.err);
    assert!(done.err.contains("(best so far)"), "{}", done.err);
    assert!(done.err.contains("regard evaluate ") && !done.err.contains("regard look"));
    assert!(!done.err.contains('\u{1b}') && !done.err.contains('\r'), "{}", done.err);

    let run_folder = folder.path().join("a/b/run");
    let mut names: Vec<String> = fs::read_dir(&run_folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = [
        "chars.tsv",
        "config.toml",
        "curve.svg",
        "labels.tsv",
        "last.safetensors",
        "metrics.jsonl",
        "model.safetensors",
        "seen.tsv",
        "words.tsv",
    ];
    assert_eq!(names, expected);
    let config = fs::read_to_string(run_folder.join("config.toml")).unwrap();
    for part in ["seed = 1\n", "train_sha256 = \"", "dev_sha256 = \"", "version = \""] {
        assert!(config.contains(part), "{config}");
    }
    assert!(fs::read_to_string(run_folder.join("curve.svg")).unwrap().contains("<svg"));
}

#[test]
fn json_lines_are_the_whole_of_standard_output() {
    let folder = data();
    let line = format!(
        "train tag --model fc --train {{}}/train.conllu --dev {{}}/dev.conllu --out {{}}/run --epochs 8 --json \
         {TINY} {}",
        widths("fc")
    );
    let done = run(folder.path(), &line);
    assert_eq!(done.err, "");
    let out = done.ok();
    let mut kinds = Vec::new();
    for line in out.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let kind = event["type"].as_str().unwrap().to_string();
        if ["step", "eval"].contains(&kind.as_str()) {
            serde_json::from_str::<MetricsRecord>(line).unwrap();
        }
        kinds.push(kind);
    }
    assert_eq!(kinds.first().map(String::as_str), Some("begin"));
    assert_eq!(kinds.iter().filter(|kind| *kind == "eval").count(), 8);
    assert!(kinds.iter().any(|kind| kind == "step"), "{kinds:?}");
    assert_eq!(kinds.last().map(String::as_str), Some("summary"));
    let last: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let summary: RunSummary = serde_json::from_value(last["data"].clone()).unwrap();
    assert_eq!(summary.stop, StopReason::Finished);
    assert_eq!((summary.epochs, summary.model.as_str()), (8, "fc"));
}

#[test]
fn defaults_then_file_then_flags_then_set() {
    let folder = data();
    let settings =
        "[model]\nkind = \"bilstm\"\nhidden = 4\n[train]\nseed = 5\nepochs = 3\nclip = 2\n";
    fs::write(folder.path().join("settings.toml"), settings).unwrap();
    let line = format!(
        "train tag --config {{}}/settings.toml --epochs 2 --seed 6 --train {{}}/train.conllu --out {{}}/run {TINY} \
         --set train.seed=7"
    );
    run(folder.path(), &line).ok();
    let config = fs::read_to_string(folder.path().join("run/config.toml")).unwrap();
    for part in [
        "kind = \"bilstm\"",
        "hidden = 4\n",
        "seed = 7\n",
        "epochs = 2\n",
        "clip = 2.0\n",
        "beta1 = 0.9\n",
    ] {
        assert!(config.contains(part), "{part} in {config}");
    }

    // A run's own settings make the same run again.
    let line = "train tag --config {}/run/config.toml --out {}/again";
    run(folder.path(), line).ok();
    let again = folder.path().join("again/model.safetensors");
    assert_eq!(arrays(&again), arrays(&folder.path().join("run/model.safetensors")));
}

#[test]
fn same_seed_same_bits_for_any_number_of_threads() {
    let folder = data();
    let sets = "--set model.word_dim=32 --set model.char_dim=8 --set model.char_hidden=16 --set train.batch_tokens=200";
    let train = |model: &str, name: &str, flags: &str| {
        let line = format!(
            "train tag --model {model} --train {{}}/train.conllu --dev {{}}/dev.conllu --out {{}}/{name} \
             --epochs 2 {sets} {flags}"
        );
        run(folder.path(), &line).ok();
        folder.path().join(name)
    };
    for (model, width) in [
        ("bilstm", "--set model.hidden=32"),
        ("transformer", "--set model.d_model=32 --set model.ff=64 --set model.heads=2"),
    ] {
        let one = train(model, &format!("{model}-1"), &format!("{width} --threads 1"));
        let two = train(model, &format!("{model}-2"), &format!("{width} --threads 2"));
        let three = train(model, &format!("{model}-3"), &format!("{width} --threads 3"));
        let other = train(model, &format!("{model}-s"), &format!("{width} --seed 2"));
        for file in ["model.safetensors", "last.safetensors"] {
            let expected = arrays(&one.join(file));
            assert_eq!(arrays(&two.join(file)), expected, "{model} {file}");
            assert_eq!(arrays(&three.join(file)), expected, "{model} {file}");
            assert_ne!(arrays(&other.join(file)), expected, "{model} {file}");
        }
        assert_eq!(metrics_without_times(&two), metrics_without_times(&one));
    }
}

#[test]
fn patience_stops_early_and_the_best_weights_stay() {
    let folder = data();
    let line = format!(
        "train tag --model fc --train {{}}/train.conllu --dev {{}}/dev.conllu --out {{}}/run --epochs 60 \
         --set train.patience=3 --json {TINY} {}",
        widths("fc")
    );
    let out = run(folder.path(), &line).ok();
    let last: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let summary: RunSummary = serde_json::from_value(last["data"].clone()).unwrap();
    assert_eq!(summary.stop, StopReason::EarlyStop);
    assert!(summary.epochs < 60, "{summary:?}");
    let out = run(folder.path(), "evaluate {}/run {}/dev.conllu --json").ok();
    let scores: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(scores["data"]["figures"]["accuracy"].as_f64(), Some(summary.best_value));
}

#[test]
fn a_folder_that_holds_a_run_is_left_alone() {
    let folder = data();
    let run_folder = train(folder.path(), "fc", 1, "run");
    let before = fs::read(run_folder.join("model.safetensors")).unwrap();
    let line = "train tag --model fc --train {}/train.conllu --out {}/run";
    let err = run(folder.path(), line).fails();
    assert!(err.contains("already holds a run; go on with it by --resume"), "{err}");
    assert_eq!(fs::read(run_folder.join("model.safetensors")).unwrap(), before);

    fs::create_dir(folder.path().join("letters")).unwrap();
    fs::write(folder.path().join("letters/love.txt"), "x").unwrap();
    let line = "train tag --model fc --train {}/train.conllu --out {}/letters";
    let err = run(folder.path(), line).fails();
    assert!(err.contains("is not empty and holds no run"), "{err}");

    let line = "train tag --model fc --train {}/train.conllu --out {}/train.conllu";
    let err = run(folder.path(), line).fails();
    assert!(err.contains("train.conllu"), "{err}");
}

#[test]
fn without_a_development_file_the_last_weights_are_kept() {
    let folder = data();
    let line = format!(
        "train tag --model fc --train {{}}/train.conllu --out {{}}/run --epochs 2 {TINY} {}",
        widths("fc")
    );
    let out = run(folder.path(), &line).ok();
    assert!(out.contains("no score on a development file"), "{out}");
    run(folder.path(), "evaluate {}/run {}/dev.conllu").ok();
}
