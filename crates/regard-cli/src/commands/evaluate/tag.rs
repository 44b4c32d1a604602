//! `regard evaluate` of a tagger.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use regard::data::read_path;
use regard::tasks::TaskError;
use regard::tasks::tag::{LoadedTagger, TagEvaluation, evaluate};
use serde_json::json;

use super::EvaluateArgs;
use crate::args::{FormatArgs, rate};
use crate::commands::score::{figures_table, labels_table, no_spans, spans_table};
use crate::fault::Outcome;
use crate::output::{print, print_json, tell};

#[derive(Debug, Args)]
pub(super) struct TagArgs {
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
}

impl TagArgs {
    /// The first flag that is given.
    pub(super) fn given(&self) -> Option<&'static str> {
        [
            (self.format.format.is_some(), "--format"),
            (self.format.column.is_some(), "--column"),
            (self.labels, "--labels"),
            (self.conll, "--conll"),
            (self.min_accuracy.is_some(), "--min-accuracy"),
            (self.min_f1.is_some(), "--min-f1"),
        ]
        .into_iter()
        .find_map(|(given, flag)| given.then_some(flag))
    }
}

pub(super) fn run(all: &EvaluateArgs, path: &Path) -> Result<Outcome> {
    let args = &all.tag;
    let model = LoadedTagger::load(&all.run)?;
    let format = model.format(args.format.name(), args.format.column(), path)?;
    let file = path.display().to_string();
    if !format.has_labels() {
        return Err(TaskError::NoLabels(file).into());
    }
    let sentences = read_path(path, &format)?;
    let scores = evaluate(&model, &sentences)?;
    if scores.conlleval.is_none() && (args.conll || args.min_f1.is_some()) {
        return Err(no_spans(path).into());
    }
    if !scores.unknown_labels.is_empty() {
        let labels: Vec<&str> = scores.unknown_labels.iter().map(String::as_str).collect();
        tell(&format!(
            "note: {file} has labels that training never saw, and that no prediction can match: {}",
            labels.join(", ")
        ));
    }
    if all.json {
        let data = json!({
            "run": all.run.display().to_string(),
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
