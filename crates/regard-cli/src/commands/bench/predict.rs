//! `regard bench predict`: labels for new sentences.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use regard::report::{Align, Table};
use regard::tasks::bench::train::{chosen, measure_prediction};

use super::{list, seconds, work};
use crate::args::named_file;
use crate::fault::Outcome;
use crate::output::{print, print_json, tell};
use crate::text::count;

#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// Case to measure, may be repeated: tagger_32, tagger_10000, lstm, bilstm, gru, small; all unless named
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,

    /// Only cases of this model, may be repeated: transformer, lstm, bilstm, gru
    #[arg(long, value_name = "NAME")]
    model: Vec<String>,

    /// Label the sentences of the first batches of this labelled file by the `transformer` of `train tag`, in place of the cases
    #[arg(long, value_name = "FILE", value_parser = named_file(), conflicts_with_all = ["case", "model", "list"])]
    treebank: Option<PathBuf>,

    /// Measure each of the two ways for so many seconds, at least three passes over the sentences
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    seconds: f64,

    /// Print the cases and measure nothing
    #[arg(long)]
    list: bool,

    /// Print JSON lines, those that scripts/bench/compare_predict reads
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &PredictArgs) -> Result<Outcome> {
    let cases = chosen(&args.case, &args.model)?;
    if args.list {
        return list(&cases);
    }
    let mut table = Table::new([
        ("case", Align::Left),
        ("sentences", Align::Right),
        ("tokens", Align::Right),
        ("one at a time, sentences/s", Align::Right),
        ("in bulk", Align::Right),
    ]);
    let mut machine = String::new();
    for work in &work(args.treebank.as_deref(), cases)? {
        let case = work.case;
        let line = measure_prediction(work, Duration::from_secs_f64(args.seconds))?;
        if args.json {
            print_json("bench", &line)?;
            continue;
        }
        tell(&format!("{}: {:.0} sentences/s in bulk", case.name, line.bulk_per_s));
        machine = format!("{}, {}\n", count(line.threads as u64, "thread"), line.simd);
        table.push([
            case.name.into(),
            line.sentences.to_string(),
            line.tokens.to_string(),
            format!("{:.0}", line.one_per_s),
            format!("{:.0}", line.bulk_per_s),
        ]);
    }
    if !args.json {
        print(&format!("{machine}\n{}", table.to_text()))?;
    }
    Ok(Outcome::Done)
}
