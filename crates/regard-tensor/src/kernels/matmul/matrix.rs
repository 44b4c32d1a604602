//! Strided matrices.

use std::ops::Range;

use crate::Real;

/// A strided matrix to read.
#[derive(Clone, Copy)]
pub struct Mat<'a, T> {
    pub(super) data: &'a [T],
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) row_stride: usize,
    pub(super) col_stride: usize,
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

    /// Rows `range`.
    pub(super) fn rows(self, range: Range<usize>) -> Self {
        self.t().columns(range).t()
    }

    /// Columns `range`.
    pub(super) fn columns(self, range: Range<usize>) -> Self {
        let data = &self.data[range.start * self.col_stride..];
        Self { data, cols: range.len(), ..self }
    }
}

/// A strided matrix to write: columns adjacent.
pub struct MatMut<'a, T> {
    pub(super) data: &'a mut [T],
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) row_stride: usize,
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
