//! The matrix product of a tile for AVX2 and AVX-512: blocks of 6 × 16 numbers in 12 of sixteen registers, and of
//! 12 × 32 in 24 of thirty-two.
//!
//! By intrinsics, since the compiler does not keep a block of plain arrays in registers reliably. Sums run as
//! in [`super::product`], so that their order is the same.

use super::product::{Left, Panels, Tile};
use crate::Real;

/// The three matrices.
#[derive(Clone, Copy)]
pub(super) struct All {
    a: *const f32,
    a_stride: usize,
    by_rows: bool,
    b: *const f32,
    panel: usize,
    b_step: usize,
    depth: usize,
    c: *mut f32,
    stride: usize,
    alpha: f32,
    add: bool,
    rows: usize,
    count: usize,
}

impl All {
    /// The matrices of a tile, if T is f32.
    pub(super) fn new<T: Real>(tile: &Tile<'_, T>) -> Option<Self> {
        if std::any::TypeId::of::<T>() != std::any::TypeId::of::<f32>() {
            return None;
        }
        let Tile { c, stride, rows, left, right, alpha, add } = *tile;
        let Panels { data, stride: panel, step, depth, count } = right;
        let (a, a_stride, by_rows) = match left {
            Left::Rows { data, stride } => (data.as_ptr(), stride, true),
            Left::Columns { data, stride } => (data.as_ptr(), stride, false),
        };
        Some(Self {
            a: a.cast(),
            a_stride,
            by_rows,
            b: data.as_ptr().cast(),
            panel,
            b_step: step,
            depth,
            c: c.cast(),
            stride,
            alpha: alpha.to_f64() as f32,
            add,
            rows,
            count,
        })
    }
}

/// The blocks of one instruction set: its name and features; vectors of so many lanes; panels of a block;
/// blocks of rows, most first.
macro_rules! blocks {
    ($name:ident, $features:literal, lanes $lanes:literal, panels $panels:literal, rows $rows:tt, zero $zero:ident,
     set $set:ident, load $load:ident, store $store:ident, fma $fma:ident, mul $mul:ident, add $add:ident) => {
        pub(super) mod $name {
            use std::arch::x86_64::{
                $add, $fma, $load, $mul, $set, $store, $zero, _MM_HINT_T0, _mm_prefetch,
            };

            use super::super::product::COLUMNS;
            use super::All;

            /// Panels that one row takes at a time: enough sums that none waits for itself, and B, where its rows lie side
            /// by side, is read as it lies.
            const ONE_ROW: usize = 4;

            /// Vectors of a panel's row.
            const VECTORS: usize = COLUMNS / $lanes;

            /// C ← C + α·A·B, or C ← α·A·B.
            ///
            /// # Safety
            /// The processor has the features, and the three matrices hold their elements, C for writes.
            #[target_feature(enable = $features)]
            pub(in super::super) unsafe fn compute(all: All) {
                // SAFETY: the caller's promise.
                unsafe {
                    if all.by_rows {
                        panels::<true>(all);
                    } else {
                        panels::<false>(all);
                    }
                }
            }

            /// Every block.
            ///
            /// # Safety
            /// As [`compute`].
            #[target_feature(enable = $features)]
            unsafe fn panels<const BY_ROWS: bool>(all: All) {
                let mut p = 0;
                // SAFETY: the caller's promise.
                unsafe {
                    while p < all.count {
                        p += if all.rows == 1 && all.count - p >= ONE_ROW {
                            block::<BY_ROWS, 1, { ONE_ROW * VECTORS }>(all, 0, p);
                            ONE_ROW
                        } else if all.count - p >= $panels {
                            rows::<BY_ROWS, { $panels * VECTORS }>(all, p);
                            $panels
                        } else {
                            rows::<BY_ROWS, VECTORS>(all, p);
                            1
                        };
                    }
                }
            }

            /// All rows of V vectors from panel `p` on.
            ///
            /// # Safety
            /// As [`compute`].
            #[target_feature(enable = $features)]
            unsafe fn rows<const BY_ROWS: bool, const V: usize>(all: All, p: usize) {
                let mut i = 0;
                while i < all.rows {
                    // SAFETY: the caller's promise.
                    i += unsafe { blocks!(@rows $rows, all, i, p, BY_ROWS, V) };
                }
            }

            /// M rows from row `i` on of V vectors from panel `p` on; returns M.
            ///
            /// # Safety
            /// As [`compute`]; the block lies inside C.
            #[target_feature(enable = $features)]
            unsafe fn block<const BY_ROWS: bool, const M: usize, const V: usize>(
                all: All,
                i: usize,
                p: usize,
            ) -> usize {
                let All { a, a_stride, b, panel, b_step, depth, c, stride, alpha, add, .. } = all;
                let (row, step) = if BY_ROWS { (a_stride, 1) } else { (1, a_stride) };
                // SAFETY: the caller's promise: every address below belongs to the block's rows of A and C and
                // to its panels of B.
                unsafe {
                    let a = a.add(i * row);
                    let b = b.add(p * panel);
                    let place = |x: usize| {
                        let p = x * $lanes / COLUMNS;
                        p * panel + x * $lanes - p * COLUMNS
                    };
                    // C is written at the end, so that its lines have the whole sum's time to come.
                    for r in 0..M {
                        for x in 0..V / VECTORS {
                            let c = c.add((i + r) * stride + (p + x) * COLUMNS);
                            _mm_prefetch::<_MM_HINT_T0>(c.cast());
                        }
                    }
                    let mut acc = [[$zero(); V]; M];
                    for k in 0..depth {
                        let mut columns = [$zero(); V];
                        for x in 0..V {
                            columns[x] = $load(b.add(place(x) + k * b_step));
                        }
                        for r in 0..M {
                            let a = $set(*a.add(r * row + k * step));
                            for x in 0..V {
                                acc[r][x] = $fma(a, columns[x], acc[r][x]);
                            }
                        }
                    }
                    let alpha = $set(alpha);
                    for r in 0..M {
                        for x in 0..V {
                            let c = c.add((i + r) * stride + p * COLUMNS + x * $lanes);
                            let product = $mul(alpha, acc[r][x]);
                            $store(c, if add { $add($load(c), product) } else { product });
                        }
                    }
                }
                M
            }
        }
    };
    (@rows avx2, $all:ident, $i:ident, $p:ident, $by_rows:ident, $v:ident) => {
        match $all.rows - $i {
            6.. => block::<$by_rows, 6, $v>($all, $i, $p),
            4.. => block::<$by_rows, 4, $v>($all, $i, $p),
            2.. => block::<$by_rows, 2, $v>($all, $i, $p),
            _ => block::<$by_rows, 1, $v>($all, $i, $p),
        }
    };
    (@rows avx512, $all:ident, $i:ident, $p:ident, $by_rows:ident, $v:ident) => {
        match $all.rows - $i {
            // Sixteen in halves, not as twelve and four.
            16 => block::<$by_rows, 8, $v>($all, $i, $p),
            12.. => block::<$by_rows, 12, $v>($all, $i, $p),
            8.. => block::<$by_rows, 8, $v>($all, $i, $p),
            4.. => block::<$by_rows, 4, $v>($all, $i, $p),
            2.. => block::<$by_rows, 2, $v>($all, $i, $p),
            _ => block::<$by_rows, 1, $v>($all, $i, $p),
        }
    };
}

blocks!(
    avx2, "avx2,fma", lanes 8, panels 1, rows avx2, zero _mm256_setzero_ps, set _mm256_set1_ps, load _mm256_loadu_ps,
    store _mm256_storeu_ps, fma _mm256_fmadd_ps, mul _mm256_mul_ps, add _mm256_add_ps
);
blocks!(
    avx512, "avx512f", lanes 16, panels 2, rows avx512, zero _mm512_setzero_ps, set _mm512_set1_ps, load _mm512_loadu_ps,
    store _mm512_storeu_ps, fma _mm512_fmadd_ps, mul _mm512_mul_ps, add _mm512_add_ps
);
