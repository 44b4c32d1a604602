//! Every translation model learns, at toy size and within seconds, to write short strings backwards; what it
//! then writes by itself is right.

use crate::common::translation::{bahdanau, fresh, luong, transformer};
use regard_nn::models::translation::decode::{DecodeConfig, translate};
use regard_nn::models::translation::{
    AlignmentScope, BahdanauConfig, LossOptions, LuongConfig, PairBatch, Seq2seqConfig, Sequences,
    TransformerConfig, Translator, TranslatorConfig, TranslatorModel,
};
use regard_nn::ops::Cell;
use regard_nn::optim::{Optimiser, OptimiserConfig, clip};
use regard_nn::{Mode, Params, Tape};
use regard_tensor::Key;

/// Strings of up to `longest` of five symbols, and the same backwards.
fn reversals(key: Key, n: usize, longest: u32) -> PairBatch {
    let strings: Vec<Vec<u32>> = (0..n)
        .map(|i| {
            let key = key.child(i as u64);
            (0..=key.below(0, longest)).map(|j| 3 + key.below(1 + j, 5)).collect()
        })
        .collect();
    let backwards: Vec<Vec<u32>> =
        strings.iter().map(|s| s.iter().rev().copied().collect()).collect();
    PairBatch { source: Sequences::new(&strings), target: Sequences::new(&backwards) }
}

/// Trains on fresh strings and returns the share of unseen ones that are written right.
fn exact(model: &Translator, mut params: Params<f32>, steps: u64, lr: f64, longest: u32) -> f64 {
    let adam = OptimiserConfig::Adam { beta1: 0.9, beta2: 0.98, eps: 1e-9, weight_decay: 0.0 };
    let mut optimiser = Optimiser::new(adam, params.flat_len());
    let mut flat = vec![0.0; params.flat_len()];
    for step in 0..steps {
        let batch = reversals(Key::new(1).child(step), 24, longest);
        let mut tape = Tape::new(&params, Mode::Training(Key::new(2).child(step)));
        let loss = model.loss(&mut tape, &batch, LossOptions::default()).unwrap();
        flat.fill(0.0);
        tape.backward(loss.loss, &mut flat);
        clip(&mut flat, 1.0);
        let warm = ((step + 1) as f64 / 30.0).min(1.0);
        let cool = (1.0 - step as f64 / steps as f64).min(0.3) / 0.3;
        optimiser.step(params.flat_mut(), &flat, lr * warm * cool);
    }
    let unseen = reversals(Key::new(9), 50, longest);
    let config = DecodeConfig { max_length: 12, ..DecodeConfig::default() };
    let found = translate(model, &params, &unseen.source, &config).unwrap();
    let right = |item: &usize| found[*item][0].tokens == unseen.target.item(*item);
    (0..50).filter(right).count() as f64 / 50.0
}

#[track_caller]
fn learns(model: TranslatorModel, steps: u64, lr: f64, longest: u32) {
    let config = TranslatorConfig { source_vocab: 8, target_vocab: 8, model };
    let (model, params) = fresh(config, 3);
    let share = exact(&model, params, steps, lr, longest);
    assert!(share >= 0.9, "{share} of the unseen strings are right");
}

#[test]
fn bahdanau_learns() {
    let config =
        BahdanauConfig { embedding: 12, hidden: 24, attention: 16, readout: 16, ..bahdanau(0.0) };
    learns(TranslatorModel::Bahdanau(config), 250, 0.01, 6);
}

#[test]
fn luong_learns_globally_and_locally() {
    let config = LuongConfig { embedding: 12, hidden: 24, layers: 1, ..luong(0.0) };
    learns(TranslatorModel::Luong(config), 250, 0.01, 6);
    let config = LuongConfig { scope: AlignmentScope::LocalP, radius: 2, ..config };
    learns(TranslatorModel::Luong(config), 250, 0.01, 6);
}

#[test]
fn the_transformer_learns() {
    let config = TransformerConfig {
        d_model: 32,
        heads: 4,
        encoder_layers: 1,
        decoder_layers: 1,
        d_ff: 64,
        ..transformer(0.0)
    };
    learns(TranslatorModel::Transformer(config), 350, 0.005, 6);
}

#[test]
fn short_strings_fit_through_a_state() {
    let config = Seq2seqConfig {
        cell: Cell::Gru,
        embedding: 12,
        hidden: 48,
        layers: 1,
        reverse_source: false,
        dropout: 0.0,
    };
    learns(TranslatorModel::Seq2seq(config), 300, 0.01, 3);
}
