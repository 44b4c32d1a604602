//! `regard bench`: how fast this machine computes.

mod attention;
mod predict;
mod train;

use std::path::Path;

use anyhow::Result;
use clap::{Args, Subcommand};
use regard::tasks::bench::train::{TrainCase, Work};

use crate::fault::Outcome;
use crate::output::print;

/// Measure how fast attention, training and prediction are on this machine
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Attention, forward and with gradients, in many variants
    ///
    /// GFLOP/s count operations over allowed pairs alone, 4 a pair and number of a head's width forward and 14 with
    /// backward, and stand beside what the processor reaches by multiply-adds in registers, measured in
    /// the same run. Memory is what the call held at most, beside inputs and results.
    /// scripts/bench/compare alternates this with PyTorch and prints ratios.
    #[command(after_help = "\
Examples:
  regard bench attention --variant plain --variant causal --shape short
  regard bench attention --shape small --seconds 0.5 --json")]
    Attention(attention::AttentionArgs),

    /// Whole training steps of taggers of fixed sizes, or of one on a treebank
    ///
    /// A step is forward, cross-entropy, backward and Adam for one batch, without dropout. Sentences are drawn, or those of a treebank.
    ///
    /// The first step warms up and is not timed. GFLOP/s count the operations of matrix
    /// products alone. `blocks a step` is what is taken from the allocator in a step, `pool blocks` what
    /// the pool of arrays took from the system after the first step.
    /// Peak memory is the process's resident memory; for a true one measure one case at a time.
    /// scripts/bench/compare_train alternates this with PyTorch and prints ratios.
    #[command(after_help = "\
Examples:
  regard bench train --case small --steps 200
  regard bench train --model transformer --seconds 20 --json
  regard bench train --case small --save small.safetensors
  regard bench train --treebank en_ewt-ud-train.conllu.gz")]
    Train(train::TrainArgs),

    /// Labels for new sentences by taggers of fixed sizes, or of one for a treebank, one at a time and in bulk
    ///
    /// The cases are those of `bench train`, with their first weights; sentence i has 1 + (7·i mod 25) words. In bulk,
    /// sentences of about the same length share a batch of at most 2048 words. Sentences a second are
    /// those of the median pass over all sentences, after one that warms up.
    /// scripts/bench/compare_predict alternates this with PyTorch and ONNX Runtime and prints ratios.
    #[command(after_help = "\
Examples:
  regard bench predict --case tagger_32
  regard bench predict --model bilstm --seconds 5 --json
  regard bench predict --treebank en_ewt-ud-train.conllu.gz")]
    Predict(predict::PredictArgs),
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number from 0 to 3600".into()),
    }
}

/// The cases with what they train on; of a treebank, if one is named, the one that it makes.
fn work(treebank: Option<&Path>, cases: Vec<TrainCase>) -> Result<Vec<Work>> {
    Ok(match treebank {
        Some(path) => vec![Work::of_treebank(path)?],
        None => cases.into_iter().map(Work::drawn).collect(),
    })
}

/// Prints the names of cases and what they train.
fn list(cases: &[TrainCase]) -> Result<Outcome> {
    for case in cases {
        print(&format!("{} {}\n", case.name, case.model.name()))?;
    }
    Ok(Outcome::Done)
}

pub(crate) fn run(args: &BenchArgs) -> Result<Outcome> {
    match &args.what {
        What::Attention(args) => attention::run(args),
        What::Train(args) => train::run(args),
        What::Predict(args) => predict::run(args),
    }
}
