//! C ← C + α·A·B: the matrix product of a tile.
//!
//! C is computed in blocks of rows and one panel of columns, each held in registers for the whole sum: 6 × 16
//! numbers for AVX2 (twelve of its sixteen registers); for AVX-512 see [`super::product_avx512`]. B is packed
//! so that a block reads it in order. Each element of C sums over the depth from first to last,
//! whatever the size of the tile or of the block: one more row of zeros in B changes no bit.

use std::any::TypeId;

use regard_tensor::Real;
use regard_tensor::simd::{self, Kernel, Level, fma};

/// Columns of a panel of B.
pub(crate) const COLUMNS: usize = super::LANES;

/// The left factor, m × depth.
#[derive(Clone, Copy)]
pub(crate) enum Left<'a, T> {
    /// `a_ik = data[i·stride + k]`
    Rows { data: &'a [T], stride: usize },
    /// `a_ik = data[k·stride + i]`: a tile read as its transpose.
    Columns { data: &'a [T], stride: usize },
}

impl<T: Copy> Left<'_, T> {
    pub(crate) fn at(&self, i: usize, k: usize) -> T {
        match *self {
            Left::Rows { data, stride } => data[i * stride + k],
            Left::Columns { data, stride } => data[k * stride + i],
        }
    }
}

/// The right factor, depth × n, in panels of W = [`COLUMNS`] columns:
/// `b_kj = data[(j / W)·stride + k·step + j % W]`. Packed panels follow each other (step W); panels of rows lie
/// side by side (stride W).
#[derive(Clone, Copy)]
pub(crate) struct Panels<'a, T> {
    pub(crate) data: &'a [T],
    /// Elements between panels.
    pub(crate) stride: usize,
    /// Elements between rows, at least W.
    pub(crate) step: usize,
    pub(crate) depth: usize,
    /// Number of panels.
    pub(crate) count: usize,
}

/// C ← C + α·A·B on m rows of `c` that are `stride` elements apart.
///
/// All columns of B's panels are written, so `stride` ≥ count·W.
pub(crate) struct Product<'a, T> {
    pub(crate) c: &'a mut [T],
    pub(crate) stride: usize,
    pub(crate) rows: usize,
    pub(crate) left: Left<'a, T>,
    pub(crate) right: Panels<'a, T>,
    pub(crate) alpha: T,
}

impl<T: Real> Product<'_, T> {
    /// C ← C + α·A·B
    pub(crate) fn add(self) {
        self.compute(true);
    }

    /// C ← α·A·B
    pub(crate) fn set(self) {
        self.compute(false);
    }

    fn compute(mut self, add: bool) {
        #[cfg(target_arch = "x86_64")]
        if simd::level() == Level::Avx512 && TypeId::of::<T>() == TypeId::of::<f32>() {
            // SAFETY: T is f32 and the processor has AVX-512.
            return unsafe { super::product_avx512::compute(self, add) };
        }
        for p in 0..self.right.count {
            let mut i = 0;
            while i < self.rows {
                i += match self.rows - i {
                    6.. => self.block::<6>(i, p, add),
                    4.. => self.block::<4>(i, p, add),
                    2.. => self.block::<2>(i, p, add),
                    _ => self.block::<1>(i, p, add),
                };
            }
        }
    }

    /// M rows of one panel of C, from row `i` on; returns M.
    #[inline(always)]
    fn block<const M: usize>(&mut self, i: usize, p: usize, add: bool) -> usize {
        let Panels { data, stride, step, depth, .. } = self.right;
        let b = Panel { data: &data[p * stride..], step, depth };
        let c = &mut self.c[i * self.stride + p * COLUMNS..];
        let out = Out { c, stride: self.stride, alpha: self.alpha, add };
        match self.left {
            Left::Rows { data, stride } => {
                simd::run_narrow(ByRows::<T, M> { a: &data[i * stride..], stride, b, out });
            }
            Left::Columns { data, stride } => {
                simd::run_narrow(ByColumns::<T, M> { a: &data[i..], stride, b, out });
            }
        }
        M
    }
}

/// One panel of B.
struct Panel<'a, T> {
    data: &'a [T],
    step: usize,
    depth: usize,
}

impl<T> Panel<'_, T> {
    /// Row k of the panel.
    #[inline(always)]
    fn row(&self, k: usize) -> &[T; COLUMNS] {
        let row = &self.data[k * self.step..k * self.step + COLUMNS];
        row.try_into().expect("a row of a panel")
    }
}

/// Where a block of C goes.
struct Out<'a, T> {
    c: &'a mut [T],
    stride: usize,
    alpha: T,
    /// Whether it is added to what is there.
    add: bool,
}

impl<T: Real> Out<'_, T> {
    #[inline(always)]
    fn store<const M: usize>(self, acc: &[[T; COLUMNS]; M]) {
        let Self { c, stride, alpha, add } = self;
        for r in 0..M {
            let c = &mut c[r * stride..r * stride + COLUMNS];
            let c: &mut [T; COLUMNS] = c.try_into().expect("a row of a panel");
            for l in 0..COLUMNS {
                let old = if add { c[l] } else { T::ZERO };
                c[l] = old + alpha * acc[r][l];
            }
        }
    }
}

/// One block, A by rows. A kernel of its own, so that the compiler sees one small function.
struct ByRows<'a, T, const M: usize> {
    a: &'a [T],
    stride: usize,
    b: Panel<'a, T>,
    out: Out<'a, T>,
}

impl<T: Real, const M: usize> Kernel for ByRows<'_, T, M> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { a, stride, b, out } = self;
        let a: [&[T]; M] = std::array::from_fn(|r| &a[r * stride..r * stride + b.depth]);
        let mut acc = [[T::ZERO; COLUMNS]; M];
        for k in 0..b.depth {
            for r in 0..M {
                add_scaled::<T, FMA>(&mut acc[r], a[r][k], b.row(k));
            }
        }
        out.store(&acc);
    }
}

/// As [`ByRows`], A by columns.
struct ByColumns<'a, T, const M: usize> {
    a: &'a [T],
    stride: usize,
    b: Panel<'a, T>,
    out: Out<'a, T>,
}

impl<T: Real, const M: usize> Kernel for ByColumns<'_, T, M> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { a, stride, b, out } = self;
        let mut acc = [[T::ZERO; COLUMNS]; M];
        for (k, a) in a.chunks(stride).take(b.depth).enumerate() {
            let a = &a[..M];
            for r in 0..M {
                add_scaled::<T, FMA>(&mut acc[r], a[r], b.row(k));
            }
        }
        out.store(&acc);
    }
}

/// acc ← acc + x·b
#[inline(always)]
fn add_scaled<T: Real, const FMA: bool>(acc: &mut [T; COLUMNS], x: T, b: &[T; COLUMNS]) {
    for l in 0..COLUMNS {
        acc[l] = fma::<T, FMA>(x, b[l], acc[l]);
    }
}
