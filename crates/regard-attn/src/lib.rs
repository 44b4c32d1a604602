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
//!
//! # What the order adds
//!
//! A position may add to the inputs (sinusoidal, learned), turn queries and keys (rotary), add to the
//! scores, multiply the weights, or add to the values. A linear bias takes from each score what is in
//! proportion to the distance; here, with a slope of ln 2, each step halves the weight of equal keys:
//!
//! ```
//! # use regard_attn::At;
//! # use regard_attn::normaliser::{Normaliser, Softmax};
//! use regard_attn::position::{Alibi, Position};
//!
//! let alibi = Alibi::with_slopes(vec![2f64.ln()]); // of one head
//! let at = At { item: 0, head: 0, q_len: 3, kv_len: 3, q_offset: 0 };
//! let mut row = [0, 1, 2].map(|key| 0.5 + alibi.bias(at, 2, key, &[0.0f64])); // each key scores 0.5
//! Softmax.row(&mut row);
//! for (weight, want) in row.into_iter().zip([1.0 / 7.0, 2.0 / 7.0, 4.0 / 7.0]) {
//!     assert!((weight - want).abs() < 1e-15);
//! }
//! ```
//!
//! # Soft or hard, and how sure
//!
//! Another normaliser makes other weights of the same scores: `Hard` takes the best key, `Sampled`
//! draws one, with the probabilities of the softmax. A [`Summary`] says what is wanted of the weights
//! without the whole of them, such as the entropy of each row or the log-probability of what was
//! chosen; backward takes gradients by these, too ([`Upstream`]).
//!
//! ```
//! use regard_attn::normaliser::{Hard, Softmax};
//! use regard_attn::position::NoPosition;
//! use regard_attn::scope::Full;
//! use regard_attn::score::Dot;
//! use regard_attn::{Call, Dims, Item, Rows, Wanted, reference};
//!
//! let soft = Call {
//!     score: &Dot,
//!     normaliser: &Softmax,
//!     scope: &Full,
//!     position: &NoPosition,
//!     dropout: None,
//!     dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: 1, d_v: 1 },
//!     items: &[Item { q_start: 0, q_len: 1, kv_start: 0, kv_len: 2, q_offset: 0 }],
//! };
//! let hard = Call { normaliser: &Hard, ..soft };
//! let rows = |data| Rows { data, row_stride: 1, head_stride: 1 };
//! let (q, k, v) = ([1.0f64], [3f64.ln(), 0.0], [8.0, 16.0]); // probabilities 3/4 and 1/4
//!
//! let mean = reference::forward(&soft, rows(&q), rows(&k), rows(&v))?.context[0];
//! let best = reference::forward(&hard, rows(&q), rows(&k), rows(&v))?.context[0];
//! assert!((mean - 10.0).abs() < 1e-14 && best == 8.0);
//!
//! let wanted = Wanted { entropy: true, choices: true, ..Wanted::default() };
//! let said = reference::summarise(&hard, rows(&q), rows(&k), wanted)?;
//! assert_eq!(said.chosen, [0]);
//! assert!((said.log_prob[0] - 0.75f64.ln()).abs() < 1e-15);
//! assert!((said.entropy[0] - 0.5623).abs() < 1e-4); // −3/4 ln 3/4 − 1/4 ln 1/4
//! # Ok::<(), regard_attn::AttnError>(())
//! ```
//!
//! # One step against a cache
//!
//! While a text is written, each new token is one query; its key and value join those of before. The
//! step gives the same row as a pass over the whole text, if it knows where it stands:
//! [`Item::q_offset`] counts the tokens before it, for positions, and the causal scope names the corner
//! that it aligns.
//!
//! ```
//! use regard_attn::mechanisms::causal;
//! use regard_attn::position::{Rotary, RotaryLayout};
//! use regard_attn::scope::{Alignment, Causal};
//! use regard_attn::score::ScaledDot;
//! use regard_attn::{Dims, Item, Rows, reference};
//!
//! let (score, rotary) = (ScaledDot::new(2), Rotary::new(10000.0, RotaryLayout::Interleaved));
//! let dims = Dims { n_heads: 1, n_kv_heads: 1, d_k: 2, d_v: 2 };
//! let x: Vec<f64> = (0..4 * 2).map(|n| (n as f64).sin()).collect(); // four tokens
//! let rows = |data| Rows { data, row_stride: 2, head_stride: 2 };
//!
//! let (square, items) = (Causal::square(), Item::packed(&[4]));
//! let call = causal::new(&score, &square, &rotary, dims, &items);
//! let all = reference::forward(&call, rows(&x), rows(&x), rows(&x))?;
//!
//! // The fourth token alone, against the keys and values of all four.
//! let scope = Causal { alignment: Alignment::BottomRight };
//! let step = [Item { q_start: 0, q_len: 1, kv_start: 0, kv_len: 4, q_offset: 3 }];
//! let call = causal::new(&score, &scope, &rotary, dims, &step);
//! let last = reference::forward(&call, rows(&x[6..]), rows(&x), rows(&x))?;
//! assert_eq!(last.context, all.context[6..]);
//! # Ok::<(), regard_attn::AttnError>(())
//! ```
//!
//! # A mechanism of the literature
//!
//! [`mechanisms`] has one file for each, with its paper; `new` joins the parts. Luong's local attention
//! looks near a predicted place, through a Gaussian: centre 1.4 and so the window from ⌊1.4⌋ − 1 to
//! ⌊1.4⌋ + 1, σ = 1/2.
//!
//! ```
//! use regard_attn::mechanisms::luong_local_p;
//! use regard_attn::position::Gaussian;
//! use regard_attn::scope::PredictedCentre;
//! use regard_attn::score::Dot;
//! use regard_attn::{Dims, Item, Rows, reference};
//!
//! let scope = PredictedCentre { centres: &[&[1.4]], radius: 1 };
//! let gaussian = Gaussian::new(&[1.4, 0.5], &[1]); // the centre, and σ
//! let dims = Dims { n_heads: 1, n_kv_heads: 1, d_k: 1, d_v: 1 };
//! let items = [Item { q_start: 0, q_len: 1, kv_start: 0, kv_len: 4, q_offset: 0 }];
//! let call = luong_local_p::new(&Dot, &scope, &gaussian, dims, &items);
//!
//! fn rows(data: &[f64]) -> Rows<'_, f64> {
//!     Rows { data, row_stride: 1, head_stride: 1 }
//! }
//! let out = reference::forward(&call, rows(&[0.0]), rows(&[0.0; 4]), rows(&[3.0; 4]))?;
//! // A third each, times exp(−(j − 1.4)² / (2·0.25)): not normalised again.
//! let want = [0.0198, 0.7261, 0.4868, 0.0].map(|factor| factor / 3.0);
//! assert!(out.weights.iter().zip(want).all(|(weight, want)| (weight - want).abs() < 1e-4));
//! assert!((out.context[0] - 1.2327).abs() < 1e-4);
//! # Ok::<(), regard_attn::AttnError>(())
//! ```
//!
//! A part of one's own is a type with a few functions: the examples `own_score`, `own_scope` and
//! `own_position` of the crate `regard` have one each.

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
