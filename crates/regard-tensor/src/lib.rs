//! Dense arrays on pooled, aligned buffers, counter-based randomness and the numeric
//! kernels that everything else in Regard is built on.
//!
//! | module | holds |
//! |---|---|
//! | [`real`] | [`Real`]: the two element types, `f32` (fast) and `f64` (reference, gradient checks) |
//! | [`buffer`] | [`Buffer`]: 64-byte aligned memory that goes back to a pool when dropped |
//! | [`tensor`] | [`Tensor`]: a shape over a shared buffer |
//! | [`rng`] | [`Key`]: random numbers addressed by (seed, stream, index) instead of drawn in order |
//! | [`parallel`] | splitting work into pieces whose borders never depend on the number of threads |
//! | [`simd`] | choosing the instruction set at run time |
//! | [`kernels`] | matrix product, element-wise functions, row reductions |
//!
//! Every result is the same to the last bit for any number of threads.
//!
//! ```
//! use regard_tensor::{Tensor, kernels::matmul::{matmul, Mat, MatMut}};
//!
//! let a = Tensor::<f32>::from_vec(&[2, 3], vec![1., 2., 3., 4., 5., 6.])?;
//! let b = Tensor::<f32>::from_vec(&[3, 1], vec![1., 0., -1.])?;
//! let mut c = Tensor::<f32>::zeros(&[2, 1]);
//! matmul(MatMut::new(c.data_mut(), 2, 1), 0.0, 1.0, Mat::new(a.data(), 2, 3), Mat::new(b.data(), 3, 1));
//! assert_eq!(c.data(), &[-2.0, -2.0]);
//! # Ok::<(), regard_tensor::ShapeError>(())
//! ```

pub mod buffer;
pub mod kernels;
pub mod memory;
pub mod parallel;
pub mod peak;
pub mod real;
pub mod rng;
pub mod simd;
pub mod tensor;

pub use buffer::Buffer;
pub use real::Real;
pub use rng::Key;
pub use tensor::{Shape, ShapeError, Tensor};
