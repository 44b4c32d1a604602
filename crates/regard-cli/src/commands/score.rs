//! `regard score`: labels against labels, translations against references, without a model.

mod translation;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use regard::metrics::{SpanMode, TagScores};
use regard::report::{Align, Table};
use regard::tasks::score::score_files;
use regard::tasks::tag::TagEvaluation;
use serde_json::json;

use crate::args::{FormatArgs, named_file};
use crate::fault::{Fault, Outcome};
use crate::output::{print, print_json};
use crate::text::percent;

/// Compare a predicted file with a gold one, or translations with references, without a model
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct ScoreArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Accuracy, and precision, recall and F1 of every label
    #[command(after_help = "\
Examples:
  regard score tags gold.conllu predicted.conllu
  regard score tags gold.conllu predicted.conllu --column xpos --train train.conllu")]
    Tags(TagsArgs),
    /// Precision, recall and F1 of spans such as B-PER I-PER O
    ///
    /// In mode conlleval the text printed is that of the CoNLL script to the last digit, in mode
    /// strict that of seqeval's classification_report with 4 digits. BIO, IOB and IOBES are told
    /// apart by the labels.
    #[command(after_help = "\
Examples:
  regard score spans gold.bio predicted.bio
  regard score spans gold.tsv predicted.tsv --column token=1,label=2 --mode strict")]
    Spans(SpansArgs),
    Bleu(translation::BleuArgs),
    Chrf(translation::ChrfArgs),
    Ter(translation::TerArgs),
}

#[derive(Debug, Args)]
struct Files {
    /// File with the right labels
    #[arg(value_parser = named_file())]
    gold: PathBuf,

    /// File with the labels to be judged; the same words in the same sentences
    #[arg(value_parser = named_file())]
    predicted: PathBuf,

    #[command(flatten)]
    format: FormatArgs,

    /// Print one JSON line instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct TagsArgs {
    #[command(flatten)]
    files: Files,

    /// Training file: adds the accuracy on words that it lacks, and on those with several labels
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    train: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct SpansArgs {
    #[command(flatten)]
    files: Files,

    /// By which rules labels become spans
    #[arg(long, default_value = "conlleval", value_parser = PossibleValuesParser::new(["conlleval", "strict"]))]
    mode: String,
}

pub(crate) fn run(args: &ScoreArgs) -> Result<Outcome> {
    match &args.what {
        What::Tags(args) => tags(args)?,
        What::Spans(args) => spans(args)?,
        What::Bleu(args) => translation::bleu(args)?,
        What::Chrf(args) => translation::chrf(args)?,
        What::Ter(args) => translation::ter(args)?,
    }
    Ok(Outcome::Done)
}

fn tags(args: &TagsArgs) -> Result<()> {
    let scores = score(&args.files, args.train.as_deref())?;
    if args.files.json {
        return print_json("tag-scores", &scores.tags);
    }
    print(&format!(
        "{}\n{}",
        figures_table(&scores).to_text(),
        labels_table(&scores.tags).to_text()
    ))
}

fn spans(args: &SpansArgs) -> Result<()> {
    let scores = score(&args.files, None)?;
    let mode: SpanMode = args.mode.parse()?;
    let scores = match mode {
        SpanMode::ConllEval => scores.conlleval,
        SpanMode::Strict => scores.strict,
    };
    let scores = scores.ok_or_else(|| no_spans(&args.files.gold))?;
    if args.files.json {
        return print_json("span-scores", &json!(scores));
    }
    print(&scores.to_string())
}

fn score(files: &Files, train: Option<&Path>) -> Result<TagEvaluation> {
    let (format, column) = (files.format.name(), files.format.column());
    score_files(&files.gold, &files.predicted, format, column, train).with_context(|| {
        format!("cannot score {} against {}", files.predicted.display(), files.gold.display())
    })
}

/// The fault of a file whose labels are no spans.
pub(crate) fn no_spans(file: &Path) -> Fault {
    Fault::new(format!("{}: the labels name no spans", file.display())).hint(
        "spans are labels such as B-PER, I-PER and O; --column chooses another column of the file",
    )
}

/// Accuracy on all words, and on unseen and ambiguous ones where the training file is known.
pub(crate) fn figures_table(scores: &TagEvaluation) -> Table {
    let mut table = Table::new([
        ("words", Align::Left),
        ("number", Align::Right),
        ("correct", Align::Right),
        ("accuracy %", Align::Right),
    ]);
    let tags = &scores.tags;
    for (name, accuracy) in
        [("all", tags.accuracy), ("unseen", tags.unseen), ("ambiguous", tags.ambiguous)]
    {
        if name == "all" || accuracy.total > 0 {
            table.push([
                name.into(),
                accuracy.total.to_string(),
                accuracy.correct.to_string(),
                percent(accuracy.score()),
            ]);
        }
    }
    table
}

/// Scores of spans in both modes; `None` where the labels name no spans.
pub(crate) fn spans_table(scores: &TagEvaluation) -> Option<Table> {
    let mut table = Table::new([
        ("spans", Align::Left),
        ("gold", Align::Right),
        ("predicted", Align::Right),
        ("correct", Align::Right),
        ("precision %", Align::Right),
        ("recall %", Align::Right),
        ("F1 %", Align::Right),
    ]);
    for spans in [scores.conlleval.as_ref()?, scores.strict.as_ref()?] {
        let counts = spans.spans;
        table.push([
            spans.mode.to_string(),
            counts.gold.to_string(),
            counts.predicted.to_string(),
            counts.correct.to_string(),
            percent(counts.precision()),
            percent(counts.recall()),
            percent(counts.f1()),
        ]);
    }
    Some(table)
}

/// Scores of every label.
pub(crate) fn labels_table(tags: &TagScores) -> Table {
    let mut table = Table::new([
        ("label", Align::Left),
        ("gold", Align::Right),
        ("predicted", Align::Right),
        ("correct", Align::Right),
        ("precision %", Align::Right),
        ("recall %", Align::Right),
        ("F1 %", Align::Right),
    ]);
    for label in &tags.labels {
        table.push([
            label.name.clone(),
            label.counts.gold.to_string(),
            label.counts.predicted.to_string(),
            label.counts.correct.to_string(),
            percent(label.precision),
            percent(label.recall),
            percent(label.f1),
        ]);
    }
    table
}
