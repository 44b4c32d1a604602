//! One request for attention: who attends to whom, with which parts, over which memory.
//!
//! The plain reference and the engine take the same [`Call`], so every test can ask both.

use std::ops::Range;

use regard_tensor::{Key, Real};

use crate::{AttnError, Normaliser, Position, Scope, Score};

/// One item of a batch: its queries and keys are consecutive rows.
///
/// Starts count rows of the respective array; a padded batch has equal distances between
/// starts, a packed one none to spare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// First query row.
    pub q_start: usize,
    /// Number of queries.
    pub q_len: usize,
    /// First key and value row.
    pub kv_start: usize,
    /// Number of keys.
    pub kv_len: usize,
    /// Position of the first query: query i stands at position `q_offset + i`, key j at position
    /// j. 0 where queries and keys begin together; `kv_len − q_len` for new queries against a
    /// cache of all keys so far.
    pub q_offset: usize,
}

impl Item {
    /// Items packed without gaps that attend to themselves: self-attention over `lengths`.
    pub fn packed(lengths: &[usize]) -> Vec<Self> {
        let mut start = 0;
        let item = |&len: &usize| {
            let item =
                Self { q_start: start, q_len: len, kv_start: start, kv_len: len, q_offset: 0 };
            start += len;
            item
        };
        lengths.iter().map(item).collect()
    }
}

/// The place of a score inside a batch, which scopes and positions may look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// Index of the item in the batch.
    pub item: usize,
    /// Index of the query head.
    pub head: usize,
    /// Number of queries of the item.
    pub q_len: usize,
    /// Number of keys of the item.
    pub kv_len: usize,
    /// Position of the item's first query among the keys, [`Item::q_offset`].
    pub q_offset: usize,
}

/// A rectangle of pairs of one item and one head; both spans count from the item's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileAt {
    /// Which item and head.
    pub at: At,
    /// The queries.
    pub queries: Span,
    /// The keys.
    pub keys: Span,
}

impl TileAt {
    /// Position of a query of the item, counted as keys are.
    pub fn position(&self, query: usize) -> usize {
        self.at.q_offset + query
    }
}

/// Sizes that every item shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dims {
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads; divides `n_heads`. Query head h uses key head h / (n_heads / n_kv_heads).
    pub n_kv_heads: usize,
    /// Width of a query and of a key.
    pub d_k: usize,
    /// Width of a value and of a context.
    pub d_v: usize,
}

impl Dims {
    /// The key and value head that a query head uses.
    pub fn kv_head(&self, head: usize) -> usize {
        head / (self.n_heads / self.n_kv_heads)
    }
}

/// Rows of one head inside a larger array: row i of head h starts at `i·row_stride + h·head_stride`.
///
/// `[len, heads, d]` (the natural output of a projection) has strides `heads·d` and `d`;
/// `[heads, len, d]` has strides `d` and `len·d`.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a, T> {
    /// The array.
    pub data: &'a [T],
    /// Elements between rows.
    pub row_stride: usize,
    /// Elements between heads.
    pub head_stride: usize,
}

impl<'a, T> Rows<'a, T> {
    /// Row `row` of `head`, `width` elements.
    #[inline(always)]
    pub fn row(&self, row: usize, head: usize, width: usize) -> &'a [T] {
        let start = row * self.row_stride + head * self.head_stride;
        &self.data[start..start + width]
    }
}

/// As [`Rows`], for writing.
#[derive(Debug)]
pub struct RowsMut<'a, T> {
    /// The array.
    pub data: &'a mut [T],
    /// Elements between rows.
    pub row_stride: usize,
    /// Elements between heads.
    pub head_stride: usize,
}

impl<T> RowsMut<'_, T> {
    /// Row `row` of `head`, `width` elements.
    #[inline(always)]
    pub fn row(&mut self, row: usize, head: usize, width: usize) -> &mut [T] {
        let start = row * self.row_stride + head * self.head_stride;
        &mut self.data[start..start + width]
    }
}

/// Whose row of scores it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowAt {
    /// Index of the item in the batch.
    pub item: usize,
    /// Index of the query head.
    pub head: usize,
    /// The query, from the item's start.
    pub query: usize,
}

/// The random stream of one row, out of a call's stream: entry j is the draw at key j.
pub fn row_stream(key: Key, at: RowAt) -> Key {
    key.child(((at.item as u64) << 40) ^ ((at.head as u64) << 28) ^ at.query as u64)
}

/// Dropout on the weights: each weight is zeroed with probability `rate`, the others divided by
/// 1 − rate. The draw at (item, head, query, key) is a function of `key` alone, so backward
/// replays it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// Probability of zeroing, in [0, 1).
    pub rate: f64,
    /// The random stream of this call.
    pub key: Key,
}

impl Dropout {
    /// The stream of one row of weights.
    pub fn row(&self, item: usize, head: usize, query: usize) -> Key {
        row_stream(self.key, RowAt { item, head, query })
    }

    /// Factor on the weight at key index `key` of a row: 0 or 1/(1 − rate).
    #[inline(always)]
    pub fn factor<T: Real>(&self, row: Key, key: usize) -> T {
        if f64::from(row.uniform(key as u32)) < self.rate {
            T::ZERO
        } else {
            T::from_f64(1.0 / (1.0 - self.rate))
        }
    }
}

/// One request: four parts, sizes, and optional dropout.
///
/// For each item, head, query i: `c_i = Σ_j a_ij v_j`, where
/// `a_i = normalise(score(turn(q_i), turn(k_j)) for j in scope(i))`.
#[derive(Clone, Copy)]
pub struct Call<'a, T: Real> {
    /// How alike a query and a key are.
    pub score: &'a dyn Score<T>,
    /// How a row of scores becomes weights.
    pub normaliser: &'a dyn Normaliser<T>,
    /// Which keys a query may see.
    pub scope: &'a dyn Scope,
    /// What the order adds.
    pub position: &'a dyn Position<T>,
    /// Dropout on the weights, in training.
    pub dropout: Option<Dropout>,
    /// Sizes.
    pub dims: Dims,
    /// The items of the batch.
    pub items: &'a [Item],
}

impl<T: Real> Call<'_, T> {
    /// Checks sizes and options against the arrays.
    ///
    /// # Errors
    /// Names the argument or option at fault, what it must be and what came.
    pub fn check(&self, q: Rows<'_, T>, k: Rows<'_, T>, v: Rows<'_, T>) -> Result<(), AttnError> {
        self.check_scores(q, k)?;
        let d = self.dims;
        AttnError::size(d.d_v > 0, "d_v", "at least 1", d.d_v)?;
        extent("value", v, self.kv_rows(), d.n_kv_heads, d.d_v)
    }

    /// As [`Call::check`], for what needs no values.
    ///
    /// # Errors
    /// As [`Call::check`].
    pub fn check_scores(&self, q: Rows<'_, T>, k: Rows<'_, T>) -> Result<(), AttnError> {
        let d = self.dims;
        AttnError::size(d.n_heads > 0, "n_heads", "at least 1", d.n_heads)?;
        AttnError::size(
            d.n_kv_heads > 0 && d.n_heads.is_multiple_of(d.n_kv_heads),
            "n_kv_heads",
            format_args!("a divisor of n_heads = {}", d.n_heads),
            d.n_kv_heads,
        )?;
        AttnError::size(d.d_k > 0, "d_k", "at least 1", d.d_k)?;
        if let Some(dropout) = self.dropout
            && !(0.0..1.0).contains(&dropout.rate)
        {
            return Err(AttnError::Option {
                option: "dropout",
                expected: "in [0, 1)".into(),
                actual: dropout.rate.to_string(),
            });
        }
        for (n, item) in self.items.iter().enumerate() {
            let Item { q_start, q_len, kv_start, kv_len, q_offset } = *item;
            for (argument, number) in [
                ("q_start", q_start),
                ("q_len", q_len),
                ("kv_start", kv_start),
                ("kv_len", kv_len),
                ("q_offset", q_offset),
            ] {
                let expected = format_args!("at most {MOST} in item {n}");
                AttnError::size(number <= MOST, argument, expected, number)?;
            }
        }
        for (argument, number) in [("n_heads", d.n_heads), ("d_k", d.d_k), ("d_v", d.d_v)] {
            let expected = format_args!("at most {WIDEST}");
            AttnError::size(number <= WIDEST, argument, expected, number)?;
        }
        extent("query", q, self.q_rows(), d.n_heads, d.d_k)?;
        extent("key", k, self.kv_rows(), d.n_kv_heads, d.d_k)?;
        self.score.check(d)?;
        self.score.check_items(self.items)?;
        self.position.check(d, self.items)?;
        self.scope.check(self.items)
    }

    /// Number of rows that the array of queries must have: the last one that an item uses, plus one.
    pub fn q_rows(&self) -> usize {
        let used = self.items.iter().filter(|item| item.q_len > 0);
        used.map(|item| item.q_start + item.q_len).max().unwrap_or(0)
    }

    /// As [`Call::q_rows`], for keys and values.
    pub fn kv_rows(&self) -> usize {
        let used = self.items.iter().filter(|item| item.kv_len > 0);
        used.map(|item| item.kv_start + item.kv_len).max().unwrap_or(0)
    }

    /// Number of query rows over all items.
    pub fn n_queries(&self) -> usize {
        self.items.iter().map(|i| i.q_len).sum()
    }

    /// For each item, the index of its first query in arrays that hold one entry a query, such
    /// as the log-sum-exps `[n_heads, n_queries]`.
    pub fn query_offsets(&self) -> Vec<usize> {
        running(self.items.iter().map(|i| i.q_len))
    }

    /// For each item, where its weights `[n_heads, q_len, kv_len]` begin in the array of all
    /// weights; one more entry holds the total.
    pub fn weight_offsets(&self) -> Vec<usize> {
        let of_item = |i: &Item| {
            // What overflows is more than any array has.
            self.dims.n_heads.saturating_mul(i.q_len).saturating_mul(i.kv_len)
        };
        running(self.items.iter().map(of_item))
    }

    /// Checks that the whole of the weights can be held.
    ///
    /// # Errors
    /// There are too many of them.
    pub fn check_weights(&self) -> Result<(), AttnError> {
        let all = self.weight_offsets()[self.items.len()];
        AttnError::size(all <= MOST, "weights", format_args!("at most {MOST} numbers in all"), all)
    }

    /// The place of item `item` and head `head`.
    pub fn at(&self, item: usize, head: usize) -> At {
        let Item { q_len, kv_len, q_offset, .. } = self.items[item];
        At { item, head, q_len, kv_len, q_offset }
    }

    /// Number of keys over all items.
    pub fn n_keys(&self) -> usize {
        self.items.iter().map(|i| i.kv_len).sum()
    }

    /// For each item, the index of its first key in arrays that hold one entry a key, such as the
    /// sums of weights `[n_heads, n_keys]`; one more entry holds the total.
    pub fn key_offsets(&self) -> Vec<usize> {
        running(self.items.iter().map(|i| i.kv_len))
    }
}

/// Sums before each entry, and the total.
fn running(sizes: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut total = 0usize;
    let mut offsets = vec![0];
    offsets.extend(sizes.map(|n| {
        total = usize::saturating_add(total, n);
        total
    }));
    offsets
}

fn extent<T: Copy>(
    argument: &'static str,
    rows: Rows<'_, T>,
    n_rows: usize,
    heads: usize,
    width: usize,
) -> Result<(), AttnError> {
    let needed = if n_rows == 0 {
        0
    } else {
        // What overflows is more than any array has.
        let of_rows = (n_rows - 1).saturating_mul(rows.row_stride);
        let of_heads = (heads - 1).saturating_mul(rows.head_stride);
        of_rows.saturating_add(of_heads).saturating_add(width)
    };
    AttnError::size(
        needed <= rows.data.len(),
        argument,
        format_args!("at least {needed} elements ({n_rows} rows, {heads} heads of {width})"),
        rows.data.len(),
    )
}

/// The largest position, length or size: sums of them cannot overflow, and f64 holds them.
const MOST: usize = 1 << 40;

/// The most heads and the widest row.
const WIDEST: usize = 1 << 20;

/// A range of queries or keys of one item.
pub type Span = Range<usize>;
