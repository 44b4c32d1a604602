//! A learned vector for every position, added to the input.

use regard_tensor::Real;

use super::Position;
use crate::catalogue::{Entry, Kind, Paper, example};
use crate::{AttnError, Dims, Item};

pub(crate) const ENTRY: Entry = Entry {
    name: "learned",
    kind: Kind::Position,
    title: "learned",
    formula: "x ← x + P_p",
    parts: None,
    paper: Some(Paper {
        author: "Gehring",
        year: 2017,
        title: "Convolutional Sequence to Sequence Learning",
        link: "https://arxiv.org/abs/1705.03122",
    }),
    taxonomy: None,
    shapes: "table P [max_len, d_model]; x [d_model] ← x + P_p",
    cost: "O(d_model) a position; max_len·d_model parameters",
    mistakes: &[
        "sequences longer than the table",
        "rare late positions, hardly trained: their vectors stay as they began",
    ],
    example: example!(Learned { table: &[0.5f32, 0.0, 2.0, -1.0], max_len: 2, d: 2 }),
};

/// `x ← x + P_p`, with a table P `[max_len, d]` of parameters, added to the input.
///
/// Gehring et al. 2017, §3.1 (<https://arxiv.org/abs/1705.03122>). Derivative: ∂L/∂P_p is the sum
/// of ∂L/∂x over all inputs at position p.
///
/// ```
/// use regard_attn::position::{Learned, Position};
///
/// let learned = Learned { table: &[0.5f32, 0.0, 2.0, -1.0], max_len: 2, d: 2 };
/// let mut x = [1.0, 1.0];
/// learned.input(1, &mut x)?;
/// assert_eq!(x, [3.0, 0.0]);
/// let error = learned.input(2, &mut x).unwrap_err();
/// assert_eq!(error.to_string(), "attention: `position` must be below max_len = 2, got 2");
/// # Ok::<(), regard_attn::AttnError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Learned<'a, T> {
    /// P, `[max_len, d]`.
    pub table: &'a [T],
    /// Number of positions in the table.
    pub max_len: usize,
    /// Width of the model.
    pub d: usize,
}

impl<T: Real> Learned<'_, T> {
    fn check_table(&self) -> Result<(), AttnError> {
        let Self { table, max_len, d } = self;
        AttnError::size(
            table.len() == max_len * d,
            "table",
            format_args!("max_len × d = {max_len} × {d} elements"),
            table.len(),
        )
    }
}

impl<T: Real> Position<T> for Learned<'_, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn check(&self, _: Dims, _: &[Item]) -> Result<(), AttnError> {
        self.check_table()
    }

    fn input(&self, position: usize, x: &mut [T]) -> Result<(), AttnError> {
        let Self { table, max_len, d } = *self;
        self.check_table()?;
        let expected = format_args!("below max_len = {max_len}");
        AttnError::size(position < max_len, "position", expected, position)?;
        AttnError::size(x.len() == d, "x", format_args!("d = {d} elements"), x.len())?;
        for (x, p) in x.iter_mut().zip(&table[position * d..]) {
            *x += *p;
        }
        Ok(())
    }

    /// # Panics
    /// If [`Position::input`] would have failed at this position.
    fn input_backward(&self, position: usize, dx: &[T], dparams: &mut [T]) {
        let row = &mut dparams[position * self.d..(position + 1) * self.d];
        for (dp, dx) in row.iter_mut().zip(dx) {
            *dp += *dx;
        }
    }

    fn n_params(&self) -> usize {
        self.table.len()
    }
}
