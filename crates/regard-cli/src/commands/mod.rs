//! The commands, one file each: its arguments, its help, and what it does.

pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod evaluate;
pub(crate) mod look;
pub(crate) mod mechanisms;
pub(crate) mod predict;
pub(crate) mod score;
mod search_args;
mod settings;
pub(crate) mod train;

use anyhow::{Context, Result};

use crate::args::{Cli, Command};
use crate::fault::Outcome;

/// Does what the command line says.
///
/// # Errors
/// Whatever went wrong, as a chain of causes.
pub(crate) fn run(cli: Cli) -> Result<Outcome> {
    if let Some(name) = regard::tensor::simd::unknown_name() {
        anyhow::bail!("REGARD_SIMD={name}: no such level; take plain, avx2 or avx512");
    }
    if let Some(threads) = cli.threads {
        regard::tensor::parallel::set_threads(threads.into())
            .context("cannot start the threads asked for")?;
    }
    // On a thread of the pool, so that no parallel call has to wake one and wait for it.
    regard::tensor::parallel::within(|| dispatch(cli.command))
}

fn dispatch(command: Command) -> Result<Outcome> {
    match command {
        Command::Train(args) => train::run(&args),
        Command::Evaluate(args) => evaluate::run(&args),
        Command::Predict(args) => predict::run(&args),
        Command::Look(args) => look::run(&args),
        Command::Score(args) => score::run(&args),
        Command::Mechanisms(args) => mechanisms::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Completions(args) => completions::run(&args),
    }
}
