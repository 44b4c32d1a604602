//! `regard evaluate` of a translator.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use regard::metrics::translation::Tokenisation;
use regard::tasks::translate::{LoadedTranslator, ScoreOptions, evaluate, read_pairs};
use serde_json::json;

use super::EvaluateArgs;
use crate::args::{named_file, not_negative};
use crate::commands::search_args::SearchArgs;
use crate::fault::Outcome;
use crate::identity::Source;
use crate::output::{beside_run, not_input, print, print_json, save, tell, writable};
use crate::text::count;

#[derive(Debug, Args)]
pub(super) struct TranslateArgs {
    /// Columns of a table: source=N,target=N counted from 0, or names in its first line
    #[arg(long, value_name = "COLUMNS")]
    columns: Option<String>,

    #[command(flatten)]
    search: SearchArgs,

    /// How lines become words for BLEU: 13a, intl, zh, char or none [default: 13a]
    #[arg(long, value_name = "NAME", hide_possible_values = true, value_parser = PossibleValuesParser::new(Tokenisation::ALL.map(Tokenisation::name)))]
    tokenize: Option<String>,

    /// Take upper and lower case for the same; always so for a model of lower-cased text
    #[arg(long)]
    lowercase: bool,

    /// Also write the translations, a line each
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    output: Option<PathBuf>,

    /// Exit with code 1 if BLEU is below X, from 0 to 100
    #[arg(long, value_name = "X", value_parser = not_negative)]
    min_bleu: Option<f64>,
}

impl TranslateArgs {
    /// The first flag that is given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let own = [
            (self.columns.is_some(), "--columns"),
            (self.tokenize.is_some(), "--tokenize"),
            (self.lowercase, "--lowercase"),
            (self.output.is_some(), "--output"),
            (self.min_bleu.is_some(), "--min-bleu"),
        ];
        let own = own.into_iter().find_map(|(given, flag)| given.then_some(flag));
        own.or_else(|| self.search.given())
    }
}

pub(super) fn run(all: &EvaluateArgs, files: &[PathBuf]) -> Result<Outcome> {
    let args = &all.translate;
    let inputs: Vec<Source> = files.iter().map(|file| Source::File(file)).collect();
    let outputs = [("--output", args.output.as_deref())];
    not_input(&inputs, &outputs)?;
    beside_run(&all.run, &outputs)?;
    if let Some(path) = &args.output {
        writable(path)?;
    }
    let model = LoadedTranslator::load(&all.run)?;
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let columns = match (&args.columns, files) {
        (Some(columns), _) => columns.as_str(),
        // A table is taken to be like that of the training.
        (None, [_]) => &model.config.data.columns,
        (None, _) => "",
    };
    let pairs = read_pairs(&names, columns)?;
    let score = ScoreOptions {
        tokenisation: match &args.tokenize {
            Some(name) => name.parse()?,
            None => Tokenisation::default(),
        },
        lowercase: args.lowercase,
    };
    let (scores, translated) = evaluate(&model, &pairs, &args.search.options(&model)?, score)?;
    if all.json {
        let data = json!({
            "run": all.run.display().to_string(),
            "files": names,
            "model": model.config.model.kind.name(),
            "figures": scores.figures(),
            "scores": scores,
        });
        print_json("evaluation", &data)?;
    } else {
        let mut text = format!(
            "{}\n{}\n{}\n{}\n",
            scores.bleu, scores.bleu_signature, scores.chrf, scores.chrf_signature
        );
        if let (Some(loss), Some(perplexity)) = (scores.loss, scores.perplexity) {
            let unit = model.config.data.tokens.kind();
            text += &format!("perplexity = {perplexity:.3} (loss {loss:.4} a {unit} token)\n");
        }
        text += &format!(
            "exactly the reference: {} of {}\n",
            scores.exact,
            count(scores.lines as u64, "line")
        );
        print(&text)?;
    }
    if let Some(path) = &args.output {
        write(path, &translated)?;
    }
    if let Some(bar) = args.min_bleu
        && scores.bleu.score < bar
    {
        tell(&format!("missed: bleu is {:.2}, below --min-bleu {bar}", scores.bleu.score));
        return Ok(Outcome::BarMissed);
    }
    Ok(Outcome::Done)
}

fn write(path: &Path, translated: &[regard::tasks::translate::Translated]) -> Result<()> {
    let mut text = String::new();
    for line in translated {
        text += line.translations.first().map_or("", |best| best.text.as_str());
        text.push('\n');
    }
    save(path, text.as_bytes(), "translations")
}
