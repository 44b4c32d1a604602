//! `--help`, `--version`, wrong usage, completions, default settings.

use std::path::Path;

use crate::support::{TINY, data, run};

const HERE: &str = ".";

fn regard(line: &str) -> crate::support::Done {
    run(Path::new(HERE), line)
}

#[test]
fn every_command_explains_itself_with_examples() {
    for command in [
        "",
        "train tag",
        "train translate",
        "evaluate",
        "predict",
        "look",
        "score tags",
        "score spans",
        "mechanisms",
        "bench attention",
        "bench train",
        "bench predict",
        "demo",
        "config tag",
        "config translate",
        "completions",
    ] {
        let help = regard(&format!("{command} --help"));
        assert_eq!(help.err, "");
        let help = help.ok();
        assert!(help.contains("Usage: regard"), "{command}: {help}");
        assert!(help.contains("Examples:\n"), "{command}: {help}");
        assert!(help.contains(&format!("regard {command}")), "{command}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{command}: {help}");
        assert!(!help.contains('\u{1b}'), "{command}: colour in spite of NO_COLOR");
        let short = regard(&format!("{command} -h")).ok();
        assert!(short.contains("Usage: regard"), "{command}: {short}");
        assert!(short.len() <= help.len(), "{command}");
    }
    let help = regard("--help").ok();
    assert!(help.contains("Exit codes:") && help.contains("130"), "{help}");
}

#[test]
fn an_option_that_changes_another_says_so() {
    let help = regard("predict --help").ok();
    assert!(help.contains("Where N is above --beam, the search follows N translations"), "{help}");
    assert!(help.contains("Fewest tokens of a translation, 1000 at most"), "{help}");
}

#[test]
fn version_is_a_result() {
    let version = regard("--version").ok();
    assert_eq!(version, format!("regard {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_usage_is_code_2_and_says_what_would_be_right() {
    for (line, words) in [
        ("", "Usage: regard"),
        ("trian", "train"),
        ("train", "Usage: regard train"),
        ("train tag --out x --modle fc", "--model"),
        ("train tag --out x --model bilstn", "bilstm"),
        ("train tag --out x --seed=-1", "--seed"),
        ("train tag --out x --resume --epochs 3", "--epochs"),
        ("evaluate", "Usage: regard evaluate"),
        ("evaluate x y --min-accuracy 95", "a fraction from 0 to 1 is needed; 95 % is 0.95"),
        ("evaluate x y --min-f1 nan", "a fraction from 0 to 1"),
        ("look x", "--text <WORDS>"),
        ("look x --text a --file b", "cannot be used with"),
        ("look x --file b --sentence 0", "--sentence"),
        ("predict x --chunk-words 0", "--chunk-words"),
        ("score spans a b --mode lenient", "conlleval, strict"),
        ("mechanisms --threads 0", "--threads"),
        ("completions tcsh", "bash"),
        ("config tag --model rnn", "possible values: fc, window"),
    ] {
        let err = regard(line).fails();
        assert!(err.contains(words), "{line}: {err}");
    }
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = regard(&format!("completions {shell}")).ok();
        assert!(script.contains("mechanisms"), "{shell}");
        assert!(script.contains("--resume") || script.contains("resume"), "{shell}");
    }
}

#[test]
fn default_settings_can_be_given_back() {
    let folder = data();
    let settings = regard("config tag --model window").ok();
    assert!(settings.contains("# Neighbours seen on each side.\ncontext = 2\n"), "{settings}");
    assert!(!settings.contains("heads"), "{settings}");
    let file = folder.path().join("settings.toml");
    std::fs::write(&file, settings.replace("context = 2", "context = 1")).unwrap();
    let line = format!(
        "train tag --config {{}}/settings.toml --train {{}}/train.conllu --epochs 1 --out {{}}/run {TINY}"
    );
    run(folder.path(), &line).ok();
    let used = std::fs::read_to_string(folder.path().join("run/config.toml")).unwrap();
    assert!(used.contains("context = 1\n") && used.contains("kind = \"window\"\n"), "{used}");
}
