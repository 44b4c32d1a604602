//! Dense, contiguous, row-major arrays that share their memory.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::buffer::{Buffer, Element};

/// Greatest number of axes.
pub const MAX_RANK: usize = 4;

/// Sizes of the axes, outermost first; at most [`MAX_RANK`] of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    dims: [usize; MAX_RANK],
    rank: usize,
}

impl Shape {
    /// A shape with these sizes.
    ///
    /// # Panics
    /// With more than [`MAX_RANK`] axes: the number of axes is written in the program.
    pub fn new(dims: &[usize]) -> Self {
        assert!(dims.len() <= MAX_RANK, "at most {MAX_RANK} axes, got {dims:?}");
        let mut all = [1; MAX_RANK];
        all[..dims.len()].copy_from_slice(dims);
        Self { dims: all, rank: dims.len() }
    }

    /// Number of elements.
    pub fn size(&self) -> usize {
        self.iter().product()
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.dims[..self.rank]
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self[..])
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self[..])
    }
}

/// An argument does not have the shape that the operation needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: `{argument}` must be {expected}, got {actual}")]
pub struct ShapeError {
    /// The operation that was asked for.
    pub operation: &'static str,
    /// The argument at fault.
    pub argument: &'static str,
    /// What it must be, in words or sizes.
    pub expected: String,
    /// What came.
    pub actual: String,
}

impl ShapeError {
    /// Builds the error; `expected` and `actual` are shapes or short phrases.
    pub fn new(
        operation: &'static str,
        argument: &'static str,
        expected: impl fmt::Display,
        actual: impl fmt::Display,
    ) -> Self {
        Self { operation, argument, expected: expected.to_string(), actual: actual.to_string() }
    }

    /// Fails unless `actual == expected`.
    ///
    /// # Errors
    /// The shapes differ.
    pub fn expect(
        operation: &'static str,
        argument: &'static str,
        expected: &[usize],
        actual: &[usize],
    ) -> Result<(), Self> {
        if expected == actual {
            return Ok(());
        }
        Err(Self::new(operation, argument, format!("{expected:?}"), format!("{actual:?}")))
    }
}

/// A dense row-major array over shared memory.
///
/// Cloning and [`Tensor::reshape`] share the memory; [`Tensor::data_mut`] copies it first when
/// it is shared (copy on write).
#[derive(Clone)]
pub struct Tensor<T: Element> {
    shape: Shape,
    buffer: Arc<Buffer<T>>,
    offset: usize,
}

impl<T: Element> Tensor<T> {
    /// An array of arbitrary values, for an operation that writes every element.
    pub fn stale(dims: &[usize]) -> Self {
        let shape = Shape::new(dims);
        Self { shape, buffer: Arc::new(Buffer::stale(shape.size())), offset: 0 }
    }

    /// An array of zeros.
    pub fn zeros(dims: &[usize]) -> Self {
        let shape = Shape::new(dims);
        Self { shape, buffer: Arc::new(Buffer::zeroed(shape.size())), offset: 0 }
    }

    /// An array that copies a slice.
    ///
    /// # Errors
    /// The slice's length is not the product of the sizes.
    pub fn from_slice(dims: &[usize], data: &[T]) -> Result<Self, ShapeError> {
        let shape = Shape::new(dims);
        if shape.size() != data.len() {
            return Err(ShapeError::new(
                "from_slice",
                "data",
                format!("{} elements for {shape}", shape.size()),
                data.len(),
            ));
        }
        Ok(Self { shape, buffer: Arc::new(Buffer::copy_of(data)), offset: 0 })
    }

    /// An array from a vector.
    ///
    /// # Errors
    /// The vector's length is not the product of the sizes.
    #[expect(clippy::needless_pass_by_value, reason = "reads better where arrays are written out")]
    pub fn from_vec(dims: &[usize], data: Vec<T>) -> Result<Self, ShapeError> {
        Self::from_slice(dims, &data)
    }

    /// A window on `buffer` from `offset` on; nothing is copied.
    ///
    /// # Panics
    /// If the window ends behind the buffer.
    pub fn view(buffer: Arc<Buffer<T>>, offset: usize, dims: &[usize]) -> Self {
        let shape = Shape::new(dims);
        assert!(offset + shape.size() <= buffer.len(), "a view ends inside its buffer");
        Self { shape, buffer, offset }
    }

    /// The sizes of the axes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Size of axis `axis`; 1 beyond the last.
    pub fn dim(&self, axis: usize) -> usize {
        self.shape.dims[axis]
    }

    /// Product of all sizes but the last: how many rows a matrix of the same memory has.
    pub fn rows(&self) -> usize {
        self.shape[..self.shape.len().saturating_sub(1)].iter().product()
    }

    /// Size of the last axis; 1 for a scalar.
    pub fn cols(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.size()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, row-major.
    pub fn data(&self) -> &[T] {
        &self.buffer[self.offset..self.offset + self.len()]
    }

    /// The elements for writing; copies them first when the memory is shared.
    pub fn data_mut(&mut self) -> &mut [T] {
        let len = self.len();
        if Arc::get_mut(&mut self.buffer).is_none() {
            self.buffer = Arc::new(Buffer::copy_of(self.data()));
            self.offset = 0;
        }
        let buffer = Arc::get_mut(&mut self.buffer).expect("the buffer was just made unique");
        &mut buffer[self.offset..self.offset + len]
    }

    /// The same elements under other sizes; nothing is copied.
    ///
    /// # Errors
    /// The number of elements differs.
    pub fn reshape(&self, dims: &[usize]) -> Result<Self, ShapeError> {
        let shape = Shape::new(dims);
        if shape.size() != self.len() {
            return Err(ShapeError::new(
                "reshape",
                "dims",
                format!("{} elements as {}", self.len(), self.shape),
                shape,
            ));
        }
        Ok(Self { shape, buffer: Arc::clone(&self.buffer), offset: self.offset })
    }

    /// Row `i` of the matrix of [`Tensor::rows`] × [`Tensor::cols`].
    pub fn row(&self, i: usize) -> &[T] {
        let cols = self.cols();
        &self.data()[i * cols..(i + 1) * cols]
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.data();
        let shown = &data[..data.len().min(8)];
        let more = if data.len() > 8 { ", …" } else { "" };
        write!(f, "Tensor{:?} {shown:?}{more}", self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_to_shared_memory_copies_first() {
        let mut a = Tensor::from_vec(&[2, 2], vec![1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let b = a.reshape(&[4]).unwrap();
        a.data_mut()[0] = 9.0;
        assert_eq!(b.data(), &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(a.data(), &[9.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn wrong_sizes_are_errors_that_name_both() {
        let error = Tensor::from_vec(&[2, 3], vec![1.0f32]).unwrap_err();
        assert_eq!(error.to_string(), "from_slice: `data` must be 6 elements for [2, 3], got 1");
        let a = Tensor::<f32>::zeros(&[2, 3]);
        assert!(a.reshape(&[7]).is_err());
        assert_eq!(a.reshape(&[3, 1, 2]).unwrap().cols(), 2);
    }

    #[test]
    fn views_window_a_buffer() {
        let buffer = Arc::new(Buffer::copy_of(&[0.0f32, 1.0, 2.0, 3.0, 4.0]));
        let view = Tensor::view(buffer, 1, &[2, 2]);
        assert_eq!(view.row(1), &[3.0, 4.0]);
    }
}
