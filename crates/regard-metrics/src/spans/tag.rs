//! One tag: a prefix that says where in a span the token stands, a hyphen, and the span's type.

use crate::error::MetricsError;

/// Where in a span a token stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefix {
    /// `O`: in no span.
    O,
    /// `B`: the first of a span.
    B,
    /// `I`: inside a span.
    I,
    /// `E`: the last of a span.
    E,
    /// `S`: the only one of a span.
    S,
    /// `[`: a span of one token, in the oldest notation.
    Open,
    /// `]`: as `[`.
    Close,
}

/// A tag taken apart; `kind` is the span's type, empty for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    pub(super) prefix: Prefix,
    pub(super) kind: &'a str,
}

/// What stands before and behind every sequence.
pub(super) const OUTSIDE: Tag<'static> = Tag { prefix: Prefix::O, kind: "" };

impl<'a> Tag<'a> {
    /// Takes `text`, the tag at `position`, apart at its first hyphen: types may hold hyphens, prefixes do not.
    pub(super) fn parse(text: &'a str, position: usize) -> Result<Self, MetricsError> {
        let (prefix, kind) = text.split_once('-').unwrap_or((text, ""));
        let prefix = match prefix {
            "O" if kind.is_empty() => Prefix::O,
            "B" => Prefix::B,
            "I" => Prefix::I,
            "E" => Prefix::E,
            "S" => Prefix::S,
            "[" => Prefix::Open,
            "]" => Prefix::Close,
            _ => {
                return Err(MetricsError::UnknownTag { position, tag: text.to_owned() });
            }
        };
        Ok(Tag { prefix, kind })
    }
}
