//! Every operator and every model against central differences, in f64.
//!
//! The scalar that is differentiated is Σ y ∘ r with a random r, so every entry of an output
//! counts and no symmetry of a plain sum can hide a fault. Dropout is differentiated with its
//! mask held still: the same key draws the same one.

use std::sync::Arc;

use crate::common::{
    SCOPES, check, check_in, check_params, encoders, labels, named, normal, one_of_each_kind,
    sentences, tagger, tensor, token_ids, words,
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
use regard_nn::{Mode, ParamSpecs, Params, Ragged, Var};
use regard_tensor::Key;

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
