//! Gradients of four heads side by side, key by key, where the score is made of a number of the query and one of the key.
//!
//! A key needs of each query that sees it the upstream gradient, which gives both the gradient of the key's value and that of the
//! weight, and four numbers a head: the query's number in the score, its log-sum-exp, the mean gradient of its weights
//! (Σ_l p_il ∂L/∂p_il = c_i·∂L/∂c_i), and the sum that is its number's gradient. So what lies scattered is read, and only that sum is
//! written. The order of sums is that of the queries.

use std::ops::Range;

use regard_attn::score::SumOfParts;
use regard_attn::{At, Call, Rows, Upstream};
use regard_tensor::simd::{self, Kernel, fma};
use regard_tensor::{Buffer, Real, parallel};

use super::abreast::{
    self, HEADS, Heads, PIECE, PerHead, Pieces, TOGETHER, add_scaled, by_head, dot,
};
use crate::gradients::Targets;
use crate::kernel::LANES;
use crate::pack;
use crate::score::ParamGradients;

/// Queries whose rows are asked for ahead of their use.
const AHEAD: usize = 12;

/// Rows that are asked for ahead where they follow each other: four heads of eight or more are not all of a row, and a processor does
/// not guess where the next ones lie.
const ROWS_AHEAD: usize = pack::AHEAD;

/// The queries that see each key, ascending.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Parts of the keys, one after the other.
    parts: Vec<SeenPart>,
}

#[derive(Debug)]
struct SeenPart {
    keys: Range<usize>,
    /// Where the queries of each key begin, and their end.
    offsets: Vec<u32>,
    queries: Buffer<u32>,
}

impl Seen {
    /// Turns the lists of keys around; `None` if there are more pairs or queries than it can count.
    pub(crate) fn new<T: Real>(call: &Call<'_, T>, at: At) -> Option<Self> {
        u32::try_from(at.q_len).ok()?;
        let parts = rayon::current_num_threads().clamp(1, 8);
        let of_part = |n: usize| {
            let keys = at.kv_len * n / parts..at.kv_len * (n + 1) / parts;
            SeenPart::new(call, at, keys)
        };
        let work = (at.q_len + at.kv_len) * 16;
        let parts = parallel::map(parts, work, of_part).into_iter().collect::<Option<Vec<_>>>()?;
        Some(Self { parts })
    }
}

impl SeenPart {
    fn new<T: Real>(call: &Call<'_, T>, at: At, keys: Range<usize>) -> Option<Self> {
        let mut listed = Vec::new();
        let mut each = |f: &mut dyn FnMut(usize, usize)| {
            for query in 0..at.q_len {
                listed.clear();
                call.scope.list(at, query, &mut listed);
                for key in &listed {
                    if keys.contains(key) {
                        f(query, *key - keys.start);
                    }
                }
            }
        };
        let mut counts = vec![0usize; keys.len() + 1];
        each(&mut |_, key| counts[key + 1] += 1);
        for j in 0..keys.len() {
            counts[j + 1] += counts[j];
        }
        let n_pairs = u32::try_from(counts[keys.len()]).ok()?;
        let offsets: Vec<u32> = counts.iter().map(|n| *n as u32).collect();
        let mut next = offsets.clone();
        let mut queries = Buffer::stale(n_pairs as usize);
        each(&mut |query, key| {
            queries[next[key] as usize] = query as u32;
            next[key] += 1;
        });
        Some(Self { keys, offsets, queries })
    }
}

/// Whether gradients may be taken key by key: where heads stand side by side, the score is made of parts, and the loss looks at
/// nothing but the context (else the mean gradient of a query's weights is another).
pub(crate) fn suited<T: Real>(call: &Call<'_, T>, upstream: &Upstream<'_, T>) -> bool {
    let (dims, score) = (call.dims, call.score);
    abreast::suited(call)
        && (0..dims.n_heads).all(|head| score.sum_of_parts(head, dims.d_k).is_some())
        && upstream.weights.is_none()
        && upstream.key_sums.is_none()
        && upstream.entropy.is_none()
        && upstream.log_prob.is_none()
}

/// What keys look at of one query: four numbers for each head, one after the other.
type OfQuery<T> = [PerHead<T>; 4];

/// The query's number in the score.
const NUMBER: usize = 0;
/// Its log-sum-exp; 0 in place of −∞.
const LSE: usize = 1;
/// Σ_l p_il ∂L/∂p_il
const MEAN: usize = 2;
/// The gradient of its number.
const SUM: usize = 3;

/// What a thread needs for the keys of four heads.
#[derive(Debug)]
pub(crate) struct KeyScratch<T: Real> {
    of_queries: Buffer<T>,
    shares: Buffer<T>,
    kept: Buffer<T>,
    d: Buffer<T>,
    /// Gradients by the values of a key, those of all heads.
    dv: Buffer<T>,
    /// The gradient of a key or a query of one head.
    row: Buffer<T>,
}

impl<T: Real> KeyScratch<T> {
    pub(crate) fn new() -> Self {
        let empty = || Buffer::stale(0);
        Self {
            of_queries: empty(),
            shares: empty(),
            kept: empty(),
            d: empty(),
            dv: empty(),
            row: empty(),
        }
    }
}

/// The gradients of up to four heads of an item.
pub(crate) struct ByKey<'a, T: Real> {
    pub(crate) heads: &'a Heads<'a, T>,
    pub(crate) parts: &'a [SumOfParts<'a, T>; HEADS],
    pub(crate) context: Rows<'a, T>,
    pub(crate) d_context: Rows<'a, T>,
    pub(crate) targets: &'a Targets<'a, T>,
}

impl<T: Real> ByKey<'_, T> {
    /// All gradients; `lse` are the log-sum-exps of the item's queries, those of head n `stride·n` behind those of the first.
    pub(crate) fn run(
        &self,
        seen: &Seen,
        lse: &[T],
        stride: usize,
        scratch: &mut KeyScratch<T>,
        dparams: &mut ParamGradients<T>,
    ) {
        let dims = self.heads.call().dims;
        let KeyScratch { of_queries, shares, kept, d, dv, row } = scratch;
        pack::grow(row, dims.d_k);
        pack::grow(dv, HEADS * dims.d_v);
        let (row, dparams) = (&mut row[..dims.d_k], &mut dparams.score);
        let q_len = self.heads.item().q_len;
        pack::grow(of_queries, q_len * HEADS * 4);
        let of_queries = of_queries.as_chunks_mut::<HEADS>().0.as_chunks_mut::<4>().0;
        let of_queries = &mut of_queries[..q_len];
        simd::run(Queries { of: self, lse, stride, out: of_queries });
        for part in &seen.parts {
            let most = part.offsets.windows(2).map(|w| (w[1] - w[0]) as usize).max().unwrap_or(0);
            let len = (most * HEADS).next_multiple_of(LANES);
            for buffer in [&mut *shares, &mut *kept, &mut *d] {
                pack::grow(buffer, len);
            }
            let (shares, kept, d) = (&mut shares[..len], &mut kept[..len], &mut d[..len]);
            simd::run(Keys { of: self, part, of_queries, shares, kept, d, dv, row, dparams });
        }
        simd::run(Back { of: self, of_queries, row, dparams });
    }
}

/// What keys will look at of all queries.
struct Queries<'a, T: Real> {
    of: &'a ByKey<'a, T>,
    lse: &'a [T],
    stride: usize,
    out: &'a mut [OfQuery<T>],
}

impl<T: Real> Kernel for Queries<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { of, lse, stride, out } = self;
        let (heads, dims, item) = (of.heads, of.heads.call().dims, of.heads.item());
        let (none, (q_rows, ..)) = ([T::ZERO; HEADS], heads.inputs());
        for (query, out) in out.iter_mut().enumerate() {
            let mut new = [none; 4];
            for rows in [&q_rows, &of.context, &of.d_context] {
                heads.ask(rows, item.q_start + query + ROWS_AHEAD);
            }
            for (l, head) in heads.range().enumerate() {
                let row = item.q_start + query;
                let q = q_rows.row(row, head, dims.d_k);
                new[NUMBER][l] = dot::<T, FMA>(of.parts[l].by_query, q);
                let lse = lse[l * stride + query];
                new[LSE][l] = if lse == T::NEG_INFINITY { T::ZERO } else { lse };
                let (c, dc) =
                    (of.context.row(row, head, dims.d_v), of.d_context.row(row, head, dims.d_v));
                new[MEAN][l] = dot::<T, FMA>(c, dc);
            }
            *out = new;
        }
    }
}

/// The gradients of some keys and values, and the sums of the queries that see them.
struct Keys<'a, T: Real> {
    of: &'a ByKey<'a, T>,
    part: &'a SeenPart,
    of_queries: &'a mut [OfQuery<T>],
    shares: &'a mut [T],
    kept: &'a mut [T],
    d: &'a mut [T],
    dv: &'a mut [T],
    row: &'a mut [T],
    dparams: &'a mut [T],
}

impl<T: Real> Kernel for Keys<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { of, part, of_queries, shares, kept, d, dv, row, dparams } = self;
        let (heads, dims, item) = (of.heads, of.heads.call().dims, of.heads.item());
        let (scale, count) = (heads.scale(), heads.range().len());
        let slope = [of.parts[0].slope, of.parts[1].slope, of.parts[2].slope, of.parts[3].slope];
        let (of_keys, (_, k_rows, v_rows)) = (heads.numbers(), heads.inputs());
        for (j, ends) in part.offsets.windows(2).enumerate() {
            let key = part.keys.start + j;
            for rows in [&k_rows, &v_rows] {
                heads.ask(rows, item.kv_start + key + ROWS_AHEAD);
            }
            let of_key = &of_keys[key];
            let (start, end) = (ends[0] as usize, ends[1] as usize);
            let queries = &part.queries[start..end];
            let len = (queries.len() * HEADS).next_multiple_of(LANES);
            let (shares, d) = (&mut shares[..len], &mut d[..len]);
            // exp(s − lse), a vector at a time; what lies behind the last query comes to 0.
            for (n, s) in shares.as_chunks_mut::<HEADS>().0.iter_mut().enumerate() {
                let Some(query) = queries.get(n) else {
                    *s = [T::NEG_INFINITY; HEADS];
                    continue;
                };
                if let Some(ahead) = part.queries.get(start + n + AHEAD) {
                    of.prefetch(*ahead as usize, of_queries);
                }
                let of_query = &of_queries[*query as usize];
                for l in 0..HEADS {
                    let sum = of_query[NUMBER][l] + of_key[l];
                    let s_ij = scale * if sum > T::ZERO { sum } else { slope[l] * sum };
                    let below = s_ij - of_query[LSE][l];
                    // A score computed a last bit above its log-sum-exp is no larger than it.
                    s[l] = if below > T::ZERO { T::ZERO } else { below };
                }
            }
            for s in shares.as_chunks_mut::<LANES>().0 {
                for l in 0..LANES {
                    s[l] = s[l].exp_nonpositive::<FMA>();
                }
            }
            let kept = match &heads.call().dropout {
                None => &*shares,
                Some(dropout) => {
                    let kept = &mut kept[..len];
                    kept.copy_from_slice(shares);
                    for (kept, query) in kept.as_chunks_mut::<HEADS>().0.iter_mut().zip(queries) {
                        for (l, head) in heads.range().enumerate() {
                            let stream = dropout.row(heads.at().item, head, *query as usize);
                            kept[l] *= dropout.factor(stream, key);
                        }
                    }
                    &*kept
                }
            };
            of.by_values::<FMA>(key, queries, kept, d, dv);
            let factor =
                heads.call().dropout.map(|dropout| T::from_f64(1.0 / (1.0 - dropout.rate)));
            let mut sums = [T::ZERO; HEADS];
            let (shares, kept) = (shares.as_chunks::<HEADS>().0, kept.as_chunks::<HEADS>().0);
            for (n, query) in queries.iter().enumerate() {
                let of_query = &mut of_queries[*query as usize];
                let (d, share) = (&mut d.as_chunks_mut::<HEADS>().0[n], &shares[n]);
                if let Some(factor) = factor {
                    for l in 0..HEADS {
                        // A weight that was dropped has no gradient, whatever the value holds.
                        d[l] = if kept[n][l] == T::ZERO { T::ZERO } else { d[l] * factor };
                    }
                }
                for l in 0..HEADS {
                    let ds = share[l] * (d[l] - of_query[MEAN][l]) * scale;
                    let ds = if share[l] == T::ZERO { T::ZERO } else { ds };
                    let sum = of_query[NUMBER][l] + of_key[l];
                    let dx = if sum > T::ZERO { ds } else { ds * slope[l] };
                    of_query[SUM][l] += dx;
                    sums[l] += dx;
                }
            }
            let at = item.kv_start + key;
            for l in 0..count {
                let (k, head) =
                    (k_rows.row(at, heads.range().start + l, dims.d_k), heads.range().start + l);
                let dby = &mut dparams[of.parts[l].key_params..][..dims.d_k];
                of_number::<T, FMA>(sums[l], of.parts[l].by_key, k, row, dby);
                // SAFETY: tasks have different (item, key head), and different items different rows.
                unsafe { of.targets.take_key(at, head, row, &dv[l * dims.d_v..][..dims.d_v]) };
            }
        }
    }
}

impl<T: Real> ByKey<'_, T> {
    /// Asks for what a key looks at of a query.
    #[inline(always)]
    fn prefetch(&self, query: usize, of_queries: &[OfQuery<T>]) {
        self.heads.ask(&self.d_context, self.heads.item().q_start + query);
        simd::prefetch(std::slice::from_ref(&of_queries[query]));
    }

    /// `d = ∂L/∂c·v` for each query that sees the key, and `dv = Σ kept·∂L/∂c`, passing over what has no weight.
    #[inline(always)]
    fn by_values<const FMA: bool>(
        &self,
        key: usize,
        queries: &[u32],
        kept: &[T],
        d: &mut [T],
        dv: &mut [T],
    ) {
        let (heads, dc) = (self.heads, &self.d_context);
        let (d_v, range, item) = (heads.call().dims.d_v, heads.range(), heads.item());
        let v = heads.value(key);
        let base = |query: u32| {
            (item.q_start + query as usize) * dc.row_stride + range.start * dc.head_stride
        };
        let kept = &kept.as_chunks::<HEADS>().0[..queries.len()];
        let d = &mut d.as_chunks_mut::<HEADS>().0[..queries.len()];
        d.fill([T::ZERO; HEADS]);
        let pieces = Pieces { d: d_v, count: range.len() };
        let mut n = 0;
        while n < pieces.len() {
            let (of, at) = pieces.from(n);
            let mut values = [[T::ZERO; PIECE]; TOGETHER];
            for p in 0..TOGETHER.min(pieces.len() - n) {
                values[p].copy_from_slice(&v[of[p]][at[p]..at[p] + PIECE]);
            }
            let mut sums = [[T::ZERO; PIECE]; TOGETHER];
            for ((d, kept), query) in d.iter_mut().zip(kept).zip(queries) {
                let row = &dc.data[base(*query)..];
                let mut products = [[T::ZERO; PIECE]; TOGETHER];
                for p in 0..TOGETHER {
                    let x = &row[of[p] * dc.head_stride + at[p]..][..PIECE];
                    for c in 0..PIECE {
                        products[p][c] = values[p][c] * x[c];
                        sums[p][c] = fma::<T, FMA>(kept[of[p] % HEADS], x[c], sums[p][c]);
                    }
                }
                let products = sums_of_pieces(products);
                for p in 0..TOGETHER {
                    d[of[p] % HEADS] += products[p];
                }
            }
            for p in 0..TOGETHER.min(pieces.len() - n) {
                dv[of[p] * d_v + at[p]..][..PIECE].copy_from_slice(&sums[p]);
            }
            n += TOGETHER;
        }
        let whole = d_v / PIECE * PIECE;
        for l in 0..range.len() {
            let out = &mut dv[l * d_v..][..d_v];
            out[whole..].fill(T::ZERO);
            if whole < d_v {
                for ((d, kept), query) in d.iter_mut().zip(kept).zip(queries) {
                    let x = &dc.data[base(*query) + l * dc.head_stride + whole..][..d_v - whole];
                    d[l] += dot::<T, FMA>(&v[l][whole..], x);
                    add_scaled::<T, FMA>(&mut out[whole..], kept[l], x);
                }
            }
            if abreast::times_zero(out) != T::ZERO {
                // 0 times a NaN or an infinity is NaN, but what has no weight does not count.
                out.fill(T::ZERO);
                for (kept, query) in kept.iter().zip(queries).filter(|(kept, _)| kept[l] != T::ZERO)
                {
                    let x = &dc.data[base(*query) + l * dc.head_stride..][..d_v];
                    add_scaled::<T, FMA>(out, kept[l], x);
                }
            }
        }
    }
}

/// The sums of four pieces.
#[inline(always)]
fn sums_of_pieces<T: Real>(x: [[T; PIECE]; TOGETHER]) -> [T; TOGETHER] {
    let mut lanes = [T::ZERO; LANES];
    for half in 0..PIECE / 4 {
        for c in 0..4 {
            for p in 0..TOGETHER {
                lanes[c * TOGETHER + p] += x[p][half * 4 + c];
            }
        }
    }
    by_head(lanes, |a, b| a + b)
}

/// The gradients of queries, given those of their numbers.
struct Back<'a, T: Real> {
    of: &'a ByKey<'a, T>,
    of_queries: &'a [OfQuery<T>],
    row: &'a mut [T],
    dparams: &'a mut [T],
}

impl<T: Real> Kernel for Back<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { of, of_queries, row, dparams } = self;
        let (heads, d_k, item) = (of.heads, of.heads.call().dims.d_k, of.heads.item());
        let (q_rows, ..) = heads.inputs();
        for (query, of_query) in of_queries.iter().enumerate() {
            heads.ask(&q_rows, item.q_start + query + ROWS_AHEAD);
            for (l, head) in heads.range().enumerate() {
                let (part, at) = (&of.parts[l], item.q_start + query);
                let q = q_rows.row(at, head, d_k);
                let dby = &mut dparams[part.query_params..][..d_k];
                of_number::<T, FMA>(of_query[SUM][l], part.by_query, q, row, dby);
                // SAFETY: tasks have different (item, query head), and different items different rows.
                unsafe { of.targets.take_query(at, head, row) };
            }
        }
    }
}

/// `drow = sum·by`, and `dby += sum·row`: the gradients of a number that is `by·row`. A row that got nothing may hold
/// anything, NaN too.
#[inline(always)]
fn of_number<T: Real, const FMA: bool>(sum: T, by: &[T], row: &[T], drow: &mut [T], dby: &mut [T]) {
    if sum == T::ZERO {
        return drow.fill(T::ZERO);
    }
    for (drow, by) in drow.iter_mut().zip(by) {
        *drow = sum * *by;
    }
    add_scaled::<T, FMA>(dby, sum, row);
}
