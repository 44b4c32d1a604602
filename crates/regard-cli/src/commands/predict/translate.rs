//! `regard predict` of a translator.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use regard::data::{DataError, Pair};
use regard::report::json_line;
use regard::tasks::translate::{
    LoadedTranslator, Translated, force_decode, predict_stream, read_translations,
};
use serde_json::json;

use super::{Input, PredictArgs, whole_file};
use crate::args::{at_least, file, named_file};
use crate::commands::search_args::SearchArgs;
use crate::fault::Fault;
use crate::identity::Source;
use crate::output::{apart, not_input, print, save, tell, writable};
use crate::text::count;

/// Lines that are collected before they are translated, unless set.
const CHUNK_LINES: usize = 256;

#[derive(Debug, Args)]
pub(super) struct TranslateArgs {
    #[command(flatten)]
    search: SearchArgs,

    /// Translations of each line, as line number, rank, score and text between tabs
    ///
    /// Where N is above --beam, the search follows N translations at once.
    #[arg(long, value_name = "N", value_parser = at_least::<usize>(1), conflicts_with_all = ["json", "scores"])]
    n_best: Option<usize>,

    /// Put ln p of each translation and a tab before it
    ///
    /// It is that of the tokens which the model chose: with --replace-unknown, of <unk> and not of the
    /// word in its place.
    #[arg(long, conflicts_with = "json")]
    scores: bool,

    /// Also write which source token each token of a translation was read from, as Pharaoh lines
    ///
    /// Pairs source-target of positions of tokens, counted from 0; --json names the tokens.
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    pub(super) alignments: Option<PathBuf>,

    /// One JSON line for each line: tokens, translations, scores and alignments
    #[arg(long)]
    json: bool,

    /// Translate nothing, but tell how likely the lines of FILE are as translations
    ///
    /// Prints ln p, tokens (the end counted) and perplexity of each line between tabs. Lines are cut
    /// into tokens anew: <unk> is the unknown word or character again, but a text that the model put
    /// together from other tokens, or that --replace-unknown changed, has another ln p than --scores
    /// tells.
    #[arg(long, value_name = "FILE", value_parser = named_file(), conflicts_with_all = ["n_best", "scores", "alignments", "json"])]
    given: Option<PathBuf>,

    /// Lines to collect before translating them; 1 answers after every line [default: 256]
    #[arg(long, value_name = "N", value_parser = at_least::<usize>(1))]
    chunk_lines: Option<usize>,
}

impl TranslateArgs {
    /// The first flag that is given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let own = [
            (self.n_best.is_some(), "--n-best"),
            (self.scores, "--scores"),
            (self.alignments.is_some(), "--alignments"),
            (self.json, "--json"),
            (self.given.is_some(), "--given"),
            (self.chunk_lines.is_some(), "--chunk-lines"),
        ];
        let own = own.into_iter().find_map(|(given, flag)| given.then_some(flag));
        own.or_else(|| self.search.given())
    }

    fn write(
        &self,
        out: &mut dyn Write,
        (number, line): (usize, &str),
        translated: &Translated,
    ) -> io::Result<()> {
        let best = translated.translations.first();
        if self.json {
            let data = json!({
                "line": number,
                "source": line,
                "source_tokens": translated.source_tokens,
                "translations": translated.translations,
            });
            let line = json_line("translation", &data).map_err(io::Error::other)?;
            writeln!(out, "{line}")?;
        } else if self.n_best.is_some() {
            for (rank, t) in translated.translations.iter().enumerate() {
                writeln!(out, "{number}\t{}\t{:.4}\t{}", rank + 1, t.score, t.text)?;
            }
        } else if let (true, Some(best)) = (self.scores, best) {
            writeln!(out, "{:.4}\t{}", best.log_prob, best.text)?;
        } else {
            writeln!(out, "{}", best.map_or("", |best| best.text.as_str()))?;
        }
        Ok(())
    }
}

/// `0-0 2-1 1-2`: source and target positions.
fn pharaoh(alignment: &[usize]) -> String {
    let pairs = alignment.iter().enumerate().map(|(target, source)| format!("{source}-{target}"));
    pairs.collect::<Vec<_>>().join(" ")
}

pub(super) fn run(all: &PredictArgs) -> Result<()> {
    let args = &all.translate;
    let outputs = [("--output", all.output.as_ref()), ("--alignments", args.alignments.as_ref())];
    apart(&outputs)?;
    // A tagger gives back what it reads, a translator does not.
    let given = args.given.as_deref().map(Source::File);
    let inputs = [Some(Source::new(file(all.file.as_ref()))), given];
    let outputs = outputs.map(|(flag, path)| (flag, file(path)));
    not_input(inputs.into_iter().flatten().collect::<Vec<_>>().as_slice(), &outputs)?;
    if let Some(path) = &args.alignments {
        writable(path)?;
    }
    let model = LoadedTranslator::load(&all.run)?;
    if args.given.is_some() {
        return force(all, &model);
    }
    let mut options = args.search.options(&model)?;
    if let Some(n) = args.n_best {
        options.n_best = n;
        // A narrower beam could not give so many.
        options.beam = options.beam.max(n);
    }
    let has_attention = model.config.model.kind.has_attention();
    options.alignments = args.alignments.is_some() || (args.json && has_attention);
    let path = file(all.file.as_ref());
    let Input { stream: input, name } = Input::open(path, "a line of text each")?;
    let chunk = args.chunk_lines.unwrap_or(CHUNK_LINES);
    let mut alignments = String::new();
    let translate = |out: &mut dyn Write| {
        predict_stream(&model, input, &name, &options, chunk, |number, line, translated| {
            if args.alignments.is_some() {
                let best = translated.translations.first();
                alignments += &pharaoh(best.map_or(&[], |best| &best.alignment));
                alignments.push('\n');
            }
            args.write(out, (number, line), translated)?;
            // Whoever waits for an answer gets it.
            if number.is_multiple_of(chunk) { out.flush() } else { Ok(()) }
        })
    };
    let done = if let Some(path) = file(all.output.as_ref()) {
        let mut out = whole_file(path)?;
        let done =
            translate(&mut out).with_context(|| format!("{} is not written", path.display()))?;
        out.finish()?;
        tell(&format!("wrote {} ({})", path.display(), count(done.lines as u64, "line")));
        done
    } else {
        let mut out = BufWriter::new(io::stdout().lock());
        let done = translate(&mut out)?;
        out.flush().map_err(DataError::from)?;
        done
    };
    if let Some(path) = &args.alignments {
        save(path, alignments.as_bytes(), "alignments")?;
    }
    if done.cut > 0 {
        tell(&format!(
            "note: {} had no end at its longest length (--max-length)",
            count(done.cut as u64, "translation")
        ));
    }
    Ok(())
}

/// How likely given translations are.
fn force(all: &PredictArgs, model: &LoadedTranslator) -> Result<()> {
    let (Some(source), Some(target)) = (file(all.file.as_ref()), &all.translate.given) else {
        let fault = Fault::new("--given needs the file of the sources");
        return Err(fault.hint("regard predict RUN SOURCES --given TRANSLATIONS").into());
    };
    if let Some(path) = file(all.output.as_ref()) {
        writable(path)?;
    }
    let pairs: Vec<Pair> = read_translations(source, target)?;
    let mut text = String::new();
    for (pair, score) in pairs.iter().zip(force_decode(model, &pairs)?) {
        if let Some((log_prob, tokens)) = score {
            let perplexity = (-log_prob / tokens as f64).exp();
            text += &format!("{log_prob:.4}\t{tokens}\t{perplexity:.4}\n");
        } else {
            tell(&format!("note: line {} has an empty side and no score", pair.line));
            text += "-\t0\t-\n";
        }
    }
    if let Some(path) = file(all.output.as_ref()) {
        return save(path, text.as_bytes(), "scores");
    }
    print(&text)
}
