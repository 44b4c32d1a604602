//! The engine gives what another implementation gave: `scripts/golden/attention.json`.

use regard_attn::normaliser::Softmax;
use regard_attn::position::NoPosition;
use regard_attn::scope::{And, Causal, Lengths, Scope, Window};
use regard_attn::score::{Additive, Dot, ScaledDot, Score};
use regard_attn::{Call, Dims, Item, Rows, RowsMut};
use regard_engine::{GradArrays, Gradients};
use regard_testkit::golden::Case;
use regard_testkit::{Bound, Golden, assert_close};

/// Rows of `[batch, heads, len, d]`: item b begins at row b·heads·len.
fn rows(data: &[f64], len: usize, d: usize) -> Rows<'_, f64> {
    Rows { data, row_stride: d, head_stride: len * d }
}

fn rows_mut(data: &mut [f64], len: usize, d: usize) -> RowsMut<'_, f64> {
    RowsMut { data, row_stride: d, head_stride: len * d }
}

fn check(case: &Case) {
    let ((shape, q), (k_shape, k), (v_shape, v)) =
        (case.array("q"), case.array("k"), case.array("v"));
    let (batch, heads, q_len, d_k) = (shape[0], shape[1], shape[2], shape[3]);
    let (kv_len, d_v) = (k_shape[2], v_shape[3]);
    let v_a = case.optional_array("v_a").map_or(Vec::new(), |(_, v_a)| v_a);
    let score: &dyn Score<f64> = match case.text("score") {
        "dot" => &Dot,
        "scaled_dot" => &ScaledDot::new(d_k),
        "additive" => &Additive { v: &v_a },
        other => panic!("{}: unknown score {other}", case.name()),
    };
    let lengths = case.has_attr("lengths").then(|| case.sizes("lengths"));
    let lengths = lengths.as_ref().map(|kv| Lengths { kv });
    let window = case
        .has_attr("left")
        .then(|| Window { left: case.size("left"), right: case.size("right") });
    let causal = Causal::square();
    let mut scopes: Vec<&dyn Scope> = Vec::new();
    if let Some(lengths) = &lengths {
        scopes.push(lengths);
    }
    if let Some(window) = &window {
        scopes.push(window);
    }
    if case.has_attr("causal") && case.flag("causal") {
        scopes.push(&causal);
    }
    let items: Vec<Item> = (0..batch)
        .map(|b| Item {
            q_start: b * heads * q_len,
            q_len,
            kv_start: b * heads * kv_len,
            kv_len,
            q_offset: 0,
        })
        .collect();
    let call = Call {
        score,
        normaliser: &Softmax,
        scope: &And(&scopes),
        position: &NoPosition,
        dropout: None,
        dims: Dims { n_heads: heads, n_kv_heads: heads, d_k, d_v },
        items: &items,
    };
    let (q_in, k_in, v_in) = (rows(&q, q_len, d_k), rows(&k, kv_len, d_k), rows(&v, kv_len, d_v));
    let mut context = vec![0.0; batch * heads * q_len * d_v];
    let out = rows_mut(&mut context, q_len, d_v);
    let out = regard_engine::forward(&call, q_in, k_in, v_in, out, true).unwrap();

    // Inputs are of the order of one; sums have at most d_k + kv_len terms and scores at most
    // Σ|q||k| (some hundreds in the case with large scores), whose error exp passes on.
    let norm = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let largest = |x: &[f64]| x.chunks(d_k).map(norm).fold(0.0, f64::max);
    let terms = 8 * (d_k + kv_len + q_len);
    let bound = Bound::f64(terms, (1.0 + largest(&q) * largest(&k)) * (1.0 + largest(&q)) * 16.0);
    let same = |name: &str, got: &[f64]| assert_close(got, &case.array(name).1, bound);
    same("context", &context);
    same("weights", &out.weights.unwrap());
    // Ours are [heads, all queries], theirs [batch, heads, q_len].
    let (_, lse) = case.array("lse");
    for (n, want) in lse.chunks(q_len).enumerate() {
        let (b, head) = (n / heads, n % heads);
        assert_close(&out.lse[(head * batch + b) * q_len..][..q_len], want, bound);
    }

    let (mut dq, mut dk) = (vec![0.0; q.len()], vec![0.0; k.len()]);
    let (mut dv, mut d_v_a) = (vec![0.0; v.len()], vec![0.0; v_a.len()]);
    let arrays = GradArrays::Separate {
        dq: rows_mut(&mut dq, q_len, d_k),
        dk: rows_mut(&mut dk, kv_len, d_k),
        dv: rows_mut(&mut dv, kv_len, d_v),
    };
    let grads =
        Gradients { arrays, add: true, dscore_params: &mut d_v_a, dposition_params: &mut [] };
    let (_, dc) = case.array("d_context");
    let d_weights = case.optional_array("d_weights").map(|(_, d)| d);
    let (c, dc) = (rows(&context, q_len, d_v), rows(&dc, q_len, d_v));
    let given = d_weights.as_deref();
    regard_engine::backward(&call, q_in, k_in, v_in, c, &out.lse, dc, given.into(), grads).unwrap();
    same("d_q", &dq);
    same("d_k", &dk);
    same("d_v", &dv);
    if !v_a.is_empty() {
        same("d_v_a", &d_v_a);
    }
}

#[test]
fn every_attention_case() {
    let golden = Golden::load("attention");
    let cases: Vec<&Case> = golden.cases().iter().filter(|case| case.has_attr("score")).collect();
    assert!(cases.len() >= 20, "only {} cases", cases.len());
    cases.into_iter().for_each(check);
}
