//! `cargo xtask tables NAME`: the tables of the README, from training to Markdown.
//!
//! Every row is runs of the `regard` binary, which anyone can repeat by hand: the command is printed
//! before each. A run whose folder already holds a result is not trained again, so a table can be
//! made in several sittings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::workspace;

/// One row of a table: a name, seeds, and what it sets beside the table's own settings.
struct Row {
    name: &'static str,
    seeds: u64,
    sets: &'static [&'static str],
}

const fn row(name: &'static str, seeds: u64, sets: &'static [&'static str]) -> Row {
    Row { name, seeds, sets }
}

/// A table: its data and its rows.
struct Table {
    name: &'static str,
    /// What `regard train` is told: `tag` or `translate`.
    task: &'static str,
    train: &'static [&'static str],
    dev: &'static [&'static str],
    test: &'static [&'static str],
    sets: &'static [&'static str],
    /// Columns: a heading, the figure it shows, and what makes that per cent.
    figures: &'static [(&'static str, &'static str, f64)],
    rows: &'static [Row],
}

const TABLES: [Table; 5] = [
    Table {
        name: "ewt",
        task: "tag",
        train: &["ud-english-ewt/en_ewt-ud-train.conllu.gz"],
        dev: &["ud-english-ewt/en_ewt-ud-dev.conllu.gz"],
        test: &["ud-english-ewt/en_ewt-ud-test.conllu.gz"],
        sets: &[],
        figures: &[
            ("accuracy", "accuracy", 100.0),
            ("unseen words", "accuracy_unseen", 100.0),
            ("ambiguous words", "accuracy_ambiguous", 100.0),
        ],
        rows: &[
            row("window", 3, &["model.kind=window"]),
            row("bilstm", 3, &["model.kind=bilstm"]),
            row("transformer", 3, &["model.kind=transformer", "model.position=sinusoidal"]),
            row("fc", 1, &["model.kind=fc"]),
            row("cnn", 1, &["model.kind=cnn"]),
            row("lstm", 1, &["model.kind=lstm"]),
            row("self-attention dot", 1, &["model.kind=self-attention", "model.score=dot"]),
            row(
                "self-attention additive",
                1,
                &["model.kind=self-attention", "model.score=additive"],
            ),
            // The variants of the transformer, half as long.
            row("transformer short", 1, &[TRANSFORMER, SINUSOIDAL, SHORT]),
            row("transformer short 1 head", 1, &[TRANSFORMER, SINUSOIDAL, SHORT, "model.heads=1"]),
            row("transformer short 8 heads", 1, &[TRANSFORMER, SINUSOIDAL, SHORT, "model.heads=8"]),
            row("transformer short no position", 1, &[TRANSFORMER, SHORT, "model.position=none"]),
            row("transformer short learned", 1, &[TRANSFORMER, SHORT, "model.position=learned"]),
            row("transformer short rotary", 1, &[TRANSFORMER, SHORT, "model.position=rotary"]),
            row(
                "transformer short truncated ±2",
                1,
                &[TRANSFORMER, SINUSOIDAL, SHORT, "model.window_left=2", "model.window_right=2"],
            ),
            row(
                "transformer short truncated ±8",
                1,
                &[TRANSFORMER, SINUSOIDAL, SHORT, "model.window_left=8", "model.window_right=8"],
            ),
        ],
    },
    Table {
        name: "btc",
        task: "tag",
        train: &["btc-train.conll"],
        dev: &["btc-dev.conll"],
        test: &["ner-broad-twitter/f.conll"],
        sets: &["data.format=columns"],
        figures: &[
            ("span F1 (conlleval)", "span_f1", 100.0),
            ("span F1 (strict)", "span_f1_strict", 100.0),
            ("accuracy", "accuracy", 100.0),
        ],
        rows: &[
            row("bilstm + CRF", 1, &["model.kind=bilstm", "model.output=crf", SHORT]),
            row("transformer + CRF", 1, &[TRANSFORMER, "model.output=crf", SHORT]),
        ],
    },
    Table {
        name: "multi30k",
        task: "translate",
        train: &["multi30k-de-en/train.de.gz", "multi30k-de-en/train.en.gz"],
        dev: &["multi30k-de-en/val.de.gz", "multi30k-de-en/val.en.gz"],
        test: &["multi30k-de-en/test_2016_flickr.de.gz", "multi30k-de-en/test_2016_flickr.en.gz"],
        sets: &[],
        figures: BLEU_CHRF,
        rows: &[
            row("transformer", 3, &[TRANSFORMER, EIGHT, COSINE]),
            row("bahdanau", 3, &["model.kind=bahdanau", FIVE]),
            row("seq2seq", 1, &["model.kind=seq2seq", THREE]),
            row("cho2014", 1, &["model.kind=cho2014", THREE]),
            row("luong general", 1, &[LUONG, THREE]),
            row("luong dot", 1, &[LUONG, THREE, "model.score=dot"]),
            row("luong concat", 1, &[LUONG, THREE, "model.score=concat"]),
            row("luong location", 1, &[LUONG, THREE, "model.score=location"]),
            row("luong local-m", 1, &[LUONG, THREE, "model.scope=local-m"]),
            row("luong local-p", 1, &[LUONG, THREE, "model.scope=local-p"]),
            row("luong no feeding", 1, &[LUONG, THREE, "model.input_feeding=false"]),
        ],
    },
    Table {
        name: "multi30k-en-de",
        task: "translate",
        train: &["multi30k-de-en/train.en.gz", "multi30k-de-en/train.de.gz"],
        dev: &["multi30k-de-en/val.en.gz", "multi30k-de-en/val.de.gz"],
        test: &["multi30k-de-en/test_2016_flickr.en.gz", "multi30k-de-en/test_2016_flickr.de.gz"],
        sets: &[],
        figures: BLEU_CHRF,
        rows: &[row("transformer", 1, &[TRANSFORMER, FIVE, COSINE])],
    },
    Table {
        name: "tatoeba",
        task: "translate",
        train: &["tatoeba-train.tsv"],
        dev: &["tatoeba-dev.tsv"],
        test: &["tatoeba-test.tsv"],
        sets: &["data.columns=source=1,target=0"],
        figures: BLEU_CHRF,
        rows: &[row("transformer", 1, &[TRANSFORMER, FIVE, COSINE])],
    },
];

const BLEU_CHRF: &[(&str, &str, f64)] = &[("BLEU", "bleu", 1.0), ("chrF", "chrf", 1.0)];
const LUONG: &str = "model.kind=luong";
const COSINE: &str = "train.schedule=cosine";
const THREE: &str = "train.epochs=3";
const FIVE: &str = "train.epochs=5";
const EIGHT: &str = "train.epochs=8";

const TRANSFORMER: &str = "model.kind=transformer";
const SINUSOIDAL: &str = "model.position=sinusoidal";
const SHORT: &str = "train.epochs=6";

/// What one run came to.
struct Result1 {
    figures: Vec<f64>,
    minutes: f64,
    parameters: u64,
}

/// Makes the table `name` with `jobs` runs at a time of `threads` threads each.
pub(crate) fn run(name: &str, jobs: usize, threads: usize) -> Result<()> {
    let Some(table) = TABLES.iter().find(|table| table.name == name) else {
        let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        bail!("there is no table {name:?}; one of {}", names.join(", "));
    };
    ensure!(jobs > 0 && threads > 0, "--jobs and --threads are at least 1");
    let root = workspace::root();
    let data =
        std::env::var_os("REGARD_DATA").map_or_else(|| root.join("../shared/data"), PathBuf::from);
    ensure!(
        data.is_dir(),
        "no data at {}; set REGARD_DATA to a folder that holds {}",
        data.display(),
        table.train.join(", ")
    );
    let folder = root.join("runs").join(name);
    fs::create_dir_all(&folder)?;
    match name {
        "btc" => split_broad_twitter(&data, &folder)?,
        "tatoeba" => split_tatoeba(&data, &folder)?,
        _ => {}
    }
    let built = Command::new("cargo").args(["build", "--release"]).current_dir(&root).status()?;
    ensure!(built.success(), "the binary does not build");
    let binary = root.join("target/release/regard");

    let all: Vec<(usize, u64)> = table
        .rows
        .iter()
        .enumerate()
        .flat_map(|(r, row)| (1..=row.seeds).map(move |seed| (r, seed)))
        .collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            loop {
                let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some((r, seed)) = all.get(i) else { return Ok(()) };
                train(&binary, table, &table.rows[*r], *seed, &data, &folder, threads)?;
            }
        };
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|w| w.join().expect("a worker does not panic"))
    })?;
    print(table, &binary, &data, &folder, threads)
}

/// Where the files of a table lie: in the data, or made by this chore.
fn places(files: &[&str], data: &Path, folder: &Path) -> Vec<PathBuf> {
    let place = |file: &&str| if file.contains('/') { data.join(file) } else { folder.join(file) };
    files.iter().map(place).collect()
}

fn run_folder(folder: &Path, row: &Row, seed: u64) -> PathBuf {
    let name = row.name.replace([' ', '+', '±'], "-");
    folder.join(format!("{name}-seed{seed}"))
}

fn train(
    binary: &Path,
    table: &Table,
    row: &Row,
    seed: u64,
    data: &Path,
    folder: &Path,
    threads: usize,
) -> Result<()> {
    let out = run_folder(folder, row, seed);
    let summary = out.with_extension("summary.json");
    if summary.is_file() {
        return Ok(());
    }
    let mut command = Command::new(binary);
    command.args(["train", table.task, "--json", "--threads", &threads.to_string()]);
    command.arg("--out").arg(&out);
    if out.join("config.toml").is_file() {
        command.arg("--resume");
    } else {
        command.arg("--train").args(places(table.train, data, folder));
        command.arg("--dev").args(places(table.dev, data, folder));
        command.args(["--seed", &seed.to_string()]);
        for set in table.sets.iter().chain(row.sets) {
            command.args(["--set", set]);
        }
    }
    println!("{command:?}");
    let output = command.output()?;
    ensure!(
        output.status.success(),
        "{}: {}",
        row.name,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let text = String::from_utf8(output.stdout)?;
    let last = text.lines().last().context("the run printed nothing")?;
    fs::write(summary, last)?;
    Ok(())
}

fn result(
    binary: &Path,
    table: &Table,
    row: &Row,
    seed: u64,
    data: &Path,
    folder: &Path,
) -> Result<Result1> {
    let out = run_folder(folder, row, seed);
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(out.with_extension("summary.json"))?)?;
    let output = Command::new(binary)
        .arg("evaluate")
        .arg(&out)
        .args(places(table.test, data, folder))
        .arg("--json")
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    let scores: Value = serde_json::from_slice(&output.stdout)?;
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    Ok(Result1 {
        figures: table
            .figures
            .iter()
            .map(|(_, key, factor)| factor * number(&scores["data"]["figures"][key]))
            .collect(),
        minutes: number(&summary["data"]["elapsed_s"]) / 60.0,
        parameters: summary["data"]["n_parameters"].as_u64().unwrap_or(0),
    })
}

/// Mean and sample standard deviation.
fn spread(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 })
}

fn print(table: &Table, binary: &Path, data: &Path, folder: &Path, threads: usize) -> Result<()> {
    let headings: Vec<&str> = table.figures.iter().map(|(heading, ..)| *heading).collect();
    println!("\n| model | seeds | {} | minutes | parameters |", headings.join(" | "));
    println!("|---|---|{}---|---|", "---|".repeat(headings.len()));
    for row in table.rows {
        let results = (1..=row.seeds)
            .map(|seed| result(binary, table, row, seed, data, folder))
            .collect::<Result<Vec<_>>>()?;
        let mut cells = vec![row.name.to_string(), row.seeds.to_string()];
        for f in 0..headings.len() {
            let values: Vec<f64> = results.iter().map(|r| r.figures[f]).collect();
            let (mean, sd) = spread(&values);
            cells.push(if row.seeds > 1 {
                format!("{mean:.2} ± {sd:.2}")
            } else {
                format!("{mean:.2}")
            });
        }
        let minutes: Vec<f64> = results.iter().map(|r| r.minutes).collect();
        cells.push(format!("{:.1}", spread(&minutes).0));
        cells.push(format!("{:.2} M", results[0].parameters as f64 / 1e6));
        println!("| {} |", cells.join(" | "));
    }
    println!("\nTest: {}; {threads} thread(s) a run.", table.test.join(", "));
    Ok(())
}

/// The split that the Broad Twitter Corpus' authors recommend: test F; development the second half of
/// H; training all else.
fn split_broad_twitter(data: &Path, folder: &Path) -> Result<()> {
    let read = |section: &str| {
        let path = data.join("ner-broad-twitter").join(format!("{section}.conll"));
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    let h = read("h")?;
    // A tweet ends at a line that is blank but for white space.
    let mut tweets: Vec<String> = vec![String::new()];
    for line in h.lines() {
        if line.trim().is_empty() {
            if tweets.last().is_some_and(|t| !t.is_empty()) {
                tweets.push(String::new());
            }
        } else if let Some(tweet) = tweets.last_mut() {
            tweet.push_str(line);
            tweet.push('\n');
        }
    }
    tweets.retain(|tweet| !tweet.is_empty());
    let (first, second) = tweets.split_at(tweets.len() / 2);
    let mut train = String::new();
    for section in ["a", "b", "e", "g"] {
        train.push_str(read(section)?.trim_end());
        train.push_str("\n\n");
    }
    train.push_str(&first.join("\n"));
    fs::write(folder.join("btc-train.conll"), train)?;
    fs::write(folder.join("btc-dev.conll"), second.join("\n"))?;
    Ok(())
}

/// Tatoeba's pairs without an official split: by a hash of the English side, so that no sentence stands in two
/// parts; a twentieth each for test and development.
fn split_tatoeba(data: &Path, folder: &Path) -> Result<()> {
    let path = data.join("tatoeba-cmn-eng/cmn.txt.gz");
    let file = fs::File::open(&path).with_context(|| path.display().to_string())?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text)?;
    let mut parts = [String::new(), String::new(), String::new()];
    for line in text.lines() {
        let english = line.split('\t').next().unwrap_or_default();
        // FNV-1a, 64 bits.
        let hash = english.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let part = &mut parts[((hash >> 32) % 20).min(2) as usize];
        part.push_str(line);
        part.push('\n');
    }
    for (name, part) in ["test", "dev", "train"].iter().zip(parts) {
        fs::write(folder.join(format!("tatoeba-{name}.tsv")), part)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_mean_and_sample_deviation() {
        assert_eq!(spread(&[1.0, 2.0, 3.0]), (2.0, 1.0));
        assert_eq!(spread(&[4.0]), (4.0, 0.0));
    }

    #[test]
    fn rows_have_folders_of_their_own() {
        for table in &TABLES {
            let mut folders: Vec<PathBuf> =
                table.rows.iter().map(|row| run_folder(Path::new(""), row, 1)).collect();
            folders.sort();
            folders.dedup();
            assert_eq!(folders.len(), table.rows.len());
        }
    }
}
