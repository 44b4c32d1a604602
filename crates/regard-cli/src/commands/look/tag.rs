//! `regard look` at a tagger.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use regard::data::{Sentence, Sentences};
use regard::report::{attention_csv, attention_npz, heatmap_svg, terminal_heatmap};
use regard::tasks::tag::{LoadedTagger, look};

use super::LookArgs;
use crate::args::{FormatArgs, at_least, named_file};
use crate::fault::Fault;
use crate::output::{print, save, terminal_width};

/// Longest sentence that is shown. Every weight of every head is in the page, so that its size
/// grows with the square: 300 words make some 40 MB with the default transformer.
const MAX_WORDS: usize = 300;

#[derive(Debug, Args)]
pub(super) struct TagArgs {
    /// Sentence to look at, words and punctuation marks separated by blanks
    #[arg(long, value_name = "WORDS", conflicts_with_all = ["file", "sentence", "format", "column"])]
    text: Option<String>,

    /// File to take the sentence from; its labels are shown beside the predicted ones
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    pub(super) file: Option<PathBuf>,

    /// Which sentence of the file, counted from 1 [default: 1]
    #[arg(long, value_name = "N", value_parser = at_least::<u64>(1))]
    sentence: Option<u64>,

    #[command(flatten)]
    format: FormatArgs,

    /// Also write all arrays for numpy.load
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    pub(super) npz: Option<PathBuf>,
}

impl TagArgs {
    /// The first flag that is given.
    pub(super) fn given(&self) -> Option<&'static str> {
        [
            (self.text.is_some(), "--text"),
            (self.file.is_some(), "--file"),
            (self.sentence.is_some(), "--sentence"),
            (self.format.format.is_some(), "--format"),
            (self.format.column.is_some(), "--column"),
            (self.npz.is_some(), "--npz"),
        ]
        .into_iter()
        .find_map(|(given, flag)| given.then_some(flag))
    }
}

pub(super) fn run(all: &LookArgs) -> Result<()> {
    let args = &all.tag;
    if args.text.is_none() && args.file.is_none() {
        let fault = Fault::new("there is no sentence to look at");
        return Err(fault.hint("give one with --text 'WORDS', or a file with --file").into());
    }
    let model = LoadedTagger::load(&all.run)?;
    let sentence = sentence(args, &model)?;
    if sentence.words.len() > MAX_WORDS {
        let n = sentence.words.len();
        let fault =
            Fault::new(format!("the sentence has {n} words; look shows {MAX_WORDS} at most"));
        return Err(fault.hint("choose a shorter sentence, or a part of this one").into());
    }
    let report = look(&model, &sentence)?;
    // First what can fail on the user's choice of a head, before anything is written.
    let heat_map = terminal_heatmap(&report, all.layer, all.head, terminal_width())?;
    let mut labels = String::new();
    for (i, (word, predicted)) in report.tokens.iter().zip(&report.predicted).enumerate() {
        let gold = report.gold.as_ref().and_then(|gold| gold.get(i));
        let wrong = gold.filter(|gold| **gold != predicted.label);
        let gold = wrong.map_or_else(String::new, |gold| format!(" (gold: {gold})"));
        labels += &format!("{word}/{}{gold} ", predicted.label);
    }
    print(&format!("{}\n\n{heat_map}", labels.trim_end()))?;

    save(&all.out, regard::viewer::page(&report)?.as_bytes(), "open it in a browser")?;
    if let Some(path) = &all.svg {
        let svg = heatmap_svg(&report, all.layer, all.head)?;
        save(path, svg.as_bytes(), "heat map")?;
    }
    if let Some(path) = &all.csv {
        save(path, attention_csv(&report)?.as_bytes(), "scores and weights of all heads")?;
    }
    if let Some(path) = &args.npz {
        save(path, &attention_npz(&report)?, "all arrays for numpy.load")?;
    }
    if let Some(path) = &all.json {
        save(path, &serde_json::to_vec(&report)?, "the whole report")?;
    }
    Ok(())
}

fn sentence(args: &TagArgs, model: &LoadedTagger) -> Result<Sentence> {
    let Some(path) = &args.file else {
        let words = args.text.as_deref().unwrap_or_default().split_whitespace();
        return Ok(Sentence { words: words.map(Into::into).collect(), ..Sentence::default() });
    };
    let format = model.format(args.format.name(), args.format.column(), path)?;
    let wanted = args.sentence.unwrap_or(1);
    let mut n = 0;
    for sentence in Sentences::open(path, &format)? {
        n += 1;
        let sentence = sentence?;
        if n == wanted {
            return Ok(sentence);
        }
    }
    let fault = Fault::new(format!("{}: there is no sentence {wanted}", path.display()));
    Err(fault.hint(format!("the file has {n}; they count from 1")).into())
}
