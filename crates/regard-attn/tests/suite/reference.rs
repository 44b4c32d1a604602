//! The reference: its gradients are those of its forward pass, for every combination of parts.

use regard_attn::position::{NoPosition, Rotary, RotaryLayout};
use regard_attn::scope::{Full, Lengths};
use regard_attn::score::Dot;
use regard_attn::{Call, Dims, Dropout, Item, Rows, reference};
use regard_tensor::Key;
use regard_testkit::{Bound, assert_close, check_gradient, check_gradients_of, random_vec};

use crate::parts::{SCORES, normalisers, positions, scopes, score};
use crate::problem::{DIMS, ITEMS, Inputs, KV_ROWS, Q_ROWS, call};

/// Σ x_n u_n
fn inner(x: &[f64], u: &[f64]) -> f64 {
    x.iter().zip(u).map(|(x, u)| x * u).sum()
}

/// A gradient padded with the zeros of the unused rows at the end.
fn padded(mut gradient: Vec<f64>, rows: usize, row: usize) -> Vec<f64> {
    gradient.resize(rows * row, 0.0);
    gradient
}

#[test]
fn gradients_of_every_combination() {
    let dropout = Some(Dropout { rate: 0.3, key: Key::new(5) });
    // Each combination of score, scope and position meets one of these, each part all of them.
    let rest = [(None, true), (dropout, true), (None, false)];
    for (n, name) in SCORES.iter().enumerate() {
        let inputs = Inputs::new(name);
        for (s, scope) in scopes().iter().enumerate() {
            let positions = positions();
            let positions = positions.iter().filter(|p| p.turns() || p.name() == "none");
            for (p, position) in positions.enumerate() {
                let (dropout, with_weights) = rest[(n + s + p) % rest.len()];
                let loss_of = |inputs: &Inputs, context: &[f64], weights: &[f64]| {
                    let score = score(name, &inputs.params, DIMS.d_k);
                    let call = call(&*score, &**scope, &**position, dropout);
                    let out =
                        reference::forward(&call, inputs.q(), inputs.k(), inputs.v()).unwrap();
                    inner(&out.context, context) + inner(&out.weights, weights)
                };
                let score = score(name, &inputs.params, DIMS.d_k);
                let call = call(&*score, &**scope, &**position, dropout);
                let n_weights = *call.weight_offsets().last().unwrap();
                let d_context = random_vec(11, call.n_queries() * DIMS.n_heads * DIMS.d_v);
                let d_weights = random_vec(12, n_weights);
                let zero = vec![0.0; n_weights];
                let given = with_weights.then_some(&d_weights[..]);
                let (q, k, v) = (inputs.q(), inputs.k(), inputs.v());
                let g = reference::backward(&call, q, k, v, &d_context, given).unwrap();
                let Dims { n_heads, n_kv_heads, d_k, d_v } = DIMS;
                let Inputs { q, k, v, params } = inputs.clone();
                check_gradients_of(
                    &mut [("q", q), ("k", k), ("v", v), ("params", params)],
                    |a| {
                        let [q, k, v, params] = [0, 1, 2, 3].map(|n| a[n].1.clone());
                        let inputs = Inputs { q, k, v, params };
                        loss_of(&inputs, &d_context, given.unwrap_or(&zero))
                    },
                    &[
                        padded(g.dq, Q_ROWS, n_heads * d_k),
                        padded(g.dk, KV_ROWS, n_kv_heads * d_k),
                        padded(g.dv, KV_ROWS, n_kv_heads * d_v),
                        g.dscore_params,
                    ],
                );
            }
        }
    }
}

#[test]
fn gradients_of_normalisers() {
    for normaliser in normalisers() {
        for n in [1, 2, 9, 17] {
            let (scores, upstream) = (random_vec(1, n), random_vec(2, n));
            let weights = |s: &[f64]| {
                let mut s = s.to_vec();
                normaliser.row(&mut s);
                s
            };
            let mut gradient = upstream.clone();
            normaliser.row_backward(&weights(&scores), &mut gradient);
            let loss = |s: &[f64]| inner(&weights(s), &upstream);
            check_gradient(normaliser.name(), loss, &scores, &gradient);
        }
    }
}

#[test]
fn gradients_of_calls_with_every_normaliser() {
    let inputs = Inputs::new("scaled_dot");
    let Dims { n_heads, n_kv_heads, d_k, d_v } = DIMS;
    for normaliser in normalisers() {
        for scope in scopes() {
            let score = score("scaled_dot", &[], d_k);
            let call =
                Call { normaliser: &*normaliser, ..call(&*score, &*scope, &NoPosition, None) };
            let d_context = random_vec(11, call.n_queries() * n_heads * d_v);
            let d_weights = random_vec(12, *call.weight_offsets().last().unwrap());
            let (q, k, v) = (inputs.q(), inputs.k(), inputs.v());
            let g = reference::backward(&call, q, k, v, &d_context, Some(&d_weights)).unwrap();
            let Inputs { q, k, v, params } = inputs.clone();
            check_gradients_of(
                &mut [("q", q), ("k", k), ("v", v)],
                |a| {
                    let [q, k, v] = [0, 1, 2].map(|n| a[n].1.clone());
                    let inputs = Inputs { q, k, v, params: params.clone() };
                    let out =
                        reference::forward(&call, inputs.q(), inputs.k(), inputs.v()).unwrap();
                    inner(&out.context, &d_context) + inner(&out.weights, &d_weights)
                },
                &[
                    padded(g.dq, Q_ROWS, n_heads * d_k),
                    padded(g.dk, KV_ROWS, n_kv_heads * d_k),
                    padded(g.dv, KV_ROWS, n_kv_heads * d_v),
                ],
            );
        }
    }
}

#[test]
fn normalised_rows() {
    let never = f64::NEG_INFINITY;
    for normaliser in normalisers() {
        for n in [0, 1, 2, 9, 17, 65] {
            let mut row: Vec<f64> = random_vec(1, n).iter().map(|s| 30.0 * s).collect();
            row.extend([never, never]);
            let lse = normaliser.row(&mut row);
            let bounded = normaliser.name() != "identity";
            assert!(!bounded || row.iter().all(|a| (0.0..=1.0).contains(a)));
            assert_eq!(row[n..], [0.0, 0.0], "{}", normaliser.name());
            if n == 0 {
                assert_eq!(lse, never);
            } else if normaliser.rows_sum_to_one() {
                assert_close(&[row.iter().sum::<f64>()], &[1.0], Bound::f64(n + 4, 1.0));
            }
        }
    }
}

#[test]
fn weights_are_those_before_dropout_and_kept_those_after() {
    let inputs = Inputs::new("dot");
    let rate = 0.4;
    let dropout = Some(Dropout { rate, key: Key::new(1) });
    let (with, without) =
        (call(&Dot, &Full, &NoPosition, dropout), call(&Dot, &Full, &NoPosition, None));
    let run =
        |c: &Call<'_, f64>| reference::forward(c, inputs.q(), inputs.k(), inputs.v()).unwrap();
    let (dropped, plain) = (run(&with), run(&without));
    assert_eq!(dropped.weights, plain.weights);
    assert_eq!(dropped.lse, plain.lse);
    assert_eq!(plain.kept, plain.weights);
    let mut lost = 0;
    for (kept, weight) in dropped.kept.iter().zip(&plain.weights) {
        assert!(*kept == 0.0 || *kept == weight * (1.0 / (1.0 - rate)));
        lost += usize::from(*kept == 0.0);
    }
    assert!(lost > 0 && lost < plain.kept.len());
    assert_eq!(run(&with), dropped);
    // Another stream drops others.
    let other = Some(Dropout { rate, key: Key::new(2) });
    assert_ne!(run(&call(&Dot, &Full, &NoPosition, other)).kept, dropped.kept);
}

#[test]
fn dropout_keeps_the_mean() {
    let dropout = Dropout { rate: 0.3, key: Key::new(3) };
    let n = 200_000;
    let factors = (0..n).map(|j| dropout.factor::<f64>(dropout.row(1, 2, j / 1000), j % 1000));
    let mean = factors.sum::<f64>() / n as f64;
    // One factor has the variance rate/(1 − rate) = 0.43; five standard errors.
    assert!((mean - 1.0).abs() < 5.0 * (0.43 / n as f64).sqrt(), "{mean}");
}

#[test]
fn a_query_with_nothing_allowed_has_zero_everything() {
    for name in SCORES {
        let inputs = Inputs::new(name);
        let score = score(name, &inputs.params, DIMS.d_k);
        let scope = Lengths { kv: &[5, 0] };
        let rotary = Rotary::new(10000.0, RotaryLayout::Half);
        let call = call(&*score, &scope, &rotary, None);
        let out = reference::forward(&call, inputs.q(), inputs.k(), inputs.v()).unwrap();
        let n_queries = call.n_queries();
        let first_of_second = call.query_offsets()[1];
        assert!(out.context[first_of_second * DIMS.n_heads * DIMS.d_v..].iter().all(|c| *c == 0.0));
        assert!(out.weights[call.weight_offsets()[1]..].iter().all(|a| *a == 0.0));
        for head in 0..DIMS.n_heads {
            let lse = &out.lse[head * n_queries..(head + 1) * n_queries];
            assert!(lse[..first_of_second].iter().all(|l| l.is_finite()));
            assert!(lse[first_of_second..].iter().all(|l| *l == f64::NEG_INFINITY));
        }
        let d_context = random_vec(1, out.context.len());
        let d_weights = random_vec(2, out.weights.len());
        let (q, k, v) = (inputs.q(), inputs.k(), inputs.v());
        let g = reference::backward(&call, q, k, v, &d_context, Some(&d_weights)).unwrap();
        let item = ITEMS[1];
        let zero = |rows: &[f64], start: usize, len: usize, width: usize| {
            rows[start * width..(start + len) * width].iter().all(|x| *x == 0.0)
        };
        assert!(zero(&g.dq, item.q_start, item.q_len, DIMS.n_heads * DIMS.d_k));
        assert!(zero(&g.dk, item.kv_start, item.kv_len, DIMS.n_kv_heads * DIMS.d_k));
        assert!(zero(&g.dv, item.kv_start, item.kv_len, DIMS.n_kv_heads * DIMS.d_v));
    }
}

#[test]
fn a_batch_without_items_or_rows_is_empty() {
    let rows = Rows { data: &[][..], row_stride: 8, head_stride: 4 };
    // The starts of items without rows may lie anywhere.
    let nowhere = Item { q_start: 70, q_len: 0, kv_start: 80, kv_len: 0 };
    for items in [&[][..], &[nowhere]] {
        let call = Call { items, ..call(&Dot, &Full, &NoPosition, None) };
        let out = reference::forward(&call, rows, rows, rows).unwrap();
        assert!(out.context.is_empty() && out.lse.is_empty() && out.weights.is_empty());
        let g = reference::backward(&call, rows, rows, rows, &[], Some(&[])).unwrap();
        assert!(g.dq.is_empty() && g.dk.is_empty() && g.dv.is_empty());
    }
    // Queries without keys.
    let lonely = Item { q_start: 0, q_len: 2, kv_start: 0, kv_len: 0 };
    let call = Call { items: &[lonely], ..call(&Dot, &Full, &NoPosition, None) };
    let q = Rows { data: &[1.0; 16][..], ..rows };
    let out = reference::forward(&call, q, rows, rows).unwrap();
    assert_eq!((out.context, out.lse), (vec![0.0; 12], vec![f64::NEG_INFINITY; 4]));
    let g = reference::backward(&call, q, rows, rows, &[1.0; 12], None).unwrap();
    assert_eq!(g.dq, [0.0; 16]);
}
