//! `regard demo reversal`: what one vector can hold, by length.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use regard::report::{Align, Table, lines_svg};
use regard::tasks::translate::ModelKind;
use regard::tasks::translate::reversal::{
    LENGTHS, ReversalSettings, reversal, test_pairs, train_pairs,
};

use super::DemoArgs;
use crate::fault::{Fault, Outcome};
use crate::output::{print, print_json, save, tell, writable};
use crate::progress::Progress;
use crate::signals::{STOP, stop_on_signal};
use crate::text::percent;

/// Without attention, and with it.
const MODELS: [ModelKind; 3] = [ModelKind::Seq2seq, ModelKind::Bahdanau, ModelKind::Transformer];

#[derive(Debug, Args)]
pub(super) struct ReversalArgs {
    /// Passes over the training strings [default: 30]
    #[arg(long, value_name = "N", value_parser = crate::args::at_least::<u64>(1))]
    epochs: Option<u64>,

    /// Minutes of training for each model, at most
    #[arg(long, value_name = "MINUTES", value_parser = crate::args::minutes)]
    minutes: Option<f64>,

    /// Strings to learn from [default: 20000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    strings: Option<u32>,

    /// Only write the strings into a folder: train.src, train.tgt, test-N.src and test-N.tgt
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

impl ReversalArgs {
    /// The first flag that is given.
    pub(super) fn given(&self) -> Option<&'static str> {
        [
            (self.epochs.is_some(), "--epochs"),
            (self.minutes.is_some(), "--minutes"),
            (self.strings.is_some(), "--strings"),
            (self.data.is_some(), "--data"),
        ]
        .into_iter()
        .find_map(|(given, flag)| given.then_some(flag))
    }
}

pub(super) fn run(all: &DemoArgs) -> Result<Outcome> {
    let args = &all.reversal;
    let defaults = ReversalSettings::default();
    let settings = ReversalSettings {
        train: args.strings.map_or(defaults.train, |n| n as usize),
        epochs: args.epochs.unwrap_or(defaults.epochs),
        minutes: args.minutes.unwrap_or(defaults.minutes),
        seed: all.seed,
        ..defaults
    };
    if let Some(folder) = &args.data {
        return write_data(folder, &settings);
    }
    let out = all.out.as_deref().unwrap_or(Path::new("reversal.svg"));
    writable(out)?;
    stop_on_signal();
    let mut names = vec![("length".to_string(), Align::Right)];
    let mut columns: Vec<Vec<String>> = Vec::new();
    let mut curves = Vec::new();
    for kind in MODELS {
        let mut progress = Progress::new(false, &STOP);
        let row = reversal(kind, &settings, &STOP, &mut progress);
        progress.finish();
        if STOP.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(Outcome::Interrupted);
        }
        let row = row?;
        tell(&format!(
            "  {}: {} % of the unseen strings of 1 to 25 digits exactly right, {:.0} s",
            row.model,
            percent(Some(row.exact)),
            row.seconds
        ));
        if all.json {
            print_json("reversal-model", &row)?;
        }
        names.push((row.model.clone(), Align::Right));
        let cells = [row.parameters.to_string(), format!("{:.0}", row.seconds)];
        let rates = [row.exact].into_iter().chain(row.by_length.iter().copied());
        columns.push(rates.map(|rate| percent(Some(rate))).chain(cells).collect());
        let points = LENGTHS.iter().zip(&row.by_length).map(|(n, rate)| (*n as f64, 100.0 * rate));
        curves.push((row.model, points.collect()));
    }
    if !all.json {
        let mut table = Table::new(names);
        let lengths = LENGTHS.iter().map(ToString::to_string);
        let rows = ["1-25".to_string()].into_iter().chain(lengths);
        let rows = rows.chain(["parameters".into(), "seconds".into()]);
        for (i, name) in rows.enumerate() {
            table.push([name].into_iter().chain(columns.iter().map(|column| column[i].clone())));
        }
        print(&format!(
            "Unseen strings of digits, written from their end: exactly right, in per cent, by length\n\
             (training saw lengths 1 to 25)\n\n{}",
            table.to_text()
        ))?;
    }
    let svg = lines_svg("Strings written from their end, exactly right (%)", "length", &curves)?;
    save(out, svg.as_bytes(), "exact answers by length")?;
    Ok(Outcome::Done)
}

fn write_data(folder: &Path, settings: &ReversalSettings) -> Result<Outcome> {
    if folder.join("train.src").exists() {
        let fault = Fault::new(format!("{} holds strings already", folder.display()));
        return Err(fault.hint("name another folder, or remove these files").into());
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let train = train_pairs(settings);
    let tests = LENGTHS.map(|len| (format!("test-{len}"), test_pairs(settings, len, &train)));
    for (name, pairs) in [("train".to_string(), train)].into_iter().chain(tests) {
        let side = |of: fn(&regard::data::Pair) -> &str| {
            pairs.iter().flat_map(|pair| [of(pair), "\n"]).collect::<String>()
        };
        for (ending, text) in [("src", side(|p| &p.source)), ("tgt", side(|p| &p.target))] {
            let path = folder.join(format!("{name}.{ending}"));
            regard::report::write_atomic(&path, text.as_bytes())?;
        }
    }
    tell(&format!("wrote the strings into {}", folder.display()));
    Ok(Outcome::Done)
}
