//! A small corpus, small models, and the binary.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use regard::nn::checkpoint::Archive;
use tempfile::TempDir;

/// What a finished command left.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    pub(crate) fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Standard output of a command that must have succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// Standard error of a command that must have failed with code 2 and printed nothing else.
    #[track_caller]
    pub(crate) fn fails(self) -> String {
        assert_eq!(self.code, Some(2), "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self.err
    }
}

/// The binary, with an environment that does not depend on where the tests run.
pub(crate) fn regard<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
    command.args(args).env("COLUMNS", "100").env("NO_COLOR", "1").stdin(Stdio::null());
    command.env_remove("REGARD_TEST_ABORT_WRITE");
    command
}

/// Runs the binary; arguments are the words of `line`, with `{}` for the folder.
#[track_caller]
pub(crate) fn run(folder: &Path, line: &str) -> Done {
    Done::from(regard(words(folder, line)).output().unwrap())
}

/// As [`run`], with `input` on standard input.
#[track_caller]
pub(crate) fn run_with_input(folder: &Path, line: &str, input: &[u8]) -> Done {
    let mut command = regard(words(folder, line));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // From another thread, since the command may answer before it has read everything, and may
        // refuse before it has read anything.
        scope.spawn(move || {
            let _ = stdin.write_all(input);
        });
        Done::from(child.wait_with_output().unwrap())
    })
}

/// As [`run`], with a file of the folder on standard input, as by `< FILE`.
#[track_caller]
pub(crate) fn run_from_file(folder: &Path, line: &str, file: &str) -> Done {
    let input = fs::File::open(folder.join(file)).unwrap();
    Done::from(regard(words(folder, line)).stdin(input).output().unwrap())
}

pub(crate) fn words(folder: &Path, line: &str) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    line.split_whitespace().map(|word| word.replace("{}", folder)).collect()
}

/// Sentences of words and labels. *saw* and *cut* are nouns after *the*, verbs elsewhere.
pub(crate) fn corpus(n: usize, seed: u64) -> Vec<Vec<(&'static str, &'static str)>> {
    let mut state = seed;
    let mut pick = |words: &[&'static str]| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        words[(state >> 33) as usize % words.len()]
    };
    let mut noun_phrase = || {
        let mut words = vec![("the", "DET")];
        if pick(&["", "x"]) == "x" {
            words.push((pick(&["old", "red", "big"]), "ADJ"));
        }
        words.push((pick(&["dog", "cat", "saw", "cut", "tree"]), "NOUN"));
        words
    };
    let mut sentences = Vec::new();
    for i in 0..n {
        let mut words = noun_phrase();
        words.push((["saw", "cut", "sees"][i % 3], "VERB"));
        words.extend(noun_phrase());
        words.push((".", "PUNCT"));
        sentences.push(words);
    }
    sentences
}

/// The corpus as CoNLL-U, with comments and ten columns.
pub(crate) fn conllu(sentences: &[Vec<(&str, &str)>]) -> String {
    let mut text = String::new();
    for (s, sentence) in sentences.iter().enumerate() {
        writeln!(text, "# sent_id = {s}").unwrap();
        for (i, (word, label)) in sentence.iter().enumerate() {
            writeln!(text, "{}\t{word}\t{word}\t{label}\t_\t_\t0\t_\t_\tn={s}", i + 1).unwrap();
        }
        text.push('\n');
    }
    text
}

/// The corpus as word, number and a BIO label: noun phrases are spans.
pub(crate) fn bio(sentences: &[Vec<(&str, &str)>]) -> String {
    let mut text = String::new();
    for sentence in sentences {
        for (i, (word, label)) in sentence.iter().enumerate() {
            let label = match *label {
                "DET" => "B-NP",
                "ADJ" | "NOUN" => "I-NP",
                _ => "O",
            };
            writeln!(text, "{word}\t{i}\t{label}").unwrap();
        }
        text.push('\n');
    }
    text
}

/// A folder with `train.conllu`, `dev.conllu`, `train.bio` and `dev.bio`.
pub(crate) fn data() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, sentences) in [("train", corpus(40, 1)), ("dev", corpus(15, 2))] {
        fs::write(folder.path().join(format!("{name}.conllu")), conllu(&sentences)).unwrap();
        fs::write(folder.path().join(format!("{name}.bio")), bio(&sentences)).unwrap();
    }
    folder
}

/// Settings that make a model small and quick to learn.
pub(crate) const TINY: &str = "--set model.word_dim=8 --set model.chars=none --set model.layers=1 \
    --set train.batch_tokens=60 --set train.lr=0.03 --set train.warmup=2 --set model.dropout=0 \
    --set model.input_dropout=0";

/// The width of each kind's layers, which not all kinds have.
pub(crate) fn widths(kind: &str) -> &'static str {
    match kind {
        "transformer" => {
            "--set model.d_model=8 --set model.heads=2 --set model.ff=8 --set model.attention_dropout=0"
        }
        "self-attention" => "--set model.d_model=8",
        _ => "--set model.hidden=8",
    }
}

/// Trains a small model of `kind` on the CoNLL-U files of `folder` into `run`.
#[track_caller]
pub(crate) fn train(folder: &Path, kind: &str, epochs: u32, run_name: &str) -> PathBuf {
    let line = format!(
        "train tag --model {kind} --train {{}}/train.conllu --dev {{}}/dev.conllu --out {{}}/{run_name} \
         --epochs {epochs} {TINY} {}",
        widths(kind)
    );
    run(folder, &line).ok();
    folder.join(run_name)
}

/// The arrays of a safetensors file, bit by bit.
#[track_caller]
pub(crate) fn arrays(path: &Path) -> Vec<(String, Vec<usize>, Vec<u32>)> {
    let archive = Archive::<f32>::read(path).unwrap_or_else(|e| panic!("{e}"));
    let bits = |data: &[f32]| data.iter().map(|x| x.to_bits()).collect();
    archive.arrays.iter().map(|(name, a)| (name.clone(), a.shape.clone(), bits(&a.data))).collect()
}

/// The text with each run's own numbers (seconds, rates) taken out of `metrics.jsonl`.
pub(crate) fn metrics_without_times(run: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let lines = text.lines().map(|line| {
        let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
        let data = value["data"].as_object_mut().unwrap();
        data.remove("elapsed_s");
        data.remove("tokens_per_s");
        value
    });
    lines.collect()
}
