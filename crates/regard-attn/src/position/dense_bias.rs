//! A bias that the caller gives, number by number.

use regard_tensor::Real;

use super::Position;
use crate::catalogue::{Entry, Kind, example};
use crate::score::{Block, BlockMut};
use crate::{At, AttnError, Dims, Item, TileAt};

pub(crate) const ENTRY: Entry = Entry {
    name: "dense_bias",
    kind: Kind::Position,
    title: "given bias",
    formula: "s_ij ← s_ij + b[item, h, i, j], axes of size 1 repeated",
    parts: None,
    paper: None,
    taxonomy: None,
    shapes: "b [items or 1, n_heads or 1, q_len or 1, kv_len or 1] → one number a pair",
    cost: "one sum a pair; as many numbers as b has",
    mistakes: &[
        "a mask as large negative numbers: forbid keys by a scope",
        "an array of q_len × kv_len where a formula or a table of distances would do",
        "the bias scaled together with the product",
    ],
    example: example!(DenseBias { data: &[0.5f32, 0.0, -1.0], sizes: [1, 1, 1, 3] }),
};

/// `bias_ij = b[item, h, i, j]`, where an axis of size 1 stands for all.
///
/// The axes of queries and of keys are as long as the longest item, or longer; shorter items use
/// the beginning. i counts from the item's first query, whatever its position. The numbers are the
/// parameters: the gradient comes out in the sizes of b, summed over what was repeated. −∞ forbids
/// a key as a scope does, but its work is done all the same; not under
/// [`Identity`](crate::normaliser::Identity), which passes gradients on whatever the weight is.
///
/// ```
/// use regard_attn::position::{DenseBias, Position};
/// use regard_attn::At;
///
/// // One number for each of two heads and three keys, the same for all items and queries.
/// let bias = DenseBias { data: &[0.0f64, 1.0, 2.0, 10.0, 11.0, 12.0], sizes: [1, 2, 1, 3] };
/// let at = At { item: 5, head: 1, q_len: 9, kv_len: 3, q_offset: 0 };
/// assert_eq!([0, 1, 2].map(|key| bias.bias(at, 8, key, &[])), [10.0, 11.0, 12.0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DenseBias<'a, T> {
    /// b, row-major.
    pub data: &'a [T],
    /// Items or 1, heads or 1, queries or 1, keys or 1.
    pub sizes: [usize; 4],
}

impl<T> DenseBias<'_, T> {
    /// Where the row of a query begins.
    fn row(&self, at: At, query: usize) -> usize {
        let [items, heads, queries, keys] = self.sizes;
        let index = |n: usize, size: usize| if size == 1 { 0 } else { n };
        let row = (index(at.item, items) * heads + index(at.head, heads)) * queries;
        (row + index(query, queries)) * keys
    }

    fn place(&self, at: At, query: usize, key: usize) -> usize {
        self.row(at, query) + if self.one_a_row() { 0 } else { key }
    }

    /// Whether all keys share a number.
    fn one_a_row(&self) -> bool {
        self.sizes[3] == 1
    }
}

impl<T: Real> Position<T> for DenseBias<'_, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn check(&self, dims: Dims, items: &[Item]) -> Result<(), AttnError> {
        let [n_items, n_heads, queries, keys] = self.sizes;
        let longest = |len: fn(&Item) -> usize| items.iter().map(len).max().unwrap_or(0);
        let (q_len, kv_len) = (longest(|item| item.q_len), longest(|item| item.kv_len));
        let (n, heads) = (items.len(), dims.n_heads);
        let axis = |ok, axis, least, actual| {
            AttnError::size(ok, axis, format_args!("1 or {least}"), actual)
        };
        axis(n_items == 1 || n_items == n, "bias items", format!("the {n} items"), n_items)?;
        axis(
            n_heads == 1 || n_heads == heads,
            "bias heads",
            format!("the {heads} heads"),
            n_heads,
        )?;
        let at_least = |len: usize| format!("at least {len}, the longest item's");
        axis(queries == 1 || queries >= q_len, "bias queries", at_least(q_len), queries)?;
        axis(keys == 1 || keys >= kv_len, "bias keys", at_least(kv_len), keys)?;
        let len = self.sizes.iter().try_fold(1usize, |len, size| len.checked_mul(*size));
        AttnError::size(
            len == Some(self.data.len()),
            "bias",
            format_args!("{n_items} × {n_heads} × {queries} × {keys} elements"),
            self.data.len(),
        )
    }

    fn n_params(&self) -> usize {
        self.data.len()
    }

    fn biases(&self) -> bool {
        true
    }

    fn bias(&self, at: At, query: usize, key: usize, _: &[T]) -> T {
        self.data[self.place(at, query, key)]
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
        dparams[self.place(at, query, key)] += g;
    }

    fn bias_tile(&self, tile: &TileAt, _: Block<'_, T>, out: &mut [T], stride: usize) {
        for (i, query) in tile.queries.clone().enumerate() {
            let out = &mut out[i * stride..][..tile.keys.len()];
            let row = &self.data[self.row(tile.at, query)..];
            if self.one_a_row() {
                for out in out {
                    *out += row[0];
                }
            } else {
                for (out, b) in out.iter_mut().zip(&row[tile.keys.start..]) {
                    *out += *b;
                }
            }
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
        for (i, query) in tile.queries.clone().enumerate() {
            let g = &g[i * stride..][..tile.keys.len()];
            let row = &mut dparams[self.row(tile.at, query)..];
            if self.one_a_row() {
                for g in g {
                    row[0] += *g;
                }
            } else {
                for (d, g) in row[tile.keys.start..].iter_mut().zip(g) {
                    *d += *g;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_may_be_one() {
        let full = [2, 3, 4, 5];
        for repeated in 0..16usize {
            let sizes = [0, 1, 2, 3].map(|n| if repeated >> n & 1 == 1 { 1 } else { full[n] });
            let data: Vec<f64> = (0..sizes.iter().product()).map(|n| n as f64).collect();
            let bias = DenseBias { data: &data, sizes };
            let mut counts = vec![0.0; data.len()];
            for item in 0..2 {
                for head in 0..3 {
                    let at = At { item, head, q_len: 4, kv_len: 5, q_offset: 7 };
                    for query in 0..4 {
                        for key in 0..5 {
                            let at_axis = [item, head, query, key];
                            let want = (0..4).fold(0, |place, n| {
                                place * sizes[n] + if sizes[n] == 1 { 0 } else { at_axis[n] }
                            });
                            assert_eq!(bias.bias(at, query, key, &[]), want as f64);
                            bias.bias_backward(at, query, key, &[], 1.0, &mut [], &mut counts);
                        }
                    }
                }
            }
            // Every number serves as many pairs.
            assert!(counts.iter().all(|n| *n == 120.0 / data.len() as f64));
        }
    }
}
