//! The project's own chores. `cargo xtask help` lists them.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line: what it prints is its result"
)]

mod check;
mod chore;
mod cli_reference;
mod exact;
mod golden;
mod layers;
mod links;
mod tables;
mod texts;
mod workspace;

use std::process::ExitCode;

use chore::Chore;

/// 0: done; 1: a check failed; 2: the command line is wrong.
fn main() -> ExitCode {
    let chore = match Chore::parse(std::env::args().skip(1)) {
        Ok(chore) => chore,
        Err(error) => {
            eprintln!("error: {error:#}\n\n{}", chore::HELP);
            return ExitCode::from(2);
        }
    };
    match chore.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
