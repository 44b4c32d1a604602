//! `regard completions`: what a shell needs to complete commands and flags.

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::fault::Outcome;
use crate::output::print;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  regard completions bash > ~/.local/share/bash-completion/completions/regard
  regard completions zsh > ~/.zfunc/_regard
  regard completions fish > ~/.config/fish/completions/regard.fish"
)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "regard", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Done)
}
