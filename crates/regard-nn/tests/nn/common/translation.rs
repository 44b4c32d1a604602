//! Small translation models and batches for them.

use regard_nn::layers::Norm;
use regard_nn::models::PositionKind;
use regard_nn::models::translation::{
    AlignmentScope, AlignmentScore, BahdanauConfig, Cho2014Config, LocationAware, LuongConfig,
    NormaliserKind, PairBatch, Seq2seqConfig, Sequences, Tie, TransformerConfig, Translator,
    TranslatorConfig, TranslatorModel,
};
use regard_nn::ops::Cell;
use regard_nn::{ParamSpecs, Params};
use regard_tensor::{Key, Real};

pub(crate) const SOURCE_VOCAB: usize = 8;
pub(crate) const TARGET_VOCAB: usize = 7;

pub(crate) fn seq2seq(cell: Cell, dropout: f64) -> TranslatorModel {
    let (embedding, hidden, layers) = (3, 4, 2);
    let reverse_source = cell == Cell::Lstm;
    let config = Seq2seqConfig { cell, embedding, hidden, layers, reverse_source, dropout };
    TranslatorModel::Seq2seq(config)
}

pub(crate) fn bahdanau(dropout: f64) -> BahdanauConfig {
    BahdanauConfig {
        embedding: 3,
        hidden: 4,
        attention: 5,
        readout: 2,
        normaliser: NormaliserKind::Softmax,
        location_aware: None,
        dropout,
    }
}

pub(crate) fn luong(dropout: f64) -> LuongConfig {
    LuongConfig {
        cell: Cell::Lstm,
        embedding: 3,
        hidden: 4,
        layers: 2,
        bidirectional: false,
        reverse_source: false,
        score: AlignmentScore::General,
        scope: AlignmentScope::Global,
        radius: 2,
        max_source: 9,
        normaliser: NormaliserKind::Softmax,
        location_aware: None,
        input_feeding: true,
        dropout,
    }
}

pub(crate) fn transformer(dropout: f64) -> TransformerConfig {
    TransformerConfig {
        d_model: 8,
        heads: 2,
        encoder_layers: 2,
        decoder_layers: 2,
        d_ff: 5,
        norm: Norm::Before,
        position: PositionKind::Sinusoidal,
        tie: Tie::Target,
        dropout,
        attention_dropout: dropout,
    }
}

/// Every model, with every option at least once.
pub(crate) fn models(dropout: f64) -> Vec<(String, TranslatorConfig)> {
    let mut all = vec![
        ("seq2seq lstm".to_owned(), seq2seq(Cell::Lstm, dropout)),
        ("seq2seq gru".to_owned(), seq2seq(Cell::Gru, dropout)),
        (
            "cho2014".to_owned(),
            TranslatorModel::Cho2014(Cho2014Config {
                embedding: 3,
                hidden: 4,
                readout: 2,
                dropout,
            }),
        ),
        ("bahdanau".to_owned(), TranslatorModel::Bahdanau(bahdanau(dropout))),
    ];
    let aware = Some(LocationAware { filters: 2, radius: 1 });
    let config = BahdanauConfig { location_aware: aware, ..bahdanau(dropout) };
    all.push(("bahdanau, location-aware".to_owned(), TranslatorModel::Bahdanau(config)));
    let config = BahdanauConfig { normaliser: NormaliserKind::Sigmoid, ..bahdanau(dropout) };
    all.push(("bahdanau, sigmoid".to_owned(), TranslatorModel::Bahdanau(config)));
    let scores = [
        AlignmentScore::Dot,
        AlignmentScore::General,
        AlignmentScore::Concat,
        AlignmentScore::Location,
    ];
    let scopes = [AlignmentScope::Global, AlignmentScope::LocalM, AlignmentScope::LocalP];
    for (i, score) in scores.into_iter().enumerate() {
        for (j, scope) in scopes.into_iter().enumerate() {
            for input_feeding in [true, false] {
                let other = (i + j) % 2 == 0;
                let config = LuongConfig {
                    score,
                    scope,
                    input_feeding,
                    cell: if other { Cell::Lstm } else { Cell::Gru },
                    bidirectional: other,
                    reverse_source: !other,
                    radius: 1 + j,
                    ..luong(dropout)
                };
                let name = format!("luong {score:?}, {scope:?}, fed: {input_feeding}");
                all.push((name, TranslatorModel::Luong(config)));
            }
        }
    }
    for input_feeding in [true, false] {
        let config = LuongConfig { location_aware: aware, input_feeding, ..luong(dropout) };
        let name = format!("luong, location-aware, fed: {input_feeding}");
        all.push((name, TranslatorModel::Luong(config)));
    }
    let positions =
        [PositionKind::Sinusoidal, PositionKind::Learned, PositionKind::Rotary, PositionKind::None];
    for (i, position) in positions.into_iter().enumerate() {
        for norm in [Norm::Before, Norm::After] {
            let tie = [Tie::None, Tie::Target, Tie::All][i % 3];
            let config = TransformerConfig { norm, position, tie, ..transformer(dropout) };
            let name = format!("transformer {norm:?}, {position:?}, {tie:?}");
            all.push((name, TranslatorModel::Transformer(config)));
        }
    }
    let vocabularies = |model: &TranslatorModel| match model {
        TranslatorModel::Transformer(c) if c.tie == Tie::All => (TARGET_VOCAB, TARGET_VOCAB),
        _ => (SOURCE_VOCAB, TARGET_VOCAB),
    };
    all.into_iter()
        .map(|(name, model)| {
            let (source_vocab, target_vocab) = vocabularies(&model);
            (name, TranslatorConfig { source_vocab, target_vocab, model })
        })
        .collect()
}

/// A model with its first values.
#[track_caller]
pub(crate) fn fresh<T: Real>(config: TranslatorConfig, seed: u64) -> (Translator, Params<T>) {
    let mut specs = ParamSpecs::new();
    let model = Translator::new(&mut specs, config).expect("the sizes go together");
    (model, Params::new(specs, seed))
}

/// A model with values away from its first ones.
#[track_caller]
pub(crate) fn translator<T: Real>(config: TranslatorConfig, seed: u64) -> (Translator, Params<T>) {
    let (model, mut params) = fresh::<T>(config, seed);
    // Away from the first values, so that weights are far from even and no bias is zero.
    let moves = crate::common::normal(77, params.flat_len());
    for (x, by) in params.flat_mut().iter_mut().zip(moves) {
        *x += T::from_f64(0.5 * by);
    }
    (model, params)
}

/// Sequences of these lengths, ids drawn evenly among those above the special ones.
pub(crate) fn drawn(seed: u64, lengths: &[usize], vocab: usize) -> Sequences {
    let key = Key::new(seed).named("ids");
    let mut at = 0;
    let mut id = |_| {
        at += 1;
        3 + key.below(at, vocab as u32 - 3)
    };
    let all: Vec<Vec<u32>> = lengths.iter().map(|n| (0..*n).map(&mut id).collect()).collect();
    Sequences::new(&all)
}

/// Pairs of different lengths, the longest neither first nor last on either side.
pub(crate) fn pairs() -> PairBatch {
    PairBatch {
        source: drawn(1, &[3, 1, 6, 4], TARGET_VOCAB),
        target: drawn(2, &[2, 5, 1, 3], TARGET_VOCAB),
    }
}
