//! The plain reference: attention by loops, in the order of the formula.
//!
//! Slow and obvious on purpose; fast code must agree with it. Per item and head it holds whole
//! rows of scores, asks [`Scope::allows`](crate::Scope::allows) and
//! [`Score::pair`](crate::Score::pair) for every pair and gives whole rows to
//! [`Normaliser::row`](crate::Normaliser::row); it uses none of the hints. The order of work:
//!
//! 1. turn q and k by position,
//! 2. score every allowed pair; forbidden pairs have −∞,
//! 3. normalise each row,
//! 4. drop weights,
//! 5. sum the values by the weights left.
//!
//! Forbidden keys and values are never read, so nothing in them can leak. A query with
//! nothing allowed has zero context, zero weights, zero gradient and lse = −∞.
//!
//! Time O(q_len·kv_len·d) an item and head whatever the scope; memory O(q_len·kv_len).

mod backward;
mod forward;

pub use backward::{Gradients, backward};
pub use forward::{Reference, forward};

use regard_tensor::Real;

use crate::call::{At, Item};
use crate::{Call, Rows};

/// The rows `start..start + len` of all heads, turned by their index in the item:
/// `[len, heads, width]`.
fn turned<T: Real>(
    call: &Call<'_, T>,
    rows: Rows<'_, T>,
    (start, len): (usize, usize),
    (heads, width): (usize, usize),
) -> Vec<T> {
    let mut out = Vec::with_capacity(len * heads * width);
    for i in 0..len {
        for head in 0..heads {
            let first = out.len();
            out.extend_from_slice(rows.row(start + i, head, width));
            if call.position.turns() {
                call.position.turn(i, &mut out[first..]);
            }
        }
    }
    out
}

/// The turned queries `[q_len, n_heads, d_k]` and keys `[kv_len, n_kv_heads, d_k]` of one item.
struct Turned<T> {
    q: Vec<T>,
    k: Vec<T>,
}

impl<T: Real> Turned<T> {
    fn new(call: &Call<'_, T>, item: Item, q: Rows<'_, T>, k: Rows<'_, T>) -> Self {
        let d = call.dims;
        Self {
            q: turned(call, q, (item.q_start, item.q_len), (d.n_heads, d.d_k)),
            k: turned(call, k, (item.kv_start, item.kv_len), (d.n_kv_heads, d.d_k)),
        }
    }
}

/// One query's row.
struct Row<T> {
    /// Which keys are allowed; at least one is.
    allowed: Vec<bool>,
    /// Weights before dropout; 0 at forbidden keys.
    weights: Vec<T>,
    /// Dropout's factor on each weight.
    factors: Vec<T>,
    /// Log-sum-exp.
    lse: T,
}

/// Scores, normalises and draws dropout for one query; `None` where nothing is allowed.
fn row<T: Real>(call: &Call<'_, T>, at: At, i: usize, turned: &Turned<T>) -> Option<Row<T>> {
    let allowed: Vec<bool> = (0..at.kv_len).map(|j| call.scope.allows(at, i, j)).collect();
    if !allowed.contains(&true) {
        return None;
    }
    let d = call.dims;
    let q = &turned.q[index(i, at.head, d.n_heads, d.d_k)];
    let mut weights = vec![T::NEG_INFINITY; at.kv_len];
    for j in 0..at.kv_len {
        if allowed[j] {
            let k = index(j, d.kv_head(at.head), d.n_kv_heads, d.d_k);
            weights[j] = call.score.pair(at.head, q, &turned.k[k]);
        }
    }
    let lse = call.normaliser.row(&mut weights);
    let factors = match call.dropout {
        Some(dropout) => {
            let stream = dropout.row(at.item, at.head, i);
            (0..at.kv_len).map(|j| dropout.factor(stream, j)).collect()
        }
        None => vec![T::ONE; at.kv_len],
    };
    Some(Row { allowed, weights, factors, lse })
}

/// Where row `row` of `head` stands in an array `[rows, heads, width]`.
fn index(row: usize, head: usize, heads: usize, width: usize) -> std::ops::Range<usize> {
    let start = (row * heads + head) * width;
    start..start + width
}
