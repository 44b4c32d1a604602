//! C ← β·C + α·A·B on strided matrices.
//!
//! The single-threaded product of one block is the `gemm` crate's; the split into blocks is ours
//! and depends on the shape alone, so the result has the same bits for any number of threads.

use rayon::prelude::*;

use crate::Real;

/// A strided matrix to read.
#[derive(Clone, Copy)]
pub struct Mat<'a, T> {
    data: &'a [T],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

/// Last index used by a strided matrix, plus one.
fn extent(rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> usize {
    if rows == 0 || cols == 0 { 0 } else { (rows - 1) * row_stride + (cols - 1) * col_stride + 1 }
}

impl<'a, T: Real> Mat<'a, T> {
    /// A contiguous row-major matrix.
    ///
    /// # Panics
    /// If `data` is shorter than rows × cols.
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> Self {
        Self::strided(data, rows, cols, cols)
    }

    /// Rows `row_stride` elements apart, columns adjacent.
    ///
    /// # Panics
    /// If the last element lies behind the slice.
    pub fn strided(data: &'a [T], rows: usize, cols: usize, row_stride: usize) -> Self {
        assert!(extent(rows, cols, row_stride, 1) <= data.len(), "a matrix lies inside its slice");
        Self { data, rows, cols, row_stride, col_stride: 1 }
    }

    /// The transpose; nothing is copied.
    #[must_use]
    pub fn t(self) -> Self {
        Self {
            data: self.data,
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
        }
    }
}

/// A strided matrix to write: columns adjacent.
pub struct MatMut<'a, T> {
    data: &'a mut [T],
    rows: usize,
    cols: usize,
    row_stride: usize,
}

impl<'a, T: Real> MatMut<'a, T> {
    /// A contiguous row-major matrix.
    ///
    /// # Panics
    /// If `data` is shorter than rows × cols.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize) -> Self {
        Self::strided(data, rows, cols, cols)
    }

    /// Rows `row_stride` elements apart.
    ///
    /// # Panics
    /// If the last element lies behind the slice, or rows overlap.
    pub fn strided(data: &'a mut [T], rows: usize, cols: usize, row_stride: usize) -> Self {
        assert!(extent(rows, cols, row_stride, 1) <= data.len(), "a matrix lies inside its slice");
        assert!(rows <= 1 || row_stride >= cols, "rows of an output do not overlap");
        Self { data, rows, cols, row_stride }
    }
}

/// A raw output pointer handed to tasks that write disjoint blocks.
#[derive(Clone, Copy)]
struct Out<T>(*mut T);
// SAFETY: each task writes its own block; see `matmul`.
unsafe impl<T> Send for Out<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Out<T> {}

impl<T> Out<T> {
    fn get(self) -> *mut T {
        self.0
    }
}

/// Multiply-adds below which a product stays on the calling thread.
const SERIAL: usize = 1 << 18;

/// C ← β·C + α·A·B. With β = 0, C is not read.
///
/// `a` is m × k, `b` k × n, `c` m × n. Cost 2·m·n·k operations; scratch for packed panels only.
///
/// # Panics
/// If the inner or outer sizes disagree: shapes are checked where they come in.
#[expect(clippy::needless_pass_by_value, reason = "the three matrices are given alike")]
pub fn matmul<T: Real>(c: MatMut<'_, T>, beta: f64, alpha: f64, a: Mat<'_, T>, b: Mat<'_, T>) {
    let (m, n, k) = (c.rows, c.cols, a.cols);
    assert!(a.rows == m && b.cols == n && b.rows == k, "matrix sizes agree");
    if m == 0 || n == 0 {
        return;
    }
    let (alpha, beta) = (T::from_f64(alpha), T::from_f64(beta));
    if k == 0 {
        for i in 0..m {
            for x in &mut c.data[i * c.row_stride..i * c.row_stride + n] {
                *x = if beta == T::ZERO { T::ZERO } else { *x * beta };
            }
        }
        return;
    }
    let (row_stride, out) = (c.row_stride, Out(c.data.as_mut_ptr()));
    let block = |i0: usize, i1: usize, j0: usize, j1: usize| {
        // SAFETY: the constructors checked that every index lies inside the slices; `c` is
        // borrowed mutably, so it overlaps neither input; blocks are disjoint.
        unsafe {
            T::gemm(
                i1 - i0,
                j1 - j0,
                k,
                (out.get().add(i0 * row_stride + j0), row_stride as isize, 1),
                beta,
                (
                    a.data.as_ptr().add(i0 * a.row_stride),
                    a.row_stride as isize,
                    a.col_stride as isize,
                ),
                (
                    b.data.as_ptr().add(j0 * b.col_stride),
                    b.row_stride as isize,
                    b.col_stride as isize,
                ),
                alpha,
            );
        }
    };
    if m * n * k < SERIAL {
        block(0, m, 0, n);
        return;
    }
    // Cut the longer side into at most eight pieces of at least 48: enough pieces to balance a
    // few cores, few enough that packing the other side again costs little.
    let long = m.max(n);
    let pieces = (long / 48).clamp(1, 8);
    let step = long.div_ceil(pieces).next_multiple_of(16);
    (0..long.div_ceil(step)).into_par_iter().for_each(|p| {
        let (lo, hi) = (p * step, ((p + 1) * step).min(long));
        if m >= n { block(lo, hi, 0, n) } else { block(0, m, lo, hi) }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn plain(a: &[f64], b: &[f64], m: usize, n: usize, k: usize) -> Vec<f64> {
        let mut c = vec![0.0; m * n];
        for i in 0..m {
            for j in 0..n {
                c[i * n + j] = (0..k).map(|p| a[i * k + p] * b[p * n + j]).sum();
            }
        }
        c
    }

    #[test]
    fn products_equal_the_plain_loop_in_every_layout() {
        for (m, n, k) in [(1, 1, 1), (2, 3, 5), (17, 13, 7), (0, 3, 2), (3, 2, 0), (97, 131, 61)] {
            let key = Key::new(7);
            let a: Vec<f64> = (0..m * k).map(|i| key.normal(i as u32)).collect();
            let b: Vec<f64> = (0..k * n).map(|i| key.normal(9999 + i as u32)).collect();
            let want = plain(&a, &b, m, n, k);
            let at: Vec<f64> = (0..k * m).map(|i| a[(i % m) * k + i / m]).collect();
            let bt: Vec<f64> = (0..n * k).map(|i| b[(i % k) * n + i / k]).collect();
            let layouts = [
                (Mat::new(&a, m, k), Mat::new(&b, k, n)),
                (Mat::new(&at, k, m).t(), Mat::new(&b, k, n)),
                (Mat::new(&a, m, k), Mat::new(&bt, n, k).t()),
                (Mat::new(&at, k, m).t(), Mat::new(&bt, n, k).t()),
            ];
            for (x, y) in layouts {
                let mut c = vec![2.0; m * n];
                matmul(MatMut::new(&mut c, m, n), 0.5, 3.0, x, y);
                for (got, want) in c.iter().zip(&want) {
                    assert!((got - (1.0 + 3.0 * want)).abs() < 1e-12 * (k as f64 + 1.0) * 10.0);
                }
            }
        }
    }

    #[test]
    fn beta_zero_does_not_read_the_output() {
        let mut c = vec![f32::NAN; 4];
        let a = [1.0f32, 2.0, 3.0, 4.0];
        matmul(MatMut::new(&mut c, 2, 2), 0.0, 1.0, Mat::new(&a, 2, 2), Mat::new(&a, 2, 2));
        assert_eq!(c, [7.0, 10.0, 15.0, 22.0]);
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        let key = Key::new(1);
        let (m, n, k) = (257, 131, 93);
        let a: Vec<f32> = (0..m * k).map(|i| key.normal(i as u32) as f32).collect();
        let b: Vec<f32> = (0..k * n).map(|i| key.normal(5 + i as u32) as f32).collect();
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut c = vec![0.0f32; m * n];
            pool.install(|| {
                matmul(MatMut::new(&mut c, m, n), 0.0, 1.0, Mat::new(&a, m, k), Mat::new(&b, k, n));
            });
            c.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        let one = run(1);
        assert!((2..=4).all(|threads| run(threads) == one));
    }
}
