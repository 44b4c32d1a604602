//! `regard train`: files to a run folder.

mod tag;
mod translate;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use regard::report::{RunSummary, StopReason};
use regard::tasks::config::Layer;

use crate::fault::{Fault, Outcome};
use crate::output::{print, print_json, tell};
use crate::progress::Progress;
use crate::signals::STOP;
use crate::text::{count, duration, figure, number, shell_word, unit};

/// Train a model into a new run folder
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct TrainArgs {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Tag(Box<tag::TagArgs>),
    Translate(Box<translate::TranslateArgs>),
}

pub(crate) fn run(args: &TrainArgs) -> Result<Outcome> {
    let (task, out, json) = match &args.task {
        Task::Tag(args) => ("tag", &args.out, args.json),
        Task::Translate(args) => ("translate", &args.out, args.json),
    };
    let mut progress = Progress::new(json, &STOP);
    let result = match &args.task {
        Task::Tag(args) => tag::run(args, &mut progress),
        Task::Translate(args) => translate::run(args, &mut progress),
    };
    let closed = progress.finish();
    let summary = result?;
    if let Some(error) = closed {
        return Err(error);
    }
    if json {
        print_json("summary", &summary)?;
    } else {
        print(&describe(&summary))?;
    }
    if summary.stop == StopReason::Interrupted {
        tell(&format!(
            "interrupted after {}; everything is saved. Go on with:\n  regard train {task} --resume --out {}",
            count(summary.steps, "step"),
            shell_word(out)
        ));
        return Ok(Outcome::Interrupted);
    }
    if !json {
        tell(&match &args.task {
            Task::Tag(args) => tag::next(args, &summary),
            Task::Translate(args) => translate::next(args, &summary),
        });
    }
    Ok(Outcome::Done)
}

/// The sources of settings: a file, flags as TOML, and `--set`.
fn layers(file: Option<&Path>, flags: &str, set: &[String]) -> Result<Vec<Layer>> {
    let mut layers = Vec::new();
    if let Some(path) = file {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the settings in {}", path.display()))?;
        let mut layer = Layer::from_toml(&path.display().to_string(), &text)?;
        // Facts of the run that the file may come from.
        layer.table.remove("run");
        layers.push(layer);
    }
    layers.push(Layer::from_toml("the command line", flags)?);
    for assignment in set {
        layers.push(Layer::from_assignment(assignment)?);
    }
    Ok(layers)
}

fn nothing_to_train_on(flag: &str) -> Fault {
    Fault::new("there is no file to train on").hint(format!("name one with {flag}"))
}

/// A path that can be written into a run's settings.
fn utf8(path: &Path) -> Result<&str> {
    let fault = || Fault::new(format!("{}: the path is not UTF-8", path.display()));
    Ok(path.to_str().ok_or_else(|| fault().hint("rename the file; settings are UTF-8 text"))?)
}

fn describe(summary: &RunSummary) -> String {
    let how = match summary.stop {
        StopReason::Finished => "finished",
        StopReason::EarlyStop => "stopped early, since the development score no longer rose",
        StopReason::TimeLimit => "stopped at the time limit",
        StopReason::Interrupted => "interrupted",
    };
    let mut text = format!(
        "{}: {how} after {}, {}, {}\n",
        summary.model,
        count(summary.steps, "step"),
        count(summary.epochs, "epoch"),
        duration(summary.elapsed_s)
    );
    if summary.metrics.is_empty() {
        text += "no score on a development file yet; the newest weights are kept\n";
    } else {
        text += &format!("best on the development file, after step {}:\n", summary.best_step);
        for (key, value) in &summary.metrics {
            text += &format!("  {:<20} {:>6}{}\n", figure(key), number(key, *value), unit(key));
        }
    }
    text
}
