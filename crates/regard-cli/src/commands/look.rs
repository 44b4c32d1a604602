//! `regard look`: what attention did with one sentence.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use regard::data::{Sentence, Sentences};
use regard::report::{attention_csv, attention_npz, heatmap_svg, terminal_heatmap};
use regard::tasks::tag::{LoadedTagger, look};

use crate::args::FormatArgs;
use crate::fault::{Fault, Outcome};
use crate::output::{print, save, terminal_width};

/// Longest sentence that is shown. Every weight of every head is in the page, so that its size
/// grows with the square: 300 words make some 40 MB with the default transformer.
const MAX_WORDS: usize = 300;

/// See what attention did with one sentence, number by number
///
/// Prints the weights of one head as a heat map of text, and writes a page that needs nothing but a
/// browser: all layers and heads, a heat map and lines, and for a chosen query and head every
/// number from q, k and scores over weights to the context. --svg, --csv, --npz and --json write
/// the same numbers for other programs.
///
/// The model must have attention: self-attention or transformer.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "`--help` shows more, with examples.",
    after_long_help = "\
Examples:
  regard look runs/upos --text 'I saw a saw'
  regard look runs/upos --text 'I saw a saw' --layer 2 --head 1 --svg head.svg
  regard look runs/upos --file dev.conllu --sentence 12 --out sentence-12.html
  regard look runs/upos --text 'I saw a saw' --npz saw.npz    # numpy.load('saw.npz')"
)]
pub(crate) struct LookArgs {
    /// Folder that `regard train` made
    run: PathBuf,

    /// Sentence to look at, words and punctuation marks separated by blanks
    #[arg(long, value_name = "WORDS", required_unless_present = "file", conflicts_with_all = ["file", "sentence", "format", "column"])]
    text: Option<String>,

    /// File to take the sentence from; its labels are shown beside the predicted ones
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Which sentence of the file, counted from 1
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
    sentence: u64,

    #[command(flatten)]
    format: FormatArgs,

    /// Layer of the heat map, counted from 0
    #[arg(long, value_name = "N", default_value = "0")]
    layer: usize,

    /// Head of the heat map, counted from 0
    #[arg(long, value_name = "N", default_value = "0")]
    head: usize,

    /// Page to write
    #[arg(long, value_name = "FILE", default_value = "look.html")]
    out: PathBuf,

    /// Also write the heat map of --layer and --head as a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Also write scores and weights of all heads, a line for each query and key
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Also write all arrays for numpy.load
    #[arg(long, value_name = "FILE")]
    npz: Option<PathBuf>,

    /// Also write everything as one JSON object
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &LookArgs) -> Result<Outcome> {
    let model = LoadedTagger::load(&args.run)?;
    let sentence = sentence(args, &model)?;
    if sentence.words.len() > MAX_WORDS {
        let n = sentence.words.len();
        let fault =
            Fault::new(format!("the sentence has {n} words; look shows {MAX_WORDS} at most"));
        return Err(fault.hint("choose a shorter sentence, or a part of this one").into());
    }
    let report = look(&model, &sentence)?;
    // First what can fail on the user's choice of a head, before anything is written.
    let heat_map = terminal_heatmap(&report, args.layer, args.head, terminal_width())?;
    let mut labels = String::new();
    for (i, (word, predicted)) in report.tokens.iter().zip(&report.predicted).enumerate() {
        let gold = report.gold.as_ref().and_then(|gold| gold.get(i));
        let wrong = gold.filter(|gold| **gold != predicted.label);
        let gold = wrong.map_or_else(String::new, |gold| format!(" (gold: {gold})"));
        labels += &format!("{word}/{}{gold} ", predicted.label);
    }
    print(&format!("{}\n\n{heat_map}", labels.trim_end()))?;

    save(&args.out, regard::viewer::page(&report)?.as_bytes(), "open it in a browser")?;
    if let Some(path) = &args.svg {
        let svg = heatmap_svg(&report, args.layer, args.head)?;
        save(path, svg.as_bytes(), "heat map")?;
    }
    if let Some(path) = &args.csv {
        save(path, attention_csv(&report)?.as_bytes(), "scores and weights of all heads")?;
    }
    if let Some(path) = &args.npz {
        save(path, &attention_npz(&report)?, "all arrays for numpy.load")?;
    }
    if let Some(path) = &args.json {
        save(path, &serde_json::to_vec(&report)?, "the whole report")?;
    }
    Ok(Outcome::Done)
}

fn sentence(args: &LookArgs, model: &LoadedTagger) -> Result<Sentence> {
    let Some(path) = &args.file else {
        let words = args.text.as_deref().unwrap_or_default().split_whitespace();
        return Ok(Sentence { words: words.map(Into::into).collect(), ..Sentence::default() });
    };
    let format = model.format(args.format.name(), args.format.column(), path)?;
    let mut n = 0;
    for sentence in Sentences::open(path, &format)? {
        n += 1;
        let sentence = sentence?;
        if n == args.sentence {
            return Ok(sentence);
        }
    }
    let fault = Fault::new(format!("{}: there is no sentence {}", path.display(), args.sentence));
    Err(fault.hint(format!("the file has {n}; they count from 1")).into())
}
