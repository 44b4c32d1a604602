//! `regard demo`: whole, where the arithmetic is optimised.

use std::fs;

use crate::support::run;

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
