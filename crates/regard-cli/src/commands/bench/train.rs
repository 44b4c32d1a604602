//! `regard bench train`: whole training steps.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use regard::report::{Align, Table};
use regard::tasks::bench::train::{TrainLine, Work, chosen, measure_training, save_start};
use regard::tasks::run::files;

use super::{list, seconds, work};
use crate::args::named_file;
use crate::fault::Outcome;
use crate::identity::{Source, place};
use crate::output::{beside_run, not_input, print, print_json, tell};
use crate::text::count;

#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    /// Case to measure, may be repeated: tagger_32, tagger_10000, lstm, bilstm, gru, small; all unless named
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,

    /// Only cases of this model, may be repeated: transformer, lstm, bilstm, gru
    #[arg(long, value_name = "NAME")]
    model: Vec<String>,

    /// Measure the `transformer` of `train tag` on the first batches of this labelled file, in place of the cases
    #[arg(long, value_name = "FILE", value_parser = named_file(), conflicts_with_all = ["case", "model", "list"])]
    treebank: Option<PathBuf>,

    /// Steps of each case, the first of which warms up
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(4..=100_000))]
    steps: u32,

    /// Begin no further step of a case after so many seconds, once there are four
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,

    /// Write one case's first weights and batches (safetensors) for another program, and measure
    /// nothing
    #[arg(long, value_name = "FILE", value_parser = named_file(), conflicts_with_all = ["steps", "seconds", "json", "list"])]
    save: Option<PathBuf>,

    /// Print the cases and measure nothing
    #[arg(long)]
    list: bool,

    /// Print JSON lines, those that scripts/bench/compare_train reads
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &TrainArgs) -> Result<Outcome> {
    let cases = chosen(&args.case, &args.model)?;
    if args.list {
        return list(&cases);
    }
    if let Some(path) = &args.save {
        let output = [("--save", Some(path.as_path()))];
        let input = args.treebank.as_deref().map(Source::File);
        not_input(input.as_slice(), &output)?;
        // A folder that holds a run keeps its files.
        let place = place(path);
        if let Some(folder) = place.parent().filter(|folder| folder.join(files::CONFIG).exists()) {
            beside_run(folder, &output)?;
        }
    }
    let work = work(args.treebank.as_deref(), cases)?;
    if let Some(path) = &args.save {
        let [work] = &work[..] else {
            bail!("--save takes one case, these are {}; name one by --case", names(&work));
        };
        save_start(work, path)?;
        tell(&format!("wrote {} (the start of {})", path.display(), work.case.name));
        return Ok(Outcome::Done);
    }
    let mut lines = Vec::new();
    for work in &work {
        let budget = args.seconds.map(Duration::from_secs_f64);
        let line = measure_training(work, args.steps as usize, budget)?;
        if args.json {
            print_json("bench", &line)?;
        } else {
            tell(&format!("{}: {:.0} tokens/s", work.case.name, line.tokens_per_s));
        }
        lines.push(line);
    }
    if !args.json {
        print(&text(&lines))?;
    }
    Ok(Outcome::Done)
}

fn names(work: &[Work]) -> String {
    work.iter().map(|work| work.case.name).collect::<Vec<_>>().join(", ")
}

/// The machine, a table of speed, one of memory and one of where the time goes.
fn text(lines: &[TrainLine]) -> String {
    let machine = lines.first().map_or_else(String::new, |line| {
        let TrainLine { threads, simd, peak_gflops, .. } = line;
        let threads_text = count(*threads as u64, "thread");
        format!("{threads_text}, {simd}, {peak_gflops:.0} GFLOP/s of multiply-adds in registers\n")
    });
    let tables = [speed(lines), memory(lines), split(lines)];
    tables.into_iter().fold(machine, |text, table| text + "\n" + &table.to_text())
}

fn columns<const N: usize>(right: [&'static str; N]) -> Table {
    let right = right.into_iter().map(|name| (name, Align::Right));
    Table::new(std::iter::once(("case", Align::Left)).chain(right))
}

fn ms(seconds: f64) -> String {
    format!("{:.2}", 1e3 * seconds)
}

fn speed(lines: &[TrainLine]) -> Table {
    let mut table = columns([
        "parameters",
        "tokens/s",
        "min",
        "max",
        "ms a step",
        "steps",
        "GFLOP/s",
        "of peak",
        "loss at 1",
        "at 50",
    ]);
    for line in lines {
        let loss =
            |step: usize| line.losses.get(step - 1).map_or("-".into(), |l| format!("{l:.4}"));
        table.push([
            line.case.name.into(),
            line.parameters.to_string(),
            format!("{:.0}", line.tokens_per_s),
            format!("{:.0}", line.tokens_per_s_min),
            format!("{:.0}", line.tokens_per_s_max),
            ms(line.seconds_median),
            line.steps.to_string(),
            format!("{:.1}", line.gflops),
            format!("{:.2}", line.peak_fraction),
            loss(1),
            loss(50),
        ]);
    }
    table
}

fn memory(lines: &[TrainLine]) -> Table {
    let mut table = columns(["peak MiB", "before", "blocks a step", "KiB a step", "pool blocks"]);
    let mib = |bytes: Option<usize>| {
        bytes
            .map_or_else(|| "-".into(), |bytes| format!("{:.0}", bytes as f64 / f64::from(1 << 20)))
    };
    for line in lines {
        table.push([
            line.case.name.into(),
            mib(line.resident_peak_bytes),
            mib(line.resident_before_bytes),
            line.blocks_per_step.to_string(),
            format!("{:.1}", line.bytes_per_step as f64 / 1024.0),
            line.pool_blocks_after_first.to_string(),
        ]);
    }
    table
}

/// Milliseconds of a step's parts, then of its kinds of operators.
fn split(lines: &[TrainLine]) -> Table {
    let left = |name| (name, Align::Left);
    let right = |name| (name, Align::Right);
    let mut table = Table::new([
        left("case"),
        left("part"),
        right("calls"),
        right("forward ms"),
        right("backward ms"),
        right("update ms"),
    ]);
    for line in lines {
        let (name, phases) = (line.case.name, line.phases);
        table.push([
            name.into(),
            "step".into(),
            "1".into(),
            ms(phases.forward),
            ms(phases.backward),
            ms(phases.optimiser),
        ]);
        for part in &line.operators {
            table.push([
                name.into(),
                part.name.into(),
                part.calls.to_string(),
                ms(part.forward),
                ms(part.backward),
                String::new(),
            ]);
        }
    }
    table
}
