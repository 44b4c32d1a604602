//! Context, log-sum-exp and weights, tile by tile.

use std::ops::Range;

use regard_attn::normaliser::gumbel;
use regard_attn::score::BlockMut;
use regard_attn::{AttnError, Call, RowAt, Rows, RowsMut, Streaming, TileAt, call::row_stream};
use regard_tensor::{Buffer, Key, Real};

use crate::check;
use crate::fault::{self, Fault};
use crate::kernel::product::Left;
use crate::kernel::softmax::{self, Running};
use crate::kernel::{dropout, padded};
use crate::pack::{Along, Source, padded_width};
use crate::panel::Panel;
use crate::plan::{self, Inputs, KEYS, QUERIES, Unit, tiles};
use crate::rows::{Extent, Shared, SharedRows};
use crate::rowwise::{self, Places, RowOf, RowScratch};
use crate::score::{Keys, Queries};

/// What [`forward`] gives beside the contexts.
#[derive(Debug)]
pub struct Output<T: Real> {
    /// Log-sum-exp of each row of scores, `[n_heads, n_queries]`; −∞ where nothing is allowed.
    pub lse: Buffer<T>,
    /// Weights before dropout, with position's factor, where they were asked for, item by item `[n_heads, q_len, kv_len]`,
    /// beginning at [`Call::weight_offsets`].
    pub weights: Option<Buffer<T>>,
}

/// `c_i = Σ_j a_ij v_j` for every item, head and query of a call.
///
/// `context` holds rows of width d_v, numbered and shared among heads as the queries are: query i of
/// an item is row `q_start + i`. Rows of no item stay as they are. A query with nothing allowed
/// has a zero context, zero weights and lse = −∞. The log-sum-exp is that of the scores, of the
/// scores over the temperature where there is one, or 0 for normalisers that have none. What stands at forbidden keys and values has no
/// influence, not even NaN. A pair of weight 0, forbidden, dropped or too small for a number, takes
/// nothing of its value, whatever that holds.
///
/// Time grows with the pairs in tiles that the scope does not rule out; memory beside the outputs
/// with (kv_len·(d_k + d_v)) a thread, for a normaliser that does not stream also with 64·kv_len.
/// The bits do not depend on the number of threads, nor, without dropout, on the other items.
///
/// ```
/// use regard_attn::{Call, Dims, Item, Rows, RowsMut};
/// use regard_attn::{normaliser::Softmax, position::NoPosition, scope::Full, score::Dot};
///
/// let call = Call {
///     score: &Dot,
///     normaliser: &Softmax,
///     scope: &Full,
///     position: &NoPosition,
///     dropout: None,
///     dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: 2, d_v: 1 },
///     items: &[Item { q_start: 0, q_len: 1, kv_start: 0, kv_len: 2, q_offset: 0 }],
/// };
/// let rows = |data, width| Rows { data, row_stride: width, head_stride: width };
/// let (q, k, v) = ([1.0f64, 0.0], [3f64.ln(), 5.0, 0.0, -5.0], [8.0, 16.0]);
/// let mut context = [0.0];
/// let out = regard_engine::forward(
///     &call,
///     rows(&q, 2),
///     rows(&k, 2),
///     rows(&v, 1),
///     RowsMut { data: &mut context, row_stride: 1, head_stride: 1 },
///     true,
/// )?;
/// // Scores ln 3 and 0, so weights 3/4 and 1/4.
/// assert!((context[0] - 10.0).abs() < 1e-12 && (out.lse[0] - 4f64.ln()).abs() < 1e-12);
/// assert!((out.weights.unwrap()[0] - 0.75).abs() < 1e-12);
/// # Ok::<(), regard_attn::AttnError>(())
/// ```
///
/// # Errors
/// Those of [`Call::check`]; `context` is too small or its rows overlap; two items share a query row.
pub fn forward<T: Real>(
    call: &Call<'_, T>,
    q: Rows<'_, T>,
    k: Rows<'_, T>,
    v: Rows<'_, T>,
    context: RowsMut<'_, T>,
    want_weights: bool,
) -> Result<Output<T>, AttnError> {
    call.check(q, k, v)?;
    let rows = check::query_rows(call)?;
    let dims = call.dims;
    let (queries, offsets) = (call.query_offsets(), call.weight_offsets());
    let extent = Extent { items: &rows, heads: dims.n_heads, width: dims.d_v };
    // Checked before anything is taken from memory: what it holds bounds all that follows.
    let context = SharedRows::alone("context", context, extent)?;
    if want_weights {
        call.check_weights()?;
    }
    let mut lse = Buffer::stale(dims.n_heads * call.n_queries());
    let mut weights = want_weights.then(|| Buffer::stale(offsets[call.items.len()]));

    let inputs = Inputs { call, q, k, v };
    let job = Forward {
        inputs,
        context,
        lse: Shared::new(&mut lse),
        queries,
        weights: weights.as_mut().map(|weights| (Shared::new(weights), offsets)),
    };
    let work = (0..inputs.units()).map(|n| inputs.work(inputs.unit(n))).sum();
    let new = || Scratch::new(call);
    plan::run(&mut new(), inputs.units(), work, new, |scratch, n| {
        job.unit(inputs.unit(n), scratch);
    });
    Ok(Output { lse, weights })
}

struct Forward<'a, T: Real> {
    inputs: Inputs<'a, T>,
    context: SharedRows<'a, T>,
    lse: Shared<'a, T>,
    /// Where each item's queries begin in a head of `lse`.
    queries: Vec<usize>,
    /// The weights, and where each item's begin.
    weights: Option<(Shared<'a, T>, Vec<usize>)>,
}

/// What a thread needs while it works on a unit.
struct Scratch<T: Real> {
    keys: Keys<T>,
    values: Along<T>,
    tile: TileScratch<T>,
    row: RowScratch<T>,
    other_keys: Buffer<T>,
}

/// What a thread needs while it works on a tile of queries.
struct TileScratch<T: Real> {
    queries: Queries<T>,
    scores: Buffer<T>,
    context: Buffer<T>,
}

impl<T: Real> Scratch<T> {
    fn new(call: &Call<'_, T>) -> Self {
        Self {
            keys: Keys::new(),
            values: Along::new(KEYS),
            tile: TileScratch::new(call),
            row: RowScratch::new(),
            other_keys: Buffer::stale(0),
        }
    }
}

impl<T: Real> TileScratch<T> {
    fn new(call: &Call<'_, T>) -> Self {
        let dims = call.dims;
        Self {
            queries: Queries::new(dims.d_k),
            scores: Buffer::stale(QUERIES * KEYS),
            context: Buffer::stale(QUERIES * padded_width(dims.d_v)),
        }
    }
}

impl<T: Real> Forward<'_, T> {
    /// All queries of a unit. A unit with much work is shared among threads.
    fn unit(&self, unit: Unit, scratch: &mut Scratch<T>) {
        let (inputs, item) = (&self.inputs, self.inputs.item(unit));
        if rowwise::suits(inputs, unit) {
            return self.row_by_row(unit, scratch);
        }
        let Scratch { keys, values, tile, .. } = scratch;
        keys.pack(inputs.call, inputs.keys(unit), unit.kv_head, item.kv_len, false);
        values.pack(inputs.values(unit), item.kv_len);

        let (keys, values, heads) = (&*keys, &*values, inputs.heads(unit));
        let per_head = item.q_len.div_ceil(QUERIES);
        let new = || TileScratch::new(inputs.call);
        plan::run(tile, heads.len() * per_head, inputs.work(unit), new, |scratch, n| {
            let (head, start) = (heads.start + n / per_head, n % per_head * QUERIES);
            let queries = start..item.q_len.min(start + QUERIES);
            self.queries(unit, head, queries, keys, values, scratch);
        });
    }

    /// All queries of a unit, one by one.
    fn row_by_row(&self, unit: Unit, scratch: &mut Scratch<T>) {
        const AT_ONCE: usize = 64;
        let (inputs, item, call) = (&self.inputs, self.inputs.item(unit), self.inputs.call);
        let Scratch { row, other_keys, .. } = scratch;
        let other = rowwise::other_keys(inputs, unit, other_keys);
        let keys = if other { Source::dense(other_keys, call.dims.d_k) } else { inputs.keys(unit) };
        let places = Places { keys, values: inputs.values(unit) };
        let (heads, per_head) = (inputs.heads(unit), item.q_len.div_ceil(AT_ONCE));
        let n_queries = self.queries[call.items.len()];
        let work = if call.scope.lists(call.at(unit.item, heads.start)) {
            // As if every query saw some ten keys.
            item.q_len * heads.len() * 16 * (call.dims.d_k + call.dims.d_v)
        } else {
            inputs.work(unit)
        };
        plan::run(row, heads.len() * per_head, work, RowScratch::new, |scratch, n| {
            let (head, start) = (heads.start + n / per_head, n % per_head * AT_ONCE);
            let (at, source) = (call.at(unit.item, head), inputs.queries(unit, head));
            for query in start..item.q_len.min(start + AT_ONCE) {
                // SAFETY: tasks have different (item, head, queries), and each query its own context,
                // log-sum-exp and weights.
                let (context, lse, weights) = unsafe {
                    let first = head * n_queries + self.queries[unit.item] + query;
                    let weights = self.weights.as_ref().map(|(weights, offsets)| {
                        let row = offsets[unit.item] + (head * at.q_len + query) * at.kv_len;
                        weights.part(row, at.kv_len)
                    });
                    (self.context.row(item.q_start + query, head), self.lse.part(first, 1), weights)
                };
                context.fill(T::ZERO);
                let mut weights = weights;
                if let Some(weights) = &mut weights {
                    weights.fill(T::ZERO);
                }
                let row = RowOf { call, at, query, places };
                lse[0] = row.forward(source, scratch, context, weights);
            }
        });
    }

    /// One tile of queries of one head, against all keys.
    fn queries(
        &self,
        unit: Unit,
        head: usize,
        queries: Range<usize>,
        keys: &Keys<T>,
        values: &Along<T>,
        scratch: &mut TileScratch<T>,
    ) {
        let call = self.inputs.call;
        let (source, first) = (self.inputs.queries(unit, head), self.inputs.item(unit).q_offset);
        scratch.queries.pack(call, source, first, queries.clone(), false);
        let width = padded_width(call.dims.d_v);
        scratch.context[..queries.len() * width].fill(T::ZERO);

        let (at, start, rows) = (call.at(unit.item, head), queries.start, queries.len());
        let n_queries = self.queries[call.items.len()];
        let first = head * n_queries + self.queries[unit.item] + start;
        // SAFETY: tasks have different (item, head, queries), and each has its own log-sum-exps.
        let lse = unsafe { self.lse.part(first, rows) };
        let weights = self.weights.as_ref().map(|(weights, offsets)| {
            let first = offsets[unit.item] + (head * at.q_len + start) * at.kv_len;
            // SAFETY: tasks have different (item, head, queries), and each has its own rows of weights.
            unsafe { weights.part(first, rows * at.kv_len) }
        });
        let mut job = Rowwise {
            call,
            keys,
            values,
            source: self.inputs.values(unit),
            tile: TileAt { at, queries, keys: 0..0 },
            lse,
            weights,
        };
        match call.normaliser.streaming() {
            Streaming::Softmax { scale } => job.softmax(scratch, scale),
            Streaming::Each => job.each(scratch),
            Streaming::Pick { noise } => job.pick(scratch, noise),
            Streaming::Rows => job.whole_rows(scratch),
        }

        for i in 0..rows {
            let row = self.inputs.item(unit).q_start + start + i;
            // SAFETY: tasks have different (item, head, queries), and different items different rows.
            let out = unsafe { self.context.row(row, head) };
            out.copy_from_slice(&scratch.context[i * width..i * width + out.len()]);
        }
    }
}

/// A tile of queries of one head against all of its keys.
struct Rowwise<'a, T: Real> {
    call: &'a Call<'a, T>,
    keys: &'a Keys<T>,
    values: &'a Along<T>,
    /// The values as they were given.
    source: Source<'a, T>,
    /// The queries; its keys move along.
    tile: TileAt,
    lse: &'a mut [T],
    /// Rows of weights, kv_len apart, where they are wanted.
    weights: Option<&'a mut [T]>,
}

impl<T: Real> Rowwise<'_, T> {
    /// The softmax needs no whole row: each tile of keys is added to a running maximum, sum and
    /// context.
    fn softmax(&mut self, scratch: &mut TileScratch<T>, scale: T) {
        let (call, rows, kv_len) = (self.call, self.tile.queries.len(), self.tile.at.kv_len);
        let width = padded_width(call.dims.d_v);
        if let Some(weights) = &mut self.weights {
            weights.fill(T::NEG_INFINITY);
        }
        let mut running = [Running::START; QUERIES];
        let running = &mut running[..rows];

        for span in tiles(visible(call, &self.tile), KEYS) {
            self.tile.keys = span;
            let TileScratch { queries, scores, context } = &mut *scratch;
            let q = queries.rows(rows, call.dims.d_k);
            if !self.keys.scores(call, &self.tile, q, scale, scores, KEYS) {
                continue;
            }
            let n = self.tile.keys.len();
            if let Some(weights) = &mut self.weights {
                copy_tile(scores, KEYS, &mut weights[self.tile.keys.start..], kv_len, n);
            }
            softmax::add_tile(scores, KEYS, padded(n), running, context, width);
            if call.position.weighs() {
                call.position.weight_tile(&self.tile, scores, KEYS);
            }
            add_context(call, &self.tile, self.values, scores, KEYS, context);
        }

        for (i, running) in running.iter().enumerate() {
            self.lse[i] = running.lse();
            let scale = running.scale();
            for c in &mut scratch.context[i * width..(i + 1) * width] {
                *c *= scale;
            }
            if let Some(weights) = &mut self.weights {
                let row = &mut weights[i * kv_len..(i + 1) * kv_len];
                softmax::finish_weights(row, *running);
            }
        }
        if let Some(weights) = &mut self.weights
            && call.position.weighs()
        {
            self.tile.keys = 0..kv_len;
            call.position.weight_tile(&self.tile, weights, kv_len);
        }
    }

    /// A normaliser that looks at each score alone takes any piece of a row.
    fn each(&mut self, scratch: &mut TileScratch<T>) {
        let (call, rows) = (self.call, self.tile.queries.len());
        self.lse.fill(T::NEG_INFINITY);
        if let Some(weights) = &mut self.weights {
            weights.fill(T::ZERO);
        }
        for span in tiles(visible(call, &self.tile), KEYS) {
            self.tile.keys = span;
            let TileScratch { queries, scores, context } = &mut *scratch;
            let q = queries.rows(rows, call.dims.d_k);
            if !self.keys.scores(call, &self.tile, q, T::ONE, scores, KEYS) {
                continue;
            }
            for (i, lse) in self.lse.iter_mut().enumerate() {
                let row = &mut scores[i * KEYS..i * KEYS + padded(self.tile.keys.len())];
                let of_piece = call.normaliser.row(row);
                if of_piece != T::NEG_INFINITY {
                    *lse = of_piece;
                }
            }
            self.weigh_and_copy(scores, KEYS);
            add_context(call, &self.tile, self.values, scores, KEYS, context);
        }
    }

    /// A normaliser that chooses a key needs the largest score so far, and which.
    fn pick(&mut self, scratch: &mut TileScratch<T>, noise: Option<Key>) {
        let (call, rows, at) = (self.call, self.tile.queries.len(), self.tile.at);
        if let Some(weights) = &mut self.weights {
            weights.fill(T::ZERO);
        }
        let mut chosen = Chosen::new(rows);
        chosen.find(call, self.keys, &mut self.tile, scratch, noise, self.lse);

        let width = padded_width(call.dims.d_v);
        for (i, key) in chosen.keys[..rows].iter().enumerate() {
            let query = self.tile.queries.start + i;
            let context = &mut scratch.context[i * width..i * width + call.dims.d_v];
            let Some(key) = *key else {
                if self.lse[i] != T::NEG_INFINITY {
                    // A NaN among the scores: no key can be chosen, and the row must not look empty.
                    context.fill(self.lse[i]);
                    if let Some(weights) = &mut self.weights {
                        let row = &mut weights[i * at.kv_len..(i + 1) * at.kv_len];
                        for (key, weight) in row.iter_mut().enumerate() {
                            if call.scope.allows(at, query, key) {
                                *weight = self.lse[i];
                            }
                        }
                    }
                }
                continue;
            };
            let mut weight = T::ONE;
            if call.position.weighs() {
                weight = call.position.weight(at, query, key);
            }
            if let Some(weights) = &mut self.weights {
                weights[i * at.kv_len + key] = weight;
            }
            if let Some(drop) = call.dropout {
                weight *= drop.factor(drop.row(at.item, at.head, query), key);
            }
            if weight != T::ZERO {
                for (c, v) in context.iter_mut().zip(self.source.row(key)) {
                    *c += weight * *v;
                }
                if call.position.has_values() {
                    call.position.add_value(at, query, key, weight, context);
                }
            }
        }
    }

    /// Any other normaliser gets whole rows: all tiles of keys are scored before it runs.
    fn whole_rows(&mut self, scratch: &mut TileScratch<T>) {
        let (call, rows) = (self.call, self.tile.queries.len());
        let TileScratch { queries, scores, context } = scratch;
        let q = queries.rows(rows, call.dims.d_k);
        let panel = Panel::new(visible(call, &self.tile), scores, rows);

        panel.scores(call, &mut self.tile, self.keys, q, scores);
        for i in 0..rows {
            let row = &mut scores[panel.row(i)];
            self.lse[i] = call.normaliser.row_at(row_at(&self.tile, i), row);
        }
        if let Some(weights) = &mut self.weights {
            weights.fill(T::ZERO);
        }
        for span in panel.tiles() {
            self.tile.keys = span;
            let part = &mut scores[self.tile.keys.start - panel.start..];
            self.weigh_and_copy(part, panel.stride);
            add_context(call, &self.tile, self.values, part, panel.stride, context);
        }
    }

    /// Multiplies the weights of a tile by position's factor and copies them to where they are wanted.
    fn weigh_and_copy(&mut self, part: &mut [T], stride: usize) {
        if self.call.position.weighs() {
            self.call.position.weight_tile(&self.tile, part, stride);
        }
        if let Some(weights) = &mut self.weights {
            let (keys, kv_len) = (&self.tile.keys, self.tile.at.kv_len);
            let part = &part[..(self.tile.queries.len() - 1) * stride + keys.len()];
            copy_tile(part, stride, &mut weights[keys.start..], kv_len, keys.len());
        }
    }
}

/// Drops weights of a tile and adds `Σ_j a_ij (v_j + value_ij)` to the contexts.
fn add_context<T: Real>(
    call: &Call<'_, T>,
    tile: &TileAt,
    values: &Along<T>,
    weights: &mut [T],
    stride: usize,
    context: &mut [T],
) {
    let (rows, d_v) = (tile.queries.len(), call.dims.d_v);
    if let Some(drop) = call.dropout {
        dropout::apply(drop, tile.at, tile.queries.clone(), tile.keys.clone(), weights, stride);
    }
    let width = padded_width(d_v);
    let left = Left::Rows { data: weights, stride };
    values.add_weighted(context, width, rows, left, T::ONE, &tile.keys);
    if call.position.has_values() {
        let mut context = BlockMut { data: context, rows, width: d_v, stride: width };
        call.position.value_tile(tile, weights, stride, &mut context);
    }
}

/// The place of row i of a tile.
pub(crate) fn row_at(tile: &TileAt, i: usize) -> RowAt {
    RowAt { item: tile.at.item, head: tile.at.head, query: tile.queries.start + i }
}

/// The key that each query of a tile chooses.
pub(crate) struct Chosen {
    pub(crate) keys: [Option<usize>; QUERIES],
    rows: usize,
}

impl Chosen {
    pub(crate) fn new(rows: usize) -> Self {
        Self { keys: [None; QUERIES], rows }
    }

    /// Looks at all keys for the largest score, noise added, and sums up the log-sum-exps. Where a
    /// score is NaN no key is chosen and the log-sum-exp is NaN.
    fn find<T: Real>(
        &mut self,
        call: &Call<'_, T>,
        keys: &Keys<T>,
        tile: &mut TileAt,
        scratch: &mut TileScratch<T>,
        noise: Option<Key>,
        lse: &mut [T],
    ) {
        let rows = self.rows;
        let TileScratch { queries, scores, .. } = scratch;
        let q = queries.rows(rows, call.dims.d_k);
        let mut running = [Running::START; QUERIES];
        let running = &mut running[..rows];
        let mut top = [T::NEG_INFINITY; QUERIES];
        for span in tiles(visible(call, tile), KEYS) {
            tile.keys = span;
            if !keys.scores(call, tile, q, T::ONE, scores, KEYS) {
                continue;
            }
            for i in 0..rows {
                let row = &scores[i * KEYS..i * KEYS + tile.keys.len()];
                self.look(i, tile, row, noise, &mut top[i]);
            }
            let columns = padded(tile.keys.len());
            softmax::add_tile(scores, KEYS, columns, running, &mut [], 0);
        }
        for (i, running) in running.iter().enumerate() {
            lse[i] = running.lse();
            #[allow(clippy::eq_op, reason = "the test for NaN of a generic number")]
            if lse[i] != lse[i] {
                self.keys[i] = None;
            }
        }
    }

    /// Takes a piece of row i into account; `top` is the largest so far.
    pub(crate) fn look<T: Real>(
        &mut self,
        i: usize,
        tile: &TileAt,
        row: &[T],
        noise: Option<Key>,
        top: &mut T,
    ) {
        let stream = noise.map(|key| row_stream(key, row_at(tile, i)));
        for (s, key) in row.iter().zip(tile.keys.clone()) {
            if *s == T::NEG_INFINITY {
                continue;
            }
            let noisy = stream.map_or(*s, |row| *s + T::from_f64(gumbel(row, key)));
            let noisy = if fault::is(Fault::WrongChoice) { -noisy } else { noisy };
            if self.keys[i].is_none() || noisy > *top {
                (self.keys[i], *top) = (Some(key), noisy);
            }
        }
    }
}

/// The keys that a tile of queries may see.
pub(crate) fn visible<T: Real>(call: &Call<'_, T>, tile: &TileAt) -> Range<usize> {
    let keys = call.scope.keys(tile.at, tile.queries.clone());
    let end = keys.end.min(tile.at.kv_len);
    keys.start..if fault::is(Fault::OffByOne) { end.saturating_sub(1) } else { end }
}

/// Copies `n` columns of rows that are `stride` apart to rows that are `out_stride` apart.
fn copy_tile<T: Real>(tile: &[T], stride: usize, out: &mut [T], out_stride: usize, n: usize) {
    for (row, out) in tile.chunks(stride).zip(out.chunks_mut(out_stride)) {
        out[..n].copy_from_slice(&row[..n]);
    }
}
