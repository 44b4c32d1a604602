//! The rows of a decoder's attention: scores, weights, contexts, and the way back.
//!
//! A query row belongs to one item and one time. What forward leaves is kept by row, so that the rows may
//! come one time at a time (a recurrent decoder) or all at once. Per row only the keys that its scope
//! allows are read, in forward and in backward.

use std::ops::Range;

use rayon::prelude::*;
use regard_attn::TileAt;
use regard_attn::call::{At, Span};
use regard_attn::position::{Gaussian, Position};
use regard_attn::scope::{Full, PredictedCentre, Scope, Window};
use regard_attn::score::{Additive, Block, Score};
use regard_tensor::kernels::elementwise::apply;
use regard_tensor::kernels::reduce::dot;
use regard_tensor::{Real, Tensor, parallel, simd};

use super::conv;
use super::{AlignScope, AlignSpec};
use crate::ops::recurrent::Matrix;
use crate::{Ragged, Tape};

/// The arrays of a call.
pub(crate) struct Arrays<T: Real> {
    pub(super) spec: AlignSpec<T>,
    pub(super) keys: Tensor<T>,
    pub(super) values: Tensor<T>,
    pub(super) v_a: Option<Tensor<T>>,
    pub(super) query: Option<Matrix<T>>,
    /// W_p and v_p.
    pub(super) centre: Option<(Matrix<T>, Tensor<T>)>,
    /// F and U.
    pub(super) location: Option<(Tensor<T>, Tensor<T>)>,
}

/// What forward leaves, by query row.
pub(crate) struct Kept<T: Real> {
    /// The item and the time of each row.
    pub(super) places: Vec<(usize, usize)>,
    /// The queries, projected, `[rows, d_k]`.
    pub(super) q: Tensor<T>,
    /// tanh(W_p h), `[rows, d_p]`.
    pub(super) hidden: Tensor<T>,
    /// The centres of the windows, in keys from 0; 0 where there is no window.
    pub(super) centres: Vec<T>,
    /// The keys that each row sees.
    pub(super) spans: Vec<Span>,
    /// Where each row's weights begin; one more entry holds the total.
    pub(super) starts: Vec<usize>,
    /// The weights before the Gaussian.
    pub(super) shares: Vec<T>,
}

/// What the weights of the time before are, for a score that looks at them.
#[derive(Clone, Copy)]
pub(crate) enum Before<'a, T> {
    /// Nothing: zero.
    Nothing,
    /// Those of each row's predecessor, which begin at this row.
    Rows(usize),
    /// Given ones, in the order of the rows.
    Given(&'a [&'a [T]]),
}

/// What backward adds to.
pub(crate) struct Sums<T: Real> {
    pub(super) keys: Tensor<T>,
    pub(super) values: Tensor<T>,
    pub(super) v_a: Vec<T>,
    pub(super) filters: Vec<T>,
    pub(super) project: Vec<T>,
    /// ∂L/∂ of the projected queries, by row, `[rows, d_k]`.
    pub(super) q: Tensor<T>,
    /// ∂L/∂(W_p h), by row, `[rows, d_p]`.
    pub(super) hidden: Tensor<T>,
    /// ∂L/∂(v_pᵀ tanh(W_p h)), by row.
    pub(super) centre: Vec<T>,
    /// ∂L/∂ of the weights by what came later, laid out as the shares; of a location-aware score alone.
    pub(super) weights: Vec<T>,
}

impl<T: Real> Arrays<T> {
    pub(crate) fn new(tape: &Tape<'_, T>, spec: AlignSpec<T>) -> Self {
        let value = |var| tape.value(var).clone();
        Self {
            keys: value(spec.keys),
            values: value(spec.values),
            v_a: spec.v_a.map(value),
            query: spec.query.map(|w| tape.matrix(w)),
            centre: match spec.scope {
                AlignScope::LocalP { w_p, v_p, .. } => Some((tape.matrix(w_p), value(v_p))),
                _ => None,
            },
            location: spec.location.map(|(f, u)| (value(f), value(u))),
            spec,
        }
    }

    pub(crate) fn d_k(&self) -> usize {
        self.keys.cols()
    }

    pub(crate) fn d_v(&self) -> usize {
        self.values.cols()
    }

    pub(super) fn d_p(&self) -> usize {
        self.centre.as_ref().map_or(0, |(w, _)| w.rows())
    }

    pub(super) fn sources(&self) -> &Ragged {
        &self.spec.sources
    }

    /// Room for rows at these places.
    pub(crate) fn kept(&self, places: Vec<(usize, usize)>) -> Kept<T> {
        let rows = places.len();
        let mut starts = Vec::with_capacity(rows + 1);
        let mut total = 0;
        starts.push(0);
        for (item, _) in &places {
            let len = self.sources().lengths()[*item];
            total += match self.spec.scope.radius() {
                Some(radius) => len.min(radius.saturating_mul(2).saturating_add(1)),
                None => len,
            };
            starts.push(total);
        }
        Kept {
            q: Tensor::stale(&[rows, self.d_k()]),
            hidden: Tensor::stale(&[rows, self.d_p()]),
            centres: vec![T::ZERO; rows],
            spans: vec![0..0; rows],
            shares: vec![T::ZERO; total],
            starts,
            places,
        }
    }

    /// Room for the gradients of such rows.
    pub(crate) fn sums(&self, kept: &Kept<T>) -> Sums<T> {
        let rows = kept.places.len();
        let len = |t: Option<&Tensor<T>>| t.map_or(0, Tensor::len);
        let aware = self.location.is_some();
        Sums {
            keys: Tensor::zeros(self.keys.shape()),
            values: Tensor::zeros(self.values.shape()),
            v_a: vec![T::ZERO; len(self.v_a.as_ref())],
            filters: vec![T::ZERO; len(self.location.as_ref().map(|(f, _)| f))],
            project: vec![T::ZERO; len(self.location.as_ref().map(|(_, u)| u))],
            q: Tensor::zeros(&[rows, self.d_k()]),
            hidden: Tensor::zeros(&[rows, self.d_p()]),
            centre: vec![T::ZERO; rows],
            weights: vec![T::ZERO; if aware { kept.shares.len() } else { 0 }],
        }
    }

    /// The keys that a row sees, and the centre of its window.
    fn span(&self, item: usize, time: usize, centre: T) -> (Span, T) {
        let kv_len = self.sources().lengths()[item];
        let at = At { item: 0, head: 0, q_len: 1, kv_len, q_offset: 0 };
        match self.spec.scope {
            AlignScope::Global => (Full.keys(at, 0..1), T::ZERO),
            AlignScope::LocalM { radius } => {
                // A centre behind the source moves back inside.
                let q_offset = time.min(kv_len.saturating_sub(1));
                let window = Window { left: radius, right: radius };
                let at = At { q_offset, ..at };
                (window.keys(at, 0..1), T::from_usize(q_offset))
            }
            AlignScope::LocalP { radius, .. } => {
                let centres: &[f64] = &[centre.to_f64()];
                let window = PredictedCentre { centres: &[centres], radius };
                (window.keys(at, 0..1), centre)
            }
        }
    }

    /// The rows of keys that a span of an item stands for.
    pub(super) fn key_rows(&self, item: usize, span: &Span) -> Range<usize> {
        let first = if self.spec.own_keys { 0 } else { self.sources().rows(item).start };
        first + span.start..first + span.end
    }

    /// Multiplies a row's shares by the Gaussian around its centre.
    pub(super) fn weigh(&self, span: &Span, centre: T, weights: &mut [T]) {
        if let Some(sigma) = self.spec.scope.sigma() {
            let params = [centre, T::from_f64(sigma)];
            Gaussian::new(&params, &[1]).weight_tile(&tile(span), weights, span.len());
        }
    }

    /// The contexts `[n, d_v]` of the rows, given the states `[n, d_q]` that ask.
    pub(crate) fn forward(
        &self,
        kept: &mut Kept<T>,
        rows: Range<usize>,
        states: &[T],
        context: &mut [T],
        before: Before<'_, T>,
    ) {
        let (n, d_k, d_v, d_p) = (rows.len(), self.d_k(), self.d_v(), self.d_p());
        let q = &mut kept.q.data_mut()[rows.start * d_k..rows.end * d_k];
        match &self.query {
            Some(w) => w.times(q, 0.0, states, n),
            None => q.copy_from_slice(states),
        }
        if let Some((w, v)) = &self.centre {
            let hidden = &mut kept.hidden.data_mut()[rows.start * d_p..rows.end * d_p];
            w.times(hidden, 0.0, states, n);
            apply(hidden, 20, Real::tanh);
            for (m, row) in hidden.chunks_exact(d_p).zip(rows.clone()) {
                let len = self.sources().lengths()[kept.places[row].0];
                let last = T::from_usize(len.saturating_sub(1));
                kept.centres[row] = last * dot(m, v.data()).sigmoid();
            }
        }
        for row in rows.clone() {
            let (item, time) = kept.places[row];
            let (span, centre) = self.span(item, time, kept.centres[row]);
            kept.spans[row] = span;
            kept.centres[row] = centre;
        }
        let Kept { places, q, centres, spans, starts, shares, .. } = kept;
        let (done, now) = shares.split_at_mut(starts[rows.start]);
        let mut todo = Vec::with_capacity(n);
        let (mut now, mut context) = (&mut now[..starts[rows.end] - starts[rows.start]], context);
        for row in rows.clone() {
            let (mine, rest) = now.split_at_mut(starts[row + 1] - starts[row]);
            let (out, others) = context.split_at_mut(d_v);
            (now, context) = (rest, others);
            todo.push((row, mine, out));
        }
        let keys: usize = rows.clone().map(|row| spans[row].len()).sum();
        let one = |(row, shares, out): (usize, &mut [T], &mut [T])| {
            let (span, item) = (&spans[row], places[row].0);
            let shares = &mut shares[..span.len()];
            let key_rows = self.key_rows(item, span);
            let keys = &self.keys.data()[key_rows.start * d_k..key_rows.end * d_k];
            let q = q.row(row);
            let turned;
            let keys = if let Some((filters, project)) = &self.location {
                let before = match before {
                    Before::Nothing => &[],
                    Before::Given(rows_before) => rows_before[row - rows.start],
                    Before::Rows(first) => {
                        let before = first + row - rows.start;
                        &done[starts[before]..starts[before + 1]]
                    }
                };
                turned = conv::keys(keys, before, filters, project).1;
                &turned[..]
            } else {
                keys
            };
            self.scores(q, keys, shares);
            self.spec.normaliser.row(shares);
            let weights;
            let weights = if self.spec.scope.sigma().is_some() {
                let mut weighed = shares.to_vec();
                self.weigh(span, centres[row], &mut weighed);
                weights = weighed;
                &weights[..]
            } else {
                &*shares
            };
            let first = self.sources().rows(item).start;
            let values = &self.values.data()[(first + span.start) * d_v..(first + span.end) * d_v];
            weighted_sum(weights, values, out);
        };
        if keys * (d_k + d_v) < parallel::SMALL {
            todo.into_iter().for_each(one);
        } else {
            let _call = regard_tensor::parallel::call();
            todo.into_par_iter().for_each(one);
        }
    }

    fn scores(&self, q: &[T], keys: &[T], out: &mut [T]) {
        if let Some(v) = &self.v_a {
            let n = out.len();
            Additive { v: v.data() }.tile(0, block(q, 1), block(keys, n), out, n);
        } else {
            let d = q.len();
            simd::vectorise(
                #[inline(always)]
                move || {
                    for (out, k) in out.iter_mut().zip(keys.chunks_exact(d)) {
                        *out = dot(q, k);
                    }
                },
            );
        }
    }

    /// The weights of a row over its whole source.
    pub(crate) fn weights(&self, kept: &Kept<T>, row: usize) -> Vec<T> {
        let mut whole = vec![T::ZERO; self.sources().lengths()[kept.places[row].0]];
        let span = kept.spans[row].clone();
        let out = &mut whole[span.clone()];
        out.copy_from_slice(&kept.shares[kept.starts[row]..kept.starts[row] + span.len()]);
        self.weigh(&span, kept.centres[row], out);
        whole
    }
}

pub(super) fn block<T>(data: &[T], rows: usize) -> Block<'_, T> {
    let width = data.len().checked_div(rows).unwrap_or(0);
    Block { data, rows, width, stride: width }
}

pub(super) fn tile(keys: &Span) -> TileAt {
    let at = At { item: 0, head: 0, q_len: 1, kv_len: keys.end, q_offset: 0 };
    TileAt { at, queries: 0..1, keys: keys.clone() }
}

pub(super) fn add<T: Real>(out: &mut [T], x: &[T]) {
    out.iter_mut().zip(x).for_each(|(o, x)| *o += *x);
}

/// `out = Σ_j a_j v_j`
fn weighted_sum<T: Real>(weights: &[T], values: &[T], out: &mut [T]) {
    let d = out.len();
    simd::vectorise(
        #[inline(always)]
        move || {
            out.fill(T::ZERO);
            for (a, v) in weights.iter().zip(values.chunks_exact(d)) {
                for c in 0..d {
                    out[c] += *a * v[c];
                }
            }
        },
    );
}
