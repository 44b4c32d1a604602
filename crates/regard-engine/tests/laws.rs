//! Laws that hold for every attention, tested on the engine alone.

mod support;

use proptest::prelude::*;
use regard_attn::scope::{Alignment, Window};
use regard_attn::{Dims, Dropout, Item};
use regard_tensor::{Key, Real};
use regard_testkit::{Bound, assert_close, check_gradients_of};
use support::strategy::problems;
use support::{Allowed, KINDS, Kind, NORMALISERS, Problem, Weighing, assert_same, at};

/// Keys and values that no query sees may hold anything.
#[test]
fn forbidden_keys_change_nothing() {
    let junk = [(0, f64::NAN), (1, f64::INFINITY), (2, f64::NEG_INFINITY)];
    for kind in KINDS {
        for normaliser in NORMALISERS {
            for (place, junk) in junk {
                for without_hints in [false, true] {
                    let name = format!("{kind:?} {normaliser:?} {junk} {without_hints}");
                    let mut problem =
                        Problem::new(kind, 2, 1, Problem::packed(&[(70, 90), (3, 20), (5, 4)]));
                    problem.normaliser = normaliser;
                    problem.dropout = Some(Dropout { rate: 0.2, key: Key::new(1) });
                    problem.allowed = Allowed {
                        without_hints,
                        lengths: Some(vec![71, 1, 0]),
                        window: Some(Window { left: 2, right: 3 }),
                        causal: None,
                    };
                    problem.watch_weights();
                    let want = problem.engine::<f32>();
                    spoil(&mut problem, &[71, 1, 0], place, junk);
                    assert_same(&problem.engine::<f32>(), &want, &name);
                }
            }
        }
    }
}

/// Puts junk into everything that is not looked at, where item n's queries see keys 0..seen[n].
fn spoil(problem: &mut Problem, seen: &[usize], place: usize, junk: f64) {
    let d = problem.dims;
    for (item, seen) in problem.items.clone().iter().zip(seen) {
        for j in *seen..item.kv_len {
            problem.k[at(item.kv_start + j, 0, d.n_kv_heads, d.d_k)].fill(junk);
            problem.v[at(item.kv_start + j, 0, d.n_kv_heads, d.d_v)][place] = junk;
        }
        if *seen == 0 {
            for i in 0..item.q_len {
                problem.q[at(item.q_start + i, 0, d.n_heads, d.d_k)].fill(junk);
                problem.d_context[at(item.q_start + i, 1, d.n_heads, d.d_v)].fill(junk);
            }
        }
    }
    let forbidden = problem.forbidden();
    if let Some(d_weights) = &mut problem.d_weights {
        for n in forbidden {
            d_weights[n] = junk;
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
                problem.engine::<f32>()
            };
            let (long, short) = (attend(130), attend(len));
            assert_eq!(long.context[..short.context.len()], short.context);
            assert_eq!(long.lse[..len], short.lse[..len]);
        }
    }
}

/// What stands between items is left alone.
#[test]
fn rows_of_no_item_are_not_written() {
    let items = vec![
        Item { q_start: 2, q_len: 3, kv_start: 1, kv_len: 4, q_offset: 0 },
        Item { q_start: 7, q_len: 1, kv_start: 6, kv_len: 2, q_offset: 0 },
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
