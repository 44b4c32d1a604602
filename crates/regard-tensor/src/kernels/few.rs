//! C ← α·A·Bᵀ for a few rows of A, with the rows of B read where they lie.
//!
//! For a product that reads B once, packing it costs as much as the product. Here squares of 8 × 8 numbers of B are
//! transposed in registers. Each element sums over the depth as in [`super::product`]: the bits are the same.

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
        let all = avx2::All {
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
        // SAFETY: T is f32, every level above Plain has AVX2 and FMA, and the three matrices hold their
        // elements, as was just checked; C is borrowed mutably.
        unsafe {
            match a.rows {
                1 => avx2::rows::<1>(all),
                2 => avx2::rows::<2>(all),
                3 => avx2::rows::<3>(all),
                4 => avx2::rows::<4>(all),
                5 => avx2::rows::<5>(all),
                _ => avx2::rows::<6>(all),
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

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        _MM_HINT_T0, _mm_prefetch, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_mul_ps, _mm256_set1_ps,
        _mm256_setzero_ps, _mm256_storeu_ps,
    };

    use super::super::transpose::avx2::columns;

    /// The three matrices.
    #[derive(Clone, Copy)]
    pub(super) struct All {
        pub(super) a: *const f32,
        pub(super) a_stride: usize,
        pub(super) b: *const f32,
        pub(super) b_stride: usize,
        pub(super) n: usize,
        pub(super) depth: usize,
        pub(super) alpha: f32,
        pub(super) c: *mut f32,
        pub(super) c_stride: usize,
    }

    /// M rows of A against all rows of B, eight at a time.
    ///
    /// # Safety
    /// AVX2 and FMA are there, and the three matrices hold their elements, C for writes; `n` is not 0.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn rows<const M: usize>(all: All) {
        let All { a, a_stride, b, b_stride, n, depth, alpha, c, c_stride } = all;
        let whole = depth / 8 * 8;
        for first in (0..n).step_by(8) {
            // Rows behind the last are the last once more; what they give goes nowhere.
            let mut lines = [b; 8];
            for (l, line) in lines.iter_mut().enumerate() {
                // SAFETY: a row of B.
                *line = unsafe { b.add((first + l).min(n - 1) * b_stride) };
            }
            // The next eight rows, which the processor does not foresee where they are far apart.
            if first + 16 <= n {
                for l in 0..8 {
                    for k in (0..depth).step_by(16) {
                        _mm_prefetch::<_MM_HINT_T0>(lines[l].wrapping_add(8 * b_stride + k).cast());
                    }
                }
            }
            let mut acc = [_mm256_setzero_ps(); M];
            for k in (0..whole).step_by(8) {
                let mut places = lines;
                for place in &mut places {
                    *place = place.wrapping_add(k);
                }
                // SAFETY: eight elements from k on of eight rows of B.
                let square = unsafe { columns(places) };
                for x in 0..8 {
                    for r in 0..M {
                        // SAFETY: an element of A.
                        let a = _mm256_set1_ps(unsafe { *a.add(r * a_stride + k + x) });
                        acc[r] = _mm256_fmadd_ps(a, square[x], acc[r]);
                    }
                }
            }
            for k in whole..depth {
                let mut column = [0.0; 8];
                for l in 0..8 {
                    // SAFETY: an element of B.
                    column[l] = unsafe { *lines[l].add(k) };
                }
                // SAFETY: eight numbers on the stack.
                let column = unsafe { _mm256_loadu_ps(column.as_ptr()) };
                for r in 0..M {
                    // SAFETY: an element of A.
                    let a = _mm256_set1_ps(unsafe { *a.add(r * a_stride + k) });
                    acc[r] = _mm256_fmadd_ps(a, column, acc[r]);
                }
            }
            for r in 0..M {
                let product = _mm256_mul_ps(_mm256_set1_ps(alpha), acc[r]);
                let count = (n - first).min(8);
                // SAFETY: `count` elements of a row of C from `first` on.
                unsafe {
                    let c = c.add(r * c_stride + first);
                    if count == 8 {
                        _mm256_storeu_ps(c, product);
                    } else {
                        let mut last = [0.0; 8];
                        _mm256_storeu_ps(last.as_mut_ptr(), product);
                        c.copy_from_nonoverlapping(last.as_ptr(), count);
                    }
                }
            }
        }
    }
}

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
