//! What sparsemax and entmax share: `a_j = (z_j − τ)₊` to some power, where τ follows from the
//! largest scores.
//!
//! Sums over a row go by sixteen lanes, key j in lane j mod 16, then over the lanes in halves: scores of −∞ behind the
//! last key, padding, change no bit.

use regard_tensor::kernels::select;
use regard_tensor::kernels::softmax::sum_in_halves;
use regard_tensor::{Real, simd};

use super::spread_nan;

const LANES: usize = 16;

/// Candidates that are taken by themselves.
const FEW: usize = 64;

/// Steps to τ after which the search stops; a handful is usual.
pub(super) const MOST_STEPS: usize = 100;

/// Room for the candidates of [`Scores`].
pub(super) struct Room<T>([T; FEW]);

impl<T: Real> Room<T> {
    pub(super) const NEW: Self = Self([T::NEG_INFINITY; FEW]);
}

/// A row of scores, of which at least one is allowed and all are finite or −∞, as `z_j = scale · (s_j − max s)`: with
/// Σ_j (z_j − τ)₊^p = 1, τ is at least −1.
pub(super) struct Scores<'a, T> {
    row: &'a mut [T],
    top: T,
    scale: T,
    /// All z_j above −1, in order, filled up with −∞ to whole lanes, if they are few; the others have no weight, whatever τ
    /// is.
    candidates: Option<&'a [T]>,
}

impl<'a, T: Real> Scores<'a, T> {
    /// Takes a row.
    ///
    /// # Errors
    /// The row is finished, with this log-sum-exp: nothing is allowed, or a score is NaN or +∞.
    pub(super) fn of(row: &'a mut [T], scale: T, room: &'a mut Room<T>) -> Result<Self, T> {
        let top = top(row)?;
        let room = &mut room.0;
        let count = select::above(row, top, scale, -T::ONE, room);
        let candidates = count.map(|count| &room[..count.next_multiple_of(LANES)]);
        Ok(Self { row, top, scale, candidates })
    }

    /// What lies above τ: how many, Σ_j (z_j − τ)₊ and Σ_j (z_j − τ)₊².
    pub(super) fn above(&self, tau: T) -> [T; 3] {
        let (row, top, scale) = match self.candidates {
            Some(z) => (z, T::ZERO, T::ONE),
            None => (&*self.row, self.top, self.scale),
        };
        sums(
            row,
            row,
            #[inline(always)]
            move |s, _| {
                let over = scale * (s - top) - tau;
                let is_over = over > T::ZERO;
                let over = if is_over { over } else { T::ZERO };
                [if is_over { T::ONE } else { T::ZERO }, over, over * over]
            },
        )
    }

    /// Turns the scores into weights, by a power of `(z_j − τ)₊`.
    #[inline(always)]
    pub(super) fn weigh(self, tau: T, power: impl Fn(T) -> T) {
        let Self { row, top, scale, .. } = self;
        simd::vectorise(
            #[inline(always)]
            move || {
                for s in row {
                    *s = power((scale * (*s - top) - tau).max(T::ZERO));
                }
            },
        );
    }
}

/// The largest score of a row.
///
/// # Errors
/// Those of [`Scores::of`].
fn top<T: Real>(row: &mut [T]) -> Result<T, T> {
    let (top, with_nan) = largest(row);
    if with_nan && let Some(nan) = spread_nan(row) {
        return Err(nan);
    }
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
    Ok(top)
}

/// The largest number of a row, −∞ if there is none, and whether one is NaN.
#[allow(clippy::eq_op, reason = "the test for NaN of a generic number")]
fn largest<T: Real>(row: &[T]) -> (T, bool) {
    simd::vectorise(
        #[inline(always)]
        move || {
            let (mut tops, mut odd) = ([T::NEG_INFINITY; LANES], false);
            let (groups, rest) = row.as_chunks::<LANES>();
            for s in groups {
                for l in 0..LANES {
                    tops[l] = if s[l] > tops[l] { s[l] } else { tops[l] };
                    odd |= s[l] != s[l];
                }
            }
            for (top, s) in tops.iter_mut().zip(rest) {
                *top = if *s > *top { *s } else { *top };
                odd |= *s != *s;
            }
            let top = tops.into_iter().fold(T::NEG_INFINITY, |a, b| if b > a { b } else { a });
            (top, odd)
        },
    )
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
            totals(&sums)
        },
    )
}

/// The sums over the lanes. Not inlined: where the compiler sees how lanes are joined in the end, it keeps them in the odd shapes
/// of that sum all along, and the loop before is no longer one of whole vectors.
#[inline(never)]
fn totals<T: Real, const N: usize>(sums: &[[T; LANES]; N]) -> [T; N] {
    sums.map(sum_in_halves)
}

#[cfg(test)]
mod tests {
    use super::super::{Entmax15, Normaliser, Sparsemax};
    use super::FEW;

    /// As many candidates as are taken by themselves, and more than that: the τ is the same.
    #[test]
    fn a_wide_support_is_found_in_the_row_itself() {
        for n in [FEW - 1, FEW, FEW + 1, 2 * FEW + 5] {
            let both: [&dyn Normaliser<f64>; 2] = [&Sparsemax, &Entmax15];
            for normaliser in both {
                // Equal scores share; low ones, and what is forbidden, get nothing.
                let mut row = vec![3.0; n];
                row.extend([-9.0, f64::NEG_INFINITY]);
                assert_eq!(normaliser.row(&mut row), 0.0);
                assert!(row[..n].iter().all(|a| (a * n as f64 - 1.0).abs() < 1e-12), "{n}");
                assert_eq!(row[n..], [0.0; 2]);
                // Scores a little apart, all in the support.
                let mut row: Vec<f64> = (0..n).map(|i| 1e-3 * i as f64 / n as f64).collect();
                normaliser.row(&mut row);
                assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{n}");
                assert!(row.is_sorted() && row[0] > 0.0, "{n}");
            }
        }
    }
}
