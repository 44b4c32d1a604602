//! The translation models and their operators against central differences, in f64.

use std::sync::Arc;

use crate::common::translation::{fresh, models, pairs};
use crate::common::{check, check_in, check_params, named};
use regard_attn::Item;
use regard_attn::normaliser::{Entmax15, Sigmoid, Softmax, Sparsemax};
use regard_attn::position::{NoPosition, RelativeBias};
use regard_attn::scope::Full;
use regard_attn::score::{Dot, General, ScaledDot};
use regard_nn::layers::StateVars;
use regard_nn::models::translation::LossOptions;
use regard_nn::ops::{
    AlignScope, AlignSpec, AttentionSpec, Cell, DecoderLayer, DecoderSpec, Direction, Operands,
    Order, PositionSpec, Resumed, ScoreSpec,
};
use regard_nn::{Mode, Ragged, Tape, Var};
use regard_tensor::Key;

const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Backward];

#[test]
fn every_model() {
    for (name, config) in models(0.0) {
        named(&name, || {
            let (model, params) = fresh::<f64>(config.clone(), 1);
            let options = LossOptions { label_smoothing: 0.1, scheduled_sampling: 0.0 };
            check_params(params, Mode::Gradient, |tape| {
                Ok(model.loss(tape, &pairs(), options)?.loss)
            });
        });
    }
}

#[test]
fn models_in_training_with_dropout() {
    for (name, config) in models(0.2).into_iter().step_by(4) {
        named(&name, || {
            let (model, params) = fresh::<f64>(config.clone(), 2);
            let mode = Mode::Training(Key::new(3));
            check_params(params, mode, |tape| {
                Ok(model.loss(tape, &pairs(), LossOptions::default())?.loss)
            });
        });
    }
}

#[test]
fn recurrences_from_given_states() {
    for lengths in [&[2, 0, 5, 1, 5, 0][..], &[1, 1], &[4], &[0, 0]] {
        let items = Ragged::new(lengths);
        let (d, h, n) = (3, 2, lengths.len());
        for direction in DIRECTIONS {
            let inputs = [
                ("x", vec![items.total(), d]),
                ("w_ih", vec![4 * h, d]),
                ("w_hh", vec![4 * h, h]),
                ("b", vec![4 * h]),
                ("h", vec![n, h]),
                ("c", vec![n, h]),
            ];
            check(&inputs, |tape, v| {
                let initial = Some((v[4], v[5]));
                let run = tape.lstm_from(v[0], &items, v[1], v[2], v[3], direction, initial)?;
                Ok(run.states)
            });
            // The last cells alone, and with the states that come before them.
            check(&inputs, |tape, v| {
                let initial = Some((v[4], v[5]));
                let run = tape.lstm_from(v[0], &items, v[1], v[2], v[3], direction, initial)?;
                Ok(run.last_cells.expect("an LSTM has cells"))
            });
            check(&inputs[..4], |tape, v| {
                let run = tape.lstm_from(v[0], &items, v[1], v[2], v[3], direction, None)?;
                let last = run.last_cells.expect("an LSTM has cells");
                let ones = Ragged::new(&vec![1; n]);
                let (there, w) = (Direction::Forward, (v[2], v[3]));
                let again = tape.lstm_from(last, &ones, v[2], w.0, w.1, there, None)?;
                if items.total() == 0 {
                    return Ok(again.states);
                }
                let first = tape.embedding(run.states, &vec![0; n])?;
                tape.concat(&[again.states, first])
            });
            let inputs = [
                ("x", vec![items.total(), d]),
                ("w_ih", vec![3 * h, d]),
                ("w_hh", vec![3 * h, h]),
                ("b_ih", vec![3 * h]),
                ("b_hh", vec![3 * h]),
                ("h", vec![n, h]),
            ];
            check(&inputs, |tape, v| {
                tape.gru_from(v[0], &items, (v[1], v[2]), (v[3], v[4]), direction, Some(v[5]))
            });
        }
    }
}

#[test]
fn maxout() {
    check(&[("x", vec![5, 6])], |tape, v| tape.maxout(v[0]));
}

fn plain(heads: usize, score: ScoreSpec<f64>, dropout: f64) -> AttentionSpec<f64> {
    AttentionSpec {
        n_heads: heads,
        score,
        normaliser: Arc::new(Softmax),
        scope: Arc::new(Full),
        position: PositionSpec::Fixed(Arc::new(NoPosition)),
        dropout,
    }
}

/// Three queries of a batch over the keys of another; an item without queries, one without keys.
fn cross() -> Vec<Item> {
    let item =
        |q_start, q_len, kv_start, kv_len| Item { q_start, q_len, kv_start, kv_len, q_offset: 0 };
    vec![item(0, 2, 3, 2), item(2, 0, 0, 3), item(2, 1, 5, 4), item(3, 2, 9, 0)]
}

#[test]
fn attention_from_one_sequence_to_another() {
    let items = cross();
    let dot = || ScoreSpec::Fixed(Arc::new(ScaledDot::new(3)));
    let joined = [("q", vec![5, 6]), ("kv", vec![9, 12])];
    for dropout in [0.0, 0.4] {
        check_in(Mode::Training(Key::new(4)), &joined, |tape, v| {
            let operands = Operands::KeyValue { q: v[0], kv: v[1] };
            Ok(tape.attention(operands, &items, plain(2, dot(), dropout), false)?.context)
        });
    }
    // Two query heads on one key head, values of another width, rows of no item.
    let apart = [("q", vec![6, 6]), ("k", vec![10, 3]), ("v", vec![10, 5])];
    check(&apart, |tape, v| {
        let operands = Operands::Separate { q: v[0], k: v[1], v: v[2], kv_heads: 1 };
        Ok(tape.attention(operands, &items, plain(2, dot(), 0.0), false)?.context)
    });
}

#[test]
fn attention_with_trained_scores_and_positions() {
    let items = cross();
    let inputs = [
        ("q", vec![5, 4]),
        ("k", vec![9, 4]),
        ("v", vec![9, 4]),
        ("w", vec![2, 2, 2]),
        ("v_a", vec![2, 2]),
        ("bias", vec![4, 2]),
    ];
    let operands = |v: &[Var]| Operands::Separate { q: v[0], k: v[1], v: v[2], kv_heads: 2 };
    check(&inputs[..5], |tape, v| {
        let score = ScoreSpec::Trained { params: v[3], with: Arc::new(|w, f| f(&General { w })) };
        let context = tape.attention(operands(v), &items, plain(2, score, 0.0), false)?.context;
        let score = ScoreSpec::Additive(v[4]);
        let more = tape.attention(operands(v), &items, plain(2, score, 0.0), false)?.context;
        tape.add(context, more)
    });
    check(&inputs, |tape, v| {
        let mut spec = plain(2, ScoreSpec::Fixed(Arc::new(Dot)), 0.0);
        spec.position = PositionSpec::Trained {
            params: v[5],
            with: Arc::new(|table, f| {
                let (n_buckets, max_distance, bidirectional) = (4, 3, true);
                f(&RelativeBias { table, n_buckets, max_distance, bidirectional });
            }),
        };
        Ok(tape.attention(operands(v), &items, spec, false)?.context)
    });
}

#[test]
fn losses_that_look_at_the_weights() {
    let items = cross();
    let inputs = [("q", vec![5, 6]), ("kv", vec![9, 12])];
    let weights = |tape: &mut Tape<'_, f64>, v: &[Var]| {
        let operands = Operands::KeyValue { q: v[0], kv: v[1] };
        let score = ScoreSpec::Fixed(Arc::new(ScaledDot::new(3)));
        tape.attention(operands, &items, plain(2, score, 0.0), true)
    };
    // The weights alone, and beside a context that counts, too.
    check(&inputs, |tape, v| Ok(weights(tape, v)?.weights.expect("asked for")));
    check(&inputs, |tape, v| {
        let attended = weights(tape, v)?;
        let of_context = tape.cross_entropy(attended.context, &[0, 5, 2, 1, 3], 0.0)?;
        tape.concat(&[attended.weights.expect("asked for"), of_context])
    });
}

/// Names of the arguments of a decoder's attention, their shapes, and the spec made of them.
struct Parts {
    additive: bool,
    own_keys: bool,
    scope: u8,
    aware: bool,
    normaliser: u8,
}

const SOURCES: [usize; 4] = [3, 1, 6, 4];
const D_STATE: usize = 3;

impl Parts {
    fn inputs(&self) -> Vec<(&'static str, Vec<usize>)> {
        let total: usize = SOURCES.iter().sum();
        let keys = if self.own_keys { 7 } else { total };
        vec![
            ("keys", vec![keys, 2]),
            ("values", vec![total, 4]),
            ("w_q", vec![2, D_STATE]),
            ("v_a", vec![2]),
            ("w_p", vec![2, D_STATE]),
            ("v_p", vec![2]),
            ("filters", vec![2, 3]),
            ("project", vec![2, 2]),
        ]
    }

    fn spec(&self, v: &[Var]) -> AlignSpec<f64> {
        AlignSpec {
            sources: Ragged::new(&SOURCES),
            keys: v[0],
            own_keys: self.own_keys,
            values: v[1],
            query: Some(v[2]),
            v_a: self.additive.then_some(v[3]),
            scope: match self.scope {
                0 => AlignScope::Global,
                1 => AlignScope::LocalM { radius: 1 },
                _ => AlignScope::LocalP { radius: 2, w_p: v[4], v_p: v[5] },
            },
            location: self.aware.then_some((v[6], v[7])),
            normaliser: match self.normaliser {
                0 => Arc::new(Softmax),
                1 => Arc::new(Sigmoid),
                2 => Arc::new(Entmax15),
                _ => Arc::new(Sparsemax),
            },
        }
    }
}

/// Every attention of a decoder.
fn all_parts() -> Vec<Parts> {
    let mut all = Vec::new();
    for additive in [false, true] {
        for own_keys in [false, true] {
            for scope in [0, 1, 2] {
                let normaliser = (all.len() % 3) as u8;
                all.push(Parts { additive, own_keys, scope, aware: false, normaliser });
            }
        }
        all.push(Parts { additive, own_keys: false, scope: 0, aware: true, normaliser: 0 });
    }
    all
}

#[test]
fn alignments_of_all_states_at_once() {
    let items = Ragged::new(&[2, 0, 3, 1]);
    for parts in all_parts().into_iter().filter(|p| !p.aware) {
        let mut inputs = parts.inputs();
        inputs.push(("states", vec![items.total(), D_STATE]));
        // Items look at sources in another order than their own.
        check(&inputs, |tape, v| {
            let spec = parts.spec(v);
            Ok(tape.align(v[8], &items, &[2, 0, 3, 1], 1, spec, false)?.context)
        });
    }
}

#[test]
fn decoders_of_either_cell_and_order() {
    let items = Ragged::new(&[2, 0, 3, 1]);
    let (h, total) = (D_STATE, items.total());
    for (i, parts) in all_parts().into_iter().enumerate() {
        for (cell, order, deep) in [
            (Cell::Gru, Order::AttendFirst, false),
            (Cell::Lstm, Order::AttendFirst, true),
            (Cell::Lstm, Order::UpdateFirst, false),
            (Cell::Gru, Order::UpdateFirst, true),
        ] {
            let wide = h * if cell == Cell::Lstm { 4 } else { 3 };
            let attend_first = order == Order::AttendFirst;
            let (combines, feeds) = (!attend_first && i % 3 != 0, attend_first || i % 3 == 1);
            let mut inputs = parts.inputs();
            inputs.extend([
                ("xw", vec![total, wide]),
                ("w_hh", vec![wide, h]),
                ("b_hh", vec![wide]),
                ("h", vec![4, h]),
                ("c", vec![4, h]),
                ("w_feed", vec![wide, if attend_first { 4 } else { 5 }]),
                ("w_c", vec![5, h + 4]),
                ("w_in", vec![wide, h]),
                ("b_in", vec![wide]),
                ("h2", vec![4, h]),
            ]);
            let mode = Mode::Training(Key::new(6));
            check_in(mode, &inputs, |tape, v| {
                let lstm = cell == Cell::Lstm;
                let layer = |input, state| DecoderLayer {
                    input,
                    w_hh: v[9],
                    b_hh: (!lstm).then_some(v[10]),
                    initial: StateVars { h: state, c: lstm.then_some(v[12]) },
                };
                let mut layers = vec![layer(None, v[11])];
                if deep {
                    layers.push(layer(Some((v[15], v[16])), v[17]));
                }
                let spec = DecoderSpec {
                    cell,
                    order,
                    layers,
                    w_feed: feeds.then_some(v[13]),
                    combine: combines.then_some(v[14]),
                    align: parts.spec(v),
                    dropout: 0.3,
                };
                let of_item = [2, 0, 3, 1];
                let resumed = Resumed::default();
                let read =
                    tape.attentive_decoder(v[8], &items, &of_item, spec, &resumed, false)?.read;
                Ok(read)
            });
        }
    }
}
