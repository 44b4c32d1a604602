//! Trains a tagger and prints how it goes: `quick_train OUT TRAIN DEV TEST [key=value]…`.
#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use regard_data::{Format, read_path};
use regard_report::{EvalRecord, StepRecord};
use regard_tasks::config::Layer;
use regard_tasks::tag::{LoadedTagger, Observer, TagConfig, TrainRequest, evaluate, train};

struct Print;
impl Observer for Print {
    fn evaluated(&mut self, r: &EvalRecord, best: bool) {
        println!(
            "epoch {} {:.0}s {:?} {}",
            r.epoch,
            r.elapsed_s,
            r.metrics,
            if best { "*" } else { "" }
        );
    }
    fn logged(&mut self, r: &StepRecord) {
        if r.step % 200 == 0 {
            println!(
                "step {} loss {:.4} {:.0} tok/s norm {:.2}",
                r.step, r.loss, r.tokens_per_s, r.grad_norm
            );
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let mut layers = vec![
        Layer::from_assignment(&format!("data.train={}", args[2]))?,
        Layer::from_assignment(&format!("data.dev={}", args[3]))?,
    ];
    for set in &args[5..] {
        layers.push(Layer::from_assignment(set)?);
    }
    let config = TagConfig::resolve(None, &layers)?;
    let out = Path::new(&args[1]);
    let stop = AtomicBool::new(false);
    let summary = train(&TrainRequest { config, out, stop: &stop }, &mut Print)?;
    let model = LoadedTagger::load(out)?;
    let test = read_path(Path::new(&args[4]), &Format::parse("auto", "", Path::new(&args[4]))?)?;
    let scores = evaluate(&model, &test)?;
    println!(
        "{} params {} seconds {:.0} test {:?}",
        summary.model,
        summary.n_parameters,
        summary.elapsed_s,
        scores.figures()
    );
    Ok(())
}
