//! Speed of plain attention: GFLOP/s at two lengths, and microseconds for a batch of sentences.
//!
//! `cargo run --release -p regard-engine --example speed`
//!
//! Operations are counted as 4·pairs·d forward (scores and contexts) and 14·pairs·d forward and backward
//! (scores again, and four more products), softmax not counted.

use std::time::Instant;

use regard_attn::normaliser::Softmax;
use regard_attn::position::NoPosition;
use regard_attn::scope::{Causal, Full, Window};
use regard_attn::score::ScaledDot;
use regard_attn::{Call, Dims, Dropout, Item, Rows, RowsMut, Scope};
use regard_engine::{GradArrays, Gradients, backward, forward};
use regard_tensor::Key;

struct Case {
    name: &'static str,
    lengths: Vec<usize>,
    n_heads: usize,
    d: usize,
    scope: Box<dyn Scope>,
    dropout: f64,
    weights: bool,
}

fn rows(data: &[f32], width: usize, d: usize) -> Rows<'_, f32> {
    Rows { data, row_stride: width, head_stride: d }
}

fn rows_mut(data: &mut [f32], width: usize, d: usize) -> RowsMut<'_, f32> {
    RowsMut { data, row_stride: width, head_stride: d }
}

/// Seconds of forward, and of forward and backward: the fastest of many runs.
fn seconds(case: &Case) -> (f64, f64) {
    let (d, n_heads) = (case.d, case.n_heads);
    let width = n_heads * d;
    let n = case.lengths.iter().sum::<usize>() * width;
    let numbers = |stream: u64| -> Vec<f32> {
        let key = Key::new(stream);
        (0..n as u32).map(|i| key.uniform(i) - 0.5).collect()
    };
    let (q, k, v, dc) = (numbers(1), numbers(2), numbers(3), numbers(4));
    let call = Call {
        score: &ScaledDot::new(d),
        normaliser: &Softmax,
        scope: &*case.scope,
        position: &NoPosition,
        dropout: (case.dropout > 0.0).then(|| Dropout { rate: case.dropout, key: Key::new(5) }),
        dims: Dims { n_heads, n_kv_heads: n_heads, d_k: d, d_v: d },
        items: &Item::packed(&case.lengths),
    };
    let mut context = vec![0.0; n];
    let (mut dq, mut dk, mut dv) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let (mut best, mut best_both) = (f64::INFINITY, f64::INFINITY);
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < 2.0 {
        let start = Instant::now();
        let (q, k, v) = (rows(&q, width, d), rows(&k, width, d), rows(&v, width, d));
        let out = rows_mut(&mut context, width, d);
        let out = forward(&call, q, k, v, out, case.weights).expect("sizes agree");
        best = best.min(start.elapsed().as_secs_f64());
        let arrays = GradArrays::Separate {
            dq: rows_mut(&mut dq, width, d),
            dk: rows_mut(&mut dk, width, d),
            dv: rows_mut(&mut dv, width, d),
        };
        let grads =
            Gradients { arrays, add: true, dscore_params: &mut [], dposition_params: &mut [] };
        let (context, dc, given) =
            (rows(&context, width, d), rows(&dc, width, d), out.weights.as_deref());
        backward(&call, q, k, v, context, &out.lse, dc, given.into(), grads).expect("sizes agree");
        best_both = best_both.min(start.elapsed().as_secs_f64());
    }
    (best, best_both)
}

#[allow(clippy::print_stdout, reason = "an example that prints what it measures")]
fn main() {
    let case = |name, lengths, n_heads, d, scope, dropout, weights| Case {
        name,
        lengths,
        n_heads,
        d,
        scope,
        dropout,
        weights,
    };
    let full = || -> Box<dyn Scope> { Box::new(Full) };
    let window: Box<dyn Scope> = Box::new(Window { left: 16, right: 16 });
    let cases = [
        case("2 x 512, 8 heads of 64", vec![512; 2], 8, 64, full(), 0.0, false),
        case("2 x 2048, 8 heads of 64", vec![2048; 2], 8, 64, full(), 0.0, false),
        case("the same, causal", vec![2048; 2], 8, 64, Box::new(Causal::square()), 0.0, false),
        case("the same, window of 33", vec![2048; 2], 8, 64, window, 0.0, false),
        case("2 x 512, dropout", vec![512; 2], 8, 64, full(), 0.1, false),
        case("2 x 512, weights and their gradient", vec![512; 2], 8, 64, full(), 0.0, true),
        case("32 x 25, 4 heads of 32", vec![25; 32], 4, 32, full(), 0.0, false),
        case("32 x 25, 1 head of 128", vec![25; 32], 1, 128, full(), 0.0, false),
        case("1 x 25, 4 heads of 32", vec![25], 4, 32, full(), 0.0, false),
    ];
    println!("{} threads", std::thread::available_parallelism().map_or(1, usize::from));
    for case in cases {
        let (forward, both) = seconds(&case);
        let pairs: usize = case.lengths.iter().map(|l| l * l).sum::<usize>() * case.n_heads;
        let flops = |per_pair: f64| per_pair * (pairs * case.d) as f64 / 1e9;
        println!(
            "{:36} forward {:9.1} µs {:6.1} GFLOP/s   with backward {:9.1} µs {:6.1} GFLOP/s",
            case.name,
            forward * 1e6,
            flops(4.0) / forward,
            both * 1e6,
            flops(14.0) / both,
        );
    }
}
