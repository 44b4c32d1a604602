//! Numeric kernels: matrix product, element-wise functions, row reductions.

pub mod elementwise;
pub mod few;
pub mod matmul;
pub mod product;
#[cfg(target_arch = "x86_64")]
mod product_x86;
pub mod reduce;
pub mod select;
pub mod softmax;
pub mod transpose;
