//! What is refused: wrong shapes, indices and settings are errors that name what is at fault.

use std::sync::Arc;

use crate::common::{N_LABELS, encoders, no_params, sentences, token_ids, words};
use regard_attn::normaliser::Softmax;
use regard_attn::position::{Rotary, RotaryLayout};
use regard_attn::score::ScaledDot;
use regard_nn::layers::{AttentionConfig, MultiHeadAttention, ScopeConfig, ScoreKind};
use regard_nn::models::{
    CharEncoder, CnnConfig, EncoderConfig, FeedForwardConfig, Output, RnnConfig, Tagger,
    TaggerConfig, Target, WordsConfig,
};
use regard_nn::ops::{
    Activation, AttentionSpec, Crf, Direction, IGNORED, Pool, PositionSpec, ScoreSpec,
};
use regard_nn::optim::OptimiserConfig;
use regard_nn::{Mode, NnError, ParamSpecs, Params, Ragged, Tape, Var};
use regard_tensor::{Key, Tensor};

/// An operator of some inputs.
type Op<'a> = &'a dyn Fn(&mut Tape<'_, f64>, &[Var]) -> Result<Var, NnError>;

/// The message of an operator that must refuse.
#[track_caller]
fn refusal(
    shapes: &[&[usize]],
    op: impl Fn(&mut Tape<'_, f64>, &[Var]) -> Result<Var, NnError>,
) -> String {
    let params = no_params();
    let mut tape = Tape::new(&params, Mode::Training(Key::new(1)));
    let vars: Vec<Var> = shapes.iter().map(|dims| tape.input(Tensor::zeros(dims))).collect();
    match op(&mut tape, &vars) {
        Ok(_) => panic!("the operator took shapes {shapes:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn wrong_shapes_are_named() {
    let items = Ragged::new(&[2, 1]);
    let none = Activation::None;
    let (there, back) = (Direction::Forward, Direction::Backward);
    let refused = [
        refusal(&[&[5, 3], &[7, 4]], |t, v| t.linear(v[0], v[1], None, none, None)),
        refusal(&[&[5, 3], &[3]], |t, v| t.linear(v[0], v[1], None, none, None)),
        refusal(&[&[5, 3], &[7, 3], &[3]], |t, v| t.linear(v[0], v[1], Some(v[2]), none, None)),
        refusal(&[&[5, 3], &[7, 3], &[7, 5]], |t, v| t.linear(v[0], v[1], None, none, Some(v[2]))),
        refusal(&[&[5, 3], &[2], &[3]], |t, v| t.layer_norm(v[0], v[1], v[2])),
        refusal(&[&[5, 3], &[3], &[1, 3]], |t, v| t.layer_norm(v[0], v[1], v[2])),
        refusal(&[&[5, 3], &[3, 5]], |t, v| t.add(v[0], v[1])),
        refusal(&[], |t, _| t.concat(&[])),
        refusal(&[&[5, 3], &[4, 3]], |t, v| t.concat(&[v[0], v[1]])),
        refusal(&[&[5, 3]], |t, v| t.cross_entropy(v[0], &[0; 4], 0.0)),
        refusal(&[&[4, 3]], |t, v| t.pool(v[0], &items, Pool::Max)),
        refusal(&[&[4, 3]], |t, v| t.windows(v[0], &items, 1, 1)),
        refusal(&[&[3, 2], &[7, 6]], |t, v| t.conv1d(v[0], &items, v[1], None, 0, none)),
        refusal(&[&[3, 2], &[7, 5]], |t, v| t.conv1d(v[0], &items, v[1], None, 3, none)),
        refusal(&[&[4, 3], &[8, 3], &[8, 2], &[8]], |t, v| {
            t.lstm(v[0], &items, v[1], v[2], v[3], there)
        }),
        refusal(&[&[3, 3], &[6, 3], &[8, 2], &[8]], |t, v| {
            t.lstm(v[0], &items, v[1], v[2], v[3], back)
        }),
        refusal(&[&[3, 3], &[8, 3], &[6, 2], &[8]], |t, v| {
            t.lstm(v[0], &items, v[1], v[2], v[3], there)
        }),
        refusal(&[&[3, 3], &[8, 3], &[8, 2], &[6]], |t, v| {
            t.lstm(v[0], &items, v[1], v[2], v[3], back)
        }),
        refusal(&[&[3, 3], &[6, 3], &[6, 2], &[6], &[8]], |t, v| {
            t.gru(v[0], &items, (v[1], v[2]), (v[3], v[4]), there)
        }),
        refusal(&[&[3, 3], &[8, 3], &[6, 2], &[6], &[6]], |t, v| {
            t.gru(v[0], &items, (v[1], v[2]), (v[3], v[4]), back)
        }),
        refusal(&[&[4, 2], &[2, 2], &[2], &[2]], |t, v| crf(t, v, &items, &[0; 4])),
        refusal(&[&[3, 2], &[2, 2], &[2], &[2]], |t, v| crf(t, v, &items, &[0; 2])),
        refusal(&[&[3, 2], &[2, 3], &[2], &[2]], |t, v| crf(t, v, &items, &[0; 3])),
        refusal(&[&[3, 2], &[2, 2], &[3], &[2]], |t, v| crf(t, v, &items, &[0; 3])),
        refusal(&[&[3, 2], &[2, 2], &[2], &[1]], |t, v| crf(t, v, &items, &[0; 3])),
        refusal(&[&[4, 12]], |t, v| attention(t, v, &items, 2, 0.0)),
        refusal(&[&[3, 8]], |t, v| attention(t, v, &items, 2, 0.0)),
        refusal(&[&[3, 12]], |t, v| attention(t, v, &items, 0, 0.0)),
    ];
    let expected = [
        "linear: `w` must be [7, 3], got [7, 4]",
        "linear: `w` must be [3, 3], got [3]",
        "linear: `b` must be [7], got [3]",
        "linear: `residual` must be [5, 7], got [7, 5]",
        "layer_norm: `gain` must be [3], got [2]",
        "layer_norm: `bias` must be [3], got [1, 3]",
        "add: `b` must be [5, 3], got [3, 5]",
        "concat: `parts` must be at least one, got 0",
        "concat: `parts` must be [5, 3], got [4, 3]",
        "cross_entropy: `targets` must be [5], got [4]",
        "pool: `x` must be [3, 3], got [4, 3]",
        "windows: `x` must be [3, 3], got [4, 3]",
        "conv1d: `width` must be at least 1, got 0",
        "linear: `w` must be [7, 6], got [7, 5]",
        "lstm: `x` must be [3, 3], got [4, 3]",
        "lstm: `w_ih` must be [8, 3], got [6, 3]",
        "lstm: `w_hh` must be [8, 2], got [6, 2]",
        "lstm: `b` must be [8], got [6]",
        "gru: `b_hh` must be [6], got [8]",
        "gru: `w_ih` must be [6, 3], got [8, 3]",
        "crf: `emissions` must be [3, 2], got [4, 2]",
        "crf: `tags` must be [3], got [2]",
        "crf: `transitions` must be [2, 2], got [2, 3]",
        "crf: `start` must be [2], got [3]",
        "crf: `end` must be [2], got [1]",
        "self_attention: `qkv` must be [3, 12], got [4, 12]",
        "self_attention: `qkv` must be [_, 3·heads·d] with 2 heads, got [3, 8]",
        "self_attention: `qkv` must be [_, 3·heads·d] with 0 heads, got [3, 12]",
    ];
    assert_eq!(refused, expected);
}

fn crf(tape: &mut Tape<'_, f64>, v: &[Var], items: &Ragged, tags: &[u32]) -> Result<Var, NnError> {
    tape.crf(v[0], items, tags, Crf { transitions: v[1], start: v[2], end: v[3] })
}

fn attention(
    tape: &mut Tape<'_, f64>,
    v: &[Var],
    items: &Ragged,
    n_heads: usize,
    dropout: f64,
) -> Result<Var, NnError> {
    let spec = AttentionSpec {
        n_heads,
        score: v.get(1).map_or_else(
            || ScoreSpec::Fixed(Arc::new(ScaledDot::new(2))),
            |v_a| ScoreSpec::Additive(*v_a),
        ),
        normaliser: Arc::new(Softmax),
        scope: Arc::new(ScopeConfig::default()),
        position: PositionSpec::Fixed(Arc::new(Rotary::new(10_000.0, RotaryLayout::Half))),
        dropout,
    };
    Ok(tape.self_attention(v[0], items, spec, false)?.0)
}

#[test]
fn what_attention_cannot_serve_is_named() {
    let items = Ragged::new(&[2, 1]);
    // A head of odd width cannot turn; the additive score's vector fits no head.
    let odd = refusal(&[&[3, 18]], |t, v| attention(t, v, &items, 2, 0.0));
    assert!(odd.starts_with("attention: `d_k` must be "), "{odd}");
    let v_a = refusal(&[&[3, 12], &[2, 3]], |t, v| attention(t, v, &items, 2, 0.0));
    assert!(v_a.starts_with("attention: `v"), "{v_a}");
    for rate in [1.0, 1.5] {
        let rate = refusal(&[&[3, 12]], |t, v| attention(t, v, &items, 2, rate));
        assert!(rate.starts_with("attention: option `dropout` must be in [0, 1), got 1"), "{rate}");
    }
}

#[test]
fn a_dropout_rate_is_checked_outside_training_and_below_zero_too() {
    let items = Ragged::new(&[3]);
    let params = no_params();
    for mode in [Mode::Inference, Mode::Gradient, Mode::Training(Key::new(1))] {
        for rate in [-0.1, 1.0, f64::NAN] {
            let mut tape = Tape::<f64>::new(&params, mode);
            let x = tape.input(Tensor::zeros(&[3, 12]));
            let error = tape.dropout(x, rate).unwrap_err().to_string();
            assert_eq!(error, format!("`dropout` must be in [0, 1), got {rate}"));
            let error = attention(&mut tape, &[x], &items, 2, rate).unwrap_err().to_string();
            assert_eq!(error, format!("attention: option `dropout` must be in [0, 1), got {rate}"));
        }
    }
}

#[test]
fn indices_outside_are_named_with_their_place() {
    let items = Ragged::new(&[2, 1]);
    let id = refusal(&[&[5, 3]], |t, v| t.embedding(v[0], &[4, 5, 6]));
    assert_eq!(id, "embedding: id 5 at position 1 is outside 0..5");
    let target = refusal(&[&[3, 4]], |t, v| t.cross_entropy(v[0], &[0, 3, 4], 0.0));
    assert_eq!(target, "cross_entropy: target 4 at position 2 is outside 0..4");
    let tag = refusal(&[&[3, 2], &[2, 2], &[2], &[2]], |t, v| crf(t, v, &items, &[2, 0, 9]));
    assert_eq!(tag, "crf: tag 2 at position 0 is outside 0..2");
    let empty = refusal(&[&[0, 3]], |t, v| t.embedding(v[0], &[0]));
    assert_eq!(empty, "embedding: id 0 at position 0 is outside 0..0");
}

#[test]
fn settings_out_of_range_are_named() {
    for smoothing in [-0.1, 1.0, f64::NAN] {
        let text = refusal(&[&[1, 3]], |t, v| t.cross_entropy(v[0], &[0], smoothing));
        assert_eq!(text, format!("`label_smoothing` must be in [0, 1), got {smoothing}"));
    }
    let attention = |d_model, n_heads, rotary| {
        let config = AttentionConfig {
            d_model,
            n_heads,
            score: ScoreKind::ScaledDot,
            scope: ScopeConfig::default(),
            rotary,
            dropout: 0.0,
        };
        MultiHeadAttention::new(&mut ParamSpecs::new(), "a", config).unwrap_err().to_string()
    };
    assert_eq!(attention(6, 4, None), "`heads` must be a divisor of d_model = 6, got 4");
    assert_eq!(attention(6, 0, None), "`heads` must be a divisor of d_model = 6, got 0");
    let odd = "`d_model/heads` must be even for rotary position (choose d_model and heads so), \
               got 3";
    assert_eq!(attention(6, 2, Some(10_000.0)), odd);

    let adam =
        |beta1, beta2, eps, weight_decay| OptimiserConfig::Adam { beta1, beta2, eps, weight_decay };
    let sgd = |momentum, weight_decay| OptimiserConfig::Sgd { momentum, weight_decay };
    for (config, text) in [
        (sgd(1.0, 0.0), "`momentum` must be in [0, 1), got 1"),
        (sgd(f64::NAN, 0.0), "`momentum` must be in [0, 1), got NaN"),
        (sgd(0.0, -1.0), "`weight_decay` must be at least 0, got -1"),
        (adam(-0.5, 0.9, 1e-8, 0.0), "`beta1` must be in [0, 1), got -0.5"),
        (adam(0.9, 1.0, 1e-8, 0.0), "`beta2` must be in [0, 1), got 1"),
        (adam(0.9, 0.9, 0.0, 0.0), "`eps` must be above 0, got 0"),
        (
            adam(0.9, 0.9, f64::INFINITY, 0.0),
            "`eps` must be finite and above 0 in single precision, got inf",
        ),
        (adam(0.9, 0.9, 1e-8, f64::INFINITY), "`weight_decay` must be finite, got inf"),
    ] {
        assert_eq!(config.check().unwrap_err().to_string(), text);
    }
    // Too small for single precision: it would be 0.
    let error = adam(0.9, 0.9, 1e-60, 0.0).check().unwrap_err().to_string();
    assert!(error.starts_with("`eps` must be finite and above 0 in single precision"), "{error}");
    assert!(adam(0.0, 0.0, 1e-8, 0.0).check().is_ok() && sgd(0.0, 0.0).check().is_ok());
}

#[test]
fn operators_take_or_refuse_arrays_without_columns_and_never_panic() {
    let items = Ragged::new(&[2, 1]);
    let linear: Op<'_> = &|t, v| t.linear(v[0], v[1], Some(v[2]), Activation::Gelu, Some(v[3]));
    let norm: Op<'_> = &|t, v| t.layer_norm(v[0], v[1], v[1]);
    let columns: Op<'_> = &|t, v| {
        let windows = t.windows(v[0], &items, 1, 1)?;
        let pooled = t.pool(windows, &items, Pool::Max)?;
        let mean = t.pool(v[0], &items, Pool::Mean)?;
        let both = t.concat(&[pooled, mean])?;
        t.embedding(both, &[1, 0, 1])
    };
    let lstm: Op<'_> = &|t, v| t.lstm(v[0], &items, v[1], v[2], v[3], Direction::Forward);
    let gru: Op<'_> = &|t, v| t.gru(v[0], &items, (v[1], v[2]), (v[3], v[3]), Direction::Backward);
    let attend: Op<'_> = &|t, v| attention(t, v, &items, 2, 0.0);
    let entropy: Op<'_> = &|t, v| t.cross_entropy(v[0], &[IGNORED; 3], 0.1);
    let chain: Op<'_> = &|t, v| crf(t, v, &items, &[0; 3]);
    let cases: [(Op<'_>, &[&[usize]], bool); 12] = [
        (linear, &[&[3, 0], &[2, 0], &[2], &[3, 2]], true),
        (linear, &[&[3, 2], &[0, 2], &[0], &[3, 0]], true),
        (linear, &[&[0, 2], &[2, 2], &[2], &[0, 2]], true),
        (norm, &[&[3, 0], &[0]], true),
        (norm, &[&[0, 2], &[2]], true),
        (columns, &[&[3, 0]], true),
        (lstm, &[&[3, 0], &[8, 0], &[8, 2], &[8]], true),
        (lstm, &[&[3, 2], &[0, 2], &[0, 0], &[0]], false),
        (gru, &[&[3, 2], &[0, 2], &[0, 0], &[0]], false),
        (attend, &[&[3, 0]], false),
        (entropy, &[&[3, 0]], true),
        (chain, &[&[3, 0], &[0, 0], &[0], &[0]], false),
    ];
    let params = no_params();
    for (i, (op, shapes, served)) in cases.into_iter().enumerate() {
        let mut tape = Tape::new(&params, Mode::Training(Key::new(1)));
        let vars: Vec<Var> = shapes.iter().map(|dims| tape.input(Tensor::zeros(dims))).collect();
        let result = op(&mut tape, &vars);
        assert_eq!(result.is_ok(), served, "case {i}: {result:?}");
        if let Ok(y) = result {
            let upstream = Tensor::zeros(&tape.shape(y));
            tape.backward_from(y, upstream, &mut []);
        }
    }
}

/// Builds a tagger and runs it once on a small batch.
fn try_tagger(words: WordsConfig, encoder: EncoderConfig, n_labels: usize) -> Result<(), NnError> {
    let mut specs = ParamSpecs::new();
    let config = TaggerConfig { words, encoder, n_labels, output: Output::Softmax };
    let tagger = Tagger::new(&mut specs, config)?;
    let params = Params::<f32>::new(specs, 1);
    let ids = token_ids(&sentences(1, &[3, 1]));
    let mut tape = Tape::new(&params, Mode::Gradient);
    let loss = tagger.loss(&mut tape, &ids, Target { labels: &[0; 4], smoothing: 0.0 })?;
    tape.backward(loss, &mut vec![0.0; params.flat_len()]);
    Ok(())
}

#[test]
fn sizes_of_zero_are_refused_and_never_panic() {
    let good = || words(3, CharEncoder::Cnn, 0.0);
    let feed_forward = |hidden, layers| {
        EncoderConfig::FeedForward(FeedForwardConfig { context: 1, hidden, layers, dropout: 0.0 })
    };
    assert!(try_tagger(good(), feed_forward(4, 1), N_LABELS).is_ok());
    let cnn =
        |kernel, hidden| EncoderConfig::Cnn(CnnConfig { kernel, hidden, layers: 1, dropout: 0.0 });
    let rnn =
        EncoderConfig::Rnn(RnnConfig { hidden: 0, layers: 1, bidirectional: true, dropout: 0.0 });
    let mut refused = vec![
        ("labels", try_tagger(good(), feed_forward(4, 1), 0)),
        ("feed-forward", try_tagger(good(), feed_forward(0, 1), N_LABELS)),
        ("kernel", try_tagger(good(), cnn(0, 4), N_LABELS)),
        ("cnn", try_tagger(good(), cnn(3, 0), N_LABELS)),
        ("rnn", try_tagger(good(), rnn, N_LABELS)),
        ("no width", {
            let words = WordsConfig { char_widths: vec![], ..good() };
            try_tagger(words, feed_forward(4, 1), N_LABELS)
        }),
        ("width", {
            let words = WordsConfig { char_widths: vec![0, 2], ..good() };
            try_tagger(words, feed_forward(4, 1), N_LABELS)
        }),
        ("twice the same width", {
            let words = WordsConfig { char_widths: vec![2, 2], ..good() };
            try_tagger(words, feed_forward(4, 1), N_LABELS)
        }),
        ("word vectors", {
            let words = WordsConfig { d_word: 0, ..good() };
            try_tagger(words, feed_forward(4, 1), N_LABELS)
        }),
    ];
    for reader in [CharEncoder::Cnn, CharEncoder::Lstm] {
        let hidden = WordsConfig { char_hidden: 0, encoder: reader, ..good() };
        refused.push(("char hidden", try_tagger(hidden, feed_forward(4, 1), N_LABELS)));
        let vectors = WordsConfig { d_char: 0, encoder: reader, ..good() };
        refused.push(("char vectors", try_tagger(vectors, feed_forward(4, 1), N_LABELS)));
    }
    for (name, config) in encoders(0, 0.0) {
        refused.push(("width 0", try_tagger(good(), config, N_LABELS)));
        assert!(refused.last().is_some_and(|(_, r)| r.is_err()), "{name} of width 0");
    }
    for (what, result) in refused {
        let error = result.expect_err(what);
        assert!(matches!(error, NnError::Hyper { .. }), "{what}: {error}");
    }
}
