//! Training, whatever the task: batches, steps, evaluation, checkpoints, resuming.
//!
//! | file | does |
//! |---|---|
//! | `mod.rs` | the loop, and what a task must tell it (`Learner`) |
//! | `checkpoint.rs` | what a run needs to go on |
//! | `verdict.rs` | what speaks against a training: numbers that ran away, or came to nothing |
//! | `weights.rs` | the best weights, read back; what memory they may take |
//! | `settings.rs` | optimiser, schedule, clipping, averaging, stopping |
//! | `observer.rs` | who hears how it goes |
//!
//! Everything random is a function of the seed and of a place (epoch, step), and everything else
//! that changes is in the checkpoint. So a run that was stopped at any moment and resumed ends
//! with the same weights, bit by bit, as one left alone; only times differ.

mod checkpoint;
mod observer;
mod settings;
#[cfg(test)]
mod tests;
mod verdict;
mod weights;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use regard_metrics::Metric;
use regard_nn::checkpoint::Archive;
use regard_nn::optim::{Optimiser, clip, global_norm};
use regard_nn::{Mode, NnError, Params, Tape, Var};
use regard_report::{
    EvalRecord, MetricsLog, MetricsRecord, RunSummary, StepRecord, StopReason, learning_curve_svg,
};
use regard_tensor::kernels::elementwise::update;
use regard_tensor::{Buffer, Key, Tensor};

use self::checkpoint::State;
pub use self::observer::{Observer, Silent};
pub(crate) use self::settings::{LoopSettings, SettingsCheck, optimiser, range};
pub use self::settings::{OptimiserKind, ScheduleKind};
pub(crate) use self::weights::{check_memory, load_best};
use crate::TaskError;
use crate::run::{RunFolder, files};

/// Steps between two logged ones.
const LOG_EVERY: u64 = 20;

/// A flag for what is never stopped.
pub(crate) static NEVER: AtomicBool = AtomicBool::new(false);

/// Ends what can be ended between two batches.
///
/// # Errors
/// [`TaskError::Stopped`] once `stop` is set.
pub(crate) fn heed(stop: &AtomicBool) -> Result<(), TaskError> {
    if stop.load(Ordering::Relaxed) { Err(TaskError::Stopped) } else { Ok(()) }
}

/// Text in a weights file under which the fingerprint of its settings and vocabularies stands.
pub(crate) const FINGERPRINT: &str = "fingerprint";

/// A model on its data, as the loop needs to know it.
pub(crate) trait Learner {
    /// The task's name.
    const TASK: &'static str;

    /// The model's name.
    fn model_name(&self) -> &'static str;
    /// The settings of the loop.
    fn settings(&self) -> LoopSettings;
    /// The metric of the development file that chooses the best weights.
    fn metric(&self) -> Metric;
    /// The weights.
    fn params(&self) -> &Params<f32>;
    /// The weights, to be changed.
    fn params_mut(&mut self) -> &mut Params<f32>;
    /// The batches of an epoch, as indices of training examples.
    fn batches(&self, epoch: u64) -> Vec<Vec<usize>>;
    /// The tokens that the loss of a batch is the mean over.
    fn tokens(&self, batch: &[usize]) -> usize;
    /// The loss of a batch; `key` is its random stream.
    fn loss(&self, tape: &mut Tape<'_, f32>, batch: &[usize], key: Key) -> Result<Var, TaskError>;
    /// The loss of guessing, with every output as likely as the others.
    fn chance_loss(&self) -> f64;
    /// The scores of the present weights on the development file; `None` where there is none. What takes long
    /// ends with [`TaskError::Stopped`] once `stop` is set.
    fn evaluate(&self, epoch: u64, stop: &AtomicBool) -> Result<Option<DevScores>, TaskError>;
    /// Hash of the settings and vocabularies that weights belong to: with `all` every setting, else those
    /// of the model.
    fn fingerprint(&self, all: bool) -> String;
}

/// Scores on the development file.
#[derive(Debug, Clone, Default)]
pub(crate) struct DevScores {
    /// All figures by name.
    pub(crate) figures: BTreeMap<String, f64>,
    /// That of [`Learner::metric`].
    pub(crate) value: f64,
    /// What the user should know.
    pub(crate) notes: Vec<String>,
    /// Some outputs, to be shown.
    pub(crate) samples: Vec<String>,
}

/// A training in progress. Without a folder nothing is written (the demonstration).
pub(crate) struct Trainer<L: Learner> {
    run: Option<RunFolder>,
    log: Option<MetricsLog>,
    pub(crate) learner: L,
    settings: LoopSettings,
    optimiser: Optimiser<f32>,
    grads: Buffer<f32>,
    /// Running average of the weights, and the best weights so far.
    average: Option<Buffer<f32>>,
    best: Option<Buffer<f32>>,
    state: State,
    /// Sum of the losses of this epoch's steps in this process, and their number.
    losses: (f64, u64),
    total_steps: u64,
    began: Instant,
    /// Seconds of training before this process began.
    before: f64,
}

impl<L: Learner> Trainer<L> {
    pub(crate) fn new(learner: L) -> Result<Self, TaskError> {
        let settings = learner.settings();
        settings.optimiser.check()?;
        // Epochs may differ by a batch or two; the schedule only needs the planned end.
        let batches = learner.batches(1).len().div_ceil(settings.accumulate.max(1)) as u64;
        let len = learner.params().flat_len();
        let average = settings.average > 0.0;
        Ok(Self {
            run: None,
            log: None,
            optimiser: Optimiser::new(settings.optimiser, len),
            grads: Buffer::zeroed(len),
            average: average.then(|| Buffer::copy_of(learner.params().flat())),
            best: None,
            state: State::default(),
            losses: (0.0, 0),
            total_steps: batches.saturating_mul(settings.epochs),
            settings,
            learner,
            began: Instant::now(),
            before: 0.0,
        })
    }

    /// Writes the run into a new folder from now on. The settings come last: a folder with a config.toml is
    /// a run that can be resumed.
    pub(crate) fn record(&mut self, run: RunFolder, config: &str) -> Result<(), TaskError> {
        self.log = Some(MetricsLog::create(run.file(files::METRICS))?);
        run.write(files::CONFIG, config)?;
        self.run = Some(run);
        Ok(())
    }

    /// Goes back to the last checkpoint of a folder, or to the first step where it has none.
    pub(crate) fn resume(
        &mut self,
        run: RunFolder,
        observer: &mut dyn Observer,
    ) -> Result<(), TaskError> {
        if run.file(files::LAST).is_file() {
            self.restore(&run)?;
        } else {
            observer.note("there is no checkpoint yet; the run begins again at its first step");
        }
        if self.state.best_step > 0 {
            if !run.file(files::MODEL).is_file() {
                // They were kept before the checkpoint was written, so that someone took them away.
                return Err(TaskError::LostModel(run.file(files::MODEL)));
            }
            // Damage is told now, not after hours.
            let mut best = self.learner.params().clone();
            load_best(&run, &mut best, &self.learner.fingerprint(false))?;
        }
        let State { step, batch, .. } = self.state;
        let (log, _) = MetricsLog::resume(run.file(files::METRICS), |record| {
            // A checkpoint inside an epoch, or at its end before the evaluation, has none of this step.
            let is_later = batch > 0 && matches!(record, MetricsRecord::Eval(_));
            record.step() < step || (record.step() == step && !is_later)
        })?;
        self.log = Some(log);
        self.run = Some(run);
        Ok(())
    }

    /// The learner, with its best weights.
    pub(crate) fn into_learner(mut self) -> L {
        if let Some(best) = &self.best {
            self.learner.params_mut().flat_mut().copy_from_slice(best);
        }
        self.learner
    }

    fn elapsed_s(&self) -> f64 {
        self.before + self.began.elapsed().as_secs_f64()
    }

    fn is_over_time(&self) -> bool {
        let limit = self.settings.minutes;
        limit > 0.0 && self.elapsed_s() >= 60.0 * limit
    }

    /// Trains until the end, or until `stop` is set from outside; then everything is saved.
    pub(crate) fn go(
        &mut self,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<RunSummary, TaskError> {
        self.began = Instant::now();
        self.before = self.state.elapsed_s;
        observer.begin(
            self.learner.model_name(),
            self.learner.params().count(),
            self.state.step,
            self.total_steps,
        );
        let accumulate = self.settings.accumulate.max(1);
        let mut since_log = (Instant::now(), 0usize);
        while !self.state.finished {
            let batches = self.learner.batches(self.state.epoch);
            self.losses = (0.0, 0);
            while (self.state.batch as usize) < batches.len() {
                if stop.load(Ordering::Relaxed) {
                    self.state.elapsed_s = self.elapsed_s();
                    self.save_last()?;
                    return Ok(self.summary(StopReason::Interrupted));
                }
                if self.is_over_time() {
                    self.state.timed_out = true;
                    break;
                }
                let first = self.state.batch as usize;
                let last = batches.len().min(first + accumulate);
                let step = self.step(&batches[first..last]);
                let (loss, norm, lr, words) = step.map_err(|error| self.diverged(error))?;
                self.state.batch = last as u64;
                self.losses = (self.losses.0 + loss, self.losses.1 + 1);
                since_log.1 += words;
                observer.step(self.state.step, self.state.epoch, words, loss);
                if self.state.step.is_multiple_of(LOG_EVERY) {
                    let seconds = since_log.0.elapsed().as_secs_f64().max(1e-9);
                    let record = StepRecord {
                        step: self.state.step,
                        epoch: self.state.epoch,
                        tokens: self.state.tokens,
                        loss,
                        lr,
                        grad_norm: norm,
                        tokens_per_s: since_log.1 as f64 / seconds,
                        elapsed_s: self.elapsed_s(),
                    };
                    since_log = (Instant::now(), 0);
                    observer.logged(&record);
                    if let Some(log) = &mut self.log {
                        log.append(&record.into())?;
                    }
                }
                // The end of an epoch writes its own, after the evaluation: one before it would
                // have the evaluation logged twice if the process died in between.
                let every = self.settings.checkpoint_every;
                if every > 0 && self.state.step.is_multiple_of(every) && last < batches.len() {
                    self.state.elapsed_s = self.elapsed_s();
                    self.save_last()?;
                }
            }
            if !self.end_epoch(stop, observer)? {
                return Ok(self.summary(StopReason::Interrupted));
            }
            since_log = (Instant::now(), 0);
        }
        self.draw_curve()?;
        if let Some(doubt) = self.doubt() {
            observer.note(&doubt);
        }
        Ok(self.summary(match &self.state {
            state if state.early => StopReason::EarlyStop,
            state if state.timed_out => StopReason::TimeLimit,
            _ => StopReason::Finished,
        }))
    }

    /// One update from one batch or several. Returns loss, gradient norm, learning rate and tokens.
    ///
    /// The gradient is that of the mean over the tokens of all batches, as if they were one.
    fn step(&mut self, batches: &[Vec<usize>]) -> Result<(f64, f64, f64, usize), TaskError> {
        let step = self.state.step + 1;
        let key = Key::new(self.settings.seed).named("step").child(step);
        let tokens: Vec<usize> = batches.iter().map(|batch| self.learner.tokens(batch)).collect();
        let total: usize = tokens.iter().sum();
        let mut value = 0.0;
        self.grads.fill(0.0);
        for (i, (batch, n)) in batches.iter().zip(&tokens).enumerate() {
            let key = if i == 0 { key } else { key.named("part").child(i as u64) };
            let share = *n as f64 / total.max(1) as f64;
            let mut tape = Tape::new(self.learner.params(), Mode::Training(key));
            let loss = self.learner.loss(&mut tape, batch, key)?;
            let part = f64::from(tape.value(loss).data()[0]);
            if !part.is_finite() {
                return Err(NnError::NotFinite { what: "loss", value: part, step }.into());
            }
            value += share * part;
            let upstream = Tensor::from_slice(&tape.shape(loss), &[share as f32]);
            tape.backward_from(loss, upstream.expect("a loss is one number"), &mut self.grads);
        }
        let LoopSettings { lr, clip: max_norm, average: decay, .. } = self.settings;
        let norm =
            if max_norm > 0.0 { clip(&mut self.grads, max_norm) } else { global_norm(&self.grads) };
        if !norm.is_finite() {
            return Err(NnError::NotFinite { what: "gradient norm", value: norm, step }.into());
        }
        let lr = lr * self.settings.schedule(self.total_steps).factor(step);
        self.optimiser.step(self.learner.params_mut().flat_mut(), &self.grads, lr);
        if let Some(average) = &mut self.average {
            // Early on the average forgets faster, so that it does not stick to the first weights.
            let decay = decay.min((1.0 + step as f64) / (10.0 + step as f64)) as f32;
            update(average, self.learner.params().flat(), 2, |a, w| decay * a + (1.0 - decay) * w);
        }
        self.state.step = step;
        self.state.loss = value;
        self.state.tokens += total as u64;
        Ok((value, norm, lr, total))
    }

    /// Scores the development file, keeps the model if it is the best, and writes a checkpoint. Where
    /// `stop` ends the scoring, the checkpoint is of the moment before it, and the answer is `false`.
    fn end_epoch(
        &mut self,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<bool, TaskError> {
        // The last update may have been too large for any number: no step looks at what it left.
        if let Some(weight) = self.learner.params().flat().iter().find(|w| !w.is_finite()) {
            return Err(self.not_finite("a weight", f64::from(*weight)));
        }
        // Score and keep the averaged weights where there are any.
        let own = self.average.as_ref().map(|average| {
            let own = Buffer::copy_of(self.learner.params().flat());
            self.learner.params_mut().flat_mut().copy_from_slice(average);
            own
        });
        let scores = self.learner.evaluate(self.state.epoch, stop);
        if matches!(scores, Err(TaskError::Stopped)) {
            if let Some(own) = own {
                self.learner.params_mut().flat_mut().copy_from_slice(&own);
            }
            self.state.elapsed_s = self.elapsed_s();
            self.save_last()?;
            return Ok(false);
        }
        let mut keep = true;
        let mut lost = None;
        let LoopSettings { patience, epochs, .. } = self.settings;
        let is_last = self.state.timed_out || self.state.epoch >= epochs;
        if let Some(scores) = scores? {
            let value = scores.value;
            let metric = self.learner.metric();
            lost = scores.not_finite();
            keep = lost.is_none()
                && self.state.best_value.is_none_or(|best| metric.improves(value, best));
            if keep {
                self.state.best_value = Some(value);
                self.state.figures.clone_from(&scores.figures);
            }
            let record = EvalRecord {
                step: self.state.step,
                epoch: self.state.epoch,
                split: "dev".into(),
                metrics: scores.figures,
                elapsed_s: self.elapsed_s(),
            };
            observer.evaluated(&record, keep);
            scores.samples.iter().for_each(|text| observer.sample(text));
            scores.notes.iter().for_each(|text| observer.note(text));
            if let Some(log) = &mut self.log {
                log.append(&record.into())?;
            }
        } else if is_last {
            // No score speaks for these weights.
            self.check_loss()?;
        }
        if keep {
            self.state.best_step = self.state.step;
            self.state.stale_epochs = 0;
            self.keep_best()?;
        } else {
            self.state.stale_epochs += 1;
        }
        if let Some(own) = own {
            self.learner.params_mut().flat_mut().copy_from_slice(&own);
        }
        self.state.early = patience > 0 && self.state.stale_epochs >= patience;
        self.state.finished = self.state.early || is_last;
        if let (true, None, Some(value)) = (self.state.finished, self.state.best_value, lost) {
            return Err(self.not_finite("every score on the development file", value));
        }
        self.state.epoch += 1;
        self.state.batch = 0;
        self.state.elapsed_s = self.elapsed_s();
        self.save_last()?;
        self.draw_curve()?;
        Ok(true)
    }

    /// Keeps the present weights as the best ones.
    fn keep_best(&mut self) -> Result<(), TaskError> {
        let params = self.learner.params();
        let Some(run) = &self.run else {
            self.best = Some(Buffer::copy_of(params.flat()));
            return Ok(());
        };
        let mut archive = Archive::new();
        archive.put("", params, params.flat());
        archive.texts.insert("format".into(), "regard".into());
        archive.texts.insert("task".into(), L::TASK.into());
        archive.texts.insert(FINGERPRINT.into(), self.learner.fingerprint(false));
        Ok(archive.write(&run.file(files::MODEL))?)
    }

    fn draw_curve(&self) -> Result<(), TaskError> {
        let Some(run) = &self.run else { return Ok(()) };
        let records = regard_report::read_metrics(run.file(files::METRICS))?;
        run.write(files::CURVE, &learning_curve_svg(&records)?)
    }

    fn summary(&self, stop: StopReason) -> RunSummary {
        let state = &self.state;
        RunSummary {
            task: L::TASK.into(),
            model: self.learner.model_name().into(),
            run_dir: self.run.as_ref().map_or_else(String::new, |r| r.path().display().to_string()),
            seed: self.settings.seed,
            n_threads: regard_tensor::parallel::threads(),
            n_parameters: self.learner.params().count() as u64,
            steps: state.step,
            epochs: state.epoch - 1,
            tokens: state.tokens,
            elapsed_s: state.elapsed_s,
            best_metric: self.learner.metric().name.into(),
            best_value: state.best_value.unwrap_or(f64::NAN),
            best_step: state.best_step,
            metrics: state.figures.clone(),
            stop,
        }
    }
}
