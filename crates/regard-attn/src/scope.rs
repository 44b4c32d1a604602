//! Scopes: which keys a query may see.

pub(crate) mod and;
pub(crate) mod blocks;
pub(crate) mod causal;
pub(crate) mod documents;
pub(crate) mod full;
pub(crate) mod given;
pub(crate) mod graph;
pub(crate) mod lengths;
pub(crate) mod or;
pub(crate) mod predicted_centre;
pub(crate) mod window;
pub(crate) mod window_2d;

use std::fmt::Debug;

use crate::AttnError;
use crate::call::{At, Item, Span};

pub use and::And;
pub use blocks::Blocks;
pub use causal::{Alignment, Causal};
pub use documents::Documents;
pub use full::Full;
pub use given::Given;
pub use graph::{Csr, EdgeRows, Graph, SelfLoops};
pub use lengths::Lengths;
pub use or::Or;
pub use predicted_centre::PredictedCentre;
pub use window::Window;
pub use window_2d::Window2d;

/// What a scope says of a whole tile of queries × keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// No pair is allowed.
    Skip,
    /// Every pair is allowed.
    Whole,
    /// Ask [`Scope::allows`] pair by pair.
    Partial,
}

/// A rule that allows or forbids each (query, key) pair.
///
/// [`Scope::allows`] is the truth; the hints must agree with it (tests hold them to it).
pub trait Scope: Sync + Debug {
    /// The name in the catalogue, such as `causal`.
    fn name(&self) -> &'static str;

    /// What the scope allows, in a line, with its numbers: `window of 2 before and 0 after`.
    fn describe(&self) -> String {
        self.name().into()
    }

    /// Checks that the scope can serve these items.
    ///
    /// # Errors
    /// Names what is missing or too short.
    fn check(&self, items: &[Item]) -> Result<(), AttnError> {
        let _ = items;
        Ok(())
    }

    /// Whether `query` may see `key`; both count from the item's start.
    fn allows(&self, at: At, query: usize, key: usize) -> bool;

    /// What holds for all pairs of a tile. `Partial` is always true, only slower.
    fn tile(&self, at: At, queries: Span, keys: Span) -> Coverage {
        let _ = (at, queries, keys);
        Coverage::Partial
    }

    /// A range that holds every key that one of `queries` may see, so that far tiles are not
    /// even visited.
    fn keys(&self, at: At, queries: Span) -> Span {
        let _ = queries;
        0..at.kv_len
    }

    /// Whether every query sees one stretch of keys, and [`Scope::keys`] of one query is that stretch exactly. Then a tile
    /// is masked row by row, without a question for each pair.
    fn contiguous(&self) -> bool {
        false
    }

    /// Whether the keys of a query are so few and scattered that work should go key by key, through
    /// [`Scope::list`], in place of tile by tile.
    fn lists(&self, at: At) -> bool {
        let _ = at;
        false
    }

    /// Whether all heads see the same: then keys are listed once for several heads.
    fn same_for_heads(&self) -> bool {
        false
    }

    /// Whether hints look at an entry of memory for each pair, so that it pays off to ask them once for all heads.
    fn reads_pairs(&self) -> bool {
        false
    }

    /// Appends every key that `query` may see to `keys`, in ascending order.
    fn list(&self, at: At, query: usize, keys: &mut Vec<usize>) {
        let range = self.keys(at, query..query + 1);
        keys.extend(range.filter(|key| self.allows(at, query, *key)));
    }

    /// A range that holds every query that may see one of `keys`: as [`Scope::keys`], seen from
    /// the keys.
    fn queries(&self, at: At, keys: Span) -> Span {
        let _ = keys;
        0..at.q_len
    }
}
