//! What sparsemax and entmax share: `a_j = (z_j − τ)₊` to some power, where τ follows from the
//! largest scores.
//!
//! Sums over a row go by sixteen lanes, key j in lane j mod 16, then over the lanes in halves: scores of −∞ behind the
//! last key, padding, change no bit.

use regard_tensor::kernels::reduce;
use regard_tensor::{Real, simd};

use super::spread_nan;

const LANES: usize = 16;

/// Steps to τ after which the search stops; a handful is usual.
pub(super) const MOST_STEPS: usize = 100;

/// Sets `z_j = scale · (s_j − max s)` in place: with Σ_j (z_j − τ)₊^p = 1, τ is at least −1.
///
/// # Errors
/// The row is finished, with this log-sum-exp: nothing is allowed, or a score is NaN or +∞.
pub(super) fn shift<T: Real>(row: &mut [T], scale: T) -> Result<(), T> {
    if let Some(nan) = spread_nan(row) {
        return Err(nan);
    }
    let top = reduce::max(row);
    if top == T::NEG_INFINITY {
        row.fill(T::ZERO);
        return Err(top);
    }
    if !top.is_finite() {
        // ∞ − ∞ is no number.
        let nan = top + T::NEG_INFINITY;
        for s in row {
            *s = if *s == T::NEG_INFINITY { T::ZERO } else { nan };
        }
        return Err(nan);
    }
    simd::vectorise(
        #[inline(always)]
        move || {
            for s in row {
                *s = scale * (*s - top);
            }
        },
    );
    Ok(())
}

/// The sums of `f` over the places of two rows of one length.
#[inline(always)]
pub(super) fn sums<T: Real, const N: usize>(
    a: &[T],
    b: &[T],
    f: impl Fn(T, T) -> [T; N],
) -> [T; N] {
    simd::vectorise(
        #[inline(always)]
        move || {
            let mut sums = [[T::ZERO; LANES]; N];
            let (a, a_rest) = a.as_chunks::<LANES>();
            let (b, b_rest) = b.as_chunks::<LANES>();
            for (a, b) in a.iter().zip(b) {
                for l in 0..LANES {
                    let terms = f(a[l], b[l]);
                    for n in 0..N {
                        sums[n][l] += terms[n];
                    }
                }
            }
            for (l, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
                let terms = f(*a, *b);
                for n in 0..N {
                    sums[n][l] += terms[n];
                }
            }
            sums.map(
                #[inline(always)]
                |mut lanes| {
                    let mut half = LANES / 2;
                    while half > 0 {
                        for l in 0..half {
                            lanes[l] += lanes[l + half];
                        }
                        half /= 2;
                    }
                    lanes[0]
                },
            )
        },
    )
}

/// What lies above τ: how many, Σ_j (z_j − τ)₊ and Σ_j (z_j − τ)₊².
#[inline(always)]
pub(super) fn above<T: Real>(row: &[T], tau: T) -> [T; 3] {
    sums(
        row,
        row,
        #[inline(always)]
        move |z, _| {
            let over = z - tau;
            let is_over = over > T::ZERO;
            let over = if is_over { over } else { T::ZERO };
            [if is_over { T::ONE } else { T::ZERO }, over, over * over]
        },
    )
}
