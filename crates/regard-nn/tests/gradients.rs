//! Every operator and every model against central differences, in f64.
//!
//! The scalar that is differentiated is Σ y ∘ r with a random r, so every entry of an output
//! counts and no symmetry of a plain sum can hide a fault. Dropout is differentiated with its
//! mask held still: the same key draws the same one.

mod common;

use std::sync::Arc;

use common::{
    SCOPES, encoders, labels, no_params, normal, one_of_each_kind, sentences, tagger, tensor,
    token_ids, words,
};
use regard_attn::Score;
use regard_attn::normaliser::Softmax;
use regard_attn::position::{NoPosition, Rotary, RotaryLayout};
use regard_attn::score::{Dot, ScaledDot};
use regard_nn::layers::Gru;
use regard_nn::models::{CharEncoder, EncoderConfig, FeedForwardConfig, Output, Tagger, Target};
use regard_nn::ops::{
    Activation, AttentionSpec, Crf, Direction, IGNORED, Pool, PositionSpec, ScoreSpec,
};
use regard_nn::{Mode, NnError, ParamSpecs, Params, Ragged, Tape, Var};
use regard_tensor::Key;
use regard_testkit::check_gradients_of;

/// An input of an operator: its name and shape.
type Input = (&'static str, Vec<usize>);

/// Checks the gradients of an operator by all of its inputs, drawn from the normal distribution.
#[track_caller]
fn check(inputs: &[Input], op: impl Fn(&mut Tape<'_, f64>, &[Var]) -> Result<Var, NnError>) {
    check_in(Mode::Gradient, inputs, op);
}

#[track_caller]
fn check_in(
    mode: Mode,
    inputs: &[Input],
    op: impl Fn(&mut Tape<'_, f64>, &[Var]) -> Result<Var, NnError>,
) {
    let params = no_params();
    let run = |arguments: &[(&str, Vec<f64>)]| {
        let mut tape = Tape::new(&params, mode);
        let input =
            |((_, shape), (_, data)): (&Input, &(&str, Vec<f64>))| tape.input(tensor(shape, data));
        let vars: Vec<Var> = inputs.iter().zip(arguments).map(input).collect();
        let y = op(&mut tape, &vars).expect("the shapes fit");
        (tape, vars, y)
    };
    let draw =
        |(i, (name, shape)): (usize, &Input)| (*name, normal(i as u64 + 1, shape.iter().product()));
    let mut arguments: Vec<(&str, Vec<f64>)> = inputs.iter().enumerate().map(draw).collect();

    let (tape, vars, y) = run(&arguments);
    let r = normal(99, tape.value(y).len());
    let shape = tape.shape(y);
    let gradients = tape.backward_from(y, tensor(&shape, &r), &mut []);
    let gradients: Vec<Vec<f64>> = vars
        .iter()
        .zip(&arguments)
        .map(|(var, (_, data))| {
            // An output that does not depend on an input has no gradient by it: zero.
            gradients.of(*var).map_or_else(|| vec![0.0; data.len()], |g| g.data().to_vec())
        })
        .collect();
    let f = |arguments: &[(&str, Vec<f64>)]| {
        let (tape, _, y) = run(arguments);
        tape.value(y).data().iter().zip(&r).map(|(y, r)| y * r).sum()
    };
    check_gradients_of(&mut arguments, f, &gradients);
}

const ACTIVATIONS: [Activation; 5] =
    [Activation::None, Activation::Relu, Activation::Gelu, Activation::Tanh, Activation::Sigmoid];

#[test]
fn linear() {
    for activation in ACTIVATIONS {
        for (bias, residual) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut inputs = vec![("x", vec![5, 3]), ("w", vec![7, 3])];
            if bias {
                inputs.push(("b", vec![7]));
            }
            if residual {
                inputs.push(("residual", vec![5, 7]));
            }
            check(&inputs, |tape, v| {
                let (b, r) = (bias.then(|| v[2]), residual.then(|| v[v.len() - 1]));
                tape.linear(v[0], v[1], b, activation, r)
            });
        }
    }
}

#[test]
fn layer_norm() {
    for (n, d) in [(1, 2), (5, 3), (3, 17)] {
        let inputs = [("x", vec![n, d]), ("gain", vec![d]), ("bias", vec![d])];
        check(&inputs, |tape, v| tape.layer_norm(v[0], v[1], v[2]));
    }
}

#[test]
fn embedding() {
    // Ids twice, three times and not at all.
    let table = [("table", vec![5, 3])];
    check(&table, |tape, v| tape.embedding(v[0], &[4, 0, 4, 2, 0, 4]));
}

#[test]
fn dropout_with_the_same_key() {
    for rate in [0.0, 0.3, 0.9] {
        let mode = Mode::Training(Key::new(5));
        check_in(mode, &[("x", vec![7, 5])], |tape, v| {
            let once = tape.dropout(v[0], rate)?;
            tape.dropout(once, rate)
        });
    }
}

#[test]
fn cross_entropy() {
    let some = [2, IGNORED, 0, 4, IGNORED, 4, 1];
    for targets in [[2, 3, 0, 4, 1, 4, 1], some, [IGNORED; 7]] {
        for smoothing in [0.0, 0.1, 0.7] {
            let inputs = [("logits", vec![7, 5])];
            check(&inputs, |tape, v| tape.cross_entropy(v[0], &targets, smoothing));
        }
    }
}

/// Lengths that bring every special case: none, one, equal ones, not sorted.
const LENGTHS: [usize; 6] = [2, 0, 5, 1, 5, 0];
const TOTAL: usize = 13;
const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Backward];

#[test]
fn lstm() {
    for lengths in [&LENGTHS[..], &[1, 1], &[4], &[0, 0]] {
        let items = Ragged::new(lengths);
        let (d, h) = (3, 2);
        let inputs = [
            ("x", vec![items.total(), d]),
            ("w_ih", vec![4 * h, d]),
            ("w_hh", vec![4 * h, h]),
            ("b", vec![4 * h]),
        ];
        for direction in DIRECTIONS {
            check(&inputs, |tape, v| tape.lstm(v[0], &items, v[1], v[2], v[3], direction));
        }
    }
}

#[test]
fn gru() {
    for lengths in [&LENGTHS[..], &[1, 1], &[4], &[0, 0]] {
        let items = Ragged::new(lengths);
        let (d, h) = (3, 2);
        let inputs = [
            ("x", vec![items.total(), d]),
            ("w_ih", vec![3 * h, d]),
            ("w_hh", vec![3 * h, h]),
            ("b_ih", vec![3 * h]),
            ("b_hh", vec![3 * h]),
        ];
        for direction in DIRECTIONS {
            check(&inputs, |tape, v| tape.gru(v[0], &items, (v[1], v[2]), (v[3], v[4]), direction));
        }
    }
}

#[test]
fn windows_and_convolution() {
    let items = Ragged::new(&LENGTHS);
    let x = ("x", vec![TOTAL, 3]);
    for (left, right) in [(0, 0), (0, 1), (2, 0), (1, 2), (7, 7)] {
        check(std::slice::from_ref(&x), |tape, v| tape.windows(v[0], &items, left, right));
    }
    for width in [1, 2, 3, 5] {
        for activation in ACTIVATIONS {
            let w = ("w", vec![2, width * 3]);
            check(&[x.clone(), w.clone(), ("b", vec![2])], |tape, v| {
                tape.conv1d(v[0], &items, v[1], Some(v[2]), width, activation)
            });
            check(&[x.clone(), w], |tape, v| {
                tape.conv1d(v[0], &items, v[1], None, width, activation)
            });
        }
    }
}

#[test]
fn pooling() {
    let items = Ragged::new(&LENGTHS);
    for pool in [Pool::Max, Pool::Mean] {
        check(&[("x", vec![TOTAL, 3])], |tape, v| tape.pool(v[0], &items, pool));
    }
}

#[test]
fn sums_scales_and_columns() {
    check(&[("a", vec![3, 2]), ("b", vec![3, 2])], |tape, v| tape.add(v[0], v[1]));
    check(&[("x", vec![3, 2])], |tape, v| Ok(tape.scale(v[0], -2.5)));
    let parts = [("a", vec![3, 2]), ("b", vec![3, 1]), ("c", vec![3, 5])];
    check(&parts, |t, v| t.concat(&[v[0], v[1], v[2]]));
    check(&parts[..1], |t, v| t.concat(&[v[0]]));
}

#[test]
fn crf() {
    for lengths in [&LENGTHS[..], &[1], &[0, 3]] {
        let items = Ragged::new(lengths);
        let c = 3;
        let tags = labels(4, items.total());
        let inputs = [
            ("emissions", vec![items.total(), c]),
            ("transitions", vec![c, c]),
            ("start", vec![c]),
            ("end", vec![c]),
        ];
        check(&inputs, |tape, v| {
            let chain = Crf { transitions: v[1], start: v[2], end: v[3] };
            tape.crf(v[0], &items, &tags, chain)
        });
    }
}

/// A score without parameters.
type Fixed = Arc<dyn Score<f64> + Send + Sync>;

/// The parts of one attention test; `v_a` is the vector of the additive score, which stands where
/// none is fixed.
fn attention(
    score: Option<Fixed>,
    v_a: Var,
    scope: regard_nn::layers::ScopeConfig,
    rotary: Option<RotaryLayout>,
    dropout: f64,
) -> AttentionSpec<f64> {
    AttentionSpec {
        n_heads: 2,
        score: score.map_or(ScoreSpec::Additive(v_a), ScoreSpec::Fixed),
        normaliser: Arc::new(Softmax),
        scope: Arc::new(scope),
        position: PositionSpec::Fixed(match rotary {
            Some(layout) => Arc::new(Rotary::new(100.0, layout)),
            None => Arc::new(NoPosition),
        }),
        dropout,
    }
}

#[test]
fn self_attention() {
    let items = Ragged::new(&[2, 0, 4, 1]);
    let (heads, d) = (2, 4);
    let inputs = [("qkv", vec![items.total(), 3 * heads * d]), ("v_a", vec![heads, d])];
    let scores: [Option<Fixed>; 3] = [Some(Arc::new(Dot)), Some(Arc::new(ScaledDot::new(d))), None];
    let layouts = [None, Some(RotaryLayout::Half), Some(RotaryLayout::Interleaved)];
    for score in scores {
        for (i, scope) in SCOPES.into_iter().enumerate() {
            for (j, rotary) in layouts.into_iter().enumerate() {
                let dropout = if (i + j) % 2 == 0 { 0.0 } else { 0.4 };
                check_in(Mode::Training(Key::new(8)), &inputs, |tape, v| {
                    let spec = attention(score.clone(), v[1], scope, rotary, dropout);
                    Ok(tape.self_attention(v[0], &items, spec, false)?.0)
                });
            }
        }
    }
}

#[test]
fn self_attention_whose_weights_are_looked_at() {
    let items = Ragged::new(&[3, 1]);
    let inputs = [("qkv", vec![4, 12]), ("v_a", vec![2, 2])];
    check(&inputs, |tape, v| {
        let spec = attention(None, v[1], SCOPES[0], None, 0.0);
        Ok(tape.self_attention(v[0], &items, spec, true)?.0)
    });
}

/// Checks the gradients of a scalar by every parameter of a model, each an argument of its own.
///
/// The parameters are moved away from their first values, so that no bias is zero (a relu over
/// dropped inputs would stand on its kink) and no gain one.
#[track_caller]
fn check_params(
    mut params: Params<f64>,
    mode: Mode,
    loss: impl Fn(&mut Tape<'_, f64>) -> Result<Var, NnError>,
) {
    let moves = normal(77, params.flat_len());
    for (x, by) in params.flat_mut().iter_mut().zip(moves) {
        *x += 0.3 * by;
    }
    let specs = params.specs().to_vec();
    let mut tape = Tape::new(&params, mode);
    let value = loss(&mut tape).expect("the shapes fit");
    let mut flat = vec![0.0; params.flat_len()];
    tape.backward(value, &mut flat);

    let named = |flat: &[f64]| -> Vec<Vec<f64>> {
        specs.iter().map(|spec| flat[spec.range()].to_vec()).collect()
    };
    let gradients = named(&flat);
    let values = named(params.flat());
    let mut arguments: Vec<(&str, Vec<f64>)> =
        specs.iter().map(|spec| spec.name.as_str()).zip(values).collect();
    let f = |arguments: &[(&str, Vec<f64>)]| {
        for (spec, (_, values)) in specs.iter().zip(arguments) {
            params.flat_mut()[spec.range()].copy_from_slice(values);
        }
        let mut tape = Tape::new(&params, mode);
        let value = loss(&mut tape).expect("the shapes fit");
        tape.value(value).data()[0]
    };
    check_gradients_of(&mut arguments, f, &gradients);
}

/// Checks a tagger's loss on a batch with sentences of no, one and some words.
#[track_caller]
fn check_tagger((tagger, params): (Tagger, Params<f64>), output: Output, mode: Mode) {
    let ids = token_ids(&sentences(6, &[3, 0, 1, 5]));
    let mut labels = labels(7, ids.words.len());
    if output == Output::Softmax {
        labels[2] = IGNORED;
    }
    check_params(params, mode, |tape| {
        tagger.loss(tape, &ids, Target { labels: &labels, smoothing: 0.1 })
    });
}

#[test]
fn taggers_with_every_encoder() {
    for (name, config) in encoders(4, 0.0) {
        named(&name, || {
            let words = words(3, CharEncoder::None, 0.0);
            let model = tagger(words, config.clone(), Output::Softmax, 1);
            check_tagger(model, Output::Softmax, Mode::Gradient);
        });
    }
}

#[test]
fn taggers_in_training_with_dropout() {
    for (name, config) in one_of_each_kind(4, 0.2) {
        named(&name, || {
            let words = words(3, CharEncoder::Cnn, 0.2);
            let model = tagger(words, config.clone(), Output::Softmax, 2);
            check_tagger(model, Output::Softmax, Mode::Training(Key::new(3)));
        });
    }
}

#[test]
fn taggers_with_every_reader_of_characters_and_every_output() {
    let config = FeedForwardConfig { context: 1, hidden: 4, layers: 1, dropout: 0.0 };
    for encoder in [CharEncoder::None, CharEncoder::Cnn, CharEncoder::Lstm] {
        for output in [Output::Softmax, Output::Crf] {
            named(&format!("{encoder:?}, {output:?}"), || {
                let encoders = EncoderConfig::FeedForward(config);
                let model = tagger(words(3, encoder, 0.0), encoders, output, 3);
                check_tagger(model, output, Mode::Gradient);
            });
        }
    }
}

#[test]
fn gru_layers() {
    for both in [false, true] {
        let mut specs = ParamSpecs::new();
        let layer = Gru::new(&mut specs, "gru", 3, 2, both);
        let items = Ragged::new(&LENGTHS);
        let x = normal(1, TOTAL * 3);
        let targets: Vec<u32> = labels(2, TOTAL).iter().map(|l| l % 2).collect();
        check_params(Params::new(specs, 1), Mode::Gradient, |tape| {
            let x = tape.constant(tensor(&[TOTAL, 3], &x));
            let y = layer.forward(tape, x, &items)?;
            tape.cross_entropy(y, &targets, 0.0)
        });
    }
}

/// Runs a check and says which model it was, if it fails.
fn named(name: &str, check: impl Fn()) {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
    if let Err(panic) = result {
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        panic!("{name}: {text}");
    }
}
