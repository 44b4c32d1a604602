//! C ← C + α·A·B: the matrix product of a tile.
//!
//! C is computed in blocks of six rows and one cache line of columns, each held in registers
//! (twelve of AVX2's sixteen) for the whole sum; B is packed so that a block reads it in order.
//! Each element of C sums over the depth from first to last, whatever the size of the tile: one
//! more row of zeros in B changes no bit.

use regard_tensor::Real;
use regard_tensor::simd::{self, Kernel, fma};

/// Rows of a block.
const BLOCK_ROWS: usize = 6;

/// Columns of a block: one cache line.
#[inline(always)]
pub(crate) const fn block_columns<T>() -> usize {
    64 / size_of::<T>()
}

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

/// The right factor, depth × n, packed: `b_kj = data[(j / W)·stride + k·W + j % W]`, where W is
/// [`block_columns`].
#[derive(Clone, Copy)]
pub(crate) struct Panels<'a, T> {
    pub(crate) data: &'a [T],
    /// Elements between panels, at least depth·W.
    pub(crate) stride: usize,
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
    pub(crate) fn compute(self) {
        // The number of columns must be a constant for the block to live in registers.
        match block_columns::<T>() {
            16 => self.all_blocks::<16>(),
            _ => self.all_blocks::<8>(),
        }
    }

    fn all_blocks<const N: usize>(self) {
        let Self { c, stride, rows, left, right, alpha } = self;
        for p in 0..right.count {
            let b = &right.data[p * right.stride..p * right.stride + right.depth * N];
            for i in (0..rows).step_by(BLOCK_ROWS) {
                let c = &mut c[i * stride + p * N..];
                match rows - i {
                    1 => block::<T, 1, N>(left, i, b, c, stride, alpha),
                    2 => block::<T, 2, N>(left, i, b, c, stride, alpha),
                    3 => block::<T, 3, N>(left, i, b, c, stride, alpha),
                    4 => block::<T, 4, N>(left, i, b, c, stride, alpha),
                    5 => block::<T, 5, N>(left, i, b, c, stride, alpha),
                    _ => block::<T, BLOCK_ROWS, N>(left, i, b, c, stride, alpha),
                }
            }
        }
    }
}

/// M × N elements of C, from rows `i..i + M` of A and one panel of B.
#[inline(always)]
fn block<T: Real, const M: usize, const N: usize>(
    left: Left<'_, T>,
    i: usize,
    b: &[T],
    c: &mut [T],
    c_stride: usize,
    alpha: T,
) {
    match left {
        Left::Rows { data, stride } => {
            simd::run(ByRows::<T, M, N> { a: &data[i * stride..], stride, b, c, c_stride, alpha });
        }
        Left::Columns { data, stride } => {
            simd::run(ByColumns::<T, M, N> { a: &data[i..], stride, b, c, c_stride, alpha });
        }
    }
}

/// One block, A by rows. A kernel of its own, so that the compiler sees one small function.
struct ByRows<'a, T, const M: usize, const N: usize> {
    a: &'a [T],
    stride: usize,
    b: &'a [T],
    c: &'a mut [T],
    c_stride: usize,
    alpha: T,
}

impl<T: Real, const M: usize, const N: usize> Kernel for ByRows<'_, T, M, N> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { a, stride, b, c, c_stride, alpha } = self;
        let depth = b.len() / N;
        let a: [&[T]; M] = std::array::from_fn(|r| &a[r * stride..r * stride + depth]);
        let mut acc = [[T::ZERO; N]; M];
        for (k, b) in b.chunks_exact(N).enumerate() {
            for r in 0..M {
                add_scaled::<T, N, FMA>(&mut acc[r], a[r][k], b);
            }
        }
        for r in 0..M {
            add_scaled_to(&mut c[r * c_stride..r * c_stride + N], alpha, &acc[r]);
        }
    }
}

/// As [`ByRows`], A by columns.
struct ByColumns<'a, T, const M: usize, const N: usize> {
    a: &'a [T],
    stride: usize,
    b: &'a [T],
    c: &'a mut [T],
    c_stride: usize,
    alpha: T,
}

impl<T: Real, const M: usize, const N: usize> Kernel for ByColumns<'_, T, M, N> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { a, stride, b, c, c_stride, alpha } = self;
        let mut acc = [[T::ZERO; N]; M];
        for (a, b) in a.chunks(stride).zip(b.chunks_exact(N)) {
            let a = &a[..M];
            for r in 0..M {
                add_scaled::<T, N, FMA>(&mut acc[r], a[r], b);
            }
        }
        for r in 0..M {
            add_scaled_to(&mut c[r * c_stride..r * c_stride + N], alpha, &acc[r]);
        }
    }
}

/// acc ← acc + x·b
#[inline(always)]
fn add_scaled<T: Real, const N: usize, const FMA: bool>(acc: &mut [T; N], x: T, b: &[T]) {
    let b: &[T; N] = b.try_into().expect("a chunk of N");
    for l in 0..N {
        acc[l] = fma::<T, FMA>(x, b[l], acc[l]);
    }
}

/// c ← c + α·acc
#[inline(always)]
fn add_scaled_to<T: Real, const N: usize>(c: &mut [T], alpha: T, acc: &[T; N]) {
    let c: &mut [T; N] = c.try_into().expect("a row of N");
    for l in 0..N {
        c[l] += alpha * acc[l];
    }
}
