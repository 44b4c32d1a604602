//! The reference against PyTorch: `scripts/golden/attention.json`.

use regard_attn::normaliser::Softmax;
use regard_attn::position::{NoPosition, Position, Rotary, RotaryLayout, Sinusoidal};
use regard_attn::scope::{And, Causal, Full, Lengths, Window};
use regard_attn::{Call, Dims, Item, Rows, Scope, reference};
use regard_testkit::{Bound, Case, Golden, assert_close, close_each};

use crate::parts::score;

/// Largest |x|, at least 1.
fn size(x: &[f64]) -> f64 {
    x.iter().fold(1.0, |most, x| most.max(x.abs()))
}

#[test]
fn attention() {
    let golden = Golden::load("attention");
    let cases: Vec<&Case> = golden.cases().iter().filter(|case| case.has_attr("score")).collect();
    assert!(cases.len() >= 22);
    for case in cases {
        check(case);
    }
}

fn check(case: &Case) {
    let lengths = if case.has_attr("lengths") { case.sizes("lengths") } else { Vec::new() };
    let lengths = Lengths { kv: &lengths };
    let window = case
        .has_attr("left")
        .then(|| Window { left: case.size("left"), right: case.size("right") });
    let mut scopes: Vec<&dyn Scope> = Vec::new();
    for name in case.text("scope").split('+') {
        scopes.push(match name {
            "full" => &Full,
            "causal" => const { &Causal::square() },
            "lengths" => &lengths,
            "window" => window.as_ref().unwrap(),
            _ => panic!("scope {name}"),
        });
    }

    let (shape, q) = case.array("q");
    let [batch, n_heads, q_len, d_k] = shape[..] else { panic!("shape of q") };
    let ((k_shape, k), (v_shape, v)) = (case.array("k"), case.array("v"));
    let (kv_len, d_v) = (k_shape[2], v_shape[3]);
    let v_a = case.optional_array("v_a").map(|(_, v_a)| v_a).unwrap_or_default();
    let score = score(case.text("score"), &v_a, d_k);
    // [batch, heads, len, d]: an item's rows begin a whole block of heads later.
    let items: Vec<Item> = (0..batch)
        .map(|b| Item {
            q_start: b * n_heads * q_len,
            q_len,
            kv_start: b * n_heads * kv_len,
            kv_len,
            q_offset: 0,
        })
        .collect();
    let call = Call {
        score: &*score,
        normaliser: &Softmax,
        scope: &And(&scopes),
        position: &NoPosition,
        dropout: None,
        dims: Dims { n_heads, n_kv_heads: n_heads, d_k, d_v },
        items: &items,
    };
    let rows = |data, len, d| Rows { data, row_stride: d, head_stride: len * d };
    let (q_rows, k_rows, v_rows) =
        (rows(&q, q_len, d_k), rows(&k, kv_len, d_k), rows(&v, kv_len, d_v));
    let out = reference::forward(&call, q_rows, k_rows, v_rows).unwrap();

    // [n_queries, heads, d] and [heads, n_queries] against [batch, heads, len, d] and
    // [batch, heads, len].
    let by_head = |x: &[f64], len: usize, d: usize, start: &dyn Fn(usize) -> usize| -> Vec<f64> {
        let mut out = Vec::new();
        for b in 0..batch {
            for h in 0..n_heads {
                for i in 0..len {
                    let first = ((start(b) + i) * n_heads + h) * d;
                    out.extend_from_slice(&x[first..first + d]);
                }
            }
        }
        out
    };
    let mut context_grad = vec![0.0; out.context.len()];
    let (_, d_context) = case.array("d_context");
    for (n, d) in d_context.iter().enumerate() {
        let (c, i, h, b) =
            (n % d_v, n / d_v % q_len, n / (d_v * q_len) % n_heads, n / (d_v * q_len * n_heads));
        context_grad[((b * q_len + i) * n_heads + h) * d_v + c] = *d;
    }
    let d_weights = case.flag("d_weights").then(|| case.array("d_weights").1);
    let d_weights = d_weights.as_deref();
    let g = reference::backward(&call, q_rows, k_rows, v_rows, &context_grad, d_weights.into())
        .unwrap();

    // Roundings that can add up, and the sizes behind each result: scores up to S, their
    // gradients up to D.
    let terms = 16 * (d_k + d_v + kv_len + q_len);
    let s = if v_a.is_empty() { size(&q) * size(&k) * d_k as f64 } else { size(&v_a) * d_k as f64 };
    let weights_off = 1.0 + s;
    let upstream = size(&d_context) * size(&v) * d_v as f64 + d_weights.map_or(0.0, size);
    let d = weights_off * 2.0 * upstream;
    let (by_q, by_k) = if v_a.is_empty() { (size(&k), size(&q)) } else { (size(&v_a), size(&v_a)) };
    let same = |name: &str, got: &[f64], scale: f64| {
        let (_, want) = case.array(name);
        if let Err(message) = close_each(got, &want, |_| Bound::f64(terms, scale)) {
            panic!("{}, {name}: {message}", case.name());
        }
    };
    let packed_q = |b| b * q_len;
    same("context", &by_head(&out.context, q_len, d_v, &packed_q), weights_off * size(&v));
    same("weights", &out.weights, weights_off);
    let n = call.n_queries();
    let lse: Vec<f64> = (0..batch)
        .flat_map(|b| {
            (0..n_heads).flat_map(move |h| (0..q_len).map(move |i| h * n + b * q_len + i))
        })
        .map(|n| out.lse[n])
        .collect();
    same("lse", &lse, weights_off);
    same("d_q", &by_head(&g.dq, q_len, d_k, &|b| items[b].q_start), d * by_q);
    same("d_k", &by_head(&g.dk, kv_len, d_k, &|b| items[b].kv_start), d * by_k);
    same(
        "d_v",
        &by_head(&g.dv, kv_len, d_v, &|b| items[b].kv_start),
        weights_off * size(&d_context),
    );
    if !v_a.is_empty() {
        same("d_v_a", &g.dscore_params, d * (batch * q_len) as f64);
    }
}

#[test]
fn rotary() {
    let golden = Golden::load("attention");
    let mut tried = 0;
    for case in golden.cases().iter().filter(|case| case.has_attr("pairing")) {
        let layout = match case.text("pairing") {
            "interleaved" => RotaryLayout::Interleaved,
            "half_split" => RotaryLayout::Half,
            pairing => panic!("pairing {pairing}"),
        };
        let rotary = Rotary::new(case.scalar("base"), layout);
        let (shape, mut x) = case.array("x");
        let [.., len, d] = shape[..] else { panic!("shape of x") };
        let (_, mut dy) = case.array("dy");
        for n in 0..x.len() / d {
            let position = case.size("start") + n % len;
            rotary.turn(position, &mut x[n * d..(n + 1) * d]);
            rotary.turn_backward(position, &mut dy[n * d..(n + 1) * d]);
        }
        // Angles up to 15, entries up to 4.
        assert_close(&x, &case.array("y").1, Bound::f64(4 * 15 + 8, 8.0));
        assert_close(&dy, &case.array("d_x").1, Bound::f64(4 * 15 + 8, 8.0));
        tried += 1;
    }
    assert_eq!(tried, 4);
}

#[test]
fn sinusoidal() {
    let golden = Golden::load("attention");
    let mut tried = 0;
    for case in golden.cases().iter().filter(|case| case.has_attr("d_model")) {
        let (d, first) = (case.size("d_model"), case.size("first_position"));
        let (shape, want) = case.array("y");
        assert_eq!(shape, [case.size("last_position") + 1 - first, d]);
        let got: Vec<f64> =
            (0..shape[0]).flat_map(|p| Sinusoidal::encoding(first + p, d)).collect();
        assert_close(&got, &want, Bound::f64(4 * 11 + 8, 1.0));
        tried += 1;
    }
    assert_eq!(tried, 2);
}
