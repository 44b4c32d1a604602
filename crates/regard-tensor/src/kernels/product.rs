//! C ← C + α·A·B: the matrix product of a tile.
//!
//! C is computed in blocks of rows and one panel of columns, each held in registers for the whole sum: 6 × 16
//! numbers at a time; `product_x86` has the blocks of AVX2 and AVX-512. B is packed
//! so that a block reads it in order. Each element of C sums over the depth from first to last,
//! whatever the size of the tile or of the block: one more row of zeros in B changes no bit.

use crate::Real;
use crate::simd::{self, Kernel, Level, fma};

/// Columns of a panel of B.
pub const COLUMNS: usize = 16;

/// The left factor, m × depth.
#[derive(Clone, Copy)]
pub enum Left<'a, T> {
    /// `a_ik = data[i·stride + k]`
    Rows {
        /// The elements.
        data: &'a [T],
        /// Elements between rows.
        stride: usize,
    },
    /// `a_ik = data[k·stride + i]`: a tile read as its transpose.
    Columns {
        /// The elements.
        data: &'a [T],
        /// Elements between columns.
        stride: usize,
    },
}

impl<T: Copy> Left<'_, T> {
    /// a_ik
    pub fn at(&self, i: usize, k: usize) -> T {
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
pub struct Panels<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// Elements between panels.
    pub stride: usize,
    /// Elements between rows, at least W.
    pub step: usize,
    /// Rows.
    pub depth: usize,
    /// Number of panels.
    pub count: usize,
}

/// C ← C + α·A·B on m rows of `c` that are `stride` elements apart.
///
/// All columns of B's panels are written, so `stride` ≥ count·W.
pub struct Product<'a, T> {
    /// C: rows of which at least the panels' columns are its own.
    pub c: &'a mut [T],
    /// Elements between rows of C.
    pub stride: usize,
    /// Rows of A and C.
    pub rows: usize,
    /// A
    pub left: Left<'a, T>,
    /// B
    pub right: Panels<'a, T>,
    /// α
    pub alpha: T,
}

impl<T: Real> Product<'_, T> {
    /// C ← C + α·A·B
    ///
    /// # Panics
    /// If a matrix does not hold its elements.
    pub fn add(self) {
        self.compute(true);
    }

    /// C ← α·A·B
    ///
    /// # Panics
    /// If a matrix does not hold its elements.
    pub fn set(self) {
        self.compute(false);
    }

    fn compute(self, add: bool) {
        let Self { c, stride, rows, left, right, alpha } = self;
        if rows == 0 || right.count == 0 {
            return;
        }
        assert!(c.len() >= (rows - 1) * stride + right.count * COLUMNS, "C holds its elements");
        // SAFETY: C holds its elements, as was just checked, and is borrowed mutably.
        unsafe { Tile { c: c.as_mut_ptr(), stride, rows, left, right, alpha, add }.compute() }
    }
}

/// A product whose C is raw memory, so that threads can share one C by columns.
pub(super) struct Tile<'a, T> {
    pub(super) c: *mut T,
    pub(super) stride: usize,
    pub(super) rows: usize,
    pub(super) left: Left<'a, T>,
    pub(super) right: Panels<'a, T>,
    pub(super) alpha: T,
    /// Whether the product is added to what is in C.
    pub(super) add: bool,
}

/// Rows of a block: as many as the registers hold.
#[inline(always)]
const fn most_rows<T>() -> usize {
    if size_of::<T>() <= 4 { 6 } else { 2 }
}

impl<T: Real> Tile<'_, T> {
    /// The product.
    ///
    /// # Safety
    /// The elements `r·stride + x` of `c`, for all rows r and all columns x of B's panels, are valid for
    /// reads and writes, initialised, and nobody else's while this runs.
    pub(super) unsafe fn compute(self) {
        let Panels { data, stride: panel, step, depth, count } = self.right;
        if self.rows == 0 || count == 0 {
            return;
        }
        let (a_stride, a_len, lines, of_line) = match self.left {
            Left::Rows { data, stride } => (stride, data.len(), self.rows, depth),
            Left::Columns { data, stride } => (stride, data.len(), depth, self.rows),
        };
        assert!(depth == 0 || a_len >= (lines - 1) * a_stride + of_line, "A holds its elements");
        let last = (count - 1) * panel + depth.saturating_sub(1) * step;
        assert!(depth == 0 || data.len() >= last + COLUMNS, "B holds its elements");
        #[cfg(target_arch = "x86_64")]
        if let Some(all) = super::product_x86::All::new(&self) {
            match simd::level() {
                // SAFETY: the processor has what the level says; A and B hold their elements, as was just
                // checked, C by the caller's promise.
                Level::Avx512 => return unsafe { super::product_x86::avx512::compute(all) },
                // SAFETY: as above.
                Level::Avx2 => return unsafe { super::product_x86::avx2::compute(all) },
                Level::Plain => {}
            }
        }
        for p in 0..count {
            let mut i = 0;
            while i < self.rows {
                // SAFETY: the block lies in C, which is the caller's promise.
                i += unsafe {
                    match (self.rows - i).min(most_rows::<T>()) {
                        6.. => self.block::<6>(i, p),
                        4.. => self.block::<4>(i, p),
                        2.. => self.block::<2>(i, p),
                        _ => self.block::<1>(i, p),
                    }
                };
            }
        }
    }

    /// M rows of one panel of C, from row `i` on; returns M.
    ///
    /// # Safety
    /// As [`Tile::compute`].
    #[inline(always)]
    unsafe fn block<const M: usize>(&self, i: usize, p: usize) -> usize {
        let Panels { data, stride, step, depth, .. } = self.right;
        let b = Panel { data: &data[p * stride..], step, depth };
        let out: [&mut [T; COLUMNS]; M] = std::array::from_fn(|r| {
            // SAFETY: the caller's promise; the rows of a block do not overlap.
            unsafe { &mut *self.c.add((i + r) * self.stride + p * COLUMNS).cast() }
        });
        let out = Out { rows: out, alpha: self.alpha, add: self.add };
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
struct Out<'a, T, const M: usize> {
    rows: [&'a mut [T; COLUMNS]; M],
    alpha: T,
    /// Whether it is added to what is there.
    add: bool,
}

impl<T: Real, const M: usize> Out<'_, T, M> {
    #[inline(always)]
    fn store(self, acc: &[[T; COLUMNS]; M]) {
        let Self { rows, alpha, add } = self;
        for (row, acc) in rows.into_iter().zip(acc) {
            for l in 0..COLUMNS {
                let old = if add { row[l] } else { T::ZERO };
                row[l] = old + alpha * acc[l];
            }
        }
    }
}

/// One block, A by rows. A kernel of its own, so that the compiler sees one small function.
struct ByRows<'a, T, const M: usize> {
    a: &'a [T],
    stride: usize,
    b: Panel<'a, T>,
    out: Out<'a, T, M>,
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
    out: Out<'a, T, M>,
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
