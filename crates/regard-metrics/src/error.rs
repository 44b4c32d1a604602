//! What can be wrong with the sequences and names that a caller hands over.

use std::fmt;

use crate::spans::{Scheme, SpanMode};

/// Which of the two compared sequences a fault is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The reference annotation.
    Gold,
    /// The labels to be scored.
    Predicted,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Gold => "gold",
            Side::Predicted => "predicted",
        })
    }
}

/// A fault in what was handed to this crate.
///
/// `sequence` and `position` count from 0 in the fields, as indices do, and from 1 in the messages, as
/// people do. `sequence` is the number of sequences that the accumulator had taken before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// Gold and predicted have different lengths.
    #[error("sequence {}: {gold} gold labels but {predicted} predicted", .sequence + 1)]
    LengthMismatch {
        /// The sequence's index.
        sequence: u64,
        /// Gold labels in it.
        gold: usize,
        /// Predicted labels in it.
        predicted: usize,
    },
    /// There is not one flag for each token.
    #[error("sequence {}: {tokens} tokens but {flags} token flags", .sequence + 1)]
    FlagsMismatch {
        /// The sequence's index.
        sequence: u64,
        /// Labels in it.
        tokens: usize,
        /// Flags given.
        flags: usize,
    },
    /// A label id has no name.
    #[error("token {}: label id {id} is not below {labels}, the number of labels", .position + 1)]
    LabelId {
        /// The token's index in its sequence.
        position: usize,
        /// The id.
        id: u32,
        /// How many names there are.
        labels: usize,
    },
    /// A tag has no prefix that any span encoding knows.
    #[error(
        "token {}: `{tag}` is not a span tag; expected `O`, or one of B, I, E, S, [, ] followed by `-` and a type",
        .position + 1
    )]
    UnknownTag {
        /// The token's index in its sequence.
        position: usize,
        /// The tag as it was given.
        tag: String,
    },
    /// A tag is known, but not in this encoding.
    #[error("token {}: `{tag}` does not belong to scheme {scheme}", .position + 1)]
    TagOutsideScheme {
        /// The token's index in its sequence.
        position: usize,
        /// The tag as it was given.
        tag: String,
        /// The encoding.
        scheme: Scheme,
    },
    /// Two neighbouring tags may not follow each other in this encoding.
    #[error("token {}: {} in scheme {scheme}", .position + 1, transition(.previous.as_ref(), .tag.as_ref()))]
    InvalidTransition {
        /// Index of `tag`; the sequence's length where the sequence ends too early.
        position: usize,
        /// The tag before; `None` at the start of the sequence.
        previous: Option<String>,
        /// The tag that may not follow; `None` at the end of the sequence.
        tag: Option<String>,
        /// The encoding.
        scheme: Scheme,
    },
    /// The sequences are well formed in no known encoding.
    #[error("no tagging scheme fits: sequence {} breaks the likeliest", .sequence + 1)]
    NoSchemeFits {
        /// Index of the first sequence that breaks the likeliest encoding.
        sequence: usize,
        /// How it breaks it.
        source: Box<MetricsError>,
    },
    /// A fault within one sequence of a pair.
    #[error("{side} sequence {}", .sequence + 1)]
    InSequence {
        /// Gold or predicted.
        side: Side,
        /// The sequence's index.
        sequence: u64,
        /// The fault.
        source: Box<MetricsError>,
    },
    /// Two span accumulators that count by different rules cannot be merged.
    #[error(
        "cannot merge {other_mode} counts over {other_scheme} into {mode} counts over {scheme}"
    )]
    SettingsDiffer {
        /// Rules of the accumulator merged into.
        mode: SpanMode,
        /// Its encoding.
        scheme: Scheme,
        /// Rules of the other.
        other_mode: SpanMode,
        /// Its encoding.
        other_scheme: Scheme,
    },
    /// A name, of a mode or a scheme, that is not known.
    #[error("unknown {what} `{name}`; known: {known}")]
    UnknownName {
        /// What was to be named.
        what: &'static str,
        /// The name as it was given.
        name: String,
        /// The names that exist.
        known: &'static str,
    },
}

fn transition(previous: Option<&String>, tag: Option<&String>) -> String {
    match (previous, tag) {
        (Some(previous), Some(tag)) => format!("`{tag}` may not follow `{previous}`"),
        (None, Some(tag)) => format!("a sequence may not begin with `{tag}`"),
        (Some(previous), None) => format!("a sequence may not end with `{previous}`"),
        (None, None) => "a sequence may not be empty".to_owned(),
    }
}
