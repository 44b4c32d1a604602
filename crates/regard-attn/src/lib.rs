//! What attention means.
//!
//! For one head, query i and key j:
//!
//! ```text
//! s_ij = score(q_i, k_j)      a_ij = normalise over j in scope(i) of s_ij      c_i = Σ_j a_ij v_j
//! ```
//!
//! Four kinds of part, each member one small file with its formula, derivative, source and tests:
//! [`score`], [`normaliser`], [`scope`], [`position`]. A [`Call`] joins four parts with sizes and
//! items; the plain `reference` computes it by loops in the order of the formula, and the crate
//! `regard-engine` computes the same fast.

pub mod call;
mod error;
pub mod normaliser;
pub mod position;
pub mod scope;
pub mod score;

pub use call::{At, Call, Dims, Dropout, Item, Rows, RowsMut};
pub use error::AttnError;
pub use normaliser::Normaliser;
pub use position::Position;
pub use scope::{Coverage, Scope};
pub use score::{Lowering, Score};
