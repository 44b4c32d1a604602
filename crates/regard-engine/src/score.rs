//! A tile of scores and its derivative: the score, by its lowering, position's bias, then the scope.

use std::ops::Range;

use regard_attn::score::{Block, BlockMut};
use regard_attn::{At, Call, Coverage, Lowering, Position, Scope, TileAt};
use regard_tensor::{Buffer, Real, simd};

use crate::cover::Cover;
use crate::fault::{self, Fault};
use crate::kernel::padded;
use crate::pack::{self, Across, Along, Source, padded_width};
use crate::support::Support;
use regard_tensor::kernels::few::{self, Lines};
use regard_tensor::kernels::product::{Left, Product};

/// Pairs of a part of a tile that are asked for one by one.
const ONE_BY_ONE: usize = 64;

/// Calls `forbidden(query, keys)` for the stretches of a tile that the scope forbids.
///
/// A tile that is neither whole nor forbidden is halved until its parts are one of both or small:
/// along the border of a causal scope, that asks for an eighth of the pairs.
pub(crate) fn forbid(
    scope: &dyn Scope,
    at: At,
    queries: Range<usize>,
    keys: Range<usize>,
    forbidden: &mut impl FnMut(usize, Range<usize>),
) {
    match scope.tile(at, queries.clone(), keys.clone()) {
        Coverage::Whole => {}
        Coverage::Skip => queries.for_each(|i| forbidden(i, keys.clone())),
        Coverage::Partial if queries.len() * keys.len() <= ONE_BY_ONE => {
            for i in queries {
                for j in keys.clone() {
                    if !scope.allows(at, i, j) {
                        forbidden(i, j..j + 1);
                    }
                }
            }
        }
        Coverage::Partial if queries.len() >= keys.len() => {
            let middle = queries.start + queries.len() / 2;
            forbid(scope, at, queries.start..middle, keys.clone(), forbidden);
            forbid(scope, at, middle..queries.end, keys, forbidden);
        }
        Coverage::Partial => {
            let middle = keys.start + keys.len() / 2;
            forbid(scope, at, queries.clone(), keys.start..middle, forbidden);
            forbid(scope, at, queries, middle..keys.end, forbidden);
        }
    }
}

/// Writes `value` at every pair of a tile that the scope forbids.
pub(crate) fn fill_forbidden<T: Real>(
    scope: &dyn Scope,
    tile: &TileAt,
    value: T,
    out: &mut [T],
    stride: usize,
) {
    let (at, queries, keys) = (tile.at, tile.queries.clone(), tile.keys.clone());
    if scope.contiguous() {
        if scope.tile(at, queries.clone(), keys.clone()) != Coverage::Whole {
            let n = keys.len();
            for (i, row) in queries.zip(out.chunks_mut(stride)) {
                let seen = scope.keys(at, i..i + 1);
                let from = seen.start.clamp(keys.start, keys.end) - keys.start;
                let to = (seen.end.clamp(keys.start, keys.end) - keys.start).max(from);
                row[..from].fill(value);
                row[to..n].fill(value);
            }
        }
        return;
    }
    forbid(scope, at, queries, keys, &mut |i, stretch| {
        let row = (i - tile.queries.start) * stride;
        let (from, to) = (stretch.start - tile.keys.start, stretch.end - tile.keys.start);
        out[row + from..row + to].fill(value);
    });
}

/// The keys of one unit, in the layout that the score asks for.
#[derive(Debug)]
pub(crate) struct Keys<'a, T: Real> {
    /// The score's, asked once.
    lowering: Lowering<T>,
    /// Where they lie, if they are read there.
    given: Option<Source<'a, T>>,
    across: Across<T>,
    /// The keys, turned, where anything but `across` reads them.
    along: Along<T>,
}

impl<'a, T: Real> Keys<'a, T> {
    pub(crate) fn new(call: &Call<'_, T>) -> Self {
        let lowering = call.score.lowering();
        Self { lowering, given: None, across: Across::new(), along: Along::new() }
    }

    /// Where keys are read as they lie.
    pub(crate) fn given(&self) -> Option<Source<'a, T>> {
        self.given
    }

    /// As [`Keys::pack`] without backward, for so many queries: the products of a few read the keys where they
    /// lie.
    pub(crate) fn take(
        &mut self,
        call: &Call<'_, T>,
        source: Source<'a, T>,
        kv_head: usize,
        len: usize,
        queries: usize,
    ) {
        let product = matches!(self.lowering, Lowering::Product { .. });
        let as_given = !call.score.has_own_keys() && !call.position.turns();
        if queries <= few::MOST && product && as_given {
            self.given = Some(source);
        } else {
            self.pack(call, source, kv_head, len, false);
        }
    }

    /// Takes the keys of key head `kv_head`, the score's own where it has such, turns them and
    /// packs what [`Keys::scores`] reads, and [`Keys::backward`] if it will be called.
    pub(crate) fn pack(
        &mut self,
        call: &Call<'_, T>,
        source: Source<'a, T>,
        kv_head: usize,
        len: usize,
        with_backward: bool,
    ) {
        let Self { lowering, given, across, along } = self;
        *given = None;
        let product = matches!(lowering, Lowering::Product { .. });
        if call.score.has_own_keys() {
            let d_k = call.dims.d_k;
            let own: Vec<T> =
                (0..len).flat_map(|j| call.score.own_key(kv_head, j)).copied().collect();
            along.pack_turned(Source::dense(&own, d_k), 0..len, call.position, 0);
        } else if call.position.turns() || with_backward || !product {
            along.pack_turned(source, 0..len, call.position, 0);
        } else {
            across.pack(source, len);
            return;
        }
        if product {
            across.pack(along.source(), len);
        }
    }

    /// `s_ij = factor·(score(q_i, k_j) + bias_ij)`, and −∞ where the scope forbids the pair or where
    /// columns only fill up the last lanes. Returns the parts that may be allowed; none, and leaves `out` as it is, if the
    /// scope forbids all.
    pub(crate) fn scores(
        &self,
        call: &Call<'_, T>,
        tile: &TileAt,
        q: Block<'_, T>,
        factor: T,
        out: &mut [T],
        stride: usize,
    ) -> Option<Cover> {
        let cover = Cover::of(call.scope, tile)?;
        cover.fill_outside(T::NEG_INFINITY, out, stride);
        for part in cover.parts() {
            let of_part = part.of(tile);
            let data = &q.data[part.rows.start * q.stride..];
            let q = Block { data, rows: part.rows.len(), ..q };
            self.part_scores(call, &of_part, q, factor, &mut out[part.first(stride)..], stride);
        }
        Some(cover)
    }

    /// The scores of one part, which is `tile`; `out` begins with it.
    fn part_scores(
        &self,
        call: &Call<'_, T>,
        tile: &TileAt,
        q: Block<'_, T>,
        factor: T,
        out: &mut [T],
        stride: usize,
    ) {
        let (rows, n) = (tile.queries.len(), tile.keys.len());
        let biases = call.position.biases();
        let drop_scale = fault::is(Fault::DroppedScale);
        let mut left_to_scale = factor;
        match self.lowering {
            Lowering::Product { scale } => {
                let scale = if drop_scale { T::ONE } else { scale };
                let alpha = if biases { scale } else { scale * factor };
                left_to_scale = if biases { factor } else { T::ONE };
                self.products(&tile.keys, q, alpha, out, stride);
            }
            Lowering::Tile => {
                call.score.tile(tile.at.head, q, self.along.rows(&tile.keys), out, stride);
            }
        }
        if biases {
            call.position.bias_tile(tile, q, out, stride);
        }
        if left_to_scale != T::ONE {
            scale_tile(left_to_scale, out, stride, rows, n);
        }
        for i in 0..rows {
            let filler = if fault::is(Fault::UnfilledLanes) { T::ZERO } else { T::NEG_INFINITY };
            out[i * stride + n..i * stride + padded(n)].fill(filler);
        }
        if !fault::is(Fault::LeakedMask) {
            fill_forbidden(call.scope, tile, T::NEG_INFINITY, out, stride);
        }
    }

    /// `α·q_i·k_j` for the keys of a tile.
    fn products(
        &self,
        keys: &Range<usize>,
        q: Block<'_, T>,
        alpha: T,
        out: &mut [T],
        stride: usize,
    ) {
        let Block { data, rows, width, stride: of_q } = q;
        if let Some(given) = self.given {
            let (of_keys, of_k) = given.from(keys.start);
            let q = Lines { data, stride: of_q, rows };
            let k = Lines { data: of_keys, stride: of_k, rows: keys.len() };
            few::dots(q, k, width, alpha, out, stride);
            return;
        }
        let (left, right) = (Left::Rows { data, stride: of_q }, self.across.panels(keys));
        Product { c: out, stride, rows, left, right, alpha }.set();
    }

    /// With `g_ij = ∂L/∂s_ij` (0 where forbidden, in no part of `cover` or outside of `support`), adds the gradients of the score and of position's
    /// bias in the tile to `dq` and `dk`, whose rows are [`padded_width`]`(d_k)` apart and begin with
    /// the tile's, and to the parameters'.
    pub(crate) fn backward(
        &self,
        call: &Call<'_, T>,
        tile: &TileAt,
        cover: Cover,
        q: &Queries<T>,
        g: &[T],
        stride: usize,
        support: Option<&Support>,
        dq: &mut [T],
        dk: &mut [T],
        dparams: &mut ParamGradients<T>,
    ) {
        let (rows, n, d_k) = (tile.queries.len(), tile.keys.len(), call.dims.d_k);
        let width = padded_width(d_k);
        if call.position.biases() && !fault::is(Fault::LostBias) {
            let q = q.rows();
            let mut dq = BlockMut { data: &mut *dq, rows, width: d_k, stride: width };
            bias_backward(call.position, tile, q, g, stride, &mut dq, &mut dparams.position);
        }
        let dparams = &mut dparams.score;
        match self.lowering {
            Lowering::Product { scale } if let Some(support) = support => {
                support.add(dq, width, (g, stride), scale, self.along.panels_of(&tile.keys));
                support.add_by_key(dk, width, (g, stride), scale, q.along.panels_of(&(0..rows)));
            }
            Lowering::Product { scale } => {
                // s_ij = scale·q_i·k_j: dq_i += scale·Σ_j g_ij k_j, dk_j += scale·Σ_i g_ij q_i.
                for part in cover.parts() {
                    let left = Left::Rows { data: &g[part.first(stride)..], stride };
                    let dq = &mut dq[part.rows.start * width..];
                    let (m, keys) = (part.rows.len(), part.of(tile).keys);
                    self.along.add_weighted(dq, width, m, left, scale, &keys);
                }
                q.along.add_weighted_by_key(dk, width, cover, g, stride, scale);
            }
            Lowering::Tile => {
                let finite = q.along.all_finite() && self.along.all_finite();
                let (q, k) = (q.rows(), self.along.rows(&tile.keys));
                let mut dq = BlockMut { data: dq, rows, width: d_k, stride: width };
                let mut dk = BlockMut { data: dk, rows: n, width: d_k, stride: width };
                let (score, head) = (call.score, tile.at.head);
                if finite {
                    score.tile_backward(head, q, k, g, stride, &mut dq, &mut dk, dparams);
                    return;
                }
                let part = FinitePart::new(q, k, g, stride);
                let (finite_q, finite_k) =
                    (FinitePart::block(&part.q, d_k), FinitePart::block(&part.k, d_k));
                let g = &part.g;
                score.tile_backward(head, finite_q, finite_k, g, n, &mut dq, &mut dk, dparams);
                for (i, j, g) in part.odd {
                    let (q, k) = (q.row(i), k.row(j));
                    score.pair_backward(head, q, k, g, dq.row(i), dk.row(j), dparams);
                }
            }
        }
    }
}

/// A tile of which some queries or keys hold NaN or an infinity: a derivative may multiply those by g = 0,
/// behind a mask, and must not see them. The others are computed as if these were zero.
pub(crate) struct FinitePart<T> {
    pub(crate) q: Vec<T>,
    pub(crate) k: Vec<T>,
    /// Without gaps, 0 where the query or the key is not finite.
    pub(crate) g: Vec<T>,
    /// Such pairs, if g is not 0 there, with g.
    pub(crate) odd: Vec<(usize, usize, T)>,
}

impl<T: Real> FinitePart<T> {
    pub(crate) fn new(q: Block<'_, T>, k: Block<'_, T>, g: &[T], stride: usize) -> Self {
        let finite = |block: Block<'_, T>| -> Vec<bool> {
            (0..block.rows).map(|i| pack::all_finite(block.row(i))).collect()
        };
        let copy = |block: Block<'_, T>, finite: &[bool]| -> Vec<T> {
            let row = |i: usize| block.row(i).iter().map(move |x| (i, *x));
            let rows = (0..block.rows).flat_map(row);
            rows.map(|(i, x)| if finite[i] { x } else { T::ZERO }).collect()
        };
        let (finite_q, finite_k) = (finite(q), finite(k));
        let mut part = Self {
            q: copy(q, &finite_q),
            k: copy(k, &finite_k),
            g: Vec::with_capacity(q.rows * k.rows),
            odd: Vec::new(),
        };
        for i in 0..q.rows {
            for j in 0..k.rows {
                let g = g[i * stride + j];
                let is_finite = finite_q[i] && finite_k[j];
                part.g.push(if is_finite { g } else { T::ZERO });
                if !is_finite && g != T::ZERO {
                    part.odd.push((i, j, g));
                }
            }
        }
        part
    }

    pub(crate) fn block(data: &[T], width: usize) -> Block<'_, T> {
        Block { data, rows: data.len() / width, width, stride: width }
    }
}

/// `out_ij *= factor` on `n` columns.
pub(crate) fn scale_tile<T: Real>(factor: T, out: &mut [T], stride: usize, rows: usize, n: usize) {
    for row in out.chunks_mut(stride).take(rows) {
        let row = &mut row[..n];
        simd::vectorise(
            #[inline(always)]
            move || {
                for s in row {
                    *s *= factor;
                }
            },
        );
    }
}

/// Adds the gradients of position's bias.
fn bias_backward<T: Real>(
    position: &dyn Position<T>,
    tile: &TileAt,
    q: Block<'_, T>,
    g: &[T],
    stride: usize,
    dq: &mut BlockMut<'_, T>,
    dparams: &mut [T],
) {
    if (0..q.rows).all(|i| pack::all_finite(q.row(i))) {
        position.bias_tile_backward(tile, q, g, stride, dq, dparams);
        return;
    }
    // The keys of the tile, which a bias does not read, are as many as they are.
    let none = Block { data: &[], rows: tile.keys.len(), width: 0, stride: 0 };
    let part = FinitePart::new(q, none, g, stride);
    let finite = FinitePart::block(&part.q, q.width);
    position.bias_tile_backward(tile, finite, &part.g, tile.keys.len(), dq, dparams);
    for (i, j, g) in part.odd {
        let (query, key) = (tile.queries.start + i, tile.keys.start + j);
        position.bias_backward(tile.at, query, key, q.row(i), g, dq.row(i), dparams);
    }
}

/// Sums of the gradients of parameters.
#[derive(Debug)]
pub(crate) struct ParamGradients<T: Real> {
    pub(crate) score: Buffer<T>,
    pub(crate) position: Buffer<T>,
}

impl<T: Real> ParamGradients<T> {
    pub(crate) fn zeros(call: &Call<'_, T>) -> Self {
        Self {
            score: Buffer::zeroed(call.score.n_params()),
            position: Buffer::zeroed(call.position.n_params()),
        }
    }
}

/// The queries of one tile, turned.
#[derive(Debug)]
pub(crate) struct Queries<T: Real> {
    along: Along<T>,
}

impl<T: Real> Queries<T> {
    pub(crate) fn new() -> Self {
        Self { along: Along::new() }
    }

    /// Copies and turns the queries of a tile, of which the item's first stands at
    /// `first_position`.
    pub(crate) fn pack(
        &mut self,
        call: &Call<'_, T>,
        source: Source<'_, T>,
        first_position: usize,
        queries: Range<usize>,
    ) {
        let first_position = if fault::is(Fault::OffsetIgnored) { 0 } else { first_position };
        let first = first_position + queries.start;
        self.along.pack_turned(source, queries, call.position, first);
    }

    /// The queries, one row each.
    pub(crate) fn rows(&self) -> Block<'_, T> {
        self.along.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allows what a rule says; its hints are exact.
    #[derive(Debug)]
    struct Rule(fn(usize, usize) -> bool, bool);

    impl Scope for Rule {
        fn name(&self) -> &'static str {
            "rule"
        }
        fn allows(&self, _: At, query: usize, key: usize) -> bool {
            (self.0)(query, key)
        }
        fn tile(&self, at: At, queries: Range<usize>, keys: Range<usize>) -> Coverage {
            let pairs = || queries.clone().flat_map(|i| keys.clone().map(move |j| (i, j)));
            let all = |allowed| pairs().all(|(i, j)| self.allows(at, i, j) == allowed);
            match (self.1, all(true), all(false)) {
                (true, true, _) => Coverage::Whole,
                (true, _, true) => Coverage::Skip,
                _ => Coverage::Partial,
            }
        }
    }

    #[test]
    fn what_is_forbidden_is_filled_and_nothing_else() {
        let at = At { item: 0, head: 0, q_len: 200, kv_len: 200, q_offset: 0 };
        let rules: [fn(usize, usize) -> bool; 5] = [
            |i, j| j <= i,
            |i, j| (i * 7 + j * 3) % 5 == 0,
            |_, j| j < 77,
            |_, _| true,
            |_, _| false,
        ];
        for rule in rules {
            for hints in [false, true] {
                for (queries, keys) in [(64..128, 64..128), (3..4, 70..129), (64..111, 0..1)] {
                    let tile = TileAt { at, queries: queries.clone(), keys: keys.clone() };
                    let mut out = vec![0.0; queries.len() * 80];
                    fill_forbidden(&Rule(rule, hints), &tile, 1.0, &mut out, 80);
                    for (i, row) in queries.zip(out.chunks(80)) {
                        for j in 0..80 {
                            let inside = j < keys.len();
                            let want = inside && !rule(i, keys.start + j);
                            assert_eq!(row[j] == 1.0, want, "{i} {j}");
                        }
                    }
                }
            }
        }
    }
}
