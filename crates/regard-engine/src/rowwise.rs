//! Query by query, with whole rows: where keys are few and scattered (a sparse graph).
//!
//! Nothing is packed: keys and values are read where they lie. The order of sums is that of the keys.

use std::ops::Range;

use regard_attn::call::row_stream;
use regard_attn::normaliser::gumbel;
use regard_attn::score::{Block, BlockMut};
use regard_attn::{At, Call, Lowering, RowAt, Streaming, TileAt};
use regard_tensor::simd::{self, Kernel, fma};
use regard_tensor::{Buffer, Key, Real};

use crate::kernel::softmax::{self, Running};
use crate::kernel::{LANES, padded};
use crate::pack::{self, Source, padded_width};
use crate::plan::{Inputs, Unit};
use crate::score::{FinitePart, ParamGradients, fill_forbidden, scale_tile};

/// Whether a unit's queries are taken one by one: where the scope lists keys. (Not where queries are few:
/// in a padded batch they would be more, and the bits must not depend on that.)
pub(crate) fn suits<T: Real>(inputs: &Inputs<'_, T>, unit: Unit) -> bool {
    let heads = inputs.heads(unit);
    let at = inputs.call.at(unit.item, heads.start);
    inputs.call.scope.lists(at)
}

/// The keys and values of a unit, where they lie.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a, T> {
    pub(crate) keys: Source<'a, T>,
    pub(crate) values: Source<'a, T>,
}

/// Turned keys or the score's own, where the caller's do not do.
pub(crate) fn other_keys<T: Real>(inputs: &Inputs<'_, T>, unit: Unit, out: &mut Buffer<T>) -> bool {
    let (call, len, d_k) = (inputs.call, inputs.item(unit).kv_len, inputs.call.dims.d_k);
    let own = call.score.has_own_keys();
    if !own && !call.position.turns() {
        return false;
    }
    pack::grow(out, len * d_k);
    if own {
        for (j, out) in out.chunks_exact_mut(d_k).take(len).enumerate() {
            out.copy_from_slice(call.score.own_key(unit.kv_head, j));
        }
    } else {
        pack::copy(inputs.keys(unit), 0..len, out, d_k);
    }
    pack::turn(call.position, 0, &mut out[..len * d_k], d_k, d_k);
    true
}

/// What a thread needs for one row.
#[derive(Debug)]
pub(crate) struct RowScratch<T: Real> {
    /// The query, turned.
    q: Buffer<T>,
    /// Which keys, where they are scattered.
    listed: Vec<usize>,
    /// Those keys, and the gradients of them.
    gathered: Buffer<T>,
    dgathered: Buffer<T>,
    /// Scores, then shares, then weights after dropout.
    row: Buffer<T>,
    scores: Buffer<T>,
    d: Buffer<T>,
    dq: Buffer<T>,
}

impl<T: Real> RowScratch<T> {
    pub(crate) fn new() -> Self {
        let empty = || Buffer::stale(0);
        Self {
            q: empty(),
            listed: Vec::new(),
            gathered: empty(),
            dgathered: empty(),
            row: empty(),
            scores: empty(),
            d: empty(),
            dq: empty(),
        }
    }
}

/// The keys of one query: a stretch, of which some may be forbidden, or a list.
#[derive(Clone)]
enum Seen<'l> {
    Stretch(Range<usize>),
    List(&'l [usize]),
}

impl Seen<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Stretch(keys) => keys.len(),
            Self::List(keys) => keys.len(),
        }
    }

    fn key(&self, n: usize) -> usize {
        match self {
            Self::Stretch(keys) => keys.start + n,
            Self::List(keys) => keys[n],
        }
    }
}

/// One query of one head, its keys and values.
pub(crate) struct RowOf<'a, T: Real> {
    pub(crate) call: &'a Call<'a, T>,
    pub(crate) at: At,
    pub(crate) query: usize,
    pub(crate) places: Places<'a, T>,
}

impl<T: Real> RowOf<'_, T> {
    fn row_at(&self) -> RowAt {
        RowAt { item: self.at.item, head: self.at.head, query: self.query }
    }

    fn tile(&self, keys: &Range<usize>) -> TileAt {
        TileAt { at: self.at, queries: self.query..self.query + 1, keys: keys.clone() }
    }

    /// The keys of this query; lists them in `listed` where they are scattered.
    fn seen<'l>(&self, listed: &'l mut Vec<usize>) -> Seen<'l> {
        if self.call.scope.lists(self.at) {
            listed.clear();
            self.call.scope.list(self.at, self.query, listed);
            return Seen::List(listed);
        }
        let keys = self.call.scope.keys(self.at, self.query..self.query + 1);
        let end = keys.end.min(self.at.kv_len);
        Seen::Stretch(keys.start.min(end)..end)
    }

    /// Takes the query, turned.
    fn take_query(&self, source: Source<'_, T>, q: &mut Buffer<T>) {
        let d_k = self.call.dims.d_k;
        pack::grow(q, d_k);
        q[..d_k].copy_from_slice(source.row(self.query));
        pack::turn(self.call.position, self.at.q_offset + self.query, &mut q[..d_k], d_k, d_k);
    }

    /// Scores with position's bias, −∞ where forbidden and in the entries that fill the lanes.
    fn scores(&self, seen: &Seen<'_>, q: &[T], gathered: &mut Buffer<T>, out: &mut [T]) {
        let (call, n, d_k) = (self.call, seen.len(), self.call.dims.d_k);
        let one = Block { data: q, rows: 1, width: d_k, stride: d_k };
        match (call.score.lowering(), seen) {
            _ if n == 0 => {}
            (Lowering::Product { scale }, Seen::Stretch(keys)) => {
                simd::run(Dots { q, k: self.places.keys.block(keys), scale, out: &mut out[..n] });
            }
            (Lowering::Product { scale }, Seen::List(keys)) => {
                for (out, key) in out.iter_mut().zip(*keys) {
                    *out =
                        scale * regard_tensor::kernels::reduce::dot(q, self.places.keys.row(*key));
                }
            }
            (Lowering::Tile, Seen::Stretch(keys)) => {
                call.score.tile(self.at.head, one, self.places.keys.block(keys), out, n);
            }
            (Lowering::Tile, Seen::List(keys)) => {
                let k = gather(self.places.keys, keys, d_k, gathered);
                call.score.tile(self.at.head, one, k, out, n);
            }
        }
        if call.position.biases() {
            match seen {
                Seen::Stretch(keys) => call.position.bias_tile(&self.tile(keys), one, out, n),
                Seen::List(keys) => {
                    for (out, key) in out.iter_mut().zip(*keys) {
                        *out += call.position.bias(self.at, self.query, *key, q);
                    }
                }
            }
        }
        if let Seen::Stretch(keys) = seen
            && n > 0
        {
            fill_forbidden(call.scope, &self.tile(keys), T::NEG_INFINITY, out, n);
        }
        out[n..].fill(T::NEG_INFINITY);
    }

    /// Turns the scores in `row` (whole lanes) into shares; returns the log-sum-exp.
    fn normalise(&self, row: &mut [T], seen: &Seen<'_>) -> T {
        let (n, normaliser) = (seen.len(), self.call.normaliser);
        match normaliser.streaming() {
            Streaming::Softmax { scale } => {
                scale_row(row, scale);
                let mut running = [Running::START];
                softmax::add_tile(row, row.len(), row.len(), &mut running, &mut [], 0);
                scale_row(row, running[0].scale());
                running[0].lse()
            }
            Streaming::Pick { noise } => {
                let chosen = self.choose(&row[..n], seen, noise);
                let mut running = [Running::START];
                softmax::add_tile(row, row.len(), row.len(), &mut running, &mut [], 0);
                let lse = running[0].lse();
                #[allow(clippy::eq_op, reason = "the test for NaN of a generic number")]
                if lse != lse {
                    // As a normaliser does: all but what is forbidden is NaN.
                    row[..n].iter_mut().for_each(|a| *a = if *a == T::ZERO { *a } else { lse });
                    row[n..].fill(T::ZERO);
                    return lse;
                }
                row.fill(T::ZERO);
                if let Some(chosen) = chosen {
                    row[chosen] = T::ONE;
                }
                lse
            }
            Streaming::Each | Streaming::Rows => {
                let lse = normaliser.row_at(self.row_at(), &mut row[..n]);
                row[n..].fill(T::ZERO);
                lse
            }
        }
    }

    /// Which entry of a row of scores is chosen.
    fn choose(&self, scores: &[T], seen: &Seen<'_>, noise: Option<Key>) -> Option<usize> {
        let stream = noise.map(|key| row_stream(key, self.row_at()));
        let mut best: Option<(usize, T)> = None;
        for (n, s) in scores.iter().enumerate().filter(|(_, s)| **s != T::NEG_INFINITY) {
            let noisy = stream.map_or(*s, |row| *s + T::from_f64(gumbel(row, seen.key(n))));
            if best.is_none_or(|(_, top)| noisy > top) {
                best = Some((n, noisy));
            }
        }
        best.map(|(n, _)| n)
    }

    /// `f(n, key)` for every entry that has a weight.
    fn weighed(row: &[T], seen: &Seen<'_>, mut f: impl FnMut(usize, usize, T)) {
        for (n, a) in row[..seen.len()].iter().enumerate() {
            if *a != T::ZERO {
                f(n, seen.key(n), *a);
            }
        }
    }

    /// Multiplies shares by position's factors.
    fn weigh(&self, row: &mut [T], seen: &Seen<'_>) {
        if self.call.position.weighs() {
            for (n, a) in row[..seen.len()].iter_mut().enumerate() {
                *a *= self.call.position.weight(self.at, self.query, seen.key(n));
            }
        }
    }

    /// Multiplies weights by dropout's factors.
    fn drop(&self, row: &mut [T], seen: &Seen<'_>) {
        if let Some(dropout) = self.call.dropout {
            let stream = dropout.row(self.at.item, self.at.head, self.query);
            for (n, a) in row[..seen.len()].iter_mut().enumerate() {
                *a *= dropout.factor(stream, seen.key(n));
            }
        }
    }

    /// The context of the query, added to `context` (zeros), and the log-sum-exp; weights before dropout to
    /// where they are wanted, kv_len of them, zeros.
    pub(crate) fn forward(
        &self,
        queries: Source<'_, T>,
        scratch: &mut RowScratch<T>,
        context: &mut [T],
        weights: Option<&mut [T]>,
    ) -> T {
        let (call, RowScratch { q, listed, gathered, row, .. }) = (self.call, scratch);
        self.take_query(queries, q);
        let seen = self.seen(listed);
        let columns = padded(seen.len());
        pack::grow(row, columns);
        let row = &mut row[..columns];
        self.scores(&seen, &q[..call.dims.d_k], gathered, row);
        let lse = self.normalise(row, &seen);
        self.weigh(row, &seen);
        if let Some(weights) = weights {
            for (n, a) in row[..seen.len()].iter().enumerate() {
                weights[seen.key(n)] = *a;
            }
        }
        self.drop(row, &seen);
        match &seen {
            Seen::Stretch(keys) if !keys.is_empty() => {
                let (a, v) = (&row[..keys.len()], self.places.values.block(keys));
                simd::run(Weighted { a, v, out: &mut *context });
            }
            _ => Self::weighed(row, &seen, |_, key, a| {
                add_scaled(context, a, self.places.values.row(key));
            }),
        }
        if call.position.has_values() {
            Self::weighed(row, &seen, |_, key, a| {
                call.position.add_value(self.at, self.query, key, a, context);
            });
        }
        lse
    }

    /// The gradient of the query's row by the turned query; adds those by turned keys and values to `dk` and
    /// `dv` (rows [`padded_width`] apart, from key 0 on) and those by parameters to `dparams`.
    pub(crate) fn backward<'s>(
        &self,
        queries: Source<'_, T>,
        looks: &Looks<'_, T>,
        scratch: &'s mut RowScratch<T>,
        (dk, dv): (&mut [T], &mut [T]),
        dparams: &mut ParamGradients<T>,
    ) -> &'s mut [T] {
        let (call, at, query) = (self.call, self.at, self.query);
        let (position, d_k) = (call.position, call.dims.d_k);
        let RowScratch { q, listed, gathered, dgathered, row, scores, d, dq } = scratch;
        self.take_query(queries, q);
        let q = &q[..d_k];
        pack::grow(dq, d_k);
        let dq = &mut dq[..d_k];
        dq.fill(T::ZERO);
        let seen = self.seen(listed);
        let columns = padded(seen.len());
        for buffer in [&mut *row, &mut *scores, &mut *d] {
            pack::grow(buffer, columns);
        }
        let (row, scores, d) = (&mut row[..columns], &mut scores[..columns], &mut d[..columns]);
        self.scores(&seen, q, gathered, scores);
        row.copy_from_slice(scores);
        let lse = self.normalise(row, &seen);
        d.fill(T::ZERO);

        // ∂L/∂p, and the gradients of values, factors and position's values.
        let dropout = call.dropout.map(|drop| (drop, drop.row(at.item, at.head, query)));
        let v_width = padded_width(call.dims.d_v);
        Self::weighed(row, &seen, |_, key, share| {
            let weight = if position.weighs() { position.weight(at, query, key) } else { T::ONE };
            let factor = dropout.map_or(T::ONE, |(drop, stream)| drop.factor(stream, key));
            let kept = share * weight * factor;
            if kept != T::ZERO {
                add_scaled(&mut dv[key * v_width..][..call.dims.d_v], kept, looks.dc);
                if position.has_values() {
                    position.value_backward(at, query, key, kept, looks.dc, &mut dparams.position);
                }
            }
        });
        let differentiable = !matches!(call.normaliser.streaming(), Streaming::Pick { .. });
        for (n, d) in d[..seen.len()].iter_mut().enumerate() {
            // Weights of 0 have a gradient, too, unless the key is forbidden or the softmax gave 0.
            if scores[n] == T::NEG_INFINITY || (!differentiable && row[n] == T::ZERO) {
                continue;
            }
            let key = seen.key(n);
            let weight = if position.weighs() { position.weight(at, query, key) } else { T::ONE };
            let factor = dropout.map_or(T::ONE, |(drop, stream)| drop.factor(stream, key));
            let mut da = T::ZERO;
            if factor != T::ZERO {
                da = regard_tensor::kernels::reduce::dot(self.places.values.row(key), looks.dc);
                if position.has_values() {
                    da += position.value_dot(at, query, key, looks.dc);
                }
                da *= factor;
            }
            da += looks.of_weight(key);
            if position.weighs() && row[n] != T::ZERO {
                position.weight_backward(at, query, key, row[n] * da, &mut dparams.position);
            }
            *d = weight * da;
        }
        self.scores_gradient(&seen, lse, looks, row, scores, d);

        // By the score and position's bias.
        let k_width = padded_width(d_k);
        let n = seen.len();
        if position.biases() {
            for (n, ds) in d[..n].iter().enumerate().filter(|(_, ds)| **ds != T::ZERO) {
                let key = seen.key(n);
                position.bias_backward(at, query, key, q, *ds, dq, &mut dparams.position);
            }
        }
        match (call.score.lowering(), &seen) {
            (Lowering::Product { scale }, _) => {
                for (n, ds) in d[..n].iter().enumerate().filter(|(_, ds)| **ds != T::ZERO) {
                    let key = seen.key(n);
                    add_scaled(dq, scale * *ds, self.places.keys.row(key));
                    add_scaled(&mut dk[key * k_width..][..d_k], scale * *ds, q);
                }
            }
            (Lowering::Tile, _) if n > 0 => {
                let keys: Vec<usize> = (0..n).map(|n| seen.key(n)).collect();
                let k = gather(self.places.keys, &keys, d_k, gathered);
                pack::grow(dgathered, n * d_k);
                dgathered[..n * d_k].fill(T::ZERO);
                let one = Block { data: q, rows: 1, width: d_k, stride: d_k };
                let finite = pack::all_finite(q) && pack::all_finite(k.data);
                let mut dq = BlockMut { data: &mut *dq, rows: 1, width: d_k, stride: d_k };
                let mut dk_rows = BlockMut { data: dgathered, rows: n, width: d_k, stride: d_k };
                let (score, head) = (call.score, at.head);
                let dparams = &mut dparams.score;
                if finite {
                    score.tile_backward(head, one, k, d, n, &mut dq, &mut dk_rows, dparams);
                } else {
                    let part = FinitePart::new(one, k, d, n);
                    let (q_part, k_part) =
                        (FinitePart::block(&part.q, d_k), FinitePart::block(&part.k, d_k));
                    let (g, dk) = (&part.g, &mut dk_rows);
                    score.tile_backward(head, q_part, k_part, g, n, &mut dq, dk, dparams);
                    for (_, j, g) in part.odd {
                        let (dq, dk) = (dq.row(0), dk_rows.row(j));
                        score.pair_backward(head, q, k.row(j), g, dq, dk, dparams);
                    }
                }
                for (key, x) in keys.iter().zip(dgathered.chunks_exact(d_k)) {
                    add_scaled(&mut dk[key * k_width..][..d_k], T::ONE, x);
                }
            }
            (Lowering::Tile, _) => {}
        }
        dq
    }

    /// Turns ∂L/∂p in `d` into ∂L/∂s.
    fn scores_gradient(
        &self,
        seen: &Seen<'_>,
        lse: T,
        looks: &Looks<'_, T>,
        shares: &[T],
        scores: &[T],
        d: &mut [T],
    ) {
        let (n, normaliser) = (seen.len(), self.call.normaliser);
        let (d_entropy, d_log_prob) = (looks.d_entropy, looks.d_log_prob);
        if let Streaming::Pick { .. } = normaliser.streaming() {
            let p = |s: T| (s - lse).exp();
            let terms = scores[..n].iter().map(|s| p(*s)).filter(|p| *p != T::ZERO);
            let entropy = terms.map(|p| -(p * p.ln())).fold(T::ZERO, |a, b| a + b);
            for (d, (s, a)) in d.iter_mut().zip(scores.iter().zip(shares)).take(n) {
                let p = if *s == T::NEG_INFINITY { T::ZERO } else { p(*s) };
                let hit = if *a == T::ONE { T::ONE } else { T::ZERO };
                *d = d_log_prob * (hit - p);
                if p != T::ZERO {
                    *d -= d_entropy * p * (p.ln() + entropy);
                }
            }
            return;
        }
        if d_entropy != T::ZERO {
            for (d, p) in d.iter_mut().zip(shares).take(n).filter(|(_, p)| **p != T::ZERO) {
                *d -= d_entropy * (p.ln() + T::ONE);
            }
        }
        normaliser.row_backward(&shares[..n], &mut d[..n]);
        for (d, s) in d.iter_mut().zip(scores).take(n) {
            if *s == T::NEG_INFINITY {
                *d = T::ZERO;
            }
        }
    }
}

/// What the loss looks at in one row.
pub(crate) struct Looks<'a, T> {
    /// ∂L/∂c
    pub(crate) dc: &'a [T],
    /// Of the weights of all keys.
    pub(crate) d_weights: Option<&'a [T]>,
    /// Of the sums by key, of all keys.
    pub(crate) d_key_sums: Option<&'a [T]>,
    pub(crate) d_entropy: T,
    pub(crate) d_log_prob: T,
}

impl<T: Real> Looks<'_, T> {
    fn of_weight(&self, key: usize) -> T {
        let mut sum = self.d_weights.map_or(T::ZERO, |d| d[key]);
        if let Some(d) = self.d_key_sums {
            sum += d[key];
        }
        sum
    }
}

fn scale_row<T: Real>(row: &mut [T], factor: T) {
    let n = row.len();
    if factor != T::ONE && n > 0 {
        scale_tile(factor, row, n, 1, n);
    }
}

fn add_scaled<T: Real>(out: &mut [T], a: T, x: &[T]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out += a * *x;
    }
}

/// Copies scattered rows one after the other.
fn gather<'g, T: Real>(
    source: Source<'_, T>,
    keys: &[usize],
    width: usize,
    out: &'g mut Buffer<T>,
) -> Block<'g, T> {
    pack::grow(out, keys.len() * width);
    for (out, key) in out.chunks_exact_mut(width).zip(keys) {
        out.copy_from_slice(source.row(*key));
    }
    Block { data: &out[..keys.len() * width], rows: keys.len(), width, stride: width }
}

/// `out_j = scale·Σ_c q_c k_jc`
struct Dots<'a, T> {
    q: &'a [T],
    k: Block<'a, T>,
    scale: T,
    out: &'a mut [T],
}

impl<T: Real> Kernel for Dots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { q, k, scale, out } = self;
        for (j, out) in out.iter_mut().enumerate() {
            let k = &k.row(j)[..q.len()];
            let mut sums = [T::ZERO; LANES];
            for (q, k) in q.chunks_exact(LANES).zip(k.chunks_exact(LANES)) {
                for l in 0..LANES {
                    sums[l] = fma::<T, FMA>(q[l], k[l], sums[l]);
                }
            }
            let mut sum = softmax::in_halves(sums);
            let rest = q.len() / LANES * LANES;
            for (q, k) in q[rest..].iter().zip(&k[rest..]) {
                sum = fma::<T, FMA>(*q, *k, sum);
            }
            *out = scale * sum;
        }
    }
}

/// `out += Σ_j a_j v_j`, passing over weights of 0.
struct Weighted<'a, T> {
    a: &'a [T],
    v: Block<'a, T>,
    out: &'a mut [T],
}

impl<T: Real> Kernel for Weighted<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { a, v, out } = self;
        for (first, out) in out.chunks_mut(4 * LANES).enumerate() {
            let from = first * 4 * LANES;
            if out.len() == 4 * LANES {
                // Sums in registers.
                let mut sums = [T::ZERO; 4 * LANES];
                for (j, a) in a.iter().enumerate().filter(|(_, a)| **a != T::ZERO) {
                    let v = &v.row(j)[from..from + 4 * LANES];
                    for l in 0..4 * LANES {
                        sums[l] = fma::<T, FMA>(*a, v[l], sums[l]);
                    }
                }
                for l in 0..4 * LANES {
                    out[l] += sums[l];
                }
            } else {
                for (j, a) in a.iter().enumerate().filter(|(_, a)| **a != T::ZERO) {
                    for (out, v) in out.iter_mut().zip(&v.row(j)[from..]) {
                        *out = fma::<T, FMA>(*a, *v, *out);
                    }
                }
            }
        }
    }
}
