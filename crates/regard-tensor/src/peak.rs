//! What the machine could do at most: multiply-adds in registers, and reading memory.

use std::hint::black_box;
use std::time::Instant;

use crate::Buffer;
use crate::simd::{self, Level};

/// Independent sums: enough to hide the latency of a multiply-add, and to fit into the registers.
const SUMS: usize = 12;

/// Multiply-adds in registers; returns a number so that they count, and how many there were.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _mm256_add_ps, _mm256_cvtss_f32, _mm256_fmadd_ps, _mm256_set1_ps, _mm512_add_ps,
        _mm512_cvtss_f32, _mm512_fmadd_ps, _mm512_set1_ps,
    };

    use super::SUMS;

    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512(rounds: u32, factor: f32) -> (f32, usize) {
        let mut sums: [_; SUMS] = std::array::from_fn(|n| _mm512_set1_ps(n as f32));
        let (factor, term) = (_mm512_set1_ps(factor), _mm512_set1_ps(1e-6));
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, term);
            }
        }
        let all = sums.into_iter().fold(_mm512_set1_ps(0.0), |a, b| _mm512_add_ps(a, b));
        (_mm512_cvtss_f32(all), 16 * SUMS * rounds as usize)
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2(rounds: u32, factor: f32) -> (f32, usize) {
        let mut sums: [_; SUMS] = std::array::from_fn(|n| _mm256_set1_ps(n as f32));
        let (factor, term) = (_mm256_set1_ps(factor), _mm256_set1_ps(1e-6));
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, term);
            }
        }
        let all = sums.into_iter().fold(_mm256_set1_ps(0.0), |a, b| _mm256_add_ps(a, b));
        (_mm256_cvtss_f32(all), 8 * SUMS * rounds as usize)
    }
}

/// The same in whatever the compilation target has.
fn plain(rounds: u32, factor: f32) -> (f32, usize) {
    let mut sums: [[f32; 4]; SUMS] = std::array::from_fn(|n| [n as f32; 4]);
    for _ in 0..rounds {
        for sum in &mut sums {
            for x in sum {
                *x = *x * factor + 1e-6;
            }
        }
    }
    (sums.iter().flatten().sum(), 4 * SUMS * rounds as usize)
}

fn rounds(rounds: u32, factor: f32) -> (f32, usize) {
    match simd::level() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level is there.
        Level::Avx512 => unsafe { x86::avx512(rounds, factor) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level is there.
        Level::Avx2 => unsafe { x86::avx2(rounds, factor) },
        _ => plain(rounds, factor),
    }
}

/// GFLOP/s of f32 multiply-adds, two operations each, in registers of the SIMD level in use, on `threads`
/// threads together: the best of several short runs, some 0.1 s in all.
pub fn multiply_add_peak(threads: usize) -> f64 {
    const ROUNDS: u32 = 2_000_000;
    let once = || {
        let start = Instant::now();
        let added: usize = std::thread::scope(|scope| {
            let work = || black_box(rounds(ROUNDS, black_box(0.999)));
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            // A thread of pure arithmetic does not panic.
            handles.into_iter().map(|handle| handle.join().map_or(0, |(_, n)| n)).sum()
        });
        2.0 * added as f64 / start.elapsed().as_secs_f64() / 1e9
    };
    (0..10).map(|_| once()).fold(0.0, f64::max)
}

/// Bytes that [`read_peak`] reads: more than the caches hold.
const READ: usize = 256 << 20;

/// GB/s that `threads` threads together read from memory, each a stretch of its own from end to end: the best of several
/// runs, some 0.1 s and 256 MiB in all.
pub fn read_peak(threads: usize) -> f64 {
    const LANES: usize = 64;
    let mut data = Buffer::<f32>::stale(READ / size_of::<f32>());
    data.fill(1.0);
    let of_thread = data.len() / threads.max(1) / LANES * LANES;
    let sum = |part: &[f32]| {
        simd::vectorise(
            #[inline(always)]
            move || {
                let mut sums = [0.0; LANES];
                for piece in part.as_chunks::<LANES>().0 {
                    for l in 0..LANES {
                        sums[l] += piece[l];
                    }
                }
                sums.into_iter().sum::<f32>()
            },
        )
    };
    let once = || {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for part in data.chunks_exact(of_thread.max(LANES)).take(threads) {
                scope.spawn(move || black_box(sum(black_box(part))));
            }
        });
        size_of::<f32>() as f64 * (of_thread * threads) as f64 / start.elapsed().as_secs_f64() / 1e9
    };
    (0..8).map(|_| once()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_are_computed() {
        // The sums end near the fixed point 1e-6 / (1 − 0.5), twelve of them.
        let (sum, added) = rounds(100, 0.5);
        assert!((sum - 12.0 * 2e-6).abs() < 1e-6 || (sum - 48.0 * 2e-6).abs() < 1e-6, "{sum}");
        assert!(added.is_multiple_of(SUMS * 100));
        assert!(multiply_add_peak(1) > 0.0);
        assert!(read_peak(2) > 0.0);
    }
}
