//! Learned vectors of the distances in rows and in columns.

use std::ops::Range;

use regard_tensor::{Real, kernels::reduce};

use super::clipped::{Clipped, Stretch, add_scaled};
use super::grid::Run;
use super::{Grid, Position, check_scale};
use crate::catalogue::{Entry, Kind, Paper, example};
use crate::score::{Block, BlockMut};
use crate::{At, AttnError, Dims, Item, TileAt};

pub(crate) const ENTRY: Entry = Entry {
    name: "relative_2d",
    kind: Kind::Position,
    title: "relative in two dimensions (stand-alone self-attention)",
    formula: "s_ij ← s_ij + scale·q_i·[R^row_δy ; R^col_δx], (δy, δx) = place of j − place of i, clipped to ±radius",
    parts: None,
    paper: Some(Paper {
        author: "Ramachandran",
        year: 2019,
        title: "Stand-Alone Self-Attention in Vision Models",
        link: "https://arxiv.org/abs/1906.05909",
    }),
    taxonomy: None,
    shapes: "tables R^row, R^col [2·radius + 1, d_k / 2] for all heads, or one for each head; d_k even",
    cost: "d_k / 2 multiply-adds for each query and row and for each query and column of keys, two sums a \
           pair; (2·radius + 1)·d_k parameters, or as many for each head",
    mistakes: &[
        "rows and columns exchanged: the first half of the query belongs to the rows",
        "the distance as query − key",
        "a bias of the place alone: here it is a product with the query",
        "the product left without the factor that the score has",
    ],
    example: example!(Relative2d {
        rows: &[0.5f32; 7 * 8],
        columns: &[0.5f32; 7 * 8],
        radius: 3,
        grid: Grid::same(28),
        scale: 1.0,
    }),
};

/// `bias_ij = scale·q_i·[R^row_δy ; R^col_δx]`: the first half of the query meets a vector of the
/// distance in rows, the second half one of the distance in columns.
///
/// Ramachandran et al. 2019, equation 3 (<https://arxiv.org/abs/1906.05909>), with scale 1; (δy,
/// δx) is the key's place on the [`Grid`] less the query's, each clipped to −radius..radius. A
/// table serves all heads or holds a part for each head: its length tells. The parameters are those
/// of R^row and then those of R^col.
///
/// A tile computes the products of a query with its rows and columns once each. Derivatives: ∂s/∂q
/// is scale times the joined vectors; ∂s/∂R^row_δy and ∂s/∂R^col_δx are scale times the halves of
/// q.
///
/// ```
/// use regard_attn::position::{Grid, Position, Relative2d};
/// use regard_attn::At;
///
/// let (rows, columns) = ([1.0f64, 2.0, 3.0], [0.1, 0.2, 0.3]);
/// let grid = Grid::same(2); // two in a row
/// let position = Relative2d { rows: &rows, columns: &columns, radius: 1, grid, scale: 1.0 };
/// let at = At { item: 0, head: 0, q_len: 4, kv_len: 4, q_offset: 0 };
/// let row = [0, 1, 2, 3].map(|key| position.bias(at, 1, key, &[1.0, 10.0])); // from the top right
/// assert_eq!(row, [2.0 + 1.0, 2.0 + 2.0, 3.0 + 1.0, 3.0 + 2.0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Relative2d<'a, T> {
    /// R^row, `[2·radius + 1, d_k / 2]` for all heads or `[n_heads, 2·radius + 1, d_k / 2]`.
    pub rows: &'a [T],
    /// R^col, as R^row; one may be shared by all heads and the other not.
    pub columns: &'a [T],
    /// The farthest distance with a vector of its own, in rows as in columns.
    pub radius: usize,
    /// Where queries and keys stand.
    pub grid: Grid,
    /// Factor on the product, finite: that of the score.
    pub scale: T,
}

/// What a tile's keys touch, seen from one query.
struct View {
    /// The row of the first run, and so on, one distance each.
    rows: Stretch,
    /// The columns from the smallest to the largest.
    columns: Stretch,
    /// The smallest column.
    left: i64,
}

impl<'a, T: Real> Relative2d<'a, T> {
    /// The tables of rows and of columns.
    fn tables(&self, d_k: usize) -> [Clipped<'a, T>; 2] {
        [self.rows, self.columns].map(|data| Clipped { data, radius: self.radius, width: d_k / 2 })
    }

    /// The vectors of a pair's distances and where they stand.
    fn pair(&self, at: At, query: usize, key: usize, d_k: usize) -> [(&'a [T], Range<usize>); 2] {
        let (y, x) = self.grid.of_pair(at, query, key);
        let [rows, columns] = self.tables(d_k);
        [(rows, y), (columns, x)].map(|(table, distance)| {
            let place = table.place(distance);
            (table.row(at.head, place), table.at(at.head, place))
        })
    }

    /// The view of the query at `position` on `runs`, which are not empty.
    fn view(&self, position: usize, runs: &[Run]) -> View {
        let (y, x) = self.grid.query(position);
        let left = runs.iter().map(|run| run.x).min().unwrap_or(0);
        let right = runs.iter().map(|run| run.x + run.len as i64).max().unwrap_or(0);
        let top = runs.first().map_or(0, |run| run.y);
        let [rows, columns] = self.tables(0);
        View {
            rows: rows.stretch(top - y, runs.len()),
            columns: columns.stretch(left - x, (right - left) as usize),
            left,
        }
    }
}

impl<T: Real> Position<T> for Relative2d<'_, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn check(&self, dims: Dims, _: &[Item]) -> Result<(), AttnError> {
        self.grid.check()?;
        check_scale(self.scale)?;
        let d_k = dims.d_k;
        let expected = "even, half for rows and half for columns";
        AttnError::size(d_k.is_multiple_of(2), "d_k", expected, d_k)?;
        let [rows, columns] = self.tables(d_k);
        rows.check("rows", "d_k / 2", dims.n_heads, false)?;
        columns.check("columns", "d_k / 2", dims.n_heads, false)
    }

    fn n_params(&self) -> usize {
        self.rows.len() + self.columns.len()
    }

    fn biases(&self) -> bool {
        true
    }

    fn bias(&self, at: At, query: usize, key: usize, q: &[T]) -> T {
        let (of_row, of_column) = q.split_at(q.len() / 2);
        let [(row, _), (column, _)] = self.pair(at, query, key, q.len());
        self.scale * (reduce::dot(of_row, row) + reduce::dot(of_column, column))
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
        let g = self.scale * g;
        let half = q.len() / 2;
        let [(row, at_row), (column, at_column)] = self.pair(at, query, key, q.len());
        add_scaled(&mut dq[..half], g, row);
        add_scaled(&mut dq[half..], g, column);
        let (drows, dcolumns) = dparams.split_at_mut(self.rows.len());
        add_scaled(&mut drows[at_row], g, &q[..half]);
        add_scaled(&mut dcolumns[at_column], g, &q[half..]);
    }

    fn bias_tile(&self, tile: &TileAt, q: Block<'_, T>, out: &mut [T], stride: usize) {
        let runs = self.grid.runs(&tile.keys);
        let [rows, columns] = self.tables(q.width);
        let [mut of_rows, mut of_columns] = [const { Vec::new() }; 2];
        for (i, query) in tile.queries.clone().enumerate() {
            let view = self.view(tile.position(query), &runs);
            let (for_row, for_column) = q.row(i).split_at(q.width / 2);
            rows.dots(tile.at.head, view.rows, for_row, &mut of_rows);
            columns.dots(tile.at.head, view.columns, for_column, &mut of_columns);
            for (run, place) in runs.iter().zip(view.rows.places()) {
                let out = &mut out[i * stride + run.first..][..run.len];
                let columns = view.columns.places().skip((run.x - view.left) as usize);
                for (out, column) in out.iter_mut().zip(columns) {
                    *out += self.scale * (of_rows[place] + of_columns[column]);
                }
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
        let runs = self.grid.runs(&tile.keys);
        let [rows, columns] = self.tables(q.width);
        let (drows, dcolumns) = dparams.split_at_mut(self.rows.len());
        let head = tile.at.head;
        for (i, query) in tile.queries.clone().enumerate() {
            let view = self.view(tile.position(query), &runs);
            let mut of_rows = vec![T::ZERO; view.rows.n_places()];
            let mut of_columns = vec![T::ZERO; view.columns.n_places()];
            for (run, place) in runs.iter().zip(view.rows.places()) {
                let g = &g[i * stride + run.first..][..run.len];
                let columns = view.columns.places().skip((run.x - view.left) as usize);
                for (g, column) in g.iter().zip(columns) {
                    of_rows[place] += self.scale * *g;
                    of_columns[column] += self.scale * *g;
                }
            }
            let (for_row, for_column) = q.row(i).split_at(q.width / 2);
            let (d_for_row, d_for_column) = dq.row(i).split_at_mut(q.width / 2);
            rows.add_sum(head, view.rows, &of_rows, d_for_row);
            columns.add_sum(head, view.columns, &of_columns, d_for_column);
            rows.add_to_each(head, view.rows, &of_rows, for_row, drows);
            columns.add_to_each(head, view.columns, &of_columns, for_column, dcolumns);
        }
    }
}
