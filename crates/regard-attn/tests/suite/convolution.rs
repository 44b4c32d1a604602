//! Self-attention as convolution: K × K heads whose quadratic position is sharp.
//!
//! Cordonnier et al. 2020, theorem 1 (<https://arxiv.org/abs/1911.03584>).

use proptest::prelude::*;
use regard_attn::position::{Grid, Quadratic};
use regard_attn::reference::forward;
use regard_attn::scope::Full;
use regard_attn::score::Dot;
use regard_attn::{Call, Dims, Item};
use regard_testkit::{Bound, assert_close, random_vec};

use crate::problem::{self, dense};

/// An image `[height, width, channels]` and a kernel `[k, k, channels, out]`; in one dimension the
/// height is 1 and the kernel has one row.
struct Problem {
    height: usize,
    width: usize,
    channels: usize,
    out: usize,
    /// Rows and columns of the kernel, both odd.
    kernel: (usize, usize),
    image: Vec<f64>,
    weights: Vec<f64>,
}

impl Problem {
    fn new(seed: u64, (height, width): (usize, usize), kernel: (usize, usize)) -> Self {
        let (channels, out) = (3, 4);
        let image = random_vec(seed, height * width * channels);
        let weights = random_vec(seed + 1, kernel.0 * kernel.1 * channels * out);
        Self { height, width, channels, out, kernel, image, weights }
    }

    /// Every shift of the kernel with its matrix `[channels, out]`.
    fn shifts(&self) -> impl Iterator<Item = (i64, i64, &[f64])> {
        let (rows, columns) = self.kernel;
        let matrices = self.weights.chunks_exact(self.channels * self.out).enumerate();
        matrices.map(move |(n, matrix)| {
            let (y, x) = (n / columns, n % columns);
            (y as i64 - (rows / 2) as i64, x as i64 - (columns / 2) as i64, matrix)
        })
    }

    fn pixel(&self, y: i64, x: i64) -> Option<&[f64]> {
        let inside = (0..self.height as i64).contains(&y) && (0..self.width as i64).contains(&x);
        inside.then(|| {
            let n = (y * self.width as i64 + x) as usize * self.channels;
            &self.image[n..n + self.channels]
        })
    }

    /// Σ over shifts and channels: pixels beyond the border are 0, or those of the border.
    fn convolved(&self, replicate: bool) -> Vec<f64> {
        let mut result = vec![0.0; self.height * self.width * self.out];
        for (n, result) in result.chunks_exact_mut(self.out).enumerate() {
            let (y, x) = ((n / self.width) as i64, (n % self.width) as i64);
            for (down, right, matrix) in self.shifts() {
                let (mut y, mut x) = (y + down, x + right);
                if replicate {
                    y = y.clamp(0, self.height as i64 - 1);
                    x = x.clamp(0, self.width as i64 - 1);
                }
                let Some(pixel) = self.pixel(y, x) else { continue };
                for (value, row) in pixel.iter().zip(matrix.chunks_exact(self.out)) {
                    for (result, w) in result.iter_mut().zip(row) {
                        *result += value * w;
                    }
                }
            }
        }
        result
    }

    /// Attention of the pixels, without content scores: a head for each shift, whose values are the
    /// pixels times its matrix; the contexts of the heads summed. `padded` sets a border of zeros
    /// around the keys.
    fn attended(&self, alpha: f64, padded: bool) -> Vec<f64> {
        let (rows, columns) = self.kernel;
        let heads = rows * columns;
        let pad = if padded { (rows / 2, columns / 2) } else { (0, 0) };
        let (key_height, key_width) = (self.height + 2 * pad.0, self.width + 2 * pad.1);
        let grid =
            Grid { query_width: self.width, key_width, top: pad.0 as i64, left: pad.1 as i64 };
        let params: Vec<f64> =
            self.shifts().flat_map(|(y, x, _)| [alpha, y as f64, x as f64]).collect();
        let mut values = vec![0.0; key_height * key_width * heads * self.out];
        for (key, values) in values.chunks_exact_mut(heads * self.out).enumerate() {
            let (y, x) = (key / key_width, key % key_width);
            let Some(pixel) = self.pixel(y as i64 - pad.0 as i64, x as i64 - pad.1 as i64) else {
                continue;
            };
            for ((_, _, matrix), values) in self.shifts().zip(values.chunks_exact_mut(self.out)) {
                for (value, row) in pixel.iter().zip(matrix.chunks_exact(self.out)) {
                    for (v, w) in values.iter_mut().zip(row) {
                        *v += value * w;
                    }
                }
            }
        }
        let (q_len, kv_len) = (self.height * self.width, key_height * key_width);
        let position = Quadratic { params: &params, grid };
        let call = Call {
            dims: Dims { n_heads: heads, n_kv_heads: heads, d_k: 1, d_v: self.out },
            items: &[Item { q_start: 0, q_len, kv_start: 0, kv_len, q_offset: 0 }],
            ..problem::call(&Dot, &Full, &position, None)
        };
        let (q, k) = (vec![0.0; q_len * heads], vec![0.0; kv_len * heads]);
        let (q, k) = (dense(&q, heads, 1), dense(&k, heads, 1));
        let context = forward(&call, q, k, dense(&values, heads, self.out)).unwrap().context;
        let mut result = vec![0.0; q_len * self.out];
        for (context, result) in
            context.chunks_exact(heads * self.out).zip(result.chunks_exact_mut(self.out))
        {
            for head in context.chunks_exact(self.out) {
                for (result, c) in result.iter_mut().zip(head) {
                    *result += c;
                }
            }
        }
        result
    }

    /// The largest difference that a temperature leaves: each head misses its pixel by the weights
    /// of all the others, Σ_{δ ≠ 0} e^{−α‖δ‖²} over the plane, times twice the largest value; and
    /// 1e-12 for rounding.
    fn miss(&self, alpha: f64) -> f64 {
        // On a line 1 + 2 Σ e^{−α n²} < 1 + 2e^{−α}/(1 − e^{−3α}); a head at the border of a
        // replicated image has a target outside, from which the others are farther by no less than
        // before.
        let line = 1.0 + 2.0 * (-alpha).exp() / (1.0 - (-3.0 * alpha).exp());
        let largest = self.channels as f64;
        2.0 * (self.kernel.0 * self.kernel.1) as f64 * largest * (line * line - 1.0) + 1e-12
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn sharp_heads_are_a_convolution_with_its_zero_border(
        height in 1usize..7, width in 1usize..7, half in 0usize..3, seed in 0u64..1000,
    ) {
        let k = 2 * half + 1;
        let problem = Problem::new(seed, (height, width), (k, k));
        let want = problem.convolved(false);
        for alpha in [10.0, 23.0, 46.0] {
            let got = problem.attended(alpha, true);
            assert_close(&got, &want, Bound::new(problem.miss(alpha), 1, 1.0));
        }
        assert!(problem.miss(23.0) < 1e-6);
    }

    #[test]
    fn without_a_border_they_repeat_the_edge(
        height in 1usize..6, width in 1usize..6, seed in 0u64..1000,
    ) {
        let problem = Problem::new(seed, (height, width), (3, 3));
        let got = problem.attended(20.0, false);
        assert_close(&got, &problem.convolved(true), Bound::new(problem.miss(20.0), 1, 1.0));
    }

    #[test]
    fn in_one_dimension_k_heads_do(len in 1usize..20, half in 0usize..4, seed in 0u64..1000) {
        let problem = Problem::new(seed, (1, len), (1, 2 * half + 1));
        let got = problem.attended(20.0, true);
        assert_close(&got, &problem.convolved(false), Bound::new(problem.miss(20.0), 1, 1.0));
    }
}

#[test]
fn a_soft_head_is_no_convolution() {
    let problem = Problem::new(1, (6, 6), (3, 3));
    let far = |alpha| {
        let (got, want) = (problem.attended(alpha, true), problem.convolved(false));
        got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    };
    // The miss falls about as e^{−α}.
    let far: Vec<f64> = [1.0, 5.0, 10.0, 15.0].map(far).to_vec();
    assert!(far[0] > 0.5 && far.windows(2).all(|pair| pair[1] < 0.1 * pair[0]), "{far:?}");
}
