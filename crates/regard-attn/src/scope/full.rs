//! Every query sees every key.

use super::{Coverage, Scope};
use crate::call::{At, Span};
use crate::catalogue::{Entry, Kind, LUONG, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "full",
    kind: Kind::Scope,
    title: "full (global)",
    formula: "scope(i) = {0 … kv_len−1}",
    parts: None,
    paper: Some(LUONG),
    taxonomy: None,
    shapes: "q_len × kv_len pairs",
    cost: "O(q_len·kv_len)",
    mistakes: &["padding of shorter items is seen too: join it with `lengths`"],
    example: example!(Full),
};

/// scope(i) = {0 … kv_len−1}: every key of the item, called "global" by Luong et al. 2015.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl Scope for Full {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn same_for_heads(&self) -> bool {
        true
    }

    fn allows(&self, _: At, _: usize, _: usize) -> bool {
        true
    }

    fn contiguous(&self) -> bool {
        true
    }

    fn tile(&self, _: At, _: Span, _: Span) -> Coverage {
        Coverage::Whole
    }
}
