//! A full disk: a clear error, no half file, and nothing saved is lost.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::process::Command;

use crate::support::{Done, TINY, arrays, data, regard, run, train, widths, words};

const FULL: &str = "No space left on device";

#[test]
fn results_that_cannot_be_written() {
    let folder = data();
    train(folder.path(), "transformer", 1, "run");
    for line in [
        "predict {}/run {}/dev.conllu",
        "evaluate {}/run {}/dev.conllu",
        "look {}/run --text the --out {}/x.html",
        "mechanisms",
        "mechanisms --json",
        "config tag",
        "completions bash",
        "score tags {}/dev.conllu {}/dev.conllu",
    ] {
        let output = regard(words(folder.path(), line))
            .stdout(File::options().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {err}");
        assert!(err.contains(FULL) && err.contains("hint: the disk is full"), "{line}: {err}");
    }
    for flags in
        ["--out /dev/full", "--out {}/x.html --svg /dev/full", "--out {}/x.html --npz /dev/full"]
    {
        let done = run(folder.path(), &format!("look {{}}/run --text the {flags}"));
        assert_eq!(done.code, Some(2));
        assert!(done.err.contains("cannot write /dev/full") && done.err.contains(FULL), "{done:?}");
    }
    let err = run(folder.path(), "predict {}/run {}/dev.conllu -o /dev/full").fails();
    assert!(err.contains("/dev/full") && err.contains(FULL), "{err}");
}

#[test]
fn a_training_that_runs_out_of_room_goes_on_when_there_is_some() {
    let folder = data();
    let line = |run_name: &str| {
        let line = format!(
            "train tag --model fc --train {{}}/train.conllu --dev {{}}/dev.conllu --out {{}}/{run_name} --epochs 200 \
             {TINY} {}",
            widths("fc")
        );
        words(folder.path(), &line)
    };
    // A limit on the size of a file stands for the disk: the log outgrows it after some epochs.
    let output = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 32; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_regard"),
        ])
        .args(line("small"))
        .output()
        .unwrap();
    let done = Done::from(output);
    assert!(done.err.contains("epoch 3,"), "{done:?}");
    let err = done.fails();
    assert!(err.contains("error: cannot write") && err.contains("File too large"), "{err}");
    assert!(err.contains("hint: "), "{err}");
    let small = folder.path().join("small");
    arrays(&small.join("model.safetensors"));
    arrays(&small.join("last.safetensors"));
    run(folder.path(), "evaluate {}/small {}/dev.conllu").ok();

    run(folder.path(), "train tag --resume --out {}/small").ok();
    Done::from(regard(line("roomy")).output().unwrap()).ok();
    let roomy = folder.path().join("roomy");
    for file in ["model.safetensors", "last.safetensors"] {
        assert_eq!(arrays(&small.join(file)), arrays(&roomy.join(file)), "{file}");
    }
    assert!(fs::metadata(small.join("metrics.jsonl")).unwrap().len() > 32 * 512);
}
