//! The queries of a sparse graph, one by one.

use regard_attn::At;
use regard_tensor::{Buffer, Real};

use super::{Forward, Scratch};
use crate::plan::{self, Unit};
use crate::rowwise::abreast::{self, HEADS, Heads, HeadsScratch};
use crate::rowwise::{self, Places, RowOf, RowScratch};

impl<'a, T: Real> Forward<'a, T> {
    /// All queries of a unit and of those beside it, one by one.
    pub(super) fn row_by_row(&self, unit: Unit, scratch: &mut Scratch<'a, T>) {
        const AT_ONCE: usize = 64;
        let (inputs, item, call) = (&self.inputs, self.inputs.item(unit), self.inputs.call);
        let units = rowwise::together(inputs, unit, rowwise::FORWARD_AT_ONCE);
        let pieces = item.q_len.div_ceil(AT_ONCE);
        let of_piece = |n: usize| n * AT_ONCE..item.q_len.min((n + 1) * AT_ONCE);
        // As if every query saw some ten keys.
        let heads: usize = units.iter().map(|unit| inputs.heads(*unit).len()).sum();
        let work = item.q_len * heads * 16 * (call.dims.d_k + call.dims.d_v);
        let Scratch { row, block, other_keys, .. } = scratch;
        if abreast::suited(call) {
            let groups: Vec<_> =
                units.chunks(HEADS).map(|units| Heads::new(inputs, units)).collect();
            let new = || (HeadsScratch::new(), RowScratch::new());
            let mut own = (std::mem::take(block), std::mem::take(row));
            plan::run(&mut own, pieces, work, new, |(block, row), n| {
                block.start();
                for query in of_piece(n) {
                    self.heads_abreast(&groups, query, block, row);
                }
            });
            (*block, *row) = own;
            return;
        }
        other_keys.resize_with(units.len().max(other_keys.len()), || Buffer::stale(0));
        let places: Vec<Places<'_, T>> = units
            .iter()
            .zip(other_keys)
            .map(|(unit, other)| Places::of(inputs, *unit, other))
            .collect();
        plan::run(row, pieces, work, RowScratch::new, |scratch, n| {
            for query in of_piece(n) {
                let at = call.at(unit.item, inputs.heads(unit).start);
                scratch.ahead(call, at, query, |key| places.iter().for_each(|p| p.prefetch(key)));
                for (unit, places) in units.iter().zip(&places) {
                    for head in inputs.heads(*unit) {
                        let (at, source) = (call.at(unit.item, head), inputs.queries(*unit, head));
                        let (context, lse, weights) = self.of_row(at, query);
                        context.fill(T::ZERO);
                        let row = RowOf { call, at, query, places: *places };
                        lse[0] = row.forward(source, scratch, context, weights);
                    }
                }
            }
        });
    }

    /// One query of heads that are taken side by side.
    fn heads_abreast(
        &self,
        groups: &[Heads<'_, T>],
        query: usize,
        block: &mut HeadsScratch<T>,
        row: &mut RowScratch<T>,
    ) {
        let Some(first) = groups.first() else { return };
        let call = self.inputs.call;
        block.list(call, first.at(), query, |key| groups.iter().for_each(|g| g.prefetch(key)));
        for heads in groups {
            let mut contexts: [&mut [T]; HEADS] = [(); HEADS].map(|()| &mut [][..]);
            let mut lses: [&mut [T]; HEADS] = [(); HEADS].map(|()| &mut [][..]);
            let mut weights = [const { None }; HEADS];
            for (l, head) in heads.range().enumerate() {
                let at = call.at(first.at().item, head);
                (contexts[l], lses[l], weights[l]) = self.of_row(at, query);
            }
            let lse = heads.forward(query, block, row, contexts, weights);
            for (out, lse) in lses.iter_mut().zip(lse) {
                out.fill(lse);
            }
        }
    }

    /// Where context, log-sum-exp and weights (zeros) of one query of one head go.
    #[allow(clippy::mut_from_ref, reason = "tasks have different (item, head, queries)")]
    fn of_row(&self, at: At, query: usize) -> (&mut [T], &mut [T], Option<&mut [T]>) {
        let call = self.inputs.call;
        let first = at.head * self.queries[call.items.len()] + self.queries[at.item] + query;
        let row = call.items[at.item].q_start + query;
        // SAFETY: tasks have different (item, head, queries), and each query its own context,
        // log-sum-exp and weights.
        unsafe {
            let weights = self.weights.as_ref().map(|(weights, offsets)| {
                let row = offsets[at.item] + (at.head * at.q_len + query) * at.kv_len;
                let weights = weights.part(row, at.kv_len);
                weights.fill(T::ZERO);
                weights
            });
            (self.context.row(row, at.head), self.lse.part(first, 1), weights)
        }
    }
}
