//! The demonstration: what context is worth, in under a minute and without any file.
//!
//! A small grammar makes sentences full of words whose class only context tells; four taggers
//! learn them; the table shows who sees the context. Every number comes from that run.

mod grammar;

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use regard_nn::models::{CharEncoder, PositionKind};
use regard_report::{Align, AttentionReport, Table};

use crate::TaskError;
use crate::tag::{Corpus, Lexicon, LoadedTagger, ModelKind, TagConfig, TagLearner, evaluate, look};
use crate::training::{Silent, Trainer};

/// Sentences to learn from and to be scored on.
const TRAIN: usize = 2500;
const TEST: usize = 1000;

/// How one model did.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct DemoRow {
    /// The model.
    pub model: String,
    /// What it can see.
    pub sees: String,
    /// Number of trained values.
    pub parameters: usize,
    /// Seconds of training.
    pub seconds: f64,
    /// Accuracy on all test words, in [0, 1].
    pub accuracy: f64,
    /// Accuracy on test words that training saw with more than one class, in [0, 1].
    pub ambiguous: f64,
}

/// What the demonstration made.
#[derive(Debug, Clone)]
pub struct DemoResult {
    /// A row for each model.
    pub rows: Vec<DemoRow>,
    /// The rows as a table.
    pub table: Table,
    /// Some sentences of the corpus, with their classes.
    pub corpus: String,
    /// The self-attention model's view of some sentences.
    pub looks: Vec<AttentionReport>,
    /// What it all is about.
    pub intro: String,
}

/// Hears how the demonstration goes.
pub trait DemoObserver {
    /// A model's training begins.
    fn model(&mut self, name: &str) {
        let _ = name;
    }
    /// A model was trained and scored.
    fn trained(&mut self, row: &DemoRow) {
        let _ = row;
    }
}

const INTRO: &str = "I saw a saw: the same word is a verb and a noun, and only its neighbours tell. \
    Yesterday we cut the bread, today we cut the bread: the same word is past and present, and \
    only a word far away tells. Each model below learned to name the class of every word of such \
    sentences. The table counts the test words that have more than one class.";

fn models() -> [(ModelKind, &'static str); 4] {
    [
        (ModelKind::Fc, "the word alone"),
        (ModelKind::Window, "the word and two on each side"),
        (ModelKind::Bilstm, "the sentence, word by word from both ends"),
        (ModelKind::SelfAttention, "the whole sentence at once"),
    ]
}

/// The settings of one model, small enough to learn in seconds.
fn config(kind: ModelKind, seed: u64) -> TagConfig {
    let mut config = TagConfig::defaults(kind);
    let (model, train) = (&mut config.model, &mut config.train);
    model.chars = CharEncoder::None;
    model.word_dim = 32;
    model.hidden = if kind == ModelKind::Bilstm { 32 } else { 64 };
    model.layers = if kind == ModelKind::SelfAttention { 2 } else { 1 };
    model.d_model = 64;
    model.position = PositionKind::Rotary;
    model.input_dropout = 0.0;
    model.dropout = 0.0;
    train.epochs = 12;
    train.batch_tokens = 256;
    train.lr = 4e-3;
    train.warmup = 50;
    train.word_dropout = 0.0;
    // Keeps scores some ten in size, where without it they grow to a hundred: attention that is not all 0 and 1.
    train.weight_decay = 1e-3;
    train.seed = seed;
    config
}

/// Trains and compares the four taggers; `seed` decides the corpus, the weights and the order.
///
/// # Errors
/// None in practice: whatever the training core refuses.
pub fn demo(seed: u64, observer: &mut dyn DemoObserver) -> Result<DemoResult, TaskError> {
    let sentences = grammar::corpus(seed, TRAIN + TEST);
    let (train, test) = sentences.split_at(TRAIN);
    let never = AtomicBool::new(false);
    let mut rows = Vec::new();
    let mut looks = Vec::new();
    for (kind, sees) in models() {
        observer.model(kind.name());
        let began = Instant::now();
        let lexicon = Lexicon::build(train, 1, true);
        let corpus = Corpus { train: train.to_vec(), dev: Vec::new() };
        let learner = TagLearner::new(config(kind, seed), lexicon, corpus)?;
        let mut trainer = Trainer::new(learner)?;
        trainer.go(&never, &mut Silent)?;
        let model: LoadedTagger = trainer.into_learner().into_model();
        let seconds = began.elapsed().as_secs_f64();
        let scores = evaluate(&model, test)?;
        let row = DemoRow {
            model: kind.to_string(),
            sees: sees.into(),
            parameters: model.n_parameters(),
            seconds,
            accuracy: scores.tags.accuracy.score().unwrap_or(0.0),
            ambiguous: scores.tags.ambiguous.score().unwrap_or(0.0),
        };
        observer.trained(&row);
        rows.push(row);
        if kind == ModelKind::SelfAttention {
            for sentence in grammar::examples() {
                looks.push(look(&model, &sentence)?);
            }
        }
    }
    let mut table = Table::new([
        ("model", Align::Left),
        ("sees", Align::Left),
        ("parameters", Align::Right),
        ("all words", Align::Right),
        ("ambiguous words", Align::Right),
        ("seconds", Align::Right),
    ]);
    for row in &rows {
        table.push([
            row.model.clone(),
            row.sees.clone(),
            row.parameters.to_string(),
            format!("{:.1} %", 100.0 * row.accuracy),
            format!("{:.1} %", 100.0 * row.ambiguous),
            format!("{:.1}", row.seconds),
        ]);
    }
    let show = |s: &regard_data::Sentence| {
        let pairs = s.words.iter().zip(&s.labels).map(|(w, l)| format!("{w}/{l}"));
        pairs.collect::<Vec<_>>().join(" ")
    };
    let corpus = train.iter().take(5).map(show).collect::<Vec<_>>().join("\n");
    Ok(DemoResult { rows, table, corpus, looks, intro: INTRO.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Quiet;
    impl DemoObserver for Quiet {}

    #[test]
    fn self_attention_beats_single_words_by_twenty_points_and_the_seed_matters() {
        let first = demo(1, &mut Quiet).unwrap();
        let by = |name: &str, rows: &[DemoRow]| {
            rows.iter().find(|r| r.model == name).map_or(0.0, |r| r.ambiguous)
        };
        let lead = by("self-attention", &first.rows) - by("fc", &first.rows);
        assert!(lead >= 0.2, "{:?}", first.rows);
        for look in &first.looks {
            assert!(look.recompute().unwrap().largest() < 1e-5);
        }
        let other = demo(2, &mut Quiet).unwrap();
        assert_ne!(first.corpus, other.corpus);
        let accuracies = |d: &DemoResult| d.rows.iter().map(|r| r.accuracy).collect::<Vec<_>>();
        assert_ne!(accuracies(&first), accuracies(&other));
    }
}
