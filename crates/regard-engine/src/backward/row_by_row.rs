//! The queries of a sparse graph, one by one.

use regard_attn::{Call, TileAt};
use regard_tensor::{Buffer, Real, simd};

use super::{Backward, KeySums, Scratch};
use crate::gradients::Targets;
use crate::plan::Unit;
use crate::rowwise::abreast::Heads;
use crate::rowwise::by_key::{ByKey, Seen};
use crate::rowwise::{self, KeyRows, Looks, Places, RowOf, RowScratch};
use crate::score::ParamGradients;

impl<'a, T: Real> Backward<'a, T> {
    /// All queries of a unit and of those beside it, one by one.
    pub(super) fn row_by_row(
        &self,
        unit: Unit,
        scratch: &mut Scratch<'a, T>,
        dparams: &mut ParamGradients<T>,
    ) {
        let (inputs, call) = (&self.inputs, self.inputs.call);
        let units = rowwise::together(inputs, unit, rowwise::BACKWARD_AT_ONCE);
        if let Some(seen) = &self.seen[unit.item] {
            return self.by_key(&units, seen, scratch, dparams);
        }
        let Scratch { row: scratch, other_keys, .. } = scratch;
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

    /// All keys of heads that are taken side by side.
    fn by_key(
        &self,
        units: &[Unit],
        seen: &Seen,
        scratch: &mut Scratch<'a, T>,
        dparams: &mut ParamGradients<T>,
    ) {
        let Some(first) = units.first() else { return };
        let heads = Heads::new(&self.inputs, units);
        let Some(parts) = heads.parts() else { return };
        let (context, d_context, targets) = (self.context, self.d_context, &self.targets);
        let of = ByKey { heads: &heads, parts, context, d_context, targets };
        let stride = self.queries[self.inputs.call.items.len()];
        let lse = &self.lse[first.kv_head * stride + self.queries[first.item]..];
        of.run(seen, lse, stride, &mut scratch.of_keys, dparams);
    }

    /// What the loss looks at in one row.
    fn looks(&self, item: usize, head: usize, query: usize) -> Looks<'_, T> {
        let (call, up) = (self.inputs.call, self.upstream);
        let at = call.at(item, head);
        let first = self.first_row(&TileAt { at, queries: query..query + 1, keys: 0..0 });
        let weights = self.weights[item] + (head * at.q_len + query) * at.kv_len;
        let sums = head * self.keys[call.items.len()] + self.keys[item];
        Looks {
            dc: self.d_context.row(call.items[item].q_start + query, head, call.dims.d_v),
            d_weights: up.weights.map(|d| &d[weights..weights + at.kv_len]),
            d_key_sums: up.key_sums.map(|d| &d[sums..sums + at.kv_len]),
            d_entropy: up.entropy.map_or(T::ZERO, |d| d[first]),
            d_log_prob: up.log_prob.map_or(T::ZERO, |d| d[first]),
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
        let Some((first, ..)) = units.first() else { return };
        let (first, item) = (*first, inputs.item(*first));
        for query in 0..item.q_len {
            let at = call.at(first.item, inputs.heads(first).start);
            scratch.ahead(call, at, query, |key| {
                for (_, places, of_keys) in &mut *units {
                    places.prefetch(key);
                    simd::prefetch(of_keys.dk(key));
                    simd::prefetch(of_keys.dv(key));
                }
            });
            for (unit, places, of_keys) in &mut *units {
                for head in inputs.heads(*unit) {
                    let (at, source) = (call.at(unit.item, head), inputs.queries(*unit, head));
                    let looks = self.looks(unit.item, head, query);
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
