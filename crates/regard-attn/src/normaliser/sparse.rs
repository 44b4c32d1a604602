//! What sparsemax and entmax share: `a_j = (z_j − τ)₊` to some power, where τ follows from the
//! largest scores.

use regard_tensor::{Real, kernels::reduce};

use super::spread_nan;

/// Sets `z_j = scale · (s_j − max s)` in place and returns the z above −1, largest first: with
/// Σ_j (z_j − τ)₊^p = 1, τ is at least −1, so that no other key can get a weight.
///
/// # Errors
/// The row is finished, with this log-sum-exp: nothing is allowed, or a score is NaN or +∞.
pub(super) fn largest<T: Real>(row: &mut [T], scale: T) -> Result<Vec<T>, T> {
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
    for s in row.iter_mut() {
        *s = scale * (*s - top);
    }
    let mut largest: Vec<T> = row.iter().copied().filter(|z| *z > -T::ONE).collect();
    largest.sort_unstable_by(|a, b| b.partial_cmp(a).expect("NaN was sorted out"));
    Ok(largest)
}
