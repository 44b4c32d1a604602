//! The parts of the translation models: attention against the plain reference, published numbers, and
//! decoders under encoders that they know nothing of.

use std::sync::Arc;

use crate::common::translation::{bahdanau, luong};
use crate::common::{check_params, no_params, normal, tensor, wide};
use regard_attn::normaliser::Softmax;
use regard_attn::position::{Gaussian, NoPosition};
use regard_attn::scope::{Full, PredictedCentre, Window};
use regard_attn::score::{Additive, Dot, ScaledDot};
use regard_attn::{Call, Dims, Item, Position, Rows, Scope, Score, reference};
use regard_nn::layers::{Linear, StateVars};
use regard_nn::models::translation::{
    AlignmentScope, Annotations, BahdanauDecoder, LuongConfig, LuongDecoder, Sequences,
};
use regard_nn::ops::{
    Activation, AlignScope, AlignSpec, AttentionSpec, Cell, Operands, PositionSpec, ScoreSpec,
};
use regard_nn::{Mode, NnError, ParamSpecs, Params, Ragged, Tape, Var};

const SOURCES: [usize; 3] = [5, 1, 9];
const TARGETS: [usize; 3] = [2, 1, 4];

fn rows(data: &[f64], width: usize) -> Rows<'_, f64> {
    Rows { data, row_stride: width, head_stride: width }
}

fn near(a: &[f64], b: &[f64], allowed: f64) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() <= allowed, "{a} and {b}");
    }
}

/// Every score and scope of a recurrent decoder's attention against the loops of the reference.
#[test]
fn alignments_agree_with_the_reference() {
    let (d, first) = (3, 1);
    let (sources, targets) = (Ragged::new(&SOURCES), Ragged::new(&TARGETS));
    let (keys, values) = (normal(1, sources.total() * d), normal(2, sources.total() * 2));
    let (states, v_a) = (normal(3, targets.total() * d), normal(4, d));
    let (w_p, v_p) = (normal(5, 2 * d), normal(6, 2));
    let items: Vec<Item> = (0..3)
        .map(|b| Item {
            q_start: targets.rows(b).start,
            q_len: TARGETS[b],
            kv_start: sources.rows(b).start,
            kv_len: SOURCES[b],
            q_offset: first,
        })
        .collect();
    let params = no_params();
    for additive in [false, true] {
        for scope in 0..3 {
            let mut tape = Tape::<f64>::new(&params, Mode::Inference);
            let mut constant = |dims: &[usize], data: &[f64]| tape.constant(tensor(dims, data));
            let (w_p, v_p) = (constant(&[2, d], &w_p), constant(&[2], &v_p));
            let spec = AlignSpec {
                sources: sources.clone(),
                keys: constant(&[sources.total(), d], &keys),
                own_keys: false,
                values: constant(&[sources.total(), 2], &values),
                query: None,
                v_a: additive.then(|| constant(&[d], &v_a)),
                scope: match scope {
                    0 => AlignScope::Global,
                    1 => AlignScope::LocalM { radius: 1 },
                    _ => AlignScope::LocalP { radius: 2, w_p, v_p },
                },
                location: None,
                normaliser: Arc::new(Softmax),
            };
            let h = constant(&[targets.total(), d], &states);
            let aligned = tape.align(h, &targets, &[0, 1, 2], first, spec, true).unwrap();
            let seen = aligned.seen.expect("asked for");

            let centres = seen.centres.clone().unwrap_or_default();
            let of_item: Vec<&[f64]> = match scope {
                2 => (0..3).map(|b| &centres[targets.rows(b)]).collect(),
                _ => Vec::new(),
            };
            let predicted = PredictedCentre { centres: &of_item, radius: 2 };
            let flat = [&centres[..], &[1.0]].concat();
            let gaussian = Gaussian::new(&flat, &TARGETS);
            let (of_v, window) = (Additive { v: &v_a }, Window { left: 1, right: 1 });
            let score: &dyn Score<f64> = if additive { &of_v } else { &Dot };
            let (scope_part, position): (&dyn Scope, &dyn Position<f64>) = match scope {
                0 => (&Full, &NoPosition),
                1 => (&window, &NoPosition),
                _ => (&predicted, &gaussian),
            };
            // Targets longer than their source: under local-m the centre moves back inside.
            let inside: Vec<Item> = if scope == 1 {
                items
                    .iter()
                    .flat_map(|item| {
                        (0..item.q_len).map(|i| Item {
                            q_start: item.q_start + i,
                            q_len: 1,
                            q_offset: (first + i).min(item.kv_len - 1),
                            ..*item
                        })
                    })
                    .collect()
            } else {
                items.clone()
            };
            let call = Call {
                score,
                normaliser: &Softmax,
                scope: scope_part,
                position,
                dropout: None,
                dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: d, d_v: 2 },
                items: &inside,
            };
            let want =
                reference::forward(&call, rows(&states, d), rows(&keys, d), rows(&values, 2))
                    .unwrap();
            near(tape.value(aligned.context).data(), &want.context, 1e-13);
            near(&seen.weights.concat(), &want.weights, 1e-13);
        }
    }
}

/// Rows of two heads of width 3.
fn of(data: &[f64]) -> Rows<'_, f64> {
    Rows { data, row_stride: 6, head_stride: 3 }
}

#[test]
fn attention_between_sequences_agrees_with_the_reference() {
    let (heads, d) = (2, 3);
    let items = [
        Item { q_start: 0, q_len: 2, kv_start: 4, kv_len: 5, q_offset: 3 },
        Item { q_start: 2, q_len: 1, kv_start: 0, kv_len: 4, q_offset: 3 },
    ];
    let (q, k) = (normal(1, 3 * heads * d), normal(2, 9 * heads * d));
    let v = normal(3, 9 * heads * d);
    let scope = Window { left: 2, right: 0 };
    let call = Call {
        score: &ScaledDot::new(d),
        normaliser: &Softmax,
        scope: &scope,
        position: &NoPosition,
        dropout: None,
        dims: Dims { n_heads: heads, n_kv_heads: heads, d_k: d, d_v: d },
        items: &items,
    };
    let want = reference::forward(&call, of(&q), of(&k), of(&v)).unwrap();
    let params = no_params();
    let mut tape = Tape::<f64>::new(&params, Mode::Inference);
    let mut both = Vec::new();
    for (k, v) in k.chunks_exact(6).zip(v.chunks_exact(6)) {
        both.extend_from_slice(k);
        both.extend_from_slice(v);
    }
    let mut constant = |rows, data: &[f64]| tape.constant(tensor(&[rows, data.len() / rows], data));
    let (q, k, v, kv) = (constant(3, &q), constant(9, &k), constant(9, &v), constant(9, &both));
    for operands in [Operands::KeyValue { q, kv }, Operands::Separate { q, k, v, kv_heads: heads }]
    {
        let spec = AttentionSpec {
            n_heads: heads,
            score: ScoreSpec::Fixed(Arc::new(ScaledDot::new(d))),
            normaliser: Arc::new(Softmax),
            scope: Arc::new(scope),
            position: PositionSpec::Fixed(Arc::new(NoPosition)),
            dropout: 0.0,
        };
        let got = tape.attention(operands, &items, spec, true).unwrap();
        near(&wide(tape.value(got.context).data()), &want.context, 1e-13);
        near(&wide(tape.value(got.weights.unwrap()).data()), &want.weights, 1e-13);
    }
}

/// Ten positions, D = 2, the centre 4.6 counted from 1: numbers worked out from the formulas of the paper.
#[test]
fn local_p_weighs_as_worked_out() {
    let scores = [0.3, -0.2, 0.5, 0.1, 0.9, 0.0, 0.4, -0.6, 0.2, 0.7];
    let params = no_params();
    let mut tape = Tape::<f64>::new(&params, Mode::Inference);
    let mut constant = |dims: &[usize], data: &[f64]| tape.constant(tensor(dims, data));
    // 9·σ(u) = 3.6, with u = v·tanh(1).
    let v_p = (0.4f64 / 0.6).ln() / 1f64.tanh();
    let spec = AlignSpec {
        sources: Ragged::new(&[10]),
        keys: constant(&[10, 1], &scores),
        own_keys: false,
        values: constant(&[10, 1], &scores),
        query: None,
        v_a: None,
        scope: AlignScope::LocalP {
            radius: 2,
            w_p: constant(&[1, 1], &[1.0]),
            v_p: constant(&[1], &[v_p]),
        },
        location: None,
        normaliser: Arc::new(Softmax),
    };
    let one = constant(&[1, 1], &[1.0]);
    let seen = tape.align(one, &Ragged::new(&[1]), &[0], 0, spec, true).unwrap().seen.unwrap();
    assert!((seen.centres.unwrap()[0] - 3.6).abs() < 1e-14);
    let want = [0.0, 0.003964, 0.065186, 0.131269, 0.322871, 0.053370, 0.0, 0.0, 0.0, 0.0];
    near(&seen.weights[0], &want, 6e-7);
}

/// Images of 3 × 3 and 2 × 4 patches, and two recordings: what the encoders below read.
const GRIDS: [(usize, usize); 2] = [(3, 3), (2, 4)];
const FRAMES: [usize; 2] = [7, 4];

/// A cell of a grid: its four pixels and its place, through one layer.
fn grid_annotations(tape: &mut Tape<'_, f64>, cells: &Linear) -> Result<Annotations, NnError> {
    let lengths = GRIDS.map(|(rows, columns)| rows * columns);
    let items = Ragged::new(&lengths);
    let pixels = tape.constant(tensor(&[items.total(), 4], &normal(1, items.total() * 4)));
    let values = cells.apply(tape, pixels, Activation::Tanh, None)?;
    Ok(Annotations { values, items })
}

/// Every frame with its neighbours, through one layer.
fn frame_annotations(tape: &mut Tape<'_, f64>, frames: &Linear) -> Result<Annotations, NnError> {
    let items = Ragged::new(&FRAMES);
    let sound = tape.constant(tensor(&[items.total(), 2], &normal(2, items.total() * 2)));
    let windows = tape.windows(sound, &items, 1, 1)?;
    let values = frames.apply(tape, windows, Activation::Tanh, None)?;
    Ok(Annotations { values, items })
}

/// An encoder of the test: nothing that a decoder could know of.
type Encoder = fn(&mut Tape<'_, f64>, &Linear) -> Result<Annotations, NnError>;

const ENCODERS: [(Encoder, usize); 2] = [(grid_annotations, 4), (frame_annotations, 6)];

fn words() -> Sequences {
    Sequences::new(&[&[1, 3, 4][..], &[1, 5]])
}

const NEXT: [u32; 5] = [3, 4, 2, 5, 2];

#[test]
fn bahdanaus_decoder_takes_whatever_yields_annotations() {
    for (encode, d_in) in ENCODERS {
        let mut specs = ParamSpecs::new();
        let encoder = Linear::new(&mut specs, "encoder", d_in, 5);
        let decoder = BahdanauDecoder::new(&mut specs, (5, 5), 7, bahdanau(0.0)).unwrap();
        check_params(Params::new(specs, 1), Mode::Gradient, |tape| {
            let annotations = encode(tape, &encoder)?;
            let summary = annotations.mean(tape)?;
            let (logits, seen) = decoder.logits(tape, &annotations, summary, &words(), true)?;
            let lengths: Vec<usize> =
                seen.expect("asked for").weights.iter().map(Vec::len).collect();
            let [a, b] = annotations.items.lengths() else { panic!("two items") };
            assert_eq!(lengths, [*a, *a, *a, *b, *b]);
            tape.cross_entropy(logits, &NEXT, 0.0)
        });
    }
}

#[test]
fn luongs_decoder_takes_whatever_yields_annotations() {
    for (encode, d_in) in ENCODERS {
        for scope in [AlignmentScope::Global, AlignmentScope::LocalP] {
            let mut specs = ParamSpecs::new();
            let config = LuongConfig { cell: Cell::Gru, layers: 1, scope, ..luong(0.0) };
            let encoder = Linear::new(&mut specs, "encoder", d_in, 5);
            let start = Linear::new(&mut specs, "start", 5, config.hidden);
            let decoder = LuongDecoder::new(&mut specs, 5, 7, config).unwrap();
            check_params(Params::new(specs, 1), Mode::Gradient, |tape| {
                let annotations = encode(tape, &encoder)?;
                let summary = annotations.mean(tape)?;
                let h: Var = start.apply(tape, summary, Activation::Tanh, None)?;
                let states = [StateVars { h, c: None }];
                let (logits, _) = decoder.logits(tape, &annotations, &states, &words(), false)?;
                tape.cross_entropy(logits, &NEXT, 0.0)
            });
        }
    }
}
