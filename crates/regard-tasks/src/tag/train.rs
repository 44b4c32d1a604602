//! The training loop: batches, steps, evaluation, checkpoints, resuming.
//!
//! Everything random is a function of the seed and of a place (epoch, step), and everything else
//! that changes is in the checkpoint. So a run that was stopped at any moment and resumed ends
//! with the same bits as one left alone.

mod checkpoint;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use regard_data::{Format, Sentence, plan, read_path};
use regard_metrics::Metric;
use regard_nn::checkpoint::Archive;
use regard_nn::models::Target;
use regard_nn::ops::IGNORED;
use regard_nn::optim::{Optimiser, clip, global_norm};
use regard_nn::{Mode, NnError, Params, Tape};
use regard_report::{
    EvalRecord, MetricsLog, RunSummary, StepRecord, StopReason, learning_curve_svg,
};
use regard_tensor::kernels::elementwise::update;
use regard_tensor::{Buffer, Key};

use self::checkpoint::State;
use super::config::TagConfig;
use super::evaluate::{evaluate, is_span_task};
use super::lexicon::Lexicon;
use super::model::{FINGERPRINT, LoadedTagger, build, config_text, fingerprint, read_config};
use crate::TaskError;
use crate::run::{RunFacts, RunFolder, files, hash_file};

/// Steps between two logged ones.
const LOG_EVERY: u64 = 20;

/// Hears how a training goes.
pub trait Observer {
    /// The training begins, or goes on at `done` of `total` steps.
    fn begin(&mut self, model: &str, n_parameters: usize, done: u64, total: u64) {
        let _ = (model, n_parameters, done, total);
    }
    /// A step was taken, with its loss.
    fn step(&mut self, step: u64, epoch: u64, tokens: usize, loss: f64) {
        let _ = (step, epoch, tokens, loss);
    }
    /// A step was logged.
    fn logged(&mut self, record: &StepRecord) {
        let _ = record;
    }
    /// The development file was scored.
    fn evaluated(&mut self, record: &EvalRecord, is_best: bool) {
        let _ = (record, is_best);
    }
    /// Something that the user should know.
    fn note(&mut self, text: &str) {
        let _ = text;
    }
}

/// Hears nothing.
pub struct Silent;
impl Observer for Silent {}

/// What to train, and where to.
pub struct TrainRequest<'a> {
    /// The settings.
    pub config: TagConfig,
    /// The run folder to make.
    pub out: &'a Path,
    /// Set from outside to stop at the next step, with everything saved.
    pub stop: &'a AtomicBool,
}

/// Labelled sentences of a run.
pub(crate) struct Corpus {
    pub(crate) train: Vec<Sentence>,
    pub(crate) dev: Vec<Sentence>,
}

/// A training in progress. Without a folder nothing is written (the demonstration).
pub(crate) struct Trainer {
    run: Option<RunFolder>,
    log: Option<MetricsLog>,
    model: LoadedTagger,
    corpus: Corpus,
    optimiser: Optimiser<f32>,
    grads: Buffer<f32>,
    /// Running average of the weights, and the best weights so far.
    average: Option<Buffer<f32>>,
    best: Option<Buffer<f32>>,
    state: State,
    total_steps: u64,
    metric: Metric,
    began: Instant,
}

/// Trains a tagger into a new run folder.
///
/// # Errors
/// Settings, files or the folder are at fault; a loss that is no longer finite.
pub fn train(
    request: &TrainRequest<'_>,
    observer: &mut dyn Observer,
) -> Result<RunSummary, TaskError> {
    let mut config = request.config.clone();
    config.check()?;
    let corpus = read_corpus(&config)?;
    // The whole paths, so that the run can be resumed from any folder.
    for file in [&mut config.data.train, &mut config.data.dev] {
        if !file.is_empty() {
            let whole = Path::new(file.as_str()).canonicalize();
            *file = whole.map_err(TaskError::io("read", file.as_str()))?.display().to_string();
        }
    }
    let run = RunFolder::create(request.out)?;
    let facts = RunFacts {
        task: "tag".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        train_sha256: hash_file(Path::new(&config.data.train))?,
        dev_sha256: hash_dev(&config)?,
    };
    let lexicon = Lexicon::build(&corpus.train, config.data.min_count, config.data.lowercase);
    lexicon.save(&run)?;
    let mut trainer = Trainer::new(config, lexicon, corpus)?;
    // The settings come last: a folder with a config.toml is a run that can be resumed.
    trainer.log = Some(MetricsLog::create(run.file(files::METRICS))?);
    run.write(files::CONFIG, &config_text(&trainer.model.config, &facts))?;
    trainer.run = Some(run);
    trainer.go(request.stop, observer)
}

/// Goes on with a run from its last checkpoint, or from its first step where it has none yet.
///
/// # Errors
/// The folder holds no run, the data changed, a file is damaged.
pub fn resume(
    path: &Path,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<RunSummary, TaskError> {
    let run = RunFolder::open(path)?;
    run.tidy();
    let (config, facts) = read_config(&run)?;
    let same = |file: &str, expected: &str, actual: String| {
        if actual == expected {
            return Ok(());
        }
        Err(TaskError::DataChanged { file: file.into(), expected: expected.into(), actual })
    };
    let train_hash = hash_file(Path::new(&config.data.train))?;
    same(&config.data.train, &facts.train_sha256, train_hash)?;
    same(&config.data.dev, &facts.dev_sha256, hash_dev(&config)?)?;
    let corpus = read_corpus(&config)?;
    let lexicon = Lexicon::load(&run, config.data.lowercase)?;
    let mut trainer = Trainer::new(config, lexicon, corpus)?;
    if run.file(files::LAST).is_file() {
        trainer.restore(&run)?;
    } else {
        observer.note("there is no checkpoint yet; the run begins again at its first step");
    }
    let (log, _) = MetricsLog::resume(run.file(files::METRICS), trainer.state.step)?;
    trainer.log = Some(log);
    trainer.run = Some(run);
    trainer.go(stop, observer)
}

fn hash_dev(config: &TagConfig) -> Result<String, TaskError> {
    let dev = &config.data.dev;
    if dev.is_empty() { Ok(String::new()) } else { hash_file(Path::new(dev)) }
}

fn read_corpus(config: &TagConfig) -> Result<Corpus, TaskError> {
    let read = |file: &str| -> Result<Vec<Sentence>, TaskError> {
        let path = Path::new(file);
        let format = Format::parse(&config.data.format, &config.data.column, path)?;
        if !format.has_labels() {
            return Err(TaskError::NoLabels(file.into()));
        }
        Ok(read_path(path, &format)?)
    };
    let dev = &config.data.dev;
    let corpus = Corpus {
        train: read(&config.data.train)?,
        dev: if dev.is_empty() { Vec::new() } else { read(dev)? },
    };
    check_labels(config, &corpus)?;
    Ok(corpus)
}

/// Refuses data that no training can come to anything with.
fn check_labels(config: &TagConfig, corpus: &Corpus) -> Result<(), TaskError> {
    let labels = |sentences: &[Sentence]| -> BTreeSet<String> {
        sentences.iter().flat_map(|s| &s.labels).cloned().collect()
    };
    let (train, dev) = (labels(&corpus.train), labels(&corpus.dev));
    if let (1, Some(label)) = (train.len(), train.first()) {
        let (file, label) = (config.data.train.clone(), label.clone());
        return Err(TaskError::OneLabel { file, label });
    }
    if !dev.is_empty() && dev.is_disjoint(&train) {
        return Err(TaskError::NoCommonLabel {
            train: config.data.train.clone(),
            dev: config.data.dev.clone(),
            seen: dev.into_iter().take(5).collect::<Vec<_>>().join(", "),
        });
    }
    Ok(())
}

impl Trainer {
    pub(crate) fn new(
        config: TagConfig,
        lexicon: Lexicon,
        corpus: Corpus,
    ) -> Result<Self, TaskError> {
        let (tagger, specs) = build(&config, &lexicon)?;
        config.optimiser().check()?;
        let params = Params::new(specs, config.train.seed);
        let lengths = lengths(&corpus.train);
        // Epochs may differ by a batch or two; the schedule only needs the planned end.
        let per_epoch =
            plan(&lengths, config.train.batch_tokens, config.train.seed, 1).len() as u64;
        let labels = corpus.train.iter().chain(&corpus.dev).flat_map(|s| &s.labels);
        let spans = is_span_task(labels.map(String::as_str));
        let average = config.train.average > 0.0;
        Ok(Self {
            run: None,
            log: None,
            optimiser: Optimiser::new(config.optimiser(), params.flat_len()),
            grads: Buffer::zeroed(params.flat_len()),
            average: average.then(|| Buffer::copy_of(params.flat())),
            best: None,
            state: State {
                step: 0,
                epoch: 1,
                batch: 0,
                tokens: 0,
                best_value: None,
                best_step: 0,
                stale_epochs: 0,
                elapsed_s: 0.0,
                finished: false,
                early: false,
                figures: std::collections::BTreeMap::new(),
            },
            total_steps: per_epoch.saturating_mul(config.train.epochs),
            metric: if spans { Metric::SPAN_F1 } else { Metric::ACCURACY },
            model: LoadedTagger::new(config, lexicon, tagger, params),
            corpus,
            began: Instant::now(),
        })
    }

    /// The trained model, with its best weights.
    pub(crate) fn into_model(mut self) -> LoadedTagger {
        if let Some(best) = &self.best {
            self.model.params.flat_mut().copy_from_slice(best);
        }
        self.model
    }

    pub(crate) fn go(
        &mut self,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<RunSummary, TaskError> {
        self.began = Instant::now();
        let before = self.state.elapsed_s;
        let config = self.model.config.clone();
        let train = &config.train;
        observer.begin(
            config.model.kind.name(),
            self.model.n_parameters(),
            self.state.step,
            self.total_steps,
        );
        let lengths = lengths(&self.corpus.train);
        let mut since_log = (Instant::now(), 0usize);
        while !self.state.finished {
            let batches = plan(&lengths, train.batch_tokens, train.seed, self.state.epoch);
            while (self.state.batch as usize) < batches.len() {
                if stop.load(Ordering::Relaxed) {
                    self.state.elapsed_s = before + self.began.elapsed().as_secs_f64();
                    self.save_last()?;
                    return Ok(self.summary(StopReason::Interrupted));
                }
                let (loss, norm, lr, words) = self.step(&batches[self.state.batch as usize])?;
                self.state.batch += 1;
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
                        elapsed_s: before + self.began.elapsed().as_secs_f64(),
                    };
                    since_log = (Instant::now(), 0);
                    observer.logged(&record);
                    if let Some(log) = &mut self.log {
                        log.append(&record.into())?;
                    }
                }
                // The end of an epoch writes its own, after the evaluation: one before it would
                // have the evaluation logged twice if the process died in between.
                let every = train.checkpoint_every;
                let is_last = self.state.batch as usize == batches.len();
                if every > 0 && self.state.step.is_multiple_of(every) && !is_last {
                    self.state.elapsed_s = before + self.began.elapsed().as_secs_f64();
                    self.save_last()?;
                }
            }
            self.end_epoch(before, observer)?;
            since_log = (Instant::now(), 0);
        }
        self.draw_curve()?;
        let early = self.state.early;
        Ok(self.summary(if early { StopReason::EarlyStop } else { StopReason::Finished }))
    }

    /// One update. Returns loss, gradient norm, learning rate and words.
    fn step(&mut self, batch: &[usize]) -> Result<(f64, f64, f64, usize), TaskError> {
        let config = &self.model.config;
        let train = &config.train;
        let step = self.state.step + 1;
        let key = Key::new(train.seed).named("step").child(step);
        let sentences: Vec<&Sentence> = batch.iter().map(|i| &self.corpus.train[*i]).collect();
        let ids =
            self.model.lexicon.ids(&sentences, Some((train.word_dropout, key.named("words"))));
        let labels = self.model.lexicon.label_ids(&sentences, IGNORED);
        let words = labels.len();

        let mut tape = Tape::new(&self.model.params, Mode::Training(key));
        let target = Target { labels: &labels, smoothing: train.smoothing };
        let loss = self.model.tagger.loss(&mut tape, &ids, target)?;
        let value = f64::from(tape.value(loss).data()[0]);
        if !value.is_finite() {
            return Err(NnError::NotFinite { what: "loss", value, step }.into());
        }
        self.grads.fill(0.0);
        tape.backward(loss, &mut self.grads);
        let norm = if train.clip > 0.0 {
            clip(&mut self.grads, train.clip)
        } else {
            global_norm(&self.grads)
        };
        if !norm.is_finite() {
            return Err(NnError::NotFinite { what: "gradient norm", value: norm, step }.into());
        }
        let lr = train.lr * config.schedule(self.total_steps).factor(step);
        self.optimiser.step(self.model.params.flat_mut(), &self.grads, lr);
        if let Some(average) = &mut self.average {
            // Early on the average forgets faster, so that it does not stick to the first weights.
            let decay = train.average.min((1.0 + step as f64) / (10.0 + step as f64)) as f32;
            update(average, self.model.params.flat(), 2, |a, w| decay * a + (1.0 - decay) * w);
        }
        self.state.step = step;
        self.state.tokens += words as u64;
        Ok((value, norm, lr, words))
    }

    /// Scores the development file, keeps the model if it is the best, and writes a checkpoint.
    fn end_epoch(&mut self, before: f64, observer: &mut dyn Observer) -> Result<(), TaskError> {
        let train = self.model.config.train.clone();
        // Score and keep the averaged weights where there are any.
        let own = self.average.as_ref().map(|average| {
            let own = Buffer::copy_of(self.model.params.flat());
            self.model.params.flat_mut().copy_from_slice(average);
            own
        });
        let mut keep = true;
        if !self.corpus.dev.is_empty() {
            let scores = evaluate(&self.model, &self.corpus.dev)?;
            let figures = scores.figures();
            let name = if self.metric == Metric::SPAN_F1 { "span_f1" } else { "accuracy" };
            let value = figures.get(name).copied().unwrap_or(0.0);
            keep = self.state.best_value.is_none_or(|best| self.metric.improves(value, best));
            if keep {
                self.state.best_value = Some(value);
                self.state.figures.clone_from(&figures);
            }
            let record = EvalRecord {
                step: self.state.step,
                epoch: self.state.epoch,
                split: "dev".into(),
                metrics: figures,
                elapsed_s: before + self.began.elapsed().as_secs_f64(),
            };
            observer.evaluated(&record, keep);
            if !scores.unknown_labels.is_empty() && self.state.epoch == 1 {
                let labels: Vec<&str> = scores.unknown_labels.iter().map(String::as_str).collect();
                observer.note(&format!(
                    "the development file has labels that the training file has not, and that no \
                     prediction can match: {}",
                    labels.join(", ")
                ));
            }
            if let Some(log) = &mut self.log {
                log.append(&record.into())?;
            }
        }
        if keep {
            self.state.best_step = self.state.step;
            self.state.stale_epochs = 0;
            if let Some(run) = &self.run {
                let mut archive = Archive::new();
                archive.put("", &self.model.params, self.model.params.flat());
                archive.texts.insert("format".into(), "regard".into());
                archive.texts.insert("task".into(), "tag".into());
                let print = fingerprint(&self.model.config, &self.model.lexicon, false);
                archive.texts.insert(FINGERPRINT.into(), print);
                archive.write(&run.file(files::MODEL))?;
            } else {
                self.best = Some(Buffer::copy_of(self.model.params.flat()));
            }
        } else {
            self.state.stale_epochs += 1;
        }
        if let Some(own) = own {
            self.model.params.flat_mut().copy_from_slice(&own);
        }
        self.state.early = train.patience > 0 && self.state.stale_epochs >= train.patience;
        self.state.finished = self.state.early || self.state.epoch >= train.epochs;
        self.state.epoch += 1;
        self.state.batch = 0;
        self.state.elapsed_s = before + self.began.elapsed().as_secs_f64();
        self.save_last()?;
        self.draw_curve()
    }

    fn draw_curve(&self) -> Result<(), TaskError> {
        let Some(run) = &self.run else { return Ok(()) };
        let records = regard_report::read_metrics(run.file(files::METRICS))?;
        run.write(files::CURVE, &learning_curve_svg(&records)?)
    }

    fn summary(&self, stop: StopReason) -> RunSummary {
        let state = &self.state;
        RunSummary {
            task: "tag".into(),
            model: self.model.config.model.kind.to_string(),
            run_dir: self.run.as_ref().map_or_else(String::new, |r| r.path().display().to_string()),
            seed: self.model.config.train.seed,
            n_threads: regard_tensor::parallel::threads(),
            n_parameters: self.model.n_parameters() as u64,
            steps: state.step,
            epochs: state.epoch - 1,
            tokens: state.tokens,
            elapsed_s: state.elapsed_s,
            best_metric: self.metric.name.into(),
            best_value: state.best_value.unwrap_or(f64::NAN),
            best_step: state.best_step,
            metrics: state.figures.clone(),
            stop,
        }
    }
}

fn lengths(sentences: &[Sentence]) -> Vec<usize> {
    sentences.iter().map(|s| s.words.len()).collect()
}
