//! Training and decoding speed of the translation models on random pairs, for comparison with
//! `scripts/bench/translate_torch.py`.
//!
//! ```console
//! $ cargo run --release -p regard-nn --example translate_speed -- bahdanau train
//! $ cargo run --release -p regard-nn --example translate_speed -- local-p step
//! ```
//!
//! `train`: target tokens a second of a whole training step (loss, gradient, clipping, Adam) over batches of
//! 96 pairs of 8 to 18 tokens. `decode`: sentences a second with a beam of 5, twenty steps each, the
//! median of three batches of 64. `step`: milliseconds
//! of one decoding step over sources of 50 and of 5 000 tokens.

use std::time::Instant;

use regard_nn::layers::Norm;
use regard_nn::models::PositionKind;
use regard_nn::models::translation::decode::{DecodeConfig, translate};
use regard_nn::models::translation::{
    AlignmentScope, AlignmentScore, BEGIN, BahdanauConfig, LossOptions, LuongConfig,
    NormaliserKind, PairBatch, Sequences, Tie, TransformerConfig, Translator, TranslatorConfig,
    TranslatorModel,
};
use regard_nn::ops::Cell;
use regard_nn::optim::{Optimiser, OptimiserConfig, clip};
use regard_nn::{Mode, ParamSpecs, Params, Tape};
use regard_tensor::{Key, parallel};

const VOCAB: usize = 8000;
const PAIRS: usize = 96;
const DROPOUT: f64 = 0.1;

fn luong(scope: AlignmentScope, input_feeding: bool) -> TranslatorModel {
    TranslatorModel::Luong(LuongConfig {
        cell: Cell::Lstm,
        embedding: 256,
        hidden: 512,
        layers: 2,
        bidirectional: false,
        reverse_source: false,
        score: AlignmentScore::General,
        scope,
        radius: 10,
        max_source: 100,
        normaliser: NormaliserKind::Softmax,
        location_aware: None,
        input_feeding,
        dropout: DROPOUT,
    })
}

fn model(name: &str) -> Option<TranslatorModel> {
    Some(match name {
        "bahdanau" => TranslatorModel::Bahdanau(BahdanauConfig {
            embedding: 256,
            hidden: 512,
            attention: 512,
            readout: 256,
            normaliser: NormaliserKind::Softmax,
            location_aware: None,
            dropout: DROPOUT,
        }),
        "luong" => luong(AlignmentScope::Global, true),
        "luong-plain" => luong(AlignmentScope::Global, false),
        "local-p" => luong(AlignmentScope::LocalP, true),
        "transformer" => TranslatorModel::Transformer(TransformerConfig {
            d_model: 256,
            heads: 8,
            encoder_layers: 3,
            decoder_layers: 3,
            d_ff: 512,
            norm: Norm::After,
            position: PositionKind::Sinusoidal,
            tie: Tie::Target,
            dropout: DROPOUT,
            attention_dropout: DROPOUT,
        }),
        _ => return None,
    })
}

/// Random sequences of 8 to 18 tokens, the same as the other script's.
fn drawn(key: Key, n: usize) -> Sequences {
    let length = |i: usize| 8 + (i * 7) % 11;
    let sequence = |i: usize| -> Vec<u32> {
        let key = key.child(i as u64);
        (0..length(i)).map(|j| 3 + key.below(j as u32, VOCAB as u32 - 3)).collect()
    };
    Sequences::new(&(0..n).map(sequence).collect::<Vec<_>>())
}

fn train(model: &Translator, mut params: Params<f32>) -> f64 {
    let adam = OptimiserConfig::Adam { beta1: 0.9, beta2: 0.98, eps: 1e-9, weight_decay: 0.0 };
    let mut optimiser = Optimiser::new(adam, params.flat_len());
    let mut flat = vec![0.0; params.flat_len()];
    let mut times = Vec::new();
    let batch = PairBatch { source: drawn(Key::new(1), PAIRS), target: drawn(Key::new(2), PAIRS) };
    let options = LossOptions { label_smoothing: 0.1, scheduled_sampling: 0.0 };
    let mut tokens = 0;
    for step in 0..8 {
        let start = Instant::now();
        let mut tape = Tape::new(&params, Mode::Training(Key::new(3).child(step)));
        let loss = model.loss(&mut tape, &batch, options).expect("good pairs");
        tokens = loss.tokens;
        flat.fill(0.0);
        tape.backward(loss.loss, &mut flat);
        clip(&mut flat, 1.0);
        optimiser.step(params.flat_mut(), &flat, 1e-4);
        times.push(start.elapsed().as_secs_f64());
    }
    times.remove(0);
    times.sort_by(f64::total_cmp);
    tokens as f64 / times[times.len() / 2]
}

fn decode(model: &Translator, params: &Params<f32>) -> f64 {
    let source = drawn(Key::new(5), 64);
    // Random models do not end by themselves: every output has twenty tokens.
    let config =
        DecodeConfig { beam: 5, max_length: 20, min_length: 20, ..DecodeConfig::default() };
    let mut times: Vec<f64> = (0..3)
        .map(|_| {
            let start = Instant::now();
            translate(model, params, &source, &config).expect("good sources");
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    64.0 / times[1]
}

fn step(model: &Translator, params: &Params<f32>, length: usize) -> f64 {
    let ids: Vec<Vec<u32>> =
        (0..8).map(|b| (0..length).map(|j| 3 + ((b + j) % 7000) as u32).collect()).collect();
    let mut decoding = model.start(params, &Sequences::new(&ids)).expect("good sources");
    let mut times = Vec::new();
    for _ in 0..60 {
        let start = Instant::now();
        decoding.step(&[BEGIN; 8]).expect("good tokens");
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[expect(clippy::print_stdout, reason = "an example prints what it measured")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, what] = &arguments[..] else {
        println!("usage: translate_speed MODEL train|decode|step");
        return;
    };
    let Some(config) = model(name) else {
        println!("models: bahdanau luong luong-plain local-p transformer");
        return;
    };
    let mut specs = ParamSpecs::new();
    let config = TranslatorConfig { source_vocab: VOCAB, target_vocab: VOCAB, model: config };
    let model = Translator::new(&mut specs, config).expect("the sizes go together");
    let params = Params::<f32>::new(specs, 1);
    let n = params.count();
    parallel::within(|| match what.as_str() {
        "train" => println!("{name}: {n} parameters, {:.0} tokens/s", train(&model, params)),
        "decode" => println!("{name}: {:.1} sentences/s", decode(&model, &params)),
        _ => {
            let (short, long) = (step(&model, &params, 50), step(&model, &params, 5000));
            println!("{name}: {short:.3} ms a step at 50, {long:.3} ms at 5000");
        }
    });
}
