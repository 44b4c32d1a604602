//! Learned vectors of the clipped distance, beside keys and values.

use regard_tensor::{Real, kernels::reduce};

use super::clipped::{Clipped, Stretch, add_scaled};
use super::{Position, check_scale, distance};
use crate::catalogue::{Entry, Kind, Paper, example};
use crate::score::{Block, BlockMut};
use crate::{At, AttnError, Dims, Item, TileAt};

pub(crate) const ENTRY: Entry = Entry {
    name: "shaw",
    kind: Kind::Position,
    title: "relative keys and values (Shaw)",
    formula: "s_ij ← s_ij + scale·q_i·r^K_δ, c_i = Σ_j a_ij (v_j + r^V_δ), δ = j − p_i clipped to ±radius",
    parts: None,
    paper: Some(Paper {
        author: "Shaw",
        year: 2018,
        title: "Self-Attention with Relative Position Representations",
        link: "https://arxiv.org/abs/1803.02155",
    }),
    taxonomy: None,
    shapes: "tables r^K [2·radius + 1, d_k] and r^V [2·radius + 1, d_v] for all heads, or one for each head",
    cost: "d_k (and d_v) multiply-adds for each query and distance, one sum a pair; (2·radius + 1)·(d_k + d_v) \
           parameters, or as many for each head",
    mistakes: &[
        "the product with r^K left without the 1/√d_k that the score has",
        "the distance as query − key",
        "a [q_len, kv_len, d] array of vectors: each query needs one product a distance",
        "r^V added to the values without the weights, or after dropout of other weights",
    ],
    example: example!(Shaw { keys: &[0.5f32; 5 * 16], values: &[], radius: 2, scale: 0.25 }),
};

/// `bias_ij = scale·q_i·r^K_δ` and `value_ij = r^V_δ`, δ = j − p_i clipped to −radius..radius.
///
/// Shaw et al. 2018, equations 3 to 5 (<https://arxiv.org/abs/1803.02155>), with scale = 1/√d_k;
/// radius is the paper's k. A table serves all heads, as in the paper, or holds a part for each
/// head: its length tells. The parameters are those of r^K and then those of r^V.
///
/// A tile computes q_i·r^K_δ once for each query and distance, and sums the weights of each
/// distance before it multiplies them with r^V_δ. Derivatives: ∂s/∂q = scale·r^K_δ, ∂s/∂r^K_δ =
/// scale·q; ∂c/∂r^V_δ = Σ a_ij over the keys at δ.
///
/// ```
/// use regard_attn::position::{Position, Shaw};
/// use regard_attn::At;
///
/// // Vectors of the distances −1, 0 and 1.
/// let keys = [1.0f64, 0.0, 0.0, 1.0, 2.0, 2.0];
/// let shaw = Shaw { keys: &keys, values: &[5.0, 6.0, 7.0], radius: 1, scale: 0.5 };
/// let at = At { item: 0, head: 0, q_len: 4, kv_len: 4, q_offset: 0 };
/// let row = [0, 1, 2, 3].map(|key| shaw.bias(at, 2, key, &[4.0, 8.0]));
/// assert_eq!(row, [2.0, 2.0, 4.0, 12.0]); // distances −2, −1, 0 and 1
/// let mut context = [0.0];
/// shaw.add_value(at, 2, 0, 0.5, &mut context);
/// assert_eq!(context, [2.5]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shaw<'a, T> {
    /// r^K, `[2·radius + 1, d_k]` for all heads or `[n_heads, 2·radius + 1, d_k]`.
    pub keys: &'a [T],
    /// r^V, `[2·radius + 1, d_v]` or `[n_heads, 2·radius + 1, d_v]`; empty for none.
    pub values: &'a [T],
    /// The farthest distance with a vector of its own.
    pub radius: usize,
    /// Factor on the product, finite: that of the score, 1/√d_k in the paper.
    pub scale: T,
}

impl<'a, T: Real> Shaw<'a, T> {
    fn keys(&self, d_k: usize) -> Clipped<'a, T> {
        Clipped { data: self.keys, radius: self.radius, width: d_k }
    }

    fn values(&self, d_v: usize) -> Clipped<'a, T> {
        Clipped { data: self.values, radius: self.radius, width: d_v }
    }

    /// The vector of a pair's distance in `table`, and where it stands.
    fn pair(
        table: Clipped<'a, T>,
        at: At,
        query: usize,
        key: usize,
    ) -> (&'a [T], std::ops::Range<usize>) {
        let place = table.place(distance(at, query, key));
        (table.row(at.head, place), table.at(at.head, place))
    }
}

/// For each query of a tile, its row and the distances of the keys.
fn rows<'a, T: Real>(
    tile: &'a TileAt,
    table: Clipped<'a, T>,
) -> impl Iterator<Item = (usize, Stretch)> + use<'a, T> {
    tile.queries.clone().enumerate().map(move |(i, query)| {
        let from = distance(tile.at, query, tile.keys.start);
        (i, table.stretch(from, tile.keys.len()))
    })
}

impl<T: Real> Position<T> for Shaw<'_, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn check(&self, dims: Dims, _: &[Item]) -> Result<(), AttnError> {
        check_scale(self.scale)?;
        self.keys(dims.d_k).check("keys", "d_k", dims.n_heads, false)?;
        self.values(dims.d_v).check("values", "d_v", dims.n_heads, true)
    }

    fn n_params(&self) -> usize {
        self.keys.len() + self.values.len()
    }

    fn biases(&self) -> bool {
        true
    }

    fn bias(&self, at: At, query: usize, key: usize, q: &[T]) -> T {
        let (row, _) = Self::pair(self.keys(q.len()), at, query, key);
        self.scale * reduce::dot(q, row)
    }

    fn bias_backward(
        &self,
        at: At,
        query: usize,
        key: usize,
        q: &[T],
        g: T,
        dq: &mut [T],
        dparams: &mut [T],
    ) {
        let (row, place) = Self::pair(self.keys(q.len()), at, query, key);
        add_scaled(dq, self.scale * g, row);
        add_scaled(&mut dparams[place], self.scale * g, q);
    }

    fn bias_tile(&self, tile: &TileAt, q: Block<'_, T>, out: &mut [T], stride: usize) {
        let (table, mut dots) = (self.keys(q.width), Vec::new());
        for (i, stretch) in rows(tile, table) {
            table.dots(tile.at.head, stretch, q.row(i), &mut dots);
            for (out, place) in out[i * stride..].iter_mut().zip(stretch.places()) {
                *out += self.scale * dots[place];
            }
        }
    }

    fn bias_tile_backward(
        &self,
        tile: &TileAt,
        q: Block<'_, T>,
        g: &[T],
        stride: usize,
        dq: &mut BlockMut<'_, T>,
        dparams: &mut [T],
    ) {
        let (table, mut sums) = (self.keys(q.width), Vec::new());
        for (i, stretch) in rows(tile, table) {
            stretch.sum(&g[i * stride..], &mut sums);
            for sum in &mut sums {
                *sum *= self.scale;
            }
            table.add_sum(tile.at.head, stretch, &sums, dq.row(i));
            table.add_to_each(tile.at.head, stretch, &sums, q.row(i), dparams);
        }
    }

    fn has_values(&self) -> bool {
        !self.values.is_empty()
    }

    fn add_value(&self, at: At, query: usize, key: usize, a: T, context: &mut [T]) {
        if self.has_values() {
            let (row, _) = Self::pair(self.values(context.len()), at, query, key);
            add_scaled(context, a, row);
        }
    }

    fn value_dot(&self, at: At, query: usize, key: usize, dc: &[T]) -> T {
        if !self.has_values() {
            return T::ZERO;
        }
        let (row, _) = Self::pair(self.values(dc.len()), at, query, key);
        reduce::dot(dc, row)
    }

    fn value_backward(&self, at: At, query: usize, key: usize, a: T, dc: &[T], dparams: &mut [T]) {
        if self.has_values() {
            let (_, place) = Self::pair(self.values(dc.len()), at, query, key);
            add_scaled(&mut dparams[self.keys.len()..][place], a, dc);
        }
    }

    fn value_tile(
        &self,
        tile: &TileAt,
        weights: &[T],
        stride: usize,
        context: &mut BlockMut<'_, T>,
    ) {
        if !self.has_values() {
            return;
        }
        let (table, mut sums) = (self.values(context.width), Vec::new());
        for (i, stretch) in rows(tile, table) {
            stretch.sum(&weights[i * stride..], &mut sums);
            table.add_sum(tile.at.head, stretch, &sums, context.row(i));
        }
    }

    fn value_dot_tile(&self, tile: &TileAt, dc: Block<'_, T>, out: &mut [T], stride: usize) {
        if !self.has_values() {
            return;
        }
        let (table, mut dots) = (self.values(dc.width), Vec::new());
        for (i, stretch) in rows(tile, table) {
            table.dots(tile.at.head, stretch, dc.row(i), &mut dots);
            for (out, place) in out[i * stride..].iter_mut().zip(stretch.places()) {
                *out += dots[place];
            }
        }
    }

    fn value_tile_backward(
        &self,
        tile: &TileAt,
        weights: &[T],
        stride: usize,
        dc: Block<'_, T>,
        dparams: &mut [T],
    ) {
        if !self.has_values() {
            return;
        }
        let (table, mut sums) = (self.values(dc.width), Vec::new());
        let dvalues = &mut dparams[self.keys.len()..];
        for (i, stretch) in rows(tile, table) {
            stretch.sum(&weights[i * stride..], &mut sums);
            table.add_to_each(tile.at.head, stretch, &sums, dc.row(i), dvalues);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_testkit::random_vec;

    #[test]
    fn a_table_of_each_head_that_repeats_one_is_that_one() {
        let (one, q) = (random_vec(1, 5 * 3), random_vec(2, 3));
        let each = [one.clone(), one.clone()].concat();
        let bias = |keys: &[f64], head| {
            let at = At { item: 0, head, q_len: 3, kv_len: 9, q_offset: 2 };
            let shaw = Shaw { keys, values: &[], radius: 2, scale: 0.5 };
            (0..9).map(|key| shaw.bias(at, 1, key, &q)).collect::<Vec<_>>()
        };
        assert_eq!(bias(&each, 1), bias(&one, 1));
        // The query stands at 3: keys 0 and 1 share the vector of −2, keys 5 to 8 that of 2.
        let row = bias(&one, 0);
        assert!(row[0] == row[1] && row[1] != row[2] && row[4] != row[5] && row[5] == row[8]);
    }
}
