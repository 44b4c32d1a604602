//! A small batch with everything that can go wrong in indexing: two items of unlike lengths, more
//! keys than queries and the reverse, unused rows before, between and behind them, fewer key heads
//! than query heads, values narrower than keys, and an empty item.

use regard_attn::normaliser::Softmax;
use regard_attn::{Call, Dims, Dropout, Item, Position, Rows, Scope, Score};
use regard_testkit::random_vec;

pub(crate) const DIMS: Dims = Dims { n_heads: 2, n_kv_heads: 1, d_k: 4, d_v: 3 };

pub(crate) const ITEMS: [Item; 2] = [
    Item { q_start: 1, q_len: 3, kv_start: 7, kv_len: 5, q_offset: 0 },
    Item { q_start: 5, q_len: 4, kv_start: 2, kv_len: 2, q_offset: 0 },
];

/// The same items, their queries further on.
pub(crate) const LATER: [Item; 2] =
    [Item { q_offset: 2, ..ITEMS[0] }, Item { q_offset: 1, ..ITEMS[1] }];

pub(crate) const Q_ROWS: usize = 9;
pub(crate) const KV_ROWS: usize = 12;

/// Inputs, `[rows, heads, width]`.
#[derive(Clone)]
pub(crate) struct Inputs {
    pub(crate) q: Vec<f64>,
    pub(crate) k: Vec<f64>,
    pub(crate) v: Vec<f64>,
    pub(crate) params: Vec<f64>,
}

impl Inputs {
    pub(crate) fn new(score: &str) -> Self {
        let Dims { n_heads, n_kv_heads, d_k, d_v } = DIMS;
        Self {
            q: random_vec(1, Q_ROWS * n_heads * d_k),
            k: random_vec(2, KV_ROWS * n_kv_heads * d_k),
            v: random_vec(3, KV_ROWS * n_kv_heads * d_v),
            params: random_vec(4, crate::parts::n_params(score, n_heads, d_k)),
        }
    }

    pub(crate) fn q(&self) -> Rows<'_, f64> {
        dense(&self.q, DIMS.n_heads, DIMS.d_k)
    }

    pub(crate) fn k(&self) -> Rows<'_, f64> {
        dense(&self.k, DIMS.n_kv_heads, DIMS.d_k)
    }

    pub(crate) fn v(&self) -> Rows<'_, f64> {
        dense(&self.v, DIMS.n_kv_heads, DIMS.d_v)
    }
}

/// The rows of an array `[rows, heads, width]`.
pub(crate) fn dense(data: &[f64], heads: usize, width: usize) -> Rows<'_, f64> {
    Rows { data, row_stride: heads * width, head_stride: width }
}

/// The call of this batch with these parts.
pub(crate) fn call<'a>(
    score: &'a dyn Score<f64>,
    scope: &'a dyn Scope,
    position: &'a dyn Position<f64>,
    dropout: Option<Dropout>,
) -> Call<'a, f64> {
    Call { score, normaliser: &Softmax, scope, position, dropout, dims: DIMS, items: &ITEMS }
}
