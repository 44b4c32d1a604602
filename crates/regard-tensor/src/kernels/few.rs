//! C ← α·A·Bᵀ for a few rows of A, with the rows of B read where they lie.
//!
//! For a product that reads B once, packing it costs as much as the product. Here squares of B, 8 × 8 numbers with
//! AVX2 and 16 × 16 with AVX-512, are transposed in registers. Each element sums over the depth as in [`super::product`]: the bits are the same.

use crate::Real;
use crate::simd::{self, Kernel, fma};

/// Rows of A that this is for.
pub const MOST: usize = 6;

/// Rows that lie `stride` elements apart.
#[derive(Clone, Copy)]
pub struct Lines<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// Elements between rows.
    pub stride: usize,
    /// Number of rows.
    pub rows: usize,
}

impl<'a, T> Lines<'a, T> {
    fn check(&self, depth: usize) {
        let last = self.rows.saturating_sub(1) * self.stride + depth;
        assert!(self.rows == 0 || self.data.len() >= last, "the rows lie inside their slice");
    }

    #[inline(always)]
    fn row(&self, i: usize, depth: usize) -> &'a [T] {
        &self.data[i * self.stride..i * self.stride + depth]
    }
}

/// `c_ij = α·Σ_k a_ik b_jk`, with the rows of C `c_stride` elements apart.
///
/// # Panics
/// If A has more than [`MOST`] rows, or a matrix does not hold its elements.
pub fn dots<T: Real>(
    a: Lines<'_, T>,
    b: Lines<'_, T>,
    depth: usize,
    alpha: T,
    c: &mut [T],
    c_stride: usize,
) {
    assert!(a.rows <= MOST, "few rows");
    a.check(depth);
    b.check(depth);
    if a.rows == 0 || b.rows == 0 {
        return;
    }
    assert!(c.len() >= (a.rows - 1) * c_stride + b.rows, "C holds its elements");
    #[cfg(target_arch = "x86_64")]
    if std::any::TypeId::of::<T>() == std::any::TypeId::of::<f32>()
        && simd::level() != simd::Level::Plain
    {
        let all = All {
            a: a.data.as_ptr().cast(),
            a_stride: a.stride,
            b: b.data.as_ptr().cast(),
            b_stride: b.stride,
            n: b.rows,
            depth,
            alpha: alpha.to_f64() as f32,
            c: c.as_mut_ptr().cast(),
            c_stride,
        };
        // SAFETY: T is f32, the processor has what the level names, above Plain AVX2 and FMA at least, and the three
        // matrices hold their elements, as was just checked; C is borrowed mutably.
        unsafe {
            match simd::level() {
                simd::Level::Avx512 => avx512::dots(all, a.rows),
                _ => avx2::dots(all, a.rows),
            }
        }
        return;
    }
    simd::run_narrow(Dots { a, b, depth, alpha, c, c_stride });
}

/// One element after the other.
struct Dots<'a, T> {
    a: Lines<'a, T>,
    b: Lines<'a, T>,
    depth: usize,
    alpha: T,
    c: &'a mut [T],
    c_stride: usize,
}

impl<T: Real> Kernel for Dots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { a, b, depth, alpha, c, c_stride } = self;
        for i in 0..a.rows {
            let row = a.row(i, depth);
            for j in 0..b.rows {
                let mut sum = T::ZERO;
                for (x, y) in row.iter().zip(b.row(j, depth)) {
                    sum = fma::<T, FMA>(*x, *y, sum);
                }
                c[i * c_stride + j] = T::ZERO + alpha * sum;
            }
        }
    }
}

/// The three matrices.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct All {
    a: *const f32,
    a_stride: usize,
    b: *const f32,
    b_stride: usize,
    n: usize,
    depth: usize,
    alpha: f32,
    c: *mut f32,
    c_stride: usize,
}

/// The products of one instruction set: its name and features, and the lanes of a vector.
#[cfg(target_arch = "x86_64")]
macro_rules! dots {
    ($name:ident, $features:literal, lanes $lanes:literal, zero $zero:ident, set $set:ident, load $load:ident,
     store $store:ident, fma $fma:ident, mul $mul:ident) => {
        mod $name {
            use std::arch::x86_64::{
                _MM_HINT_T0, _mm_prefetch, $fma, $load, $mul, $set, $store, $zero,
            };

            use super::super::transpose::$name::columns;
            use super::All;

            /// A few rows of A against all rows of B.
            ///
            /// # Safety
            /// As [`rows`]; A has `count` rows, at most [`super::MOST`].
            #[target_feature(enable = $features)]
            pub(super) unsafe fn dots(all: All, count: usize) {
                // SAFETY: the caller's promise.
                unsafe {
                    match count {
                        1 => rows::<1>(all),
                        2 => rows::<2>(all),
                        3 => rows::<3>(all),
                        4 => rows::<4>(all),
                        5 => rows::<5>(all),
                        _ => rows::<6>(all),
                    }
                }
            }

            /// M rows of A against all rows of B, as many at a time as a vector holds.
            ///
            /// # Safety
            /// The processor has the features, and the three matrices hold their elements, C for writes; `n` is not 0.
            #[target_feature(enable = $features)]
            unsafe fn rows<const M: usize>(all: All) {
                let All { a, a_stride, b, b_stride, n, depth, alpha, c, c_stride } = all;
                let whole = depth / $lanes * $lanes;
                for first in (0..n).step_by($lanes) {
                    // Rows behind the last are the last once more; what they give goes nowhere.
                    let mut lines = [b; $lanes];
                    for (l, line) in lines.iter_mut().enumerate() {
                        // SAFETY: a row of B.
                        *line = unsafe { b.add((first + l).min(n - 1) * b_stride) };
                    }
                    // The next rows, which the processor does not foresee where they are far apart.
                    if first + 2 * $lanes <= n {
                        for l in 0..$lanes {
                            for k in (0..depth).step_by(16) {
                                _mm_prefetch::<_MM_HINT_T0>(
                                    lines[l].wrapping_add($lanes * b_stride + k).cast(),
                                );
                            }
                        }
                    }
                    let mut acc = [$zero(); M];
                    for k in (0..whole).step_by($lanes) {
                        let mut places = lines;
                        for place in &mut places {
                            *place = place.wrapping_add(k);
                        }
                        // SAFETY: as many elements from k on of as many rows of B.
                        let square = unsafe { columns(places) };
                        for x in 0..$lanes {
                            for r in 0..M {
                                // SAFETY: an element of A.
                                let a = $set(unsafe { *a.add(r * a_stride + k + x) });
                                acc[r] = $fma(a, square[x], acc[r]);
                            }
                        }
                    }
                    for k in whole..depth {
                        let mut column = [0.0; $lanes];
                        for l in 0..$lanes {
                            // SAFETY: an element of B.
                            column[l] = unsafe { *lines[l].add(k) };
                        }
                        // SAFETY: a vector of numbers on the stack.
                        let column = unsafe { $load(column.as_ptr()) };
                        for r in 0..M {
                            // SAFETY: an element of A.
                            let a = $set(unsafe { *a.add(r * a_stride + k) });
                            acc[r] = $fma(a, column, acc[r]);
                        }
                    }
                    for r in 0..M {
                        let product = $mul($set(alpha), acc[r]);
                        let count = (n - first).min($lanes);
                        // SAFETY: `count` elements of a row of C from `first` on.
                        unsafe {
                            let c = c.add(r * c_stride + first);
                            if count == $lanes {
                                $store(c, product);
                            } else {
                                let mut last = [0.0; $lanes];
                                $store(last.as_mut_ptr(), product);
                                c.copy_from_nonoverlapping(last.as_ptr(), count);
                            }
                        }
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
dots!(
    avx2, "avx2,fma", lanes 8, zero _mm256_setzero_ps, set _mm256_set1_ps, load _mm256_loadu_ps,
    store _mm256_storeu_ps, fma _mm256_fmadd_ps, mul _mm256_mul_ps
);
#[cfg(target_arch = "x86_64")]
dots!(
    avx512, "avx512f", lanes 16, zero _mm512_setzero_ps, set _mm512_set1_ps, load _mm512_loadu_ps,
    store _mm512_storeu_ps, fma _mm512_fmadd_ps, mul _mm512_mul_ps
);

#[cfg(test)]
mod tests {
    use super::super::product::{COLUMNS, Left, Panels, Product};
    use super::*;
    use crate::Key;

    /// As [`Product`] with B packed.
    fn packed<T: Real>(a: Lines<'_, T>, b: Lines<'_, T>, depth: usize, alpha: T) -> Vec<T> {
        let count = b.rows.div_ceil(COLUMNS);
        let mut data = vec![T::ZERO; count * depth * COLUMNS];
        for j in 0..b.rows {
            for k in 0..depth {
                data[(j / COLUMNS * depth + k) * COLUMNS + j % COLUMNS] = b.data[j * b.stride + k];
            }
        }
        let right = Panels { data: &data, stride: depth * COLUMNS, step: COLUMNS, depth, count };
        let stride = count * COLUMNS;
        let mut c = vec![T::ZERO; a.rows * stride];
        let left = Left::Rows { data: a.data, stride: a.stride };
        Product { c: &mut c, stride, rows: a.rows, left, right, alpha }.set();
        (0..a.rows).flat_map(|i| c[i * stride..i * stride + b.rows].to_vec()).collect()
    }

    fn same_bits<T: Real>() {
        let drawn = |seed, n: usize| -> Vec<T> {
            (0..n).map(|i| T::from_f64(Key::new(seed).normal(i as u32))).collect()
        };
        for m in 1..=MOST {
            for (n, depth) in [(1, 1), (3, 8), (8, 7), (9, 32), (16, 33), (21, 64), (40, 100)] {
                let (a, b) = (drawn(1, m * (depth + 3)), drawn(2, n * (depth + 5)));
                let a = Lines { data: &a, stride: depth + 3, rows: m };
                let b = Lines { data: &b, stride: depth + 5, rows: n };
                let alpha = T::from_f64(0.3);
                let mut c = vec![T::from_f64(7.0); m * (n + 2)];
                dots(a, b, depth, alpha, &mut c, n + 2);
                let want = packed(a, b, depth, alpha);
                for i in 0..m {
                    let got = &c[i * (n + 2)..(i + 1) * (n + 2)];
                    assert_eq!(got[..n], want[i * n..(i + 1) * n], "{m} {n} {depth}");
                    assert!(got[n..].iter().all(|c| c.to_f64() == 7.0), "nothing beside it");
                }
            }
        }
    }

    #[test]
    fn a_few_dots_have_the_bits_of_the_packed_product() {
        same_bits::<f32>();
        same_bits::<f64>();
    }
}
