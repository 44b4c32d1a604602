//! What attention means.
//!
//! For one head, query i and key j:
//!
//! ```text
//! s_ij = score(q_i, k_j)      a_ij = normalise over j in scope(i) of s_ij      c_i = Σ_j a_ij v_j
//! ```
//!
//! Four kinds of part, each member one small file with its formula, derivative, source and usual
//! mistakes: [`score`], [`normaliser`], [`scope`], [`position`]. A [`Call`] joins four parts with
//! sizes and items; the plain [`mod@reference`] computes it by loops in the order of the formula, and
//! the crate `regard-engine` computes the same fast. The [`catalogue`] lists every part and every
//! mechanism made of them.
//!
//! # From one query to a call
//!
//! One query looks at two keys. The score says how alike they are, the normaliser makes weights of
//! the scores, and the context is the average of the values by these weights:
//!
//! ```
//! use regard_attn::normaliser::{Normaliser, Softmax};
//! use regard_attn::score::{ScaledDot, Score};
//!
//! let query = [2.0f64, 0.0, 2.0, 0.0];
//! let keys = [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]];
//! let values = [10.0, 20.0];
//!
//! let score = ScaledDot::new(4); // q·k / √4
//! let mut row = keys.map(|key| score.pair(0, &query, &key));
//! assert_eq!(row, [2.0, 0.0]);
//!
//! Softmax.row(&mut row);
//! assert!((row[0] - 0.8808).abs() < 1e-4 && (row[1] - 0.1192).abs() < 1e-4);
//!
//! let context = row[0] * values[0] + row[1] * values[1];
//! assert!((context - 11.192).abs() < 1e-3);
//! ```
//!
//! A scope forbids keys: their score is −∞ *before* the normaliser, so that their weight is 0 and
//! the others still sum to one. (A score of 0 would not do: it may well be the largest.)
//!
//! ```
//! # use regard_attn::normaliser::{Normaliser, Softmax};
//! use regard_attn::At;
//! use regard_attn::scope::{Scope, Window};
//!
//! let scope = Window { left: 1, right: 0 }; // a key back and its own
//! let at = At { item: 0, head: 0, q_len: 3, kv_len: 3, q_offset: 0 };
//! let mut row = [5.0f64, 0.0, 0.0];
//! for (key, s) in row.iter_mut().enumerate() {
//!     if !scope.allows(at, 2, key) {
//!         *s = f64::NEG_INFINITY;
//!     }
//! }
//! Softmax.row(&mut row);
//! assert_eq!(row, [0.0, 0.5, 0.5]);
//! ```
//!
//! A [`Call`] does this for every query, head and item of a batch. Here two heads of width 2 read
//! two sequences of three and two tokens, packed one behind the other as `[rows, heads, width]`;
//! rotary position turns queries and keys, and no token sees a later one:
//!
//! ```
//! use regard_attn::normaliser::Softmax;
//! use regard_attn::position::{Rotary, RotaryLayout};
//! use regard_attn::scope::Causal;
//! use regard_attn::score::ScaledDot;
//! use regard_attn::{Call, Dims, Item, Rows, Upstream, reference};
//!
//! let call = Call {
//!     score: &ScaledDot::new(2),
//!     normaliser: &Softmax,
//!     scope: &Causal::square(),
//!     position: &Rotary::new(10000.0, RotaryLayout::Interleaved),
//!     dropout: None,
//!     dims: Dims { n_heads: 2, n_kv_heads: 2, d_k: 2, d_v: 2 },
//!     items: &Item::packed(&[3, 2]),
//! };
//! let x: Vec<f64> = (0..5 * 2 * 2).map(|n| (n as f64).sin()).collect();
//! let rows = Rows { data: &x[..], row_stride: 4, head_stride: 2 };
//!
//! let out = reference::forward(&call, rows, rows, rows)?; // q = k = v = x
//! assert_eq!(out.context.len(), 5 * 2 * 2);
//! assert_eq!(out.context[..4], x[..4]); // the first token sees itself alone
//! assert_eq!(out.context[12..16], x[12..16]); // so does the first of the second item
//! let weights = &out.weights[..3 * 3]; // first item, first head
//! assert_eq!(weights[..3], [1.0, 0.0, 0.0]);
//! assert!((weights[6] + weights[7] + weights[8] - 1.0).abs() < 1e-15);
//!
//! // The gradients of the sum of all contexts by q, k and v. Each column of weights says how
//! // often a value is used, and so how much it is to blame.
//! let d = reference::backward(&call, rows, rows, rows, &[1.0; 20], Upstream::NONE)?;
//! let uses = weights[0] + weights[3] + weights[6];
//! assert!((d.dv[0] - uses).abs() < 1e-15);
//! # Ok::<(), regard_attn::AttnError>(())
//! ```

pub mod call;
pub mod catalogue;
mod error;
pub mod mechanisms;
pub mod normaliser;
pub mod position;
pub mod reference;
pub mod scope;
pub mod score;
pub mod summary;
mod upstream;

pub use call::{At, Call, Dims, Dropout, Item, RowAt, Rows, RowsMut, Span, TileAt};
pub use error::AttnError;
pub use normaliser::{Normaliser, Streaming};
pub use position::Position;
pub use scope::{Coverage, Scope};
pub use score::{Lowering, Score};
pub use summary::{Summary, Wanted};
pub use upstream::Upstream;
