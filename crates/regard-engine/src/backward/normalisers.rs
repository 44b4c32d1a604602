//! A tile of queries against its keys: from scores and ∂L/∂c to ∂L/∂s, by the way in which the normaliser takes a row,
//! and from there to queries, keys, values and parameters.

use std::ops::Range;

use regard_attn::TileAt;
use regard_tensor::kernels::product::{Left, Product};
use regard_tensor::kernels::{reduce, select};
use regard_tensor::{Key, Real, simd};

use super::{Backward, Job, OfKeys, OfQueries, Pairs, add};
use crate::cover::Cover;
use crate::fault::{self, Fault};
use crate::forward::{Chosen, hull, part_of, row_at, visible};
use crate::kernel::{dropout, padded, softmax};
use crate::pack::{AHEAD, Source, padded_width};
use crate::panel::Panel;
use crate::plan::{KEYS, QUERIES, tiles};
use crate::score::{Keys, ParamGradients, fill_forbidden};
use crate::support::{self, Support};

impl<T: Real> Backward<'_, T> {
    /// The softmax: shares of a tile come from its scores and the log-sum-exps. Tiles of queries take
    /// a tile of keys one after the other, while it lies in the cache.
    pub(super) fn softmax(
        &self,
        jobs: &mut [Job<T>],
        of_keys: &mut OfKeys<'_, T>,
        pairs: &mut Pairs<T>,
        scale: T,
        dparams: &mut ParamGradients<T>,
    ) {
        for Job { tile, seen, of } in &mut *jobs {
            self.means(tile, of, of_keys, pairs, seen.clone(), scale);
        }
        for span in tiles(hull(jobs.iter().map(|job| &job.seen)), KEYS) {
            for Job { tile, seen, of } in &mut *jobs {
                if let Some(keys) = part_of(&span, seen) {
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
                of_keys,
                pairs,
                first,
                KEYS,
                None,
                dparams,
            );
            let Pairs { weights, dscores, .. } = &mut *pairs;
            let (weights, dscores) = (&weights[first..], &mut dscores[first..]);
            let columns = padded(part.columns.len());
            softmax::backward(weights, dscores, KEYS, columns, &of.mean[rows], slope);
        }
        cover.fill_outside(T::ZERO, &mut pairs.dscores, KEYS);
        self.add_gradients(tile, cover, of, of_keys, pairs, 0, KEYS, None, dparams);
    }

    /// A normaliser that looks at each score alone takes any piece of a row.
    pub(super) fn each(
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
            self.share_gradients(tile, of, 0..rows, of_keys, pairs, 0, KEYS, None, dparams);
            let Pairs { weights, dscores, .. } = &mut *pairs;
            fill_forbidden(call.scope, tile, T::ZERO, dscores, KEYS);
            for i in 0..rows {
                call.normaliser.row_backward(&weights[row(i)], &mut dscores[row(i)]);
            }
            fill_forbidden(call.scope, tile, T::ZERO, dscores, KEYS);
            let cover = Cover::whole(tile);
            self.add_gradients(tile, cover, of, of_keys, pairs, 0, KEYS, None, dparams);
        }
    }

    /// A normaliser that chooses a key: its values and weights have a gradient at that key, its
    /// scores that of the log-probability and of the entropy.
    pub(super) fn pick(
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
                None,
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
    pub(super) fn whole_rows(
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
        // Rows of few weights: a property of the row alone, so that its bits do not depend on its company.
        let mut few = 0;
        for i in 0..if call.normaliser.is_sparse() { rows } else { 0 } {
            let pieces = pairs.weights[panel.row(i)].chunks(KEYS);
            let n: usize = pieces.map(|piece| select::nonzero(piece).count_ones() as usize).sum();
            few |= u64::from(n <= support::FEW) << i;
        }
        let support = |weights: &[T], tile: &TileAt| {
            Support::of_sparse(call, weights, panel.stride, rows, tile.keys.len())
        };
        for span in panel.tiles() {
            tile.keys = span;
            let from = tile.keys.start - panel.start;
            let support = support(&pairs.weights[from..], tile);
            let few = support.as_ref().map(|support| (support, few));
            self.share_gradients(
                tile,
                of,
                0..rows,
                of_keys,
                pairs,
                from,
                panel.stride,
                few,
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
                let support = support(&pairs.weights[from..], tile).filter(Support::is_sparse);
                let (stride, support) = (panel.stride, support.as_ref());
                self.add_gradients(tile, cover, of, of_keys, pairs, from, stride, support, dparams);
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
        of_keys: &OfKeys<'_, T>,
        pairs: &mut Pairs<T>,
        from: usize,
        stride: usize,
        few: Option<(&Support, u64)>,
        dparams: &mut ParamGradients<T>,
    ) {
        let (call, rows, n) = (self.inputs.call, tile.queries.len(), tile.keys.len());
        let Pairs { weights, dscores, dfactors } = pairs;
        let dc = of.dc.rows(&of_rows);
        let (out, shares) = (&mut dscores[from..], &weights[from..]);
        if few.is_none_or(|(support, rows)| rows & support.all_rows() != support.all_rows()) {
            let left = Left::Rows { data: dc.data, stride: dc.stride };
            let right = of_keys.values.panels(&tile.keys);
            Product { c: &mut *out, stride, rows, left, right, alpha: T::ONE }.set();
        }
        if let Some((support, few)) = few {
            support.dots(out, stride, few, dc, of_keys.source, tile.keys.start, n);
        }
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
        support: Option<&Support>,
        dparams: &mut ParamGradients<T>,
    ) {
        let (call, d_v) = (self.inputs.call, self.inputs.call.dims.d_v);
        let OfQueries { queries, dq, dc, .. } = of;
        let Pairs { weights, dscores, .. } = pairs;
        let (dk, dv) = of_keys.sums.from(call, tile.keys.start);
        let g = &dscores[from..];
        of_keys.keys.backward(call, tile, cover, queries, g, stride, support, dq, dk, dparams);

        let weights = &mut weights[from..];
        if call.position.weighs() {
            call.position.weight_tile(tile, weights, stride);
        }
        if let Some(drop) = call.dropout
            && !fault::is(Fault::DropoutNotReplayed)
        {
            dropout::apply(drop, tile.at, tile.queries.clone(), tile.keys.clone(), weights, stride);
        }
        let width = padded_width(d_v);
        match support {
            Some(support) => {
                let rows = dc.panels_of(&(0..tile.queries.len()));
                support.add_by_key(dv, width, (weights, stride), T::ONE, rows);
            }
            None => dc.add_weighted_by_key(dv, width, cover, weights, stride, T::ONE),
        }
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
        let (head, rows) = (tile.at.head, tile.queries.len());
        let q_start = self.inputs.call.items[tile.at.item].q_start;
        let contexts = Source::new(self.context, q_start + tile.queries.start, head, d_v);
        let OfQueries { dc, mean, .. } = of;
        let dc = dc.all();
        simd::vectorise(
            #[inline(always)]
            move || {
                for (i, mean) in mean[..rows].iter_mut().enumerate() {
                    contexts.prefetch(i + AHEAD);
                    *mean = reduce::dot(contexts.row(i), dc.row(i));
                }
            },
        );
    }
}
