//! Positions: what the order of a sequence adds.
//!
//! A position acts at one of the places that the fixed order of work gives it; the hooks of the
//! others do nothing.

pub(crate) mod learned;
pub(crate) mod none;
pub(crate) mod rotary;
pub(crate) mod sinusoidal;

use std::fmt::Debug;

use regard_tensor::Real;

use crate::{AttnError, Dims};

pub use learned::Learned;
pub use none::NoPosition;
pub use rotary::{Rotary, RotaryLayout};
pub use sinusoidal::Sinusoidal;

/// What the order adds, as optional hooks.
pub trait Position<T: Real>: Sync + Debug {
    /// The name in the catalogue, such as `rotary`.
    fn name(&self) -> &'static str;

    /// Checks that the position can serve these head sizes.
    ///
    /// # Errors
    /// Names the size at fault.
    fn check(&self, dims: Dims) -> Result<(), AttnError> {
        let _ = dims;
        Ok(())
    }

    /// Adds to the input of a whole layer, `x ← x + p(position)`, before projections (sinusoidal,
    /// learned).
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

    /// Turns one head's query or key in place (rotary).
    fn turn(&self, position: usize, row: &mut [T]) {
        let _ = (position, row);
    }

    /// The derivative of [`Position::turn`]: gradient of the turned row into that of the row.
    fn turn_backward(&self, position: usize, drow: &mut [T]) {
        let _ = (position, drow);
    }

    /// Length of the gradient of the position's parameters; 0 where it has none.
    fn n_params(&self) -> usize {
        0
    }
}
