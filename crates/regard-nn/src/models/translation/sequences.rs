//! Packed batches of token ids.

use regard_tensor::ShapeError;

use crate::{NnError, Ragged};

/// The id of every token that is in no vocabulary.
pub const UNKNOWN: u32 = 0;
/// What stands before a target.
pub const BEGIN: u32 = 1;
/// What ends a target.
pub const END: u32 = 2;
/// Number of special ids: vocabularies begin with them.
pub const SPECIAL: usize = 3;

/// Sequences of ids, one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequences {
    /// All ids.
    pub ids: Vec<u32>,
    /// The lengths.
    pub items: Ragged,
}

impl Sequences {
    /// Packs sequences.
    pub fn new(sequences: &[impl AsRef<[u32]>]) -> Self {
        let lengths: Vec<usize> = sequences.iter().map(|s| s.as_ref().len()).collect();
        let ids = sequences.iter().flat_map(|s| s.as_ref().iter().copied()).collect();
        Self { ids, items: Ragged::new(&lengths) }
    }

    /// The ids of an item.
    pub fn item(&self, item: usize) -> &[u32] {
        &self.ids[self.items.rows(item)]
    }

    /// Checks that the ids fill the items, that none is empty and that every id is below `vocab`.
    ///
    /// # Errors
    /// Names the first fault.
    pub(super) fn check(&self, what: &'static str, vocab: usize) -> Result<(), NnError> {
        ShapeError::expect("translation", what, &[self.items.total()], &[self.ids.len()])?;
        if let Some(item) = self.items.lengths().iter().position(|len| *len == 0) {
            let actual = format!("none in item {item}");
            return Err(ShapeError::new("translation", what, "at least one token", actual).into());
        }
        if let Some(at) = self.ids.iter().position(|id| *id as usize >= vocab) {
            let (operation, index) = ("translation", self.ids[at] as usize);
            return Err(NnError::Index { operation, what, index, at, limit: vocab });
        }
        Ok(())
    }

    /// Every item with `first` before it.
    pub(super) fn prefixed(&self, first: u32) -> Self {
        self.extended(|ids, out| {
            out.push(first);
            out.extend_from_slice(ids);
        })
    }

    /// Every item with `last` behind it.
    pub(super) fn suffixed(&self, last: u32) -> Self {
        self.extended(|ids, out| {
            out.extend_from_slice(ids);
            out.push(last);
        })
    }

    fn extended(&self, write: impl Fn(&[u32], &mut Vec<u32>)) -> Self {
        let lengths: Vec<usize> = self.items.lengths().iter().map(|len| len + 1).collect();
        let mut ids = Vec::with_capacity(self.ids.len() + lengths.len());
        for item in 0..self.items.items() {
            write(self.item(item), &mut ids);
        }
        Self { ids, items: Ragged::new(&lengths) }
    }
}

/// Sources with their targets; targets without [`BEGIN`] and [`END`], which the models add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairBatch {
    /// What is read.
    pub source: Sequences,
    /// What is written.
    pub target: Sequences,
}

impl PairBatch {
    /// Checks both sides: as many items, none empty, ids inside the vocabularies.
    pub(super) fn check(&self, source_vocab: usize, target_vocab: usize) -> Result<(), NnError> {
        let (sources, targets) = (self.source.items.items(), self.target.items.items());
        ShapeError::expect("translation", "target items", &[sources], &[targets])?;
        self.source.check("source", source_vocab)?;
        self.target.check("target", target_vocab)
    }
}
