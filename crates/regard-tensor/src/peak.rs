//! What the processor could do at most: multiply-adds in registers.

use std::hint::black_box;
use std::time::Instant;

use crate::simd::{self, Kernel, fma};

/// Independent sums, enough to hide the latency of a multiply-add; lanes of each, a whole register
/// of AVX-512.
const SUMS: usize = 12;
const LANES: usize = 16;

/// Multiply-adds on registers alone.
struct Registers {
    rounds: u32,
    factor: f32,
}

impl Kernel for Registers {
    type Output = f32;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> f32 {
        let mut sums = [[1.0f32; LANES]; SUMS];
        for _ in 0..self.rounds {
            for sum in &mut sums {
                for x in sum.iter_mut() {
                    *x = fma::<f32, FMA>(*x, self.factor, 1e-6);
                }
            }
        }
        sums.iter().flatten().sum()
    }
}

/// GFLOP/s of f32 multiply-adds, two operations each, in registers of the SIMD level in use, on `threads`
/// threads together: the best of several short runs, some 0.1 s in all.
pub fn multiply_add_peak(threads: usize) -> f64 {
    const ROUNDS: u32 = 1_000_000;
    let once = || {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    black_box(simd::run(Registers { rounds: ROUNDS, factor: black_box(0.999) }))
                });
            }
        });
        start.elapsed().as_secs_f64()
    };
    let fastest = (0..8).map(|_| once()).fold(f64::INFINITY, f64::min);
    let operations = 2.0 * f64::from(ROUNDS) * (SUMS * LANES * threads) as f64;
    operations / fastest / 1e9
}
