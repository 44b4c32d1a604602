//! The two passes of a softmax over a row: its largest score, then exponentials and their sum.
//!
//! A polynomial is a chain of steps that wait for each other. For AVX2 and AVX-512 the passes are written by intrinsics,
//! four vectors side by side; what the compiler makes of the plain loops takes half as long again. The bits are those of the
//! plain loops with a fused multiply-add.

use std::marker::PhantomData;

use crate::Real;
use crate::kernels::product::COLUMNS as LANES;
use crate::simd;

/// How rows of `T` are taken inside a kernel: found out once, used for many rows.
#[derive(Debug, Clone, Copy)]
pub struct RowKernels<T> {
    of: PhantomData<T>,
    /// The level whose intrinsics take the rows; plain loops if it is plain.
    by: simd::Level,
}

/// Takes a row by the intrinsics of the level, if `T` is f32 and the level has such.
macro_rules! by_intrinsics {
    ($self:ident, $row:ident: $slice:ident, $level:ident => $call:expr) => {
        #[cfg(target_arch = "x86_64")]
        if $self.by != simd::Level::Plain {
            // SAFETY: T is f32, as the level says, and the processor has what it names.
            unsafe {
                let $row = $slice!($row);
                return match $self.by {
                    simd::Level::Avx512 => {
                        use avx512 as $level;
                        $call
                    }
                    _ => {
                        use avx2 as $level;
                        $call
                    }
                };
            }
        }
    };
}

/// A row of numbers that are f32.
#[cfg(target_arch = "x86_64")]
macro_rules! narrow {
    ($row:ident) => {
        std::slice::from_raw_parts($row.as_ptr().cast::<f32>(), $row.len())
    };
}

/// As [`narrow`], for writes.
#[cfg(target_arch = "x86_64")]
macro_rules! narrow_mut {
    ($row:ident) => {
        std::slice::from_raw_parts_mut($row.as_mut_ptr().cast::<f32>(), $row.len())
    };
}

impl<T: Real> RowKernels<T> {
    /// What is best for `T` on this processor.
    #[inline(always)]
    #[allow(clippy::new_without_default, reason = "it asks the processor")]
    pub fn new() -> Self {
        let narrow = std::any::TypeId::of::<T>() == std::any::TypeId::of::<f32>();
        Self { of: PhantomData, by: if narrow { simd::level() } else { simd::Level::Plain } }
    }

    /// The largest of `top` and of the whole lanes of a row; NaN is passed over.
    #[inline(always)]
    pub fn largest(self, row: &[T], top: T) -> T {
        by_intrinsics!(self, row: narrow, level => T::from_f64(level::largest(row, top.to_f64() as f32).into()));
        let mut tops = [top; LANES];
        for s in row.as_chunks::<LANES>().0 {
            for l in 0..LANES {
                tops[l] = if s[l] > tops[l] { s[l] } else { tops[l] };
            }
        }
        in_halves(tops, |a, b| if b > a { b } else { a })
    }

    /// Turns the whole lanes of a row of scores at most `shift` into `exp(s − shift)`; returns their sum, by lanes and
    /// then in halves.
    #[inline(always)]
    pub fn exp<const FMA: bool>(self, row: &mut [T], shift: T) -> T {
        by_intrinsics!(self, row: narrow_mut, level => T::from_f64(level::exp(row, shift.to_f64() as f32).into()));
        let mut sums = [T::ZERO; LANES];
        for s in row.as_chunks_mut::<LANES>().0 {
            for l in 0..LANES {
                let e = (s[l] - shift).exp_nonpositive::<FMA>();
                s[l] = e;
                sums[l] += e;
            }
        }
        sum_in_halves(sums)
    }

    /// Turns the whole lanes of a row of scores into weights: `exp(min(s − shift, 0))`, and 0 where s = −∞.
    #[inline(always)]
    pub fn weights<const FMA: bool>(self, row: &mut [T], shift: T) {
        by_intrinsics!(self, row: narrow_mut, level => level::weights(row, shift.to_f64() as f32));
        for s in row.as_chunks_mut::<LANES>().0.as_flattened_mut() {
            // A score computed a last bit above its log-sum-exp is no larger than it.
            let below = *s - shift;
            let below = if below > T::ZERO { T::ZERO } else { below };
            let weight = below.exp_nonpositive::<FMA>();
            *s = if *s == T::NEG_INFINITY { T::ZERO } else { weight };
        }
    }
}

/// The sum of the lanes.
#[inline(always)]
pub fn sum_in_halves<T: Real>(sums: [T; LANES]) -> T {
    in_halves(sums, |a, b| a + b)
}

/// Joins lanes in halves: four steps in place of sixteen.
#[inline(always)]
fn in_halves<T: Real>(mut lanes: [T; LANES], join: impl Fn(T, T) -> T) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] = join(lanes[l], lanes[l + half]);
        }
        half /= 2;
    }
    lanes[0]
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256, _CMP_NEQ_UQ, _CMP_NLT_UQ, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_max_ps,
        _mm_max_ss, _mm_movehdup_ps, _mm_movehl_ps, _mm256_add_epi32, _mm256_add_ps, _mm256_and_ps,
        _mm256_castps_si256, _mm256_castps256_ps128, _mm256_castsi256_ps, _mm256_cmp_ps,
        _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps,
        _mm256_mul_ps, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_ps, _mm256_slli_epi32,
        _mm256_storeu_ps, _mm256_sub_ps,
    };

    use super::LANES;
    use crate::real::nonpositive as of;

    /// Vectors of a group of lanes.
    const VECTORS: usize = LANES / 8;

    /// The same operation on each vector.
    macro_rules! each {
        ($n:ident, $i:ident => $e:expr) => {{
            let mut out = [_mm256_setzero_ps(); $n];
            for $i in 0..$n {
                out[$i] = $e;
            }
            out
        }};
    }

    /// `exp(x)` for x ≤ 0, operation by operation as [`crate::Real::exp_nonpositive`], of N vectors side by side.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn exps<const N: usize>(xs: [__m256; N]) -> [__m256; N] {
        let set = |x: f32| _mm256_set1_ps(x);
        let (lowest, round) = (set(of::LOWEST), set(of::ROUND));
        let t = each!(N, i => _mm256_fmadd_ps(xs[i], set(std::f32::consts::LOG2_E), round));
        let n = each!(N, i => _mm256_sub_ps(t[i], round));
        let r = each!(N, i => _mm256_fmadd_ps(n[i], set(-of::LN_2_HIGH), xs[i]));
        let r = each!(N, i => _mm256_fmadd_ps(n[i], set(-of::LN_2_LOW), r[i]));
        let mut p = [set(of::POLYNOMIAL[0]); N];
        for c in &of::POLYNOMIAL[1..] {
            p = each!(N, i => _mm256_fmadd_ps(p[i], r[i], set(*c)));
        }
        let exponent = _mm256_set1_epi32(127i32.wrapping_sub(of::ROUND.to_bits() as i32));
        each!(N, i => {
            let bits = _mm256_add_epi32(_mm256_castps_si256(t[i]), exponent);
            let two_to_n = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(bits));
            let y = _mm256_mul_ps(p[i], two_to_n);
            _mm256_and_ps(_mm256_cmp_ps::<_CMP_NLT_UQ>(xs[i], lowest), y)
        })
    }

    /// The largest of `top` and the whole lanes of a row.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn largest(row: &[f32], top: f32) -> f32 {
        let mut tops = [_mm256_set1_ps(top); VECTORS];
        for s in row.as_chunks::<LANES>().0 {
            for v in 0..VECTORS {
                // SAFETY: eight of the lanes.
                let s = unsafe { _mm256_loadu_ps(s.as_ptr().add(v * 8)) };
                tops[v] = _mm256_max_ps(s, tops[v]);
            }
        }
        let tops = _mm256_max_ps(tops[1], tops[0]);
        let tops = _mm_max_ps(_mm256_extractf128_ps::<1>(tops), _mm256_castps256_ps128(tops));
        let tops = _mm_max_ps(_mm_movehl_ps(tops, tops), tops);
        _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(tops), tops))
    }

    /// `exp(s − shift)` of the whole lanes of a row, and their sum.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn exp(row: &mut [f32], shift: f32) -> f32 {
        let mut sums = [_mm256_setzero_ps(); VECTORS];
        let (pairs, rest) = row.as_chunks_mut::<{ 2 * LANES }>();
        for s in pairs {
            // SAFETY: as many lanes as vectors.
            unsafe { exp_some::<{ 2 * VECTORS }>(s.as_mut_ptr(), shift, &mut sums) };
        }
        for s in rest.as_chunks_mut::<LANES>().0 {
            // SAFETY: as many lanes as vectors.
            unsafe { exp_some::<VECTORS>(s.as_mut_ptr(), shift, &mut sums) };
        }
        let sums = _mm256_add_ps(sums[0], sums[1]);
        let sums = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps::<1>(sums));
        let sums = _mm_add_ps(sums, _mm_movehl_ps(sums, sums));
        _mm_cvtss_f32(_mm_add_ss(sums, _mm_movehdup_ps(sums)))
    }

    /// Some vectors of a row.
    ///
    /// # Safety
    /// `s` points to 8·N numbers, for writes, too.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn exp_some<const N: usize>(s: *mut f32, shift: f32, sums: &mut [__m256; VECTORS]) {
        let shift = _mm256_set1_ps(shift);
        // SAFETY: the caller's promise.
        let below = each!(N, i => _mm256_sub_ps(unsafe { _mm256_loadu_ps(s.add(i * 8)) }, shift));
        let e = exps(below);
        for i in 0..N {
            // SAFETY: the caller's promise.
            unsafe { _mm256_storeu_ps(s.add(i * 8), e[i]) };
            sums[i % VECTORS] = _mm256_add_ps(sums[i % VECTORS], e[i]);
        }
    }

    /// `exp(min(s − shift, 0))` of the whole lanes of a row, 0 where s = −∞.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn weights(row: &mut [f32], shift: f32) {
        let (pairs, rest) = row.as_chunks_mut::<{ 2 * LANES }>();
        for s in pairs {
            // SAFETY: as many lanes as vectors.
            unsafe { weights_some::<{ 2 * VECTORS }>(s.as_mut_ptr(), shift) };
        }
        for s in rest.as_chunks_mut::<LANES>().0 {
            // SAFETY: as many lanes as vectors.
            unsafe { weights_some::<VECTORS>(s.as_mut_ptr(), shift) };
        }
    }

    /// Some vectors of a row.
    ///
    /// # Safety
    /// `s` points to 8·N numbers, for writes, too.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn weights_some<const N: usize>(s: *mut f32, shift: f32) {
        let (shift, never) = (_mm256_set1_ps(shift), _mm256_set1_ps(f32::NEG_INFINITY));
        // SAFETY: the caller's promise.
        let scores = each!(N, i => unsafe { _mm256_loadu_ps(s.add(i * 8)) });
        // The second one where either is NaN.
        let zero = _mm256_setzero_ps();
        let below = each!(N, i => _mm256_min_ps(zero, _mm256_sub_ps(scores[i], shift)));
        let e = exps(below);
        for i in 0..N {
            let allowed = _mm256_cmp_ps::<_CMP_NEQ_UQ>(scores[i], never);
            // SAFETY: the caller's promise.
            unsafe { _mm256_storeu_ps(s.add(i * 8), _mm256_and_ps(allowed, e[i])) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512, _CMP_NEQ_UQ, _CMP_NLT_UQ, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_movehdup_ps,
        _mm_movehl_ps, _mm256_add_ps, _mm256_castps256_ps128, _mm256_extractf128_ps, _mm512_add_ps,
        _mm512_castps512_ps256, _mm512_cmp_ps_mask, _mm512_extractf32x8_ps, _mm512_fmadd_ps,
        _mm512_loadu_ps, _mm512_maskz_mov_ps, _mm512_maskz_scalef_ps, _mm512_max_ps, _mm512_min_ps,
        _mm512_reduce_max_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps, _mm512_sub_ps,
    };

    use super::LANES;
    use crate::real::nonpositive as of;

    /// Groups of lanes, a vector each, that are taken side by side.
    const SIDE_BY_SIDE: usize = 4;

    /// `exp(x)` for x ≤ 0 with the bits of [`crate::Real::exp_nonpositive`], of N vectors side by side.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn exps<const N: usize>(xs: [__m512; N]) -> [__m512; N] {
        let set = |x: f32| _mm512_set1_ps(x);
        let (lowest, round) = (set(of::LOWEST), set(of::ROUND));
        let (mut n, mut r, mut p) = (xs, xs, [set(of::POLYNOMIAL[0]); N]);
        for i in 0..N {
            let t = _mm512_fmadd_ps(xs[i], set(std::f32::consts::LOG2_E), round);
            n[i] = _mm512_sub_ps(t, round);
            r[i] = _mm512_fmadd_ps(n[i], set(-of::LN_2_HIGH), xs[i]);
            r[i] = _mm512_fmadd_ps(n[i], set(-of::LN_2_LOW), r[i]);
        }
        for c in &of::POLYNOMIAL[1..] {
            for i in 0..N {
                p[i] = _mm512_fmadd_ps(p[i], r[i], set(*c));
            }
        }
        for i in 0..N {
            let high = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(xs[i], lowest);
            // p·2ⁿ, rounded once, as the product is.
            p[i] = _mm512_maskz_scalef_ps(high, p[i], n[i]);
        }
        p
    }

    /// The largest of `top` and the whole lanes of a row.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) fn largest(row: &[f32], top: f32) -> f32 {
        let mut tops = _mm512_set1_ps(top);
        for s in row.as_chunks::<LANES>().0 {
            // SAFETY: sixteen lanes.
            tops = _mm512_max_ps(unsafe { _mm512_loadu_ps(s.as_ptr()) }, tops);
        }
        _mm512_reduce_max_ps(tops)
    }

    /// `exp(s − shift)` of the whole lanes of a row, and their sum.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) fn exp(row: &mut [f32], shift: f32) -> f32 {
        let mut sums = _mm512_setzero_ps();
        let (groups, rest) = row.as_chunks_mut::<{ SIDE_BY_SIDE * LANES }>();
        for s in groups {
            // SAFETY: as many groups of lanes as vectors.
            sums = unsafe { exp_some::<SIDE_BY_SIDE>(s.as_mut_ptr(), shift, sums) };
        }
        for s in rest.as_chunks_mut::<LANES>().0 {
            // SAFETY: as many groups of lanes as vectors.
            sums = unsafe { exp_some::<1>(s.as_mut_ptr(), shift, sums) };
        }
        let sums = _mm256_add_ps(_mm512_castps512_ps256(sums), _mm512_extractf32x8_ps::<1>(sums));
        let sums = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps::<1>(sums));
        let sums = _mm_add_ps(sums, _mm_movehl_ps(sums, sums));
        _mm_cvtss_f32(_mm_add_ss(sums, _mm_movehdup_ps(sums)))
    }

    /// Some vectors of a row.
    ///
    /// # Safety
    /// `s` points to 16·N numbers, for writes, too.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn exp_some<const N: usize>(s: *mut f32, shift: f32, mut sums: __m512) -> __m512 {
        let shift = _mm512_set1_ps(shift);
        let mut below = [shift; N];
        for i in 0..N {
            // SAFETY: the caller's promise.
            below[i] = _mm512_sub_ps(unsafe { _mm512_loadu_ps(s.add(i * LANES)) }, shift);
        }
        let e = exps(below);
        for i in 0..N {
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_ps(s.add(i * LANES), e[i]) };
            sums = _mm512_add_ps(sums, e[i]);
        }
        sums
    }

    /// `exp(min(s − shift, 0))` of the whole lanes of a row, 0 where s = −∞.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) fn weights(row: &mut [f32], shift: f32) {
        let (groups, rest) = row.as_chunks_mut::<{ SIDE_BY_SIDE * LANES }>();
        for s in groups {
            // SAFETY: as many groups of lanes as vectors.
            unsafe { weights_some::<SIDE_BY_SIDE>(s.as_mut_ptr(), shift) };
        }
        for s in rest.as_chunks_mut::<LANES>().0 {
            // SAFETY: as many groups of lanes as vectors.
            unsafe { weights_some::<1>(s.as_mut_ptr(), shift) };
        }
    }

    /// Some vectors of a row.
    ///
    /// # Safety
    /// `s` points to 16·N numbers, for writes, too.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn weights_some<const N: usize>(s: *mut f32, shift: f32) {
        let (shift, never) = (_mm512_set1_ps(shift), _mm512_set1_ps(f32::NEG_INFINITY));
        let (mut scores, mut below) = ([shift; N], [shift; N]);
        for i in 0..N {
            // SAFETY: the caller's promise.
            scores[i] = unsafe { _mm512_loadu_ps(s.add(i * LANES)) };
            // The second one where either is NaN.
            below[i] = _mm512_min_ps(_mm512_setzero_ps(), _mm512_sub_ps(scores[i], shift));
        }
        let e = exps(below);
        for i in 0..N {
            let allowed = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(scores[i], never);
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_ps(s.add(i * LANES), _mm512_maskz_mov_ps(allowed, e[i])) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    /// One number after the other, as [`crate::simd::run`] would at the level in use.
    struct Plain<'a>(&'a [f32], f32);

    impl simd::Kernel for Plain<'_> {
        type Output = (Vec<f32>, Vec<f32>, f32, f32);

        #[inline(always)]
        fn run<const FMA: bool>(self) -> Self::Output {
            let Self(row, shift) = self;
            let exps: Vec<f32> = row.iter().map(|s| (s - shift).exp_nonpositive::<FMA>()).collect();
            let mut lanes = [0.0f32; LANES];
            for chunk in exps.chunks_exact(LANES) {
                for l in 0..LANES {
                    lanes[l] += chunk[l];
                }
            }
            let weight = |s: &f32| {
                let below = if s - shift > 0.0 { 0.0 } else { s - shift };
                let weight = below.exp_nonpositive::<FMA>();
                if *s == f32::NEG_INFINITY { 0.0 } else { weight }
            };
            let top = row.iter().copied().fold(-3.0, f32::max);
            (exps.clone(), row.iter().map(weight).collect(), sum_in_halves(lanes), top)
        }
    }

    struct Rows<'a>(&'a [f32], f32);

    impl simd::Kernel for Rows<'_> {
        type Output = (Vec<f32>, Vec<f32>, f32, f32);

        #[inline(always)]
        fn run<const FMA: bool>(self) -> Self::Output {
            let Self(row, shift) = self;
            let rowwise = RowKernels::<f32>::new();
            let (mut exps, mut weights) = (row.to_vec(), row.to_vec());
            let total = rowwise.exp::<FMA>(&mut exps, shift);
            rowwise.weights::<FMA>(&mut weights, shift);
            (exps, weights, total, rowwise.largest(row, -3.0))
        }
    }

    #[test]
    fn rows_have_the_bits_of_one_number_after_the_other() {
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        for n in [0, 16, 32, 48, 64, 112] {
            let mut row: Vec<f32> = (0..n).map(|i| -30.0 * Key::new(3).uniform(i as u32)).collect();
            for at in (0..n).step_by(7) {
                row[at] = [f32::NEG_INFINITY, -200.0, -87.34, -88.0, 0.0][at / 7 % 5];
            }
            for shift in [0.0, 0.5] {
                let (rows, plain) = (simd::run(Rows(&row, shift)), simd::run(Plain(&row, shift)));
                assert_eq!(bits(&rows.0), bits(&plain.0), "exp, {n}");
                assert_eq!(bits(&rows.1), bits(&plain.1), "weights, {n}");
                assert_eq!((rows.2.to_bits(), rows.3), (plain.2.to_bits(), plain.3), "{n}");
            }
        }
    }

    #[test]
    fn a_nan_stays_where_it_is_and_is_no_largest_score() {
        let mut row = [-1.0f32; 32];
        (row[3], row[20]) = (f32::NAN, f32::NEG_INFINITY);
        let rows = simd::run(Rows(&row, -1.0));
        assert!(rows.0[3].is_nan() && rows.1[3].is_nan() && rows.2.is_nan());
        assert_eq!((rows.0[4], rows.0[20], rows.1[20], rows.3), (1.0, 0.0, 0.0, -1.0));
        // A row whose log-sum-exp is NaN: what was forbidden stays 0.
        let rows = simd::run(Rows(&row, f32::NAN));
        assert!(rows.1[4].is_nan() && rows.1[20] == 0.0);
    }
}
