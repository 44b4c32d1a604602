//! The command line of the chores.

use anyhow::{Result, bail};

use crate::exact::{self, Exact};
use crate::{check, cli_reference, golden, layers, tables, texts};

pub(crate) const HELP: &str = "\
usage: cargo xtask CHORE

  check [--only STEPS] [--skip STEPS]   all that must hold before a commit, cheapest first;
                                        STEPS: names with commas, as `check` prints them
  layers                                which crate may depend on which
  texts                                 no machine paths in files, no dead links in *.md
  golden [--python PATH] [NAME...]      run scripts/golden/NAME.py again and compare with NAME.json;
                                        all, if none is named
  exact [--cases N | --seed S | --faults]
                                        compare the engine with the plain reference on N random problems
                                        (10000) or on the one of seed S; or show that the fixed problems
                                        catch deliberate faults
  cli-reference [--check]               write docs/cli.md from the --help of every command
                                        (--check: only say whether it is stale)
  tables NAME [--jobs N] [--threads N]  train and score all rows of a table of the README (ewt, btc),
                                        N runs at a time of N threads each; takes long
  help                                  this text";

/// What to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Chore {
    Check { only: Vec<String>, skip: Vec<String> },
    Layers,
    Texts,
    Golden { python: String, names: Vec<String> },
    Exact(Exact),
    CliReference { is_check: bool },
    Tables { name: String, jobs: usize, threads: usize },
    Help,
}

impl Chore {
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut rest: Vec<String> = arguments.into_iter().collect();
        if rest.is_empty() {
            bail!("which chore?");
        }
        let name = rest.remove(0);
        let chore = match name.as_str() {
            "check" => {
                let only = names(take_option(&mut rest, "--only")?.as_deref())?;
                let skip = names(take_option(&mut rest, "--skip")?.as_deref())?;
                Self::Check { only, skip }
            }
            "layers" => Self::Layers,
            "texts" => Self::Texts,
            "golden" => {
                let python =
                    take_option(&mut rest, "--python")?.unwrap_or_else(|| "python3".to_owned());
                let names = std::mem::take(&mut rest);
                if let Some(option) = names.iter().find(|name| name.starts_with('-')) {
                    bail!("golden does not take {option:?}");
                }
                Self::Golden { python, names }
            }
            "exact" => {
                let mut number = |option| -> Result<Option<u64>> {
                    Ok(take_option(&mut rest, option)?.map(|text| text.parse()).transpose()?)
                };
                let (cases, seed) = (number("--cases")?, number("--seed")?);
                Self::Exact(match (cases, seed, take_flag(&mut rest, "--faults")) {
                    (cases, None, false) => Exact::Cases(cases.unwrap_or(exact::CASES)),
                    (None, Some(seed), false) => Exact::Seed(seed),
                    (None, None, true) => Exact::Faults,
                    _ => bail!("exact takes one of --cases, --seed and --faults"),
                })
            }
            "cli-reference" => Self::CliReference { is_check: take_flag(&mut rest, "--check") },
            "tables" => {
                let mut number = |option| -> Result<usize> {
                    Ok(take_option(&mut rest, option)?.map_or(Ok(1), |text| text.parse())?)
                };
                let (jobs, threads) = (number("--jobs")?, number("--threads")?);
                if rest.is_empty() {
                    bail!("which table?");
                }
                Self::Tables { name: rest.remove(0), jobs, threads }
            }
            "help" | "--help" | "-h" => Self::Help,
            _ => bail!("there is no chore {name:?}"),
        };
        if let Some(extra) = rest.first() {
            bail!("{name} does not take {extra:?}");
        }
        Ok(chore)
    }

    pub(crate) fn run(&self) -> Result<()> {
        match self {
            Self::Check { only, skip } => check::run(only, skip),
            Self::Layers => layers::run(),
            Self::Texts => texts::run(),
            Self::Golden { python, names } => golden::run(python, names),
            Self::Exact(what) => exact::run(*what),
            Self::CliReference { is_check: true } => cli_reference::check(),
            Self::CliReference { is_check: false } => cli_reference::write(),
            Self::Tables { name, jobs, threads } => tables::run(name, *jobs, *threads),
            Self::Help => {
                println!("{HELP}");
                Ok(())
            }
        }
    }
}

/// Splits a list with commas; every name must be a step of `check`.
fn names(list: Option<&str>) -> Result<Vec<String>> {
    let names: Vec<String> =
        list.into_iter().flat_map(|list| list.split(',')).map(String::from).collect();
    for name in &names {
        if !check::steps().any(|step| step.name == name) {
            let known: Vec<&str> = check::steps().map(|step| step.name).collect();
            bail!("there is no step {name:?}; the steps are {}", known.join(", "));
        }
    }
    Ok(names)
}

fn take_flag(rest: &mut Vec<String>, name: &str) -> bool {
    let before = rest.len();
    rest.retain(|argument| argument != name);
    rest.len() < before
}

/// Removes `name VALUE` or `name=VALUE`.
fn take_option(rest: &mut Vec<String>, name: &str) -> Result<Option<String>> {
    for at in 0..rest.len() {
        if rest[at] == name {
            rest.remove(at);
            if at == rest.len() {
                bail!("{name} needs a value");
            }
            return Ok(Some(rest.remove(at)));
        }
        if let Some(value) = rest[at].strip_prefix(name).and_then(|end| end.strip_prefix('=')) {
            let value = value.to_owned();
            rest.remove(at);
            return Ok(Some(value));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Chore> {
        Chore::parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn reads_every_chore() {
        let owned =
            |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
        for (line, chore) in [
            ("check", Chore::Check { only: vec![], skip: vec![] }),
            (
                "check --skip tests,docs",
                Chore::Check { only: vec![], skip: owned(&["tests", "docs"]) },
            ),
            ("check --only=fmt", Chore::Check { only: owned(&["fmt"]), skip: vec![] }),
            ("layers", Chore::Layers),
            ("texts", Chore::Texts),
            ("golden", Chore::Golden { python: "python3".to_owned(), names: vec![] }),
            (
                "golden a --python bin/py b",
                Chore::Golden { python: "bin/py".to_owned(), names: owned(&["a", "b"]) },
            ),
            ("exact", Chore::Exact(Exact::Cases(10_000))),
            ("exact --cases 70", Chore::Exact(Exact::Cases(70))),
            ("exact --seed=3", Chore::Exact(Exact::Seed(3))),
            ("exact --faults", Chore::Exact(Exact::Faults)),
            ("cli-reference", Chore::CliReference { is_check: false }),
            ("cli-reference --check", Chore::CliReference { is_check: true }),
            ("--help", Chore::Help),
        ] {
            assert_eq!(parse(line).unwrap(), chore, "{line}");
        }
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for (line, message) in [
            ("", "which chore?"),
            ("chek", "there is no chore \"chek\""),
            ("layers --fast", "layers does not take \"--fast\""),
            ("golden --pyton x", "golden does not take \"--pyton\""),
            ("check --skip test", "there is no step \"test\"; the steps are fmt, "),
            ("exact --seed 1 --faults", "exact takes one of"),
            ("exact --seed x", "invalid digit"),
            ("check --skip", "--skip needs a value"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.starts_with(message), "{line}: {error}");
        }
    }
}
