//! Positions: what the order of a sequence adds.
//!
//! A position acts at one or more of the places that the fixed order of work gives it; the hooks of the
//! others do nothing:
//!
//! ```text
//! x ← x + p                              input     sinusoidal, learned: before the projections
//! q, k ← turn(q), turn(k)                turn      rotary
//! s_ij = score(q_i, k_j) + bias_ij       bias      relative bias, Shaw, ALiBi, 2-D, quadratic, dense
//! a_ij = weight_ij · normalise(s_i)_j    weight    Gaussian
//! c_i = Σ_j a_ij (v_j + value_ij)        value     Shaw
//! ```
//!
//! Each of the last three has two faces, as a score has: the truth for one pair, which a user of the library
//! writes first, and the same for a tile of pairs, which runs; the default of a tile goes pair by
//! pair. A query's position counts from [`Item::q_offset`], a key's from 0. A position owns no
//! parameters: it borrows them, all heads in one slice, and adds their gradient to a slice of the
//! same length. [`Chain`] joins several positions.

pub(crate) mod alibi;
pub(crate) mod chain;
mod clipped;
pub(crate) mod dense_bias;
mod diagonals;
pub(crate) mod gaussian;
mod grid;
pub(crate) mod learned;
pub(crate) mod none;
pub(crate) mod quadratic;
pub(crate) mod relative_2d;
pub(crate) mod relative_bias;
pub(crate) mod rotary;
pub(crate) mod shaw;
pub(crate) mod sinusoidal;

use std::fmt::Debug;

use regard_tensor::Real;

use crate::score::{Block, BlockMut};
use crate::{At, AttnError, Dims, Item, TileAt};

pub use alibi::Alibi;
pub use chain::Chain;
pub use dense_bias::DenseBias;
pub use gaussian::Gaussian;
pub use grid::Grid;
pub use learned::Learned;
pub use none::NoPosition;
pub use quadratic::Quadratic;
pub use relative_2d::Relative2d;
pub use relative_bias::RelativeBias;
pub use rotary::{Rotary, RotaryLayout};
pub use shaw::Shaw;
pub use sinusoidal::Sinusoidal;

/// What the order adds, as optional hooks.
///
/// `query` and `key` count from the item's start; the query's position is `at.q_offset + query`.
pub trait Position<T: Real>: Sync + Debug {
    /// The name in the catalogue, such as `rotary`.
    fn name(&self) -> &'static str;

    /// Checks that the position can serve these sizes and items.
    ///
    /// # Errors
    /// Names the size at fault.
    fn check(&self, dims: Dims, items: &[Item]) -> Result<(), AttnError> {
        let _ = (dims, items);
        Ok(())
    }

    /// Length of the gradient of the position's parameters; 0 where it has none.
    fn n_params(&self) -> usize {
        0
    }

    /// Adds to the input of a whole layer, `x ← x + p(position)`, before projections.
    ///
    /// # Errors
    /// The position has no vector for this index or width.
    fn input(&self, position: usize, x: &mut [T]) -> Result<(), AttnError> {
        let _ = (position, x);
        Ok(())
    }

    /// The derivative of [`Position::input`] by the position's own parameters: adds to `dparams`.
    fn input_backward(&self, position: usize, dx: &[T], dparams: &mut [T]) {
        let _ = (position, dx, dparams);
    }

    /// Whether [`Position::turn`] does anything.
    fn turns(&self) -> bool {
        false
    }

    /// Turns one head's query or key in place.
    fn turn(&self, position: usize, row: &mut [T]) {
        let _ = (position, row);
    }

    /// The derivative of [`Position::turn`]: gradient of the turned row into that of the row.
    fn turn_backward(&self, position: usize, drow: &mut [T]) {
        let _ = (position, drow);
    }

    /// Whether [`Position::bias`] does anything.
    fn biases(&self) -> bool {
        false
    }

    /// What is added to the score of a pair. `q` is the query, turned.
    fn bias(&self, at: At, query: usize, key: usize, q: &[T]) -> T {
        let _ = (at, query, key, q);
        T::ZERO
    }

    /// With g = ∂L/∂bias, adds g·∂bias/∂q to `dq` and g·∂bias/∂θ to `dparams`.
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
        let _ = (at, query, key, q, g, dq, dparams);
    }

    /// `out[i·stride + j] += bias_ij` for every pair of a tile.
    fn bias_tile(&self, tile: &TileAt, q: Block<'_, T>, out: &mut [T], stride: usize) {
        for (i, query) in tile.queries.clone().enumerate() {
            for (j, key) in tile.keys.clone().enumerate() {
                out[i * stride + j] += self.bias(tile.at, query, key, q.row(i));
            }
        }
    }

    /// The derivative of [`Position::bias_tile`], given `g[i·stride + j] = ∂L/∂s_ij`. Pairs with g = 0
    /// may be passed over (forbidden pairs have 0).
    fn bias_tile_backward(
        &self,
        tile: &TileAt,
        q: Block<'_, T>,
        g: &[T],
        stride: usize,
        dq: &mut BlockMut<'_, T>,
        dparams: &mut [T],
    ) {
        for (i, query) in tile.queries.clone().enumerate() {
            for (j, key) in tile.keys.clone().enumerate() {
                let g = g[i * stride + j];
                if g != T::ZERO {
                    self.bias_backward(tile.at, query, key, q.row(i), g, dq.row(i), dparams);
                }
            }
        }
    }

    /// Whether [`Position::weight`] does anything.
    fn weighs(&self) -> bool {
        false
    }

    /// The factor on the weight of a pair, finite; weights are not normalised again.
    fn weight(&self, at: At, query: usize, key: usize) -> T {
        let _ = (at, query, key);
        T::ONE
    }

    /// With g = ∂L/∂factor, adds g·∂factor/∂θ to `dparams`.
    fn weight_backward(&self, at: At, query: usize, key: usize, g: T, dparams: &mut [T]) {
        let _ = (at, query, key, g, dparams);
    }

    /// `weights[i·stride + j] *= weight_ij` for every pair of a tile.
    fn weight_tile(&self, tile: &TileAt, weights: &mut [T], stride: usize) {
        for (i, query) in tile.queries.clone().enumerate() {
            for (j, key) in tile.keys.clone().enumerate() {
                weights[i * stride + j] *= self.weight(tile.at, query, key);
            }
        }
    }

    /// The derivative of [`Position::weight_tile`] by the parameters, given
    /// `g[i·stride + j] = ∂L/∂weight_ij`. Pairs with g = 0 may be passed over.
    fn weight_tile_backward(&self, tile: &TileAt, g: &[T], stride: usize, dparams: &mut [T]) {
        for (i, query) in tile.queries.clone().enumerate() {
            for (j, key) in tile.keys.clone().enumerate() {
                let g = g[i * stride + j];
                if g != T::ZERO {
                    self.weight_backward(tile.at, query, key, g, dparams);
                }
            }
        }
    }

    /// Whether [`Position::add_value`] does anything.
    fn has_values(&self) -> bool {
        false
    }

    /// `context += a·value_ij`, where a is the weight of the pair, after dropout; d_v wide.
    fn add_value(&self, at: At, query: usize, key: usize, a: T, context: &mut [T]) {
        let _ = (at, query, key, a, context);
    }

    /// `value_ij·dc`, the derivative of [`Position::add_value`] by the weight, given dc = ∂L/∂c_i.
    fn value_dot(&self, at: At, query: usize, key: usize, dc: &[T]) -> T {
        let _ = (at, query, key, dc);
        T::ZERO
    }

    /// The derivative of [`Position::add_value`] by the parameters: adds a·dc·∂value_ij/∂θ to
    /// `dparams`.
    fn value_backward(&self, at: At, query: usize, key: usize, a: T, dc: &[T], dparams: &mut [T]) {
        let _ = (at, query, key, a, dc, dparams);
    }

    /// `context_i += Σ_j weights[i·stride + j]·value_ij` over a tile. Pairs of weight 0 add nothing.
    fn value_tile(
        &self,
        tile: &TileAt,
        weights: &[T],
        stride: usize,
        context: &mut BlockMut<'_, T>,
    ) {
        for (i, query) in tile.queries.clone().enumerate() {
            for (j, key) in tile.keys.clone().enumerate() {
                let a = weights[i * stride + j];
                if a != T::ZERO {
                    self.add_value(tile.at, query, key, a, context.row(i));
                }
            }
        }
    }

    /// `out[i·stride + j] += value_ij·dc_i` over a tile.
    fn value_dot_tile(&self, tile: &TileAt, dc: Block<'_, T>, out: &mut [T], stride: usize) {
        for (i, query) in tile.queries.clone().enumerate() {
            for (j, key) in tile.keys.clone().enumerate() {
                out[i * stride + j] += self.value_dot(tile.at, query, key, dc.row(i));
            }
        }
    }

    /// The derivative of [`Position::value_tile`] by the parameters. Pairs of weight 0 add nothing.
    fn value_tile_backward(
        &self,
        tile: &TileAt,
        weights: &[T],
        stride: usize,
        dc: Block<'_, T>,
        dparams: &mut [T],
    ) {
        for (i, query) in tile.queries.clone().enumerate() {
            for (j, key) in tile.keys.clone().enumerate() {
                let a = weights[i * stride + j];
                if a != T::ZERO {
                    self.value_backward(tile.at, query, key, a, dc.row(i), dparams);
                }
            }
        }
    }
}

/// j − p_i, with the query's position p_i.
fn distance(at: At, query: usize, key: usize) -> i64 {
    key as i64 - (at.q_offset + query) as i64
}

/// # Errors
/// The factor on a product is not finite.
fn check_scale<T: Real>(scale: T) -> Result<(), AttnError> {
    if scale.is_finite() {
        return Ok(());
    }
    Err(AttnError::Option { option: "scale", expected: "finite".into(), actual: scale.to_string() })
}
