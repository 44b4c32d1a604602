//! `docs/cli.md`: the `--help` of every command, written by the command itself.

use std::env::consts::EXE_SUFFIX;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace::{self, cargo};

const FILE: &str = "docs/cli.md";
const REMEDY: &str = "run `cargo xtask cli-reference`";
const HEADING: &str = "\
# Command line reference

Written by `cargo xtask cli-reference` from the `--help` of every command; changes made here are lost.
";

/// Writes the file.
///
/// # Errors
/// If the binary does not build, or `--help` of a command fails.
pub(crate) fn write() -> Result<()> {
    let text = reference()?;
    fs::write(workspace::root().join(FILE), text)
        .with_context(|| format!("cannot write {FILE}"))?;
    println!("wrote {FILE}");
    Ok(())
}

/// # Errors
/// If the file is missing or says something else than the binary.
pub(crate) fn check() -> Result<()> {
    let Ok(old) = fs::read_to_string(workspace::root().join(FILE)) else {
        bail!("{FILE} is missing; {REMEDY}");
    };
    let new = reference()?;
    if let Some(message) = first_difference(&old, &new) {
        bail!("{FILE} is stale: {message}; {REMEDY}");
    }
    println!("{FILE} is up to date");
    Ok(())
}

fn first_difference(old: &str, new: &str) -> Option<String> {
    if old == new {
        return None;
    }
    let same = old.lines().zip(new.lines()).take_while(|(old, new)| old == new).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("(the end)").to_owned();
    Some(format!("line {} is {:?} and must be {:?}", same + 1, line(old), line(new)))
}

fn reference() -> Result<String> {
    workspace::run(&mut cargo(["build", "--release", "--quiet", "--package", "regard-cli"]))?;
    let mut text = HEADING.to_owned();
    describe(&binary()?, &mut Vec::new(), &mut text)?;
    Ok(text)
}

fn binary() -> Result<PathBuf> {
    let metadata = workspace::metadata()?;
    let target =
        metadata["target_directory"].as_str().context("cargo metadata lacks target_directory")?;
    Ok(Path::new(target).join("release").join(format!("regard{EXE_SUFFIX}")))
}

/// Appends the help of `regard path…` and, depth first, of each of its commands.
fn describe(binary: &Path, path: &mut Vec<String>, text: &mut String) -> Result<()> {
    let mut command = Command::new(binary);
    // Help is wrapped to the terminal's width: give it none, and a width that is always the same.
    command.args(path.iter()).arg("--help").stdin(Stdio::null());
    command.env("COLUMNS", "100").env("NO_COLOR", "1");
    let help = workspace::output(&mut command)?;

    let name = [&["regard".to_owned()], path.as_slice()].concat().join(" ");
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    write!(text, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n"))?;
    for subcommand in subcommands(&help) {
        path.push(subcommand.to_owned());
        describe(binary, path, text)?;
        path.pop();
    }
    Ok(())
}

/// The names in the list below `Commands:`, but for `help`, which repeats the others.
fn subcommands(help: &str) -> Vec<&str> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    // The list ends at the next heading; the lines of a wrapped description are indented further.
    list.take_while(|line| line.is_empty() || line.starts_with(' '))
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with(|c: char| c.is_ascii_alphanumeric()))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_commands_in_a_help_text() {
        let help = "Attention\n\nUsage: regard [OPTIONS] <COMMAND>\n\nCommands:\n  train       Train a model\n              \
                    and save it\n  score-all   Compare\n\n  help        Print this message\n\nOptions:\n  -h, --help  Print help\n";
        assert_eq!(subcommands(help), ["train", "score-all"]);
        assert_eq!(subcommands("Usage: regard demo\n\nOptions:\n  x  y\n"), [""; 0]);
    }

    #[test]
    fn names_the_first_line_that_differs() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        for (old, new, message) in [
            ("a\nb\n", "a\nc\n", "line 2 is \"b\" and must be \"c\""),
            ("a\n", "a\nc\n", "line 2 is \"(the end)\" and must be \"c\""),
        ] {
            assert_eq!(first_difference(old, new).as_deref(), Some(message));
        }
    }
}
