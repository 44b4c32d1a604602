//! What the tests of every crate share: tolerances, a gradient checker, golden
//! files, seeded numbers and the way to the data.
//!
//! The kit works on slices and depends on no other crate of the workspace, so
//! that each of them can use it as a dev-dependency. It is test code: whatever
//! goes wrong panics, with a message that says what and where.
//!
//! | module | what it answers |
//! |---|---|
//! | [`tolerance`] | are these numbers the same up to rounding? |
//! | [`gradient`] | is this backward pass the derivative of that forward pass? |
//! | [`golden`] | what did an independent implementation compute? |
//! | [`random`] | which numbers does seed 7 give? |
//! | [`sizes`] | which lengths break tiled loops? |
//! | [`data`] | where is the data set, and what if it is not there? |
//!
//! ```
//! use regard_testkit::{Bound, assert_close, check_gradient, random_vec};
//!
//! // f(x) = Σ x², f'(x) = 2 x.
//! let x = random_vec(1, 5);
//! let dx: Vec<f64> = x.iter().map(|x| 2.0 * x).collect();
//! check_gradient("x", |x| x.iter().map(|x| x * x).sum(), &x, &dx);
//!
//! let sum: f32 = [0.1_f32, 0.2, 0.3].iter().sum();
//! assert_close(&[sum], &[0.6_f64], Bound::f32(3, 0.6));
//! ```

pub mod data;
pub mod golden;
pub mod gradient;
pub mod random;
pub mod sizes;
pub mod tolerance;

pub use data::{data_dir, require_data};
pub use golden::{Case, Golden};
pub use gradient::{check_gradient, check_gradients_of};
pub use random::{random_vec, random_vec_f32};
pub use sizes::{EDGE_SIZES, edge_sizes, edge_sizes_within};
pub use tolerance::{Bound, assert_close, assert_close_each, close_each};
