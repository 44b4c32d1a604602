//! Mechanisms: what papers join from the four kinds of part.
//!
//! A mechanism here begins where the projections end: q_i = W^q x_i, k_j = W^k x_j and
//! v_j = W^v x_j are made outside (a layer's business). Each file says which parts, from which
//! paper and where it departs from it; its `new` takes the parts that have numbers of their own and
//! joins them to a [`Call`](crate::Call), which the reference and the engine compute. The
//! [`catalogue`](crate::catalogue) lists them all.
//!
//! ```
//! use regard_attn::mechanisms::bahdanau;
//! use regard_attn::scope::Full;
//! use regard_attn::score::Additive;
//! use regard_attn::{Dims, Item, Rows, reference};
//!
//! // One step of a decoder over two source words: scores 1.2 tanh(1) and 1.2 tanh(0).
//! let score = Additive { v: &[1.2] };
//! let items = [Item { q_start: 0, q_len: 1, kv_start: 0, kv_len: 2, q_offset: 0 }];
//! let dims = Dims { n_heads: 1, n_kv_heads: 1, d_k: 1, d_v: 1 };
//! let call = bahdanau::new(&score, &Full, dims, &items);
//! fn rows(data: &[f64]) -> Rows<'_, f64> {
//!     Rows { data, row_stride: 1, head_stride: 1 }
//! }
//! let out = reference::forward(&call, rows(&[0.0]), rows(&[1.0, 0.0]), rows(&[10.0, 20.0]))?;
//! assert!((out.weights[0] - 0.7138).abs() < 1e-4 && (out.weights[1] - 0.2862).abs() < 1e-4);
//! assert!((out.context[0] - 12.862).abs() < 1e-3);
//! # Ok::<(), regard_attn::AttnError>(())
//! ```

pub mod additive_pooling;
pub mod additive_self;
pub mod alibi;
pub mod bahdanau;
pub mod blocks;
pub mod causal;
pub mod convolution;
pub mod cross;
pub mod entmax;
pub mod gemma2;
pub mod graph;
pub mod graph_v2;
pub mod grouped_query;
pub mod luong_global;
pub mod luong_local_m;
pub mod luong_local_p;
pub mod memory;
pub mod multi_head;
pub mod packed;
pub mod query_key_norm;
pub mod relative;
pub mod roformer;
pub mod sasrec;
pub mod self_attention;
pub mod self_on_graph;
pub mod show_attend_tell;
pub mod sigmoid;
pub mod sliding_window;
pub mod sparsemax;
pub mod stand_alone;
pub mod t5;
pub mod truncated;

use crate::catalogue::Taxonomy;

/// One sequence that attends to itself, one weight a pair, every position seen.
const SELF: Taxonomy =
    Taxonomy { sequences: "self", levels: "single", positions: "soft", representations: "single" };

/// As [`SELF`], with queries of one sequence and keys of another.
const DISTINCTIVE: Taxonomy = Taxonomy { sequences: "distinctive", ..SELF };

/// The positions of a sequence that attends to itself.
const ORDERS: &[&str] =
    &["none", "sinusoidal", "learned", "rotary", "relative_bias", "alibi", "shaw"];

#[cfg(test)]
mod tests {
    use crate::reference::{self, Reference};
    use crate::{Call, Dims, Item, Rows};

    /// One item.
    pub(super) fn item(q_len: usize, kv_len: usize) -> [Item; 1] {
        [Item { q_start: 0, q_len, kv_start: 0, kv_len, q_offset: 0 }]
    }

    /// One head.
    pub(super) fn one_head(d_k: usize, d_v: usize) -> Dims {
        Dims { n_heads: 1, n_kv_heads: 1, d_k, d_v }
    }

    /// Computes a call with dense rows, `[rows, heads, width]`.
    pub(super) fn run(call: &Call<'_, f64>, q: &[f64], k: &[f64], v: &[f64]) -> Reference<f64> {
        let d = call.dims;
        let rows =
            |data, heads, width| Rows { data, row_stride: heads * width, head_stride: width };
        let (q, k) = (rows(q, d.n_heads, d.d_k), rows(k, d.n_kv_heads, d.d_k));
        reference::forward(call, q, k, rows(v, d.n_kv_heads, d.d_v)).unwrap()
    }

    #[test]
    fn examples_name_the_module_and_end_cleanly() {
        for entry in crate::catalogue::all().iter().filter(|entry| entry.parts.is_some()) {
            assert!(entry.example.contains("::new::<f32>("), "{}", entry.example);
            assert!(
                entry.example.ends_with(')') && !entry.example.contains(",)"),
                "{}",
                entry.name
            );
        }
    }

    /// Equal up to some hundred roundings of numbers below a hundred.
    #[track_caller]
    pub(super) fn same(got: &[f64], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 256.0 * f64::EPSILON * (1.0 + b.abs());
        assert!(got.iter().zip(want).all(near), "{got:?} against {want:?}");
    }
}
