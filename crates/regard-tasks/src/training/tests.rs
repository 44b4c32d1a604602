//! The loop with a learner whose losses and scores are written down beforehand.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use regard_metrics::Metric;
use regard_nn::optim::OptimiserConfig;
use regard_nn::{Init, ParamSpecs, Params, Tape, Var};
use regard_report::{EvalRecord, RunSummary};
use regard_tensor::{Key, Tensor};

use super::{DevScores, Learner, LoopSettings, NEVER, Observer, ScheduleKind, Trainer};
use crate::TaskError;
use crate::run::{RunFolder, files};

/// An epoch has one step; its losses and the scores after it stand in lists.
struct Scripted {
    params: Params<f32>,
    losses: Vec<f32>,
    scores: Vec<f64>,
}

impl Scripted {
    fn new(losses: &[f32], scores: &[f64]) -> Self {
        let mut specs = ParamSpecs::new();
        specs.add("weight", &[1], Init::Constant(0.0));
        Self { params: Params::new(specs, 1), losses: losses.into(), scores: scores.into() }
    }
}

impl Learner for Scripted {
    const TASK: &'static str = "scripted";

    fn model_name(&self) -> &'static str {
        "scripted"
    }

    fn settings(&self) -> LoopSettings {
        LoopSettings {
            epochs: self.losses.len() as u64,
            minutes: 0.0,
            optimiser: OptimiserConfig::Sgd { momentum: 0.0, weight_decay: 0.0 },
            lr: 0.1,
            schedule: ScheduleKind::Constant,
            warmup: 0,
            floor: 0.0,
            clip: 0.0,
            accumulate: 1,
            average: 0.0,
            patience: 0,
            checkpoint_every: 0,
            seed: 1,
        }
    }

    fn metric(&self) -> Metric {
        Metric::LOSS
    }

    fn params(&self) -> &Params<f32> {
        &self.params
    }

    fn params_mut(&mut self) -> &mut Params<f32> {
        &mut self.params
    }

    /// The batch names its epoch.
    fn batches(&self, epoch: u64) -> Vec<Vec<usize>> {
        vec![vec![epoch as usize - 1]]
    }

    fn tokens(&self, _: &[usize]) -> usize {
        1
    }

    fn loss(&self, tape: &mut Tape<'_, f32>, batch: &[usize], _: Key) -> Result<Var, TaskError> {
        let loss = Tensor::from_slice(&[1], &[self.losses[batch[0]]]);
        Ok(tape.constant(loss.expect("a loss is one number")))
    }

    fn chance_loss(&self) -> f64 {
        1.0
    }

    fn evaluate(&self, epoch: u64, _: &AtomicBool) -> Result<Option<DevScores>, TaskError> {
        let Some(value) = self.scores.get(epoch as usize - 1).copied() else { return Ok(None) };
        let figures = BTreeMap::from([("loss".to_string(), value)]);
        Ok(Some(DevScores { figures, value, ..DevScores::default() }))
    }

    fn fingerprint(&self, _: bool) -> String {
        String::new()
    }
}

/// Which evaluations were the best so far.
#[derive(Default)]
struct Bests(Vec<bool>);

impl Observer for Bests {
    fn evaluated(&mut self, _: &EvalRecord, is_best: bool) {
        self.0.push(is_best);
    }
}

fn go(folder: &Path, losses: &[f32], scores: &[f64]) -> (Result<RunSummary, TaskError>, Vec<bool>) {
    let mut trainer = Trainer::new(Scripted::new(losses, scores)).unwrap();
    trainer.record(RunFolder::create(&folder.join("run")).unwrap(), "").unwrap();
    let mut bests = Bests::default();
    (trainer.go(&NEVER, &mut bests), bests.0)
}

#[test]
fn a_score_that_is_no_finite_number_is_never_the_best() {
    let folder = tempfile::tempdir().unwrap();
    let scores = [f64::NAN, f64::NEG_INFINITY, 0.5, f64::NAN, 0.4];
    let (summary, bests) = go(folder.path(), &[1.0; 5], &scores);
    let summary = summary.unwrap();
    assert_eq!(bests, [false, false, true, false, true]);
    assert_eq!((summary.best_value, summary.best_step), (0.4, 5));
}

#[test]
fn a_training_without_one_finite_score_has_diverged() {
    let folder = tempfile::tempdir().unwrap();
    let (ended, bests) = go(folder.path(), &[1.0; 2], &[f64::NAN, f64::INFINITY]);
    assert!(matches!(ended, Err(TaskError::Diverged { .. })), "{ended:?}");
    assert_eq!(bests, [false, false]);
    assert!(!folder.path().join("run").join(files::MODEL).exists());
}

#[test]
fn a_last_loss_of_a_thousand_times_that_of_guessing_has_run_away_where_no_score_speaks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let error = go(folder.path(), &[1.0, 1001.0], &[]).0.unwrap_err();
    assert!(matches!(error, TaskError::RanAway { step: 2, .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("was 1.0e3 at step 2, the last, and that of guessing is 1.000;"),
        "{text}"
    );
    assert!(text.contains("/run first"), "{text}");
    for (losses, scores) in [
        // Below it; a training that came back; weights that the development file chose.
        ([1.0, 999.0], &[][..]),
        ([1001.0, 1.0], &[]),
        ([1.0, 1001.0], &[0.5, 0.4]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        go(folder.path(), &losses, scores).0.unwrap();
    }
}
