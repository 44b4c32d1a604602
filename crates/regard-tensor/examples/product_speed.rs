//! Matrix products of the shapes that models use, beside the processor's multiply-adds in registers.
//!
//! ```console
//! $ cargo run --release -p regard-tensor --example product_speed [THREADS]
//! ```

use std::time::Instant;

use regard_tensor::kernels::matmul::{Mat, MatMut, matmul};
use regard_tensor::peak::multiply_add_peak;
use regard_tensor::{Key, parallel};

/// Which factor is read as its transpose: x Wᵀ, dy W, dyᵀ x.
const FORMS: [&str; 3] = ["x Wt", "dy W", "dyt x"];

/// Rows, inputs and outputs of linear maps: a tagger's, a translator's, a decoder's vocabulary, a recurrent
/// step, a small model.
const SHAPES: [(usize, usize, usize); 9] = [
    (2048, 256, 256),
    (2048, 256, 1024),
    (2048, 1024, 256),
    (1000, 256, 512),
    (1000, 256, 4000),
    (32, 256, 1024),
    (96, 512, 1536),
    (96, 64, 64),
    (12, 256, 256),
];

fn time(n: usize, d_in: usize, d_out: usize, form: usize) -> f64 {
    let drawn = |seed: u64, len: usize| -> Vec<f32> {
        (0..len).map(|i| Key::new(seed).normal(i as u32) as f32).collect()
    };
    let (x, w, dy) = (drawn(1, n * d_in), drawn(2, d_out * d_in), drawn(3, n * d_out));
    let (xm, wm, dm) = (Mat::new(&x, n, d_in), Mat::new(&w, d_out, d_in), Mat::new(&dy, n, d_out));
    let (mut y, mut dx, mut dw) =
        (vec![0.0; n * d_out], vec![0.0; n * d_in], vec![0.0; d_out * d_in]);
    let operations = 2.0 * (n * d_in * d_out) as f64;
    let rounds = (5e7 / operations).ceil() as usize;
    (0..12)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..rounds {
                match form {
                    0 => matmul(MatMut::new(&mut y, n, d_out), 0.0, 1.0, xm, wm.t()),
                    1 => matmul(MatMut::new(&mut dx, n, d_in), 0.0, 1.0, dm, wm),
                    _ => matmul(MatMut::new(&mut dw, d_out, d_in), 1.0, 1.0, dm.t(), xm),
                }
            }
            operations * rounds as f64 / start.elapsed().as_secs_f64() / 1e9
        })
        .fold(0.0, f64::max)
}

#[expect(clippy::print_stdout, reason = "an example prints what it measured")]
fn main() {
    let threads = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    if parallel::set_threads(threads).is_err() {
        return;
    }
    println!("{:>5} {:>5} {:>5}  form   GFLOP/s  of peak", "rows", "in", "out");
    for (n, d_in, d_out) in SHAPES {
        for (form, name) in FORMS.iter().enumerate() {
            let peak = multiply_add_peak(parallel::threads());
            let speed = parallel::within(|| time(n, d_in, d_out, form));
            println!("{n:>5} {d_in:>5} {d_out:>5}  {name:<6} {speed:>7.1}  {:>7.2}", speed / peak);
        }
    }
}
