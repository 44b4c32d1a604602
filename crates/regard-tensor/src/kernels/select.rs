//! The numbers of a row that lie above a bound.

use super::product::COLUMNS as LANES;
use crate::{Real, simd};

/// Writes those of `scale·(x_j − shift)` that lie above `bound` to `out`, in order; returns how many, or none if they are more than
/// `out` holds. NaN lies above nothing.
///
/// ```
/// use regard_tensor::kernels::select::above;
///
/// let mut out = [0.0; 2];
/// assert_eq!(above(&[1.0f32, 5.0, 3.0], 1.0, 2.0, 3.0, &mut out), Some(2));
/// assert_eq!(out, [8.0, 4.0]);
/// assert_eq!(above(&[9.0f32; 3], 1.0, 2.0, 3.0, &mut out), None);
/// ```
#[inline]
pub fn above<T: Real>(row: &[T], shift: T, scale: T, bound: T, out: &mut [T]) -> Option<usize> {
    let (groups, rest) = row.as_chunks::<LANES>();
    let mut count = whole_lanes(groups, shift, scale, bound, out)?;
    for x in rest {
        let z = scale * (*x - shift);
        if z > bound {
            *out.get_mut(count)? = z;
            count += 1;
        }
    }
    Some(count)
}

/// Bit j is set where number j of a row, of up to 64, is not 0; NaN is not.
///
/// ```
/// use regard_tensor::kernels::select::nonzero;
///
/// assert_eq!(nonzero(&[0.0f32, 2.0, -0.0, f32::NAN]), 0b1010);
/// ```
///
/// # Panics
/// If there are more than 64.
#[inline]
pub fn nonzero<T: Real>(row: &[T]) -> u64 {
    assert!(row.len() <= 64, "a bit for each number");
    let (groups, rest) = row.as_chunks::<LANES>();
    let mut mask = 0;
    for (j, x) in rest.iter().enumerate() {
        mask |= u64::from(*x != T::ZERO) << (groups.len() * LANES + j);
    }
    #[cfg(target_arch = "x86_64")]
    if std::any::TypeId::of::<T>() == std::any::TypeId::of::<f32>()
        && simd::level() == simd::Level::Avx512
    {
        // SAFETY: T is f32, and the processor has what the level names.
        return mask
            | unsafe {
                avx512::nonzero(std::slice::from_raw_parts(groups.as_ptr().cast(), groups.len()))
            };
    }
    for (g, group) in groups.iter().enumerate() {
        let any = simd::vectorise(
            #[inline(always)]
            move || {
                let mut any = false;
                for x in group {
                    any |= *x != T::ZERO;
                }
                any
            },
        );
        if any {
            for (l, x) in group.iter().enumerate() {
                mask |= u64::from(*x != T::ZERO) << (g * LANES + l);
            }
        }
    }
    mask
}

/// As [`above`], for whole lanes.
fn whole_lanes<T: Real>(
    groups: &[[T; LANES]],
    shift: T,
    scale: T,
    bound: T,
    out: &mut [T],
) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if std::any::TypeId::of::<T>() == std::any::TypeId::of::<f32>()
        && simd::level() == simd::Level::Avx512
    {
        let [shift, scale, bound] = [shift, scale, bound].map(|x| x.to_f64() as f32);
        // SAFETY: T is f32, and the processor has what the level names.
        return unsafe {
            let groups = std::slice::from_raw_parts(groups.as_ptr().cast(), groups.len());
            let out = std::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), out.len());
            avx512::above(groups, shift, scale, bound, out)
        };
    }
    simd::vectorise(
        #[inline(always)]
        move || {
            let mut count = 0;
            for group in groups {
                let mut z = [T::ZERO; LANES];
                let mut any = false;
                for l in 0..LANES {
                    z[l] = scale * (group[l] - shift);
                    any |= z[l] > bound;
                }
                if any {
                    for z in z {
                        if z > bound {
                            *out.get_mut(count)? = z;
                            count += 1;
                        }
                    }
                }
            }
            Some(count)
        },
    )
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        _CMP_GT_OQ, _CMP_NEQ_UQ, _mm512_cmp_ps_mask, _mm512_loadu_ps, _mm512_mask_storeu_ps,
        _mm512_maskz_compress_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_sub_ps,
    };

    use super::LANES;

    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn above(
        groups: &[[f32; LANES]],
        shift: f32,
        scale: f32,
        bound: f32,
        out: &mut [f32],
    ) -> Option<usize> {
        let (shift, scale, bound) =
            (_mm512_set1_ps(shift), _mm512_set1_ps(scale), _mm512_set1_ps(bound));
        let mut count = 0;
        for group in groups {
            // SAFETY: sixteen numbers.
            let x = unsafe { _mm512_loadu_ps(group.as_ptr()) };
            let z = _mm512_mul_ps(scale, _mm512_sub_ps(x, shift));
            let high = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(z, bound);
            let n = high.count_ones() as usize;
            if n == 0 {
                continue;
            }
            let place = out.get_mut(count..count + n)?;
            let first = u16::MAX >> (LANES - n);
            let z = _mm512_maskz_compress_ps(high, z);
            // SAFETY: `place` holds as many numbers as the mask lets through.
            unsafe { _mm512_mask_storeu_ps(place.as_mut_ptr(), first, z) };
            count += n;
        }
        Some(count)
    }

    /// Of four groups at most.
    #[target_feature(enable = "avx512f")]
    pub(super) fn nonzero(groups: &[[f32; LANES]]) -> u64 {
        let mut mask = 0;
        for (g, group) in groups.iter().enumerate() {
            // SAFETY: sixteen numbers.
            let x = unsafe { _mm512_loadu_ps(group.as_ptr()) };
            let other = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(x, _mm512_setzero_ps());
            mask |= u64::from(other) << (g * LANES);
        }
        mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    #[test]
    fn what_lies_above_comes_in_order_or_not_at_all() {
        let key = Key::new(5);
        for n in [0, 1, 15, 16, 17, 64, 100] {
            let mut row: Vec<f32> = (0..n).map(|i| key.normal(i as u32) as f32).collect();
            if n > 20 {
                (row[3], row[18]) = (f32::NAN, f32::NEG_INFINITY);
            }
            for bound in [-9.0, 0.0, 1.0, f32::INFINITY] {
                let all = row.iter().map(|x| 2.0 * (x - 0.5)).filter(|z| *z > bound);
                let want: Vec<f32> = all.collect();
                let mut out = vec![7.0; want.len() + 1];
                assert_eq!(above(&row, 0.5, 2.0, bound, &mut out), Some(want.len()));
                assert_eq!((&out[..want.len()], out[want.len()]), (&want[..], 7.0));
                if let Some(short) = want.len().checked_sub(1) {
                    assert_eq!(above(&row, 0.5, 2.0, bound, &mut out[..short]), None);
                }
            }
        }
    }
}
