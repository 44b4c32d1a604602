//! A learned bias for every bucket of distances and every head.

use regard_tensor::Real;

use super::diagonals::Diagonals;
use super::{Position, distance};
use crate::catalogue::{Entry, Kind, Paper, example};
use crate::score::{Block, BlockMut};
use crate::{At, AttnError, Dims, Item, TileAt};

pub(crate) const ENTRY: Entry = Entry {
    name: "relative_bias",
    kind: Kind::Position,
    title: "relative bias by buckets of distance (T5)",
    formula: "s_ij ← s_ij + b[bucket(j − p_i), h]",
    parts: None,
    paper: Some(Paper {
        author: "Raffel",
        year: 2020,
        title: "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
        link: "https://arxiv.org/abs/1910.10683",
    }),
    taxonomy: None,
    shapes: "table b [n_buckets, n_heads] → one number a pair",
    cost: "one sum a pair, one bucket a distance; n_buckets·n_heads parameters",
    mistakes: &[
        "the distance as query − key: keys behind and before then change places",
        "buckets of both directions in a decoder, half of which it never meets",
        "a table of each layer's own: T5 has one for all layers of a stack",
        "the score divided by √d_k: T5 leaves its products as they are",
        "logarithms in f64: at some borders the published function, in f32, falls one bucket lower",
    ],
    example: example!(RelativeBias {
        table: &[0.5f32; 32 * 8],
        n_buckets: 32,
        max_distance: 128,
        bidirectional: true,
    }),
};

/// `bias_ij = b[bucket(j − p_i), h]`, one learned number for each bucket of distances and each
/// head.
///
/// Raffel et al. 2020, §2.1 (<https://arxiv.org/abs/1910.10683>), with the buckets of its published
/// code. Of n buckets for one direction, e = ⌊n/2⌋ hold one distance each and the others grow with
/// its logarithm up to `max_distance` D, behind which all share the last:
///
/// ```text
/// bucket(δ) = |δ|                                              |δ| < e
///             min(n − 1, e + ⌊ln(|δ|/e) / ln(D/e) · (n − e)⌋)  else
/// ```
///
/// `bidirectional` gives one half of the buckets to keys at or before the query and the other half,
/// which comes second, to those after it; otherwise keys after the query share bucket 0. As there,
/// the quotient of logarithms is taken in f32, which decides some borders.
///
/// Derivative: ∂L/∂b[u, h] = Σ of ∂L/∂s_ij over the pairs of bucket u.
///
/// ```
/// use regard_attn::position::RelativeBias;
///
/// let bias =
///     RelativeBias { table: &[0.0f32; 32], n_buckets: 32, max_distance: 128, bidirectional: true };
/// let of = |distances: [i64; 5]| distances.map(|distance| bias.bucket(distance));
/// assert_eq!(of([0, -1, -7, -8, -11]), [0, 1, 7, 8, 8]);
/// assert_eq!(of([-12, -64, -91, -127, -5000]), [9, 14, 15, 15, 15]);
/// assert_eq!(of([1, 7, 12, 64, 5000]), [17, 23, 25, 30, 31]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RelativeBias<'a, T> {
    /// b, `[n_buckets, n_heads]`.
    pub table: &'a [T],
    /// Buckets in all: at least 2, or with both directions at least 4 and even. 32 in the paper.
    pub n_buckets: usize,
    /// D, above the e of the formula. 128 in the paper.
    pub max_distance: usize,
    /// Whether keys after the query have buckets of their own.
    pub bidirectional: bool,
}

impl<T> RelativeBias<'_, T> {
    /// Buckets of one direction, and how many of them hold one distance.
    fn halves(&self) -> (usize, usize) {
        let of_one = if self.bidirectional { self.n_buckets / 2 } else { self.n_buckets };
        (of_one, of_one / 2)
    }

    /// The bucket of a distance, key − query, below `n_buckets`.
    pub fn bucket(&self, distance: i64) -> usize {
        let (n, exact) = self.halves();
        let after = if self.bidirectional && distance > 0 { n } else { 0 };
        let far = if distance > 0 && !self.bidirectional { 0 } else { distance.unsigned_abs() };
        if far < exact as u64 {
            return after + far as usize;
        }
        let ln = |x: f64| x.ln() as f32;
        let part = ln(f64::from(far as f32 / exact as f32))
            / ln(self.max_distance as f64 / exact as f64)
            * (n - exact) as f32;
        after + (exact + part as usize).min(n.saturating_sub(1))
    }

    /// `f(n, bucket)` for the n-th distance of a tile, in order.
    fn each_bucket(&self, diagonals: Diagonals, mut f: impl FnMut(usize, usize)) {
        let (first, last) = diagonals.ends();
        let (at_first, at_last) = (self.bucket(first), self.bucket(last));
        let index = |distance: i64| (distance - first) as usize;
        // On one side of the query, buckets go up or down with the distance, never both: far from the diagonal they are
        // all one, which saves their logarithms.
        if at_first == at_last && (first > 0 || last <= 0) {
            return (0..=index(last)).for_each(|n| f(n, at_first));
        }
        // Near it each distance has its own.
        let (n, exact) = self.halves();
        let (after, exact) = (if self.bidirectional { n } else { 0 }, exact as i64);
        let near = (1 - exact).max(first)..exact.min(last + 1);
        for distance in first..near.start.min(last + 1) {
            f(index(distance), self.bucket(distance));
        }
        for distance in near.start..near.end.min(1) {
            f(index(distance), -distance as usize);
        }
        for distance in near.start.max(1)..near.end {
            let of_one = if self.bidirectional { distance as usize } else { 0 };
            f(index(distance), after + of_one);
        }
        for distance in near.end.max(near.start).max(first)..=last {
            f(index(distance), self.bucket(distance));
        }
    }

    /// Where the number of a bucket stands in the table.
    fn place(&self, bucket: usize, head: usize) -> usize {
        bucket * (self.table.len() / self.n_buckets) + head
    }
}

impl<T: Real> Position<T> for RelativeBias<'_, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn check(&self, dims: Dims, _: &[Item]) -> Result<(), AttnError> {
        let Self { table, n_buckets, max_distance, bidirectional } = *self;
        if bidirectional {
            let ok = n_buckets >= 4 && n_buckets.is_multiple_of(2);
            AttnError::size(ok, "n_buckets", "even and at least 4, for two directions", n_buckets)?;
        } else {
            AttnError::size(n_buckets >= 2, "n_buckets", "at least 2", n_buckets)?;
        }
        let (_, exact) = self.halves();
        let expected = format_args!("above {exact}, the distances with a bucket of their own");
        AttnError::size(max_distance > exact, "max_distance", expected, max_distance)?;
        let n_heads = dims.n_heads;
        AttnError::size(
            n_buckets.checked_mul(n_heads) == Some(table.len()),
            "table",
            format_args!("n_buckets × n_heads = {n_buckets} × {n_heads} elements"),
            table.len(),
        )
    }

    fn n_params(&self) -> usize {
        self.table.len()
    }

    fn biases(&self) -> bool {
        true
    }

    fn bias(&self, at: At, query: usize, key: usize, _: &[T]) -> T {
        self.table[self.place(self.bucket(distance(at, query, key)), at.head)]
    }

    fn bias_backward(
        &self,
        at: At,
        query: usize,
        key: usize,
        _: &[T],
        g: T,
        _: &mut [T],
        dparams: &mut [T],
    ) {
        dparams[self.place(self.bucket(distance(at, query, key)), at.head)] += g;
    }

    fn bias_tile(&self, tile: &TileAt, _: Block<'_, T>, out: &mut [T], stride: usize) {
        if let Some(diagonals) = Diagonals::new(tile) {
            let (stride_of, head) = (self.table.len() / self.n_buckets, tile.at.head);
            diagonals.with_numbers(|values| {
                self.each_bucket(diagonals, |n, bucket| {
                    values[n] = self.table[bucket * stride_of + head];
                });
                diagonals.add(out, stride, values);
            });
        }
    }

    fn bias_tile_backward(
        &self,
        tile: &TileAt,
        _: Block<'_, T>,
        g: &[T],
        stride: usize,
        _: &mut BlockMut<'_, T>,
        dparams: &mut [T],
    ) {
        if let Some(diagonals) = Diagonals::new(tile) {
            let (stride_of, head) = (self.table.len() / self.n_buckets, tile.at.head);
            diagonals.with_numbers(|sums| {
                diagonals.add_sums(g, stride, sums);
                self.each_bucket(diagonals, |n, bucket| {
                    dparams[bucket * stride_of + head] += sums[n];
                });
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(
        n_buckets: usize,
        max_distance: usize,
        bidirectional: bool,
    ) -> RelativeBias<'static, f32> {
        RelativeBias { table: &[], n_buckets, max_distance, bidirectional }
    }

    #[test]
    fn keys_after_the_query_share_a_bucket_or_have_their_own() {
        let one = buckets(4, 8, false);
        let both = buckets(8, 8, true);
        for distance in 1..100 {
            assert_eq!(one.bucket(distance), 0);
            assert_eq!(both.bucket(distance), 4 + one.bucket(-distance));
            assert_eq!(both.bucket(-distance), one.bucket(-distance));
        }
        // Two exact, then [2, 4) and from 4 on.
        let row: Vec<usize> = (0..7).map(|n| one.bucket(-n)).collect();
        assert_eq!(row, [0, 1, 2, 2, 3, 3, 3]);
    }

    #[test]
    fn buckets_grow_with_the_distance_and_reach_the_last_before_the_largest() {
        for (n, max_distance) in [(2, 2), (2, 300), (3, 9), (9, 128), (32, 128), (64, 1024)] {
            let bias = buckets(n, max_distance, false);
            let row: Vec<usize> = (0..3000).map(|distance| bias.bucket(-distance)).collect();
            assert!(row.is_sorted() && row[0] == 0 && row[2999] == n - 1);
            assert_eq!(row[max_distance], n - 1);
        }
        assert_eq!(buckets(32, 128, false).bucket(i64::MIN), 31);
    }

    #[test]
    fn the_buckets_of_a_tile_are_those_of_its_distances() {
        for (n, max_distance, bidirectional) in
            [(2, 2, false), (9, 20, false), (4, 8, true), (32, 128, true), (64, 65, true)]
        {
            let bias = buckets(n, max_distance, bidirectional);
            for q_offset in (0..300).step_by(7) {
                let at = At { item: 0, head: 0, q_len: 40, kv_len: 200, q_offset };
                for (queries, keys) in
                    [(0..40, 100..164), (3..4, 0..1), (0..1, 50..60), (39..40, 120..200)]
                {
                    let diagonals = Diagonals::new(&TileAt { at, queries, keys }).unwrap();
                    let mut got = Vec::new();
                    bias.each_bucket(diagonals, |index, bucket| {
                        assert_eq!(index, got.len());
                        got.push(bucket);
                    });
                    let want: Vec<usize> = diagonals.distances().map(|d| bias.bucket(d)).collect();
                    assert_eq!(got, want, "{n} {max_distance} {bidirectional}");
                }
            }
        }
    }

    #[test]
    fn the_f32_of_the_published_function_decides_borders() {
        // ln(12/8) / ln(27/8) · 9 is exactly 3 and ln(18/8) / ln(27/8) · 9 exactly 6.
        let bias = buckets(17, 27, false);
        assert_eq!([-12, -13, -18, -19].map(|distance| bias.bucket(distance)), [10, 11, 13, 14]);
    }
}
