//! Summaries of the weights, without the whole of them.

use std::ops::Range;

use regard_attn::summary::{Top, distance_bin, insert_top};
use regard_attn::{AttnError, Call, Rows, Streaming, Summary, TileAt, Wanted};
use regard_tensor::kernels::transpose;
use regard_tensor::{Buffer, Key, Real, simd};

use crate::check;
use crate::forward::{Chosen, row_at, visible};
use crate::kernel::{LANES, padded, softmax};
use crate::pack::Source;
use crate::panel::Panel;
use crate::plan::{self, KEYS, QUERIES, tiles};
use crate::score::{Keys, Queries};
use crate::survey::{self, Survey};

/// The summaries of the weights of [`forward`](crate::forward()), whose log-sum-exps are `lse`: sums by
/// key, largest weights, entropies, choices, a profile of distances, as `wanted`.
///
/// The weights are those before dropout, as [`Output::weights`](crate::Output::weights) has them, and are
/// computed again tile by tile. Time: one product of queries and keys over the pairs in tiles that
/// the scope does not rule out; memory beside the result as forward's. The bits do not depend on the
/// number of threads.
///
/// ```
/// use regard_attn::{Call, Dims, Item, Rows, RowsMut, Wanted};
/// use regard_attn::{normaliser::Softmax, position::NoPosition, scope::Causal, score::Dot};
///
/// let call = Call {
///     score: &Dot,
///     normaliser: &Softmax,
///     scope: &Causal::square(),
///     position: &NoPosition,
///     dropout: None,
///     dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: 1, d_v: 1 },
///     items: &Item::packed(&[2]),
/// };
/// let rows = |data| Rows { data, row_stride: 1, head_stride: 1 };
/// let (ones, keys) = ([1.0f64, 1.0], [0.0, 3f64.ln()]);
/// let (q, k) = (rows(&ones), rows(&keys));
/// let mut context = [0.0; 2];
/// let out = RowsMut { data: &mut context, row_stride: 1, head_stride: 1 };
/// let lse = regard_engine::forward(&call, q, k, k, out, false)?.lse;
/// let wanted = Wanted { key_sums: true, top: 1, ..Wanted::default() };
/// let summary = regard_engine::summarise(&call, q, k, &lse, wanted)?;
/// // Weights 1 and (1/4, 3/4).
/// assert!((summary.key_sums[0] - 1.25).abs() < 1e-15 && (summary.key_sums[1] - 0.75).abs() < 1e-15);
/// assert_eq!(summary.top[1].key, 1);
/// # Ok::<(), regard_attn::AttnError>(())
/// ```
///
/// # Errors
/// Those of [`Call::check`], but for the values, and of [`Wanted::check`]; `lse` of another length.
pub fn summarise<T: Real>(
    call: &Call<'_, T>,
    q: Rows<'_, T>,
    k: Rows<'_, T>,
    lse: &[T],
    wanted: Wanted,
) -> Result<Summary<T>, AttnError> {
    call.check_scores(q, k)?;
    wanted.check(call)?;
    let (heads, n_queries, n_keys) = (call.dims.n_heads, call.n_queries(), call.n_keys());
    check::query_rows(call)?;
    check::exactly("lse", lse, heads.saturating_mul(n_queries))?;
    let mut out = Summary::zeros(call, wanted);
    let survey = Survey::of(call);
    let call = &survey::surveyed(call, survey.as_ref());
    let job = Job { call, q, k, lse, queries: call.query_offsets(), wanted };
    // One task an item and head: its rows come in order, so that sums over queries do.
    let tasks = call.items.len() * heads;
    let pairs: usize = call.items.iter().map(|item| item.q_len * item.kv_len).sum();
    let new = || Scratch::new(call);
    let parts = plan::run(&mut new(), tasks, pairs * heads * call.dims.d_k, new, |scratch, n| {
        job.head(n / heads, n % heads, scratch)
    });
    let key_offsets = call.key_offsets();
    for (n, part) in parts.into_iter().enumerate() {
        let (item, head) = (n / heads, n % heads);
        let row = head * n_queries + job.queries[item];
        let key = head * n_keys + key_offsets[item];
        put(&mut out.key_sums, key, &part.key_sums);
        put(&mut out.top, row * wanted.top, &part.top);
        put(&mut out.entropy, row, &part.entropy);
        put(&mut out.chosen, row, &part.chosen);
        put(&mut out.log_prob, row, &part.log_prob);
        let bins = part.distances.len();
        for (sum, x) in out.distances[head * bins..].iter_mut().zip(&part.distances) {
            *sum += *x / T::from_f64(n_queries.max(1) as f64);
        }
    }
    Ok(out)
}

fn put<X: Copy>(out: &mut [X], start: usize, part: &[X]) {
    if !part.is_empty() {
        out[start..start + part.len()].copy_from_slice(part);
    }
}

struct Job<'a, T: Real> {
    call: &'a Call<'a, T>,
    q: Rows<'a, T>,
    k: Rows<'a, T>,
    lse: &'a [T],
    queries: Vec<usize>,
    wanted: Wanted,
}

struct Scratch<'a, T: Real> {
    keys: Keys<'a, T>,
    /// Which item and key head `keys` holds.
    packed: Option<(usize, usize)>,
    queries: Queries<T>,
    scores: Buffer<T>,
    tops: Tops<T>,
}

impl<T: Real> Scratch<'_, T> {
    fn new(call: &Call<'_, T>) -> Self {
        Self {
            keys: Keys::new(call),
            packed: None,
            queries: Queries::new(),
            scores: Buffer::stale(QUERIES * KEYS),
            tops: Tops::new(),
        }
    }
}

impl<'a, T: Real> Job<'a, T> {
    fn head(&self, item: usize, head: usize, scratch: &mut Scratch<'a, T>) -> Summary<T> {
        let call = self.call;
        let of = call.items[item];
        let kv_head = call.dims.kv_head(head);
        let (d_k, wanted) = (call.dims.d_k, self.wanted);
        let when = |wanted: bool, len: usize| if wanted { len } else { 0 };
        let mut out = Summary {
            key_sums: vec![T::ZERO; when(wanted.key_sums, of.kv_len)],
            top: vec![Top::NONE; of.q_len * wanted.top],
            entropy: vec![T::ZERO; when(wanted.entropy, of.q_len)],
            chosen: vec![Top::<T>::NO_KEY; when(wanted.choices, of.q_len)],
            log_prob: vec![T::ZERO; when(wanted.choices, of.q_len)],
            distances: vec![T::ZERO; wanted.distances.map_or(0, |radius| 2 * radius + 1)],
        };
        if scratch.packed != Some((item, kv_head)) {
            let source = Source::new(self.k, of.kv_start, kv_head, d_k);
            scratch.keys.pack(call, source, kv_head, of.kv_len, false);
            scratch.packed = Some((item, kv_head));
        }
        for queries in tiles(0..of.q_len, QUERIES) {
            let source = Source::new(self.q, of.q_start, head, d_k);
            scratch.queries.pack(call, source, of.q_offset, queries.clone());
            let mut tile = TileAt { at: call.at(item, head), queries, keys: 0..0 };
            self.rows(&mut tile, scratch, &mut out);
        }
        out
    }

    /// A tile of queries against all of its keys.
    fn rows(&self, tile: &mut TileAt, scratch: &mut Scratch<'a, T>, out: &mut Summary<T>) {
        let (call, rows) = (self.call, tile.queries.len());
        let n_queries = self.queries[call.items.len()];
        let first = tile.at.head * n_queries + self.queries[tile.at.item] + tile.queries.start;
        let lse = &self.lse[first..first + rows];
        let range = visible(call, tile);
        let Scratch { keys, queries, scores, tops, .. } = scratch;
        let q = queries.rows();
        tops.start(rows, self.wanted.top.min(tile.at.kv_len));
        let streaming = call.normaliser.streaming();
        if streaming == Streaming::Rows {
            let panel = Panel::new(range, scores, rows);
            panel.scores(call, tile, keys, q, scores);
            for i in 0..rows {
                call.normaliser.row_at(row_at(tile, i), &mut scores[panel.row(i)]);
            }
            for span in panel.tiles() {
                tile.keys = span;
                let part = &mut scores[tile.keys.start - panel.start..];
                self.shares(tile, part, panel.stride, tops, out);
            }
            tops.finish(&mut out.top[tile.queries.start * self.wanted.top..], self.wanted.top);
            return;
        }
        let scale = if let Streaming::Softmax { scale } = streaming { scale } else { T::ONE };
        let mut picks = Picks::new(rows);
        for span in tiles(range, KEYS) {
            tile.keys = span;
            if keys.scores(call, tile, q, scale, scores, KEYS).is_none() {
                continue;
            }
            let columns = padded(tile.keys.len());
            match streaming {
                Streaming::Pick { noise } => {
                    picks.look(tile, scores, noise);
                    softmax::from_lse(scores, KEYS, columns, lse);
                    self.entropy(tile, scores, KEYS, out);
                }
                Streaming::Softmax { .. } => {
                    softmax::from_lse(scores, KEYS, columns, lse);
                    self.shares(tile, scores, KEYS, tops, out);
                }
                Streaming::Each | Streaming::Rows => {
                    for i in 0..rows {
                        call.normaliser.row(&mut scores[i * KEYS..i * KEYS + columns]);
                    }
                    self.shares(tile, scores, KEYS, tops, out);
                }
            }
        }
        for i in 0..rows {
            if let (Some(key), Streaming::Pick { .. }) = (picks.chosen.keys[i], streaming) {
                let query = tile.queries.start + i;
                if self.wanted.choices {
                    out.chosen[query] = key;
                    out.log_prob[query] = picks.scores[i] - lse[i];
                }
                let pair = TileAt { at: tile.at, queries: query..query + 1, keys: key..key + 1 };
                let mut weight = [T::ONE];
                self.weights(&pair, &mut weight, 1, out);
                insert_top(
                    &mut out.top[query * self.wanted.top..][..self.wanted.top],
                    key,
                    weight[0],
                );
            }
        }
        // Of picks it saw none.
        tops.finish(&mut out.top[tile.queries.start * self.wanted.top..], self.wanted.top);
    }

    /// Takes in the shares of a tile; they become weights.
    fn shares(
        &self,
        tile: &TileAt,
        part: &mut [T],
        stride: usize,
        tops: &mut Tops<T>,
        out: &mut Summary<T>,
    ) {
        self.entropy(tile, part, stride, out);
        self.weights(tile, part, stride, out);
        tops.look(part, stride, &tile.keys);
    }

    fn entropy(&self, tile: &TileAt, part: &[T], stride: usize, out: &mut Summary<T>) {
        if self.wanted.entropy {
            for (i, query) in tile.queries.clone().enumerate() {
                let shares = &part[i * stride..i * stride + tile.keys.len()];
                let terms = shares.iter().filter(|p| **p != T::ZERO).map(|p| *p * p.ln());
                out.entropy[query] -= terms.fold(T::ZERO, |a, b| a + b);
            }
        }
    }

    /// Takes in the shares of a tile for what is said of the weights.
    fn weights(&self, tile: &TileAt, part: &mut [T], stride: usize, out: &mut Summary<T>) {
        if self.call.position.weighs() {
            self.call.position.weight_tile(tile, part, stride);
        }
        let n = tile.keys.len();
        if self.wanted.key_sums {
            let (rows, sums) = (tile.queries.len(), &mut out.key_sums[tile.keys.clone()]);
            let part = &*part;
            simd::vectorise(
                #[inline(always)]
                move || {
                    for i in 0..rows {
                        for (sum, a) in sums.iter_mut().zip(&part[i * stride..i * stride + n]) {
                            *sum += *a;
                        }
                    }
                },
            );
        }
        if let Some(radius) = self.wanted.distances {
            for (i, query) in tile.queries.clone().enumerate() {
                for (key, a) in tile.keys.clone().zip(&part[i * stride..]) {
                    out.distances[distance_bin(tile.position(query), key, radius)] += *a;
                }
            }
        }
    }
}

/// The largest weights of the rows of a tile of queries so far, sixteen rows side by side.
struct Tops<T: Real> {
    rows: usize,
    /// How many of a row.
    most: usize,
    /// Of each sixteen rows the highest ranks, then the next ones, and so on.
    ranks: Vec<[T::Ranked; LANES]>,
    /// Sixteen rows of a tile, turned over.
    columns: [T; LANES * KEYS],
    zeros: [T; KEYS],
}

impl<T: Real> Tops<T> {
    fn new() -> Self {
        let (columns, zeros) = ([T::ZERO; LANES * KEYS], [T::ZERO; KEYS]);
        Self { rows: 0, most: 0, ranks: Vec::new(), columns, zeros }
    }

    /// Begins with `most` of each of so many rows.
    fn start(&mut self, rows: usize, most: usize) {
        (self.rows, self.most) = (rows, most);
        self.ranks.clear();
        self.ranks.resize(rows.div_ceil(LANES) * most, [T::UNRANKED; LANES]);
    }

    /// Looks at the weights that all rows give to these keys.
    fn look(&mut self, weights: &[T], stride: usize, keys: &Range<usize>) {
        let Self { rows, columns, zeros, ranks, .. } = self;
        let n = keys.len();
        // The key of no index: `Wanted::check` bounds them.
        let first = keys.start as u32;
        for (group, ranks) in ranks.chunks_exact_mut(self.most.max(1)).enumerate() {
            // Rows of zeros fill up the last sixteen.
            let rows: [&[T]; LANES] = std::array::from_fn(|l| {
                let row = group * LANES + l;
                if row < *rows { &weights[row * stride..row * stride + n] } else { &zeros[..n] }
            });
            let columns = &mut columns[..n * LANES];
            transpose::sixteen(&rows, columns);
            insert(columns.as_chunks().0, first, ranks);
        }
    }

    /// Writes what was found to rows of `width` places.
    fn finish(&self, out: &mut [Top<T>], width: usize) {
        for i in 0..self.rows {
            let ranks = &self.ranks[i / LANES * self.most..][..self.most];
            for (ranks, out) in ranks.iter().zip(&mut out[i * width..]) {
                let (weight, key) = T::unranked(ranks[i % LANES]);
                if weight != T::ZERO {
                    *out = Top { key: key as usize, weight };
                }
            }
        }
    }
}

/// Puts weights of keys from `first` on, of sixteen rows each, among the largest so far.
fn insert<T: Real>(weights: &[[T; LANES]], first: u32, tops: &mut [[T::Ranked; LANES]]) {
    simd::vectorise(
        #[inline(always)]
        move || {
            let Some(last) = tops.len().checked_sub(1) else { return };
            // The later of many keys are among the largest of few rows, if of any; of the first ones nobody can guess.
            let mostly_passed_over = first as usize >= 64 * tops.len();
            let mut least = [T::ZERO; LANES];
            for l in 0..LANES {
                least[l] = T::unranked(tops[last][l]).0;
            }
            for (key, weights) in (first..).zip(weights) {
                // One as large as another comes after it.
                let mut any = !mostly_passed_over;
                for l in 0..LANES {
                    any |= weights[l] > least[l];
                }
                if !any {
                    continue;
                }
                let mut new = [T::UNRANKED; LANES];
                for l in 0..LANES {
                    new[l] = weights[l].ranked(key);
                }
                for top in tops.iter_mut() {
                    // The lower one goes on to the next place.
                    for l in 0..LANES {
                        let (a, b) = (top[l], new[l]);
                        top[l] = a.max(b);
                        new[l] = a.min(b);
                    }
                }
                for l in 0..LANES {
                    least[l] = T::unranked(tops[last][l]).0;
                }
            }
        },
    );
}

/// The keys that the queries of a tile choose, and their scores.
struct Picks<T> {
    chosen: Chosen,
    top: [T; QUERIES],
    scores: [T; QUERIES],
    rows: usize,
}

impl<T: Real> Picks<T> {
    fn new(rows: usize) -> Self {
        let never = [T::NEG_INFINITY; QUERIES];
        Self { chosen: Chosen::new(rows), top: never, scores: never, rows }
    }

    fn look(&mut self, tile: &TileAt, scores: &[T], noise: Option<Key>) {
        for i in 0..self.rows {
            let row = &scores[i * KEYS..i * KEYS + tile.keys.len()];
            self.chosen.look(i, tile, row, noise, &mut self.top[i]);
            if let Some(key) = self.chosen.keys[i].filter(|key| tile.keys.contains(key)) {
                self.scores[i] = row[key - tile.keys.start];
            }
        }
    }
}
