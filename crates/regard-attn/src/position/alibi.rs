//! Scores that fall with the distance, each head by a slope of its own.

use regard_tensor::Real;

use super::diagonals::Diagonals;
use super::{Position, distance};
use crate::catalogue::{Entry, Kind, Paper, example};
use crate::score::{Block, BlockMut};
use crate::{At, AttnError, Dims, Item, TileAt};

pub(crate) const ENTRY: Entry = Entry {
    name: "alibi",
    kind: Kind::Position,
    title: "linear bias (ALiBi)",
    formula: "s_ij ← s_ij − m_h·|p_i − j|",
    parts: None,
    paper: Some(Paper {
        author: "Press",
        year: 2022,
        title: "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation",
        link: "https://arxiv.org/abs/2108.12409",
    }),
    taxonomy: None,
    shapes: "slopes m [n_heads] → one number a pair",
    cost: "one sum a pair; no parameters",
    mistakes: &[
        "a position added to the inputs besides",
        "slopes cut off or repeated where the number of heads is no power of two",
        "the bias divided by √d_k together with the product",
        "distances counted from the first new query in a cached step: it stands at q_offset",
    ],
    example: example!(Alibi::new(8)),
};

/// `bias_ij = −m_h·|p_i − j|`, p_i the query's position.
///
/// Press et al. 2022, §3 (<https://arxiv.org/abs/2108.12409>); there with a causal scope, under
/// which
/// |p_i − j| = p_i − j. The slopes are no parameters. The bias of a pair is computed in f64 and rounded
/// last.
///
/// ```
/// use regard_attn::position::{Alibi, Position};
/// use regard_attn::At;
///
/// let alibi = Alibi::new(8);
/// assert_eq!(alibi.slopes()[..3], [0.5, 0.25, 0.125]);
/// let at = At { item: 0, head: 1, q_len: 1, kv_len: 5, q_offset: 4 }; // the fifth token
/// let row = [0, 1, 2, 3, 4].map(|key| alibi.bias(at, 0, key, &[0.0f64]));
/// assert_eq!(row, [-1.0, -0.75, -0.5, -0.25, 0.0]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Alibi {
    slopes: Vec<f64>,
}

impl Alibi {
    /// The slopes of the paper: for a power of two the geometric sequence that begins with its
    /// ratio 2^{−8/n}; else that of the next lower power of two n, and then every other one, from
    /// the first, of that of 2n.
    pub fn new(n_heads: usize) -> Self {
        let geometric = |n: usize| (1..=n).map(move |h| (-8.0 * h as f64 / n as f64).exp2());
        let lower = n_heads.checked_ilog2().map_or(0, |log| 1 << log);
        let between = geometric(2 * lower).step_by(2).take(n_heads - lower);
        Self { slopes: geometric(lower).chain(between).collect() }
    }

    /// Slopes of one's own, `[n_heads]`, finite.
    pub const fn with_slopes(slopes: Vec<f64>) -> Self {
        Self { slopes }
    }

    /// m, `[n_heads]`.
    pub fn slopes(&self) -> &[f64] {
        &self.slopes
    }

    fn at<T: Real>(&self, head: usize, distance: i64) -> T {
        T::from_f64(-self.slopes[head] * distance.unsigned_abs() as f64)
    }
}

impl<T: Real> Position<T> for Alibi {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn check(&self, dims: Dims, _: &[Item]) -> Result<(), AttnError> {
        let (n, n_heads) = (self.slopes.len(), dims.n_heads);
        let expected = format_args!("one for each of the {n_heads} heads");
        AttnError::size(n == n_heads, "slopes", expected, n)?;
        match self.slopes.iter().find(|slope| !slope.is_finite()) {
            None => Ok(()),
            Some(slope) => Err(AttnError::Option {
                option: "slopes",
                expected: "finite".into(),
                actual: slope.to_string(),
            }),
        }
    }

    fn biases(&self) -> bool {
        true
    }

    fn bias(&self, at: At, query: usize, key: usize, _: &[T]) -> T {
        self.at(at.head, distance(at, query, key))
    }

    fn bias_tile(&self, tile: &TileAt, _: Block<'_, T>, out: &mut [T], stride: usize) {
        if let Some(diagonals) = Diagonals::new(tile) {
            diagonals.with_numbers(|values| {
                for (value, distance) in values.iter_mut().zip(diagonals.distances()) {
                    *value = self.at(tile.at.head, distance);
                }
                diagonals.add(out, stride, values);
            });
        }
    }

    /// Nothing: the bias is constant.
    fn bias_tile_backward(
        &self,
        _: &TileAt,
        _: Block<'_, T>,
        _: &[T],
        _: usize,
        _: &mut BlockMut<'_, T>,
        _: &mut [T],
    ) {
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_of_any_number_of_heads() {
        let of = |n| Alibi::new(n).slopes;
        assert_eq!(of(0), [0.0; 0]);
        assert_eq!(of(1), [0.00390625]);
        assert_eq!(of(2), [0.0625, 0.00390625]);
        // Four of 2^{−2}, and the first and third of eight.
        assert_eq!(of(6), [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]);
        assert_eq!(of(3), [0.0625, 0.00390625, 0.25]);
        let twelve = of(12);
        assert_eq!(twelve[..8], of(8));
        assert_eq!(twelve[8..], [of(16)[0], of(16)[2], of(16)[4], of(16)[6]]);
    }
}
