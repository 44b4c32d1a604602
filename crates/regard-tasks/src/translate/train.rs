//! Training a translator: its data, its loss and its scores, for the loop in [`crate::training`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use regard_data::{Pair, plan};
use regard_metrics::Metric;
use regard_nn::models::translation::{LossOptions, PairBatch, Sequences};
use regard_nn::{Params, Tape, Var};
use regard_report::RunSummary;
use regard_tensor::Key;

use super::config::{Select, TranslateConfig};
use super::corpus::{Corpus, EncodedPair, check_files, hashes, read};
use super::decode::{TranslateOptions, translate_lines};
use super::evaluate::{ScoreOptions, evaluate_until, loss};
use super::lexicon::Lexicon;
use super::model::{LoadedTranslator, TASK, build, fingerprint, read_config};
use crate::TaskError;
use crate::run::{RunFacts, RunFolder, config_text};
use crate::training::{DevScores, Learner, LoopSettings, Observer, Trainer};

/// What to train, and where to.
pub struct TrainRequest<'a> {
    /// The settings.
    pub config: TranslateConfig,
    /// The run folder to make.
    pub out: &'a Path,
    /// Set from outside to stop at the next step, with everything saved.
    pub stop: &'a AtomicBool,
}

/// A translator and what it learns from.
pub(crate) struct TranslateLearner {
    model: LoadedTranslator,
    corpus: Corpus,
    /// Tokens of both sides of each training pair, the target's end counted.
    lengths: Vec<usize>,
}

/// Trains a translator into a new run folder.
///
/// # Errors
/// Settings, files or the folder are at fault; a loss that is no longer finite.
pub fn train(
    request: &TrainRequest<'_>,
    observer: &mut dyn Observer,
) -> Result<RunSummary, TaskError> {
    let mut config = request.config.clone();
    config.check()?;
    let (train, dev) = read(&config)?;
    // The whole paths, so that the run can be resumed from any folder.
    for file in config.data.train.iter_mut().chain(&mut config.data.dev) {
        let whole = Path::new(file.as_str()).canonicalize();
        *file = whole.map_err(TaskError::io("read", file.as_str()))?.display().to_string();
    }
    let lexicon = Lexicon::build(&train, &config)?;
    let corpus = Corpus::new(&config, &lexicon, &train, dev)?;
    let facts = RunFacts {
        task: TASK.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        train_sha256: hashes(&config.data.train)?,
        dev_sha256: hashes(&config.data.dev)?,
        seen_sha256: None,
    };
    let text = config_text(&config.to_toml(), &facts);
    let data: Vec<PathBuf> =
        config.data.train.iter().chain(&config.data.dev).map(PathBuf::from).collect();
    // Whatever the model refuses, before anything is written.
    let mut trainer = Trainer::new(TranslateLearner::new(config, lexicon, corpus)?)?;
    let run = RunFolder::create(request.out)?;
    run.holds_none_of(&data)?;
    let learner = &trainer.learner;
    learner.model.lexicon.save(&run)?;
    say(&learner.model.lexicon, &learner.corpus, observer);
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
    check_files(&config.data.train, &facts.train_sha256)?;
    check_files(&config.data.dev, &facts.dev_sha256)?;
    let (train, dev) = read(&config)?;
    let lexicon = Lexicon::load(&run, &config)?;
    let corpus = Corpus::new(&config, &lexicon, &train, dev)?;
    let mut trainer = Trainer::new(TranslateLearner::new(config, lexicon, corpus)?)?;
    trainer.resume(run, observer)?;
    trainer.go(stop, observer)
}

/// Tells how large the vocabularies came out, and which pairs are left out.
fn say(lexicon: &Lexicon, corpus: &Corpus, observer: &mut dyn Observer) {
    let (source, target) = (lexicon.source(), lexicon.target());
    let kind = source.settings().kind;
    let sizes = if std::ptr::eq(source, target) {
        format!("{} tokens ({kind}), shared", source.len())
    } else {
        format!("{} source and {} target tokens ({kind})", source.len(), target.len())
    };
    observer.note(&format!("vocabulary: {sizes}; {}", corpus.filtered));
}

impl TranslateLearner {
    pub(crate) fn new(
        config: TranslateConfig,
        lexicon: Lexicon,
        corpus: Corpus,
    ) -> Result<Self, TaskError> {
        let (translator, specs) = build(&config, &lexicon)?;
        let params = Params::new(specs, config.train.seed);
        let lengths = corpus.train.iter().map(|p| p.source.len() + p.target.len() + 1).collect();
        let model = LoadedTranslator { config, lexicon, translator, params };
        Ok(Self { model, corpus, lengths })
    }

    /// The model as it is.
    pub(crate) fn into_model(self) -> LoadedTranslator {
        self.model
    }

    /// Source, translation and reference of some development lines.
    fn samples(&self) -> Result<Vec<String>, TaskError> {
        let chosen = self.sampled();
        let lines: Vec<String> = chosen.iter().map(|pair| pair.source.clone()).collect();
        let translated = translate_lines(&self.model, &lines, &TranslateOptions::greedy())?;
        let texts = chosen.iter().zip(translated).map(|(pair, line)| {
            let text = line.translations.into_iter().next().map_or_else(String::new, |t| t.text);
            format!("source     {}\ntranslated {text}\nreference  {}", pair.source, pair.target)
        });
        Ok(texts.collect())
    }

    /// Development pairs at even distances.
    fn sampled(&self) -> Vec<&Pair> {
        let (dev, n) = (&self.corpus.dev, self.model.config.train.samples);
        let n = n.min(dev.len());
        (0..n).map(|i| &dev[i * dev.len() / n]).collect()
    }
}

impl Learner for TranslateLearner {
    const TASK: &'static str = TASK;

    fn model_name(&self) -> &'static str {
        self.model.config.model.kind.name()
    }

    fn settings(&self) -> LoopSettings {
        self.model.config.loop_settings()
    }

    fn metric(&self) -> Metric {
        match self.model.config.train.select {
            Select::Bleu => Metric::BLEU,
            Select::Loss => Metric::LOSS,
        }
    }

    fn params(&self) -> &Params<f32> {
        &self.model.params
    }

    fn params_mut(&mut self) -> &mut Params<f32> {
        &mut self.model.params
    }

    fn batches(&self, epoch: u64) -> Vec<Vec<usize>> {
        let train = &self.model.config.train;
        plan(&self.lengths, train.batch_tokens, train.seed, epoch)
    }

    fn tokens(&self, batch: &[usize]) -> usize {
        batch.iter().map(|i| self.corpus.train[*i].target.len() + 1).sum()
    }

    fn loss(&self, tape: &mut Tape<'_, f32>, batch: &[usize], _: Key) -> Result<Var, TaskError> {
        let train = &self.model.config.train;
        let side = |of: fn(&EncodedPair) -> &[u32]| {
            let packed: Vec<&[u32]> = batch.iter().map(|i| of(&self.corpus.train[*i])).collect();
            Sequences::new(&packed)
        };
        let batch = PairBatch { source: side(|p| &p.source), target: side(|p| &p.target) };
        let options = LossOptions {
            label_smoothing: train.smoothing,
            scheduled_sampling: train.scheduled_sampling,
        };
        Ok(self.model.translator.loss(tape, &batch, options)?.loss)
    }

    fn chance_loss(&self) -> f64 {
        (self.model.lexicon.target().len() as f64).ln()
    }

    fn evaluate(&self, _: u64, stop: &AtomicBool) -> Result<Option<DevScores>, TaskError> {
        let dev = &self.corpus.dev;
        if dev.is_empty() {
            return Ok(None);
        }
        let mut figures = BTreeMap::new();
        match self.model.config.train.select {
            Select::Bleu => {
                let options = TranslateOptions::greedy();
                let counted = ScoreOptions::default();
                let scores = evaluate_until(stop, &self.model, dev, &options, counted)?.0;
                figures.insert("bleu".to_string(), scores.bleu.score);
                figures.extend(scores.loss.map(|loss| ("loss".to_string(), loss)));
            }
            Select::Loss => {
                figures
                    .extend(loss(stop, &self.model, dev)?.map(|loss| ("loss".to_string(), loss)));
            }
        }
        let value = figures.get(self.metric().name).copied().unwrap_or(f64::NAN);
        Ok(Some(DevScores { figures, value, notes: Vec::new(), samples: self.samples()? }))
    }

    fn fingerprint(&self, all: bool) -> String {
        fingerprint(&self.model.config, &self.model.lexicon, all)
    }
}
