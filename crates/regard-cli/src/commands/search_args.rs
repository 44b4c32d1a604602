//! How a translator searches: flags that several commands share.

use anyhow::Result;
use clap::Args;
use regard::nn::models::translation::decode::LengthPenalty;
use regard::tasks::translate::{LoadedTranslator, TranslateOptions};

use crate::args::at_least;
use crate::fault::Fault;

/// Most tokens that a translation can be asked for.
const LONGEST: i64 = 100_000;
/// Most tokens that every translation can be made to have: the work grows with the square, and no end of
/// the model's own stops it.
const LONGEST_LEAST: i64 = 1000;
/// Beam of a search, unless it is set or the vocabulary is smaller.
const BEAM: usize = 5;

#[derive(Debug, Clone, Default, Args)]
pub(super) struct SearchArgs {
    /// Translations that are followed at once; 1 is greedy search [default: 5]
    #[arg(long, value_name = "N", value_parser = at_least::<usize>(1))]
    beam: Option<usize>,

    /// What evens out long and short translations: gnmt:A, average:A or none [default: gnmt:0.6]
    ///
    /// ln p is divided by ((5 + length)/6)^A (gnmt) or by length^A (average). A number alone is
    /// gnmt's A.
    #[arg(long, value_name = "FORM", value_parser = length_penalty)]
    length_penalty: Option<LengthPenalty>,

    /// Weight of the penalty for source tokens that no attention fell on [default: 0]
    #[arg(long, value_name = "X")]
    coverage_penalty: Option<f64>,

    /// Fewest tokens of a translation, 1000 at most [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=LONGEST_LEAST))]
    min_length: Option<u32>,

    /// Most tokens of a translation [default: its source's, or --min-length, and 10 to 100 more]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=LONGEST))]
    max_length: Option<u32>,

    /// No run of N tokens twice in a translation
    #[arg(long, value_name = "N", value_parser = at_least::<usize>(0))]
    no_repeat: Option<usize>,

    /// Replace unknown words by the source words most looked at (tokens word or char)
    #[arg(long)]
    replace_unknown: bool,
}

impl SearchArgs {
    /// The first flag that is given.
    pub(super) fn given(&self) -> Option<&'static str> {
        [
            (self.beam.is_some(), "--beam"),
            (self.length_penalty.is_some(), "--length-penalty"),
            (self.coverage_penalty.is_some(), "--coverage-penalty"),
            (self.min_length.is_some(), "--min-length"),
            (self.max_length.is_some(), "--max-length"),
            (self.no_repeat.is_some(), "--no-repeat"),
            (self.replace_unknown, "--replace-unknown"),
        ]
        .into_iter()
        .find_map(|(given, flag)| given.then_some(flag))
    }

    /// The search for a model.
    ///
    /// # Errors
    /// The lengths leave no room.
    pub(super) fn options(&self, model: &LoadedTranslator) -> Result<TranslateOptions> {
        if let (Some(least), Some(most)) = (self.min_length, self.max_length)
            && least > most
        {
            let fault = Fault::new(format!("--min-length {least} is above --max-length {most}"));
            return Err(fault.hint("a translation needs a length between the two").into());
        }
        Ok(TranslateOptions {
            beam: self.beam.unwrap_or_else(|| BEAM.min(model.lexicon.target().len())),
            n_best: 1,
            length_penalty: self.length_penalty.unwrap_or(LengthPenalty::Gnmt(0.6)),
            coverage_penalty: self.coverage_penalty.unwrap_or(0.0),
            min_length: self.min_length.map_or(0, |n| n as usize),
            max_length: self.max_length.map_or(0, |n| n as usize),
            no_repeat: self.no_repeat.unwrap_or(0),
            replace_unknown: self.replace_unknown,
            alignments: false,
        })
    }
}

fn length_penalty(text: &str) -> std::result::Result<LengthPenalty, String> {
    let fault = || format!("{text:?} is none of gnmt:A, average:A, none or a number");
    let (form, alpha) = match text.split_once(':') {
        _ if text == "none" => return Ok(LengthPenalty::None),
        Some(parts) => parts,
        None => ("gnmt", text),
    };
    let alpha: f64 = alpha.parse().map_err(|_| fault())?;
    match form {
        _ if !alpha.is_finite() => Err(fault()),
        "gnmt" => Ok(LengthPenalty::Gnmt(alpha)),
        "average" => Ok(LengthPenalty::Average(alpha)),
        _ => Err(fault()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn penalties_are_named() {
        assert_eq!(length_penalty("none"), Ok(LengthPenalty::None));
        assert_eq!(length_penalty("1"), Ok(LengthPenalty::Gnmt(1.0)));
        assert_eq!(length_penalty("gnmt:0.6"), Ok(LengthPenalty::Gnmt(0.6)));
        assert_eq!(length_penalty("average:1"), Ok(LengthPenalty::Average(1.0)));
        for text in ["", "gnmt", "gnmt:", "wu:1", "nan", "average:inf"] {
            assert!(length_penalty(text).is_err(), "{text}");
        }
    }
}
