//! The matrix product of a tile for AVX-512: blocks of 12 × 32 numbers, in 24 of its 32 registers.
//!
//! By intrinsics, since the compiler does not keep so large a block of plain arrays in registers.
//! Sums run as in [`super::product`], so that their order is the same.

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mul_ps, _mm512_set1_ps,
    _mm512_setzero_ps, _mm512_storeu_ps,
};

use regard_tensor::Real;

use super::product::{COLUMNS, Left, Panels, Product};

/// C ← C + α·A·B, or C ← α·A·B.
///
/// # Safety
/// T is f32, and the processor has AVX-512F.
pub(super) unsafe fn compute<T: Real>(product: Product<'_, T>, add: bool) {
    let Product { c, stride, rows, left, right, alpha } = product;
    let Panels { data, stride: panel, step, depth, count } = right;
    // What follows checks nothing.
    let (a, a_stride, a_len, by_rows) = match left {
        Left::Rows { data, stride } => (data.as_ptr(), stride, data.len(), true),
        Left::Columns { data, stride } => (data.as_ptr(), stride, data.len(), false),
    };
    if rows == 0 || count == 0 {
        return;
    }
    let (lines, of_line) = if by_rows { (rows, depth) } else { (depth, rows) };
    assert!(depth == 0 || a_len >= (lines - 1) * a_stride + of_line, "A holds its elements");
    assert!(c.len() >= (rows - 1) * stride + count * COLUMNS, "C holds its elements");
    let last = (count - 1) * panel + depth.saturating_sub(1) * step;
    assert!(depth == 0 || data.len() >= last + COLUMNS, "B holds its elements");
    let all = All {
        a: a.cast(),
        a_stride,
        b: data.as_ptr().cast(),
        panel,
        b_step: step,
        depth,
        c: c.as_mut_ptr().cast(),
        stride,
        alpha: alpha.to_f64() as f32,
        add,
    };
    // SAFETY: the caller says that T is f32 and AVX-512F is there; all blocks lie inside the matrices, which hold
    // their elements as was just checked.
    unsafe {
        if by_rows {
            all.panels::<true>(rows, count);
        } else {
            all.panels::<false>(rows, count);
        }
    }
}

/// The three matrices.
#[derive(Clone, Copy)]
struct All {
    a: *const f32,
    a_stride: usize,
    b: *const f32,
    panel: usize,
    b_step: usize,
    depth: usize,
    c: *mut f32,
    stride: usize,
    alpha: f32,
    add: bool,
}

impl All {
    /// Every block, two panels at a time.
    ///
    /// # Safety
    /// AVX-512F is there; the matrices hold `rows` rows and `count` panels.
    #[target_feature(enable = "avx512f")]
    unsafe fn panels<const BY_ROWS: bool>(self, rows: usize, count: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut p = 0;
            while p + 2 <= count {
                self.rows::<BY_ROWS, 2>(rows, p);
                p += 2;
            }
            if p < count {
                self.rows::<BY_ROWS, 1>(rows, p);
            }
        }
    }

    /// All rows of P panels from panel `p` on.
    ///
    /// # Safety
    /// As [`All::panels`].
    #[target_feature(enable = "avx512f")]
    unsafe fn rows<const BY_ROWS: bool, const P: usize>(self, rows: usize, p: usize) {
        let mut i = 0;
        while i < rows {
            // SAFETY: the caller's promise.
            unsafe {
                i += match rows - i {
                    // Sixteen in halves, not as twelve and four.
                    16 => self.block::<BY_ROWS, 8, P>(i, p),
                    12.. => self.block::<BY_ROWS, 12, P>(i, p),
                    8.. => self.block::<BY_ROWS, 8, P>(i, p),
                    4.. => self.block::<BY_ROWS, 4, P>(i, p),
                    2.. => self.block::<BY_ROWS, 2, P>(i, p),
                    _ => self.block::<BY_ROWS, 1, P>(i, p),
                };
            }
        }
    }

    /// M rows from row `i` on of P panels from panel `p` on; returns M.
    ///
    /// # Safety
    /// As [`All::panels`]; the block lies inside C.
    #[target_feature(enable = "avx512f")]
    unsafe fn block<const BY_ROWS: bool, const M: usize, const P: usize>(
        self,
        i: usize,
        p: usize,
    ) -> usize {
        let Self { a, a_stride, b, panel, b_step, depth, c, stride, alpha, add } = self;
        let (row, step) = if BY_ROWS { (a_stride, 1) } else { (1, a_stride) };
        // SAFETY: the caller's promise: every address below belongs to the block's rows of A and C and to
        // its panels of B.
        unsafe {
            let a = a.add(i * row);
            let b = b.add(p * panel);
            let mut acc: [[__m512; P]; M] = [[_mm512_setzero_ps(); P]; M];
            for k in 0..depth {
                let mut columns = [_mm512_setzero_ps(); P];
                for x in 0..P {
                    columns[x] = _mm512_loadu_ps(b.add(x * panel + k * b_step));
                }
                for r in 0..M {
                    let a = _mm512_set1_ps(*a.add(r * row + k * step));
                    for x in 0..P {
                        acc[r][x] = _mm512_fmadd_ps(a, columns[x], acc[r][x]);
                    }
                }
            }
            let alpha = _mm512_set1_ps(alpha);
            for r in 0..M {
                for x in 0..P {
                    let c = c.add((i + r) * stride + (p + x) * COLUMNS);
                    let product = _mm512_mul_ps(alpha, acc[r][x]);
                    let sum =
                        if add { _mm512_add_ps(_mm512_loadu_ps(c), product) } else { product };
                    _mm512_storeu_ps(c, sum);
                }
            }
        }
        M
    }
}
