//! `regard evaluate`: how good a trained model is on a file with the right answers.

mod tag;
mod translate;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use regard::tasks::run::task_of;
use regard::tasks::translate::TASK;

use crate::args::named_file;
use crate::fault::{Fault, Outcome, not_for_task};

/// Measure a trained model on a file with the right answers
///
/// A tagger: accuracy on all words, on words that training never saw, and on words that training saw
/// with several labels; where the labels name spans (B-PER, I-PER, O), also the F1 of whole spans, as
/// the CoNLL script counts them (conlleval) and as seqeval does in its strict mode (strict).
///
/// A translator: BLEU and chrF of its translations, with sacreBLEU's signatures, and the perplexity of
/// the reference translations.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "`--help` shows more, with examples.",
    after_long_help = "\
Examples:
  regard evaluate runs/upos test.conllu
  regard evaluate runs/upos test.conllu --labels
  regard evaluate runs/ner test.bio --conll
  regard evaluate runs/de-en test.de test.en --beam 5 --output test.out.en
  regard evaluate runs/cmn test.tsv --columns source=1,target=0
  In a script, exit code 1 below 94 %:
    regard evaluate runs/upos test.conllu --min-accuracy 0.94
  One number for another program:
    regard evaluate runs/upos test.conllu --json | jq .data.figures.accuracy"
)]
pub(crate) struct EvaluateArgs {
    /// Folder that `regard train` made
    run: PathBuf,

    /// Labelled file; for a translator a source and a target file, or one table of tabs
    #[arg(required = true, num_args = 1..=2, value_name = "FILE", value_parser = named_file())]
    files: Vec<PathBuf>,

    #[command(flatten, next_help_heading = "Taggers")]
    tag: tag::TagArgs,

    #[command(flatten, next_help_heading = "Translators")]
    translate: translate::TranslateArgs,

    /// Print one JSON line instead of tables
    #[arg(long, help_heading = "Options")]
    json: bool,
}

pub(crate) fn run(args: &EvaluateArgs) -> Result<Outcome> {
    if task_of(&args.run)? == TASK {
        not_for_task(args.tag.given(), "translator")?;
        return translate::run(args, &args.files);
    }
    // Another task's folder is refused there, by name.
    not_for_task(args.translate.given(), "tagger")?;
    let [file] = args.files.as_slice() else {
        return Err(Fault::new("a tagger is measured on one file, not two").into());
    };
    tag::run(args, file)
}
