//! Gradients, tile by tile, from scores computed again.

mod normalisers;
mod row_by_row;

use std::ops::Range;

use regard_attn::{AttnError, Call, Rows, Streaming, TileAt, Upstream};
use regard_tensor::{Buffer, Real, simd};

use crate::check;
use crate::fault::{self, Fault};
use crate::forward::visible;
use crate::gradients::{Gradients, Targets};
use crate::pack::{self, Across, Along, Source, padded_width};
use crate::plan::{self, Inputs, KEYS, QUERIES, Unit};
use crate::rows::Extent;
use crate::rowwise::by_key::{KeyScratch, Seen};
use crate::rowwise::{self, RowScratch};
use crate::score::{Keys, ParamGradients, Queries};
use crate::survey::{self, Survey};

/// Units whose parameter gradients are added up by one task, in order; the sums of tasks are then
/// added in order too. Bounds the number of such sums.
const PARAM_SUMS: usize = 64;

/// Bounds the elements of such sums.
const PARAM_ELEMENTS: usize = 1 << 22;

/// A unit is cut into pieces of so many tiles of queries, each with its own sums of gradients by key, so that
/// several threads can share a unit; so many at a time, to bound those sums.
const PIECE_TILES: usize = 8;
const MOST_PIECES: usize = 8;

/// The gradients of [`forward`](crate::forward()), given `d_context = ∂L/∂c` and what else the loss
/// looks at.
///
/// `context` and `lse` are what forward gave; the scores are computed again from q and k, and dropout
/// and samples are drawn again. With p_ij the normaliser's share, w_ij position's factor on it, f_ij
/// dropout's factor and r_ij position's value:
///
/// ```text
/// ∂L/∂v_j  = Σ_i p_ij w_ij f_ij ∂L/∂c_i
/// ∂L/∂a_ij = f_ij (v_j + r_ij)·∂L/∂c_i + d_weights_ij + d_key_sums_j
/// ∂L/∂p_ij = w_ij ∂L/∂a_ij − d_entropy_i (ln p_ij + 1)
/// ∂L/∂s_ij = p_ij (∂L/∂p_ij − Σ_l p_il ∂L/∂p_il)        (softmax)
/// ```
///
/// and then the score's and the position's own derivatives; where a key c is chosen from
/// π = softmax(s) with entropy H, `∂L/∂s_ij = d_log_prob_i ([j = c] − π_ij) − d_entropy_i π_ij (ln π_ij + H_i)`.
/// Everything is added to `grads`, or takes the place of what stands there ([`Gradients::add`]). A query with nothing allowed
/// gives no gradient and gets none.
///
/// Time as forward's, times about 2.5; memory beside the outputs grows with
/// kv_len·(d_k + d_v), up to eight times a thread. The bits do not depend on the number of threads.
///
/// # Errors
/// Those of [`Call::check`] and [`Upstream::check`]; an array of the wrong size; gradients that overlap;
/// two items that share a query row or a key row.
pub fn backward<T: Real>(
    call: &Call<'_, T>,
    q: Rows<'_, T>,
    k: Rows<'_, T>,
    v: Rows<'_, T>,
    context: Rows<'_, T>,
    lse: &[T],
    d_context: Rows<'_, T>,
    upstream: Upstream<'_, T>,
    grads: Gradients<'_, T>,
) -> Result<(), AttnError> {
    call.check(q, k, v)?;
    let (query_rows, key_rows) = (check::query_rows(call)?, check::key_rows(call)?);
    let dims = call.dims;
    let extent = Extent { items: &query_rows, heads: dims.n_heads, width: dims.d_v };
    check::holds("context", context, extent)?;
    check::holds("d_context", d_context, extent)?;
    check::exactly("lse", lse, dims.n_heads * call.n_queries())?;
    upstream.check(call)?;
    check::exactly("dscore_params", grads.dscore_params, call.score.n_params())?;
    check::exactly("dposition_params", grads.dposition_params, call.position.n_params())?;

    let survey = Survey::of(call);
    let call = &survey::surveyed(call, survey.as_ref());
    let inputs = Inputs { call, q, k, v };
    let targets = Targets::new(grads.arrays, grads.add, dims, &query_rows, &key_rows)?;
    let by_rows = rowwise::suited(call);
    let by_key = rowwise::by_key::suited(call, &upstream);
    let seen = by_rows.iter().enumerate().map(|(item, by_rows)| {
        if *by_rows && by_key { Seen::new(call, call.at(item, 0)) } else { None }
    });
    let seen = seen.collect();
    let job = Backward {
        inputs,
        context,
        lse,
        by_rows,
        seen,
        queries: call.query_offsets(),
        d_context,
        upstream,
        weights: call.weight_offsets(),
        keys: call.key_offsets(),
        targets,
    };
    let work: usize = (0..inputs.units()).map(|n| inputs.work(inputs.unit(n))).sum();
    let n_params = call.score.n_params() + call.position.n_params();
    let most = (PARAM_ELEMENTS / n_params.max(1)).clamp(1, PARAM_SUMS);
    let per_task = inputs.units().div_ceil(most).max(1);
    let tasks = inputs.units().div_ceil(per_task);
    let new = || Scratch::new(call);
    let sums = plan::run(&mut new(), tasks, work * 5 / 2, new, |scratch, task| {
        let mut dparams = ParamGradients::zeros(call);
        for n in task * per_task..inputs.units().min((task + 1) * per_task) {
            job.unit(inputs.unit(n), scratch, &mut dparams);
        }
        dparams
    });
    for sum in sums {
        add(grads.dscore_params, &sum.score);
        add(grads.dposition_params, &sum.position);
    }
    Ok(())
}

#[inline(always)]
fn add<T: Real>(out: &mut [T], x: &[T]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out += *x;
    }
}

struct Backward<'a, T: Real> {
    inputs: Inputs<'a, T>,
    context: Rows<'a, T>,
    lse: &'a [T],
    /// The items whose queries are taken one by one.
    by_rows: Vec<bool>,
    /// For items whose gradients are taken key by key, the queries of each key.
    seen: Vec<Option<Seen>>,
    /// Where each item's queries begin in a head of `lse`.
    queries: Vec<usize>,
    d_context: Rows<'a, T>,
    upstream: Upstream<'a, T>,
    /// Where each item's weights begin.
    weights: Vec<usize>,
    /// Where each item's keys begin in a head of the sums by key.
    keys: Vec<usize>,
    targets: Targets<'a, T>,
}

/// What a thread needs while it works on a unit.
struct Scratch<'a, T: Real> {
    keys: Keys<'a, T>,
    values: Across<T>,
    piece: Piece<T>,
    row: RowScratch<T>,
    of_keys: KeyScratch<T>,
    other_keys: Vec<Buffer<T>>,
}

/// What a thread needs while it works on a piece of a unit.
struct Piece<T: Real> {
    sums: KeySums<T>,
    pairs: Pairs<T>,
    tiles: Vec<Job<T>>,
}

/// A tile of queries of a piece.
struct Job<T: Real> {
    /// The queries; its keys move along.
    tile: TileAt,
    /// The keys that they may see.
    seen: Range<usize>,
    of: OfQueries<T>,
}

/// The gradients that the queries of a piece give to keys and values, after the turn by position.
#[derive(Debug)]
struct KeySums<T: Real> {
    keys: Range<usize>,
    /// Rows padded_width(d_k) apart, the first that of key `keys.start`; then padded_width(d_v).
    dk: Buffer<T>,
    dv: Buffer<T>,
}

impl<T: Real> KeySums<T> {
    fn new() -> Self {
        Self { keys: 0..0, dk: Buffer::stale(0), dv: Buffer::stale(0) }
    }

    /// Zeros for these keys.
    fn start(&mut self, call: &Call<'_, T>, keys: Range<usize>) {
        for (sum, width) in [(&mut self.dk, call.dims.d_k), (&mut self.dv, call.dims.d_v)] {
            let len = keys.len() * padded_width(width);
            pack::grow(sum, len);
            sum[..len].fill(T::ZERO);
        }
        self.keys = keys;
    }

    /// Adds the sums of some of the keys.
    fn add(&mut self, call: &Call<'_, T>, part: &Self) {
        let (k_width, v_width) = (padded_width(call.dims.d_k), padded_width(call.dims.d_v));
        let (dk, dv) = self.from(call, part.keys.start);
        let len = part.keys.len();
        for (out, x, width) in [(dk, &part.dk, k_width), (dv, &part.dv, v_width)] {
            let (out, x) = (&mut out[..len * width], &x[..len * width]);
            simd::vectorise(
                #[inline(always)]
                move || add(out, x),
            );
        }
    }

    /// The sums from key `first` on, rows of keys and of values.
    fn from(&mut self, call: &Call<'_, T>, first: usize) -> (&mut [T], &mut [T]) {
        let (j, d) = (first - self.keys.start, call.dims);
        let (k_width, v_width) = (padded_width(d.d_k), padded_width(d.d_v));
        (&mut self.dk[j * k_width..], &mut self.dv[j * v_width..])
    }
}

/// What is kept of a tile of queries while keys come along.
struct OfQueries<T: Real> {
    queries: Queries<T>,
    /// ∂L/∂q after the turn by position, rows padded_width(d_k) apart.
    dq: Buffer<T>,
    /// ∂L/∂c.
    dc: Along<T>,
    /// Σ_l p_il ∂L/∂p_il
    mean: [T; QUERIES],
}

/// What is computed of a tile of pairs.
struct Pairs<T: Real> {
    /// The normaliser's shares, a tile or whole rows; in the end the weights after dropout.
    weights: Buffer<T>,
    /// ∂L/∂a, then ∂L/∂p, then ∂L/∂s, laid out as the weights.
    dscores: Buffer<T>,
    /// ∂L/∂w by position's factors.
    dfactors: Buffer<T>,
}

impl<T: Real> Scratch<'_, T> {
    fn new(call: &Call<'_, T>) -> Self {
        Self {
            keys: Keys::new(call),
            values: Across::new(),
            piece: Piece::new(call),
            row: RowScratch::new(),
            of_keys: KeyScratch::new(),
            other_keys: Vec::new(),
        }
    }
}

impl<T: Real> Piece<T> {
    fn new(call: &Call<'_, T>) -> Self {
        let pairs = Pairs {
            weights: Buffer::stale(QUERIES * KEYS),
            dscores: Buffer::stale(QUERIES * KEYS),
            dfactors: Buffer::stale(if call.position.weighs() { QUERIES * KEYS } else { 0 }),
        };
        Self { sums: KeySums::new(), pairs, tiles: Vec::new() }
    }
}

impl<T: Real> OfQueries<T> {
    fn new(call: &Call<'_, T>) -> Self {
        Self {
            queries: Queries::new(),
            dq: Buffer::stale(QUERIES * padded_width(call.dims.d_k)),
            dc: Along::new(),
            mean: [T::ZERO; QUERIES],
        }
    }
}

impl<'a, T: Real> Backward<'a, T> {
    /// All gradients of a unit. Sums over queries go head by head and tile by tile within a piece,
    /// then piece by piece.
    fn unit(&self, unit: Unit, scratch: &mut Scratch<'a, T>, dparams: &mut ParamGradients<T>) {
        let (inputs, item) = (&self.inputs, self.inputs.item(unit));
        let call = inputs.call;
        if self.by_rows[unit.item] {
            return self.row_by_row(unit, scratch, dparams);
        }
        let Scratch { keys, values, piece, .. } = scratch;
        keys.pack(call, inputs.keys(unit), unit.kv_head, item.kv_len, true);
        values.pack(inputs.values(unit), item.kv_len);

        let (keys, values) = (&*keys, &*values);
        let per_head = item.q_len.div_ceil(QUERIES);
        // Pieces are cut at fixed places of each head, so that more rows, padding, change no sum.
        let heads = inputs.heads(unit).len();
        let of_head = per_head.div_ceil(PIECE_TILES);
        let pieces = heads * of_head;
        let part = |n: usize| {
            let (head, first) = (n / of_head * per_head, n % of_head * PIECE_TILES);
            head + first..head + per_head.min(first + PIECE_TILES)
        };
        if pieces == 1 {
            self.piece(unit, part(0), keys, values, piece, dparams);
            self.finish(unit, &[&piece.sums], dparams);
            return;
        }
        if of_head <= 1 {
            // Heads of one piece each, one after the other on this thread.
            let mut sums = Vec::with_capacity(pieces);
            for n in 0..pieces {
                self.piece(unit, part(n), keys, values, piece, dparams);
                sums.push(std::mem::replace(&mut piece.sums, KeySums::new()));
            }
            self.finish(unit, &sums.iter().collect::<Vec<_>>(), dparams);
            return;
        }
        let mut all = KeySums::new();
        all.start(call, 0..item.kv_len);
        for first in (0..pieces).step_by(MOST_PIECES) {
            let wave = MOST_PIECES.min(pieces - first);
            let work = inputs.work(unit) * 5 / 2 * wave / pieces;
            let new = || Piece::new(call);
            let done = plan::run(&mut *piece, wave, work, new, |piece, n| {
                let mut dparams = ParamGradients::zeros(call);
                self.piece(unit, part(first + n), keys, values, piece, &mut dparams);
                (std::mem::replace(&mut piece.sums, KeySums::new()), dparams)
            });
            let kept = done.len() - usize::from(fault::is(Fault::LostPiece));
            for (sums, _) in &done[..kept] {
                all.add(call, sums);
            }
            for (_, sum) in &done {
                add(&mut dparams.score, &sum.score);
                add(&mut dparams.position, &sum.position);
            }
        }
        self.finish(unit, &[&all], dparams);
    }

    /// The tiles of queries `part` of a unit, numbered head by head.
    fn piece(
        &self,
        unit: Unit,
        part: Range<usize>,
        keys: &Keys<'_, T>,
        values: &Across<T>,
        piece: &mut Piece<T>,
        dparams: &mut ParamGradients<T>,
    ) {
        let (call, item) = (self.inputs.call, self.inputs.item(unit));
        let (heads, per_head) = (self.inputs.heads(unit), item.q_len.div_ceil(QUERIES));
        let tile = |n: usize| {
            let (head, start) = (heads.start + n / per_head, n % per_head * QUERIES);
            let queries = start..item.q_len.min(start + QUERIES);
            TileAt { at: call.at(unit.item, head), queries, keys: 0..0 }
        };
        let Piece { sums, pairs, tiles: jobs } = &mut *piece;
        let (mut start, mut end) = (item.kv_len, 0);
        for (i, n) in part.clone().enumerate() {
            let tile = tile(n);
            let seen = visible(call, &tile);
            if !seen.is_empty() {
                (start, end) = (start.min(seen.start), end.max(seen.end));
            }
            match jobs.get_mut(i) {
                Some(job) => (job.tile, job.seen) = (tile, seen),
                None => jobs.push(Job { tile, seen, of: OfQueries::new(call) }),
            }
        }
        let jobs = &mut jobs[..part.len()];
        // Tiles of keys begin at a whole number of lanes.
        let start = start.min(end) / crate::kernel::LANES * crate::kernel::LANES;
        sums.start(call, start..end);
        let mut of_keys = OfKeys { keys, values, source: self.inputs.values(unit), sums };
        for Job { tile, of, .. } in &mut *jobs {
            self.take_queries(unit, tile, of);
        }
        if let Streaming::Softmax { scale } = call.normaliser.streaming() {
            self.softmax(jobs, &mut of_keys, pairs, scale, dparams);
        } else {
            for Job { tile, of, .. } in &mut *jobs {
                match call.normaliser.streaming() {
                    Streaming::Pick { noise } => {
                        self.pick(tile, of, &mut of_keys, pairs, noise, dparams);
                    }
                    Streaming::Each => self.each(tile, of, &mut of_keys, pairs, dparams),
                    _ => self.whole_rows(tile, of, &mut of_keys, pairs, dparams),
                }
            }
        }
        for Job { tile, of, .. } in jobs {
            self.hand_over(unit, tile, of);
        }
    }

    /// Adds up the pieces' sums and hands over the gradients of keys and values.
    fn finish(&self, unit: Unit, sums: &[&KeySums<T>], dparams: &mut ParamGradients<T>) {
        let (call, item) = (self.inputs.call, self.inputs.item(unit));
        let d = call.dims;
        let (k_width, v_width) = (padded_width(d.d_k), padded_width(d.d_v));
        let own = call.score.has_own_keys();
        if let [sum] = sums
            && !own
            && !call.position.turns()
        {
            let seen = sum.keys.start.min(item.kv_len)..sum.keys.end.min(item.kv_len);
            let targets = &self.targets;
            simd::vectorise(
                #[inline(always)]
                move || {
                    for n in 0..seen.len() {
                        let row = item.kv_start + seen.start + n;
                        let dk = &sum.dk[n * k_width..n * k_width + d.d_k];
                        let dv = &sum.dv[n * v_width..n * v_width + d.d_v];
                        // SAFETY: tasks have different (item, key head), and different items different rows.
                        unsafe { targets.take_key(row, unit.kv_head, dk, dv) };
                    }
                    if !targets.add {
                        for j in (0..seen.start).chain(seen.end..item.kv_len) {
                            // SAFETY: as above.
                            unsafe { targets.take_key(item.kv_start + j, unit.kv_head, &[], &[]) };
                        }
                    }
                },
            );
            return;
        }
        let (mut dk, mut dv) = (vec![T::ZERO; d.d_k], vec![T::ZERO; d.d_v]);
        for j in 0..item.kv_len {
            dk.fill(T::ZERO);
            dv.fill(T::ZERO);
            for sum in sums.iter().filter(|sum| sum.keys.contains(&j)) {
                let j = j - sum.keys.start;
                add(&mut dk, &sum.dk[j * k_width..]);
                add(&mut dv, &sum.dv[j * v_width..]);
            }
            if call.position.turns() {
                call.position.turn_backward(j, &mut dk);
            }
            if own {
                call.score.own_key_backward(unit.kv_head, j, &dk, &mut dparams.score);
            }
            let (dk, dv, targets) = (if own { &[][..] } else { &dk }, &dv[..], &self.targets);
            simd::vectorise(
                #[inline(always)]
                move || {
                    // SAFETY: tasks have different (item, key head), and different items different rows.
                    unsafe { targets.take_key(item.kv_start + j, unit.kv_head, dk, dv) };
                },
            );
        }
    }

    /// Takes the queries of a tile and their upstream gradients.
    fn take_queries(&self, unit: Unit, tile: &TileAt, of: &mut OfQueries<T>) {
        let (inputs, call, item) = (&self.inputs, self.inputs.call, self.inputs.item(unit));
        let (head, queries) = (tile.at.head, tile.queries.clone());
        of.queries.pack(call, inputs.queries(unit, head), item.q_offset, queries.clone());
        let dc = Source::new(self.d_context, item.q_start, head, call.dims.d_v);
        of.dc.pack(dc, queries);
        of.dq[..tile.queries.len() * padded_width(call.dims.d_k)].fill(T::ZERO);
    }

    /// Hands over the gradients of the queries of a tile.
    fn hand_over(&self, unit: Unit, tile: &TileAt, of: &mut OfQueries<T>) {
        let (call, item) = (self.inputs.call, self.inputs.item(unit));
        let (d_k, rows, first) = (call.dims.d_k, tile.queries.len(), tile.queries.start);
        let (head, width) = (tile.at.head, padded_width(call.dims.d_k));
        if call.position.turns() {
            for (i, dq) in of.dq.chunks_exact_mut(width).take(rows).enumerate() {
                call.position.turn_backward(item.q_offset + first + i, &mut dq[..d_k]);
            }
        }
        let (targets, dq) = (&self.targets, &of.dq[..rows * width]);
        simd::vectorise(
            #[inline(always)]
            move || {
                for (i, dq) in dq.chunks_exact(width).enumerate() {
                    let row = item.q_start + first + i;
                    // SAFETY: tasks have different (item, query head, query), and different items different rows.
                    unsafe { targets.take_query(row, head, &dq[..d_k]) };
                }
            },
        );
    }

    /// Where the rows of a tile begin in arrays `[n_heads, n_queries]`.
    fn first_row(&self, tile: &TileAt) -> usize {
        let n_queries = self.queries[self.inputs.call.items.len()];
        tile.at.head * n_queries + self.queries[tile.at.item] + tile.queries.start
    }

    /// The log-sum-exps of a tile of queries.
    fn lse(&self, tile: &TileAt) -> &[T] {
        let first = self.first_row(tile);
        &self.lse[first..first + tile.queries.len()]
    }
}

/// The keys and values that a tile of queries meets, and the sums of their gradients.
struct OfKeys<'a, T: Real> {
    keys: &'a Keys<'a, T>,
    values: &'a Across<T>,
    /// The values as they were given.
    source: Source<'a, T>,
    sums: &'a mut KeySums<T>,
}
