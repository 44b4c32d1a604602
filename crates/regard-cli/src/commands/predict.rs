//! `regard predict`: labels or translations, as a file or in a pipe.

mod tag;
mod translate;

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use regard::data::open_file;
use regard::tasks::run::task_of;
use regard::tasks::translate::TASK;

use crate::args::file;
use crate::fault::{Fault, Outcome, not_for_task};
use crate::identity::Source;
use crate::output::{WholeFile, beside_run, tell};
use crate::signals::remove_on_signal;

/// Label or translate: with a tagger your own lines come back with the label filled in
///
/// Reads a file or standard input, and writes a file or standard output, some lines at a time, so that
/// it can stand in a pipe.
///
/// A tagger leaves all other columns, comments and blank lines as they are. A column file without a label
/// column gets one behind its last column (--column label=none); plain text, one sentence a line,
/// turns into lines of word, tab, label. Standard input is taken to be in the format that the model
/// was trained from, unless --format says otherwise.
///
/// A translator reads a segment a line and writes its translation, a line each; an empty line stays
/// empty.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "`--help` shows more, with examples.",
    after_long_help = "\
Examples:
  regard predict runs/upos new.conllu -o labelled.conllu
  zcat new.conllu.gz | regard predict runs/upos | grep -c VERB
  echo 'I saw a saw' | regard predict runs/upos --format text
  regard predict runs/ner words.tsv --column token=0,label=none
  regard predict runs/de-en new.de -o new.en --beam 8
  echo 'Ein Mann geht.' | regard predict runs/de-en --n-best 3
  regard predict runs/de-en new.de --alignments new.align > new.en
  regard predict runs/de-en new.de --given new.en
  Answer after every sentence, for a program that waits for it:
    regard predict runs/upos --format text --chunk-words 1
    regard predict runs/de-en --chunk-lines 1"
)]
pub(crate) struct PredictArgs {
    /// Folder that `regard train` made
    run: PathBuf,

    /// File to read, plain or .gz; - or nothing for standard input
    file: Option<PathBuf>,

    /// File to write; - or nothing for standard output. It takes its name only when it is complete
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten, next_help_heading = "Taggers")]
    tag: tag::TagArgs,

    #[command(flatten, next_help_heading = "Translators")]
    translate: translate::TranslateArgs,
}

pub(crate) fn run(args: &PredictArgs) -> Result<Outcome> {
    if let Some(path) = file(args.output.as_ref())
        && path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"))
    {
        let fault = Fault::new(format!("{}: the output is not compressed", path.display()));
        return Err(fault
            .hint("leave .gz out of the name and compress the file afterwards")
            .into());
    }
    let alignments = args.translate.alignments.as_deref();
    let outputs = [("--output", file(args.output.as_ref())), ("--alignments", alignments)];
    beside_run(&args.run, &outputs)?;
    let to_output = file(args.output.as_ref()).is_none();
    if to_output && Source::new(file(args.file.as_ref())).is_output() {
        let fault = Fault::new("standard output goes to the file that is read");
        return Err(fault.hint("give the result a file of its own, by --output FILE").into());
    }
    if task_of(&args.run)? == TASK {
        not_for_task(args.tag.given(), "translator")?;
        translate::run(args)?;
    } else {
        // Another task's folder is refused there, by name.
        not_for_task(args.translate.given(), "tagger")?;
        tag::run(args)?;
    }
    Ok(Outcome::Done)
}

/// A file or standard input, with its name for messages.
struct Input {
    stream: Box<dyn Read>,
    name: String,
}

impl Input {
    fn open(path: Option<&Path>, what: &str) -> Result<Self> {
        if let Some(path) = path {
            let file = open_file(path)?;
            return Ok(Self { stream: Box::new(file), name: path.display().to_string() });
        }
        if io::stdin().is_terminal() {
            tell(&format!(
                "reading {what} from the keyboard; Ctrl-D at the beginning of a line ends it"
            ));
        }
        Ok(Self { stream: Box::new(io::stdin().lock()), name: "standard input".into() })
    }
}

/// A file that takes its name when it is complete, and is removed when the command is stopped.
fn whole_file(path: &Path) -> Result<WholeFile> {
    let out = WholeFile::create(path)?;
    if let Some(temporary) = out.temporary() {
        remove_on_signal(temporary.to_path_buf());
    }
    Ok(out)
}
