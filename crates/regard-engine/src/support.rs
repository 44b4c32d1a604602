//! Which weights of a tile are not 0, for normalisers that make most of them 0: products with the tile then go over those
//! alone. A term that is left out would have added 0, so the sums have the bits of whole products.

use regard_attn::Call;
use regard_attn::score::Block;
use regard_tensor::kernels::product::COLUMNS;
use regard_tensor::kernels::select;
use regard_tensor::kernels::softmax::sum_in_halves;
use regard_tensor::simd::{self, Kernel, fma};
use regard_tensor::{Real, kernels::reduce};

use crate::pack::Source;
use crate::plan::{KEYS, QUERIES};

/// A product over the support pays off where at most one weight in so many is not 0.
const SPARSE: usize = 8;

/// Weights of a row up to which the gradients of its weights are dots, one for each.
pub(crate) const FEW: usize = 64;

/// Panels of a row that are added up together, in registers.
const TOGETHER: usize = 4;

/// The places of a tile that are not 0.
#[derive(Debug, Clone)]
pub(crate) struct Support {
    rows: usize,
    /// Keys.
    n: usize,
    /// Bit j of entry i, and bit i of entry j.
    of_query: [u64; QUERIES],
    of_key: [u64; KEYS],
    count: usize,
}

impl Support {
    /// That of `rows` rows of `n` weights, `stride` apart.
    pub(crate) fn of<T: Real>(weights: &[T], stride: usize, rows: usize, n: usize) -> Self {
        let mut support = Self { rows, n, of_query: [0; QUERIES], of_key: [0; KEYS], count: 0 };
        for i in 0..rows {
            let seen = select::nonzero(&weights[i * stride..i * stride + n]);
            support.of_query[i] = seen;
            support.count += seen.count_ones() as usize;
            for j in bits(seen) {
                support.of_key[j] |= 1 << i;
            }
        }
        support
    }

    /// As [`Support::of`], where the call's normaliser makes most weights 0.
    pub(crate) fn of_sparse<T: Real>(
        call: &Call<'_, T>,
        weights: &[T],
        stride: usize,
        rows: usize,
        n: usize,
    ) -> Option<Self> {
        call.normaliser.is_sparse().then(|| Self::of(weights, stride, rows, n))
    }

    /// Whether products over it pay off.
    pub(crate) fn is_sparse(&self) -> bool {
        self.count * SPARSE <= self.rows * self.n
    }

    /// `c_i += α·Σ_j w_ij b_j`, rows of c `c_stride` apart; rows of b are whole panels wide.
    pub(crate) fn add<T: Real>(
        &self,
        c: &mut [T],
        c_stride: usize,
        (weights, stride): (&[T], usize),
        alpha: T,
        b: Block<'_, T>,
    ) {
        let masks = &self.of_query[..self.rows];
        simd::run(Sums { c, c_stride, masks, weights, outer: stride, inner: 1, alpha, b });
    }

    /// `c_j += α·Σ_i w_ij b_i`, the same by key.
    pub(crate) fn add_by_key<T: Real>(
        &self,
        c: &mut [T],
        c_stride: usize,
        (weights, stride): (&[T], usize),
        alpha: T,
        b: Block<'_, T>,
    ) {
        let masks = &self.of_key;
        simd::run(Sums { c, c_stride, masks, weights, outer: 1, inner: stride, alpha, b });
    }

    /// `out_ij = a_i·b_j` at the places of the rows i of `of`, a mask; elsewhere in those rows 0. Key j is row `first + j` of b.
    pub(crate) fn dots<T: Real>(
        &self,
        out: &mut [T],
        stride: usize,
        of: u64,
        a: Block<'_, T>,
        b: Source<'_, T>,
        first: usize,
        n: usize,
    ) {
        simd::run(Dots { masks: &self.of_query[..self.rows], of, out, stride, a, b, first, n });
    }

    /// Rows of the tile, as a mask.
    pub(crate) fn all_rows(&self) -> u64 {
        if self.rows == 64 { u64::MAX } else { (1 << self.rows) - 1 }
    }
}

/// The indices of the bits that are set, ascending.
#[inline(always)]
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        next
    })
}

/// Sums of rows of b, those of each mask with its weights.
struct Sums<'a, T> {
    c: &'a mut [T],
    c_stride: usize,
    masks: &'a [u64],
    /// Weight of row n of b in sum i at `i·outer + n·inner`.
    weights: &'a [T],
    outer: usize,
    inner: usize,
    alpha: T,
    b: Block<'a, T>,
}

impl<T: Real> Sums<'_, T> {
    /// N panels of sum i, from column `at` on.
    #[inline(always)]
    fn panels<const N: usize, const FMA: bool>(&mut self, i: usize, at: usize) {
        let mut sums = [[T::ZERO; COLUMNS]; N];
        let mut mask = self.masks[i];
        while mask != 0 {
            let n = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let weight = self.weights[i * self.outer + n * self.inner];
            let row = &self.b.data[n * self.b.stride + at..][..N * COLUMNS];
            for (sums, x) in sums.iter_mut().zip(row.as_chunks::<COLUMNS>().0) {
                for l in 0..COLUMNS {
                    sums[l] = fma::<T, FMA>(weight, x[l], sums[l]);
                }
            }
        }
        let out = &mut self.c[i * self.c_stride + at..][..N * COLUMNS];
        for (out, sums) in out.as_chunks_mut::<COLUMNS>().0.iter_mut().zip(sums) {
            for l in 0..COLUMNS {
                out[l] += self.alpha * sums[l];
            }
        }
    }
}

impl<T: Real> Kernel for Sums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(mut self) {
        let panels = self.b.width.div_ceil(COLUMNS);
        for i in 0..self.masks.len() {
            if self.masks[i] == 0 {
                continue;
            }
            let mut first = 0;
            while first + TOGETHER <= panels {
                self.panels::<TOGETHER, FMA>(i, first * COLUMNS);
                first += TOGETHER;
            }
            while first < panels {
                self.panels::<1, FMA>(i, first * COLUMNS);
                first += 1;
            }
        }
    }
}

/// Dots at the places of some rows.
struct Dots<'a, T> {
    masks: &'a [u64],
    of: u64,
    out: &'a mut [T],
    stride: usize,
    a: Block<'a, T>,
    b: Source<'a, T>,
    first: usize,
    n: usize,
}

impl<T: Real> Kernel for Dots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { masks, of, out, stride, a, b, first, n } = self;
        for (i, seen) in masks.iter().enumerate() {
            if of >> i & 1 == 0 {
                continue;
            }
            let out = &mut out[i * stride..i * stride + n];
            out.fill(T::ZERO);
            let mut seen = *seen;
            while seen != 0 {
                let j = seen.trailing_zeros() as usize;
                seen &= seen - 1;
                out[j] = dot::<T, FMA>(a.row(i), b.row(first + j));
            }
        }
    }
}

/// Σ_c a_c b_c, by lanes.
#[inline(always)]
fn dot<T: Real, const FMA: bool>(a: &[T], b: &[T]) -> T {
    let ((a, few_a), (b, few_b)) = (a.as_chunks::<COLUMNS>(), b.as_chunks::<COLUMNS>());
    let mut sums = [T::ZERO; COLUMNS];
    for (a, b) in a.iter().zip(b) {
        for l in 0..COLUMNS {
            sums[l] = fma::<T, FMA>(a[l], b[l], sums[l]);
        }
    }
    let sum = sum_in_halves(sums);
    if few_a.is_empty() { sum } else { sum + reduce::dot(few_a, few_b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::Along;
    use regard_attn::Rows;
    use regard_tensor::kernels::product::Left;
    use regard_testkit::random_vec;

    /// Sums over the support have the bits of whole products, with NaN and infinities where the weight is 0, too.
    #[test]
    fn sums_over_the_support_are_those_of_whole_products() {
        fn same<T: Real>() {
            let cast =
                |seed, n| -> Vec<T> { random_vec(seed, n).into_iter().map(T::from_f64).collect() };
            for (rows, n, width) in
                [(1, 1, 3), (64, 64, 64), (17, 33, 16), (40, 7, 100), (5, 64, 80)]
            {
                let stride = 70;
                let mut weights = cast(1, rows * stride);
                for (place, w) in weights.iter_mut().enumerate() {
                    if (place / stride * 7 + place % stride * 3) % 11 > 1 {
                        *w = T::ZERO;
                    }
                }
                let support = Support::of(&weights, stride, rows, n);
                for by_key in [false, true] {
                    let (outer, inner) = if by_key { (n, rows) } else { (rows, n) };
                    let mut b = cast(2, inner * width);
                    for odd in [false, true] {
                        if odd {
                            b[0] = T::from_f64(f64::NAN);
                            b[(inner - 1) * width] = T::from_f64(f64::INFINITY);
                            for o in 0..outer {
                                for i in [0, inner - 1] {
                                    weights[if by_key { i * stride + o } else { o * stride + i }] =
                                        T::ZERO;
                                }
                            }
                        }
                        let support = if odd {
                            Support::of(&weights, stride, rows, n)
                        } else {
                            support.clone()
                        };
                        let source = Source::new(
                            Rows { data: &b, row_stride: width, head_stride: 0 },
                            0,
                            0,
                            width,
                        );
                        let mut along = Along::new();
                        along.pack(source, 0..inner);
                        let c_stride = width.next_multiple_of(COLUMNS);
                        let start = cast(3, outer * c_stride);
                        let (mut got, mut want) = (start.clone(), start);
                        let alpha = T::from_f64(0.3);
                        let (all, given) = (along.panels_of(&(0..inner)), (&weights[..], stride));
                        let left = if by_key {
                            support.add_by_key(&mut got, c_stride, given, alpha, all);
                            Left::Columns { data: &weights, stride }
                        } else {
                            support.add(&mut got, c_stride, given, alpha, all);
                            Left::Rows { data: &weights, stride }
                        };
                        along.add_weighted(&mut want, c_stride, outer, left, alpha, &(0..inner));
                        for (got, want) in got.chunks(c_stride).zip(want.chunks(c_stride)) {
                            assert_eq!(
                                got[..width],
                                want[..width],
                                "{rows} {n} {width} {by_key} {odd}"
                            );
                        }
                    }
                }
            }
        }
        same::<f32>();
        same::<f64>();
    }

    #[test]
    fn places_are_counted_and_turned_over() {
        let mut weights = vec![0.0f32; 3 * 20];
        for place in [0, 17, 20, 59] {
            weights[place] = f32::NAN;
        }
        let support = Support::of(&weights, 20, 3, 20);
        assert_eq!(support.of_query[..3], [1 | 1 << 17, 1, 1 << 19]);
        assert_eq!((support.of_key[0], support.of_key[17], support.of_key[19]), (0b11, 1, 0b100));
        assert_eq!((support.count, support.all_rows()), (4, 0b111));
        assert!(support.is_sparse());
        assert!(!Support::of(&[1.0f32; 20], 20, 1, 20).is_sparse());
    }
}
