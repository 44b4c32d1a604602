//! Queries and keys turned by an angle that grows with the position.

use regard_tensor::Real;

use super::Position;
use crate::catalogue::{Entry, Kind, Paper, example};
use crate::{AttnError, Dims, Item};

pub(crate) const ENTRY: Entry = Entry {
    name: "rotary",
    kind: Kind::Position,
    title: "rotary",
    formula: "(x_a, x_b) ← (x_a cos pθ_i − x_b sin pθ_i, x_a sin pθ_i + x_b cos pθ_i), θ_i = base^{−2i/d_k}",
    parts: None,
    paper: Some(Paper {
        author: "Su",
        year: 2021,
        title: "RoFormer: Enhanced Transformer with Rotary Position Embedding",
        link: "https://arxiv.org/abs/2104.09864",
    }),
    taxonomy: None,
    shapes: "q, k [d_k], d_k even, turned in place; values are not turned",
    cost: "O(d_k) a row",
    mistakes: &[
        "pairs (2i, 2i+1) where the weights were trained with (i, i + d_k/2), or the reverse",
        "values turned too",
        "angles in f32: late positions lose the small digits",
        "d_model in place of d_k in the exponent",
    ],
    example: example!(Rotary::new(10000.0, RotaryLayout::Interleaved)),
};

/// Which entries of a row form the pairs that are turned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotaryLayout {
    /// Pair i is (2i, 2i + 1), as in the paper.
    Interleaved,
    /// Pair i is (i, i + d_k/2), as in GPT-NeoX and Llama.
    Half,
}

/// Turns pair i of a query or key at position p by the angle p·θ_i, θ_i = base^{−2i/d_k}:
///
/// ```text
/// (x_a, x_b) ← (x_a cos pθ_i − x_b sin pθ_i,  x_a sin pθ_i + x_b cos pθ_i)
/// ```
///
/// Su et al. 2021, equations 13 to 15 (<https://arxiv.org/abs/2104.09864>). The dot product of a turned query
/// and key depends on the difference of their positions alone. d_k must be even. Derivative: the
/// turn by the opposite angle. Positions count from the item's start, for queries as for keys.
///
/// Angles, sines and cosines are computed in f64 and rounded last.
///
/// ```
/// use regard_attn::position::{Position, Rotary, RotaryLayout};
///
/// let rotary = Rotary::new(10000.0, RotaryLayout::Interleaved);
/// let mut q = [1.0f64, 0.0, 1.0, 0.0];
/// rotary.turn(3, &mut q);
/// assert_eq!(q, [3f64.cos(), 3f64.sin(), 0.03f64.cos(), 0.03f64.sin()]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Rotary {
    base: f64,
    layout: RotaryLayout,
    /// The width that `table` is for.
    d_k: usize,
    /// (cos, sin) of pair i at position p, `[positions, d_k/2]`.
    table: Vec<(f64, f64)>,
}

impl Rotary {
    /// Rotary position with this base (the paper's: 10000).
    ///
    /// Every turn computes its sines; see [`Rotary::with_table`].
    pub const fn new(base: f64, layout: RotaryLayout) -> Self {
        Self { base, layout, d_k: 0, table: Vec::new() }
    }

    /// The same with the sines of the first `positions` positions kept, for rows of width `d_k`.
    /// Results have the same bits; later positions and other widths are computed as before.
    pub fn with_table(mut self, d_k: usize, positions: usize) -> Self {
        let pairs = d_k / 2;
        self.table =
            (0..positions * pairs).map(|n| angle(self.base, d_k, n / pairs, n % pairs)).collect();
        self.d_k = d_k;
        self
    }

    /// Turns every pair forwards or, for the derivative, backwards.
    fn rotate<T: Real>(&self, position: usize, row: &mut [T], forwards: bool) {
        let d = row.len();
        let pairs = d / 2;
        let known = if d == self.d_k {
            self.table.get(position * pairs..(position + 1) * pairs)
        } else {
            None
        };
        for i in 0..pairs {
            let (a, b) = match self.layout {
                RotaryLayout::Interleaved => (2 * i, 2 * i + 1),
                RotaryLayout::Half => (i, i + pairs),
            };
            let (cos, sin) = known.map_or_else(|| angle(self.base, d, position, i), |row| row[i]);
            let (cos, sin) = (T::from_f64(cos), T::from_f64(if forwards { sin } else { -sin }));
            let (x, y) = (row[a], row[b]);
            row[a] = x * cos - y * sin;
            row[b] = x * sin + y * cos;
        }
    }
}

/// (cos pθ_i, sin pθ_i)
fn angle(base: f64, d_k: usize, position: usize, i: usize) -> (f64, f64) {
    let (sin, cos) = (position as f64 / base.powf((2 * i) as f64 / d_k as f64)).sin_cos();
    (cos, sin)
}

impl<T: Real> Position<T> for Rotary {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn check(&self, dims: Dims, _: &[Item]) -> Result<(), AttnError> {
        if !(self.base.is_finite() && self.base > 0.0) {
            return Err(AttnError::Option {
                option: "base",
                expected: "finite and above 0".into(),
                actual: self.base.to_string(),
            });
        }
        AttnError::size(dims.d_k.is_multiple_of(2), "d_k", "even, to be turned in pairs", dims.d_k)
    }

    fn turns(&self) -> bool {
        true
    }

    fn turn(&self, position: usize, row: &mut [T]) {
        self.rotate(position, row, true);
    }

    fn turn_backward(&self, position: usize, drow: &mut [T]) {
        self.rotate(position, drow, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_testkit::random_vec;

    #[test]
    fn a_kept_table_changes_no_bit() {
        for layout in [RotaryLayout::Interleaved, RotaryLayout::Half] {
            let plain = Rotary::new(500.0, layout);
            let kept = plain.clone().with_table(6, 10);
            // Inside the table, behind it, and at another width.
            for (position, d) in [(0, 6), (9, 6), (10, 6), (3, 4)] {
                let (mut x, mut y) = (random_vec(1, d), random_vec(1, d));
                plain.turn(position, &mut x);
                kept.turn(position, &mut y);
                assert_eq!(x, y);
            }
        }
        let none = Rotary::new(500.0, RotaryLayout::Half).with_table(0, 3);
        assert!(none.table.is_empty());
    }

    #[test]
    fn the_layouts_differ_by_the_order_of_entries() {
        let x = random_vec(2, 6);
        let halves: Vec<f64> = [0, 2, 4, 1, 3, 5].iter().map(|&c| x[c]).collect();
        let (mut a, mut b) = (x, halves);
        Rotary::new(10000.0, RotaryLayout::Interleaved).turn(4, &mut a);
        Rotary::new(10000.0, RotaryLayout::Half).turn(4, &mut b);
        assert_eq!(b, [a[0], a[2], a[4], a[1], a[3], a[5]]);
    }
}
