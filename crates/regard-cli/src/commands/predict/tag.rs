//! `regard predict` of a tagger.

use std::io::{self, BufWriter};
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use regard::tasks::tag::{LoadedTagger, predict_stream};

use super::{Input, PredictArgs, whole_file};
use crate::args::{FormatArgs, at_least, file};
use crate::output::tell;
use crate::text::count;

/// Words that are collected before they are labelled, unless set.
const CHUNK_WORDS: usize = 2000;

#[derive(Debug, Args)]
pub(super) struct TagArgs {
    #[command(flatten)]
    format: FormatArgs,

    /// Words to collect before labelling them; 1 answers after every sentence [default: 2000]
    #[arg(long, value_name = "N", value_parser = at_least::<usize>(1))]
    chunk_words: Option<usize>,
}

impl TagArgs {
    /// The first flag that is given.
    pub(super) fn given(&self) -> Option<&'static str> {
        [
            (self.format.format.is_some(), "--format"),
            (self.format.column.is_some(), "--column"),
            (self.chunk_words.is_some(), "--chunk-words"),
        ]
        .into_iter()
        .find_map(|(given, flag)| given.then_some(flag))
    }
}

pub(super) fn run(all: &PredictArgs) -> Result<()> {
    let args = &all.tag;
    let model = LoadedTagger::load(&all.run)?;
    let path = file(all.file.as_ref());
    let (name, column) = (args.format.name(), args.format.column());
    let format = model.format(name, column, path.unwrap_or(Path::new("-")))?;
    let Input { stream: input, name } = Input::open(path, format.name())?;
    let chunk = args.chunk_words.unwrap_or(CHUNK_WORDS);
    let done;
    if let Some(path) = file(all.output.as_ref()) {
        let mut out = whole_file(path)?;
        done = predict_stream(&model, input, &name, &format, &mut out, chunk)
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
        done = predict_stream(&model, input, &name, &format, &mut out, chunk)?;
    }
    if done.sentences == 0 {
        tell(&format!("{name} has no sentence: nothing was labelled"));
    }
    Ok(())
}
