//! What the translation models refuse, and the text that says why.

use crate::common::translation::{bahdanau, fresh, luong, models, seq2seq, transformer};
use regard_nn::models::PositionKind;
use regard_nn::models::translation::decode::{DecodeConfig, LengthPenalty, translate};
use regard_nn::models::translation::{
    AlignmentScope, AlignmentScore, BEGIN, BahdanauConfig, LocationAware, LossOptions, LuongConfig,
    PairBatch, Seq2seqConfig, Sequences, Tie, TransformerConfig, Translator, TranslatorConfig,
    TranslatorModel,
};
use regard_nn::ops::Cell;
use regard_nn::{Mode, ParamSpecs, Tape};

fn new(model: TranslatorModel) -> Result<(), String> {
    let config = TranslatorConfig { source_vocab: 8, target_vocab: 7, model };
    Translator::new(&mut ParamSpecs::new(), config).map(drop).map_err(|e| e.to_string())
}

#[test]
fn sizes_of_zero_and_sizes_that_do_not_go_together() {
    let of = |config: LuongConfig| new(TranslatorModel::Luong(config)).unwrap_err();
    let rnn = luong(0.0);
    let zero = |name: &str| format!("`{name}` must be at least 1, got 0");
    assert_eq!(of(LuongConfig { hidden: 0, ..rnn }), zero("hidden"));
    assert_eq!(of(LuongConfig { embedding: 0, ..rnn }), zero("embedding"));
    assert_eq!(of(LuongConfig { layers: 0, ..rnn }), zero("layers"));
    let local = LuongConfig { scope: AlignmentScope::LocalP, radius: 0, ..rnn };
    assert_eq!(of(local), zero("radius"));
    let places = LuongConfig { score: AlignmentScore::Location, max_source: 0, ..rnn };
    assert_eq!(of(places), zero("max_source"));
    let odd = LuongConfig { hidden: 5, bidirectional: true, ..rnn };
    assert_eq!(of(odd), "`hidden` must be even where both directions share it, got 5");
    let location_aware = Some(LocationAware { filters: 1, radius: 1 });
    let aware = LuongConfig { scope: AlignmentScope::LocalM, location_aware, ..rnn };
    assert!(of(aware).starts_with("`location_aware` must be none but under the global scope"));
    let filters = Some(LocationAware { filters: 0, radius: 1 });
    assert_eq!(of(LuongConfig { location_aware: filters, ..rnn }), zero("filters"));

    let of = |config: BahdanauConfig| new(TranslatorModel::Bahdanau(config)).unwrap_err();
    assert_eq!(of(BahdanauConfig { attention: 0, ..bahdanau(0.0) }), zero("attention"));
    assert_eq!(of(BahdanauConfig { readout: 0, ..bahdanau(0.0) }), zero("readout"));
    let TranslatorModel::Seq2seq(plain) = seq2seq(Cell::Gru, 0.0) else { unreachable!() };
    let none = TranslatorModel::Seq2seq(Seq2seqConfig { layers: 0, ..plain });
    assert_eq!(new(none).unwrap_err(), zero("layers"));

    let of = |config: TransformerConfig| new(TranslatorModel::Transformer(config)).unwrap_err();
    let plain = transformer(0.0);
    let heads = "`heads` must be a divisor of d_model = 8, got 3";
    assert_eq!(of(TransformerConfig { heads: 3, ..plain }), heads);
    let rotary = TransformerConfig { heads: 8, position: PositionKind::Rotary, ..plain };
    assert!(of(rotary).contains("must be even for rotary position"));
    assert_eq!(of(TransformerConfig { decoder_layers: 0, ..plain }), zero("decoder_layers"));
    let tied = "`target_vocab` must be the 8 source tokens where all tables are one, got 7";
    assert_eq!(of(TransformerConfig { tie: Tie::All, ..plain }), tied);

    let config = TranslatorConfig {
        source_vocab: 3,
        target_vocab: 7,
        model: TranslatorModel::Bahdanau(bahdanau(0.0)),
    };
    let error = Translator::new(&mut ParamSpecs::new(), config).unwrap_err().to_string();
    assert_eq!(error, "`source_vocab` must be more than the 3 special tokens, got 3");
}

fn batch(source: &[&[u32]], target: &[&[u32]]) -> PairBatch {
    PairBatch { source: Sequences::new(source), target: Sequences::new(target) }
}

#[test]
fn empty_sides_unknown_ids_and_options_out_of_range() {
    for (name, config) in models(0.0) {
        let (source_vocab, target_vocab) = (config.source_vocab, config.target_vocab);
        let (model, params) = fresh::<f32>(config, 1);
        let refusal = |batch: &PairBatch, options| {
            let mut tape = Tape::new(&params, Mode::Gradient);
            model.loss(&mut tape, batch, options).expect_err(&name).to_string()
        };
        let plain = LossOptions::default();
        let empty = refusal(&batch(&[&[3], &[]], &[&[3], &[4]]), plain);
        assert_eq!(empty, "translation: `source` must be at least one token, got none in item 1");
        let empty = refusal(&batch(&[&[3], &[4]], &[&[], &[4]]), plain);
        assert_eq!(empty, "translation: `target` must be at least one token, got none in item 0");
        let counts = refusal(&batch(&[&[3], &[4]], &[&[3]]), plain);
        assert_eq!(counts, "translation: `target items` must be [2], got [1]");
        let id = refusal(&batch(&[&[3, source_vocab as u32]], &[&[3]]), plain);
        let what = format!("translation: source {source_vocab} at position 1 is outside");
        assert!(id.starts_with(&what), "{id}");
        let id = refusal(&batch(&[&[3]], &[&[99]]), plain);
        let what = format!("translation: target 99 at position 0 is outside 0..{target_vocab}");
        assert_eq!(id, what);
        let mut torn = batch(&[&[3, 4]], &[&[3]]);
        torn.source.ids.pop();
        assert_eq!(refusal(&torn, plain), "translation: `source` must be [2], got [1]");
        let good = batch(&[&[3]], &[&[3]]);
        let options = LossOptions { scheduled_sampling: 1.5, ..plain };
        let text = "`scheduled_sampling` must be in [0, 1], got 1.5";
        assert_eq!(refusal(&good, options), text);
        let options = LossOptions { label_smoothing: 1.0, ..plain };
        assert_eq!(refusal(&good, options), "`label_smoothing` must be in [0, 1), got 1");

        assert!(model.look(&params, &[], &[3]).is_err() && model.look(&params, &[3], &[]).is_err());
        let none: [&[u32]; 1] = [&[]];
        assert!(model.start(&params, &Sequences::new(&none)).is_err());
        let mut decoding = model.start(&params, &Sequences::new(&[&[0u32][..], &[3]])).unwrap();
        let text = decoding.step(&[BEGIN]).unwrap_err().to_string();
        assert_eq!(text, "step: `previous` must be [2], got [1]");
        let text = decoding.step(&[BEGIN, 99]).unwrap_err().to_string();
        assert_eq!(text, format!("step: token 99 at position 1 is outside 0..{target_vocab}"));
        let text = decoding.select(&[0, 2]).unwrap_err().to_string();
        assert_eq!(text, "select: row 2 at position 1 is outside 0..2");
        // A batch of nothing is nothing.
        let nothing = Sequences::new(&[] as &[&[u32]]);
        let found = translate(&model, &params, &nothing, &DecodeConfig::default()).unwrap();
        assert!(found.is_empty());
    }
}

#[test]
fn sources_longer_than_the_places_of_the_location_score() {
    let config = LuongConfig { score: AlignmentScore::Location, max_source: 4, ..luong(0.0) };
    let model = TranslatorModel::Luong(config);
    let config = TranslatorConfig { source_vocab: 8, target_vocab: 7, model };
    let (model, params) = fresh::<f32>(config, 1);
    let long = Sequences::new(&[&[3u32; 5][..]]);
    let error = translate(&model, &params, &long, &DecodeConfig::default()).unwrap_err();
    let text = "align: `source length` must be at most the 4 places of the location score, got 5";
    assert_eq!(error.to_string(), text);
}

#[test]
fn searches_out_of_range() {
    let model = seq2seq(Cell::Lstm, 0.0);
    let config = TranslatorConfig { source_vocab: 8, target_vocab: 7, model };
    let (model, params) = fresh::<f32>(config, 1);
    let source = Sequences::new(&[&[3u32, 4][..]]);
    let plain = DecodeConfig::default();
    for (config, text) in [
        (DecodeConfig { beam: 0, ..plain.clone() }, "`beam` must be at least 1, got 0"),
        (
            DecodeConfig { beam: 8, ..plain.clone() },
            "`beam` must be at most the 7 tokens of the vocabulary, got 8",
        ),
        (DecodeConfig { n_best: 2, ..plain.clone() }, "`n_best` must be 1 to the beam of 1, got 2"),
        (DecodeConfig { max_length: 0, ..plain.clone() }, "`max_length` must be at least 1, got 0"),
        (
            DecodeConfig { min_length: 5, max_length: 4, ..plain.clone() },
            "`min_length` must be at most max_length = 4, got 5",
        ),
        (
            DecodeConfig { length_penalty: LengthPenalty::Gnmt(f64::NAN), ..plain.clone() },
            "`length_penalty` must be finite, got NaN",
        ),
        (
            DecodeConfig { coverage_penalty: -1.0, ..plain.clone() },
            "`coverage_penalty` must be finite and at least 0, got -1",
        ),
        (
            DecodeConfig { coverage_penalty: 0.2, ..plain.clone() },
            "`coverage_penalty` must be 0 for a model without attention, got 0.2",
        ),
        (
            DecodeConfig { attention: true, ..plain.clone() },
            "`attention` must be off for a model without attention, got on",
        ),
    ] {
        let error = translate(&model, &params, &source, &config).unwrap_err().to_string();
        assert_eq!(error, text);
    }
}

#[test]
fn a_very_long_line_and_a_source_of_only_unknown_words_are_served() {
    for (name, config) in models(0.0) {
        // The location score has no places for so many tokens; one Transformer stands for all.
        let transformer = name.starts_with("transformer");
        if name.contains("Location,") || (transformer && !name.contains("Before, Sinusoidal")) {
            continue;
        }
        let (model, params) = fresh::<f32>(config, 1);
        let long = vec![4u32; 5000];
        let source = Sequences::new(&[&long[..], &[0, 0, 0]]);
        let config = DecodeConfig { max_length: 3, ..DecodeConfig::default() };
        let found = translate(&model, &params, &source, &config).unwrap();
        assert!(found.iter().all(|f| f[0].log_prob.is_finite()), "{name}");
    }
}
