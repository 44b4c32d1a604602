//! The plain reference: attention by loops, in the order of the formula.
//!
//! Slow and obvious on purpose; fast code must agree with it. Per item and head it holds whole
//! rows of scores, asks [`Scope::allows`](crate::Scope::allows) and
//! [`Score::pair`](crate::Score::pair) for every pair and gives whole rows to
//! [`Normaliser::row`](crate::Normaliser::row); it uses none of the hints. The order of work:
//!
//! 1. turn q and k by position,
//! 2. score every allowed pair and add position's bias; forbidden pairs have −∞,
//! 3. normalise each row,
//! 4. multiply by position's factor,
//! 5. drop weights,
//! 6. sum the values, and position's values, by the weights left.
//!
//! Forbidden keys and values are never read, so nothing in them can leak. A query with
//! nothing allowed has zero context, zero weights, zero gradient and lse = −∞.
//!
//! Time O(q_len·kv_len·d) an item and head whatever the scope; memory O(q_len·kv_len).

mod backward;
mod forward;
mod summarise;

pub use backward::{Gradients, backward};
pub use forward::{Reference, forward};
pub use summarise::summarise;

use regard_tensor::Real;

use crate::call::{At, Item};
use crate::{Call, RowAt, Rows, Streaming};

/// The rows 0..len of all heads, as `row(i, head)` gives them, turned to positions from `first` on:
/// `[len, heads, width]`.
fn turned<'a, T: Real>(
    call: &Call<'_, T>,
    row: impl Fn(usize, usize) -> &'a [T],
    first: usize,
    len: usize,
    heads: usize,
) -> Vec<T> {
    let mut out = Vec::with_capacity(len * heads * call.dims.d_k);
    for i in 0..len {
        for head in 0..heads {
            let start = out.len();
            out.extend_from_slice(row(i, head));
            if call.position.turns() {
                call.position.turn(first + i, &mut out[start..]);
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
        let query = |i, head| q.row(item.q_start + i, head, d.d_k);
        let key = |j, head| {
            if call.score.has_own_keys() {
                call.score.own_key(head, j)
            } else {
                k.row(item.kv_start + j, head, d.d_k)
            }
        };
        Self {
            q: turned(call, query, item.q_offset, item.q_len, d.n_heads),
            k: turned(call, key, 0, item.kv_len, d.n_kv_heads),
        }
    }
}

/// One query's row.
struct Row<T> {
    /// Which keys are allowed; at least one is.
    allowed: Vec<bool>,
    /// Scores with position's bias; −∞ at forbidden keys.
    scores: Vec<T>,
    /// What the normaliser makes of them; 0 at forbidden keys.
    shares: Vec<T>,
    /// Position's factor on each share.
    of_position: Vec<T>,
    /// Weights before dropout: shares times factors of position.
    weights: Vec<T>,
    /// Dropout's factor on each weight.
    factors: Vec<T>,
    /// Log-sum-exp.
    lse: T,
}

impl<T: Real> Row<T> {
    /// The key that a normaliser which chooses one gave all weight.
    fn chosen(&self) -> Option<usize> {
        self.shares.iter().position(|a| *a == T::ONE)
    }

    /// The probabilities: the shares, or the softmax that a key is chosen from.
    fn probabilities(&self, call: &Call<'_, T>) -> Vec<T> {
        match call.normaliser.streaming() {
            Streaming::Pick { .. } => self.scores.iter().map(|s| (*s - self.lse).exp()).collect(),
            _ => self.shares.clone(),
        }
    }

    /// −Σ_j p_j ln p_j
    fn entropy(&self, call: &Call<'_, T>) -> T {
        let some = |p: &T| *p != T::ZERO;
        let terms = self.probabilities(call).into_iter().filter(some).map(|p| -(p * p.ln()));
        terms.fold(T::ZERO, |a, b| a + b)
    }
}

/// Scores, normalises and draws dropout for one query; `None` where nothing is allowed.
fn row<T: Real>(call: &Call<'_, T>, at: At, i: usize, turned: &Turned<T>) -> Option<Row<T>> {
    let allowed: Vec<bool> = (0..at.kv_len).map(|j| call.scope.allows(at, i, j)).collect();
    if !allowed.contains(&true) {
        return None;
    }
    let d = call.dims;
    let q = &turned.q[index(i, at.head, d.n_heads, d.d_k)];
    let mut scores = vec![T::NEG_INFINITY; at.kv_len];
    let mut of_position = vec![T::ONE; at.kv_len];
    for j in 0..at.kv_len {
        if allowed[j] {
            let k = index(j, d.kv_head(at.head), d.n_kv_heads, d.d_k);
            scores[j] = call.score.pair(at.head, q, &turned.k[k]);
            if call.position.biases() {
                scores[j] += call.position.bias(at, i, j, q);
            }
            if call.position.weighs() {
                of_position[j] = call.position.weight(at, i, j);
            }
        }
    }
    if scores.iter().all(|s| *s == T::NEG_INFINITY) {
        // A bias of −∞ forbids a key as a scope does.
        return None;
    }
    let mut shares = scores.clone();
    let place = RowAt { item: at.item, head: at.head, query: i };
    let lse = call.normaliser.row_at(place, &mut shares);
    let weights = shares.iter().zip(&of_position).map(|(a, w)| *a * *w).collect();
    let factors = match call.dropout {
        Some(dropout) => {
            let stream = dropout.row(at.item, at.head, i);
            (0..at.kv_len).map(|j| dropout.factor(stream, j)).collect()
        }
        None => vec![T::ONE; at.kv_len],
    };
    Some(Row { allowed, scores, shares, of_position, weights, factors, lse })
}

/// Where row `row` of `head` stands in an array `[rows, heads, width]`.
fn index(row: usize, head: usize, heads: usize, width: usize) -> std::ops::Range<usize> {
    let start = (row * heads + head) * width;
    start..start + width
}
