//! `regard predict`: labels for sentences, as a file or in a pipe.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use regard::tasks::tag::{LoadedTagger, predict_stream};

use crate::args::{FormatArgs, file};
use crate::fault::{Fault, Outcome};
use crate::output::{WholeFile, tell};
use crate::signals::remove_on_signal;
use crate::text::count;

/// Label sentences: your own lines come back with the label filled in
///
/// Reads a file or standard input, and writes a file or standard output, a few sentences at a time, so
/// that it can stand in a pipe. All other columns, comments and blank lines stay as they are. A
/// column file without a label column gets one behind its last column (--column label=none); plain text,
/// one sentence a line, turns into lines of word, tab, label.
///
/// Standard input is taken to be in the format that the model was trained from, unless --format says
/// otherwise.
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
  Answer after every sentence, for a program that waits for it:
    regard predict runs/upos --format text --chunk-words 1"
)]
pub(crate) struct PredictArgs {
    /// Folder that `regard train` made
    run: PathBuf,

    /// File to label, plain or .gz; - or nothing for standard input
    file: Option<PathBuf>,

    /// File to write; - or nothing for standard output. It takes its name only when it is complete
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    format: FormatArgs,

    /// Words to collect before labelling them; 1 answers after every sentence
    #[arg(long, value_name = "N", default_value = "2000")]
    chunk_words: NonZeroUsize,
}

pub(crate) fn run(args: &PredictArgs) -> Result<Outcome> {
    let output = file(args.output.as_ref());
    if let Some(path) = output
        && path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"))
    {
        let fault = Fault::new(format!("{}: the output is not compressed", path.display()));
        return Err(fault
            .hint("leave .gz out of the name and compress the file afterwards")
            .into());
    }
    let model = LoadedTagger::load(&args.run)?;
    let path = file(args.file.as_ref());
    let (name, column) = (args.format.name(), args.format.column());
    let format = model.format(name, column, path.unwrap_or(Path::new("-")))?;
    let (input, name): (Box<dyn Read>, String) = if let Some(path) = path {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        (Box::new(file), path.display().to_string())
    } else {
        if io::stdin().is_terminal() {
            tell(&format!(
                "reading {} from the keyboard; Ctrl-D at the beginning of a line ends it",
                format.name()
            ));
        }
        (Box::new(io::stdin().lock()), "standard input".into())
    };
    let chunk = args.chunk_words.get();
    if let Some(path) = output {
        let mut out = WholeFile::create(path)?;
        if let Some(temporary) = out.temporary() {
            remove_on_signal(temporary.to_path_buf());
        }
        let done = predict_stream(&model, input, &name, &format, &mut out, chunk)
            .with_context(|| format!("{} is not written", path.display()))?;
        out.finish()?;
        tell(&format!(
            "wrote {} ({}, {})",
            path.display(),
            count(done.sentences, "sentence"),
            count(done.words, "word")
        ));
    } else {
        let mut out = BufWriter::new(io::stdout().lock());
        predict_stream(&model, input, &name, &format, &mut out, chunk)?;
    }
    Ok(Outcome::Done)
}
