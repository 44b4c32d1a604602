//! `regard evaluate`: how good a trained model is on a labelled file.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use regard::data::read_path;
use regard::tasks::TaskError;
use regard::tasks::tag::{LoadedTagger, TagEvaluation, evaluate};
use serde_json::json;

use crate::args::{FormatArgs, rate};
use crate::commands::score::{figures_table, labels_table, no_spans, spans_table};
use crate::fault::Outcome;
use crate::output::{print, print_json, tell};

/// Measure a trained model on a labelled file
///
/// Accuracy on all words, on words that training never saw, and on words that training saw with
/// several labels; where the labels name spans (B-PER, I-PER, O), also the F1 of whole spans, as the
/// CoNLL script counts them (conlleval) and as seqeval does in its strict mode (strict).
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "`--help` shows more, with examples.",
    after_long_help = "\
Examples:
  regard evaluate runs/upos test.conllu
  regard evaluate runs/upos test.conllu --labels
  regard evaluate runs/ner test.bio --conll
  In a script, exit code 1 below 94 %:
    regard evaluate runs/upos test.conllu --min-accuracy 0.94
  One number for another program:
    regard evaluate runs/upos test.conllu --json | jq .data.figures.accuracy"
)]
pub(crate) struct EvaluateArgs {
    /// Folder that `regard train` made
    run: PathBuf,

    /// Labelled file
    file: PathBuf,

    #[command(flatten)]
    format: FormatArgs,

    /// Add precision, recall and F1 of every label
    #[arg(long)]
    labels: bool,

    /// Print only the report of the CoNLL script (labels must name spans)
    #[arg(long, conflicts_with_all = ["labels", "json"])]
    conll: bool,

    /// Exit with code 1 if the accuracy is below X, a fraction from 0 to 1
    #[arg(long, value_name = "X", value_parser = rate)]
    min_accuracy: Option<f64>,

    /// Exit with code 1 if the span F1 (conlleval) is below X, a fraction from 0 to 1
    #[arg(long, value_name = "X", value_parser = rate)]
    min_f1: Option<f64>,

    /// Print one JSON line instead of tables
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &EvaluateArgs) -> Result<Outcome> {
    let model = LoadedTagger::load(&args.run)?;
    let format = model.format(args.format.name(), args.format.column(), &args.file)?;
    let file = args.file.display().to_string();
    if !format.has_labels() {
        return Err(TaskError::NoLabels(file).into());
    }
    let sentences = read_path(&args.file, &format)?;
    let scores = evaluate(&model, &sentences)?;
    if scores.conlleval.is_none() && (args.conll || args.min_f1.is_some()) {
        return Err(no_spans(&args.file).into());
    }
    if !scores.unknown_labels.is_empty() {
        let labels: Vec<&str> = scores.unknown_labels.iter().map(String::as_str).collect();
        tell(&format!(
            "note: {file} has labels that training never saw, and that no prediction can match: {}",
            labels.join(", ")
        ));
    }
    if args.json {
        let data = json!({
            "run": args.run.display().to_string(),
            "file": file,
            "model": model.config.model.kind.name(),
            "figures": scores.figures(),
            "scores": scores,
        });
        print_json("evaluation", &data)?;
    } else if let (true, Some(spans)) = (args.conll, &scores.conlleval) {
        print(&spans.conll_report().to_string())?;
    } else {
        print(&tables(&scores, args.labels))?;
    }
    let figures = scores.figures();
    let bars =
        [("accuracy", "--min-accuracy", args.min_accuracy), ("span_f1", "--min-f1", args.min_f1)];
    let mut outcome = Outcome::Done;
    for (name, flag, bar) in bars {
        // A file always has a word, so the figure is there; its absence would miss the bar.
        let value = figures.get(name).copied().unwrap_or(f64::NAN);
        if bar.is_some_and(|bar| value.is_nan() || value < bar) {
            tell(&format!(
                "missed: {name} is {value:.4}, below {flag} {}",
                bar.unwrap_or_default()
            ));
            outcome = Outcome::BarMissed;
        }
    }
    Ok(outcome)
}

fn tables(scores: &TagEvaluation, labels: bool) -> String {
    let mut text = figures_table(scores).to_text();
    if let Some(spans) = spans_table(scores) {
        text += &format!("\n{}", spans.to_text());
    }
    if labels {
        text += &format!("\n{}", labels_table(&scores.tags).to_text());
    }
    text
}
