//! Batches of sequences of different lengths, packed without padding.

use std::ops::Range;
use std::sync::Arc;

/// The lengths of a packed batch: token rows of all items lie one after another, so that a
/// `[tokens, d]` array needs no padding and no masks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ragged {
    lengths: Arc<[usize]>,
    offsets: Arc<[usize]>,
}

impl Ragged {
    /// Items of these lengths; a length may be 0.
    pub fn new(lengths: &[usize]) -> Self {
        let mut total = 0;
        let mut offsets = Vec::with_capacity(lengths.len() + 1);
        offsets.push(0);
        for len in lengths {
            total += len;
            offsets.push(total);
        }
        Self { lengths: lengths.into(), offsets: offsets.into() }
    }

    /// The lengths.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Number of items.
    pub fn items(&self) -> usize {
        self.lengths.len()
    }

    /// Number of rows of all items together.
    pub fn total(&self) -> usize {
        self.offsets[self.lengths.len()]
    }

    /// The longest length, 0 without items.
    pub fn longest(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }

    /// The rows of an item.
    pub fn rows(&self, item: usize) -> Range<usize> {
        self.offsets[item]..self.offsets[item + 1]
    }

    /// The position of every row inside its item.
    pub fn positions(&self) -> impl Iterator<Item = usize> + '_ {
        self.lengths.iter().flat_map(|len| 0..*len)
    }
}
