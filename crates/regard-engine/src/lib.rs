//! How attention runs: tiled forward and backward on CPU.
//!
//! [`forward()`] and [`backward()`] compute what a [`Call`](regard_attn::Call) says, for any score,
//! normaliser, scope and position, and agree with the plain
//! [`reference`](regard_attn::reference). No matrix of all scores is built: queries and keys meet in
//! tiles, a running softmax joins the tiles of a row, and backward computes the scores again from q, k
//! and the log-sum-exps.
//!
//! ```text
//! for each item, key head:                         (unit; units run on several threads)
//!     pack its keys and values, turned by position
//!     for each query head of the key head, tile of queries:
//!         for each tile of keys that the scope does not rule out:
//!             score → scope → normaliser → dropout → add to the context
//! ```
//!
//! Scattered keys (a sparse graph) are taken row by row instead, from where they lie. A normaliser that cannot take a row piece by piece gets whole rows, tile of queries by tile of queries.
//! [`summarise()`] says what is wanted of the weights (sums by key, the largest, entropies, choices, distances)
//! without the whole of them.
//! The order of every sum is fixed by the item alone, so the result has the same bits for any number of
//! threads, and for an item alone, in a padded or in a packed batch.

mod backward;
mod check;
mod cover;
#[cfg(feature = "faults")]
pub mod fault;
#[cfg(not(feature = "faults"))]
mod fault;
mod forward;
mod gradients;
mod kernel;
mod pack;
mod panel;
mod plan;
mod rows;
mod rowwise;
mod score;
mod summarise;
mod support;
mod survey;

pub use backward::backward;
pub use forward::{Output, forward};
pub use gradients::{GradArrays, Gradients};
pub use rows::Place;
pub use summarise::summarise;
