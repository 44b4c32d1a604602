//! Context, log-sum-exp and weights, tile by tile.

use std::ops::Range;

use regard_attn::{AttnError, Call, Rows, RowsMut};
use regard_tensor::{Buffer, Real};

use crate::check;
use crate::kernel::product::Left;
use crate::kernel::softmax::{self, Running};
use crate::kernel::{dropout, padded};
use crate::pack::{Along, padded_width};
use crate::panel::Panel;
use crate::plan::{self, Inputs, KEYS, QUERIES, Unit, tiles};
use crate::rows::{Extent, Shared, SharedRows};
use crate::score::{Keys, Queries, Tile};

/// What [`forward`] gives beside the contexts.
#[derive(Debug)]
pub struct Output<T: Real> {
    /// Log-sum-exp of each row of scores, `[n_heads, n_queries]`; −∞ where nothing is allowed.
    pub lse: Buffer<T>,
    /// Weights before dropout where they were asked for, item by item `[n_heads, q_len, kv_len]`,
    /// beginning at [`Call::weight_offsets`].
    pub weights: Option<Buffer<T>>,
}

/// `c_i = Σ_j a_ij v_j` for every item, head and query of a call.
///
/// `context` holds rows of width d_v, numbered and shared among heads as the queries are: query i of
/// an item is row `q_start + i`. Rows of no item stay as they are. A query with nothing allowed
/// has a zero context, zero weights and lse = −∞. What stands at forbidden keys and values has no
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
///     items: &[Item { q_start: 0, q_len: 1, kv_start: 0, kv_len: 2 }],
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
    let mut lse = Buffer::stale(dims.n_heads * call.n_queries());
    let mut weights = want_weights.then(|| Buffer::stale(offsets[call.items.len()]));

    let inputs = Inputs { call, q, k, v };
    let job = Forward {
        inputs,
        context: SharedRows::alone("context", context, extent)?,
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
}

/// What a thread needs while it works on a tile of queries.
struct TileScratch<T: Real> {
    queries: Queries<T>,
    scores: Buffer<T>,
    context: Buffer<T>,
}

impl<T: Real> Scratch<T> {
    fn new(call: &Call<'_, T>) -> Self {
        Self { keys: Keys::new(), values: Along::new(KEYS), tile: TileScratch::new(call) }
    }
}

impl<T: Real> TileScratch<T> {
    fn new(call: &Call<'_, T>) -> Self {
        let dims = call.dims;
        Self {
            queries: Queries::new(dims.d_k),
            scores: Buffer::stale(QUERIES * KEYS),
            context: Buffer::stale(QUERIES * padded_width::<T>(dims.d_v)),
        }
    }
}

impl<T: Real> Forward<'_, T> {
    /// All queries of a unit. A unit with much work is shared among threads.
    fn unit(&self, unit: Unit, scratch: &mut Scratch<T>) {
        let (inputs, item) = (&self.inputs, self.inputs.item(unit));
        let Scratch { keys, values, tile } = scratch;
        keys.pack(inputs.call, inputs.keys(unit), item.kv_len, false);
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
        scratch.queries.pack(call, self.inputs.queries(unit, head), queries.clone(), false);
        let width = padded_width::<T>(call.dims.d_v);
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
        let mut tile = Tile { at, queries, keys: 0..0 };
        if call.normaliser.streams() {
            self.softmax(&mut tile, keys, values, scratch, lse, weights);
        } else {
            self.whole_rows(&mut tile, keys, values, scratch, lse, weights);
        }

        for i in 0..rows {
            let row = self.inputs.item(unit).q_start + start + i;
            // SAFETY: tasks have different (item, head, queries), and different items different rows.
            let out = unsafe { self.context.row(row, head) };
            out.copy_from_slice(&scratch.context[i * width..i * width + out.len()]);
        }
    }

    /// The softmax needs no whole row: each tile of keys is added to a running maximum, sum and
    /// context.
    fn softmax(
        &self,
        tile: &mut Tile,
        keys: &Keys<T>,
        values: &Along<T>,
        scratch: &mut TileScratch<T>,
        lse: &mut [T],
        mut weights: Option<&mut [T]>,
    ) {
        let (call, rows) = (self.inputs.call, tile.queries.len());
        let TileScratch { queries, scores, context, .. } = scratch;
        let q = queries.rows(rows, call.dims.d_k);
        let width = padded_width::<T>(call.dims.d_v);
        if let Some(weights) = &mut weights {
            weights.fill(T::NEG_INFINITY);
        }
        let mut running = [Running::START; QUERIES];
        let running = &mut running[..rows];

        for span in tiles(visible(call, tile), KEYS) {
            tile.keys = span;
            if !keys.scores(call, tile, q, scores, KEYS) {
                continue;
            }
            let n = tile.keys.len();
            if let Some(weights) = &mut weights {
                copy_tile(scores, KEYS, &mut weights[tile.keys.start..], tile.at.kv_len, n);
            }
            softmax::add_tile(scores, KEYS, padded(n), running, context, width);
            if let Some(drop) = call.dropout {
                dropout::apply(
                    drop,
                    tile.at,
                    tile.queries.clone(),
                    tile.keys.clone(),
                    scores,
                    KEYS,
                );
            }
            let left = Left::Rows { data: scores, stride: KEYS };
            values.add_weighted(context, width, rows, left, T::ONE, &tile.keys);
        }

        for (i, running) in running.iter().enumerate() {
            lse[i] = running.lse();
            let scale = running.scale();
            for c in &mut context[i * width..(i + 1) * width] {
                *c *= scale;
            }
            if let Some(weights) = &mut weights {
                let row = i * tile.at.kv_len;
                softmax::finish_weights(&mut weights[row..row + tile.at.kv_len], *running);
            }
        }
    }

    /// Any other normaliser gets whole rows: all tiles of keys are scored before it runs.
    fn whole_rows(
        &self,
        tile: &mut Tile,
        keys: &Keys<T>,
        values: &Along<T>,
        scratch: &mut TileScratch<T>,
        lse: &mut [T],
        weights: Option<&mut [T]>,
    ) {
        let (call, rows) = (self.inputs.call, tile.queries.len());
        let TileScratch { queries, scores, context, .. } = scratch;
        let q = queries.rows(rows, call.dims.d_k);
        let width = padded_width::<T>(call.dims.d_v);
        let panel = Panel::new(visible(call, tile), scores, rows);

        panel.scores(call, tile, keys, q, scores);
        for i in 0..rows {
            lse[i] = call.normaliser.row(&mut scores[panel.row(i)]);
        }
        if let Some(weights) = weights {
            weights.fill(T::ZERO);
            let kv_len = tile.at.kv_len;
            if panel.len() > 0 {
                copy_tile(scores, panel.stride, &mut weights[panel.start..], kv_len, panel.len());
            }
        }
        for span in panel.tiles() {
            tile.keys = span;
            let part = &mut scores[tile.keys.start - panel.start..];
            if let Some(drop) = call.dropout {
                let (queries, keys) = (tile.queries.clone(), tile.keys.clone());
                dropout::apply(drop, tile.at, queries, keys, part, panel.stride);
            }
            let left = Left::Rows { data: part, stride: panel.stride };
            values.add_weighted(context, width, rows, left, T::ONE, &tile.keys);
        }
    }
}

/// The keys that a tile of queries may see.
pub(crate) fn visible<T: Real>(call: &Call<'_, T>, tile: &Tile) -> Range<usize> {
    let keys = call.scope.keys(tile.at, tile.queries.clone());
    keys.start..keys.end.min(tile.at.kv_len)
}

/// Copies `n` columns of rows that are `stride` apart to rows that are `out_stride` apart.
fn copy_tile<T: Real>(tile: &[T], stride: usize, out: &mut [T], out_stride: usize, n: usize) {
    for (row, out) in tile.chunks(stride).zip(out.chunks_mut(out_stride)) {
        out[..n].copy_from_slice(&row[..n]);
    }
}
