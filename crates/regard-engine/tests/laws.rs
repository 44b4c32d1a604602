//! Laws that hold for every attention, tested on the engine alone.

mod support;

use proptest::prelude::*;
use regard_attn::scope::{Alignment, Window};
use regard_attn::{Dims, Dropout, Item, Rows, RowsMut};
use regard_engine::{GradArrays, Gradients, Place};
use regard_tensor::{Key, Real};
use regard_testkit::{Bound, assert_close, check_gradients_of};
use support::{Allowed, Kind, Outcome, Problem, Weighing, numbers, problems, rows};

const KINDS: [Kind; 3] = [Kind::Dot, Kind::ScaledDot, Kind::Additive];
const NORMALISERS: [Weighing; 3] = [Weighing::Softmax, Weighing::WholeSoftmax, Weighing::Quarter];

/// Equal to the last bit (+0 equals −0), NaN nowhere.
#[track_caller]
fn assert_same(got: &Outcome, want: &Outcome, what: &str) {
    for ((name, got), (_, want)) in got.arrays().iter().zip(want.arrays()) {
        assert!(
            got.iter().zip(want).all(|(a, b)| a == b) && got.len() == want.len(),
            "{what}: {name}"
        );
    }
}

/// Row `row` of `head` in `[rows, heads, width]`.
fn at(row: usize, head: usize, heads: usize, width: usize) -> std::ops::Range<usize> {
    (row * heads + head) * width..(row * heads + head + 1) * width
}

/// Keys and values that no query sees may hold anything.
#[test]
fn forbidden_keys_change_nothing() {
    for kind in KINDS {
        for normaliser in NORMALISERS {
            for (n, junk) in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].into_iter().enumerate() {
                let items = Problem::packed(&[(70, 90), (3, 20), (5, 4)]);
                let mut problem = Problem::new(kind, 2, 1, items);
                problem.normaliser = normaliser;
                problem.rotary = false;
                problem.dropout = Some(Dropout { rate: 0.2, key: Key::new(1) });
                // Query i sees keys i − 2 to i + 3 of the first 75, so that tiles are partial and
                // keys 73 and 74 are seen by some queries, 75 and more by none.
                problem.allowed.window = Some(Window { left: 2, right: 3 });
                problem.allowed.lengths = Some(vec![71, 1, 0]);
                problem.watch_weights();
                let want = problem.engine::<f32>();
                let mut spoilt = problem.clone();
                let d = problem.dims;
                for (item, seen) in problem.items.iter().zip([71, 1, 0]) {
                    for j in seen..item.kv_len {
                        spoilt.k[at(item.kv_start + j, 0, 1, d.d_k)].fill(junk);
                        spoilt.v[at(item.kv_start + j, 0, 1, d.d_v)][n] = junk;
                    }
                }
                // The last item's queries see nothing and may hold anything, too.
                let last = problem.items[2];
                for i in 0..last.q_len {
                    spoilt.q[at(last.q_start + i, 0, 2, d.d_k)].fill(junk);
                    spoilt.d_context[at(last.q_start + i, 1, 2, d.d_v)].fill(junk);
                }
                let (weights, d_weights) = (&want.weights, spoilt.d_weights.as_mut().unwrap());
                for (weight, d) in weights.iter().zip(d_weights) {
                    if *weight == 0.0 && normaliser != Weighing::Quarter {
                        *d = junk;
                    }
                }
                let got = spoilt.engine::<f32>();
                assert_same(&got, &want, &format!("{kind:?} {normaliser:?} {junk}"));
            }
        }
    }
}

/// A NaN that some queries of a tile see and others do not reaches only those that do.
#[test]
fn a_nan_reaches_only_who_sees_it() {
    for kind in KINDS {
        for normaliser in NORMALISERS {
            let mut problem = Problem::new(kind, 1, 1, Problem::packed(&[(70, 70)]));
            problem.normaliser = normaliser;
            problem.allowed.causal = Some(Alignment::Square);
            let want = problem.engine::<f64>();
            let d = problem.dims;

            let mut spoilt = problem.clone();
            spoilt.v[at(33, 0, 1, d.d_v)][1] = f64::NAN;
            let got = spoilt.engine::<f64>();
            for i in 0..70 {
                let (got, want) = (&got.context[i * 3..i * 3 + 3], &want.context[i * 3..i * 3 + 3]);
                assert_eq!(got[1].is_nan(), i >= 33);
                assert!((got[0], got[2]) == (want[0], want[2]) || i >= 33);
                assert!((got[0] - want[0]).abs() + (got[2] - want[2]).abs() < 1e-14);
            }
            // No query before key 33 sees it, so their gradients are what they were; and keys
            // receive NaN only from the queries that do.
            let seen = at(33, 0, 1, d.d_k).start;
            assert_eq!(got.dq[..seen], want.dq[..seen]);
            assert!(got.dq[seen..].iter().all(|x| x.is_nan()));

            let mut spoilt = problem.clone();
            spoilt.k[at(33, 0, 1, d.d_k)][2] = f64::NAN;
            let got = spoilt.engine::<f64>();
            assert_eq!(got.context[..33 * d.d_v], want.context[..33 * d.d_v]);
            assert_eq!(got.dq[..seen], want.dq[..seen]);
            assert!(got.context[33 * d.d_v..].iter().all(|x| x.is_nan()));

            let mut spoilt = problem.clone();
            spoilt.q[at(33, 0, 1, d.d_k)][2] = f64::NAN;
            let got = spoilt.engine::<f64>();
            for i in (0..70).filter(|i| *i != 33) {
                let row = at(i, 0, 1, d.d_v);
                assert_eq!(got.context[row.clone()], want.context[row]);
                let row = at(i, 0, 1, d.d_k);
                assert_eq!(got.dq[row.clone()], want.dq[row]);
            }
            // Keys behind query 33 are not seen by it.
            let behind = at(34, 0, 1, d.d_k).start;
            assert_eq!(got.dk[behind..], want.dk[behind..]);
            assert_eq!(got.dv[34 * d.d_v..], want.dv[34 * d.d_v..]);
        }
    }
}

#[test]
fn nothing_allowed_gives_zeros() {
    for kind in KINDS {
        for normaliser in NORMALISERS {
            let mut problem = Problem::new(kind, 2, 2, Problem::packed(&[(5, 7), (3, 0), (0, 4)]));
            problem.normaliser = normaliser;
            problem.allowed.lengths = Some(vec![0, 0, 0]);
            problem.watch_weights();
            let got = problem.engine::<f32>();
            for (name, values) in got.arrays() {
                let want = if name == "lse" { f64::NEG_INFINITY } else { 0.0 };
                assert!(values.iter().all(|x| *x == want), "{kind:?} {normaliser:?} {name}");
            }
        }
    }
}

/// Without scope and position, the order of keys and values means nothing.
#[test]
fn permuted_keys_give_the_same_context() {
    let mut problem = Problem::new(Kind::ScaledDot, 1, 1, Problem::packed(&[(9, 131)]));
    let want = problem.engine::<f64>();
    let mut order: Vec<usize> = (0..131).collect();
    Key::new(3).shuffle(&mut order);
    let d = problem.dims;
    let (k, v) = (problem.k.clone(), problem.v.clone());
    for (to, from) in order.iter().enumerate() {
        problem.k[at(to, 0, 1, d.d_k)].copy_from_slice(&k[at(*from, 0, 1, d.d_k)]);
        problem.v[at(to, 0, 1, d.d_v)].copy_from_slice(&v[at(*from, 0, 1, d.d_v)]);
    }
    let got = problem.engine::<f64>();
    // Two sums of 131 terms, each a weight (they sum to one) times a value below one.
    let bound = Bound::f64(2 * 131, 1.0);
    assert_close(&got.context, &want.context, bound);
    assert_close(&got.lse, &want.lse, Bound::f64(2 * 131, 1.0 + want.lse[0].abs()));
    for (to, from) in order.iter().enumerate() {
        let (to, from) = (at(to, 0, 1, d.d_v), at(*from, 0, 1, d.d_v));
        assert_close(&got.dv[to], &want.dv[from], bound);
    }
}

/// With a causal scope, later tokens change nothing before them: not one bit.
#[test]
fn a_causal_prefix_is_the_shorter_sequence() {
    for kind in KINDS {
        for len in [1, 16, 63, 64, 65, 100] {
            let attend = |n: usize| {
                let mut problem = Problem::new(kind, 2, 1, Problem::packed(&[(n, n)]));
                problem.allowed.causal = Some(Alignment::Square);
                problem.rotary = false;
                problem.engine::<f32>()
            };
            let (long, short) = (attend(130), attend(len));
            assert_eq!(long.context[..short.context.len()], short.context);
            assert_eq!(long.lse[..len], short.lse[..len]);
        }
    }
}

/// An item has the same bits alone, in a padded batch (longer items, lengths in the scope) and in a
/// packed one.
#[test]
fn an_item_alone_is_the_item_in_any_batch() {
    for kind in KINDS {
        for causal in [None, Some(Alignment::TopLeft)] {
            let lengths = [25, 64, 1, 67, 0, 130];
            let padded_len = 133;
            let padded: Vec<Item> = (0..lengths.len())
                .map(|n| Item {
                    q_start: n * padded_len,
                    q_len: padded_len,
                    kv_start: n * padded_len,
                    kv_len: padded_len,
                })
                .collect();
            let dims = Dims { n_heads: 2, n_kv_heads: 1, d_k: 6, d_v: 5 };
            let mut batch = Problem::with_dims(kind, dims, padded);
            batch.rotary = true;
            batch.allowed = Allowed { lengths: Some(lengths.to_vec()), causal, window: None };
            // What stands at padded queries is looked at by nobody: their gradient is zero.
            for (n, len) in lengths.iter().enumerate() {
                let row = |i| (n * padded_len + i) * 2 * dims.d_v;
                batch.d_context[row(*len)..row(padded_len)].fill(0.0);
            }
            let in_padded = batch.engine::<f32>();

            let (mut packed, mut alone) = (batch.clone(), Vec::new());
            packed.allowed.lengths = None;
            packed.items = Item::packed(&lengths);
            for array in [&mut packed.q, &mut packed.k, &mut packed.v, &mut packed.d_context] {
                let width = array.len() / (lengths.len() * padded_len);
                let parts = lengths.iter().enumerate().map(|(n, len)| {
                    array[n * padded_len * width..(n * padded_len + len) * width].to_vec()
                });
                let parts: Vec<Vec<f64>> = parts.collect();
                *array = parts.concat();
                alone.push(parts);
            }
            let in_packed = packed.engine::<f32>();

            let mut first = 0;
            for (n, len) in lengths.into_iter().enumerate() {
                let mut single = packed.clone();
                single.items = Item::packed(&[len]);
                single.q.clone_from(&alone[0][n]);
                single.k.clone_from(&alone[1][n]);
                single.v.clone_from(&alone[2][n]);
                single.d_context.clone_from(&alone[3][n]);
                let single = single.engine::<f32>();
                let arrays = |outcome: &Outcome, start: usize| {
                    let part =
                        |x: &[f64], width: usize| x[start * width..(start + len) * width].to_vec();
                    let of_queries = [part(&outcome.context, 10), part(&outcome.dq, 12)];
                    (of_queries, part(&outcome.dk, 6), part(&outcome.dv, 5))
                };
                let want = arrays(&single, 0);
                assert_eq!(arrays(&in_packed, first), want, "{kind:?} packed {n}");
                assert_eq!(arrays(&in_padded, n * padded_len), want, "{kind:?} padded {n}");
                first += len;
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for kind in KINDS {
        for lengths in [&[(300, 200)][..], &[(30, 40); 20], &[(25, 25); 300]] {
            let dims = Dims { n_heads: 2, n_kv_heads: 1, d_k: 16, d_v: 16 };
            let mut problem = Problem::with_dims(kind, dims, Problem::packed(lengths));
            problem.dropout = Some(Dropout { rate: 0.1, key: Key::new(2) });
            let run = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| problem.engine::<f32>())
            };
            let one = run(1);
            for threads in 2..=4 {
                assert_same(&run(threads), &one, &format!("{kind:?}, {threads} threads"));
            }
        }
    }
}

#[test]
fn a_window_over_everything_is_full() {
    let mut problem = Problem::new(Kind::ScaledDot, 2, 1, Problem::packed(&[(130, 70), (1, 1)]));
    let full = problem.engine::<f32>();
    problem.allowed.window = Some(Window { left: 130, right: 70 });
    assert_same(&problem.engine::<f32>(), &full, "window");
}

/// The arrays may be laid out in any way; the numbers are the same.
#[test]
fn any_strides_give_the_same_bits() {
    let dims = Dims { n_heads: 2, n_kv_heads: 2, d_k: 5, d_v: 5 };
    let (items, n, d) = (Problem::packed(&[(70, 70), (3, 3)]), 73, 5);
    let problem = Problem::with_dims(Kind::ScaledDot, dims, items);
    let want = problem.engine::<f64>();
    // q, k and v side by side, as one projection gives them: [rows, 3, heads, d].
    let mut qkv = vec![0.0; n * 3 * 2 * d];
    for (part, array) in [&problem.q, &problem.k, &problem.v].into_iter().enumerate() {
        for (row, from) in array.chunks(2 * d).enumerate() {
            qkv[row * 6 * d + part * 2 * d..][..2 * d].copy_from_slice(from);
        }
    }
    let part = |n: usize| Rows { data: &qkv[n * 2 * d..], row_stride: 6 * d, head_stride: d };
    // Contexts head by head: [heads, rows, d].
    let mut context = vec![0.0; 2 * n * d];
    let mut d_qkv = vec![0.0; qkv.len()];
    problem.with_call(|call| {
        let out = RowsMut { data: &mut context, row_stride: d, head_stride: n * d };
        let out = regard_engine::forward(call, part(0), part(1), part(2), out, false).unwrap();
        assert!(out.weights.is_none());
        assert_eq!(out.lse[..], want.lse);
        let context = Rows { data: &context, row_stride: d, head_stride: n * d };
        let place = |part: usize| Place { offset: part * 2 * d, row_stride: 6 * d, head_stride: d };
        let (dq, dk, dv) = (place(0), place(1), place(2));
        let arrays = GradArrays::Fused { data: &mut d_qkv, dq, dk, dv };
        let grads = Gradients { arrays, dparams: &mut [] };
        let (q, k, v, dc) = (part(0), part(1), part(2), rows(&problem.d_context, 2, d));
        regard_engine::backward(call, q, k, v, context, &out.lse, dc, None, grads).unwrap();
    });
    for row in 0..n {
        for head in 0..2 {
            let dense = at(row, head, 2, d);
            assert_eq!(context[(head * n + row) * d..][..d], want.context[dense.clone()]);
            for (part, want) in [&want.dq, &want.dk, &want.dv].into_iter().enumerate() {
                assert_eq!(d_qkv[((row * 3 + part) * 2 + head) * d..][..d], want[dense.clone()]);
            }
        }
    }
    // Keys and values in one array; gradients are added to what is there.
    let mut dq = vec![1.0; n * 2 * d];
    let mut d_kv = vec![1.0; n * 4 * d];
    problem.with_call(|call| {
        let place = |part: usize| Place { offset: part * 2 * d, row_stride: 4 * d, head_stride: d };
        let dq = RowsMut { data: &mut dq, row_stride: 2 * d, head_stride: d };
        let (dk, dv) = (place(0), place(1));
        let arrays = GradArrays::KeyValue { dq, data: &mut d_kv, dk, dv };
        let grads = Gradients { arrays, dparams: &mut [] };
        let (q, k, v, dc) = (part(0), part(1), part(2), rows(&problem.d_context, 2, d));
        let context = Rows { data: &context, row_stride: d, head_stride: n * d };
        regard_engine::backward(call, q, k, v, context, &want.lse, dc, None, grads).unwrap();
    });
    for row in 0..n {
        for x in 0..2 * d {
            assert_eq!(dq[row * 2 * d + x], 1.0 + want.dq[row * 2 * d + x]);
            assert_eq!(d_kv[row * 4 * d + x], 1.0 + want.dk[row * 2 * d + x]);
            assert_eq!(d_kv[row * 4 * d + 2 * d + x], 1.0 + want.dv[row * 2 * d + x]);
        }
    }
}

/// What stands between items is left alone.
#[test]
fn rows_of_no_item_are_not_written() {
    let items = vec![
        Item { q_start: 2, q_len: 3, kv_start: 1, kv_len: 4 },
        Item { q_start: 7, q_len: 1, kv_start: 6, kv_len: 2 },
    ];
    let problem = Problem::new(Kind::Additive, 1, 1, items);
    let got = problem.engine::<f32>();
    let written = |x: &[f64], width| x.chunks(width).map(|r| r[0] != 0.0).collect::<Vec<_>>();
    let queries = [false, false, true, true, true, false, false, true];
    assert_eq!(written(&got.context, problem.dims.d_v), queries);
    assert_eq!(written(&got.dq, problem.dims.d_k), queries);
    let keys = [false, true, true, true, true, false, true, true];
    assert_eq!(written(&got.dv, problem.dims.d_v), keys);
}

/// Backward is the derivative of forward, with the same weights dropped in both.
#[test]
fn backward_is_the_derivative_with_dropout_on() {
    for kind in KINDS {
        for normaliser in NORMALISERS {
            let dims = Dims { n_heads: 2, n_kv_heads: 1, d_k: 4, d_v: 3 };
            let mut problem = Problem::with_dims(kind, dims, Problem::packed(&[(5, 7), (3, 3)]));
            problem.normaliser = normaliser;
            problem.rotary = true;
            problem.dropout = Some(Dropout { rate: 0.4, key: Key::new(9) });
            problem.allowed.window = Some(Window { left: 3, right: 1 });
            problem.watch_weights();
            let got = problem.engine::<f64>();
            // About a third of the weights are dropped, or the test tests little.
            let loss = |q: &[f64], k: &[f64], v: &[f64], params: &[f64]| {
                let mut moved = problem.clone();
                moved.q.copy_from_slice(q);
                moved.k.copy_from_slice(k);
                moved.v.copy_from_slice(v);
                moved.params.copy_from_slice(params);
                let out = moved.engine::<f64>();
                let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                dot(&out.context, &problem.d_context)
                    + dot(&out.weights, problem.d_weights.as_ref().unwrap())
            };
            check_gradients_of(
                &mut [
                    ("q", problem.q.clone()),
                    ("k", problem.k.clone()),
                    ("v", problem.v.clone()),
                    ("params", problem.params.clone()),
                ],
                |x| loss(&x[0].1, &x[1].1, &x[2].1, &x[3].1),
                &[got.dq, got.dk, got.dv, got.dparams],
            );
        }
    }
}

/// Asking for the weights changes no bit of anything else.
#[test]
fn weights_cost_nothing_but_time() {
    let problem = Problem::new(Kind::ScaledDot, 2, 1, Problem::packed(&[(70, 131)]));
    let want = problem.engine::<f64>();
    let d = problem.dims;
    let mut context = vec![0.0; want.context.len()];
    problem.with_call(|call| {
        let (q, k) = (rows(&problem.q, 2, d.d_k), rows(&problem.k, 1, d.d_k));
        let v = rows(&problem.v, 1, d.d_v);
        let out = support::rows_mut(&mut context, 2, d.d_v);
        let out = regard_engine::forward(call, q, k, v, out, false).unwrap();
        assert_eq!(out.lse[..], want.lse);
    });
    assert_eq!(context, want.context);
}

#[test]
fn arrays_of_the_wrong_size_are_refused_by_name() {
    let problem = Problem::new(Kind::Additive, 2, 1, Problem::packed(&[(4, 6)]));
    let d = problem.dims;
    let refused = |context: usize, dk: usize, lse: usize, params: usize, weights: usize| {
        problem.with_call::<f64, _>(|call| {
            let (q, k) = (rows(&problem.q, 2, d.d_k), rows(&problem.k, 1, d.d_k));
            let v = rows(&problem.v, 1, d.d_v);
            let contexts = vec![0.0; context];
            let (mut dq, mut dk) = (vec![0.0; problem.q.len()], vec![0.0; dk]);
            let (mut dv, mut dparams) = (vec![0.0; problem.v.len()], vec![0.0; params]);
            let arrays = GradArrays::Separate {
                dq: support::rows_mut(&mut dq, 2, d.d_k),
                dk: support::rows_mut(&mut dk, 1, d.d_k),
                dv: support::rows_mut(&mut dv, 1, d.d_v),
            };
            let grads = Gradients { arrays, dparams: &mut dparams };
            let (context, dc) = (rows(&contexts, 2, d.d_v), rows(&problem.d_context, 2, d.d_v));
            let (lse, d_weights) = (vec![0.0; lse], vec![0.0; weights]);
            let given = Some(&d_weights[..]);
            regard_engine::backward(call, q, k, v, context, &lse, dc, given, grads)
                .map_err(|error| error.to_string())
        })
    };
    let (context, dk, lse, params, weights) = (24, 30, 8, 10, 48);
    assert_eq!(refused(context, dk, lse, params, weights), Ok(()));
    for (got, argument) in [
        (refused(23, dk, lse, params, weights), "`context` must be at least 24 elements"),
        (refused(context, 29, lse, params, weights), "`dk` must be at least 30 elements"),
        (refused(context, dk, 7, params, weights), "`lse` must be 8 elements, got 7"),
        (refused(context, dk, lse, 11, weights), "`dparams` must be 10 elements, got 11"),
        (refused(context, dk, lse, params, 47), "`d_weights` must be 48 elements, got 47"),
    ] {
        assert!(got.as_ref().is_err_and(|message| message.contains(argument)), "{got:?}");
    }

    let shared = vec![
        Item { q_start: 0, q_len: 3, kv_start: 0, kv_len: 3 },
        Item { q_start: 2, q_len: 2, kv_start: 3, kv_len: 3 },
    ];
    let problem = Problem::new(Kind::Dot, 1, 1, shared);
    let mut context = numbers(1, 12);
    problem.with_call::<f64, _>(|call| {
        let (q, k) = (rows(&problem.q, 1, d.d_k), rows(&problem.k, 1, d.d_k));
        let v = rows(&problem.v, 1, d.d_v);
        let out = support::rows_mut(&mut context, 1, d.d_v);
        let error = regard_engine::forward(call, q, k, v, out, false).unwrap_err().to_string();
        assert!(error.contains("`q_start` must be at least 3"), "{error}");
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Rows of the softmax sum to one, and forbidden pairs have weight 0.
    #[test]
    fn rows_sum_to_one(mut problem in problems()) {
        problem.normaliser = Weighing::Softmax;
        let got = problem.engine::<f32>();
        let mut row = 0;
        problem.with_call::<f32, _>(|call| {
            for item in 0..call.items.len() {
                for head in 0..call.dims.n_heads {
                    let at = call.at(item, head);
                    for i in 0..at.q_len {
                        let weights = &got.weights[row..row + at.kv_len];
                        row += at.kv_len;
                        let allowed = |j: usize| call.scope.allows(at, i, j);
                        for (j, weight) in weights.iter().enumerate() {
                            prop_assert!(allowed(j) || *weight == 0.0);
                        }
                        let want = f64::from(u8::from((0..at.kv_len).any(allowed)));
                        let sum = weights.iter().sum::<f64>();
                        // A sum of n rounded weights, by a rounded sum of n exponentials.
                        let bound = 2.0 * f32::EPSILON.to_f64() * (at.kv_len + 4) as f64;
                        prop_assert!((sum - want).abs() <= bound);
                    }
                }
            }
            Ok(())
        })?;
    }
}
