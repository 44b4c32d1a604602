//! What must not change a single bit: other items, threads, the layout, outputs asked for.

use crate::support::draw::{draw, draw_parts};
use crate::support::parts::{NormaliserKind, ScopeKind, ScoreKind};
use crate::support::{Outcome, Problem, SCORES, assert_same, assert_same_bits, at, rows, rows_mut};
use regard_attn::scope::Window;
use regard_attn::{Dims, Dropout, Rows, RowsMut};
use regard_engine::{GradArrays, Gradients, Place};
use regard_tensor::Key;

/// What the loss gives to an item, and what the item gives: its part of everything but the parameters' gradients.
fn of_item(problem: &Problem, outcome: &Outcome, index: usize) -> Vec<(&'static str, Vec<f64>)> {
    let (d, item) = (problem.dims, problem.items[index]);
    let (query, _, weight) = problem.starts(index);
    let rows = |array: &[f64], width: usize, start: usize, len: usize| {
        if len == 0 { Vec::new() } else { array[start * width..(start + len) * width].to_vec() }
    };
    let n = problem.n_queries();
    let lse = (0..d.n_heads).flat_map(|head| &outcome.lse[head * n + query..][..item.q_len]);
    let (q_start, kv_start) = (item.q_start, item.kv_start);
    vec![
        ("context", rows(&outcome.context, d.n_heads * d.d_v, q_start, item.q_len)),
        ("lse", lse.copied().collect()),
        ("weights", outcome.weights[weight..][..d.n_heads * item.q_len * item.kv_len].to_vec()),
        ("dq", rows(&outcome.dq, d.n_heads * d.d_k, q_start, item.q_len)),
        ("dk", rows(&outcome.dk, d.n_kv_heads * d.d_k, kv_start, item.kv_len)),
        ("dv", rows(&outcome.dv, d.n_kv_heads * d.d_v, kv_start, item.kv_len)),
    ]
}

/// An item has the same bits alone and in a packed batch, for all parts. What is random is addressed by the
/// item's index, so that there the first item alone is compared.
#[test]
fn an_item_alone_is_the_item_in_a_packed_batch() {
    let mut items = 0;
    for seed in 0..160 {
        let problem = draw(seed);
        let random =
            problem.dropout.is_some() || matches!(problem.normaliser, NormaliserKind::Sampled(_));
        let n = if random { problem.items.len().min(1) } else { problem.items.len().min(4) };
        let in_batch = problem.engine::<f32>();
        for index in 0..n {
            let alone = problem.only(index);
            let got = of_item(&problem, &in_batch, index);
            let want = of_item(&alone, &alone.engine::<f32>(), 0);
            for ((name, got), (_, want)) in got.iter().zip(&want) {
                assert_same_bits(got, want, &format!("{problem}: item {index}: {name}"));
            }
            items += 1;
        }
    }
    assert!(items > 150, "{items} items");
}

/// An item has the same bits in a padded batch (longer items, lengths in the scope), for all parts.
#[test]
fn an_item_is_the_item_in_a_padded_batch() {
    let mut problems = 0;
    for seed in 0..160 {
        let mut problem = draw(seed);
        // Queries of padding see keys, too, and their weights count in the sums by key.
        problem.looks.key_sums = None;
        let width = problem.scope.width();
        for pad in [1, 70].map(|n: usize| n.next_multiple_of(width)) {
            let Some(padded) = problem.padded(pad) else { continue };
            let (got, want) = (padded.engine::<f32>(), problem.engine::<f32>());
            for index in 0..problem.items.len() {
                let item = problem.items[index];
                let want = of_item(&problem, &want, index);
                let got = of_item(&padded, &got, index);
                for ((name, got), (_, want)) in got.iter().zip(&want) {
                    // Rows of padding come behind the item's; of lse and weights, head by head.
                    let (lines, line) = match *name {
                        "lse" => (problem.dims.n_heads, item.q_len),
                        "weights" => (problem.dims.n_heads * item.q_len, item.kv_len),
                        _ => (1, want.len()),
                    };
                    let long = match *name {
                        "lse" => item.q_len + pad,
                        "weights" => item.kv_len + pad,
                        _ => got.len(),
                    };
                    for n in 0..lines {
                        let at = match *name {
                            "weights" => {
                                let (head, i) = (n / item.q_len, n % item.q_len);
                                (head * (item.q_len + pad) + i) * long
                            }
                            _ => n * long,
                        };
                        let what = format!("{problem}: padded by {pad}: item {index}: {name}");
                        assert_same_bits(&got[at..at + line], &want[n * line..][..line], &what);
                    }
                }
            }
            problems += 1;
        }
    }
    assert!(problems > 150, "{problems} problems");
}

/// Everything has the same bits, parameters' gradients and summaries, too.
#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let pools: Vec<_> =
        (1..=8).map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap()).collect();
    let same = |problem: &Problem| {
        let one = pools[0].install(|| problem.engine::<f32>());
        for pool in &pools[1..] {
            let got = pool.install(|| problem.engine::<f32>());
            let threads = pool.current_num_threads();
            assert_same(&got, &one, &format!("{problem}: {threads} threads"));
        }
    };
    // Work that is worth a second thread.
    let (mut seed, mut shared) = (0, 0);
    while shared < 40 {
        let problem = draw(seed);
        let pairs: usize = problem.items.iter().map(|item| item.q_len * item.kv_len).sum();
        if pairs * (problem.dims.d_k + problem.dims.d_v) * problem.dims.n_heads > 1 << 18 {
            same(&problem);
            shared += 1;
        }
        seed += 1;
    }
    for score in SCORES {
        for lengths in [&[(200, 130)][..], &[(30, 40); 12], &[(5, 7); 300]] {
            let dims = Dims { n_heads: 2, n_kv_heads: 1, d_k: 16, d_v: 16 };
            let mut problem = Problem::with_dims(score.clone(), dims, Problem::packed(lengths));
            problem.dropout = Some(Dropout { rate: 0.1, key: Key::new(2) });
            same(&problem);
        }
    }
}

#[test]
fn a_window_over_everything_is_full() {
    for seed in 0..60 {
        let items = Problem::packed(&[(130, 70), (1, 1), (20, 150)]);
        let mut problem = draw_parts(seed, items);
        let full = problem.engine::<f32>();
        for window in [Window { left: 130, right: 150 }, Window { left: usize::MAX, right: 150 }] {
            problem.scope = ScopeKind::Window(window);
            assert_same(&problem.engine::<f32>(), &full, &problem.to_string());
        }
    }
}

/// The arrays may be laid out in any way; the numbers are the same.
#[test]
fn any_strides_give_the_same_bits() {
    let dims = Dims { n_heads: 2, n_kv_heads: 2, d_k: 5, d_v: 5 };
    let (items, n, d) = (Problem::packed(&[(70, 70), (3, 3)]), 73, 5);
    let problem = Problem::with_dims(ScoreKind::ScaledDot, dims, items);
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
        let grads =
            Gradients { arrays, add: true, dscore_params: &mut [], dposition_params: &mut [] };
        let (q, k, v, dc) = (part(0), part(1), part(2), rows(&problem.d_context, 2, d));
        regard_engine::backward(
            call,
            q,
            k,
            v,
            context,
            &out.lse,
            dc,
            regard_attn::Upstream::NONE,
            grads,
        )
        .unwrap();
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
        let grads =
            Gradients { arrays, add: true, dscore_params: &mut [], dposition_params: &mut [] };
        let (q, k, v, dc) = (part(0), part(1), part(2), rows(&problem.d_context, 2, d));
        let context = Rows { data: &context, row_stride: d, head_stride: n * d };
        regard_engine::backward(
            call,
            q,
            k,
            v,
            context,
            &want.lse,
            dc,
            regard_attn::Upstream::NONE,
            grads,
        )
        .unwrap();
    });
    for row in 0..n {
        for x in 0..2 * d {
            assert_eq!(dq[row * 2 * d + x], 1.0 + want.dq[row * 2 * d + x]);
            assert_eq!(d_kv[row * 4 * d + x], 1.0 + want.dk[row * 2 * d + x]);
            assert_eq!(d_kv[row * 4 * d + 2 * d + x], 1.0 + want.dv[row * 2 * d + x]);
        }
    }
}

/// Asking for the weights changes no bit of anything else.
#[test]
fn weights_cost_nothing_but_time() {
    let problem = Problem::new(ScoreKind::ScaledDot, 2, 1, Problem::packed(&[(70, 131)]));
    let want = problem.engine::<f64>();
    let d = problem.dims;
    let mut context = vec![0.0; want.context.len()];
    problem.with_call(|call| {
        let (q, k) = (rows(&problem.q, 2, d.d_k), rows(&problem.k, 1, d.d_k));
        let v = rows(&problem.v, 1, d.d_v);
        let out = rows_mut(&mut context, 2, d.d_v);
        let out = regard_engine::forward(call, q, k, v, out, false).unwrap();
        assert_eq!(out.lse[..], want.lse);
    });
    assert_eq!(context, want.context);
}
