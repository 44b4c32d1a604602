//! C ← β·C + α·A·B on strided matrices.
//!
//! B is packed into panels of sixteen columns, C computed block by block by [`super::product`], over pieces of the
//! depth that the caches hold. Each element sums over the depth from first to last in pieces of one
//! size, so it has the same bits for any number of threads, and whatever other rows and columns are in C.

mod matrix;
mod packed;

use std::ops::Range;

use rayon::prelude::*;

use super::product::{COLUMNS, Left, Panels, Tile};
use crate::{Buffer, Real};
use packed::pack_panels;

pub use matrix::{Mat, MatMut};
pub use packed::Packed;

/// A raw output pointer handed to tasks that write disjoint blocks.
#[derive(Clone, Copy)]
struct Out<T>(*mut T);
// SAFETY: each task writes its own block; see `multiply`.
unsafe impl<T> Send for Out<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Out<T> {}

impl<T> Out<T> {
    fn get(self) -> *mut T {
        self.0
    }
}

/// Multiply-adds below which a product stays on the calling thread.
const SERIAL: usize = 1 << 19;
/// Panels that are packed together.
const GROUP: usize = 8;
/// Depth of a piece: a panel of it, 16 KiB of `f32`, stays in the first-level cache.
const DEPTH: usize = 256;
/// Rows of A that meet one panel after the other: with the depth of a piece they stay in the second-level cache.
const ROWS: usize = 144;
/// Elements of C that are computed before something is done with them.
const HOT: usize = 1 << 16;
/// Elements of B above which it is packed in pieces of the depth, where C is smaller.
const LARGE: usize = 1 << 20;
/// Rows up to which B is read where it lies: packing it would cost as much as the product.
const FEW: usize = 12;

/// Where the right factor is.
#[derive(Clone, Copy)]
enum Right<'a, T: Real> {
    Packed(&'a Packed<T>),
    /// Rows of adjacent columns, read where they are.
    Rows(Mat<'a, T>),
    /// Packed some panels at a time, just before they are read.
    Fresh(Mat<'a, T>),
}

/// C ← β·C + α·A·B. With β = 0, C is not read.
///
/// `a` is m × k, `b` k × n, `c` m × n. Cost 2·m·n·k operations; scratch for packed panels only.
///
/// # Panics
/// If the inner or outer sizes disagree: shapes are checked where they come in.
pub fn matmul<T: Real>(c: MatMut<'_, T>, beta: f64, alpha: f64, a: Mat<'_, T>, b: Mat<'_, T>) {
    product(c, beta, alpha, a, b, None);
}

/// C ← A·B, and then `finish(i, rows, beside)` for some whole rows of C from row i on and the same rows of
/// `beside`, once each, on any thread and as far as possible while they are in the caches.
///
/// `c` is m × n, contiguous, `beside` as long or empty.
///
/// # Panics
/// As [`matmul`].
pub fn matmul_then<T: Real>(
    c: &mut [T],
    beside: &mut [T],
    a: Mat<'_, T>,
    b: Mat<'_, T>,
    finish: impl Fn(usize, &mut [T], &mut [T]) + Sync,
) {
    with_rows(c, beside, (a.rows, b.cols), &finish, |c, finish| {
        product(c, 0.0, 1.0, a, b, Some(finish));
    });
}

/// As [`matmul_then`], with B packed before; the same bits.
///
/// # Panics
/// As [`matmul`].
pub fn matmul_packed_then<T: Real>(
    c: &mut [T],
    beside: &mut [T],
    a: Mat<'_, T>,
    b: &Packed<T>,
    finish: impl Fn(usize, &mut [T], &mut [T]) + Sync,
) {
    assert!(b.depth == a.cols, "matrix sizes agree");
    with_rows(c, beside, (a.rows, b.cols), &finish, |c, finish| {
        multiply(c, 0.0, 1.0, a, Right::Packed(b), Some(finish));
    });
}

/// Hands `run` the m × n matrix C and what is to be done with its rows and those of `beside`.
fn with_rows<T: Real>(
    c: &mut [T],
    beside: &mut [T],
    (m, n): (usize, usize),
    finish: &(impl Fn(usize, &mut [T], &mut [T]) + Sync),
    run: impl FnOnce(MatMut<'_, T>, &(dyn Fn(usize, &mut [T]) + Sync)),
) {
    assert!(c.len() == m * n, "matrix sizes agree");
    assert!(beside.is_empty() || beside.len() == c.len(), "one number beside each");
    let wide = if beside.is_empty() { 0 } else { n };
    let others = Out(beside.as_mut_ptr());
    let call = |i: usize, rows: &mut [T]| {
        let count = rows.len() / n;
        // SAFETY: as many rows of `beside` as there are of C, which each call gets for itself; `beside` is
        // borrowed mutably.
        let others =
            unsafe { std::slice::from_raw_parts_mut(others.get().add(i * wide), count * wide) };
        finish(i, rows, others);
    };
    run(MatMut { data: c, rows: m, cols: n, row_stride: n }, &call);
}

/// What is done with rows of a contiguous C, from the named one on, once they are computed.
type Finish<'a, T> = Option<&'a (dyn Fn(usize, &mut [T]) + Sync)>;

fn product<T: Real>(
    c: MatMut<'_, T>,
    beta: f64,
    alpha: f64,
    a: Mat<'_, T>,
    b: Mat<'_, T>,
    finish: Finish<'_, T>,
) {
    assert!(b.cols == c.cols && b.rows == a.cols, "matrix sizes agree");
    let k = a.cols;
    if a.rows <= FEW && b.col_stride == 1 {
        multiply(c, beta, alpha, a, Right::Rows(b), finish);
    } else if a.rows <= ROWS {
        multiply(c, beta, alpha, a, Right::Fresh(b), finish);
    } else if 2 * a.rows <= k && b.cols * k > LARGE {
        // The gradient of a weight: B is all of a batch, C is small. Packed in pieces, B stays in the caches.
        let MatMut { data, rows, cols, row_stride } = c;
        for from in (0..k).step_by(DEPTH) {
            let c = MatMut { data: &mut *data, rows, cols, row_stride };
            let depth = from..k.min(from + DEPTH);
            let packed = Packed::new(b.rows(depth.clone()));
            let beta = if from == 0 { beta } else { 1.0 };
            let finish = if depth.end == k { finish } else { None };
            multiply(c, beta, alpha, a.columns(depth), Right::Packed(&packed), finish);
        }
    } else {
        multiply(c, beta, alpha, a, Right::Packed(&Packed::new(b)), finish);
    }
}

/// As [`matmul`], with B packed before; the same bits.
///
/// # Panics
/// As [`matmul`].
pub fn matmul_packed<T: Real>(
    c: MatMut<'_, T>,
    beta: f64,
    alpha: f64,
    a: Mat<'_, T>,
    b: &Packed<T>,
) {
    assert!(b.cols == c.cols && b.depth == a.cols, "matrix sizes agree");
    multiply(c, beta, alpha, a, Right::Packed(b), None);
}

#[expect(clippy::needless_pass_by_value, reason = "the three matrices are given alike")]
fn multiply<T: Real>(
    c: MatMut<'_, T>,
    beta: f64,
    alpha: f64,
    a: Mat<'_, T>,
    b: Right<'_, T>,
    finish: Finish<'_, T>,
) {
    let (m, n, k) = (c.rows, c.cols, a.cols);
    assert!(a.rows == m, "matrix sizes agree");
    if m == 0 || n == 0 {
        return;
    }
    let (alpha, add) = (T::from_f64(alpha), beta != 0.0);
    if k == 0 || (add && beta != 1.0) {
        let beta = T::from_f64(beta);
        for i in 0..m {
            for x in &mut c.data[i * c.row_stride..i * c.row_stride + n] {
                *x = if add { *x * beta } else { T::ZERO };
            }
        }
        if k == 0 {
            if let Some(finish) = finish {
                finish(0, c.data);
            }
            return;
        }
    }
    let (stride, out) = (c.row_stride, Out(c.data.as_mut_ptr()));
    let block = |i0: usize, i1: usize, j0: usize, j1: usize| {
        let piece = Piece { out: out.get(), stride, alpha, add, a, b };
        // SAFETY: the constructors checked that every index lies inside the slices; `c` is borrowed mutably,
        // so it overlaps neither input; the tasks' blocks are disjoint.
        unsafe { piece.compute(i0..i1, j0..j1, if j1 - j0 == n { finish } else { None }) }
    };
    if m * n * k < SERIAL {
        block(0, m, 0, n);
        return;
    }
    // Cut the longer side into as many pieces as there are threads, or twice and more times as many where they would be
    // long: each reads the other side once more. At most eight, of at least 48. An A that lies by columns is copied by every piece
    // that reads it, so that its rows are cut as soon as there are enough of them. What is packed on the way is
    // packed by one piece alone.
    let fresh = matches!(b, Right::Fresh(_));
    let by_rows = !fresh && (m >= n || (a.col_stride != 1 && m >= 4 * 48));
    let long = if by_rows { m } else { n };
    let threads = crate::parallel::threads();
    let pieces = (threads * long.div_ceil(threads * 2 * ROWS)).min(long / 48).clamp(1, 8);
    let step = long.div_ceil(pieces).next_multiple_of(if by_rows { 12 } else { 2 * COLUMNS });
    let _call = crate::parallel::call();
    (0..long.div_ceil(step)).into_par_iter().for_each(|p| {
        let (lo, hi) = (p * step, ((p + 1) * step).min(long));
        if by_rows { block(lo, hi, 0, n) } else { block(0, m, lo, hi) }
    });
    if let Some(finish) = finish
        && !by_rows
        && step < n
    {
        let rows = (SERIAL / 8 / n).max(1);
        let _call = crate::parallel::call();
        let pieces = c.data.par_chunks_mut(rows * n).enumerate();
        pieces.for_each(|(p, piece)| finish(p * rows, piece));
    }
}

/// What one task needs.
struct Piece<'a, T: Real> {
    out: *mut T,
    stride: usize,
    alpha: T,
    add: bool,
    a: Mat<'a, T>,
    b: Right<'a, T>,
}

impl<T: Real> Piece<'_, T> {
    /// Rows `rows` of columns `cols` of C, which start at a panel's first column. With `finish` these are all columns, and
    /// C is contiguous.
    ///
    /// # Safety
    /// This block of C, inside its matrix, is nobody else's.
    unsafe fn compute(&self, rows: Range<usize>, cols: Range<usize>, finish: Finish<'_, T>) {
        let a = self.a;
        let mut columns = Buffer::stale(0);
        // Rows that something is done with stay in the second-level cache until then.
        let block = match finish {
            Some(_) => (HOT / cols.len()).clamp(ROWS / 6, ROWS) / 12 * 12,
            None => ROWS,
        };
        for i in rows.clone().step_by(block) {
            let m = block.min(rows.end - i);
            for from in (0..a.cols).step_by(DEPTH) {
                let depth = DEPTH.min(a.cols - from);
                let data = &a.data[i * a.row_stride + from * a.col_stride..];
                let left = if a.col_stride == 1 {
                    Left::Rows { data, stride: a.row_stride }
                } else {
                    // Side by side: columns of a large A lie in a page of memory each.
                    assert!(a.row_stride == 1, "a matrix is given by rows or by columns");
                    if columns.len() < m * depth {
                        columns = Buffer::stale(m * depth);
                    }
                    for (k, column) in columns.chunks_exact_mut(m).take(depth).enumerate() {
                        column.copy_from_slice(&data[k * a.col_stride..k * a.col_stride + m]);
                    }
                    Left::Columns { data: &columns[..m * depth], stride: m }
                };
                // SAFETY: the caller's promise.
                unsafe { self.piece(i, m, left, from, depth, cols.clone()) };
            }
            if let Some(finish) = finish {
                // SAFETY: the caller's promise: whole rows of a contiguous C, which this call has written.
                finish(i, unsafe {
                    std::slice::from_raw_parts_mut(self.out.add(i * self.stride), m * self.stride)
                });
            }
        }
    }

    /// One piece of the depth for `m` rows from `i` on.
    ///
    /// # Safety
    /// As [`Piece::compute`].
    unsafe fn piece(
        &self,
        i: usize,
        m: usize,
        left: Left<'_, T>,
        from: usize,
        depth: usize,
        cols: Range<usize>,
    ) {
        let add = self.add || from > 0;
        let (b, panels_at_once) = match self.b {
            Right::Packed(b) => {
                let count = cols.len().div_ceil(COLUMNS);
                let right = b.panels(cols.start / COLUMNS, count, from, depth);
                // SAFETY: the caller's promise.
                return unsafe { self.write(i, m, left, right, cols, add) };
            }
            Right::Rows(b) => (b, cols.len() / COLUMNS),
            Right::Fresh(b) => (b, GROUP),
        };
        let mut packed = Buffer::stale(0);
        let mut first = cols.start;
        while first < cols.end {
            let count = panels_at_once.clamp(1, (cols.end - first).div_ceil(COLUMNS));
            let last = cols.end.min(first + count * COLUMNS);
            let whole = last - first == count * COLUMNS;
            let right = if matches!(self.b, Right::Rows(_)) && whole {
                let data = &b.data[from * b.row_stride + first..];
                Panels { data, stride: COLUMNS, step: b.row_stride, depth, count }
            } else {
                let panel = depth * COLUMNS;
                if packed.len() < count * panel {
                    packed = Buffer::stale(count * panel);
                }
                pack_panels(b.rows(from..from + depth), first, &mut packed[..count * panel]);
                Panels { data: &packed, stride: panel, step: COLUMNS, depth, count }
            };
            // SAFETY: the caller's promise.
            unsafe { self.write(i, m, left, right, first..last, add) };
            first = last;
        }
    }

    /// The product with panels whose columns begin at those of C; the last panel may have more of them than C.
    ///
    /// # Safety
    /// As [`Piece::compute`].
    unsafe fn write(
        &self,
        i: usize,
        m: usize,
        left: Left<'_, T>,
        right: Panels<'_, T>,
        cols: Range<usize>,
        add: bool,
    ) {
        let Self { out, stride, alpha, .. } = *self;
        let (count, rest) = (cols.len() / COLUMNS, cols.len() % COLUMNS);
        // SAFETY: the caller's promise: rows and columns of the block.
        unsafe {
            let c = out.add(i * stride + cols.start);
            Tile { c, stride, rows: m, left, right: Panels { count, ..right }, alpha, add }
                .compute();
            if rest == 0 {
                return;
            }
            let data = &right.data[count * right.stride..];
            let right = Panels { data, count: 1, ..right };
            let mut tile = [T::ZERO; ROWS * COLUMNS];
            let edge = tile.as_mut_ptr();
            Tile { c: edge, stride: COLUMNS, rows: m, left, right, alpha, add: false }.compute();
            for (r, row) in tile.chunks_exact(COLUMNS).take(m).enumerate() {
                for (l, x) in row[..rest].iter().enumerate() {
                    let c = c.add(r * stride + count * COLUMNS + l);
                    *c = if add { *c + *x } else { *x };
                }
            }
        }
    }
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

    /// Edges of panels, blocks and pieces of the depth; the last is cut as the gradient of a weight.
    const SHAPES: [(usize, usize, usize); 12] = [
        (1, 1, 1),
        (2, 3, 5),
        (17, 13, 7),
        (0, 3, 2),
        (3, 2, 0),
        (97, 131, 61),
        (5, 33, 300),
        (12, 16, 257),
        (13, 48, 256),
        (150, 31, 40),
        (3, 1060, 1000),
        (144, 70, 300),
    ];

    fn drawn(seed: u64, len: usize) -> Vec<f64> {
        (0..len).map(|i| Key::new(seed).normal(i as u32)).collect()
    }

    #[test]
    fn products_equal_the_plain_loop_in_every_layout() {
        for (m, n, k) in SHAPES {
            let (a, b) = (drawn(7, m * k), drawn(8, k * n));
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

    /// Each row of a product is the same alone, and each column, whoever packed B and however it lay.
    #[test]
    fn no_bit_depends_on_what_else_is_computed() {
        for (m, n, k) in SHAPES {
            let narrow = |v: Vec<f64>| v.into_iter().map(|x| x as f32).collect::<Vec<_>>();
            let (a, b) = (narrow(drawn(1, m * k)), narrow(drawn(2, k * n)));
            let bt: Vec<f32> = (0..n * k).map(|i| b[(i % k) * n + i / k]).collect();
            let at: Vec<f32> = (0..k * m).map(|i| a[(i % m) * k + i / m]).collect();
            let start = narrow(drawn(3, m * n));
            let run = |f: &dyn Fn(MatMut<'_, f32>)| {
                let mut c = start.clone();
                f(MatMut::new(&mut c, m, n));
                c.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
            };
            let (am, bm) = (Mat::new(&a, m, k), Mat::new(&b, k, n));
            let want = run(&|c| matmul(c, 1.0, 0.5, am, bm));
            let transposed = (Mat::new(&at, k, m).t(), Mat::new(&bt, n, k).t());
            let packed = Packed::new(transposed.1);
            assert_eq!(run(&|c| matmul_packed(c, 1.0, 0.5, transposed.0, &packed)), want);
            assert_eq!(run(&|c| matmul(c, 1.0, 0.5, transposed.0, transposed.1)), want);
            for i in 0..m {
                let row = Mat::new(&a[i * k..(i + 1) * k], 1, k);
                let mut c = start[i * n..(i + 1) * n].to_vec();
                matmul(MatMut::new(&mut c, 1, n), 1.0, 0.5, row, bm);
                assert!(c.iter().zip(&want[i * n..]).all(|(x, w)| x.to_bits() == *w));
            }
            for j in (0..n).step_by(7) {
                let column = Mat::new(&bt[j * k..(j + 1) * k], 1, k).t();
                let mut c: Vec<f32> = (0..m).map(|i| start[i * n + j]).collect();
                matmul(MatMut::new(&mut c, m, 1), 1.0, 0.5, am, column);
                assert!((0..m).all(|i| c[i].to_bits() == want[i * n + j]));
            }
        }
    }

    #[test]
    fn what_is_done_with_rows_is_done_once_and_after_the_product() {
        for (m, n, k) in SHAPES {
            let (a, b) = (drawn(1, m * k), drawn(2, k * n));
            let (am, bm) = (Mat::new(&a, m, k), Mat::new(&b, k, n));
            let mut want = vec![0.0; m * n];
            matmul(MatMut::new(&mut want, m, n), 0.0, 1.0, am, bm);
            for transposed in [false, true] {
                let bt: Vec<f64> = (0..n * k).map(|i| b[(i % k) * n + i / k]).collect();
                let bm = if transposed { Mat::new(&bt, n, k).t() } else { bm };
                let (mut c, mut beside) = (vec![f64::NAN; m * n], vec![0.0; m * n]);
                matmul_then(&mut c, &mut beside, am, bm, |i, rows, beside| {
                    for (x, (y, z)) in rows.iter_mut().zip(beside).enumerate() {
                        *z += *y;
                        *y += (i * n + x) as f64;
                    }
                });
                assert_eq!(beside, want, "{m} {n} {k}");
                assert!(c.iter().zip(&want).enumerate().all(|(i, (c, w))| *c == w + i as f64));
                matmul_then(&mut c, &mut [], am, bm, |_, _, beside| assert!(beside.is_empty()));
                assert_eq!(c, want);
                let twice = |_: usize, rows: &mut [f64], _: &mut [f64]| {
                    for x in rows {
                        *x *= 2.0;
                    }
                };
                matmul_packed_then(&mut c, &mut [], am, &Packed::new(bm), twice);
                assert!(c.iter().zip(&want).all(|(c, w)| *c == 2.0 * w));
            }
        }
    }

    #[test]
    fn a_nan_stays_in_its_row_and_column() {
        let (m, n, k) = (9, 21, 5);
        let (mut a, mut b) = (drawn(1, m * k), drawn(2, k * n));
        (a[3 * k + 1], b[2 * n + 20]) = (f64::NAN, f64::INFINITY);
        let mut c = vec![0.0; m * n];
        matmul(MatMut::new(&mut c, m, n), 0.0, 1.0, Mat::new(&a, m, k), Mat::new(&b, k, n));
        for (at, x) in c.iter().enumerate() {
            assert_eq!(x.is_finite(), at / n != 3 && at % n != 20, "{at}");
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
