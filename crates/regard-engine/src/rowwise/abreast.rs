//! Four heads of a query side by side: what a softmax over few, scattered keys allows where nothing but the score
//! looks at positions.
//!
//! A block holds a number for each key of the query and each of four heads: entry `n·HEADS + l` is that of the n-th key and
//! head l. The rows of a key's heads lie side by side in memory, too, so that a key is looked up once for all of them. The order
//! of sums is that of the keys. Heads that are not there (of three, or one) are zeros that go nowhere.

use std::ops::Range;

use regard_attn::score::SumOfParts;
use regard_attn::{At, Call, Item, Rows, Streaming};
use regard_tensor::simd::{self, Kernel, fma};
use regard_tensor::{Buffer, Real, parallel};

use super::{Places, RowOf, RowScratch};
use crate::kernel::LANES;
use crate::pack::{self, Source};
use crate::plan::{Inputs, Unit};

/// Heads that are taken together.
pub(crate) const HEADS: usize = 4;

/// Elements of a row that are taken together.
pub(super) const PIECE: usize = 8;

/// Keys whose numbers one thread computes at a time.
const KEYS_AT_ONCE: usize = 1024;

/// A number for each head.
pub(super) type PerHead<T> = [T; HEADS];

/// Whether heads may be taken side by side. It is the parts of the call that decide, not what is asked for besides the
/// context, so that the bits do not depend on that.
pub(crate) fn suited<T: Real>(call: &Call<'_, T>) -> bool {
    let (dims, position) = (call.dims, call.position);
    let plain_position =
        !position.turns() && !position.biases() && !position.weighs() && !position.has_values();
    matches!(call.normaliser.streaming(), Streaming::Softmax { .. })
        && dims.n_heads == dims.n_kv_heads
        && plain_position
        && !call.score.has_own_keys()
        && call.scope.same_for_heads()
}

/// Up to four heads of an item.
pub(crate) struct Heads<'a, T: Real> {
    inputs: &'a Inputs<'a, T>,
    item: usize,
    first: usize,
    count: usize,
    /// Factor on scores.
    scale: T,
    /// Where the score is a function of a number of the query and one of the key: of each head (of those that are not there,
    /// the last one's), and the numbers of all keys, `[kv_len, HEADS]`.
    parts: Option<[SumOfParts<'a, T>; HEADS]>,
    of_keys: Buffer<T>,
}

/// What a thread needs for one query.
#[derive(Debug)]
pub(crate) struct HeadsScratch<T: Real> {
    /// Scores, then shares.
    shares: Buffer<T>,
    /// The scores of one head.
    one: Buffer<T>,
    listed: Vec<usize>,
    ahead: Vec<usize>,
    /// The query whose keys `ahead` holds.
    query_ahead: usize,
}

impl<T: Real> Default for HeadsScratch<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Real> HeadsScratch<T> {
    pub(crate) fn new() -> Self {
        let empty = || Buffer::stale(0);
        Self {
            shares: empty(),
            one: empty(),
            listed: Vec::new(),
            ahead: Vec::new(),
            query_ahead: usize::MAX,
        }
    }

    /// Forgets what was listed ahead: another item, or other queries.
    pub(crate) fn start(&mut self) {
        self.query_ahead = usize::MAX;
    }

    /// Lists the keys of a query, and calls `fetch(key)` for each one of the query behind it, so that memory brings what lies
    /// scattered while this one is worked on.
    pub(crate) fn list(&mut self, call: &Call<'_, T>, at: At, query: usize, fetch: impl Fn(usize)) {
        if self.query_ahead == query {
            std::mem::swap(&mut self.listed, &mut self.ahead);
        } else {
            self.listed.clear();
            call.scope.list(at, query, &mut self.listed);
        }
        self.ahead.clear();
        self.query_ahead = query + 1;
        if self.query_ahead < at.q_len {
            call.scope.list(at, self.query_ahead, &mut self.ahead);
            self.ahead.iter().for_each(|key| fetch(*key));
        }
    }
}

impl<'a, T: Real> Heads<'a, T> {
    /// The heads of some units of one item, `HEADS` at most.
    pub(crate) fn new(inputs: &'a Inputs<'a, T>, units: &[Unit]) -> Self {
        let (call, d_k) = (inputs.call, inputs.call.dims.d_k);
        let (first, count) = (units[0], units.len());
        let last = first.kv_head + count - 1;
        let scale = match call.normaliser.streaming() {
            Streaming::Softmax { scale } => scale,
            _ => T::ONE,
        };
        let part = |l: usize| call.score.sum_of_parts((first.kv_head + l).min(last), d_k);
        let parts = (|| Some([part(0)?, part(1)?, part(2)?, part(3)?]))();
        let mut heads = Self {
            inputs,
            item: first.item,
            first: first.kv_head,
            count,
            scale,
            parts,
            of_keys: Buffer::stale(0),
        };
        heads.take_keys();
        heads
    }

    /// Computes the numbers of all keys.
    fn take_keys(&mut self) {
        let Some(parts) = self.parts else { return };
        let (item, k, d_k) =
            (self.inputs.call.items[self.item], self.inputs.k, parts[0].by_key.len());
        let (first, count) = (self.first, self.count);
        self.of_keys = Buffer::stale(item.kv_len * HEADS);
        let work = item.kv_len * count * d_k;
        parallel::chunks(&mut self.of_keys, KEYS_AT_ONCE * HEADS, work, |n, out| {
            simd::run(OfKeys {
                k,
                start: item.kv_start + n * KEYS_AT_ONCE,
                first,
                count,
                parts: &parts,
                out,
            });
        });
    }

    /// The heads.
    pub(crate) fn range(&self) -> Range<usize> {
        self.first..self.first + self.count
    }

    /// The first head.
    pub(crate) fn at(&self) -> At {
        self.inputs.call.at(self.item, self.first)
    }

    pub(crate) fn call(&self) -> &'a Call<'a, T> {
        self.inputs.call
    }

    pub(crate) fn item(&self) -> Item {
        self.inputs.call.items[self.item]
    }

    /// Factor on scores.
    pub(crate) fn scale(&self) -> T {
        self.scale
    }

    /// What the score is made of, where it is made of a number of the query and one of the key.
    pub(crate) fn parts(&self) -> Option<&[SumOfParts<'a, T>; HEADS]> {
        self.parts.as_ref()
    }

    /// The numbers of all keys, where the score is made of such.
    #[inline(always)]
    pub(crate) fn numbers(&self) -> &[PerHead<T>] {
        self.of_keys.as_chunks().0
    }

    /// All queries, keys and values of the call.
    pub(crate) fn inputs(&self) -> (Rows<'a, T>, Rows<'a, T>, Rows<'a, T>) {
        (self.inputs.q, self.inputs.k, self.inputs.v)
    }

    /// Asks for row `row` of all heads ahead of its use; one that is not there is passed over.
    #[inline(always)]
    pub(crate) fn ask(&self, rows: &Rows<'_, T>, row: usize) {
        ask(rows, row, self.range());
    }

    /// The values of a key.
    #[inline(always)]
    pub(crate) fn value(&self, key: usize) -> PerHead<&'a [T]> {
        self.rows(self.inputs.v, self.item().kv_start + key, self.inputs.call.dims.d_v)
    }

    /// The rows of key `key` in an array, from the first head on.
    #[inline(always)]
    fn base(&self, rows: &Rows<'_, T>, key: usize) -> usize {
        (self.inputs.call.items[self.item].kv_start + key) * rows.row_stride
            + self.first * rows.head_stride
    }

    /// Asks for a key's values, and for its row where the score looks at it.
    #[inline(always)]
    pub(crate) fn prefetch(&self, key: usize) {
        let row = self.item().kv_start + key;
        self.ask(&self.inputs.v, row);
        if self.parts.is_some() {
            simd::prefetch(&self.of_keys[key * HEADS..][..HEADS]);
        } else {
            self.ask(&self.inputs.k, row);
        }
    }

    /// Row `row` of all heads; empty rows of those that are not there.
    #[inline(always)]
    fn rows(&self, rows: Rows<'a, T>, row: usize, width: usize) -> PerHead<&'a [T]> {
        let mut out: PerHead<&'a [T]> = [&[]; HEADS];
        for (l, out) in out.iter_mut().enumerate().take(self.count) {
            *out = rows.row(row, self.first + l, width);
        }
        out
    }

    /// One head of one query, its keys and values.
    fn row_of(&self, query: usize, l: usize) -> (RowOf<'a, T>, Source<'a, T>) {
        let unit = Unit { item: self.item, kv_head: self.first + l };
        let places = Places { keys: self.inputs.keys(unit), values: self.inputs.values(unit) };
        let at = self.inputs.call.at(self.item, unit.kv_head);
        let row = RowOf { call: self.inputs.call, at, query, places };
        (row, self.inputs.queries(unit, unit.kv_head))
    }

    /// Fills `shares` with the scores of a query and its listed keys, −∞ where there are no keys.
    fn scores(&self, query: usize, block: &mut HeadsScratch<T>, single: &mut RowScratch<T>) {
        let dims = self.inputs.call.dims;
        let HeadsScratch { shares, one, listed, .. } = block;
        let len = (listed.len() * HEADS).next_multiple_of(LANES);
        pack::grow(shares, len);
        let shares = &mut shares[..len];
        shares[listed.len() * HEADS..].fill(T::NEG_INFINITY);
        if let Some(parts) = &self.parts {
            let q = self.rows(self.inputs.q, self.item().q_start + query, dims.d_k);
            let (scale, of_keys) = (self.scale, &self.of_keys);
            return simd::run(ScoresOfParts {
                parts,
                q,
                of_keys,
                keys: listed,
                scale,
                scores: shares,
            });
        }
        shares[..listed.len() * HEADS].fill(T::ZERO);
        pack::grow(one, listed.len());
        for l in 0..self.count {
            let (row, queries) = self.row_of(query, l);
            row.take_query(queries, &mut single.q);
            let one = &mut one[..listed.len()];
            row.scores(listed, &single.q[..dims.d_k], &mut single.gathered, one);
            for (s, out) in one.iter().zip(shares.as_chunks_mut::<HEADS>().0) {
                out[l] = self.scale * *s;
            }
        }
    }

    /// Multiplies shares by dropout's factors.
    fn drop(&self, query: usize, keys: &[usize], block: &mut [T]) {
        let Some(dropout) = self.inputs.call.dropout else { return };
        for l in 0..self.count {
            let stream = dropout.row(self.item, self.first + l, query);
            for (block, key) in block.as_chunks_mut::<HEADS>().0.iter_mut().zip(keys) {
                block[l] *= dropout.factor(stream, *key);
            }
        }
    }

    /// The contexts of a listed query, one for each head that is there, and the log-sum-exps; weights before dropout
    /// to where they are wanted, kv_len of them, zeros.
    pub(crate) fn forward(
        &self,
        query: usize,
        block: &mut HeadsScratch<T>,
        single: &mut RowScratch<T>,
        contexts: PerHead<&mut [T]>,
        weights: PerHead<Option<&mut [T]>>,
    ) -> PerHead<T> {
        self.scores(query, block, single);
        let HeadsScratch { shares, listed, .. } = block;
        let len = (listed.len() * HEADS).next_multiple_of(LANES);
        let lse = simd::run(Shares { block: &mut shares[..len] });
        for (l, weights) in weights.into_iter().enumerate() {
            let Some(weights) = weights else { continue };
            for (share, key) in shares.as_chunks::<HEADS>().0.iter().zip(&*listed) {
                weights[*key] = share[l];
            }
        }
        self.drop(query, listed, &mut shares[..len]);
        simd::run(Contexts { heads: self, keys: listed, weights: &shares[..len], out: contexts });
        lse
    }
}

/// Asks for a row of some heads.
#[inline(always)]
fn ask<T: Real>(rows: &Rows<'_, T>, row: usize, heads: Range<usize>) {
    let first = row * rows.row_stride + heads.start * rows.head_stride;
    let len = heads.len() * rows.head_stride;
    if len <= rows.row_stride {
        // Heads side by side are one stretch.
        if let Some(row) = rows.data.get(first..first + len) {
            simd::prefetch(row);
        }
    } else {
        for l in 0..heads.len() {
            if let Some(start) = rows.data.get(first + l * rows.head_stride..) {
                simd::prefetch(&start[..1.min(start.len())]);
            }
        }
    }
}

/// Joins the lanes of each head.
#[inline(always)]
pub(super) fn by_head<T: Real>(mut lanes: [T; LANES], join: impl Fn(T, T) -> T) -> PerHead<T> {
    let mut half = LANES / 2;
    while half >= HEADS {
        for l in 0..half {
            lanes[l] = join(lanes[l], lanes[l + half]);
        }
        half /= 2;
    }
    [lanes[0], lanes[1], lanes[2], lanes[3]]
}

/// A number for each head in the lanes of a block.
#[inline(always)]
fn lanes<T: Real>(x: PerHead<T>) -> [T; LANES] {
    let mut out = [T::ZERO; LANES];
    for lanes in out.as_chunks_mut::<HEADS>().0 {
        *lanes = x;
    }
    out
}

#[inline(always)]
fn sum_of_piece<T: Real>(x: [T; PIECE]) -> T {
    let x = [x[0] + x[4], x[1] + x[5], x[2] + x[6], x[3] + x[7]];
    (x[0] + x[2]) + (x[1] + x[3])
}

/// 0, or NaN where a number of the row is not finite.
#[inline(always)]
pub(super) fn times_zero<T: Real>(row: &[T]) -> T {
    let (pieces, few) = row.as_chunks::<PIECE>();
    let mut sums = [T::ZERO; PIECE];
    for x in pieces {
        for c in 0..PIECE {
            sums[c] += x[c] * T::ZERO;
        }
    }
    few.iter().fold(sum_of_piece(sums), |sum, x| sum + *x * T::ZERO)
}

/// Σ_c x_c y_c, by pieces.
#[inline(always)]
pub(super) fn dot<T: Real, const FMA: bool>(x: &[T], y: &[T]) -> T {
    let ((x, few_x), (y, few_y)) = (x.as_chunks::<PIECE>(), y.as_chunks::<PIECE>());
    let mut sums = [T::ZERO; PIECE];
    for (x, y) in x.iter().zip(y) {
        for c in 0..PIECE {
            sums[c] = fma::<T, FMA>(x[c], y[c], sums[c]);
        }
    }
    let mut sum = sum_of_piece(sums);
    for (x, y) in few_x.iter().zip(few_y) {
        sum = fma::<T, FMA>(*x, *y, sum);
    }
    sum
}

/// `out_c += a·x_c`
#[inline(always)]
pub(super) fn add_scaled<T: Real, const FMA: bool>(out: &mut [T], a: T, x: &[T]) {
    let ((out, few_out), (x, few_x)) = (out.as_chunks_mut::<PIECE>(), x.as_chunks::<PIECE>());
    for (out, x) in out.iter_mut().zip(x) {
        for c in 0..PIECE {
            out[c] = fma::<T, FMA>(a, x[c], out[c]);
        }
    }
    for (out, x) in few_out.iter_mut().zip(few_x) {
        *out = fma::<T, FMA>(a, *x, *out);
    }
}

/// The numbers of keys.
struct OfKeys<'a, T> {
    k: Rows<'a, T>,
    /// The first of the keys.
    start: usize,
    first: usize,
    count: usize,
    parts: &'a [SumOfParts<'a, T>; HEADS],
    out: &'a mut [T],
}

impl<T: Real> Kernel for OfKeys<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { k, start, first, count, parts, out } = self;
        for (j, out) in out.as_chunks_mut::<HEADS>().0.iter_mut().enumerate() {
            *out = [T::ZERO; HEADS];
            ask(&k, start + j + pack::AHEAD, first..first + count);
            for l in 0..count {
                let by = parts[l].by_key;
                out[l] = dot::<T, FMA>(by, k.row(start + j, first + l, by.len()));
            }
        }
    }
}

/// Scores that are functions of sums of two numbers, times `scale`.
struct ScoresOfParts<'a, T> {
    parts: &'a [SumOfParts<'a, T>; HEADS],
    q: PerHead<&'a [T]>,
    of_keys: &'a [T],
    keys: &'a [usize],
    scale: T,
    scores: &'a mut [T],
}

impl<T: Real> Kernel for ScoresOfParts<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { parts, q, of_keys, keys, scale, scores } = self;
        let mut of_query = [T::ZERO; HEADS];
        for l in 0..HEADS {
            of_query[l] = dot::<T, FMA>(parts[l].by_query, q[l]);
        }
        let slope = [parts[0].slope, parts[1].slope, parts[2].slope, parts[3].slope];
        let of_keys = of_keys.as_chunks::<HEADS>().0;
        for (scores, key) in scores.as_chunks_mut::<HEADS>().0.iter_mut().zip(keys) {
            let of_key = &of_keys[*key];
            for l in 0..HEADS {
                let sum = of_query[l] + of_key[l];
                scores[l] = scale * if sum > T::ZERO { sum } else { slope[l] * sum };
            }
        }
    }
}

/// Turns a block of scores into shares; returns the log-sum-exps.
struct Shares<'a, T> {
    block: &'a mut [T],
}

impl<T: Real> Kernel for Shares<'_, T> {
    type Output = PerHead<T>;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> PerHead<T> {
        let vectors = self.block.as_chunks_mut::<LANES>().0;
        let mut tops = [T::NEG_INFINITY; LANES];
        for s in &*vectors {
            for l in 0..LANES {
                tops[l] = if s[l] > tops[l] { s[l] } else { tops[l] };
            }
        }
        let top = by_head(tops, |a, b| if b > a { b } else { a });
        let mut shift = top;
        for shift in &mut shift {
            *shift = if *shift == T::NEG_INFINITY { T::ZERO } else { *shift };
        }
        let shift = lanes(shift);
        let mut totals = [T::ZERO; LANES];
        for s in &mut *vectors {
            for l in 0..LANES {
                let e = (s[l] - shift[l]).exp_nonpositive::<FMA>();
                s[l] = if s[l] == T::NEG_INFINITY { T::ZERO } else { e };
                totals[l] += s[l];
            }
        }
        let totals = by_head(totals, |a, b| a + b);
        let (mut lse, mut scale) = ([T::NEG_INFINITY; HEADS], [T::ZERO; HEADS]);
        for l in 0..HEADS {
            if totals[l] != T::ZERO {
                lse[l] = top[l] + totals[l].ln();
                scale[l] = T::ONE / totals[l];
            }
        }
        let scale = lanes(scale);
        for s in vectors {
            for l in 0..LANES {
                s[l] = if s[l] == T::ZERO { T::ZERO } else { s[l] * scale[l] };
            }
        }
        lse
    }
}

/// Pieces of rows that are added up together, in registers.
pub(super) const TOGETHER: usize = 4;

/// The pieces of the rows of `count` heads, head by head.
pub(super) struct Pieces {
    /// Elements of a row.
    pub(super) d: usize,
    pub(super) count: usize,
}

impl Pieces {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.count * (self.d / PIECE)
    }

    /// Of piece n and those behind it the head and the place in its row; behind the last piece, that one again.
    #[inline(always)]
    pub(super) fn from(&self, n: usize) -> ([usize; TOGETHER], [usize; TOGETHER]) {
        let (mut of, mut at) = ([0; TOGETHER], [0; TOGETHER]);
        for p in 0..TOGETHER {
            let piece = (n + p).min(self.len() - 1);
            (of[p], at[p]) = (piece / (self.d / PIECE), piece % (self.d / PIECE) * PIECE);
        }
        (of, at)
    }
}

/// Contexts: the sums of the keys' values, weighed.
struct Contexts<'a, T: Real> {
    heads: &'a Heads<'a, T>,
    keys: &'a [usize],
    weights: &'a [T],
    out: PerHead<&'a mut [T]>,
}

impl<T: Real> Kernel for Contexts<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { heads, keys, weights, mut out } = self;
        let (v, d_v, count) = (&heads.inputs.v, heads.inputs.call.dims.d_v, heads.count);
        let weights = &weights.as_chunks::<HEADS>().0[..keys.len()];
        let pieces = Pieces { d: d_v, count };
        let mut n = 0;
        while n < pieces.len() {
            let (of, at) = pieces.from(n);
            let mut sums = [[T::ZERO; PIECE]; TOGETHER];
            for (weights, key) in weights.iter().zip(keys) {
                let row = &v.data[heads.base(v, *key)..];
                for p in 0..TOGETHER {
                    let weight = weights[of[p] % HEADS];
                    let x = &row[of[p] * v.head_stride + at[p]..][..PIECE];
                    for c in 0..PIECE {
                        sums[p][c] = fma::<T, FMA>(weight, x[c], sums[p][c]);
                    }
                }
            }
            for p in 0..TOGETHER.min(pieces.len() - n) {
                out[of[p]][at[p]..][..PIECE].copy_from_slice(&sums[p]);
            }
            n += TOGETHER;
        }
        for (l, context) in out.iter_mut().enumerate().take(count) {
            let rest = &mut context[d_v / PIECE * PIECE..];
            rest.fill(T::ZERO);
            if !rest.is_empty() {
                for (weights, key) in weights.iter().zip(keys) {
                    let at = heads.base(v, *key) + l * v.head_stride + d_v / PIECE * PIECE;
                    add_scaled::<T, FMA>(rest, weights[l], &v.data[at..][..rest.len()]);
                }
            }
            if times_zero(context) != T::ZERO {
                // 0 times a NaN or an infinity is NaN, but what has no weight does not count.
                context.fill(T::ZERO);
                for (weights, key) in weights.iter().zip(keys).filter(|(w, _)| w[l] != T::ZERO) {
                    let at = heads.base(v, *key) + l * v.head_stride;
                    add_scaled::<T, FMA>(context, weights[l], &v.data[at..][..d_v]);
                }
            }
        }
    }
}
