//! A small parallel corpus and small translators.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::run;

/// Sentences and their translations, word for word: `der rote Hund sieht die Katze .`
pub(crate) fn pairs(n: usize, seed: u64) -> Vec<(String, String)> {
    let mut state = seed;
    let mut pick = |words: &[(&'static str, &'static str)]| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        words[(state >> 33) as usize % words.len()]
    };
    let mut side = || {
        let mut words = vec![pick(&[("der", "the"), ("ein", "a")])];
        let adjective = pick(&[("", ""), ("rote", "red"), ("alte", "old"), ("große", "big")]);
        if !adjective.0.is_empty() {
            words.push(adjective);
        }
        words.push(pick(&[("Hund", "dog"), ("Mann", "man"), ("Baum", "tree"), ("Ball", "ball")]));
        words
    };
    let mut pairs = Vec::new();
    for i in 0..n {
        let mut words = side();
        words.push([("sieht", "sees"), ("hat", "has"), ("sucht", "seeks")][i % 3]);
        words.extend(side());
        let text = |of: fn(&(&'static str, &'static str)) -> &'static str| {
            words.iter().map(of).collect::<Vec<_>>().join(" ") + "."
        };
        pairs.push((text(|w| w.0), text(|w| w.1)));
    }
    pairs
}

/// A folder with `train.de`, `train.en`, `dev.de` and `dev.en`.
pub(crate) fn parallel() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, pairs) in [("train", pairs(60, 1)), ("dev", pairs(12, 2))] {
        let write = |ending: &str, lines: Vec<&str>| {
            let path = folder.path().join(format!("{name}.{ending}"));
            fs::write(path, lines.join("\n") + "\n").unwrap();
        };
        write("de", pairs.iter().map(|pair| pair.0.as_str()).collect());
        write("en", pairs.iter().map(|pair| pair.1.as_str()).collect());
    }
    folder
}

/// Settings that make a model small and quick to learn.
pub(crate) const SMALL: &str = "--tokens word --set data.min_count=1 --set train.batch_tokens=120 \
    --set train.lr=0.02 --set train.warmup=5 --set model.dropout=0 --set train.smoothing=0 \
    --set train.average=0 --set train.schedule=cosine";

/// The width of each kind's layers, which not all kinds have.
pub(crate) fn sizes(kind: &str) -> &'static str {
    match kind {
        "transformer" => {
            "--set model.d_model=16 --set model.heads=2 --set model.ff=16 --set model.encoder_layers=1 \
             --set model.decoder_layers=1 --set model.attention_dropout=0"
        }
        "bahdanau" => {
            "--set model.embedding=16 --set model.hidden=16 --set model.attention=16 --set model.readout=16"
        }
        "cho2014" => "--set model.embedding=16 --set model.hidden=16 --set model.readout=16",
        _ => "--set model.embedding=16 --set model.hidden=16",
    }
}

/// Trains a small model of `kind` on the files of `folder` into `run`.
#[track_caller]
pub(crate) fn train_translator(
    folder: &Path,
    kind: &str,
    epochs: u32,
    name: &str,
    more: &str,
) -> PathBuf {
    let line = format!(
        "train translate --model {kind} --train {{}}/train.de {{}}/train.en --dev {{}}/dev.de {{}}/dev.en \
         --out {{}}/{name} --epochs {epochs} {SMALL} {} {more}",
        sizes(kind)
    );
    run(folder, &line).ok();
    folder.join(name)
}
