//! `regard train tag`.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use regard::report::RunSummary;
use regard::tasks::tag::{ModelKind, TagConfig, TrainRequest, resume, train};

use super::{layers, nothing_to_train_on, utf8};
use crate::args::{FormatArgs, at_least, named_file};
use crate::progress::Progress;
use crate::signals::{STOP, stop_on_signal};
use crate::text::shell_word;

/// Train a tagger: one label for every word of a sentence
///
/// Parts of speech, morphological features, names as BIO spans: whatever stands beside each word of
/// a file in one of its columns.
///
/// After every epoch the development file is scored and the best weights so far are kept. The run
/// folder then holds model.safetensors, the resolved config.toml, the vocabularies, metrics.jsonl and
/// curve.svg. Ctrl-C saves and says how to go on; a run that was killed goes on with --resume
/// from its last checkpoint, and ends with the same weights as one left alone.
///
/// Settings: the model's defaults < --config FILE < the flags below < --set key=value.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` shows more, with examples.",
    after_long_help = "\
Examples:
  The defaults, with a development file to choose the best weights by:
    regard train tag --train train.conllu --dev dev.conllu --out runs/upos

  Names in a column file (word first, BIO label last), as the best chain of labels:
    regard train tag --model bilstm --crf --train ner.bio --dev dev.bio --out runs/ner

  A feature of CoNLL-U, with two heads and rotary position:
    regard train tag --train train.conllu.gz --column feats:Number --out runs/number \\
        --set model.heads=2 --set model.position=rotary

  All settings of a model, to be changed and given back with --config:
    regard config tag --model transformer > settings.toml

  Go on with a run that was stopped:
    regard train tag --resume --out runs/upos

With --json, standard output has one JSON object a line: {\"type\": …, \"data\": …} with type begin,
step, eval, note or summary; rates are fractions from 0 to 1."
)]
pub(super) struct TagArgs {
    /// Which model [default: transformer]
    ///
    /// fc: each word alone. window: a fully connected layer over each word and its neighbours.
    /// cnn: convolutions. lstm: from left to right. bilstm: in both directions. self-attention:
    /// one head. transformer: the encoder with several heads.
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(ModelKind::ALL.map(ModelKind::name)), hide_default_value = true)]
    model: Option<String>,

    /// File to train on
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    train: Option<PathBuf>,

    /// File to choose the best weights by; without one the last epoch's are kept
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    dev: Option<PathBuf>,

    /// Run folder to make, or with --resume to go on with
    #[arg(long, value_name = "RUN")]
    pub(super) out: PathBuf,

    /// TOML file of settings; the config.toml of another run will do
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    config: Option<PathBuf>,

    /// One setting, such as model.layers=2 or train.lr=0.001; may be given many times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    #[command(flatten)]
    format: FormatArgs,

    /// Seed of first weights, order of the data and dropout
    #[arg(long, value_name = "N", value_parser = at_least::<u64>(0))]
    seed: Option<u64>,

    /// Passes over the training file, at most
    #[arg(long, value_name = "N", value_parser = at_least::<u64>(1))]
    epochs: Option<u64>,

    /// Predict the best chain of labels (linear-chain CRF); helps where labels are spans
    #[arg(long)]
    crf: bool,

    /// Go on with the run in --out; settings and files are those that it began with
    #[arg(long, conflicts_with_all = ["model", "train", "dev", "config", "set", "format", "column", "seed", "epochs", "crf"])]
    pub(super) resume: bool,

    /// Print JSON lines instead of text
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(args: &TagArgs, progress: &mut Progress) -> Result<RunSummary> {
    let config = if args.resume { None } else { Some(settings(args)?) };
    stop_on_signal();
    Ok(match config {
        None => resume(&args.out, &STOP, progress)?,
        Some(config) => train(&TrainRequest { config, out: &args.out, stop: &STOP }, progress)?,
    })
}

/// What to do with the run now.
pub(super) fn next(args: &TagArgs, summary: &RunSummary) -> String {
    let run = shell_word(&args.out);
    let mut text = format!(
        "the run is in {run}; curve.svg shows how it went. Next:\n  \
         regard evaluate {run} TEST_FILE\n  \
         regard predict {run} FILE -o LABELLED_FILE\n  \
         echo 'some words' | regard predict {run} --format text"
    );
    if ["self-attention", "transformer"].contains(&summary.model.as_str()) {
        text += &format!("\n  regard look {run} --text 'some words'");
    }
    text
}

/// The settings that file and flags stand for.
fn settings(args: &TagArgs) -> Result<TagConfig> {
    let layers = layers(args.config.as_deref(), &flags(args)?, &args.set)?;
    let config = TagConfig::resolve(None, &layers)?;
    if config.data.train.is_empty() {
        return Err(nothing_to_train_on("--train FILE").into());
    }
    Ok(config)
}

/// The flags as TOML.
fn flags(args: &TagArgs) -> Result<String> {
    let mut toml = String::new();
    let mut text = |key: &str, value: Option<&str>| -> Result<()> {
        if let Some(value) = value {
            // A JSON string is a TOML string.
            writeln!(toml, "{key} = {}", serde_json::to_string(value)?)?;
        }
        Ok(())
    };
    text("model.kind", args.model.as_deref())?;
    text("model.output", args.crf.then_some("crf"))?;
    text("data.train", args.train.as_deref().map(utf8).transpose()?)?;
    text("data.dev", args.dev.as_deref().map(utf8).transpose()?)?;
    text("data.format", args.format.format.as_deref())?;
    text("data.column", args.format.column.as_deref())?;
    for (key, number) in [("train.seed", args.seed), ("train.epochs", args.epochs)] {
        if let Some(number) = number {
            writeln!(toml, "{key} = {number}")?;
        }
    }
    Ok(toml)
}
