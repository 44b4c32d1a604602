//! The command line as a whole; each command's own arguments stand in its file.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{
    bench, completions, config, demo, evaluate, look, mechanisms, predict, score, train,
};

/// Attention, all of it: train models of sequences, use them, and look into them.
///
/// A model is trained from files that you have (CoNLL-U, or a word and its columns a line; parallel
/// text; plain or .gz) into a run folder. Every other command takes that folder: it measures the model,
/// labels or translates text with it, or shows what its attention did, number by number.
#[derive(Debug, Parser)]
#[command(
    name = "regard",
    version,
    arg_required_else_help = true,
    after_help = "Try `regard demo` first; it needs no file. `regard help COMMAND` explains a command.",
    after_long_help = "\
Examples:
  regard demo
  regard train tag --train train.conllu --dev dev.conllu --out runs/first
  regard evaluate runs/first test.conllu
  echo 'I saw a saw' | regard predict runs/first --format text
  regard look runs/first --text 'I saw a saw'
  regard train translate --train train.de train.en --dev val.de val.en --out runs/de-en
  echo 'Ein Mann geht.' | regard predict runs/de-en

Results go to standard output, everything else to standard error.

Exit codes:
  0    done
  1    done, but a bar was missed (evaluate --min-accuracy)
  2    wrong usage, bad input, or failure
  130  interrupted with Ctrl-C; a training has saved everything and says how to go on"
)]
pub(crate) struct Cli {
    /// Threads to compute with; one for each core unless set. Results do not depend on it
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Train(train::TrainArgs),
    Evaluate(evaluate::EvaluateArgs),
    Predict(predict::PredictArgs),
    Look(look::LookArgs),
    Score(score::ScoreArgs),
    Mechanisms(mechanisms::MechanismsArgs),
    Demo(demo::DemoArgs),
    Bench(bench::BenchArgs),
    Config(config::ConfigArgs),
    Completions(completions::CompletionsArgs),
}

/// What the command line says.
///
/// # Errors
/// It is not understood, or asks for help.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&taking_negative_numbers(Cli::command()).try_get_matches()?)
}

/// A command whose options see a negative number as their value, so that they say what it must be.
fn taking_negative_numbers(command: clap::Command) -> clap::Command {
    let option = |arg: clap::Arg| {
        let takes_value = arg.get_action().takes_values() && !arg.is_positional();
        if takes_value { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(option).mut_subcommands(taking_negative_numbers)
}

/// How a data file is to be read.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FormatArgs {
    /// Format of the data: conllu, columns or text; the file name's ending tells it otherwise
    ///
    /// .conllu is conllu; .conll, .tsv, .bio and .iob2 are columns; .txt is text. A .gz behind it
    /// does not count.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,

    /// Column that holds the label: for conllu upos, xpos, feats:NAME …; for columns label=N
    ///
    /// conllu: lemma, upos (the default), xpos, feats, head, deprel, deps, misc or feats:NAME.
    /// columns: token=N,label=N,comments=true|false in any selection; columns count from 0, or
    /// from -1 at the end; the default is token=0,label=-1,comments=false, and for .iob2 files
    /// token=1,label=2,comments=true. label=none: there is no label yet.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) column: Option<String>,
}

impl FormatArgs {
    /// The format's name, empty where not given.
    pub(crate) fn name(&self) -> &str {
        self.format.as_deref().unwrap_or_default()
    }

    /// The column, empty where not given.
    pub(crate) fn column(&self) -> &str {
        self.column.as_deref().unwrap_or_default()
    }
}

/// A rate in [0, 1] from the command line.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(rate),
        _ => Err("a fraction from 0 to 1 is needed; 95 % is 0.95".into()),
    }
}

/// Minutes from the command line.
pub(crate) fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if minutes >= 0.0 && minutes.is_finite() => Ok(minutes),
        _ => Err("a number of minutes is needed, such as 20 or 0.5; 0 for no limit".into()),
    }
}

/// A whole number of at least `least` from the command line.
pub(crate) fn at_least<T: TryFrom<u64>>(
    least: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| *number >= least);
        let number = number.and_then(|number: u64| T::try_from(number).ok());
        number.ok_or_else(|| format!("a whole number of at least {least} is needed"))
    }
}

/// A number of at least 0 from the command line.
pub(crate) fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number),
        _ => Err("a number of at least 0 is needed".into()),
    }
}

/// A file that is read or written by its name alone: `-` stands for no stream.
pub(crate) fn named_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if path.as_os_str() == "-" { Err("a file is needed here, not a stream") } else { Ok(path) }
    })
}

/// A path from the command line; `None` where standard input or output is meant by `-` or nothing.
pub(crate) fn file(path: Option<&PathBuf>) -> Option<&Path> {
    path.map(PathBuf::as_path).filter(|path| path.as_os_str() != "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        taking_negative_numbers(Cli::command()).debug_assert();
    }

    /// The options of a command and of those below it that take a number.
    fn options_of_numbers(command: &clap::Command, path: &[String], found: &mut Vec<Vec<String>>) {
        for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
            let names = arg.get_value_names().unwrap_or_default();
            if let (Some(long), true) = (
                arg.get_long(),
                names.iter().any(|name| ["N", "X", "S", "MINUTES"].contains(&name.as_str())),
            ) {
                found.push([path, &[format!("--{long}"), "-1".into()]].concat());
            }
        }
        for sub in command.get_subcommands() {
            options_of_numbers(sub, &[path, &[sub.get_name().to_owned()]].concat(), found);
        }
    }

    #[test]
    fn a_negative_number_is_told_what_it_must_be() {
        let mut lines = Vec::new();
        options_of_numbers(&Cli::command(), &["regard".to_owned()], &mut lines);
        assert!(lines.len() > 30, "{lines:?}");
        for line in lines {
            let parsed = taking_negative_numbers(Cli::command()).try_get_matches_from(&line);
            let error = parsed.unwrap_err().to_string();
            // Two are refused later, by what they are for.
            if line
                .iter()
                .any(|word| ["--coverage-penalty", "--smooth-value"].contains(&word.as_str()))
            {
                continue;
            }
            let told = ["is needed", "is not in ", "expected a number"];
            assert!(told.iter().any(|words| error.contains(words)), "{line:?}: {error}");
        }
    }

    /// The words of a line of a shell script: blanks part words, single quotes keep them together.
    fn shell_words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (i, part) in line.split('\'').enumerate() {
            if i % 2 == 1 {
                words.push(part.to_owned());
            } else {
                words.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        words
    }

    fn check_examples(command: &mut clap::Command, n: &mut usize) {
        let help = command.get_after_long_help().or(command.get_after_help());
        let help = help.map(ToString::to_string).unwrap_or_default().replace("\\\n", " ");
        let examples = help.lines().filter(|line| line.starts_with("  "));
        for part in examples.flat_map(|line| line.split('|')) {
            let part = part.split(['>', '#']).next().unwrap_or_default().trim();
            if part.starts_with("regard ") && !part.starts_with("regard help") {
                let parsed = Cli::try_parse_from(shell_words(part));
                assert!(parsed.is_ok(), "{part}: {}", parsed.unwrap_err());
                *n += 1;
            }
        }
        for sub in command.get_subcommands_mut() {
            check_examples(sub, n);
        }
    }

    #[test]
    fn every_example_is_understood() {
        let mut n = 0;
        check_examples(&mut Cli::command(), &mut n);
        assert!(n > 30, "only {n} examples were found");
    }
}
