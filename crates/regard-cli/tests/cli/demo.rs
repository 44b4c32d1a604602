//! `regard demo`: whole, where the arithmetic is optimised.

use std::fs;

use crate::support::run;
use crate::translate_support::{parallel, train_translator};

#[test]
fn a_result_that_cannot_be_written_is_told_before_the_work() {
    let folder = tempfile::tempdir().unwrap();
    for line in [
        "demo --out {}/none/demo.html",
        "demo --out {}",
        "demo reversal --out {}/none/reversal.svg",
        "demo reversal --out {}",
    ] {
        let err = run(folder.path(), line).fails();
        assert!(err.starts_with("error: cannot write "), "{line}: {err}");
        assert!(!err.contains("training") && !err.contains("step"), "{line}: {err}");
    }
    let parallel = parallel();
    train_translator(parallel.path(), "bahdanau", 1, "run", "");
    for line in [
        "predict {}/run {}/dev.de --alignments {}/none/x",
        "predict {}/run {}/dev.de --output {}",
        "predict {}/run {}/dev.de --given {}/dev.en --output {}",
        "evaluate {}/run {}/dev.de {}/dev.en --output {}/none/x",
    ] {
        // Nothing was printed before.
        let err = run(parallel.path(), line).fails();
        assert!(err.starts_with("error: cannot write "), "{line}: {err}");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn the_demo_needs_no_file_and_shows_what_context_is_worth() {
    let folder = tempfile::tempdir().unwrap();
    let done = run(folder.path(), "demo --out {}/demo.html");
    assert!(done.err.contains("training self-attention"), "{}", done.err);
    let out = done.ok();
    for model in ["fc", "window", "bilstm", "self-attention"] {
        assert!(out.lines().any(|line| line.starts_with(model)), "{out}");
    }
    assert!(out.contains("layer 0, head 0"), "{out}");
    let page = fs::read_to_string(folder.path().join("demo.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("self-attention"));
}
