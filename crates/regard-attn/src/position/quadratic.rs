//! A bias that peaks at a learned shift: what makes a convolution of attention.

use regard_tensor::Real;

use super::grid::Run;
use super::{Grid, Position};
use crate::catalogue::{Entry, Kind, Paper, example};
use crate::score::{Block, BlockMut};
use crate::{At, AttnError, Dims, Item, TileAt};

pub(crate) const ENTRY: Entry = Entry {
    name: "quadratic",
    kind: Kind::Position,
    title: "quadratic (convolution)",
    formula: "s_ij ← s_ij − α_h (‖δ‖² − 2Δ_h·δ), δ = place of j − place of i",
    parts: None,
    paper: Some(Paper {
        author: "Cordonnier",
        year: 2020,
        title: "On the Relationship between Self-Attention and Convolutional Layers",
        link: "https://arxiv.org/abs/1911.03584",
    }),
    taxonomy: None,
    shapes: "α, Δy, Δx of each head, [n_heads, 3] → one number a pair",
    cost: "a few operations a pair; 3·n_heads parameters",
    mistakes: &[
        "at the border the head attends to the nearest key: for a convolution with a border of zeros, give the \
         keys one",
        "α near 0, where the head averages all keys and Δ hardly moves it",
        "a content score left beside it, where a pure convolution is meant",
    ],
    example: example!(Quadratic {
        params: &[20.0f32, -1.0, 0.0, 20.0, 0.0, 1.0],
        grid: Grid::same(28),
    }),
};

/// `bias_ij = −α_h (‖δ‖² − 2Δ_h·δ)`, δ = (δy, δx) the key's place on the [`Grid`] less the query's.
///
/// Cordonnier et al. 2020, §3 (<https://arxiv.org/abs/1911.03584>). Up to α‖Δ‖², which is the same
/// for all keys, that is −α‖δ − Δ‖²: with α → ∞ the softmax of it alone is 1 at the key shifted by
/// Δ. So K² heads, one for each Δ of a K × K square, are a convolution. In one dimension, take
/// [`Grid::LINE`]; Δy then does nothing.
///
/// Derivatives: ∂s/∂α = −(‖δ‖² − 2Δ·δ), ∂s/∂Δ = 2α δ.
///
/// ```
/// use regard_attn::position::{Grid, Position, Quadratic};
/// use regard_attn::At;
///
/// let head = [2.0f64, 0.0, 1.0]; // α = 2, Δ = one to the right
/// let position = Quadratic { params: &head, grid: Grid::LINE };
/// let at = At { item: 0, head: 0, q_len: 5, kv_len: 5, q_offset: 0 };
/// let row = [0, 1, 2, 3, 4].map(|key| position.bias(at, 2, key, &[0.0]));
/// assert_eq!(row, [-16.0, -6.0, 0.0, 2.0, 0.0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quadratic<'a, T> {
    /// (α, Δy, Δx) of each head, `[n_heads, 3]`.
    pub params: &'a [T],
    /// Where queries and keys stand.
    pub grid: Grid,
}

/// The parameters of one head.
struct Head<T> {
    alpha: T,
    down: T,
    right: T,
}

impl<T: Real> Head<T> {
    /// δ (δ − 2Δ) in rows; `-alpha * (rows + columns)` is the bias.
    fn rows(&self, y: T) -> T {
        y * (y - (self.down + self.down))
    }

    /// The same in columns.
    fn columns(&self, x: T) -> T {
        x * (x - (self.right + self.right))
    }
}

impl<T: Real> Quadratic<'_, T> {
    fn head(&self, head: usize) -> Head<T> {
        let [alpha, down, right] = [0, 1, 2].map(|n| self.params[3 * head + n]);
        Head { alpha, down, right }
    }

    fn distance(&self, at: At, query: usize, key: usize) -> (T, T) {
        let (y, x) = self.grid.of_pair(at, query, key);
        (number(y), number(x))
    }
}

fn number<T: Real>(n: i64) -> T {
    T::from_f64(n as f64)
}

impl<T: Real> Position<T> for Quadratic<'_, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn check(&self, dims: Dims, _: &[Item]) -> Result<(), AttnError> {
        self.grid.check()?;
        let (n, n_heads) = (self.params.len(), dims.n_heads);
        let expected = format_args!("n_heads × 3 = {n_heads} × 3 elements");
        AttnError::size(n_heads.checked_mul(3) == Some(n), "params", expected, n)
    }

    fn n_params(&self) -> usize {
        self.params.len()
    }

    fn biases(&self) -> bool {
        true
    }

    fn bias(&self, at: At, query: usize, key: usize, _: &[T]) -> T {
        let ((y, x), head) = (self.distance(at, query, key), self.head(at.head));
        -head.alpha * (head.rows(y) + head.columns(x))
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
        let ((y, x), head) = (self.distance(at, query, key), self.head(at.head));
        let dhead = &mut dparams[3 * at.head..][..3];
        dhead[0] += -g * (head.rows(y) + head.columns(x));
        dhead[1] += g * (head.alpha + head.alpha) * y;
        dhead[2] += g * (head.alpha + head.alpha) * x;
    }

    fn bias_tile(&self, tile: &TileAt, _: Block<'_, T>, out: &mut [T], stride: usize) {
        let (runs, head) = (self.grid.runs(&tile.keys), self.head(tile.at.head));
        for (i, query) in tile.queries.clone().enumerate() {
            let (y, x) = self.grid.query(tile.position(query));
            for Run { first, y: key_y, x: key_x, len } in &runs {
                let of_row = head.rows(number(key_y - y));
                let out = &mut out[i * stride + first..][..*len];
                for (out, x) in out.iter_mut().zip(key_x - x..) {
                    *out += -head.alpha * (of_row + head.columns(number(x)));
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
        let (runs, head) = (self.grid.runs(&tile.keys), self.head(tile.at.head));
        // Σ g times the bracket, δy and δx.
        let [mut bracket, mut by_y, mut by_x] = [T::ZERO; 3];
        for (i, query) in tile.queries.clone().enumerate() {
            let (y, x) = self.grid.query(tile.position(query));
            for Run { first, y: key_y, x: key_x, len } in &runs {
                let y = number(key_y - y);
                let of_row = head.rows(y);
                for (g, x) in g[i * stride + first..][..*len].iter().zip(key_x - x..) {
                    let x = number(x);
                    bracket += *g * (of_row + head.columns(x));
                    by_y += *g * y;
                    by_x += *g * x;
                }
            }
        }
        let dhead = &mut dparams[3 * tile.at.head..][..3];
        dhead[0] += -bracket;
        dhead[1] += (head.alpha + head.alpha) * by_y;
        dhead[2] += (head.alpha + head.alpha) * by_x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_bias_is_at_the_shift_and_falls_with_the_square() {
        let grid = Grid::same(5);
        let position = Quadratic { params: &[0.0, 0.0, 0.0, 3.0, -1.0, 2.0], grid };
        let at = At { item: 0, head: 1, q_len: 20, kv_len: 20, q_offset: 0 };
        // From row 2, column 1 to row 1, column 3.
        let (query, target) = (11, 8);
        let best: f64 = position.bias(at, query, target, &[0.0]);
        assert_eq!(best, 3.0 * 5.0);
        for key in 0..20 {
            let (y, x) = grid.distance(target, key);
            let square = (y * y + x * x) as f64;
            assert_eq!(position.bias(at, query, key, &[0.0]), best - 3.0 * square);
        }
    }
}
