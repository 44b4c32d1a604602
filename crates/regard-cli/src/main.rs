//! The `regard` command: parse, call the library, print.
//!
//! Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 done
//! but a bar was missed, 2 usage, bad input or failure, 130 interrupted with everything saved.

#![allow(
    clippy::format_push_string,
    reason = "texts of a screen's length; `write!` would leave a result to ignore on each line"
)]

mod args;
mod commands;
mod fault;
mod identity;
mod output;
mod progress;
mod signals;
mod text;

use std::process::ExitCode;

use regard::tensor::memory::Counting;

use fault::Outcome;

/// So that `regard bench` can tell what a call needs.
#[global_allocator]
static MEMORY: Counting = Counting;

fn main() -> ExitCode {
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(help_or_fault) => {
            // Where nobody listens any more, there is nobody to tell.
            let _ = help_or_fault.print();
            return ExitCode::from(u8::try_from(help_or_fault.exit_code()).unwrap_or(2));
        }
    };
    match commands::run(cli) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::BarMissed) => ExitCode::from(1),
        Ok(Outcome::Interrupted) => ExitCode::from(signals::INTERRUPTED),
        Err(error) if fault::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::tell(&fault::describe(&error));
            ExitCode::from(2)
        }
    }
}
