//! Numeric kernels: matrix product, element-wise functions, row reductions.

pub mod elementwise;
pub mod matmul;
pub mod reduce;
