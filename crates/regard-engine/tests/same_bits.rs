//! What must not change a single bit: other items, threads, the layout, outputs asked for.

mod support;

use regard_attn::scope::{Alignment, Window};
use regard_attn::{Dims, Dropout, Item, Rows, RowsMut};
use regard_engine::{GradArrays, Gradients, Place};
use regard_tensor::Key;
use support::{Allowed, KINDS, Kind, Outcome, Problem, assert_same, at, rows, rows_mut};

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
                    q_offset: 0,
                })
                .collect();
            let dims = Dims { n_heads: 2, n_kv_heads: 1, d_k: 6, d_v: 5 };
            let mut batch = Problem::with_dims(kind, dims, padded);
            batch.rotary = true;
            batch.allowed =
                Allowed { lengths: Some(lengths.to_vec()), causal, ..Allowed::default() };
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
        for lengths in [&[(200, 130)][..], &[(30, 40); 12], &[(5, 7); 300]] {
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
        let grads = Gradients { arrays, dscore_params: &mut [], dposition_params: &mut [] };
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
        let grads = Gradients { arrays, dscore_params: &mut [], dposition_params: &mut [] };
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
    let problem = Problem::new(Kind::ScaledDot, 2, 1, Problem::packed(&[(70, 131)]));
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
