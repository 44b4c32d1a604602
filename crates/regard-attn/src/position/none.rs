//! No position at all.

use regard_tensor::Real;

use super::Position;
use crate::catalogue::{Entry, Kind, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "none",
    kind: Kind::Position,
    title: "no position",
    formula: "x ← x",
    parts: None,
    paper: None,
    taxonomy: None,
    shapes: "nothing is changed",
    cost: "none",
    mistakes: &["without position, permuted inputs give the same outputs, permuted"],
    example: example!(NoPosition),
};

/// Adds nothing: permuted keys then give the same context (up to rounding), as long as the scope
/// ignores the order too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPosition;

impl<T: Real> Position<T> for NoPosition {
    fn name(&self) -> &'static str {
        ENTRY.name
    }
}
