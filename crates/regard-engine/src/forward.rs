//! Context, log-sum-exp and weights, tile by tile.

mod row_by_row;

use std::ops::Range;

use regard_attn::normaliser::gumbel;
use regard_attn::score::{Block, BlockMut};
use regard_attn::{AttnError, Call, RowAt, Rows, RowsMut, Streaming, TileAt, call::row_stream};
use regard_tensor::{Buffer, Key, Real, simd};

use crate::check;
use crate::cover::Cover;
use crate::fault::{self, Fault};
use crate::kernel::softmax::{self, Running};
use crate::kernel::{LANES, dropout, padded};
use crate::pack::{self, Source, Values, padded_width};
use crate::panel::Panel;
use crate::plan::{self, Inputs, KEYS, QUERIES, Unit, tiles};
use crate::rows::{Extent, Shared, SharedRows};
use crate::rowwise::abreast::HeadsScratch;
use crate::rowwise::{self, RowScratch};
use crate::score::{Keys, Queries};
use crate::support::Support;
use crate::survey::{self, Survey};
use regard_tensor::kernels::product::Left;

/// Tiles of queries that share a tile of keys while it lies in the cache.
const GROUP: usize = 4;

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

    let survey = Survey::of(call);
    let call = &survey::surveyed(call, survey.as_ref());
    let inputs = Inputs { call, q, k, v };
    let of_key = dims.n_kv_heads * (dims.d_k + dims.d_v) * size_of::<T>();
    let job = Forward {
        inputs,
        far: call.kv_rows().saturating_mul(of_key) > CACHED,
        context,
        lse: Shared::new(&mut lse),
        by_rows: rowwise::suited(call),
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
    /// The items whose queries are taken one by one.
    by_rows: Vec<bool>,
    /// Where each item's queries begin in a head of `lse`.
    queries: Vec<usize>,
    /// Whether keys and values are more than a cache holds.
    far: bool,
    /// The weights, and where each item's begin.
    weights: Option<(Shared<'a, T>, Vec<usize>)>,
}

/// Bytes of keys and values that may lie in the last cache of a processor: rows beyond are asked for a tile ahead, which
/// takes longer where they do lie there.
const CACHED: usize = 24 << 20;

/// What a thread needs while it works on a unit.
struct Scratch<'a, T: Real> {
    keys: Keys<'a, T>,
    values: Values<'a, T>,
    group: GroupScratch<T>,
    row: RowScratch<T>,
    block: HeadsScratch<T>,
    other_keys: Vec<Buffer<T>>,
}

/// What a thread needs while it works on a group of tiles of queries.
struct GroupScratch<T: Real> {
    /// A tile of scores, or whole rows.
    scores: Buffer<T>,
    tiles: Vec<TileScratch<T>>,
}

/// What is kept of a tile of queries while keys come along.
struct TileScratch<T: Real> {
    queries: Queries<T>,
    /// Rows padded_width(d_v) apart, relative to `running`.
    context: Buffer<T>,
    running: [Running<T>; QUERIES],
}

impl<T: Real> Scratch<'_, T> {
    fn new(call: &Call<'_, T>) -> Self {
        Self {
            keys: Keys::new(call),
            values: Values::new(),
            group: GroupScratch::new(call, 0),
            row: RowScratch::new(),
            block: HeadsScratch::new(),
            other_keys: Vec::new(),
        }
    }
}

impl<T: Real> GroupScratch<T> {
    /// For groups of `tiles` tiles.
    fn new(call: &Call<'_, T>, tiles: usize) -> Self {
        let mut new = Self { scores: Buffer::stale(QUERIES * KEYS), tiles: Vec::new() };
        new.grow(call, tiles);
        new
    }

    fn grow(&mut self, call: &Call<'_, T>, tiles: usize) {
        while self.tiles.len() < tiles {
            self.tiles.push(TileScratch {
                queries: Queries::new(),
                context: Buffer::stale(QUERIES * padded_width(call.dims.d_v)),
                running: [Running::START; QUERIES],
            });
        }
    }
}

impl<'a, T: Real> Forward<'a, T> {
    /// All queries of a unit. A unit with much work is shared among threads.
    fn unit(&self, unit: Unit, scratch: &mut Scratch<'a, T>) {
        let (inputs, item) = (&self.inputs, self.inputs.item(unit));
        if self.by_rows[unit.item] {
            return self.row_by_row(unit, scratch);
        }
        let Scratch { keys, values, group, .. } = scratch;
        keys.take(inputs.call, inputs.keys(unit), unit.kv_head, item.kv_len, item.q_len);
        values.take(inputs.values(unit), item.kv_len, item.q_len);

        let (keys, values, heads) = (&*keys, &*values, inputs.heads(unit));
        let per_head = item.q_len.div_ceil(QUERIES);
        // Groups as large as every thread still gets several.
        let shares = 4 * rayon::current_num_threads();
        let size = (per_head * heads.len() * inputs.units() / shares).clamp(1, GROUP);
        let groups = per_head.div_ceil(size);
        group.grow(inputs.call, size);
        let new = || GroupScratch::new(inputs.call, size);
        plan::run(group, heads.len() * groups, inputs.work(unit), new, |scratch, n| {
            let (head, first) = (heads.start + n / groups, n % groups * size);
            let tiles = first..per_head.min(first + size);
            self.group(unit, head, tiles, keys, values, scratch);
        });
    }

    /// Tiles of queries of one head, against all keys.
    fn group<'s>(
        &'s self,
        unit: Unit,
        head: usize,
        tiles: Range<usize>,
        keys: &'s Keys<'_, T>,
        values: &'s Values<'_, T>,
        scratch: &'s mut GroupScratch<T>,
    ) {
        let (call, item) = (self.inputs.call, self.inputs.item(unit));
        let at = call.at(unit.item, head);
        let n_queries = self.queries[call.items.len()];
        let GroupScratch { scores, tiles: of_tiles } = scratch;
        let far = self.far;
        let job = |(n, of): (usize, &'s mut TileScratch<T>)| {
            let queries = n * QUERIES..item.q_len.min((n + 1) * QUERIES);
            let (start, rows) = (queries.start, queries.len());
            of.queries.pack(call, self.inputs.queries(unit, head), item.q_offset, queries.clone());
            of.context[..rows * padded_width(call.dims.d_v)].fill(T::ZERO);
            of.running = [Running::START; QUERIES];
            let first = head * n_queries + self.queries[unit.item] + start;
            // SAFETY: tasks have different (item, head, queries), and each has its own log-sum-exps.
            let lse = unsafe { self.lse.part(first, rows) };
            let weights = self.weights.as_ref().map(|(weights, offsets)| {
                let first = offsets[unit.item] + (head * at.q_len + start) * at.kv_len;
                // SAFETY: tasks have different (item, head, queries), and each has its own rows of weights.
                unsafe { weights.part(first, rows * at.kv_len) }
            });
            let source = self.inputs.values(unit);
            let tile = TileAt { at, queries, keys: 0..0 };
            Rowwise { call, keys, values, source, tile, of, lse, weights, far }
        };
        let mut jobs = tiles.zip(of_tiles).map(job);
        // Short items have one tile: no list of it.
        if jobs.len() == 1
            && let Some(job) = jobs.next()
        {
            self.attend(&mut [job], unit, scores);
        } else {
            self.attend(&mut jobs.collect::<Vec<_>>(), unit, scores);
        }
    }

    /// Tiles of queries against all of their keys.
    fn attend(&self, jobs: &mut [Rowwise<'_, T>], unit: Unit, scores: &mut Buffer<T>) {
        match self.inputs.call.normaliser.streaming() {
            Streaming::Softmax { scale } => softmax(jobs, scores, scale),
            Streaming::Each => jobs.iter_mut().for_each(|job| job.each(scores)),
            Streaming::Pick { noise } => jobs.iter_mut().for_each(|job| job.pick(scores, noise)),
            Streaming::Rows => jobs.iter_mut().for_each(|job| job.whole_rows(scores)),
        }
        for job in jobs {
            self.hand_over(job, unit);
        }
    }

    /// Writes the contexts of a tile where the caller wants them, divided by the sums of a softmax.
    fn hand_over(&self, job: &Rowwise<'_, T>, unit: Unit) {
        let (context, d_v) = (&job.of.context, self.inputs.call.dims.d_v);
        let (head, queries) = (job.tile.at.head, job.tile.queries.clone());
        let first = self.inputs.item(unit).q_start + queries.start;
        let streams = matches!(self.inputs.call.normaliser.streaming(), Streaming::Softmax { .. });
        let mut scales = [T::ONE; QUERIES];
        if streams {
            for (scale, running) in scales.iter_mut().zip(&job.of.running[..queries.len()]) {
                *scale = running.scale();
            }
        }
        simd::vectorise(
            #[inline(always)]
            move || {
                let rows = context.chunks_exact(padded_width(d_v)).take(queries.len());
                for (i, (context, scale)) in rows.zip(scales).enumerate() {
                    // SAFETY: tasks have different (item, head, queries), and different items different rows.
                    let out = unsafe { self.context.row(first + i, head) };
                    pack::scale_row(&context[..d_v], Some(scale), out);
                }
            },
        );
    }
}

/// The softmax needs no whole row: each tile of keys is added to a running maximum, sum and
/// context. Tiles of queries take a tile of keys one after the other, while it lies in the cache.
fn softmax<T: Real>(jobs: &mut [Rowwise<'_, T>], scores: &mut [T], scale: T) {
    let ranges: [_; GROUP] =
        std::array::from_fn(|n| jobs.get(n).map_or(0..0, |job| visible(job.call, &job.tile)));
    for job in jobs.iter_mut() {
        if let Some(weights) = &mut job.weights {
            weights.fill(T::NEG_INFINITY);
        }
    }
    for span in tiles(hull(ranges.iter()), KEYS) {
        for (job, range) in jobs.iter_mut().zip(&ranges) {
            if let Some(keys) = part_of(&span, range) {
                job.softmax(keys, scores, scale);
            }
        }
    }
    for job in jobs.iter_mut() {
        job.finish_softmax();
    }
}

/// The shortest range that holds all ranges.
pub(crate) fn hull<'r>(ranges: impl Iterator<Item = &'r Range<usize>>) -> Range<usize> {
    let seen = ranges.filter(|range| !range.is_empty()).cloned();
    let hull = seen.reduce(|hull, seen| hull.start.min(seen.start)..hull.end.max(seen.end));
    hull.unwrap_or_default()
}

/// What [`tiles`] of a range has in common with a tile of their [`hull`].
pub(crate) fn part_of(span: &Range<usize>, range: &Range<usize>) -> Option<Range<usize>> {
    let keys = (range.start / LANES * LANES).max(span.start)..range.end.min(span.end);
    (!range.is_empty() && !keys.is_empty()).then_some(keys)
}

/// A tile of queries of one head against all of its keys.
struct Rowwise<'a, T: Real> {
    call: &'a Call<'a, T>,
    keys: &'a Keys<'a, T>,
    values: &'a Values<'a, T>,
    /// The values as they were given.
    source: Source<'a, T>,
    /// The queries; its keys move along.
    tile: TileAt,
    of: &'a mut TileScratch<T>,
    lse: &'a mut [T],
    /// Rows of weights, kv_len apart, where they are wanted.
    weights: Option<&'a mut [T]>,
    /// Whether keys and values that are read where they lie come from memory.
    far: bool,
}

impl<T: Real> Rowwise<'_, T> {
    /// Takes one tile of keys into the running softmax.
    fn softmax(&mut self, keys: Range<usize>, scores: &mut [T], scale: T) {
        let (call, kv_len) = (self.call, self.tile.at.kv_len);
        let width = padded_width(call.dims.d_v);
        if self.far {
            let next = keys.end..keys.end + keys.len();
            for rows in [self.keys.given(), self.values.given()].into_iter().flatten() {
                rows.prefetch_near(next.clone());
            }
        }
        self.tile.keys = keys;
        let TileScratch { queries, context, running } = &mut *self.of;
        let q = queries.rows();
        let Some(cover) = self.keys.scores(call, &self.tile, q, scale, scores, KEYS) else {
            return;
        };
        let n = self.tile.keys.len();
        if let Some(weights) = &mut self.weights {
            copy_tile(scores, KEYS, &mut weights[self.tile.keys.start..], kv_len, n);
        }
        for part in cover.parts() {
            let scores = &mut scores[part.first(KEYS)..];
            let running = &mut running[part.rows.clone()];
            let context = &mut context[part.rows.start * width..];
            softmax::add_tile(scores, KEYS, padded(part.columns.len()), running, context, width);
            let tile = part.of(&self.tile);
            if call.position.weighs() {
                call.position.weight_tile(&tile, scores, KEYS);
            }
            add_context(call, &tile, self.values, scores, KEYS, context);
        }
    }

    /// What remains to do when all keys were seen.
    fn finish_softmax(&mut self) {
        let (call, rows, kv_len) = (self.call, self.tile.queries.len(), self.tile.at.kv_len);
        let running = &self.of.running[..rows];
        softmax::lse(running, self.lse);
        if let Some(weights) = &mut self.weights {
            for (row, running) in weights.chunks_exact_mut(kv_len.max(1)).zip(running) {
                softmax::finish_weights(row, *running);
            }
            if call.position.weighs() {
                self.tile.keys = 0..kv_len;
                call.position.weight_tile(&self.tile, weights, kv_len);
            }
        }
    }

    /// A normaliser that looks at each score alone takes any piece of a row.
    fn each(&mut self, scores: &mut [T]) {
        let call = self.call;
        self.lse.fill(T::NEG_INFINITY);
        if let Some(weights) = &mut self.weights {
            weights.fill(T::ZERO);
        }
        for span in tiles(visible(call, &self.tile), KEYS) {
            self.tile.keys = span;
            let q = self.of.queries.rows();
            if self.keys.scores(call, &self.tile, q, T::ONE, scores, KEYS).is_none() {
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
            let context = &mut self.of.context;
            add_context(call, &self.tile, self.values, scores, KEYS, context);
        }
    }

    /// A normaliser that chooses a key needs the largest score so far, and which.
    fn pick(&mut self, scores: &mut [T], noise: Option<Key>) {
        let (call, rows, at) = (self.call, self.tile.queries.len(), self.tile.at);
        if let Some(weights) = &mut self.weights {
            weights.fill(T::ZERO);
        }
        let mut chosen = Chosen::new(rows);
        let q = self.of.queries.rows();
        chosen.find(call, self.keys, q, &mut self.tile, scores, noise, self.lse);

        let width = padded_width(call.dims.d_v);
        for (i, key) in chosen.keys[..rows].iter().enumerate() {
            let query = self.tile.queries.start + i;
            let context = &mut self.of.context[i * width..i * width + call.dims.d_v];
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
    fn whole_rows(&mut self, scores: &mut Buffer<T>) {
        let (call, rows) = (self.call, self.tile.queries.len());
        let q = self.of.queries.rows();
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
            let weights = &mut scores[self.tile.keys.start - panel.start..];
            self.weigh_and_copy(weights, panel.stride);
            let Some(cover) = Cover::of(call.scope, &self.tile) else {
                continue;
            };
            let width = padded_width(call.dims.d_v);
            for part in cover.parts() {
                let weights = &mut weights[part.first(panel.stride)..];
                let context = &mut self.of.context[part.rows.start * width..];
                let tile = part.of(&self.tile);
                add_context(call, &tile, self.values, weights, panel.stride, context);
            }
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
    values: &Values<'_, T>,
    weights: &mut [T],
    stride: usize,
    context: &mut [T],
) {
    let (rows, d_v) = (tile.queries.len(), call.dims.d_v);
    if let Some(drop) = call.dropout {
        dropout::apply(drop, tile.at, tile.queries.clone(), tile.keys.clone(), weights, stride);
    }
    let width = padded_width(d_v);
    let support = Support::of_sparse(call, weights, stride, rows, tile.keys.len());
    if let Some(support) = support.filter(Support::is_sparse) {
        values.add_supported(context, width, &support, (weights, stride), &tile.keys);
    } else {
        let left = Left::Rows { data: weights, stride };
        values.add_weighted(context, width, rows, left, &tile.keys);
    }
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
        keys: &Keys<'_, T>,
        q: Block<'_, T>,
        tile: &mut TileAt,
        scores: &mut [T],
        noise: Option<Key>,
        lse: &mut [T],
    ) {
        let rows = self.rows;
        let mut running = [Running::START; QUERIES];
        let running = &mut running[..rows];
        let mut top = [T::NEG_INFINITY; QUERIES];
        for span in tiles(visible(call, tile), KEYS) {
            tile.keys = span;
            if keys.scores(call, tile, q, T::ONE, scores, KEYS).is_none() {
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
