//! A panel of sixteen rows, transposed.

use crate::{Real, simd};

use super::product::COLUMNS;

/// `out[c·16 + l] = rows[l][c]` for sixteen rows of one width.
pub fn sixteen<T: Real>(rows: &[&[T]; COLUMNS], out: &mut [T]) {
    let width = out.len() / COLUMNS;
    #[cfg(target_arch = "x86_64")]
    if std::any::TypeId::of::<T>() == std::any::TypeId::of::<f32>()
        && simd::level() != simd::Level::Plain
    {
        assert!(rows.iter().all(|row| row.len() >= width), "rows of one width");
        let (rows, out) = (rows.map(|row| row.as_ptr().cast::<f32>()), out.as_mut_ptr().cast());
        // SAFETY: T is f32 and the processor has what the level says; each row has `width` elements and `out`
        // sixteen times as many.
        unsafe {
            match simd::level() {
                simd::Level::Avx512 => avx512::sixteen(rows, width, out),
                _ => avx2::sixteen(rows, width, out),
            }
        }
        return;
    }
    let rows = rows.map(|row| &row[..width]);
    simd::vectorise(
        #[inline(always)]
        move || {
            for (c, out) in out.chunks_exact_mut(COLUMNS).enumerate() {
                for l in 0..COLUMNS {
                    out[l] = rows[l][c];
                }
            }
        },
    );
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2 {
    use std::arch::x86_64::{
        __m256, _mm_loadu_ps, _mm256_castps128_ps256, _mm256_insertf128_ps, _mm256_setzero_ps,
        _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };

    /// # Safety
    /// AVX2 is there; `rows` are readable for `width` elements, `out` is writable for 16·`width`.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn sixteen(rows: [*const f32; 16], width: usize, out: *mut f32) {
        let whole = width / 8 * 8;
        // SAFETY: the caller's promise; a square begins at most 8 columns before `whole`.
        unsafe {
            for c in (0..whole).step_by(8) {
                for first in [0, 8] {
                    let mut eight = [rows[0]; 8];
                    for l in 0..8 {
                        eight[l] = rows[first + l].add(c);
                    }
                    square(eight, out.add(c * 16 + first));
                }
            }
            for c in whole..width {
                for (l, row) in rows.iter().enumerate() {
                    *out.add(c * 16 + l) = *row.add(c);
                }
            }
        }
    }

    /// A square of 8 × 8, of which the columns go to places 16 elements apart: pairs of numbers, then of
    /// pairs, within each half of a register; then the halves.
    ///
    /// # Safety
    /// As [`sixteen`], for 8 elements of each row and 120 of `out`.
    #[target_feature(enable = "avx2")]
    unsafe fn square(rows: [*const f32; 8], out: *mut f32) {
        // SAFETY: the caller's promise.
        let columns = unsafe { columns(rows) };
        for (m, column) in columns.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { _mm256_storeu_ps(out.add(m * 16), column) };
        }
    }

    /// The columns of a square of 8 × 8, of which the rows begin at these places. Rows n and 4 + n are loaded as the
    /// halves of one register, so that no number has to cross from one half to the other.
    ///
    /// # Safety
    /// AVX2 is there, and eight numbers of each row are readable.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(in super::super) unsafe fn columns(rows: [*const f32; 8]) -> [__m256; 8] {
        let mut out = [_mm256_setzero_ps(); 8];
        for side in 0..2 {
            let mut r = [_mm256_setzero_ps(); 4];
            for n in 0..4 {
                // SAFETY: the caller's promise.
                r[n] = unsafe {
                    let (upper, lower) = (rows[n].add(4 * side), rows[4 + n].add(4 * side));
                    _mm256_insertf128_ps::<1>(
                        _mm256_castps128_ps256(_mm_loadu_ps(upper)),
                        _mm_loadu_ps(lower),
                    )
                };
            }
            let (a, b) = (_mm256_unpacklo_ps(r[0], r[1]), _mm256_unpackhi_ps(r[0], r[1]));
            let (c, d) = (_mm256_unpacklo_ps(r[2], r[3]), _mm256_unpackhi_ps(r[2], r[3]));
            out[4 * side] = _mm256_shuffle_ps::<0x44>(a, c);
            out[4 * side + 1] = _mm256_shuffle_ps::<0xee>(a, c);
            out[4 * side + 2] = _mm256_shuffle_ps::<0x44>(b, d);
            out[4 * side + 3] = _mm256_shuffle_ps::<0xee>(b, d);
        }
        out
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx512 {
    use std::arch::x86_64::{
        __m512, _mm512_castpd_ps, _mm512_castps_pd, _mm512_loadu_ps, _mm512_setzero_ps,
        _mm512_shuffle_f32x4, _mm512_storeu_ps, _mm512_unpackhi_pd, _mm512_unpackhi_ps,
        _mm512_unpacklo_pd, _mm512_unpacklo_ps,
    };

    /// # Safety
    /// AVX-512F is there; `rows` are readable for `width` elements, `out` is writable for 16·`width`.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn sixteen(rows: [*const f32; 16], width: usize, out: *mut f32) {
        let whole = width / 16 * 16;
        // SAFETY: the caller's promise; a square begins at most 16 columns before `whole`.
        unsafe {
            for c in (0..whole).step_by(16) {
                let mut places = rows;
                for place in &mut places {
                    *place = place.add(c);
                }
                square(places, out.add(c * 16));
            }
            for c in whole..width {
                for (l, row) in rows.iter().enumerate() {
                    *out.add(c * 16 + l) = *row.add(c);
                }
            }
        }
    }

    /// Pairs of numbers of two registers, the first of each quarter.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn low(a: __m512, b: __m512) -> __m512 {
        _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
    }

    /// As [`low`], the second of each quarter.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn high(a: __m512, b: __m512) -> __m512 {
        _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
    }

    /// A square of 16 × 16, of which the columns go to places 16 elements apart.
    ///
    /// # Safety
    /// As [`sixteen`], for 16 elements of each row and 256 of `out`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn square(rows: [*const f32; 16], out: *mut f32) {
        // SAFETY: the caller's promise.
        let columns = unsafe { columns(rows) };
        for m in 0..16 {
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_ps(out.add(m * 16), columns[m]) };
        }
    }

    /// The columns of a square of 16 × 16, of which the rows begin at these places: pairs of numbers, then of pairs, within
    /// each quarter of a register; then the quarters. Loops, no closures: those would be functions that take registers
    /// through memory.
    ///
    /// # Safety
    /// AVX-512F is there, and sixteen numbers of each row are readable.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(in super::super) unsafe fn columns(rows: [*const f32; 16]) -> [__m512; 16] {
        let mut t = [_mm512_setzero_ps(); 16];
        for n in 0..8 {
            // SAFETY: the caller's promise.
            let (a, b) =
                unsafe { (_mm512_loadu_ps(rows[2 * n]), _mm512_loadu_ps(rows[2 * n + 1])) };
            t[2 * n] = _mm512_unpacklo_ps(a, b);
            t[2 * n + 1] = _mm512_unpackhi_ps(a, b);
        }
        // u[4·n + m], in quarter k: column 4·k + m of rows 4·n to 4·n + 3.
        let mut u = [_mm512_setzero_ps(); 16];
        for n in 0..4 {
            let (a, b, c, d) = (t[4 * n], t[4 * n + 1], t[4 * n + 2], t[4 * n + 3]);
            u[4 * n] = low(a, c);
            u[4 * n + 1] = high(a, c);
            u[4 * n + 2] = low(b, d);
            u[4 * n + 3] = high(b, d);
        }
        let mut out = [_mm512_setzero_ps(); 16];
        for m in 0..4 {
            let (a, b, c, d) = (u[m], u[4 + m], u[8 + m], u[12 + m]);
            // Quarters 0 and 2, and 1 and 3, of two registers each.
            let (even_ab, odd_ab) =
                (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
            let (even_cd, odd_cd) =
                (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
            out[m] = _mm512_shuffle_f32x4::<0x88>(even_ab, even_cd);
            out[4 + m] = _mm512_shuffle_f32x4::<0x88>(odd_ab, odd_cd);
            out[8 + m] = _mm512_shuffle_f32x4::<0xdd>(even_ab, even_cd);
            out[12 + m] = _mm512_shuffle_f32x4::<0xdd>(odd_ab, odd_cd);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_finds_its_place() {
        for width in [0, 1, 5, 16, 17, 40, 64] {
            let data: Vec<f32> = (0..16 * width).map(|n| n as f32).collect();
            let rows: [&[f32]; 16] = std::array::from_fn(|l| &data[l * width..(l + 1) * width]);
            let mut out = vec![0.0; 16 * width];
            sixteen(&rows, &mut out);
            for (l, row) in rows.iter().enumerate() {
                for (c, x) in row.iter().enumerate() {
                    assert_eq!(out[c * 16 + l], *x, "{width}: row {l}, column {c}");
                }
            }
        }
    }
}
