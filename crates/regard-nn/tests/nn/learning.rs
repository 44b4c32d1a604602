//! Every model learns, at toy size and within seconds: ten sentences by heart, and reversal of
//! sequences that it has not seen.

use crate::common::{
    N_LABELS, N_WORDS, encoders, one_of_each_kind, sentences, tagger, token_ids, words,
};
use regard_nn::layers::{ScopeConfig, ScoreKind};
use regard_nn::models::{
    CharEncoder, EncoderConfig, Output, PositionKind, RnnConfig, SelfAttentionConfig, Tagger,
    TaggerConfig, Target, TokenIds,
};
use regard_nn::optim::{Optimiser, OptimiserConfig, clip};
use regard_nn::schedule::Schedule;
use regard_nn::{Mode, ParamSpecs, Params, Tape};
use regard_tensor::Key;

/// A tagger in training.
struct Training {
    tagger: Tagger,
    params: Params<f32>,
    optimiser: Optimiser<f32>,
    flat: Vec<f32>,
}

impl Training {
    fn new(tagger: Tagger, params: Params<f32>) -> Self {
        let config =
            OptimiserConfig::Adam { beta1: 0.9, beta2: 0.98, eps: 1e-9, weight_decay: 0.0 };
        let n = params.flat_len();
        Self { tagger, params, optimiser: Optimiser::new(config, n), flat: vec![0.0; n] }
    }

    /// One step at learning rate `lr`; returns the loss before it.
    fn step(&mut self, ids: &TokenIds, labels: &[u32], lr: f64) -> f32 {
        let mode = Mode::Training(Key::new(1).child(self.optimiser.steps()));
        let mut tape = Tape::new(&self.params, mode);
        let target = Target { labels, smoothing: 0.0 };
        let loss = self.tagger.loss(&mut tape, ids, target).expect("ids and labels fit");
        let value = tape.value(loss).data()[0];
        self.flat.fill(0.0);
        tape.backward(loss, &mut self.flat);
        clip(&mut self.flat, 1.0);
        self.optimiser.step(self.params.flat_mut(), &self.flat, lr);
        value
    }

    fn predict(&self, ids: &TokenIds) -> Vec<u32> {
        let mut tape = Tape::new(&self.params, Mode::Inference);
        let logits = self.tagger.logits(&mut tape, ids, None).expect("ids fit");
        self.tagger.decode(&self.params, tape.value(logits), ids)
    }

    /// The share of labels that the model gives right.
    fn accuracy(&self, ids: &TokenIds, labels: &[u32]) -> f64 {
        let predicted = self.predict(ids);
        assert_eq!(predicted.len(), labels.len());
        let right = predicted.iter().zip(labels).filter(|(a, b)| a == b).count();
        right as f64 / labels.len() as f64
    }

    /// Steps, at a rate that grows and then falls, until all labels are right; `None` if they are
    /// not after `most`.
    fn steps_until_right(&mut self, ids: &TokenIds, labels: &[u32], most: usize) -> Option<usize> {
        let schedule = Schedule::InverseSqrt { warmup: 20 };
        for step in 1..=most {
            self.step(ids, labels, 0.02 * schedule.factor(step as u64));
            if step % 10 == 0 && self.accuracy(ids, labels) == 1.0 {
                return Some(step);
            }
        }
        None
    }
}

fn ten_sentences() -> Vec<Vec<u32>> {
    sentences(3, &[5, 3, 6, 4, 1, 5, 2, 6, 3, 5])
}

/// The label of a word is what it and the word before it add up to: the word alone cannot tell.
fn labels_by_context(sentences: &[Vec<u32>]) -> Vec<u32> {
    let label = |i: usize, words: &[u32]| {
        let before = if i == 0 { 0 } else { words[i - 1] };
        (words[i] + before) % N_LABELS as u32
    };
    let of_sentence = |words: &Vec<u32>| (0..words.len()).map(|i| label(i, words)).collect();
    sentences.iter().map(of_sentence).collect::<Vec<Vec<u32>>>().concat()
}

fn labels_by_word(sentences: &[Vec<u32>]) -> Vec<u32> {
    sentences.concat().iter().map(|word| (word * 7 % 5) % N_LABELS as u32).collect()
}

/// Whether an encoder sees more than the word itself, and knows where.
fn sees_the_word_before(config: &EncoderConfig) -> bool {
    match config {
        EncoderConfig::FeedForward(c) => c.context > 0,
        // The second tap of two is on the right.
        EncoderConfig::Cnn(c) => c.kernel > 2,
        EncoderConfig::Rnn(_) => true,
        EncoderConfig::SelfAttention(c) => c.position != PositionKind::None,
        EncoderConfig::Transformer(c) => c.position != PositionKind::None,
    }
}

/// Fails unless a model learns all labels from one of four starts. (A product that is not scaled
/// can saturate its softmax early, and then stands still: every fourth start or so does.)
#[track_caller]
fn learns_by_heart(
    name: &str,
    ids: &TokenIds,
    labels: &[u32],
    start: impl Fn(u64) -> (Tagger, Params<f32>),
) {
    let mut reached = Vec::new();
    for seed in 1..=4 {
        let (tagger, params) = start(seed);
        let mut training = Training::new(tagger, params);
        if training.steps_until_right(ids, labels, 400).is_some() {
            return;
        }
        reached.push(training.accuracy(ids, labels));
    }
    panic!("{name}: accuracy of {reached:?} only");
}

#[test]
fn every_encoder_learns_ten_sentences_by_heart() {
    let sentences = ten_sentences();
    let ids = token_ids(&sentences);
    for (name, config) in encoders(12, 0.0) {
        let labels = if sees_the_word_before(&config) {
            labels_by_context(&sentences)
        } else {
            labels_by_word(&sentences)
        };
        let words = words(8, CharEncoder::None, 0.0);
        learns_by_heart(&name, &ids, &labels, |seed| {
            tagger(words.clone(), config.clone(), Output::Softmax, seed)
        });
    }
}

#[test]
fn every_kind_learns_with_characters_dropout_and_a_chain_on_top() {
    let sentences = ten_sentences();
    let ids = token_ids(&sentences);
    let labels = labels_by_context(&sentences);
    for (name, config) in one_of_each_kind(12, 0.1) {
        for (reader, output) in
            [(CharEncoder::Cnn, Output::Crf), (CharEncoder::Lstm, Output::Softmax)]
        {
            let name = format!("{name}, {reader:?}, {output:?}");
            learns_by_heart(&name, &ids, &labels, |seed| {
                tagger(words(6, reader, 0.1), config.clone(), output, seed)
            });
        }
    }
}

#[test]
fn words_alone_do_not_tell_what_context_tells() {
    let sentences = ten_sentences();
    let ids = token_ids(&sentences);
    let labels = labels_by_context(&sentences);
    // The best that any map from words to labels can do.
    let mut counts = vec![[0usize; N_LABELS]; N_WORDS];
    for (word, label) in ids.words.iter().zip(&labels) {
        counts[*word as usize][*label as usize] += 1;
    }
    let right: usize = counts.iter().map(|c| c.iter().max().expect("labels")).sum();
    let best = right as f64 / labels.len() as f64;
    assert!(best < 0.8, "the labels must depend on context for this test, {best}");
    let (_, fc) = encoders(12, 0.0).swap_remove(0);
    assert!(!sees_the_word_before(&fc));
    let (tagger, params) = tagger(words(8, CharEncoder::None, 0.0), fc, Output::Softmax, 1);
    let mut training = Training::new(tagger, params);
    assert_eq!(training.steps_until_right(&ids, &labels, 150), None);
    let accuracy = training.accuracy(&ids, &labels);
    assert!(accuracy <= best && accuracy > best - 0.1, "{accuracy} of {best}");
}

/// Words of the reversal task.
const ALPHABET: u32 = 6;
/// Length of its sequences.
const LENGTH: usize = 6;

/// `n` sequences drawn evenly, and as the label of word i the word at the mirrored place.
fn reversal(seed: u64, n: usize) -> (TokenIds, Vec<u32>) {
    let key = Key::new(seed).named("reversal");
    let draw = |i: usize| key.below(i as u32, ALPHABET);
    let sequences: Vec<Vec<u32>> =
        (0..n).map(|s| (0..LENGTH).map(|i| draw(s * LENGTH + i)).collect()).collect();
    let mirrored: Vec<Vec<u32>> =
        sequences.iter().map(|words| words.iter().rev().copied().collect()).collect();
    (token_ids(&sequences), mirrored.concat())
}

/// Accuracy on sequences that were not trained on.
fn learn_reversal(encoder: EncoderConfig, steps: u64, lr: f64) -> f64 {
    let mut specs = ParamSpecs::new();
    let config = TaggerConfig {
        words: words(8, CharEncoder::None, 0.0),
        encoder,
        n_labels: ALPHABET as usize,
        output: Output::Softmax,
    };
    let tagger = Tagger::new(&mut specs, config).expect("the sizes go together");
    let mut training = Training::new(tagger, Params::new(specs, 5));
    for step in 0..steps {
        let (ids, labels) = reversal(step + 1, 16);
        training.step(&ids, &labels, lr);
    }
    let (ids, labels) = reversal(0, 100);
    training.accuracy(&ids, &labels)
}

fn one_head(position: PositionKind) -> EncoderConfig {
    EncoderConfig::SelfAttention(SelfAttentionConfig {
        d_model: 24,
        layers: 1,
        score: ScoreKind::ScaledDot,
        scope: ScopeConfig::default(),
        position,
        dropout: 0.0,
    })
}

#[test]
fn self_attention_with_position_reverses() {
    for position in [PositionKind::Learned, PositionKind::Sinusoidal] {
        let accuracy = learn_reversal(one_head(position), 400, 0.01);
        assert!(accuracy > 0.98, "{position:?}: {accuracy}");
    }
}

#[test]
fn self_attention_without_position_cannot_reverse() {
    let accuracy = learn_reversal(one_head(PositionKind::None), 200, 0.01);
    assert!(accuracy < 0.6, "{accuracy}");
}

#[test]
fn a_bilstm_reverses_and_an_lstm_cannot() {
    let lstm = |bidirectional| {
        EncoderConfig::Rnn(RnnConfig { hidden: 48, layers: 1, bidirectional, dropout: 0.0 })
    };
    let both = learn_reversal(lstm(true), 1000, 0.01);
    assert!(both > 0.95, "{both}");
    // Forward alone, the first half of the labels lies ahead: at most half and a guess.
    let forward = learn_reversal(lstm(false), 300, 0.01);
    assert!(forward < 0.65, "{forward}");
}
