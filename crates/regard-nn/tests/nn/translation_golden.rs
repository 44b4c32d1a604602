//! Whole translation models against PyTorch: every case of `scripts/golden/translate.json`, its
//! log-probabilities and the gradient of every parameter, in f64 and in f32.
//!
//! A number may be off by `eps · 2000 · (largest parameter) · (largest entry of the array)`: it goes through
//! six recurrent steps or four layers on each side, of some twenty sums each, there and back. The bound
//! was fixed before the first run.

use crate::common::{largest, wide};
use regard_nn::layers::Norm;
use regard_nn::models::PositionKind;
use regard_nn::models::translation::{
    AlignmentScope, AlignmentScore, BahdanauConfig, LossOptions, LuongConfig, NormaliserKind,
    PairBatch, Sequences, Tie, TransformerConfig, Translator, TranslatorConfig, TranslatorModel,
};
use regard_nn::ops::Cell;
use regard_nn::{Mode, ParamSpecs, Params, Tape};
use regard_tensor::Real;
use regard_testkit::{Bound, Case, Golden, close_each};

fn pairs() -> PairBatch {
    PairBatch {
        source: Sequences::new(&[&[3, 5, 4, 8][..], &[6, 3], &[7, 7, 3, 4, 5, 6]]),
        target: Sequences::new(&[&[4, 3, 6][..], &[7, 5, 3, 4, 6], &[3]]),
    }
}

fn model(case: &Case) -> TranslatorModel {
    let size = |key| case.size(key);
    let name = case.name();
    if name == "bahdanau" {
        return TranslatorModel::Bahdanau(BahdanauConfig {
            embedding: size("embedding"),
            hidden: size("hidden"),
            attention: size("attention"),
            readout: size("readout"),
            normaliser: NormaliserKind::Softmax,
            location_aware: None,
            dropout: 0.0,
        });
    }
    if name.starts_with("luong_") {
        return TranslatorModel::Luong(LuongConfig {
            cell: Cell::Lstm,
            embedding: size("embedding"),
            hidden: size("hidden"),
            layers: size("layers"),
            bidirectional: false,
            reverse_source: false,
            score: match case.text("score") {
                "dot" => AlignmentScore::Dot,
                "general" => AlignmentScore::General,
                "concat" => AlignmentScore::Concat,
                "location" => AlignmentScore::Location,
                other => panic!("score {other}"),
            },
            scope: match case.text("scope") {
                "global" => AlignmentScope::Global,
                "local-m" => AlignmentScope::LocalM,
                "local-p" => AlignmentScope::LocalP,
                other => panic!("scope {other}"),
            },
            radius: size("radius"),
            max_source: size("max_source"),
            normaliser: NormaliserKind::Softmax,
            location_aware: None,
            input_feeding: case.flag("input_feeding"),
            dropout: 0.0,
        });
    }
    TranslatorModel::Transformer(TransformerConfig {
        d_model: size("d_model"),
        heads: size("heads"),
        encoder_layers: size("layers"),
        decoder_layers: size("layers"),
        d_ff: size("d_ff"),
        norm: if case.text("norm") == "before" { Norm::Before } else { Norm::After },
        position: PositionKind::Sinusoidal,
        tie: Tie::Target,
        dropout: 0.0,
        attention_dropout: 0.0,
    })
}

fn faults<T: Real>(case: &Case) -> Vec<String> {
    let mut specs = ParamSpecs::new();
    let config = TranslatorConfig { source_vocab: 9, target_vocab: 8, model: model(case) };
    let model = Translator::new(&mut specs, config).expect("the sizes go together");
    let mut params = Params::<T>::new(specs, 0);
    let list = params.specs().to_vec();
    let mut scale: f64 = 1.0;
    for spec in &list {
        let (shape, data) = case.array(&spec.name);
        assert_eq!(spec.shape[..], shape[..], "{}", spec.name);
        scale = scale.max(largest(&data));
        for (to, from) in params.flat_mut()[spec.range()].iter_mut().zip(&data) {
            *to = T::from_f64(*from);
        }
    }
    let mut faults = Vec::new();
    let mut compare = |name: &str, actual: &[f64], expected: &[f64]| {
        let scale = scale * largest(expected).max(1.0);
        let bound = Bound::new(T::EPSILON.to_f64(), 2000, scale);
        if let Err(fault) = close_each(actual, expected, |_| bound) {
            faults.push(format!("{}: {name}: {fault}", case.name()));
        }
    };
    let log_p = model.log_probs(&params, &pairs()).expect("good pairs").concat();
    compare("log_p", &log_p, &case.array("log_p").1);
    let mut tape = Tape::new(&params, Mode::Gradient);
    let loss = model.loss(&mut tape, &pairs(), LossOptions::default()).expect("good pairs").loss;
    let mut flat = vec![T::ZERO; params.flat_len()];
    tape.backward(loss, &mut flat);
    for spec in &list {
        let name = format!("d_{}", spec.name);
        compare(&name, &wide(&flat[spec.range()]), &case.array(&name).1);
    }
    faults
}

fn check_every_case<T: Real>() {
    let golden = Golden::load("translate");
    assert_eq!(golden.header("dtype"), "float64");
    assert_eq!(golden.cases().len(), 10);
    let faults: Vec<String> = golden.cases().iter().flat_map(faults::<T>).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_case_agrees_in_f64() {
    check_every_case::<f64>();
}

#[test]
fn every_case_agrees_in_f32() {
    check_every_case::<f32>();
}
