//! `regard look`: what attention did with one sentence.

mod tag;
mod translate;

use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgGroup, Args};
use regard::tasks::run::task_of;
use regard::tasks::translate::TASK;

use crate::args::{at_least, named_file};
use crate::fault::{Outcome, not_for_task};
use crate::identity::Source;
use crate::output::{apart, beside_run, not_input, writable};

/// See what attention did with one sentence, number by number
///
/// Prints the weights of one head as a heat map of text, and writes a page that needs nothing but a
/// browser: all layers and heads. --svg, --csv and --json write the same numbers for other programs.
///
/// A tagger (self-attention or transformer): a heat map and lines, and for a chosen query and head
/// every number from q, k and scores over weights to the context.
///
/// A translator (bahdanau, luong or transformer): source × target for the model's own translation or a
/// given one; for a transformer also the self-attention of encoder and decoder; for a local scope
/// also its centre and window.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    group = ArgGroup::new("what").required(true).multiple(true).args(["text", "file", "source"]),
    after_help = "`--help` shows more, with examples.",
    after_long_help = "\
Examples:
  regard look runs/upos --text 'I saw a saw'
  regard look runs/upos --text 'I saw a saw' --layer 2 --head 1 --svg head.svg
  regard look runs/upos --file dev.conllu --sentence 12 --out sentence-12.html
  regard look runs/upos --text 'I saw a saw' --npz saw.npz    # numpy.load('saw.npz')
  regard look runs/de-en --source 'Ein Mann geht.'
  regard look runs/de-en --source 'Ein Mann geht.' --target 'A man walks.' --svg alignment.svg
  regard look runs/de-en --source 'Ein Mann geht.' --attention encoder-self --layer 1 --head 3"
)]
pub(crate) struct LookArgs {
    /// Folder that `regard train` made
    run: PathBuf,

    #[command(flatten, next_help_heading = "Taggers")]
    tag: tag::TagArgs,

    #[command(flatten, next_help_heading = "Translators")]
    translate: translate::TranslateArgs,

    /// Layer of the heat map, counted from 0
    #[arg(long, value_name = "N", default_value = "0", value_parser = at_least::<usize>(0), help_heading = "Options")]
    layer: usize,

    /// Head of the heat map, counted from 0
    #[arg(long, value_name = "N", default_value = "0", value_parser = at_least::<usize>(0), help_heading = "Options")]
    head: usize,

    /// Page to write
    #[arg(long, value_name = "FILE", value_parser = named_file(), default_value = "look.html", help_heading = "Options")]
    out: PathBuf,

    /// Also write the heat map of --layer and --head as a picture
    #[arg(long, value_name = "FILE", value_parser = named_file(), help_heading = "Options")]
    svg: Option<PathBuf>,

    /// Also write the weights of all heads (and a tagger's scores), a line for each query and key
    #[arg(long, value_name = "FILE", value_parser = named_file(), help_heading = "Options")]
    csv: Option<PathBuf>,

    /// Also write everything as one JSON object
    #[arg(long, value_name = "FILE", value_parser = named_file(), help_heading = "Options")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &LookArgs) -> Result<Outcome> {
    let outputs = [
        ("--out", Some(&args.out)),
        ("--svg", args.svg.as_ref()),
        ("--csv", args.csv.as_ref()),
        ("--json", args.json.as_ref()),
        ("--npz", args.tag.npz.as_ref()),
    ];
    apart(&outputs)?;
    let outputs = outputs.map(|(flag, path)| (flag, path.map(PathBuf::as_path)));
    let input = args.tag.file.as_deref().map(Source::File);
    not_input(input.as_slice(), &outputs)?;
    beside_run(&args.run, &outputs)?;
    let task = task_of(&args.run)?;
    for path in outputs.iter().filter_map(|(_, path)| *path) {
        writable(path)?;
    }
    if task == TASK {
        not_for_task(args.tag.given(), "translator")?;
        translate::run(args)?;
    } else {
        // Another task's folder is refused there, by name.
        not_for_task(args.translate.given(), "tagger")?;
        tag::run(args)?;
    }
    Ok(Outcome::Done)
}
