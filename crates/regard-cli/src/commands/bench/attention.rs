//! `regard bench attention`: attention in many variants.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use regard::report::{Align, Table};
use regard::tasks::bench::{BenchLine, chosen, measure_line, passes};

use super::seconds;
use crate::fault::Outcome;
use crate::output::{print, print_json, tell};
use crate::text::count;

#[derive(Debug, Args)]
pub(crate) struct AttentionArgs {
    /// Variant to measure, may be repeated; all unless named
    #[arg(long, value_name = "NAME")]
    variant: Vec<String>,

    /// Shape, may be repeated: long, short, small, small_16, small_25, small_64, own; all unless named
    #[arg(long, value_name = "NAME")]
    shape: Vec<String>,

    /// Pass: forward or forward_backward; both unless named
    #[arg(long, value_name = "NAME", value_parser = ["forward", "forward_backward"])]
    pass: Option<String>,

    /// Seconds to spend on each line
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,

    /// Print the cases and measure nothing
    #[arg(long)]
    list: bool,

    /// Print JSON lines, those that scripts/bench/compare reads
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &AttentionArgs) -> Result<Outcome> {
    let cases = chosen(&args.variant, &args.shape)?;
    if args.list {
        for case in &cases {
            print(&format!("{} {}\n", case.variant, case.shape))?;
        }
        return Ok(Outcome::Done);
    }
    let mut lines = Vec::new();
    for case in &cases {
        let wanted = passes(case).iter().copied();
        for pass in wanted.filter(|pass| args.pass.as_ref().is_none_or(|name| name == pass.name()))
        {
            let line = measure_line(case, pass, Duration::from_secs_f64(args.seconds))?;
            if args.json {
                print_json("bench", &line)?;
            } else {
                tell(&format!("{} {} {}", line.variant, line.shape.name, line.pass));
            }
            lines.push(line);
        }
    }
    if !args.json {
        print(&table(&lines))?;
    }
    Ok(Outcome::Done)
}

fn table(lines: &[BenchLine]) -> String {
    let left = |name| (name, Align::Left);
    let right = |name| (name, Align::Right);
    let mut table = Table::new([
        left("variant"),
        left("shape"),
        left("pass"),
        right("median ms"),
        right("min"),
        right("max"),
        right("runs"),
        right("GFLOP/s"),
        right("of peak"),
        right("GB/s"),
        right("extra MiB"),
    ]);
    for line in lines {
        let ms = |seconds: f64| format!("{:.3}", 1e3 * seconds);
        table.push([
            line.variant.clone(),
            line.shape.name.clone(),
            line.pass.to_string(),
            ms(line.seconds_median),
            ms(line.seconds_min),
            ms(line.seconds_max),
            line.runs.to_string(),
            format!("{:.1}", line.gflops),
            format!("{:.2}", line.peak_fraction),
            line.gbytes_per_s.map_or_else(|| "-".into(), |speed| format!("{speed:.1}")),
            format!("{:.1}", line.extra_peak_bytes as f64 / f64::from(1 << 20)),
        ]);
    }
    let machine = lines.first().map_or_else(String::new, |line| {
        let BenchLine { threads, simd, peak_gflops, .. } = line;
        let threads_text = count(*threads as u64, "thread");
        let memory = lines.iter().find_map(|line| line.memory_gbytes_per_s);
        let memory = memory.map_or_else(String::new, |s| format!(", {s:.0} GB/s read from memory"));
        format!(
            "{threads_text}, {simd}, {peak_gflops:.0} GFLOP/s of multiply-adds in registers{memory}\n\n"
        )
    });
    machine + &table.to_text()
}
