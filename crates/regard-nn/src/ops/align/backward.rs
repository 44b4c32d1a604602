//! The way back of a decoder's attention.

use std::ops::Range;

use rayon::prelude::*;
use regard_attn::position::{Gaussian, Position};
use regard_attn::score::{Additive, BlockMut, Score};
use regard_tensor::kernels::reduce::dot;
use regard_tensor::{Real, parallel, simd};

use super::conv;
use super::kernel::{Arrays, Before, Kept, Sums, add, block, tile};

impl<T: Real> Arrays<T> {
    /// The way back of [`Arrays::forward`] for the same rows: adds to `sums`, and to `d_states`, given
    /// the gradient of the contexts.
    pub(crate) fn backward(
        &self,
        kept: &Kept<T>,
        rows: Range<usize>,
        d_context: &[T],
        d_states: &mut [T],
        sums: &mut Sums<T>,
        before: Before<'_, T>,
    ) {
        let (n, d_k, d_v, d_p) = (rows.len(), self.d_k(), self.d_v(), self.d_p());
        let aware = self.location.is_some();
        // Rows of one item follow each other: each item's are one piece of work.
        let mut pieces: Vec<Piece<'_, T>> = Vec::new();
        let mut dq = &mut sums.q.data_mut()[rows.start * d_k..rows.end * d_k];
        let mut dp = &mut sums.centre[rows.clone()];
        let (mut earlier, later) =
            sums.weights.split_at_mut(if aware { kept.starts[rows.start] } else { 0 });
        let mut from = rows.start;
        while from < rows.end {
            let item = kept.places[from].0;
            let same = (from..rows.end).take_while(|r| kept.places[*r].0 == item).count();
            let (q, rest_q) = dq.split_at_mut(same * d_k);
            let (p, rest_p) = dp.split_at_mut(same);
            (dq, dp) = (rest_q, rest_p);
            pieces.push(Piece { rows: from..from + same, item, dq: q, dp: p, ..Piece::default() });
            from += same;
        }
        // The keys and values of the items, each to its piece.
        let mut by_source: Vec<usize> = (0..pieces.len()).collect();
        by_source.sort_by_key(|p| self.sources().rows(pieces[*p].item).start);
        let (mut dk, mut dv) = (sums.keys.data_mut(), sums.values.data_mut());
        let mut taken = 0;
        for p in by_source {
            let source = self.sources().rows(pieces[p].item);
            let (mine, rest) = dv.split_at_mut((source.end - taken) * d_v);
            pieces[p].dv = &mut mine[(source.start - taken) * d_v..];
            dv = rest;
            if !self.spec.own_keys {
                let (mine, rest) = dk.split_at_mut((source.end - taken) * d_k);
                pieces[p].dk = &mut mine[(source.start - taken) * d_k..];
                dk = rest;
            }
            taken = source.end;
        }
        if aware && let Before::Rows(first) = before {
            // Rows before belong to the same items in the same order, one row each.
            let mut at = 0;
            for piece in &mut pieces {
                let row = first + piece.rows.start - rows.start;
                let (_, rest) = earlier.split_at_mut(kept.starts[row] - at);
                let (mine, rest) = rest.split_at_mut(kept.starts[row + 1] - kept.starts[row]);
                piece.d_before = mine;
                at = kept.starts[row + 1];
                earlier = rest;
            }
        }
        let later = &*later;
        let first_share = kept.starts[rows.start];
        let one = |piece: &mut Piece<'_, T>| {
            piece.v_a = vec![T::ZERO; sums.v_a.len()];
            piece.location = (vec![T::ZERO; sums.filters.len()], vec![T::ZERO; sums.project.len()]);
            for (i, row) in piece.rows.clone().enumerate() {
                let shares = kept.starts[row]..kept.starts[row] + kept.spans[row].len();
                let late = if aware {
                    &later[shares.start - first_share..shares.end - first_share]
                } else {
                    &[]
                };
                let at = (row - rows.start) * d_v;
                self.row_backward(
                    kept,
                    row,
                    &d_context[at..at + d_v],
                    late,
                    i,
                    piece,
                    before_of(before, kept, row, rows.start),
                );
            }
        };
        let keys: usize = rows.clone().map(|row| kept.spans[row].len()).sum();
        if self.spec.own_keys {
            // Every item's keys are the same ones.
            for piece in &mut pieces {
                piece.dk = std::mem::take(&mut dk);
                one(piece);
                dk = std::mem::take(&mut piece.dk);
            }
        } else if keys * (d_k + d_v) < parallel::SMALL {
            pieces.iter_mut().for_each(one);
        } else {
            let _call = regard_tensor::parallel::call();
            pieces.par_iter_mut().for_each(one);
        }
        let partial: Vec<_> = pieces.into_iter().map(|p| (p.v_a, p.location)).collect();
        for (v_a, (filters, project)) in partial {
            add(&mut sums.v_a, &v_a);
            add(&mut sums.filters, &filters);
            add(&mut sums.project, &project);
        }

        let dq = &sums.q.data()[rows.start * d_k..rows.end * d_k];
        match &self.query {
            Some(w) => w.back(d_states, 1.0, dq, n),
            None => add(d_states, dq),
        }
        if let Some((w, v)) = &self.centre {
            let dz = &mut sums.hidden.data_mut()[rows.start * d_p..rows.end * d_p];
            for (dz, row) in dz.chunks_exact_mut(d_p).zip(rows.clone()) {
                // p = (S − 1)·σ(u), u = v·m, m = tanh(W h)
                let last = self.sources().lengths()[kept.places[row].0].saturating_sub(1);
                let slope = if last == 0 {
                    T::ZERO
                } else {
                    let share = kept.centres[row] / T::from_usize(last);
                    T::from_usize(last) * share * (T::ONE - share)
                };
                let du = sums.centre[row] * slope;
                sums.centre[row] = du;
                for ((dz, v), m) in dz.iter_mut().zip(v.data()).zip(kept.hidden.row(row)) {
                    *dz = du * *v * (T::ONE - *m * *m);
                }
            }
            w.back(d_states, 1.0, dz, n);
        }
    }

    /// The way back of one row.
    fn row_backward(
        &self,
        kept: &Kept<T>,
        row: usize,
        d_context: &[T],
        late: &[T],
        i: usize,
        piece: &mut Piece<'_, T>,
        before: &[T],
    ) {
        let (d_k, d_v) = (self.d_k(), self.d_v());
        let span = kept.spans[row].clone();
        let len = span.len();
        let shares = &kept.shares[kept.starts[row]..kept.starts[row] + len];
        let first = self.sources().rows(piece.item).start;
        let values = &self.values.data()[(first + span.start) * d_v..(first + span.end) * d_v];
        let mut da: Vec<T> = vec![T::ZERO; len];
        let mut weights = shares.to_vec();
        self.weigh(&span, kept.centres[row], &mut weights);
        let dv = &mut piece.dv[span.start * d_v..span.end * d_v];
        values_backward(&weights, values, d_context, &mut da, dv);
        if !late.is_empty() {
            add(&mut da, late);
        }
        if let Some(sigma) = self.spec.scope.sigma() {
            // a = share·w: ∂L/∂w = ∂L/∂a·share, ∂L/∂share = ∂L/∂a·w
            let params = [kept.centres[row], T::from_f64(sigma)];
            let gaussian = Gaussian::new(&params, &[1]);
            let by_factor: Vec<T> = da.iter().zip(shares).map(|(d, a)| *d * *a).collect();
            let mut d_params = [T::ZERO; 2];
            gaussian.weight_tile_backward(&tile(&span), &by_factor, len, &mut d_params);
            piece.dp[i] += d_params[0];
            gaussian.weight_tile(&tile(&span), &mut da, len);
        }
        self.spec.normaliser.row_backward(shares, &mut da);

        let key_rows = self.key_rows(piece.item, &span);
        let plain = &self.keys.data()[key_rows.start * d_k..key_rows.end * d_k];
        let dq = &mut piece.dq[i * d_k..(i + 1) * d_k];
        let dk = &mut piece.dk[span.start * d_k..span.end * d_k];
        let q = kept.q.row(row);
        if let Some((filters, project)) = &self.location {
            let (features, keys) = conv::keys(plain, before, filters, project);
            let mut d_keys = vec![T::ZERO; len * d_k];
            self.scores_backward(q, &keys, &da, dq, &mut d_keys, &mut piece.v_a);
            add(dk, &d_keys);
            let (df, du) = &mut piece.location;
            let d_before = &mut *piece.d_before;
            conv::keys_backward(&d_keys, &features, before, (filters, project), df, du, d_before);
        } else {
            self.scores_backward(q, plain, &da, dq, dk, &mut piece.v_a);
        }
    }

    fn scores_backward(
        &self,
        q: &[T],
        keys: &[T],
        ds: &[T],
        dq: &mut [T],
        dk: &mut [T],
        dv_a: &mut [T],
    ) {
        let (n, d) = (ds.len(), q.len());
        match &self.v_a {
            Some(v) => {
                let mut dq = BlockMut { data: dq, rows: 1, width: d, stride: d };
                let mut dk = BlockMut { data: dk, rows: n, width: d, stride: d };
                let (q, keys) = (block(q, 1), block(keys, n));
                Additive { v: v.data() }.tile_backward(0, q, keys, ds, n, &mut dq, &mut dk, dv_a);
            }
            None => simd::vectorise(
                #[inline(always)]
                move || {
                    for ((ds, k), dk) in
                        ds.iter().zip(keys.chunks_exact(d)).zip(dk.chunks_exact_mut(d))
                    {
                        for c in 0..d {
                            dq[c] += *ds * k[c];
                            dk[c] += *ds * q[c];
                        }
                    }
                },
            ),
        }
    }
}

/// The rows of one item, and what their gradients go to.
#[derive(Default)]
struct Piece<'a, T> {
    rows: Range<usize>,
    item: usize,
    dq: &'a mut [T],
    dp: &'a mut [T],
    dk: &'a mut [T],
    dv: &'a mut [T],
    d_before: &'a mut [T],
    v_a: Vec<T>,
    location: (Vec<T>, Vec<T>),
}

fn before_of<'a, T: Real>(
    before: Before<'a, T>,
    kept: &'a Kept<T>,
    row: usize,
    from: usize,
) -> &'a [T] {
    match before {
        Before::Nothing => &[],
        Before::Given(rows) => rows[row - from],
        Before::Rows(first) => {
            let before = first + row - from;
            &kept.shares[kept.starts[before]..kept.starts[before + 1]]
        }
    }
}

/// `da_j = v_j·dc`, `dv_j += a_j dc`
fn values_backward<T: Real>(weights: &[T], values: &[T], dc: &[T], da: &mut [T], dv: &mut [T]) {
    let d = dc.len();
    simd::vectorise(
        #[inline(always)]
        move || {
            let rows = values.chunks_exact(d).zip(dv.chunks_exact_mut(d));
            for ((a, da), (v, dv)) in weights.iter().zip(da).zip(rows) {
                *da = dot(v, dc);
                for c in 0..d {
                    dv[c] += *a * dc[c];
                }
            }
        },
    );
}
