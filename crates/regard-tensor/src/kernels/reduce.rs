//! Row reductions with a fixed order of sums: eight lanes, then the lanes in order.

use crate::Real;

const LANES: usize = 8;

/// Folds a row in eight lanes and then the lanes and the rest in order.
#[inline(always)]
fn fold<T: Real>(row: &[T], start: T, f: impl Fn(T, T) -> T) -> T {
    let mut lanes = [start; LANES];
    let mut chunks = row.chunks_exact(LANES);
    for chunk in &mut chunks {
        for l in 0..LANES {
            lanes[l] = f(lanes[l], chunk[l]);
        }
    }
    let whole = lanes.into_iter().reduce(&f).unwrap_or(start);
    chunks.remainder().iter().fold(whole, |acc, x| f(acc, *x))
}

/// Σ xᵢ
#[inline(always)]
pub fn sum<T: Real>(row: &[T]) -> T {
    fold(row, T::ZERO, |a, b| a + b)
}

/// max xᵢ; −∞ for an empty row; NaN is passed over.
#[inline(always)]
pub fn max<T: Real>(row: &[T]) -> T {
    fold(row, T::NEG_INFINITY, |a, b| if b > a { b } else { a })
}

/// Σ xᵢ·yᵢ
#[inline(always)]
pub fn dot<T: Real>(x: &[T], y: &[T]) -> T {
    let n = x.len().min(y.len());
    let (x, y) = (&x[..n], &y[..n]);
    let mut lanes = [T::ZERO; LANES];
    let body = n / LANES * LANES;
    for (a, b) in x[..body].chunks_exact(LANES).zip(y[..body].chunks_exact(LANES)) {
        for l in 0..LANES {
            lanes[l] += a[l] * b[l];
        }
    }
    let mut total = T::ZERO;
    // Short rows have nothing in the lanes; zeros one after the other would take longer than the row.
    if body > 0 {
        for lane in lanes {
            total += lane;
        }
    }
    for i in body..n {
        total += x[i] * y[i];
    }
    total
}

/// Columns that one thread adds up.
const COLUMNS: usize = 256;

/// Adds the column sums of a rows × cols matrix to `out`: Σ over rows, in order of the rows.
pub fn add_column_sums<T: Real>(matrix: &[T], cols: usize, out: &mut [T]) {
    if cols == 0 {
        return;
    }
    crate::parallel::chunks(&mut out[..cols], COLUMNS, matrix.len(), |p, out| {
        let first = p * COLUMNS;
        crate::simd::vectorise(
            #[inline(always)]
            move || {
                let n = out.len();
                for row in matrix.chunks_exact(cols) {
                    let row = &row[first..first + n];
                    for c in 0..n {
                        out[c] += row[c];
                    }
                }
            },
        );
    });
}

/// In place: a row of scores becomes softmax(row); returns its log-sum-exp.
///
/// Stable for any finite scores. A row that is all −∞ becomes all zero, with lse = −∞.
///
/// ```
/// use regard_tensor::kernels::reduce::softmax_in_place;
/// let mut row = [0.0f64, 0.0, f64::NEG_INFINITY];
/// let lse = softmax_in_place(&mut row);
/// assert_eq!(row, [0.5, 0.5, 0.0]);
/// assert!((lse - 2f64.ln()).abs() < 1e-15);
/// ```
#[inline(always)]
pub fn softmax_in_place<T: Real>(row: &mut [T]) -> T {
    let top = max(row);
    if top == T::NEG_INFINITY {
        row.fill(T::ZERO);
        return T::NEG_INFINITY;
    }
    for x in row.iter_mut() {
        *x = (*x - top).exp();
    }
    let total = sum(row);
    let scale = T::ONE / total;
    for x in row.iter_mut() {
        *x *= scale;
    }
    top + total.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_of_every_length() {
        for n in 0..40usize {
            let x: Vec<f64> = (0..n).map(|i| (i as f64 * 0.7).sin()).collect();
            let y: Vec<f64> = (0..n).map(|i| (i as f64 * 1.3).cos()).collect();
            let want: f64 = x.iter().sum();
            assert!((sum(&x) - want).abs() < 1e-14 * 40.0);
            let want: f64 = x.iter().zip(&y).map(|(a, b)| a * b).sum();
            assert!((dot(&x, &y) - want).abs() < 1e-14 * 40.0);
            let want = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert_eq!(max(&x), want);
        }
    }

    #[test]
    fn a_forbidden_row_is_zero() {
        let mut row = [f32::NEG_INFINITY; 5];
        assert_eq!(softmax_in_place(&mut row), f32::NEG_INFINITY);
        assert_eq!(row, [0.0; 5]);
    }
}
