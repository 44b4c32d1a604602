//! A made-up task whose answer is known: strings of digits, and the same strings from the end.
//!
//! A model without attention must carry the whole string in one vector; one with attention can look
//! it up. Trained on lengths 1 to 25 and tested on strings that training never saw, free-running,
//! the exact answers by length show where a vector is full.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use regard_data::Pair;
use regard_tensor::Key;
use serde::Serialize;

use super::config::{ModelKind, Select, Tokens, TranslateConfig};
use super::corpus::Corpus;
use super::decode::{TranslateOptions, translate_until};
use super::lexicon::Lexicon;
use super::train::TranslateLearner;
use crate::TaskError;
use crate::training::{Observer, ScheduleKind, Trainer};

/// Longest string to learn from.
pub const LONGEST: usize = 25;
/// Lengths of test strings.
pub const LENGTHS: [usize; 16] = [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80];

/// How many strings there are, and how long the models learn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReversalSettings {
    /// Strings to learn from.
    pub train: usize,
    /// Test strings of each length.
    pub test: usize,
    /// Passes over the training strings.
    pub epochs: u64,
    /// Minutes for each model, at most; 0 for no limit.
    pub minutes: f64,
    /// Decides strings and weights.
    pub seed: u64,
}

impl Default for ReversalSettings {
    fn default() -> Self {
        Self { train: 20_000, test: 100, epochs: 30, minutes: 0.0, seed: 1 }
    }
}

/// How one model did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReversalRow {
    /// The model.
    pub model: String,
    /// Number of trained values.
    pub parameters: usize,
    /// Seconds of training.
    pub seconds: f64,
    /// Exact answers to unseen strings of lengths that training has (1 to 25), in [0, 1].
    pub exact: f64,
    /// The same for each of [`LENGTHS`].
    pub by_length: Vec<f64>,
}

/// Distinct pairs to learn from, with lengths 1 to [`LONGEST`], each as likely as the others (but that
/// there are few short strings).
pub fn train_pairs(settings: &ReversalSettings) -> Vec<Pair> {
    let key = Key::new(settings.seed).named("reversal").named("train");
    let mut seen = HashSet::new();
    let mut pairs = Vec::new();
    let mut n = 0;
    // Short strings come again; then another length is drawn.
    while pairs.len() < settings.train {
        let len = 1 + key.named("length").below(n, LONGEST as u32) as usize;
        let text = string(key.child(n.into()), len);
        n += 1;
        if seen.insert(text.clone()) {
            pairs.push(pair(text, pairs.len() + 1));
        }
    }
    pairs
}

/// Pairs of one length that are not among `train`; fewer where there are not so many strings.
pub fn test_pairs(settings: &ReversalSettings, len: usize, train: &[Pair]) -> Vec<Pair> {
    let key = Key::new(settings.seed).named("reversal").named("test").child(len as u64);
    let mut seen: HashSet<&str> = train.iter().map(|pair| pair.source.as_str()).collect();
    let texts: Vec<String> =
        (0..2 * settings.test).map(|n| string(key.child(n as u64), len)).collect();
    let fresh = texts.iter().filter(|text| seen.insert(text)).take(settings.test);
    fresh.enumerate().map(|(i, text)| pair(text.clone(), i + 1)).collect()
}

fn string(key: Key, len: usize) -> String {
    (0..len as u32).filter_map(|i| char::from_digit(key.below(i, 10), 10)).collect()
}

fn pair(source: String, line: usize) -> Pair {
    let target = source.chars().rev().collect();
    Pair { source, target, line }
}

/// The settings of one model, small enough to learn in minutes.
fn config(kind: ModelKind, settings: &ReversalSettings) -> TranslateConfig {
    let mut config = TranslateConfig::defaults(kind);
    let (data, model, train) = (&mut config.data, &mut config.model, &mut config.train);
    data.tokens = Tokens::Char;
    model.embedding = 32;
    model.hidden = 128;
    model.readout = 64;
    model.attention = 64;
    model.d_model = 64;
    model.heads = 4;
    model.encoder_layers = 2;
    model.decoder_layers = 2;
    model.ff = 128;
    model.dropout = 0.0;
    model.attention_dropout = 0.0;
    // The plain string: reading it from its end would do half of the work.
    model.reverse_source = false;
    train.epochs = settings.epochs;
    train.minutes = settings.minutes;
    train.batch_tokens = 2000;
    train.lr = 3e-3;
    train.schedule = ScheduleKind::Cosine;
    train.warmup = 200;
    train.floor = 0.02;
    train.smoothing = 0.0;
    train.average = 0.0;
    train.select = Select::Loss;
    train.samples = 0;
    train.seed = settings.seed;
    config
}

/// Trains a model on the strings and tells its exact answers by length.
///
/// # Errors
/// [`TaskError::Stopped`] if `stop` was set on the way; else none in practice.
pub fn reversal(
    kind: ModelKind,
    settings: &ReversalSettings,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<ReversalRow, TaskError> {
    let began = Instant::now();
    let config = config(kind, settings);
    let train = train_pairs(settings);
    let lexicon = Lexicon::build(&train, &config)?;
    let corpus = Corpus::new(&config, &lexicon, &train, Vec::new())?;
    let mut trainer = Trainer::new(TranslateLearner::new(config, lexicon, corpus)?)?;
    trainer.go(stop, observer)?;
    let model = trainer.into_learner().into_model();
    let seconds = began.elapsed().as_secs_f64();
    let score = |lengths: &[usize]| -> Result<f64, TaskError> {
        let pairs: Vec<Pair> =
            lengths.iter().flat_map(|len| test_pairs(settings, *len, &train)).collect();
        let lines: Vec<String> = pairs.iter().map(|pair| pair.source.clone()).collect();
        let translated = translate_until(stop, &model, &lines, &TranslateOptions::greedy())?;
        let right = pairs.iter().zip(translated).filter(|(pair, line)| {
            line.translations.first().is_some_and(|best| best.text == pair.target)
        });
        Ok(right.count() as f64 / pairs.len().max(1) as f64)
    };
    let seen: Vec<usize> = (1..=LONGEST).collect();
    Ok(ReversalRow {
        model: kind.to_string(),
        parameters: model.n_parameters(),
        seconds,
        exact: score(&seen)?,
        by_length: LENGTHS.iter().map(|len| score(&[*len])).collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_reversed_distinct_and_unseen() {
        let settings = ReversalSettings { train: 1000, test: 20, ..ReversalSettings::default() };
        let train = train_pairs(&settings);
        assert_eq!(train.len(), 1000);
        assert_eq!(train, train_pairs(&settings));
        assert_ne!(train, train_pairs(&ReversalSettings { seed: 2, ..settings }));
        let texts: HashSet<&str> = train.iter().map(|p| p.source.as_str()).collect();
        assert_eq!(texts.len(), 1000);
        let lengths: HashSet<usize> = train.iter().map(|p| p.source.len()).collect();
        assert_eq!(lengths, (1..=LONGEST).collect());
        for pair in &train {
            assert_eq!(pair.target, pair.source.chars().rev().collect::<String>());
        }
        // Strings of one digit are all in the training set.
        assert_eq!(test_pairs(&settings, 1, &train), []);
        let test = test_pairs(&settings, 80, &train);
        assert_eq!(test.len(), 20);
        assert!(test.iter().all(|p| p.source.len() == 80 && !texts.contains(p.source.as_str())));
    }
}
