//! What is said of the weights without the whole of them.

use std::cmp::Ordering;

use regard_tensor::Real;

use crate::upstream::check_looks;
use crate::{AttnError, Call};

/// Which summaries of the weights to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// [`Summary::key_sums`].
    pub key_sums: bool,
    /// How many of the largest weights of a row: [`Summary::top`]. 0 for none.
    pub top: usize,
    /// [`Summary::entropy`].
    pub entropy: bool,
    /// [`Summary::chosen`] and [`Summary::log_prob`].
    pub choices: bool,
    /// The largest distance to tell apart: [`Summary::distances`].
    pub distances: Option<usize>,
}

/// One of the largest weights of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Top<T> {
    /// The key, from the item's start; [`Top::NO_KEY`] where the row has fewer keys of weight above 0.
    pub key: usize,
    /// Its weight; 0 where there is none.
    pub weight: T,
}

impl<T: Real> Top<T> {
    /// Stands for no key.
    pub const NO_KEY: usize = usize::MAX;

    /// No key.
    pub const NONE: Self = Self { key: Self::NO_KEY, weight: T::ZERO };
}

/// Summaries of the weights before dropout; those that were not wanted are empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary<T> {
    /// `Σ_i a_ij`, `[n_heads, n_keys]`, the keys of items as [`Call::key_offsets`] says; divided by
    /// the number of queries, the mean attention that a key gets.
    pub key_sums: Vec<T>,
    /// The largest weights of each row, largest first and of equal ones the first key first,
    /// `[n_heads, n_queries, top]`; only weights above 0.
    pub top: Vec<Top<T>>,
    /// `−Σ_j a_ij ln a_ij` of each row as the normaliser gives it, before a position's factor, in
    /// nats, `[n_heads, n_queries]`; 0 where nothing is allowed. For `hard` and `sampled`: of the
    /// softmax that they choose from.
    pub entropy: Vec<T>,
    /// The key that `hard` or `sampled` chose, `[n_heads, n_queries]`; [`Top::NO_KEY`] where nothing is
    /// allowed.
    pub chosen: Vec<usize>,
    /// The log-probability of that key under the softmax, `[n_heads, n_queries]`; 0 where there is
    /// none.
    pub log_prob: Vec<T>,
    /// The mean over all queries of the weight on keys at distance δ = j − (q_offset + i),
    /// `[n_heads, 2·R + 1]` for δ = −R..R; what lies farther counts at the ends.
    pub distances: Vec<T>,
}

impl<T: Real> Summary<T> {
    /// Zeros of the sizes that `wanted` asks for.
    pub fn zeros(call: &Call<'_, T>, wanted: Wanted) -> Self {
        let heads = call.dims.n_heads;
        let rows = heads * call.n_queries();
        let when = |wanted: bool, len: usize| if wanted { len } else { 0 };
        let bins = wanted.distances.map_or(0, |radius| 2 * radius + 1);
        Self {
            key_sums: vec![T::ZERO; when(wanted.key_sums, heads * call.n_keys())],
            top: vec![Top::NONE; rows * wanted.top],
            entropy: vec![T::ZERO; when(wanted.entropy, rows)],
            chosen: vec![Top::<T>::NO_KEY; when(wanted.choices, rows)],
            log_prob: vec![T::ZERO; when(wanted.choices, rows)],
            distances: vec![T::ZERO; heads * bins],
        }
    }
}

impl Wanted {
    /// The most of the largest weights that may be asked for, and the largest distance.
    pub const MOST: usize = 1 << 20;

    /// Checks the wish against a call.
    ///
    /// # Errors
    /// A number that is too large; an entropy or choices of a normaliser that has none.
    pub fn check<T: Real>(&self, call: &Call<'_, T>) -> Result<(), AttnError> {
        let most = Self::MOST;
        AttnError::size(self.top <= most, "top", format_args!("at most {most}"), self.top)?;
        let longest = call.items.iter().map(|item| item.kv_len).max().unwrap_or(0);
        let few = self.top == 0 || u32::try_from(longest).is_ok();
        AttnError::size(few, "top", format_args!("0 for items of more than 2^32 keys"), self.top)?;
        let radius = self.distances.unwrap_or(0);
        AttnError::size(radius <= most, "distances", format_args!("at most {most}"), radius)?;
        check_looks(call, self.entropy, self.choices)
    }
}

/// The place of distance `position(query) → key` among 2·radius + 1.
pub fn distance_bin(position: usize, key: usize, radius: usize) -> usize {
    if key >= position {
        radius + (key - position).min(radius)
    } else {
        radius - (position - key).min(radius)
    }
}

/// Puts a weight among the largest so far; keys come in ascending order.
pub fn insert_top<T: Real>(top: &mut [Top<T>], key: usize, weight: T) {
    // NaN is not above anything and is passed over.
    let Some(last) = top.last() else { return };
    if weight.partial_cmp(&last.weight) != Some(Ordering::Greater) {
        return;
    }
    let place = top.iter().position(|t| weight > t.weight).unwrap_or(top.len() - 1);
    top[place..].rotate_right(1);
    top[place] = Top { key, weight };
}
