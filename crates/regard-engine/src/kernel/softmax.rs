//! The softmax of the rows of a tile: forward piece by piece, backward from the log-sum-exp.
//!
//! Every function takes the first `columns` entries of `rows` rows that are `stride` elements apart;
//! `columns` is whole [`LANES`], filled up with −∞ (scores) or anything (gradients).
//! Sums go lane by lane, then over the lanes in order, so that the filling changes no bit.
//! A score of −∞ has the weight 0 whatever the rest of its row holds.

use regard_tensor::Real;
use regard_tensor::kernels::softmax::{RowKernels, sum_in_halves};
use regard_tensor::simd::{self, Kernel};

use super::LANES;
use crate::fault::{self, Fault};
use crate::plan::QUERIES;

/// The running maximum and sum of one row: `total = Σ_j exp(s_j − top)` over the scores seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running<T> {
    pub(crate) top: T,
    pub(crate) total: T,
}

impl<T: Real> Running<T> {
    /// Before the first score.
    pub(crate) const START: Self = Self { top: T::NEG_INFINITY, total: T::ZERO };

    /// ln Σ_j exp(s_j); −∞ where every score was −∞.
    pub(crate) fn lse(self) -> T {
        if self.total == T::ZERO { T::NEG_INFINITY } else { self.top + self.total.ln() }
    }

    /// 1 / total, or 0 where nothing was allowed.
    pub(crate) fn scale(self) -> T {
        if self.total == T::ZERO { T::ZERO } else { T::ONE / self.total }
    }
}

/// What to subtract from scores: `top`, or 0 where all scores are −∞ and −∞ − −∞ would be NaN.
#[inline(always)]
fn shift<T: Real>(top: T) -> T {
    if top == T::NEG_INFINITY { T::ZERO } else { top }
}

/// Takes one more tile of scores into the running softmax of its rows.
///
/// Scores become `exp(s − top)` with the new maximum; sums and `context` rows (`width` elements
/// each), which are relative to the old maximum, are rescaled to the new one.
pub(crate) fn add_tile<T: Real>(
    scores: &mut [T],
    stride: usize,
    columns: usize,
    running: &mut [Running<T>],
    context: &mut [T],
    width: usize,
) {
    simd::run(AddTile { scores, stride, columns, running, context, width });
}

struct AddTile<'a, T> {
    scores: &'a mut [T],
    stride: usize,
    columns: usize,
    running: &'a mut [Running<T>],
    context: &'a mut [T],
    width: usize,
}

impl<T: Real> Kernel for AddTile<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { scores, stride, columns, running, context, width } = self;
        let rowwise = RowKernels::<T>::new();
        let mut tops = [T::ZERO; QUERIES];
        let mut factors = [T::ONE; QUERIES];
        for (i, running) in running.iter().enumerate() {
            let row = &scores[i * stride..i * stride + columns];
            tops[i] = rowwise.largest(row, running.top);
            factors[i] = running.top - shift(tops[i]);
        }
        // Of sixteen rows at once; 1 where the maximum stays, 0 where it was −∞.
        for factor in &mut factors[..running.len().next_multiple_of(LANES).min(QUERIES)] {
            *factor = factor.exp_nonpositive::<FMA>();
        }
        for (i, running) in running.iter_mut().enumerate() {
            let row = &mut scores[i * stride..i * stride + columns];
            let sum = rowwise.exp::<FMA>(row, shift(tops[i]));
            if tops[i] == running.top {
                running.total += sum;
                continue;
            }
            let is_first = running.top == T::NEG_INFINITY;
            running.total = if is_first { running.total } else { running.total * factors[i] } + sum;
            running.top = tops[i];
            if !is_first && !fault::is(Fault::MissingRescale) {
                for c in &mut context[i * width..(i + 1) * width] {
                    *c *= factors[i];
                }
            }
        }
    }
}

/// The log-sum-exps of rows.
pub(crate) fn lse<T: Real>(running: &[Running<T>], out: &mut [T]) {
    for (out, running) in out.iter_mut().zip(running) {
        *out = running.lse();
    }
}

/// Turns a row of scores into weights: `exp(s − top) / total`.
pub(crate) fn finish_weights<T: Real>(row: &mut [T], running: Running<T>) {
    simd::run(Weights { row, shift: shift(running.top), scale: running.scale() });
}

struct Weights<'a, T> {
    row: &'a mut [T],
    shift: T,
    scale: T,
}

impl<T: Real> Kernel for Weights<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { row, shift, scale } = self;
        for s in row {
            let weight = (*s - shift).exp_nonpositive::<FMA>() * scale;
            *s = if *s == T::NEG_INFINITY { T::ZERO } else { weight };
        }
    }
}

/// Turns a tile of scores into weights: `exp(s_ij − lse_i)`.
pub(crate) fn from_lse<T: Real>(scores: &mut [T], stride: usize, columns: usize, lse: &[T]) {
    simd::run(FromLse { scores, stride, columns, lse });
}

struct FromLse<'a, T> {
    scores: &'a mut [T],
    stride: usize,
    columns: usize,
    lse: &'a [T],
}

impl<T: Real> Kernel for FromLse<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { scores, stride, columns, lse } = self;
        let rowwise = RowKernels::<T>::new();
        for (i, lse) in lse.iter().enumerate() {
            let row = &mut scores[i * stride..i * stride + columns];
            rowwise.weights::<FMA>(row, shift(*lse));
        }
    }
}

/// `∂L/∂s_ij = slope·a_ij (∂L/∂a_ij − mean_i)`, where mean_i = Σ_l a_il ∂L/∂a_il; in place of `∂L/∂a`.
///
/// A pair of weight 0 gets 0, whatever ∂L/∂a or the mean holds.
pub(crate) fn backward<T: Real>(
    weights: &[T],
    dweights: &mut [T],
    stride: usize,
    columns: usize,
    mean: &[T],
    slope: T,
) {
    simd::vectorise(
        #[inline(always)]
        move || {
            for (i, mean) in mean.iter().enumerate() {
                let at = i * stride..i * stride + columns;
                for (a, da) in weights[at.clone()].iter().zip(&mut dweights[at]) {
                    let ds = *a * (*da - *mean);
                    *da = if *a == T::ZERO { T::ZERO } else { ds * slope };
                }
            }
        },
    );
}

/// `mean_i += Σ_j a_ij d_ij`, passing over pairs of weight 0.
pub(crate) fn add_mean<T: Real>(
    weights: &[T],
    d: &[T],
    stride: usize,
    columns: usize,
    mean: &mut [T],
) {
    for (i, mean) in mean.iter_mut().enumerate() {
        let at = i * stride..i * stride + columns;
        let (a, d) = (&weights[at.clone()], &d[at]);
        *mean += simd::vectorise(
            #[inline(always)]
            move || {
                let mut sums = [T::ZERO; LANES];
                for (a, d) in a.chunks_exact(LANES).zip(d.chunks_exact(LANES)) {
                    for l in 0..LANES {
                        let product = a[l] * d[l];
                        sums[l] += if a[l] == T::ZERO { T::ZERO } else { product };
                    }
                }
                sum_in_halves(sums)
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: f64 = f64::NEG_INFINITY;

    fn tile(rows: &[&[f64]]) -> Vec<f64> {
        let fill = |row: &&[f64]| {
            let mut row = row.to_vec();
            row.resize(LANES, NEVER);
            row
        };
        rows.iter().flat_map(fill).collect()
    }

    #[test]
    fn pieces_in_any_order_give_the_whole() {
        let pieces = [tile(&[&[1.0, 700.0]]), tile(&[&[NEVER]]), tile(&[&[-3.0, 701.0]])];
        let want = 701.0 + (1.0 + (-1f64).exp()).ln();
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let mut running = [Running::START];
            let mut context = [0.0];
            for piece in order {
                let mut scores = pieces[piece].clone();
                add_tile(&mut scores, LANES, LANES, &mut running, &mut context, 1);
                // The context of values that are all one is the sum of the weights.
                context[0] += scores.iter().sum::<f64>();
            }
            assert!((running[0].lse() - want).abs() < 1e-12);
            assert!((context[0] * running[0].scale() - 1.0).abs() < 1e-15);
        }
    }

    #[test]
    fn a_row_with_nothing_allowed_stays_zero() {
        let mut scores = tile(&[&[], &[2.0]]);
        let mut running = [Running::START; 2];
        add_tile(&mut scores, LANES, LANES, &mut running, &mut [0.0; 2], 1);
        assert_eq!((running[0].lse(), running[0].scale()), (NEVER, 0.0));
        assert!(scores[..LANES].iter().all(|p| *p == 0.0));
        assert_eq!(running[1].lse(), 2.0);

        let mut again = tile(&[&[]]);
        from_lse(&mut again, LANES, LANES, &[NEVER]);
        assert!(again.iter().all(|a| *a == 0.0));
    }

    #[test]
    fn a_nan_stays_in_its_pairs() {
        let mut scores = tile(&[&[f64::NAN, 1.0, NEVER]]);
        let mut row = scores.clone();
        let mut running = [Running::START];
        add_tile(&mut scores, LANES, LANES, &mut running, &mut [0.0], 1);
        assert!(running[0].lse().is_nan() && running[0].scale().is_nan());
        finish_weights(&mut row, running[0]);
        assert!(row[0].is_nan() && row[1].is_nan() && row[2] == 0.0);

        let mut weights = tile(&[&[f64::NAN, 1.0, NEVER]]);
        from_lse(&mut weights, LANES, LANES, &[f64::NAN]);
        let mut d = vec![f64::NAN; LANES];
        backward(&weights, &mut d, LANES, LANES, &[f64::NAN], 1.0);
        assert!(d[0].is_nan() && d[1].is_nan() && d[2..].iter().all(|d| *d == 0.0));
    }
}
