//! Gradients, tile by tile, from scores computed again.

use std::ops::Range;

use regard_attn::{AttnError, Call, Rows};
use regard_tensor::{Buffer, Real};

use crate::check;
use crate::forward::visible;
use crate::gradients::{Gradients, Targets};
use crate::kernel::product::{Left, Product};
use crate::kernel::{dropout, padded, softmax};
use crate::pack::{self, Across, Along, Source, padded_width};
use crate::panel::Panel;
use crate::plan::{self, Inputs, KEYS, QUERIES, Unit, tiles};
use crate::rows::Extent;
use crate::score::{Keys, Queries, Tile};

/// Units whose parameter gradients are added up by one task, in order; the sums of tasks are then
/// added in order too. Bounds the number of such sums.
const PARAM_SUMS: usize = 256;

/// The gradients of [`forward`](crate::forward()), given `d_context = ∂L/∂c` and, where the loss also
/// looks at the weights, `d_weights = ∂L/∂a` (before dropout, laid out as
/// [`Output::weights`](crate::Output::weights); entries of forbidden pairs are not looked at).
///
/// `context` and `lse` are what forward gave; the scores are computed again from q and k, and dropout
/// is drawn again. With f_ij dropout's factor:
///
/// ```text
/// ∂L/∂v_j  = Σ_i a_ij f_ij ∂L/∂c_i
/// ∂L/∂a_ij = f_ij v_j·∂L/∂c_i + d_weights_ij
/// ∂L/∂s_ij = a_ij (∂L/∂a_ij − Σ_l a_il ∂L/∂a_il)        (softmax)
/// ```
///
/// and then the score's and the position's own derivatives. Everything is *added* to `grads`.
/// A query with nothing allowed gives no gradient and gets none.
///
/// Time as forward's, times about 2.5; memory beside the outputs grows with
/// kv_len·(d_k + d_v) a thread. The bits do not depend on the number of threads.
///
/// # Errors
/// Those of [`Call::check`]; an array of the wrong size; gradients that overlap; two items that share
/// a query row or a key row.
pub fn backward<T: Real>(
    call: &Call<'_, T>,
    q: Rows<'_, T>,
    k: Rows<'_, T>,
    v: Rows<'_, T>,
    context: Rows<'_, T>,
    lse: &[T],
    d_context: Rows<'_, T>,
    d_weights: Option<&[T]>,
    grads: Gradients<'_, T>,
) -> Result<(), AttnError> {
    call.check(q, k, v)?;
    let (query_rows, key_rows) = (check::query_rows(call)?, check::key_rows(call)?);
    let dims = call.dims;
    let extent = Extent { items: &query_rows, heads: dims.n_heads, width: dims.d_v };
    check::holds("context", context, extent)?;
    check::holds("d_context", d_context, extent)?;
    check::exactly("lse", lse, dims.n_heads * call.n_queries())?;
    let offsets = call.weight_offsets();
    if let Some(d_weights) = d_weights {
        check::exactly("d_weights", d_weights, offsets[call.items.len()])?;
    }
    let n_params = call.score.n_params();
    check::exactly("dparams", grads.dparams, n_params)?;

    let inputs = Inputs { call, q, k, v };
    let targets = Targets::new(grads.arrays, dims, &query_rows, &key_rows)?;
    let queries = call.query_offsets();
    let job = Backward { inputs, context, lse, queries, d_context, d_weights, offsets, targets };
    let work: usize = (0..inputs.units()).map(|n| inputs.work(inputs.unit(n))).sum();
    let per_task = inputs.units().div_ceil(PARAM_SUMS).max(1);
    let tasks = inputs.units().div_ceil(per_task);
    let mut scratch = None;
    let sums = plan::run(
        &mut scratch,
        tasks,
        work * 5 / 2,
        || None,
        |scratch, task| {
            let scratch = scratch.get_or_insert_with(|| Scratch::new(call));
            let mut dparams = Buffer::zeroed(n_params);
            for n in task * per_task..inputs.units().min((task + 1) * per_task) {
                job.unit(inputs.unit(n), scratch, &mut dparams);
            }
            dparams
        },
    );
    for sum in sums {
        for (out, x) in grads.dparams.iter_mut().zip(sum.iter()) {
            *out += *x;
        }
    }
    Ok(())
}

struct Backward<'a, T: Real> {
    inputs: Inputs<'a, T>,
    context: Rows<'a, T>,
    lse: &'a [T],
    /// Where each item's queries begin in a head of `lse`.
    queries: Vec<usize>,
    d_context: Rows<'a, T>,
    d_weights: Option<&'a [T]>,
    /// Where each item's weights begin.
    offsets: Vec<usize>,
    targets: Targets<'a, T>,
}

/// What a thread needs while it works on a unit.
struct Scratch<T: Real> {
    keys: Keys<T>,
    values: Across<T>,
    dk: Buffer<T>,
    dv: Buffer<T>,
    queries: Queries<T>,
    dq: Buffer<T>,
    /// ∂L/∂c of a tile of queries, twice.
    dc_rows: Buffer<T>,
    dc: Along<T>,
    /// Weights, a tile or whole rows.
    weights: Buffer<T>,
    /// ∂L/∂a, then ∂L/∂s, laid out as the weights.
    dscores: Buffer<T>,
}

impl<T: Real> Scratch<T> {
    fn new(call: &Call<'_, T>) -> Self {
        let dims = call.dims;
        Self {
            keys: Keys::new(),
            values: Across::new(),
            dk: Buffer::stale(0),
            dv: Buffer::stale(0),
            queries: Queries::new(dims.d_k),
            dq: Buffer::stale(QUERIES * padded_width::<T>(dims.d_k)),
            dc_rows: Buffer::stale(QUERIES * dims.d_v),
            dc: Along::new(QUERIES),
            weights: Buffer::stale(QUERIES * KEYS),
            dscores: Buffer::stale(QUERIES * KEYS),
        }
    }
}

impl<T: Real> Backward<'_, T> {
    /// All gradients of a unit. Sums over queries go head by head and tile by tile, from first to
    /// last.
    fn unit(&self, unit: Unit, scratch: &mut Scratch<T>, dparams: &mut [T]) {
        let (inputs, item) = (&self.inputs, self.inputs.item(unit));
        let (call, dims) = (inputs.call, inputs.call.dims);
        let Scratch { keys, values, dk, dv, .. } = scratch;
        keys.pack(call, inputs.keys(unit), item.kv_len, true);
        values.pack(inputs.values(unit), item.kv_len);
        let (k_width, v_width) = (padded_width::<T>(dims.d_k), padded_width::<T>(dims.d_v));
        for (sum, width) in [(dk, k_width), (dv, v_width)] {
            pack::grow(sum, item.kv_len * width);
            sum[..item.kv_len * width].fill(T::ZERO);
        }

        for head in inputs.heads(unit) {
            for queries in tiles(0..item.q_len, QUERIES) {
                self.queries(unit, head, queries, scratch, dparams);
            }
        }

        for j in 0..item.kv_len {
            let dk = &mut scratch.dk[j * k_width..j * k_width + dims.d_k];
            if call.position.turns() {
                call.position.turn_backward(j, dk);
            }
            let dv = &scratch.dv[j * v_width..j * v_width + dims.d_v];
            // SAFETY: tasks have different (item, key head), and different items different rows.
            unsafe { self.targets.add_key(item.kv_start + j, unit.kv_head, dk, dv) };
        }
    }

    /// One tile of queries of one head, against all keys.
    fn queries(
        &self,
        unit: Unit,
        head: usize,
        queries: Range<usize>,
        scratch: &mut Scratch<T>,
        dparams: &mut [T],
    ) {
        let (inputs, call) = (&self.inputs, self.inputs.call);
        let (d_k, d_v, rows) = (call.dims.d_k, call.dims.d_v, queries.len());
        scratch.queries.pack(call, inputs.queries(unit, head), queries.clone(), true);
        let dc = Source::new(self.d_context, inputs.item(unit).q_start, head, d_v);
        pack::copy(dc, queries.clone(), &mut scratch.dc_rows);
        scratch.dc.pack(Source::dense(&scratch.dc_rows, d_v), rows);
        let width = padded_width::<T>(d_k);
        scratch.dq[..rows * width].fill(T::ZERO);

        let mut tile = Tile { at: call.at(unit.item, head), queries, keys: 0..0 };
        if call.normaliser.streams() {
            self.softmax(&mut tile, scratch, dparams);
        } else {
            self.whole_rows(&mut tile, scratch, dparams);
        }

        for i in 0..rows {
            let query = tile.queries.start + i;
            let dq = &mut scratch.dq[i * width..i * width + d_k];
            if call.position.turns() {
                call.position.turn_backward(query, dq);
            }
            // SAFETY: tasks have different (item, query head), and different items different rows.
            unsafe { self.targets.add_query(inputs.item(unit).q_start + query, head, dq) };
        }
    }

    /// The softmax: weights of a tile come from its scores and the log-sum-exps.
    fn softmax(&self, tile: &mut Tile, scratch: &mut Scratch<T>, dparams: &mut [T]) {
        let (call, rows) = (self.inputs.call, tile.queries.len());
        let lse = self.lse(tile);
        let range = visible(call, tile);

        // Σ_l a_il ∂L/∂a_il, where Σ_l a_il f_il v_l·∂L/∂c_i = c_i·∂L/∂c_i.
        let mut mean = [T::ZERO; QUERIES];
        let mean = &mut mean[..rows];
        self.context_means(tile, scratch, mean);
        if self.d_weights.is_some() {
            for span in tiles(range.clone(), KEYS) {
                tile.keys = span;
                if self.weights_from_lse(tile, scratch, lse) {
                    let columns = padded(tile.keys.len());
                    let d_weights = &mut scratch.dscores;
                    for i in 0..rows {
                        d_weights[i * KEYS..i * KEYS + columns].fill(T::ZERO);
                    }
                    self.add_d_weights(tile, d_weights, KEYS);
                    softmax::add_mean(&scratch.weights, d_weights, KEYS, columns, mean);
                }
            }
        }

        for span in tiles(range, KEYS) {
            tile.keys = span;
            if !self.weights_from_lse(tile, scratch, lse) {
                continue;
            }
            self.weight_gradients(tile, scratch, 0, KEYS);
            let Scratch { weights, dscores, .. } = scratch;
            softmax::backward(weights, dscores, KEYS, padded(tile.keys.len()), mean);
            self.add_gradients(tile, scratch, 0, KEYS, dparams);
        }
    }

    /// Any other normaliser gets whole rows of weights and of their gradients.
    fn whole_rows(&self, tile: &mut Tile, scratch: &mut Scratch<T>, dparams: &mut [T]) {
        let (call, rows) = (self.inputs.call, tile.queries.len());
        let range = visible(call, tile);
        let panel = Panel::new(range.clone(), &mut scratch.weights, rows);
        Panel::new(range, &mut scratch.dscores, rows);
        let q = scratch.queries.rows(rows, call.dims.d_k);
        panel.scores(call, tile, &scratch.keys, q, &mut scratch.weights);
        for i in 0..rows {
            call.normaliser.row(&mut scratch.weights[panel.row(i)]);
        }
        for span in panel.tiles() {
            tile.keys = span;
            let from = tile.keys.start - panel.start;
            self.weight_gradients(tile, scratch, from, panel.stride);
            tile.fill_forbidden(call.scope, T::ZERO, &mut scratch.dscores[from..], panel.stride);
        }
        for i in 0..rows {
            let row = panel.row(i);
            call.normaliser.row_backward(&scratch.weights[row.clone()], &mut scratch.dscores[row]);
        }
        for span in panel.tiles() {
            tile.keys = span;
            let from = tile.keys.start - panel.start;
            tile.fill_forbidden(call.scope, T::ZERO, &mut scratch.dscores[from..], panel.stride);
            self.add_gradients(tile, scratch, from, panel.stride, dparams);
        }
    }

    /// The weights of a tile, before dropout; false if the scope forbids all of it.
    fn weights_from_lse(&self, tile: &Tile, scratch: &mut Scratch<T>, lse: &[T]) -> bool {
        let Scratch { queries, keys, weights, .. } = scratch;
        let q = queries.rows(tile.queries.len(), self.inputs.call.dims.d_k);
        let any = keys.scores(self.inputs.call, tile, q, weights, KEYS);
        if any {
            softmax::from_lse(weights, KEYS, padded(tile.keys.len()), lse);
        }
        any
    }

    /// `∂L/∂a_ij = f_ij v_j·∂L/∂c_i + d_weights_ij`, into `dscores` from entry `from` on.
    fn weight_gradients(&self, tile: &Tile, scratch: &mut Scratch<T>, from: usize, stride: usize) {
        let (call, rows) = (self.inputs.call, tile.queries.len());
        let Scratch { values, dc_rows, dscores, .. } = scratch;
        let out = &mut dscores[from..];
        for i in 0..rows {
            out[i * stride..i * stride + padded(tile.keys.len())].fill(T::ZERO);
        }
        let left = Left::Rows { data: dc_rows, stride: call.dims.d_v };
        let right = values.panels(&tile.keys);
        Product { c: &mut *out, stride, rows, left, right, alpha: T::ONE }.compute();
        if let Some(drop) = call.dropout {
            dropout::apply(drop, tile.at, tile.queries.clone(), tile.keys.clone(), out, stride);
        }
        self.add_d_weights(tile, out, stride);
    }

    /// With `dscores` = ∂L/∂s of a tile and `weights` before dropout, both from entry `from` on: adds
    /// what the tile gives to the gradients of queries, keys, values and parameters.
    fn add_gradients(
        &self,
        tile: &Tile,
        scratch: &mut Scratch<T>,
        from: usize,
        stride: usize,
        dparams: &mut [T],
    ) {
        let call = self.inputs.call;
        let Scratch { keys, dk, dv, queries, dq, dc, weights, dscores, .. } = scratch;
        let dk = &mut dk[tile.keys.start * padded_width::<T>(call.dims.d_k)..];
        keys.backward(call, tile, queries, &dscores[from..], stride, dq, dk, dparams);

        let weights = &mut weights[from..];
        if let Some(drop) = call.dropout {
            dropout::apply(drop, tile.at, tile.queries.clone(), tile.keys.clone(), weights, stride);
        }
        let width = padded_width::<T>(call.dims.d_v);
        let dv = &mut dv[tile.keys.start * width..];
        let left = Left::Columns { data: weights, stride };
        dc.add_weighted(dv, width, tile.keys.len(), left, T::ONE, &(0..tile.queries.len()));
    }

    /// `out_ij += d_weights_ij`, where the loss looks at the weights.
    fn add_d_weights(&self, tile: &Tile, out: &mut [T], stride: usize) {
        let Some(d_weights) = self.d_weights else { return };
        let at = tile.at;
        for (i, query) in tile.queries.clone().enumerate() {
            let row = self.offsets[at.item] + (at.head * at.q_len + query) * at.kv_len;
            let d_weights = &d_weights[row + tile.keys.start..row + tile.keys.end];
            for (out, d) in out[i * stride..].iter_mut().zip(d_weights) {
                *out += *d;
            }
        }
    }

    /// `mean_i = c_i·∂L/∂c_i`
    fn context_means(&self, tile: &Tile, scratch: &Scratch<T>, mean: &mut [T]) {
        let d_v = self.inputs.call.dims.d_v;
        let first = self.inputs.call.items[tile.at.item].q_start + tile.queries.start;
        for (i, mean) in mean.iter_mut().enumerate() {
            let context = self.context.row(first + i, tile.at.head, d_v);
            let dc = &scratch.dc_rows[i * d_v..(i + 1) * d_v];
            *mean = regard_tensor::kernels::reduce::dot(context, dc);
        }
    }

    /// The log-sum-exps of a tile of queries.
    fn lse(&self, tile: &Tile) -> &[T] {
        let call = self.inputs.call;
        let row = tile.at.head * self.queries[call.items.len()] + self.queries[tile.at.item];
        &self.lse[row + tile.queries.start..row + tile.queries.end]
    }
}
