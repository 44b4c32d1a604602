//! Query by query, with whole rows: where keys are few and scattered (a sparse graph).
//!
//! Nothing is packed: keys and values are read where they lie. The order of sums is that of the keys. Here stands the way that
//! serves every call, head by head; under a softmax and without positions four heads go side by side ([`abreast`]), and where
//! the score is made of two numbers, as a GAT's is, gradients go key by key ([`by_key`]).

pub(crate) mod abreast;
pub(crate) mod by_key;

use regard_attn::call::row_stream;
use regard_attn::normaliser::gumbel;
use regard_attn::score::{Block, BlockMut};
use regard_attn::{At, Call, Lowering, RowAt, Streaming};
use regard_tensor::{Buffer, Key, Real, simd};

use crate::kernel::padded;
use crate::kernel::softmax::{self, Running};
use crate::pack::{self, Source, copy_row};
use crate::plan::{Inputs, Unit};
use crate::score::{FinitePart, ParamGradients, scale_tile};

/// Key heads that take a query's keys one after the other: their rows lie side by side, so that what one fetches from
/// memory serves the next. Forward, threads share queries; backward, where keys get sums, they share heads.
pub(crate) const FORWARD_AT_ONCE: usize = 8;
pub(crate) const BACKWARD_AT_ONCE: usize = 4;

/// For each item, whether its queries are taken one by one: where the scope lists the keys of all heads. (Not where
/// queries are few: in a padded batch they would be more, and the bits must not depend on that.) Asked once a call,
/// since the answer may take a look at every edge.
pub(crate) fn suited<T: Real>(call: &Call<'_, T>) -> Vec<bool> {
    let lists = |item, head| call.scope.lists(call.at(item, head));
    (0..call.items.len()).map(|item| (0..call.dims.n_heads).all(|head| lists(item, head))).collect()
}

/// The units that are taken together with this one, `at_once` at most, none if an earlier one takes it.
pub(crate) fn together<T: Real>(inputs: &Inputs<'_, T>, unit: Unit, at_once: usize) -> Vec<Unit> {
    let (first, count) = (unit.kv_head, inputs.call.dims.n_kv_heads);
    if !first.is_multiple_of(at_once) {
        return Vec::new();
    }
    (first..count.min(first + at_once)).map(|kv_head| Unit { kv_head, ..unit }).collect()
}

/// The keys and values of a unit, where they lie.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a, T> {
    pub(crate) keys: Source<'a, T>,
    pub(crate) values: Source<'a, T>,
}

impl<'a, T: Real> Places<'a, T> {
    /// Those of a unit; `other` holds its keys where the caller's do not do.
    pub(crate) fn of(inputs: &Inputs<'a, T>, unit: Unit, other: &'a mut Buffer<T>) -> Self {
        let values = inputs.values(unit);
        let keys = if other_keys(inputs, unit, other) {
            Source::dense(other, inputs.call.dims.d_k)
        } else {
            inputs.keys(unit)
        };
        Self { keys, values }
    }
}

/// Turned keys or the score's own, where the caller's do not do.
fn other_keys<T: Real>(inputs: &Inputs<'_, T>, unit: Unit, out: &mut Buffer<T>) -> bool {
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
    /// Those of a later query.
    ahead: Vec<usize>,
    /// Those keys, and the gradients of them.
    gathered: Buffer<T>,
    dgathered: Buffer<T>,
    /// Scores, then shares, then weights after dropout.
    row: Buffer<T>,
    scores: Buffer<T>,
    d: Buffer<T>,
    dq: Buffer<T>,
}

impl<T: Real> Default for RowScratch<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Real> RowScratch<T> {
    pub(crate) fn new() -> Self {
        let empty = || Buffer::stale(0);
        Self {
            q: empty(),
            listed: Vec::new(),
            ahead: Vec::new(),
            gathered: empty(),
            dgathered: empty(),
            row: empty(),
            scores: empty(),
            d: empty(),
            dq: empty(),
        }
    }
}

impl<T: Real> RowScratch<T> {
    /// `fetch(key)` for every key of the query behind this one, so that memory brings what lies scattered while this
    /// one is worked on.
    pub(crate) fn ahead(
        &mut self,
        call: &Call<'_, T>,
        at: At,
        query: usize,
        mut fetch: impl FnMut(usize),
    ) {
        if query + 1 < at.q_len {
            self.ahead.clear();
            call.scope.list(at, query + 1, &mut self.ahead);
            self.ahead.iter().for_each(|key| fetch(*key));
        }
    }
}

impl<T: Real> Places<'_, T> {
    /// Has a key and its value brought into the cache.
    #[inline(always)]
    pub(crate) fn prefetch(&self, key: usize) {
        simd::prefetch(self.keys.row(key));
        simd::prefetch(self.values.row(key));
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

    /// Lists the keys of this query.
    fn list(&self, listed: &mut Vec<usize>) {
        listed.clear();
        self.call.scope.list(self.at, self.query, listed);
    }

    /// Takes the query, turned.
    fn take_query(&self, source: Source<'_, T>, q: &mut Buffer<T>) {
        let d_k = self.call.dims.d_k;
        pack::grow(q, d_k);
        copy_row(source.row(self.query), &mut q[..d_k]);
        pack::turn(self.call.position, self.at.q_offset + self.query, &mut q[..d_k], d_k, d_k);
    }

    /// Scores with position's bias, −∞ in the entries that fill the lanes.
    fn scores(&self, keys: &[usize], q: &[T], gathered: &mut Buffer<T>, out: &mut [T]) {
        let (call, n, d_k) = (self.call, keys.len(), self.call.dims.d_k);
        match call.score.lowering() {
            _ if n == 0 => {}
            Lowering::Product { scale } => {
                for (out, key) in out.iter_mut().zip(keys) {
                    *out =
                        scale * regard_tensor::kernels::reduce::dot(q, self.places.keys.row(*key));
                }
            }
            Lowering::Tile => {
                let one = Block { data: q, rows: 1, width: d_k, stride: d_k };
                let k = gather(self.places.keys, keys, d_k, gathered);
                call.score.tile(self.at.head, one, k, out, n);
            }
        }
        if call.position.biases() {
            for (out, key) in out.iter_mut().zip(keys) {
                *out += call.position.bias(self.at, self.query, *key, q);
            }
        }
        out[n..].fill(T::NEG_INFINITY);
    }

    /// Turns the scores in `row` (whole lanes) into shares; returns the log-sum-exp.
    fn normalise(&self, row: &mut [T], keys: &[usize]) -> T {
        let (n, normaliser) = (keys.len(), self.call.normaliser);
        match normaliser.streaming() {
            Streaming::Softmax { scale } => {
                scale_row(row, scale);
                let mut running = [Running::START];
                softmax::add_tile(row, row.len(), row.len(), &mut running, &mut [], 0);
                scale_row(row, running[0].scale());
                running[0].lse()
            }
            Streaming::Pick { noise } => {
                let chosen = self.choose(&row[..n], keys, noise);
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
    fn choose(&self, scores: &[T], keys: &[usize], noise: Option<Key>) -> Option<usize> {
        let stream = noise.map(|key| row_stream(key, self.row_at()));
        let mut best: Option<(usize, T)> = None;
        for (n, s) in scores.iter().enumerate().filter(|(_, s)| **s != T::NEG_INFINITY) {
            let noisy = stream.map_or(*s, |row| *s + T::from_f64(gumbel(row, keys[n])));
            if best.is_none_or(|(_, top)| noisy > top) {
                best = Some((n, noisy));
            }
        }
        best.map(|(n, _)| n)
    }

    /// `f(n, key)` for every entry that has a weight.
    fn weighed(row: &[T], keys: &[usize], mut f: impl FnMut(usize, usize, T)) {
        for (n, a) in row[..keys.len()].iter().enumerate() {
            if *a != T::ZERO {
                f(n, keys[n], *a);
            }
        }
    }

    /// Multiplies shares by position's factors.
    fn weigh(&self, row: &mut [T], keys: &[usize]) {
        if self.call.position.weighs() {
            for (n, a) in row[..keys.len()].iter_mut().enumerate() {
                *a *= self.call.position.weight(self.at, self.query, keys[n]);
            }
        }
    }

    /// Multiplies weights by dropout's factors.
    fn drop(&self, row: &mut [T], keys: &[usize]) {
        if let Some(dropout) = self.call.dropout {
            let stream = dropout.row(self.at.item, self.at.head, self.query);
            for (n, a) in row[..keys.len()].iter_mut().enumerate() {
                *a *= dropout.factor(stream, keys[n]);
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
        self.list(listed);
        let keys = &listed[..];
        let columns = padded(keys.len());
        pack::grow(row, columns);
        let row = &mut row[..columns];
        self.scores(keys, &q[..call.dims.d_k], gathered, row);
        let lse = self.normalise(row, keys);
        self.weigh(row, keys);
        if let Some(weights) = weights {
            for (n, a) in row[..keys.len()].iter().enumerate() {
                weights[keys[n]] = *a;
            }
        }
        self.drop(row, keys);
        Self::weighed(row, keys, |_, key, a| {
            add_scaled(context, a, self.places.values.row(key));
        });
        if call.position.has_values() {
            Self::weighed(row, keys, |_, key, a| {
                call.position.add_value(self.at, self.query, key, a, context);
            });
        }
        lse
    }

    /// The gradient of the query's row by the turned query; adds those by turned keys and values to `of_keys`
    /// and those by parameters to `dparams`.
    pub(crate) fn backward<'s>(
        &self,
        queries: Source<'_, T>,
        looks: &Looks<'_, T>,
        scratch: &'s mut RowScratch<T>,
        of_keys: &mut impl KeyRows<T>,
        dparams: &mut ParamGradients<T>,
    ) -> &'s mut [T] {
        let (call, at, query) = (self.call, self.at, self.query);
        let (position, d_k) = (call.position, call.dims.d_k);
        let RowScratch { q, listed, gathered, dgathered, row, scores, d, dq, .. } = scratch;
        self.take_query(queries, q);
        let q = &q[..d_k];
        pack::grow(dq, d_k);
        let dq = &mut dq[..d_k];
        dq.fill(T::ZERO);
        self.list(listed);
        let keys = &listed[..];
        let columns = padded(keys.len());
        for buffer in [&mut *row, &mut *scores, &mut *d] {
            pack::grow(buffer, columns);
        }
        let (row, scores, d) = (&mut row[..columns], &mut scores[..columns], &mut d[..columns]);
        self.scores(keys, q, gathered, scores);
        row.copy_from_slice(scores);
        let lse = self.normalise(row, keys);
        d.fill(T::ZERO);

        // ∂L/∂p, and the gradients of values, factors and position's values.
        let dropout = call.dropout.map(|drop| (drop, drop.row(at.item, at.head, query)));
        Self::weighed(row, keys, |_, key, share| {
            let weight = if position.weighs() { position.weight(at, query, key) } else { T::ONE };
            let factor = dropout.map_or(T::ONE, |(drop, stream)| drop.factor(stream, key));
            let kept = share * weight * factor;
            if kept != T::ZERO {
                add_scaled(of_keys.dv(key), kept, looks.dc);
                if position.has_values() {
                    position.value_backward(at, query, key, kept, looks.dc, &mut dparams.position);
                }
            }
        });
        let differentiable = !matches!(call.normaliser.streaming(), Streaming::Pick { .. });
        for (n, d) in d[..keys.len()].iter_mut().enumerate() {
            // Weights of 0 have a gradient, too, unless the key is forbidden or the softmax gave 0.
            if scores[n] == T::NEG_INFINITY || (!differentiable && row[n] == T::ZERO) {
                continue;
            }
            let key = keys[n];
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
        self.scores_gradient(keys, lse, looks, row, scores, d);

        // By the score and position's bias.
        let n = keys.len();
        if position.biases() {
            for (n, ds) in d[..n].iter().enumerate().filter(|(_, ds)| **ds != T::ZERO) {
                let key = keys[n];
                position.bias_backward(at, query, key, q, *ds, dq, &mut dparams.position);
            }
        }
        match call.score.lowering() {
            Lowering::Product { scale } => {
                for (n, ds) in d[..n].iter().enumerate().filter(|(_, ds)| **ds != T::ZERO) {
                    let key = keys[n];
                    add_scaled(dq, scale * *ds, self.places.keys.row(key));
                    add_scaled(of_keys.dk(key), scale * *ds, q);
                }
            }
            Lowering::Tile if n > 0 => {
                let k = gather(self.places.keys, keys, d_k, gathered);
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
                    add_scaled(of_keys.dk(*key), T::ONE, x);
                }
            }
            Lowering::Tile => {}
        }
        dq
    }

    /// Turns ∂L/∂p in `d` into ∂L/∂s.
    fn scores_gradient(
        &self,
        keys: &[usize],
        lse: T,
        looks: &Looks<'_, T>,
        shares: &[T],
        scores: &[T],
        d: &mut [T],
    ) {
        let (n, normaliser) = (keys.len(), self.call.normaliser);
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

/// Where the gradients of keys and values are added up.
pub(crate) trait KeyRows<T> {
    /// That by the turned key, d_k long.
    fn dk(&mut self, key: usize) -> &mut [T];
    /// That by the value, d_v long.
    fn dv(&mut self, key: usize) -> &mut [T];
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
        copy_row(source.row(*key), out);
    }
    Block { data: &out[..keys.len() * width], rows: keys.len(), width, stride: width }
}
