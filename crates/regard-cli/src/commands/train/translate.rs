//! `regard train translate`.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use regard::report::RunSummary;
use regard::tasks::translate::{ModelKind, TrainRequest, TranslateConfig, resume, train};

use super::{layers, nothing_to_train_on, utf8};
use crate::args::{at_least, minutes, named_file};
use crate::progress::Progress;
use crate::signals::{STOP, stop_on_signal};
use crate::text::shell_word;

/// Train a translator: from lines of one language to lines of another
///
/// Parallel text is two files that stand line by line, or one table with two of its columns. Text
/// is taken as it is: the tool learns its own subwords, and gives plain text back.
///
/// After every epoch the development lines are translated greedily, some are shown, and the best
/// weights so far are kept. The run folder then holds model.safetensors, the resolved config.toml,
/// the tokens (tokenizer.json for subwords, tokens.tsv for words and characters; one file for each
/// language where they share none), metrics.jsonl and curve.svg. Ctrl-C saves and says how to go on;
/// a run that was killed goes on with --resume from its last checkpoint, and ends with the same
/// weights as one left alone (unless --minutes ends it).
///
/// Settings: the model's defaults < --config FILE < the flags below < --set key=value.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` shows more, with examples.",
    after_long_help = "\
Examples:
  The defaults, with development files to choose the best weights by:
    regard train translate --train train.de train.en --dev val.de val.en --out runs/de-en

  Additive attention for 20 minutes, on lower-cased text:
    regard train translate --model bahdanau --lowercase --minutes 20 \\
        --train train.de.gz train.en.gz --dev val.de.gz val.en.gz --out runs/bahdanau

  Local attention around a predicted centre:
    regard train translate --model luong --set model.scope=local-p --set model.score=general \\
        --train train.de train.en --dev val.de val.en --out runs/local-p

  A table with tabs, Chinese in its second column, in characters:
    regard train translate --train cmn.txt --columns source=1,target=0 --tokens char --out runs/cmn

  All settings of a model, to be changed and given back with --config:
    regard config translate --model transformer > settings.toml

  Go on with a run that was stopped:
    regard train translate --resume --out runs/de-en

With --json, standard output has one JSON object a line: {\"type\": …, \"data\": …} with type begin,
step, eval, sample, note or summary; BLEU is in per cent, the loss in nats a token."
)]
pub(super) struct TranslateArgs {
    /// Which model [default: transformer]
    ///
    /// seq2seq: recurrent, without attention. cho2014: one fixed context at every step. bahdanau:
    /// additive attention. luong: dot, general, concat or location score, global or local.
    /// transformer: attention alone.
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(ModelKind::ALL.map(ModelKind::name)), hide_default_value = true)]
    model: Option<String>,

    /// Source and target file to train on, or one table of tabs; plain or .gz
    #[arg(long, value_name = "FILE", num_args = 1..=2, value_parser = named_file())]
    train: Vec<PathBuf>,

    /// The same to choose the best weights by; without them the last epoch's are kept
    #[arg(long, value_name = "FILE", num_args = 1..=2, value_parser = named_file())]
    dev: Vec<PathBuf>,

    /// Columns of a table: source=N,target=N counted from 0, or names in its first line
    #[arg(long, value_name = "COLUMNS")]
    columns: Option<String>,

    /// What text is cut into: bpe, unigram (subwords), word or char [default: bpe]
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(["bpe", "unigram", "word", "char"]), hide_possible_values = true)]
    tokens: Option<String>,

    /// Lower-case text, in both languages; scores say so
    #[arg(long)]
    lowercase: bool,

    /// Run folder to make, or with --resume to go on with
    #[arg(long, value_name = "RUN")]
    pub(super) out: PathBuf,

    /// TOML file of settings; the config.toml of another run will do
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    config: Option<PathBuf>,

    /// One setting, such as model.dropout=0.2 or train.lr=0.001; may be given many times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Seed of first weights, order of the data and dropout
    #[arg(long, value_name = "N", value_parser = at_least::<u64>(0))]
    seed: Option<u64>,

    /// Passes over the training pairs, at most
    #[arg(long, value_name = "N", value_parser = at_least::<u64>(1))]
    epochs: Option<u64>,

    /// Minutes of training, at most; the last weights are then scored like those of an epoch
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    minutes: Option<f64>,

    /// Go on with the run in --out; settings and files are those that it began with
    #[arg(long, conflicts_with_all = ["model", "train", "dev", "columns", "tokens", "lowercase", "config", "set", "seed", "epochs", "minutes"])]
    pub(super) resume: bool,

    /// Print JSON lines instead of text
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(args: &TranslateArgs, progress: &mut Progress) -> Result<RunSummary> {
    let config = if args.resume { None } else { Some(settings(args)?) };
    stop_on_signal();
    Ok(match config {
        None => resume(&args.out, &STOP, progress)?,
        Some(config) => train(&TrainRequest { config, out: &args.out, stop: &STOP }, progress)?,
    })
}

/// What to do with the run now.
pub(super) fn next(args: &TranslateArgs, summary: &RunSummary) -> String {
    let run = shell_word(&args.out);
    let mut text = format!(
        "the run is in {run}; curve.svg shows how it went. Next:\n  \
         regard evaluate {run} TEST_SOURCE TEST_TARGET\n  \
         regard predict {run} FILE -o TRANSLATED_FILE"
    );
    if ModelKind::parse(&summary.model).is_some_and(ModelKind::has_attention) {
        text += &format!("\n  regard look {run} --source 'some words'");
    }
    text
}

/// The settings that file and flags stand for.
fn settings(args: &TranslateArgs) -> Result<TranslateConfig> {
    let layers = layers(args.config.as_deref(), &flags(args)?, &args.set)?;
    let config = TranslateConfig::resolve(None, &layers)?;
    if config.data.train.is_empty() {
        return Err(nothing_to_train_on("--train SOURCE TARGET").into());
    }
    Ok(config)
}

/// The flags as TOML.
fn flags(args: &TranslateArgs) -> Result<String> {
    let mut toml = String::new();
    for (key, value) in [
        ("model.kind", &args.model),
        ("data.columns", &args.columns),
        ("data.tokens", &args.tokens),
    ] {
        if let Some(value) = value {
            // A JSON string is a TOML string, and a list of them a list.
            writeln!(toml, "{key} = {}", serde_json::to_string(value)?)?;
        }
    }
    for (key, files) in [("data.train", &args.train), ("data.dev", &args.dev)] {
        if !files.is_empty() {
            let files = files.iter().map(|file| utf8(file)).collect::<Result<Vec<_>>>()?;
            writeln!(toml, "{key} = {}", serde_json::to_string(&files)?)?;
        }
    }
    if args.lowercase {
        writeln!(toml, "data.lowercase = true")?;
    }
    for (key, number) in [("train.seed", args.seed), ("train.epochs", args.epochs)] {
        if let Some(number) = number {
            writeln!(toml, "{key} = {number}")?;
        }
    }
    if let Some(minutes) = args.minutes {
        writeln!(toml, "train.minutes = {minutes:?}")?;
    }
    Ok(toml)
}
