//! Training a tagger: its data, its loss and its scores, for the loop in [`crate::training`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use regard_data::{Format, Sentence, plan, read_path};
use regard_metrics::Metric;
use regard_nn::models::Target;
use regard_nn::ops::IGNORED;
use regard_nn::{Params, Tape, Var};
use regard_report::RunSummary;
use regard_tensor::Key;

use super::config::TagConfig;
use super::evaluate::{evaluate_until, is_span_task};
use super::lexicon::Lexicon;
use super::model::{LoadedTagger, TASK, build, fingerprint, read_config};
use crate::TaskError;
use crate::run::{RunFacts, RunFolder, check_unchanged, config_text, hash_file};
use crate::training::{DevScores, Learner, LoopSettings, Observer, Trainer};

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

/// A tagger and what it learns from.
pub(crate) struct TagLearner {
    model: LoadedTagger,
    corpus: Corpus,
    lengths: Vec<usize>,
    metric: Metric,
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
    let lexicon = Lexicon::build(&corpus.train, config.data.min_count, config.data.lowercase);
    let facts = RunFacts {
        task: TASK.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        train_sha256: hash_file(Path::new(&config.data.train))?,
        dev_sha256: hash_dev(&config)?,
        seen_sha256: Some(lexicon.seen_sha256()),
    };
    let text = config_text(&config.to_toml(), &facts);
    let data = [config.data.train.clone(), config.data.dev.clone()];
    let mut trainer = Trainer::new(TagLearner::new(config, lexicon, corpus)?)?;
    // Nothing is written before all is known to be well.
    let run = RunFolder::create(request.out)?;
    run.holds_none_of(&data.map(PathBuf::from))?;
    trainer.learner.model.lexicon.save(&run)?;
    trainer.record(run, &text)?;
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
    let run = RunFolder::go_on(path)?;
    let (config, facts) = read_config(&run)?;
    let train_hash = hash_file(Path::new(&config.data.train))?;
    check_unchanged(&config.data.train, &facts.train_sha256, train_hash)?;
    check_unchanged(&config.data.dev, &facts.dev_sha256, hash_dev(&config)?)?;
    let corpus = read_corpus(&config)?;
    let lexicon = Lexicon::load(&run, config.data.lowercase, &facts)?;
    let mut trainer = Trainer::new(TagLearner::new(config, lexicon, corpus)?)?;
    trainer.resume(run, observer)?;
    trainer.go(stop, observer)
}

fn hash_dev(config: &TagConfig) -> Result<String, TaskError> {
    let dev = &config.data.dev;
    if dev.is_empty() { Ok(String::new()) } else { hash_file(Path::new(dev)) }
}

fn read_corpus(config: &TagConfig) -> Result<Corpus, TaskError> {
    let read = |file: &str| -> Result<Vec<Sentence>, TaskError> {
        let path = Path::new(file);
        let format = Format::of_file(&config.data.format, &config.data.column, path)?;
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

impl TagLearner {
    pub(crate) fn new(
        config: TagConfig,
        lexicon: Lexicon,
        corpus: Corpus,
    ) -> Result<Self, TaskError> {
        let (tagger, specs) = build(&config, &lexicon)?;
        let params = Params::new(specs, config.train.seed);
        let labels = corpus.train.iter().chain(&corpus.dev).flat_map(|s| &s.labels);
        let spans = is_span_task(labels.map(String::as_str));
        Ok(Self {
            metric: if spans { Metric::SPAN_F1 } else { Metric::ACCURACY },
            lengths: corpus.train.iter().map(|s| s.words.len()).collect(),
            model: LoadedTagger::new(config, lexicon, tagger, params),
            corpus,
        })
    }

    /// The model as it is.
    pub(crate) fn into_model(self) -> LoadedTagger {
        self.model
    }
}

impl Learner for TagLearner {
    const TASK: &'static str = TASK;

    fn model_name(&self) -> &'static str {
        self.model.config.model.kind.name()
    }

    fn settings(&self) -> LoopSettings {
        self.model.config.loop_settings()
    }

    fn metric(&self) -> Metric {
        self.metric
    }

    fn params(&self) -> &Params<f32> {
        self.model.params()
    }

    fn params_mut(&mut self) -> &mut Params<f32> {
        self.model.params_mut()
    }

    fn batches(&self, epoch: u64) -> Vec<Vec<usize>> {
        let train = &self.model.config.train;
        plan(&self.lengths, train.batch_tokens, train.seed, epoch)
    }

    fn tokens(&self, batch: &[usize]) -> usize {
        batch.iter().map(|i| self.lengths[*i]).sum()
    }

    fn loss(&self, tape: &mut Tape<'_, f32>, batch: &[usize], key: Key) -> Result<Var, TaskError> {
        let train = &self.model.config.train;
        let sentences: Vec<&Sentence> = batch.iter().map(|i| &self.corpus.train[*i]).collect();
        let lexicon = &self.model.lexicon;
        let ids = lexicon.ids(&sentences, Some((train.word_dropout, key.named("words"))));
        let labels = lexicon.label_ids(&sentences, IGNORED);
        let target = Target { labels: &labels, smoothing: train.smoothing };
        Ok(self.model.tagger.loss(tape, &ids, target)?)
    }

    fn chance_loss(&self) -> f64 {
        (self.model.lexicon.labels.len() as f64).ln()
    }

    fn evaluate(&self, epoch: u64, stop: &AtomicBool) -> Result<Option<DevScores>, TaskError> {
        if self.corpus.dev.is_empty() {
            return Ok(None);
        }
        let (scores, is_finite) = evaluate_until(stop, &self.model, &self.corpus.dev)?;
        let figures = scores.figures();
        // Whatever comes first among scores that are no numbers is no guess of the model.
        let value = if is_finite {
            figures.get(self.metric.name).copied().unwrap_or(0.0)
        } else {
            f64::NAN
        };
        let mut notes = Vec::new();
        if !scores.unknown_labels.is_empty() && epoch == 1 {
            let labels: Vec<&str> = scores.unknown_labels.iter().map(String::as_str).collect();
            notes.push(format!(
                "the development file has labels that the training file has not, and that no \
                 prediction can match: {}",
                labels.join(", ")
            ));
        }
        Ok(Some(DevScores { figures, value, notes, samples: Vec::new() }))
    }

    fn fingerprint(&self, all: bool) -> String {
        fingerprint(&self.model.config, &self.model.lexicon, all)
    }
}
