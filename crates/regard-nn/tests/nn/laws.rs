//! Laws of the tape, of packed batches, of dropout and of threads.

use std::sync::Arc;

use crate::common::{
    SCOPES, bits, encoders, labels, largest, no_params, normal, one_of_each_kind, sentences,
    tagger, tensor, token_ids, wide, words,
};
use regard_attn::normaliser::Softmax;
use regard_attn::position::{NoPosition, Rotary, RotaryLayout};
use regard_attn::score::ScaledDot;
use regard_nn::layers::ScopeConfig;
use regard_nn::models::{CharEncoder, Encoder, EncoderConfig, Output, Target};
use regard_nn::ops::{Activation, AttentionSpec, Crf, Direction, Pool, PositionSpec, ScoreSpec};
use regard_nn::optim::{Optimiser, OptimiserConfig};
use regard_nn::{Init, Mode, NnError, ParamSpecs, Params, Ragged, Tape, Var};
use regard_tensor::{Key, Real, Tensor};
use regard_testkit::{Bound, assert_close};

// ---------------------------------------------------------------------------------- the tape

/// An operator of two arguments.
type Op<'a> = &'a dyn Fn(&mut Tape<'_, f64>, Var, Var) -> Result<Var, NnError>;

/// Gradients of an operator of two arguments by each of them, given apart; and by both
/// together, given as the same value.
fn apart_and_together(a: &Tensor<f64>, op: Op<'_>) -> (Vec<f64>, Vec<f64>) {
    let params = no_params();
    let run = |twice: bool| {
        let mut tape = Tape::new(&params, Mode::Gradient);
        let x = tape.input(a.clone());
        let y = if twice { x } else { tape.input(a.clone()) };
        let out = op(&mut tape, x, y).unwrap();
        let shape = tape.shape(out);
        let upstream = tensor(&shape, &normal(3, shape.size()));
        let gradients = tape.backward_from(out, upstream, &mut []);
        let mut sum = gradients.of(x).unwrap().data().to_vec();
        if !twice {
            let other = gradients.of(y).unwrap().data();
            sum.iter_mut().zip(other).for_each(|(s, g)| *s += g);
        }
        sum
    };
    (run(false), run(true))
}

#[test]
fn a_value_used_twice_gets_the_sum_of_both_gradients() {
    let square = tensor(&[4, 4], &normal(1, 16));
    let row = tensor(&[4], &normal(2, 4));
    let items = Ragged::new(&[3, 1]);
    let constant = |tape: &mut Tape<'_, f64>, dims: &[usize]| {
        let n = dims.iter().product();
        tape.constant(tensor(dims, &normal(9, n)))
    };
    let add: Op<'_> = &|tape, a, b| tape.add(a, b);
    let concat: Op<'_> = &|tape, a, b| tape.concat(&[a, b]);
    let product: Op<'_> = &|tape, a, b| tape.linear(a, b, None, Activation::Gelu, None);
    let residual: Op<'_> = &|tape, a, b| {
        let w = constant(tape, &[4, 4]);
        tape.linear(a, w, None, Activation::Tanh, Some(b))
    };
    let tables: Op<'_> = &|tape, a, b| {
        let (first, second) = (tape.embedding(a, &[0, 2, 2])?, tape.embedding(b, &[2, 1, 1])?);
        tape.add(first, second)
    };
    let windows: Op<'_> = &|tape, a, b| {
        let (near, far) = (tape.windows(a, &items, 0, 1)?, tape.windows(b, &items, 1, 0)?);
        tape.add(near, far)
    };
    let pools: Op<'_> = &|tape, a, b| {
        let (max, mean) = (tape.pool(a, &items, Pool::Max)?, tape.pool(b, &items, Pool::Mean)?);
        tape.add(max, mean)
    };
    let recurrent: Op<'_> = &|tape, a, b| {
        let w = constant(tape, &[4, 1]);
        let bias = constant(tape, &[4]);
        let (wi, wh) = (constant(tape, &[4, 4]), w);
        let there = tape.lstm(a, &items, wi, wh, bias, Direction::Forward)?;
        let back = tape.lstm(b, &items, wi, wh, bias, Direction::Backward)?;
        tape.add(there, back)
    };
    for op in [add, concat, product, residual, tables, windows, pools, recurrent] {
        let (apart, together) = apart_and_together(&square, op);
        // At most sixteen terms each.
        assert_close(&together, &apart, Bound::f64(16, largest(&apart).max(1.0)));
    }

    let norm: Op<'_> = &|tape, a, b| {
        let x = constant(tape, &[3, 4]);
        tape.layer_norm(x, a, b)
    };
    let ends: Op<'_> = &|tape, start, end| {
        let emissions = constant(tape, &[4, 4]);
        let transitions = constant(tape, &[4, 4]);
        tape.crf(emissions, &items, &[0, 3, 1, 2], Crf { transitions, start, end })
    };
    for op in [norm, ends] {
        let (apart, together) = apart_and_together(&row, op);
        assert_close(&together, &apart, Bound::f64(16, largest(&apart).max(1.0)));
    }
}

/// One parameter of three numbers.
fn one_parameter() -> (regard_nn::ParamId, Params<f64>) {
    let mut specs = ParamSpecs::new();
    let id = specs.add("p", &[1, 3], Init::Normal(1.0));
    (id, Params::new(specs, 1))
}

#[test]
fn gradients_of_parameters_add_up_over_uses_and_over_passes() {
    let (id, params) = one_parameter();
    let mut flat = vec![0.0; params.flat_len()];
    for pass in 1..=2 {
        let mut tape = Tape::new(&params, Mode::Gradient);
        // y = 2p − 5p: two uses on one tape.
        let (once, again) = (tape.param(id), tape.param(id));
        let (a, b) = (tape.scale(once, 2.0), tape.scale(again, -5.0));
        let y = tape.add(a, b).unwrap();
        tape.backward_from(y, tensor(&[1, 3], &[1.0, 10.0, 100.0]), &mut flat);
        let n = f64::from(pass);
        assert_eq!(flat[params.range(id)], [-3.0 * n, -30.0 * n, -300.0 * n]);
    }
}

#[test]
fn a_parameter_that_is_the_result_itself_gets_the_upstream_gradient() {
    let (id, params) = one_parameter();
    let mut flat = vec![0.0; params.flat_len()];
    let mut tape = Tape::new(&params, Mode::Gradient);
    let p = tape.param(id);
    tape.backward_from(p, tensor(&[1, 3], &[1.0, 2.0, 3.0]), &mut flat);
    assert_eq!(flat[params.range(id)], [1.0, 2.0, 3.0]);
}

#[test]
fn constants_and_inference_have_no_gradient() {
    let params = no_params();
    for (mode, expected) in [(Mode::Gradient, true), (Mode::Inference, false)] {
        let mut tape = Tape::<f64>::new(&params, mode);
        assert_eq!(tape.records(), expected);
        let x = tape.input(tensor(&[1, 1], &[3.0]));
        let c = tape.constant(tensor(&[1, 1], &[4.0]));
        let y = tape.linear(x, c, None, Activation::None, None).unwrap();
        assert_eq!(tape.value(y).data(), [12.0]);
        let gradients = tape.backward(y, &mut []);
        assert_eq!(gradients.of(x).map(|g| g.data().to_vec()), expected.then(|| vec![4.0]));
        assert!(gradients.of(c).is_none());
    }
}

#[test]
fn an_input_that_does_not_matter_has_no_gradient() {
    let params = no_params();
    let mut tape = Tape::<f64>::new(&params, Mode::Gradient);
    let x = tape.input(tensor(&[1, 2], &[1.0, 2.0]));
    let unused = tape.input(tensor(&[1, 2], &[1.0, 2.0]));
    let dead_end = tape.scale(unused, 3.0);
    let y = tape.scale(x, 3.0);
    let gradients = tape.backward_from(y, tensor(&[1, 2], &[1.0, 1.0]), &mut []);
    assert_eq!(gradients.of(x).unwrap().data(), [3.0, 3.0]);
    assert!(gradients.of(unused).is_none());
    assert!(gradients.of(dead_end).is_none());
}

#[test]
fn first_values_follow_from_seed_and_name_alone() {
    let list = |names: &[&str]| {
        let mut specs = ParamSpecs::new();
        let ids: Vec<_> = names.iter().map(|n| specs.add(n, &[5, 5], Init::Orthogonal)).collect();
        (ids, specs)
    };
    let (ids, specs) = list(&["a", "b"]);
    let (more, longer) = list(&["z", "b", "a"]);
    let (first, second) = (Params::<f32>::new(specs, 7), Params::<f32>::new(longer, 7));
    assert_eq!(bits(first.tensor(ids[0]).data()), bits(second.tensor(more[2]).data()));
    assert_eq!(bits(first.tensor(ids[1]).data()), bits(second.tensor(more[1]).data()));
    assert_ne!(bits(first.tensor(ids[0]).data()), bits(first.tensor(ids[1]).data()));
}

// ------------------------------------------------------------------------------ packed batches

/// What an encoder gives for a batch, and the gradients for the upstream gradient `dy`.
struct Encoded {
    y: Vec<f64>,
    dx: Vec<f64>,
    flat: Vec<f64>,
}

const D: usize = 5;

fn encode(
    encoder: &Encoder,
    params: &Params<f64>,
    lengths: &[usize],
    x: &[f64],
    dy: &[f64],
) -> Encoded {
    let items = Ragged::new(lengths);
    let mut tape = Tape::new(params, Mode::Gradient);
    let x = tape.input(tensor(&[items.total(), D], x));
    let y = encoder.forward(&mut tape, x, &items, None).unwrap();
    assert_eq!(tape.shape(y)[..], [items.total(), encoder.width()]);
    let value = tape.value(y).data().to_vec();
    let mut flat = vec![0.0; params.flat_len()];
    let dy = tensor(&[items.total(), encoder.width()], dy);
    let gradients = tape.backward_from(y, dy, &mut flat);
    let dx = gradients.of(x).unwrap().data().to_vec();
    Encoded { y: value, dx, flat }
}

/// An encoder of rows [`D`] wide with parameters that are not at their first values.
fn encoder(config: EncoderConfig) -> (Encoder, Params<f64>) {
    let mut specs = ParamSpecs::new();
    let encoder = Encoder::new(&mut specs, D, config).unwrap();
    let mut params = Params::new(specs, 1);
    let moves = normal(5, params.flat_len());
    params.flat_mut().iter_mut().zip(moves).for_each(|(x, by)| *x += 0.2 * by);
    (encoder, params)
}

/// Two orders of the same sums: at most `8` layers of sums deep, each at most some dozens long.
fn rounding(expected: &[f64]) -> Bound {
    Bound::f64(8 * 32, largest(expected).max(1.0))
}

const LENGTHS: [usize; 7] = [3, 0, 1, 7, 2, 7, 0];

#[test]
fn an_item_alone_gives_the_same_as_in_a_batch() {
    let items = Ragged::new(&LENGTHS);
    let x = normal(11, items.total() * D);
    for (name, config) in encoders(8, 0.0) {
        let (encoder, params) = encoder(config);
        let width = encoder.width();
        let dy = normal(12, items.total() * width);
        let together = encode(&encoder, &params, &LENGTHS, &x, &dy);
        let mut sum = vec![0.0; params.flat_len()];
        for b in 0..items.items() {
            let rows = items.rows(b);
            let of_x = rows.start * D..rows.end * D;
            let of_y = rows.start * width..rows.end * width;
            let (x, dy) = (&x[of_x.clone()], &dy[of_y.clone()]);
            let alone = encode(&encoder, &params, &[LENGTHS[b]], x, dy);
            let context = format!("{name}, item {b}");
            close(&context, &alone.y, &together.y[of_y], rounding(&together.y));
            close(&context, &alone.dx, &together.dx[of_x], rounding(&together.dx));
            sum.iter_mut().zip(&alone.flat).for_each(|(s, g)| *s += g);
        }
        close(&name, &sum, &together.flat, rounding(&together.flat));
    }
}

#[track_caller]
fn close(context: &str, actual: &[f64], expected: &[f64], bound: Bound) {
    if let Err(message) = regard_testkit::close_each(actual, expected, |_| bound) {
        panic!("{context}: {message}");
    }
}

#[test]
fn the_order_of_items_does_not_matter() {
    let items = Ragged::new(&LENGTHS);
    let x = normal(13, items.total() * D);
    let order = [5, 2, 0, 6, 3, 1, 4];
    let lengths = order.map(|b| LENGTHS[b]);
    let reorder = |rows: &[f64], width: usize| -> Vec<f64> {
        let item = |b: usize| &rows[items.rows(b).start * width..items.rows(b).end * width];
        order.iter().flat_map(|b| item(*b).to_vec()).collect()
    };
    for (name, config) in encoders(8, 0.0) {
        let (encoder, params) = encoder(config);
        let width = encoder.width();
        let dy = normal(14, items.total() * width);
        let one = encode(&encoder, &params, &LENGTHS, &x, &dy);
        let other = encode(&encoder, &params, &lengths, &reorder(&x, D), &reorder(&dy, width));
        close(&name, &other.y, &reorder(&one.y, width), rounding(&one.y));
        close(&name, &other.dx, &reorder(&one.dx, D), rounding(&one.dx));
        close(&name, &other.flat, &one.flat, rounding(&one.flat));
    }
}

#[test]
fn batches_without_rows_give_nothing_and_no_gradient() {
    for (name, config) in encoders(8, 0.0) {
        let (encoder, params) = encoder(config);
        for lengths in [&[][..], &[0], &[0, 0]] {
            let nothing = encode(&encoder, &params, lengths, &[], &[]);
            assert!(nothing.y.is_empty() && nothing.dx.is_empty(), "{name}");
            assert!(nothing.flat.iter().all(|g| *g == 0.0), "{name}");
        }
    }
    for (reader, output) in [
        (CharEncoder::None, Output::Softmax),
        (CharEncoder::Cnn, Output::Crf),
        (CharEncoder::Lstm, Output::Softmax),
    ] {
        for (name, config) in one_of_each_kind(8, 0.0) {
            let (tagger, params) = tagger::<f64>(words(3, reader, 0.0), config, output, 1);
            for batch in [token_ids(&[]), token_ids(&[vec![]])] {
                let mut tape = Tape::new(&params, Mode::Gradient);
                let target = Target { labels: &[], smoothing: 0.0 };
                let loss = tagger.loss(&mut tape, &batch, target).unwrap();
                assert_eq!(tape.value(loss).data(), [0.0], "{name}");
                let mut flat = vec![0.0; params.flat_len()];
                tape.backward(loss, &mut flat);
                assert!(flat.iter().all(|g| *g == 0.0), "{name}");
                let mut tape = Tape::new(&params, Mode::Inference);
                let logits = tagger.logits(&mut tape, &batch, None).unwrap();
                assert!(tagger.decode(&params, tape.value(logits), &batch).is_empty());
            }
        }
    }
}

#[test]
fn what_looks_back_alone_is_not_moved_by_what_follows() {
    let backward_looking = |config: &EncoderConfig| match config {
        EncoderConfig::FeedForward(c) => c.context == 0,
        EncoderConfig::Cnn(c) => c.kernel == 1,
        EncoderConfig::Rnn(c) => !c.bidirectional,
        EncoderConfig::SelfAttention(c) => c.scope.causal,
        EncoderConfig::Transformer(c) => c.scope.causal,
    };
    let n = 6;
    let x = normal(15, n * D);
    for (name, config) in encoders(8, 0.0) {
        let looks_back = backward_looking(&config);
        let (encoder, params) = encoder(config);
        let width = encoder.width();
        let dy = normal(16, n * width);
        let whole = encode(&encoder, &params, &[n], &x, &dy).y;
        let prefix = encode(&encoder, &params, &[3], &x[..3 * D], &dy[..3 * width]).y;
        if looks_back {
            close(&name, &prefix, &whole[..3 * width], rounding(&whole));
        } else {
            let moved = prefix.iter().zip(&whole).any(|(a, b)| (a - b).abs() > 1e-6);
            assert!(moved, "{name}: the end of a sentence does not matter to its middle");
        }
    }
}

/// Scaled dot over two heads of four, as operator.
fn attend<T: Real>(
    lengths: &[usize],
    qkv: &[f64],
    dy: &[f64],
    scope: ScopeConfig,
) -> (Vec<u64>, Vec<u64>) {
    let items = Ragged::new(lengths);
    let params = no_params::<T>();
    let mut tape = Tape::new(&params, Mode::Gradient);
    let qkv = tape.input(tensor(&[items.total(), 24], qkv));
    let spec = AttentionSpec {
        n_heads: 2,
        score: ScoreSpec::Fixed(Arc::new(ScaledDot::new(4))),
        normaliser: Arc::new(Softmax),
        scope: Arc::new(scope),
        position: PositionSpec::Fixed(Arc::new(Rotary::new(10_000.0, RotaryLayout::Half))),
        dropout: 0.0,
    };
    let (y, _) = tape.self_attention(qkv, &items, spec, false).unwrap();
    let value = bits(tape.value(y).data());
    let gradients = tape.backward_from(y, tensor(&[items.total(), 8], dy), &mut []);
    (value, bits(gradients.of(qkv).unwrap().data()))
}

#[test]
fn attention_gives_the_same_bits_for_an_item_alone_and_in_a_batch() {
    // Around the sizes of tiles.
    let lengths = [65, 0, 1, 130, 63, 64];
    let items = Ragged::new(&lengths);
    let (qkv, dy) = (normal(17, items.total() * 24), normal(18, items.total() * 8));
    for scope in SCOPES {
        let (y, dqkv) = attend::<f32>(&lengths, &qkv, &dy, scope);
        for b in 0..items.items() {
            let rows = items.rows(b);
            let of_qkv = rows.start * 24..rows.end * 24;
            let of_y = rows.start * 8..rows.end * 8;
            let (qkv, dy) = (&qkv[of_qkv.clone()], &dy[of_y.clone()]);
            let (y_alone, dqkv_alone) = attend::<f32>(&[lengths[b]], qkv, dy, scope);
            assert!(y_alone == y[of_y], "context of item {b} under {scope:?}");
            assert!(dqkv_alone == dqkv[of_qkv], "gradients of item {b} under {scope:?}");
        }
    }
}

// ------------------------------------------------------------------------------------ dropout

/// x dropped at `rate`, and the gradient for an upstream gradient of ones.
fn dropped(mode: Mode, x: &Tensor<f32>, rate: f64) -> (Vec<f64>, Vec<f64>) {
    let params = no_params();
    let mut tape = Tape::new(&params, mode);
    let input = tape.input(x.clone());
    let y = tape.dropout(input, rate).unwrap();
    let value = wide(tape.value(y).data());
    let ones = tensor(x.shape(), &vec![1.0; x.len()]);
    let gradients = tape.backward_from(y, ones, &mut []);
    (value, wide(gradients.of(input).unwrap().data()))
}

#[test]
fn dropout_keeps_the_mean_and_its_gradient_has_the_same_mask() {
    let n = 100_000;
    let x = tensor(&[n / 10, 10], &vec![1.0; n]);
    for rate in [0.1, 0.5, 0.9] {
        let (y, dx) = dropped(Mode::Training(Key::new(1)), &x, rate);
        let kept = f64::from((1.0 / (1.0 - rate)) as f32);
        assert!(y.iter().all(|y| *y == 0.0 || *y == kept), "others are scaled by 1/(1 − rate)");
        // Of x = 1 the output is the mask itself, and so is the gradient.
        assert_eq!(y, dx);
        // Standard error of the mean of n draws that are 1/(1 − rate) with probability 1 − rate.
        let mean = y.iter().sum::<f64>() / n as f64;
        let slack = 5.0 * (rate / (1.0 - rate) / n as f64).sqrt();
        assert!((mean - 1.0).abs() < slack, "mean {mean} at rate {rate}");
        // Neighbours, along and across, are dropped independently.
        let both = |step: usize| {
            let pairs = y.iter().zip(&y[step..]);
            pairs.filter(|(a, b)| **a == 0.0 && **b == 0.0).count() as f64 / n as f64
        };
        for step in [1, 10] {
            assert!((both(step) - rate * rate).abs() < 5.0 * 0.5 / (n as f64).sqrt());
        }
    }
}

#[test]
fn every_dropout_of_a_step_and_every_step_draws_its_own_mask() {
    let params = no_params();
    let x = tensor::<f32>(&[10, 10], &[1.0; 100]);
    let two = |seed| {
        let mut tape = Tape::new(&params, Mode::Training(Key::new(seed)));
        let input = tape.constant(x.clone());
        let (a, b) = (tape.dropout(input, 0.5).unwrap(), tape.dropout(input, 0.5).unwrap());
        [a, b].map(|y| bits(tape.value(y).data()))
    };
    let ([a, b], [c, d]) = (two(1), two(2));
    let masks = [&a, &b, &c, &d];
    for i in 0..masks.len() {
        assert!(masks[i + 1..].iter().all(|other| *other != masks[i]));
    }
    assert_eq!(two(1), [a, b]);
}

#[test]
fn dropout_is_the_identity_outside_training_and_at_rate_zero() {
    let x = tensor(&[5, 4], &normal(1, 20));
    for (mode, rate) in [(Mode::Gradient, 0.7), (Mode::Training(Key::new(1)), 0.0)] {
        let (y, dx) = dropped(mode, &x, rate);
        assert_eq!(y, wide(x.data()));
        assert_eq!(dx, [1.0; 20]);
    }
    // Whole models: with and without dropout the same bits.
    let ids = token_ids(&sentences(1, &[4, 2]));
    for ((name, dry), (_, wet)) in encoders(8, 0.0).into_iter().zip(encoders(8, 0.5)) {
        let logits = |config, rate, mode| {
            let words = words(3, CharEncoder::Cnn, rate);
            let (tagger, params) = tagger::<f32>(words, config, Output::Softmax, 1);
            let mut tape = Tape::new(&params, mode);
            let logits = tagger.logits(&mut tape, &ids, None).unwrap();
            wide(tape.value(logits).data())
        };
        let plain = logits(dry, 0.0, Mode::Inference);
        let bound = Bound::f32(8 * 32, largest(&plain).max(1.0));
        close(&name, &logits(wet.clone(), 0.5, Mode::Inference), &plain, bound);
        close(&name, &logits(wet.clone(), 0.5, Mode::Gradient), &plain, bound);
        assert_ne!(logits(wet, 0.5, Mode::Training(Key::new(1))), plain, "{name}");
    }
}

#[test]
fn dropped_attention_weights_keep_the_mean() {
    // All keys alike, all values 1: the context is the share of weights kept over 1 − rate.
    let (n, rate, params) = (100, 0.3, no_params::<f32>());
    let items = Ragged::new(&[n]);
    let mut qkv = vec![0.0; n * 3];
    qkv.chunks_exact_mut(3).for_each(|row| row[2] = 1.0);
    let mut tape = Tape::new(&params, Mode::Training(Key::new(4)));
    let input = tape.constant(tensor(&[n, 3], &qkv));
    let spec = AttentionSpec {
        n_heads: 1,
        score: ScoreSpec::Fixed(Arc::new(ScaledDot::new(1))),
        normaliser: Arc::new(Softmax),
        scope: Arc::new(ScopeConfig::default()),
        position: PositionSpec::Fixed(Arc::new(NoPosition)),
        dropout: rate,
    };
    let (y, look) = tape.self_attention(input, &items, spec, true).unwrap();
    let contexts = wide(tape.value(y).data());
    let mean = contexts.iter().sum::<f64>() / n as f64;
    let slack = 5.0 * (rate / (1.0 - rate) / (n * n) as f64).sqrt();
    assert!((mean - 1.0).abs() < slack, "mean {mean}");
    assert!(contexts.iter().any(|c| (c - 1.0).abs() > 1e-3), "something is dropped");
    // The weights to look at are those before dropout.
    let weights = wide(look.unwrap().weights.data());
    assert_close(&weights, &vec![1.0 / n as f64; n * n], Bound::f32(4, 1.0 / n as f64));
}

// ------------------------------------------------------------------------------------ threads

#[test]
fn the_same_seed_gives_the_same_bits_for_any_number_of_threads() {
    // Large enough that every operator splits its work.
    let lengths: Vec<usize> = (0..24).map(|i| (i * 7) % 31).collect();
    let ids = token_ids(&sentences(2, &lengths));
    let labels = labels(3, ids.words.len());
    let target = Target { labels: &labels, smoothing: 0.1 };
    for (name, config) in one_of_each_kind(32, 0.1) {
        for (reader, output) in
            [(CharEncoder::Cnn, Output::Softmax), (CharEncoder::Lstm, Output::Crf)]
        {
            let run = |threads| {
                crate::common::on_threads(threads, || {
                    let words = words(32, reader, 0.1);
                    let (tagger, mut params) = tagger::<f32>(words, config.clone(), output, 9);
                    let config = OptimiserConfig::Adamw {
                        beta1: 0.9,
                        beta2: 0.98,
                        eps: 1e-9,
                        weight_decay: 0.01,
                    };
                    let mut optimiser = Optimiser::new(config, params.flat_len());
                    let mut trace = Vec::new();
                    for step in 0..2 {
                        let mut flat = vec![0.0; params.flat_len()];
                        let mode = Mode::Training(Key::new(9).child(step));
                        let mut tape = Tape::new(&params, mode);
                        let loss = tagger.loss(&mut tape, &ids, target).unwrap();
                        trace.push(bits(tape.value(loss).data()));
                        tape.backward(loss, &mut flat);
                        trace.push(vec![regard_nn::optim::clip(&mut flat, 0.5).to_bits()]);
                        trace.push(bits(&flat));
                        optimiser.step(params.flat_mut(), &flat, 1e-3);
                        trace.push(bits(params.flat()));
                    }
                    trace
                })
            };
            let one = run(1);
            assert!(one.iter().flatten().all(|x| f64::from_bits(*x).is_finite()));
            for threads in [2, 4] {
                assert!(run(threads) == one, "{name}, {reader:?}, {output:?}: {threads} threads");
            }
        }
    }
}

#[test]
fn attention_gives_the_same_bits_for_any_number_of_threads() {
    let lengths = [130, 3, 64];
    let total: usize = lengths.iter().sum();
    let (qkv, dy) = (normal(19, total * 24), normal(20, total * 8));
    for scope in SCOPES {
        let run = |threads| {
            crate::common::on_threads(threads, || attend::<f32>(&lengths, &qkv, &dy, scope))
        };
        let one = run(1);
        assert!([2, 4].into_iter().all(|threads| run(threads) == one));
    }
}
