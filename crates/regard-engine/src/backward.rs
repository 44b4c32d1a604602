//! Gradients, tile by tile, from scores computed again.

use std::ops::Range;

use regard_attn::{AttnError, Call, Rows, Streaming, TileAt, Upstream};
use regard_tensor::kernels::reduce;
use regard_tensor::{Buffer, Key, Real, simd};

use crate::check;
use crate::cover::Cover;
use crate::fault::{self, Fault};
use crate::forward::{Chosen, part_of, row_at, spans, visible};
use crate::gradients::{Gradients, Targets};
use crate::kernel::{dropout, padded, softmax};
use crate::pack::{self, Across, Along, Source, padded_width};
use crate::panel::Panel;
use crate::plan::{self, Inputs, KEYS, QUERIES, Unit, tiles};
use crate::rows::Extent;
use crate::rowwise::{self, KeyRows, Looks, Places, RowOf, RowScratch};
use crate::score::{Keys, ParamGradients, Queries, fill_forbidden};
use regard_tensor::kernels::product::{Left, Product};

/// Units whose parameter gradients are added up by one task, in order; the sums of tasks are then
/// added in order too. Bounds the number of such sums.
const PARAM_SUMS: usize = 256;

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

    let inputs = Inputs { call, q, k, v };
    let targets = Targets::new(grads.arrays, grads.add, dims, &query_rows, &key_rows)?;
    let job = Backward {
        inputs,
        context,
        lse,
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
    other_keys: Vec<Buffer<T>>,
}

/// What a thread needs while it works on a piece of a unit.
struct Piece<T: Real> {
    sums: KeySums<T>,
    pairs: Pairs<T>,
    tiles: Vec<OfQueries<T>>,
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
            keys: Keys::new(),
            values: Across::new(),
            piece: Piece::new(call),
            row: RowScratch::new(),
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
        if rowwise::suits(inputs, unit) {
            return self.row_by_row(unit, scratch, dparams);
        }
        let Scratch { keys, values, piece, .. } = scratch;
        keys.pack(call, inputs.keys(unit), unit.kv_head, item.kv_len, true);
        values.pack(inputs.values(unit), item.kv_len);

        let (keys, values) = (&*keys, &*values);
        let per_head = item.q_len.div_ceil(QUERIES);
        // Pieces are cut at fixed places of each head, so that more rows, padding, change no sum.
        let heads = inputs.heads(unit).len();
        let of_head: Vec<Range<usize>> = (0..per_head)
            .step_by(PIECE_TILES)
            .map(|first| first..per_head.min(first + PIECE_TILES))
            .collect();
        let pieces: Vec<Range<usize>> = (0..heads)
            .flat_map(|head| of_head.iter().map(move |part| (head, part.clone())))
            .map(|(head, part)| head * per_head + part.start..head * per_head + part.end)
            .collect();
        if let [part] = &pieces[..] {
            self.piece(unit, part.clone(), keys, values, piece, dparams);
            self.finish(unit, &[&piece.sums], dparams);
            return;
        }
        if of_head.len() <= 1 {
            // Heads of one piece each, one after the other on this thread.
            let mut sums = Vec::with_capacity(heads);
            for part in pieces {
                self.piece(unit, part, keys, values, piece, dparams);
                sums.push(std::mem::replace(&mut piece.sums, KeySums::new()));
            }
            self.finish(unit, &sums.iter().collect::<Vec<_>>(), dparams);
            return;
        }
        let mut all = KeySums::new();
        all.start(call, 0..item.kv_len);
        for wave in pieces.chunks(MOST_PIECES) {
            let work = inputs.work(unit) * 5 / 2 * wave.len() / pieces.len();
            let new = || Piece::new(call);
            let done = plan::run(&mut *piece, wave.len(), work, new, |piece, n| {
                let mut dparams = ParamGradients::zeros(call);
                self.piece(unit, wave[n].clone(), keys, values, piece, &mut dparams);
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

    /// All queries of a unit and of those beside it, one by one.
    fn row_by_row(
        &self,
        unit: Unit,
        scratch: &mut Scratch<'a, T>,
        dparams: &mut ParamGradients<T>,
    ) {
        let (inputs, call) = (&self.inputs, self.inputs.call);
        let Scratch { row: scratch, other_keys, .. } = scratch;
        let units = rowwise::together(inputs, unit);
        other_keys.resize_with(units.len().max(other_keys.len()), || Buffer::stale(0));
        let places: Vec<Places<'_, T>> = units
            .iter()
            .zip(other_keys)
            .map(|(unit, other)| Places::of(inputs, *unit, other))
            .collect();
        let of_units = || units.iter().copied().zip(places.iter().copied());
        if !call.position.turns() && !call.score.has_own_keys() {
            // Nothing is to be done with the sums of a key: they are added up where they belong.
            let mut rows = of_units()
                .map(|(unit, places)| {
                    let (item, kv_head) = (inputs.item(unit), unit.kv_head);
                    for j in 0..if self.targets.add { 0 } else { item.kv_len } {
                        // SAFETY: tasks have different (item, key head), and different items different rows.
                        unsafe { self.targets.take_key(item.kv_start + j, kv_head, &[], &[]) };
                    }
                    let direct = Direct { targets: &self.targets, first: item.kv_start, kv_head };
                    (unit, places, direct)
                })
                .collect::<Vec<_>>();
            self.rows(&mut rows, scratch, dparams);
            return;
        }
        let mut rows = of_units()
            .map(|(unit, places)| {
                let mut sums = KeySums::new();
                sums.start(call, 0..inputs.item(unit).kv_len);
                (unit, places, Summed { call, sums })
            })
            .collect::<Vec<_>>();
        self.rows(&mut rows, scratch, dparams);
        for (unit, _, summed) in rows {
            self.finish(unit, &[&summed.sums], dparams);
        }
    }

    /// The queries of some units of one item, one by one.
    fn rows(
        &self,
        units: &mut [(Unit, Places<'_, T>, impl KeyRows<T>)],
        scratch: &mut RowScratch<T>,
        dparams: &mut ParamGradients<T>,
    ) {
        let (inputs, call) = (&self.inputs, self.inputs.call);
        let (d, up) = (call.dims, self.upstream);
        let Some((first, ..)) = units.first() else { return };
        let item = inputs.item(*first);
        for query in 0..item.q_len {
            for (unit, places, of_keys) in &mut *units {
                for head in inputs.heads(*unit) {
                    let (at, source) = (call.at(unit.item, head), inputs.queries(*unit, head));
                    let tile = TileAt { at, queries: query..query + 1, keys: 0..0 };
                    let first = self.first_row(&tile);
                    let weights = self.weights[at.item] + (at.head * at.q_len + query) * at.kv_len;
                    let sums = at.head * self.keys[call.items.len()] + self.keys[at.item];
                    let looks = Looks {
                        dc: self.d_context.row(item.q_start + query, head, d.d_v),
                        d_weights: up.weights.map(|d| &d[weights..weights + at.kv_len]),
                        d_key_sums: up.key_sums.map(|d| &d[sums..sums + at.kv_len]),
                        d_entropy: up.entropy.map_or(T::ZERO, |d| d[first]),
                        d_log_prob: up.log_prob.map_or(T::ZERO, |d| d[first]),
                    };
                    let row = RowOf { call, at, query, places: *places };
                    let dq = row.backward(source, &looks, scratch, of_keys, dparams);
                    if call.position.turns() {
                        call.position.turn_backward(item.q_offset + query, dq);
                    }
                    // SAFETY: tasks have different (item, query head, query), and different items different rows.
                    unsafe { self.targets.take_query(item.q_start + query, head, dq) };
                }
            }
        }
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
        let (mut start, mut end) = (item.kv_len, 0);
        for n in part.clone() {
            let seen = visible(call, &tile(n));
            if !seen.is_empty() {
                (start, end) = (start.min(seen.start), end.max(seen.end));
            }
        }
        // Tiles of keys begin at a whole number of lanes.
        let start = start.min(end) / crate::kernel::LANES * crate::kernel::LANES;
        piece.sums.start(call, start..end);
        let Piece { sums, pairs, tiles: of_tiles } = &mut *piece;
        while of_tiles.len() < part.len() {
            of_tiles.push(OfQueries::new(call));
        }
        let mut of_keys = OfKeys { keys, values, source: self.inputs.values(unit), sums };
        let jobs = part.zip(of_tiles).map(|(n, of)| {
            let tile = tile(n);
            self.take_queries(unit, &tile, of);
            (tile, of)
        });
        let mut jobs: Vec<_> = jobs.collect();
        if let Streaming::Softmax { scale } = call.normaliser.streaming() {
            self.softmax(&mut jobs, &mut of_keys, pairs, scale, dparams);
        } else {
            for (tile, of) in &mut jobs {
                match call.normaliser.streaming() {
                    Streaming::Pick { noise } => {
                        self.pick(tile, of, &mut of_keys, pairs, noise, dparams);
                    }
                    Streaming::Each => self.each(tile, of, &mut of_keys, pairs, dparams),
                    _ => self.whole_rows(tile, of, &mut of_keys, pairs, dparams),
                }
            }
        }
        for (tile, of) in jobs {
            self.hand_over(unit, &tile, of);
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
            let dk = if own { &[][..] } else { &dk };
            // SAFETY: tasks have different (item, key head), and different items different rows.
            unsafe { self.targets.take_key(item.kv_start + j, unit.kv_head, dk, &dv) };
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

    /// The softmax: shares of a tile come from its scores and the log-sum-exps. Tiles of queries take
    /// a tile of keys one after the other, while it lies in the cache.
    fn softmax(
        &self,
        jobs: &mut [(TileAt, &mut OfQueries<T>)],
        of_keys: &mut OfKeys<'_, T>,
        pairs: &mut Pairs<T>,
        scale: T,
        dparams: &mut ParamGradients<T>,
    ) {
        let call = self.inputs.call;
        let ranges: Vec<_> = jobs.iter().map(|(tile, _)| visible(call, tile)).collect();
        for ((tile, of), range) in jobs.iter_mut().zip(&ranges) {
            self.means(tile, of, of_keys, pairs, range.clone(), scale);
        }
        for span in spans(&ranges) {
            for ((tile, of), range) in jobs.iter_mut().zip(&ranges) {
                if let Some(keys) = part_of(&span, range) {
                    tile.keys = keys;
                    self.softmax_tile(tile, of, of_keys, pairs, scale, dparams);
                }
            }
        }
    }

    /// Σ_l p_il ∂L/∂p_il, where Σ_l p_il w_il f_il (v_l + r_il)·∂L/∂c_i = c_i·∂L/∂c_i.
    fn means(
        &self,
        tile: &mut TileAt,
        of: &mut OfQueries<T>,
        of_keys: &OfKeys<'_, T>,
        pairs: &mut Pairs<T>,
        range: Range<usize>,
        scale: T,
    ) {
        let (call, rows) = (self.inputs.call, tile.queries.len());
        self.context_means(tile, of);
        if self.upstream.is_none() {
            return;
        }
        for span in tiles(range, KEYS) {
            tile.keys = span;
            if self.shares_from_lse(tile, of, of_keys.keys, pairs, scale).is_some() {
                let columns = padded(tile.keys.len());
                let Pairs { weights, dscores, .. } = pairs;
                for i in 0..rows {
                    dscores[i * KEYS..i * KEYS + columns].fill(T::ZERO);
                }
                self.add_looks(tile, dscores, KEYS);
                if call.position.weighs() {
                    call.position.weight_tile(tile, dscores, KEYS);
                }
                self.add_entropy(tile, weights, dscores, KEYS);
                softmax::add_mean(weights, dscores, KEYS, columns, &mut of.mean[..rows]);
            }
        }
    }

    /// The softmax's gradients in one tile of pairs.
    fn softmax_tile(
        &self,
        tile: &TileAt,
        of: &mut OfQueries<T>,
        of_keys: &mut OfKeys<'_, T>,
        pairs: &mut Pairs<T>,
        scale: T,
        dparams: &mut ParamGradients<T>,
    ) {
        let Some(cover) = self.shares_from_lse(tile, of, of_keys.keys, pairs, scale) else {
            return;
        };
        let slope = if fault::is(Fault::LostTemperature) { T::ONE } else { scale };
        let slope = if fault::is(Fault::Sign) { -slope } else { slope };
        for part in cover.parts() {
            let (first, part_of, rows) = (part.first(KEYS), part.of(tile), part.rows);
            self.share_gradients(
                &part_of,
                of,
                rows.clone(),
                of_keys.values,
                pairs,
                first,
                KEYS,
                dparams,
            );
            let Pairs { weights, dscores, .. } = &mut *pairs;
            let (weights, dscores) = (&weights[first..], &mut dscores[first..]);
            let columns = padded(part.columns.len());
            softmax::backward(weights, dscores, KEYS, columns, &of.mean[rows], slope);
        }
        cover.fill_outside(T::ZERO, &mut pairs.dscores, KEYS);
        self.add_gradients(tile, cover, of, of_keys, pairs, 0, KEYS, dparams);
    }

    /// A normaliser that looks at each score alone takes any piece of a row.
    fn each(
        &self,
        tile: &mut TileAt,
        of: &mut OfQueries<T>,
        of_keys: &mut OfKeys<'_, T>,
        pairs: &mut Pairs<T>,
        dparams: &mut ParamGradients<T>,
    ) {
        let (call, rows) = (self.inputs.call, tile.queries.len());
        for span in tiles(visible(call, tile), KEYS) {
            tile.keys = span;
            let (q, weights) = (of.queries.rows(), &mut pairs.weights);
            if of_keys.keys.scores(call, tile, q, T::ONE, weights, KEYS).is_none() {
                continue;
            }
            let row = |i| i * KEYS..i * KEYS + padded(tile.keys.len());
            for i in 0..rows {
                call.normaliser.row(&mut weights[row(i)]);
            }
            self.share_gradients(tile, of, 0..rows, of_keys.values, pairs, 0, KEYS, dparams);
            let Pairs { weights, dscores, .. } = &mut *pairs;
            fill_forbidden(call.scope, tile, T::ZERO, dscores, KEYS);
            for i in 0..rows {
                call.normaliser.row_backward(&weights[row(i)], &mut dscores[row(i)]);
            }
            fill_forbidden(call.scope, tile, T::ZERO, dscores, KEYS);
            let cover = Cover::whole(tile);
            self.add_gradients(tile, cover, of, of_keys, pairs, 0, KEYS, dparams);
        }
    }

    /// A normaliser that chooses a key: its values and weights have a gradient at that key, its
    /// scores that of the log-probability and of the entropy.
    fn pick(
        &self,
        tile: &mut TileAt,
        of: &mut OfQueries<T>,
        of_keys: &mut OfKeys<'_, T>,
        pairs: &mut Pairs<T>,
        noise: Option<Key>,
        dparams: &mut ParamGradients<T>,
    ) {
        let (call, rows) = (self.inputs.call, tile.queries.len());
        let range = visible(call, tile);
        let mut chosen = Chosen::new(rows);
        let (mut top, mut entropy) = ([T::NEG_INFINITY; QUERIES], [T::ZERO; QUERIES]);
        for span in tiles(range.clone(), KEYS) {
            tile.keys = span;
            let (q, weights) = (of.queries.rows(), &mut pairs.weights);
            if of_keys.keys.scores(call, tile, q, T::ONE, weights, KEYS).is_none() {
                continue;
            }
            for i in 0..rows {
                let row = &weights[i * KEYS..i * KEYS + tile.keys.len()];
                chosen.look(i, tile, row, noise, &mut top[i]);
            }
            if self.upstream.entropy.is_some() {
                let columns = padded(tile.keys.len());
                softmax::from_lse(weights, KEYS, columns, self.lse(tile));
                for i in 0..rows {
                    let row = &weights[i * KEYS..i * KEYS + columns];
                    let terms = row.iter().filter(|p| **p != T::ZERO).map(|p| *p * p.ln());
                    entropy[i] -= terms.fold(T::ZERO, |a, b| a + b);
                }
            }
        }
        for i in 0..rows {
            if let Some(key) = chosen.keys[i] {
                self.chosen_key(tile, i, key, of, of_keys, dparams);
            }
        }
        let (d_entropy, d_log_prob) = (self.upstream.entropy, self.upstream.log_prob);
        if d_entropy.is_none() && d_log_prob.is_none() {
            return;
        }
        for span in tiles(range, KEYS) {
            tile.keys = span;
            let Some(cover) = self.shares_from_lse(tile, of, of_keys.keys, pairs, T::ONE) else {
                continue;
            };
            let first = self.first_row(tile);
            let columns = padded(tile.keys.len());
            for i in 0..rows {
                let (d_entropy, d_log_prob) = (
                    d_entropy.map_or(T::ZERO, |d| d[first + i]),
                    d_log_prob.map_or(T::ZERO, |d| d[first + i]),
                );
                let row = i * KEYS..i * KEYS + columns;
                let (p, ds) = (&pairs.weights[row.clone()], &mut pairs.dscores[row]);
                for (p, ds) in p.iter().zip(ds.iter_mut()) {
                    let slope = -d_log_prob * *p;
                    *ds = if *p == T::ZERO {
                        T::ZERO
                    } else {
                        slope - d_entropy * *p * (p.ln() + entropy[i])
                    };
                }
                if let Some(key) = chosen.keys[i].filter(|key| tile.keys.contains(key)) {
                    ds[key - tile.keys.start] += d_log_prob;
                }
            }
            let OfQueries { queries, dq, .. } = &mut *of;
            let (dk, _) = of_keys.sums.from(call, tile.keys.start);
            of_keys.keys.backward(
                call,
                tile,
                cover,
                queries,
                &pairs.dscores,
                KEYS,
                dq,
                dk,
                dparams,
            );
        }
    }

    /// The gradients of the value that row i chose, and of position's factor and value there.
    fn chosen_key(
        &self,
        tile: &TileAt,
        i: usize,
        key: usize,
        of: &OfQueries<T>,
        of_keys: &mut OfKeys<'_, T>,
        dparams: &mut ParamGradients<T>,
    ) {
        let (call, at, query) = (self.inputs.call, tile.at, tile.queries.start + i);
        let position = call.position;
        let dc = of.dc.all().row(i);
        let weight = if position.weighs() { position.weight(at, query, key) } else { T::ONE };
        let factor =
            call.dropout.map_or(T::ONE, |drop| drop.factor(drop.row(at.item, at.head, query), key));
        let kept = weight * factor;
        if kept != T::ZERO {
            let (_, dv) = of_keys.sums.from(call, key);
            for (dv, dc) in dv.iter_mut().zip(dc) {
                *dv += kept * *dc;
            }
            if position.has_values() {
                position.value_backward(at, query, key, kept, dc, &mut dparams.position);
            }
        }
        if position.weighs() {
            let mut da = T::ZERO;
            if factor != T::ZERO {
                da = reduce::dot(of_keys.source.row(key), dc);
                if position.has_values() {
                    da += position.value_dot(at, query, key, dc);
                }
                da *= factor;
            }
            let mut one = [da];
            let pair = TileAt { at, queries: query..query + 1, keys: key..key + 1 };
            self.add_looks(&pair, &mut one, 1);
            position.weight_backward(at, query, key, one[0], &mut dparams.position);
        }
    }

    /// Any other normaliser gets whole rows of scores and of gradients.
    fn whole_rows(
        &self,
        tile: &mut TileAt,
        of: &mut OfQueries<T>,
        of_keys: &mut OfKeys<'_, T>,
        pairs: &mut Pairs<T>,
        dparams: &mut ParamGradients<T>,
    ) {
        let (call, rows) = (self.inputs.call, tile.queries.len());
        let range = visible(call, tile);
        let panel = Panel::new(range.clone(), &mut pairs.weights, rows);
        Panel::new(range.clone(), &mut pairs.dscores, rows);
        if call.position.weighs() {
            Panel::new(range, &mut pairs.dfactors, rows);
        }
        let q = of.queries.rows();
        panel.scores(call, tile, of_keys.keys, q, &mut pairs.weights);
        for i in 0..rows {
            let row = &mut pairs.weights[panel.row(i)];
            call.normaliser.row_at(row_at(tile, i), row);
        }
        for span in panel.tiles() {
            tile.keys = span;
            let from = tile.keys.start - panel.start;
            self.share_gradients(
                tile,
                of,
                0..rows,
                of_keys.values,
                pairs,
                from,
                panel.stride,
                dparams,
            );
            let dscores = &mut pairs.dscores[from..];
            fill_forbidden(call.scope, tile, T::ZERO, dscores, panel.stride);
        }
        for i in 0..rows {
            let row = panel.row(i);
            call.normaliser.row_backward(&pairs.weights[row.clone()], &mut pairs.dscores[row]);
        }
        for span in panel.tiles() {
            tile.keys = span;
            let from = tile.keys.start - panel.start;
            let dscores = &mut pairs.dscores[from..];
            fill_forbidden(call.scope, tile, T::ZERO, dscores, panel.stride);
            if let Some(cover) = Cover::of(call.scope, tile) {
                self.add_gradients(tile, cover, of, of_keys, pairs, from, panel.stride, dparams);
            }
        }
    }

    /// The softmax's shares of a tile, outside the parts 0; none if the scope forbids all of it.
    fn shares_from_lse(
        &self,
        tile: &TileAt,
        of: &OfQueries<T>,
        keys: &Keys<'_, T>,
        pairs: &mut Pairs<T>,
        scale: T,
    ) -> Option<Cover> {
        let (q, weights) = (of.queries.rows(), &mut pairs.weights);
        let cover = keys.scores(self.inputs.call, tile, q, scale, weights, KEYS)?;
        let lse = self.lse(tile);
        for part in cover.parts() {
            let weights = &mut weights[part.first(KEYS)..];
            softmax::from_lse(weights, KEYS, padded(part.columns.len()), &lse[part.rows]);
        }
        cover.fill_outside(T::ZERO, weights, KEYS);
        Some(cover)
    }

    /// ∂L/∂p of a tile, whose queries are `of_rows` of those of `of`, into `dscores` from entry `from` on; adds to the gradients of position's
    /// factors.
    fn share_gradients(
        &self,
        tile: &TileAt,
        of: &OfQueries<T>,
        of_rows: Range<usize>,
        values: &Across<T>,
        pairs: &mut Pairs<T>,
        from: usize,
        stride: usize,
        dparams: &mut ParamGradients<T>,
    ) {
        let (call, rows, n) = (self.inputs.call, tile.queries.len(), tile.keys.len());
        let Pairs { weights, dscores, dfactors } = pairs;
        let dc = of.dc.rows(&of_rows);
        let (out, shares) = (&mut dscores[from..], &weights[from..]);
        let left = Left::Rows { data: dc.data, stride: dc.stride };
        let right = values.panels(&tile.keys);
        Product { c: &mut *out, stride, rows, left, right, alpha: T::ONE }.set();
        for i in 0..rows {
            out[i * stride + n..i * stride + padded(n)].fill(T::ZERO);
        }
        if call.position.has_values() {
            call.position.value_dot_tile(tile, dc, out, stride);
        }
        if let Some(drop) = call.dropout {
            dropout::apply(drop, tile.at, tile.queries.clone(), tile.keys.clone(), out, stride);
        }
        self.add_looks(tile, out, stride);
        if call.position.weighs() {
            for i in 0..rows {
                let row = i * stride..i * stride + n;
                let pairs = shares[row.clone()].iter().zip(&out[row.clone()]);
                for (g, (p, da)) in dfactors[from + row.start..from + row.end].iter_mut().zip(pairs)
                {
                    *g = if *p == T::ZERO { T::ZERO } else { *p * *da };
                }
            }
            let dposition = &mut dparams.position;
            call.position.weight_tile_backward(tile, &dfactors[from..], stride, dposition);
            if !fault::is(Fault::LostFactor) {
                call.position.weight_tile(tile, out, stride);
            }
        }
        self.add_entropy(tile, shares, out, stride);
    }

    /// With `dscores` = ∂L/∂s of a tile and the shares in `weights`, both from entry `from` on: adds
    /// what the tile gives to the gradients of queries, keys, values and parameters.
    fn add_gradients(
        &self,
        tile: &TileAt,
        cover: Cover,
        of: &mut OfQueries<T>,
        of_keys: &mut OfKeys<'_, T>,
        pairs: &mut Pairs<T>,
        from: usize,
        stride: usize,
        dparams: &mut ParamGradients<T>,
    ) {
        let (call, d_v) = (self.inputs.call, self.inputs.call.dims.d_v);
        let OfQueries { queries, dq, dc, .. } = of;
        let Pairs { weights, dscores, .. } = pairs;
        let (dk, dv) = of_keys.sums.from(call, tile.keys.start);
        let g = &dscores[from..];
        of_keys.keys.backward(call, tile, cover, queries, g, stride, dq, dk, dparams);

        let weights = &mut weights[from..];
        if call.position.weighs() {
            call.position.weight_tile(tile, weights, stride);
        }
        if let Some(drop) = call.dropout
            && !fault::is(Fault::DropoutNotReplayed)
        {
            dropout::apply(drop, tile.at, tile.queries.clone(), tile.keys.clone(), weights, stride);
        }
        dc.add_weighted_by_key(dv, padded_width(d_v), cover, weights, stride, T::ONE);
        if call.position.has_values() {
            call.position.value_tile_backward(
                tile,
                weights,
                stride,
                dc.all(),
                &mut dparams.position,
            );
        }
    }

    /// `out_ij += d_weights_ij + d_key_sums_j`, where the loss looks at them.
    fn add_looks(&self, tile: &TileAt, out: &mut [T], stride: usize) {
        let at = tile.at;
        if let Some(d_weights) = self.upstream.weights {
            for (i, query) in tile.queries.clone().enumerate() {
                let row = self.weights[at.item] + (at.head * at.q_len + query) * at.kv_len;
                let d_weights = &d_weights[row + tile.keys.start..row + tile.keys.end];
                add(&mut out[i * stride..][..tile.keys.len()], d_weights);
            }
        }
        if let Some(d_key_sums) = self.upstream.key_sums {
            let first = at.head * self.keys[self.inputs.call.items.len()] + self.keys[at.item];
            let d_key_sums = &d_key_sums[first + tile.keys.start..first + tile.keys.end];
            for i in 0..tile.queries.len() {
                add(&mut out[i * stride..][..tile.keys.len()], d_key_sums);
            }
        }
    }

    /// `out_ij −= d_entropy_i (ln p_ij + 1)`, where the loss looks at the entropy.
    fn add_entropy(&self, tile: &TileAt, shares: &[T], out: &mut [T], stride: usize) {
        let Some(d_entropy) = self.upstream.entropy else { return };
        let first = self.first_row(tile);
        for i in 0..tile.queries.len() {
            let row = i * stride..i * stride + tile.keys.len();
            for (p, out) in shares[row.clone()].iter().zip(&mut out[row]) {
                if *p != T::ZERO {
                    *out -= d_entropy[first + i] * (p.ln() + T::ONE);
                }
            }
        }
    }

    /// `mean_i = c_i·∂L/∂c_i`
    fn context_means(&self, tile: &TileAt, of: &mut OfQueries<T>) {
        let d_v = self.inputs.call.dims.d_v;
        let first = self.inputs.call.items[tile.at.item].q_start + tile.queries.start;
        let (contexts, head, rows) = (self.context, tile.at.head, tile.queries.len());
        let OfQueries { dc, mean, .. } = of;
        let dc = dc.all();
        simd::vectorise(
            #[inline(always)]
            move || {
                for (i, mean) in mean[..rows].iter_mut().enumerate() {
                    *mean = reduce::dot(contexts.row(first + i, head, d_v), dc.row(i));
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

/// Gradients of keys and values, where the caller wants them.
struct Direct<'a, T> {
    targets: &'a Targets<'a, T>,
    /// The item's first key.
    first: usize,
    kv_head: usize,
}

impl<T: Real> KeyRows<T> for Direct<'_, T> {
    fn dk(&mut self, key: usize) -> &mut [T] {
        // SAFETY: tasks have different (item, key head), and different items different rows.
        unsafe { self.targets.key(self.first + key, self.kv_head) }
    }

    fn dv(&mut self, key: usize) -> &mut [T] {
        // SAFETY: as above.
        unsafe { self.targets.value(self.first + key, self.kv_head) }
    }
}

/// Gradients of turned keys and of values, added up first.
struct Summed<'a, T: Real> {
    call: &'a Call<'a, T>,
    sums: KeySums<T>,
}

impl<T: Real> KeyRows<T> for Summed<'_, T> {
    fn dk(&mut self, key: usize) -> &mut [T] {
        let (dk, _) = self.sums.from(self.call, key);
        &mut dk[..self.call.dims.d_k]
    }

    fn dv(&mut self, key: usize) -> &mut [T] {
        let (_, dv) = self.sums.from(self.call, key);
        &mut dv[..self.call.dims.d_v]
    }
}
