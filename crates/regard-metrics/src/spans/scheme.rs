//! The encodings of spans as tags, and the way from one to another.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::strict::{self, Span};
use super::tag::{OUTSIDE, Prefix, Tag};
use crate::error::MetricsError;

/// How a sequence of tags encodes spans that do not overlap.
///
/// | tokens | `a` | `b` | `c` | `d` | `e` |
/// |---|---|---|---|---|---|
/// | spans | X | X | X, a new one | none | Y |
/// | IOB1 | `I-X` | `I-X` | `B-X` | `O` | `I-Y` |
/// | IOB2 | `B-X` | `I-X` | `B-X` | `O` | `B-Y` |
/// | IOBES | `B-X` | `E-X` | `S-X` | `O` | `S-Y` |
///
/// A well-formed sequence with at least one span is well formed in one of them only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// `iob1`, also named `iob`: `B` only where a span touches one of the same type before it (Ramshaw and Marcus 1995).
    Iob1,
    /// `iob2`, also named `bio`: `B` at the start of every span (Ratnaparkhi 1998).
    Iob2,
    /// `iobes`, also named `bioes`: as IOB2, with `E` at the end of a span and `S` for a span of one token.
    Iobes,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scheme::Iob1 => "iob1",
            Scheme::Iob2 => "iob2",
            Scheme::Iobes => "iobes",
        })
    }
}

impl FromStr for Scheme {
    type Err = MetricsError;

    /// Reads a name in upper or lower case.
    ///
    /// # Errors
    /// [`MetricsError::UnknownName`].
    fn from_str(name: &str) -> Result<Self, MetricsError> {
        match name.to_ascii_lowercase().as_str() {
            "iob1" | "iob" => Ok(Scheme::Iob1),
            "iob2" | "bio" => Ok(Scheme::Iob2),
            "iobes" | "bioes" => Ok(Scheme::Iobes),
            _ => Err(MetricsError::UnknownName {
                what: "tagging scheme",
                name: name.to_owned(),
                known: "iob1 (iob), iob2 (bio), iobes (bioes)",
            }),
        }
    }
}

impl Scheme {
    /// The scheme in which every one of `sequences` is well formed; [`Scheme::Iob2`] where no sequence holds a span.
    ///
    /// ```
    /// use regard_metrics::Scheme;
    ///
    /// assert_eq!(Scheme::detect(&[vec!["O", "I-X"], vec!["I-X", "B-X"]])?, Scheme::Iob1);
    /// # Ok::<(), regard_metrics::MetricsError>(())
    /// ```
    ///
    /// # Errors
    /// [`MetricsError::NoSchemeFits`], with the first fault under the likeliest: IOBES where an `E` or `S` occurs, else IOB2.
    pub fn detect<S: AsRef<[T]>, T: AsRef<str>>(sequences: &[S]) -> Result<Scheme, MetricsError> {
        let first_fault = |scheme: Scheme| {
            let mut faults = sequences.iter().enumerate().filter_map(|(index, sequence)| {
                let fault = scheme.check(sequence.as_ref()).err()?;
                Some((index, fault))
            });
            faults.next()
        };
        for scheme in [Scheme::Iob2, Scheme::Iob1, Scheme::Iobes] {
            if first_fault(scheme).is_none() {
                return Ok(scheme);
            }
        }
        let mut tags = sequences.iter().flat_map(AsRef::as_ref);
        let is_iobes = tags.any(|tag| {
            let tag = Tag::parse(tag.as_ref(), 0);
            tag.is_ok_and(|tag| matches!(tag.prefix, Prefix::E | Prefix::S))
        });
        let likeliest = if is_iobes { Scheme::Iobes } else { Scheme::Iob2 };
        match first_fault(likeliest) {
            Some((sequence, fault)) => {
                Err(MetricsError::NoSchemeFits { sequence, source: Box::new(fault) })
            }
            None => Ok(likeliest),
        }
    }

    /// Checks that `tags` is well formed.
    ///
    /// ```
    /// use regard_metrics::Scheme;
    ///
    /// assert!(Scheme::Iob2.check(&["B-PER", "I-PER", "O"]).is_ok());
    /// let fault = Scheme::Iob2.check(&["B-PER", "O", "I-PER"]).unwrap_err();
    /// assert_eq!(fault.to_string(), "token 3: `I-PER` may not follow `O` in scheme iob2");
    /// ```
    ///
    /// # Errors
    /// The first fault: [`MetricsError::UnknownTag`], [`MetricsError::TagOutsideScheme`] or [`MetricsError::InvalidTransition`].
    pub fn check<T: AsRef<str>>(self, tags: &[T]) -> Result<(), MetricsError> {
        let parsed = self.read(tags)?;
        let mut previous = OUTSIDE;
        for (position, &tag) in parsed.iter().chain([&OUTSIDE]).enumerate() {
            if !self.may_follow(previous, tag) {
                let text = |index: usize| tags.get(index).map(|tag| tag.as_ref().to_owned());
                return Err(MetricsError::InvalidTransition {
                    position,
                    previous: position.checked_sub(1).and_then(text),
                    tag: text(position),
                    scheme: self,
                });
            }
            previous = tag;
        }
        Ok(())
    }

    /// The spans of `tags` by the strict rules: what is not encoded as the scheme demands is left out. Use
    /// [`Scheme::check`] first to refuse it instead.
    ///
    /// ```
    /// use regard_metrics::{Scheme, Span};
    ///
    /// let spans = Scheme::Iobes.spans(&["B-PER", "E-PER", "O", "S-LOC"])?;
    /// assert_eq!(spans[0], Span { start: 0, end: 2, kind: "PER" });
    /// assert_eq!(spans[1], Span { start: 3, end: 4, kind: "LOC" });
    /// # Ok::<(), regard_metrics::MetricsError>(())
    /// ```
    ///
    /// # Errors
    /// [`MetricsError::UnknownTag`] or [`MetricsError::TagOutsideScheme`].
    pub fn spans<T: AsRef<str>>(self, tags: &[T]) -> Result<Vec<Span<'_>>, MetricsError> {
        Ok(strict::spans(&self.read(tags)?, self))
    }

    /// The same spans as `tags` in scheme `to`. Converting back gives `tags` again.
    ///
    /// ```
    /// use regard_metrics::Scheme;
    ///
    /// let tags = Scheme::Iob1.convert(&["I-X", "I-X", "B-X", "O"], Scheme::Iobes)?;
    /// assert_eq!(tags, ["B-X", "E-X", "S-X", "O"]);
    /// # Ok::<(), regard_metrics::MetricsError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Scheme::check`]: an ill-formed sequence has no one meaning that could be kept.
    pub fn convert<T: AsRef<str>>(
        self,
        tags: &[T],
        to: Scheme,
    ) -> Result<Vec<String>, MetricsError> {
        self.check(tags)?;
        Ok(to.write(&self.spans(tags)?, tags.len()))
    }

    /// Encodes `spans`, which are sorted, do not overlap and end by `len`, as `len` tags.
    fn write(self, spans: &[Span<'_>], len: usize) -> Vec<String> {
        let mut tags = vec!["O".to_owned(); len];
        let mut before: Option<Span<'_>> = None;
        for &span in spans {
            let touches = before.is_some_and(|b| b.end == span.start && b.kind == span.kind);
            for position in span.start..span.end {
                let first = position == span.start;
                let last = position + 1 == span.end;
                let prefix = match (self, first, last) {
                    (Scheme::Iob1, true, _) if touches => "B",
                    (Scheme::Iob1, ..) | (_, false, false) | (Scheme::Iob2, false, true) => "I",
                    (Scheme::Iob2, true, _) | (Scheme::Iobes, true, false) => "B",
                    (Scheme::Iobes, false, true) => "E",
                    (Scheme::Iobes, true, true) => "S",
                };
                tags[position] = match span.kind {
                    "" => prefix.to_owned(),
                    kind => format!("{prefix}-{kind}"),
                };
            }
            before = Some(span);
        }
        tags
    }

    /// Takes every tag apart and refuses those whose prefix the scheme does not have.
    pub(super) fn read<T: AsRef<str>>(self, tags: &[T]) -> Result<Vec<Tag<'_>>, MetricsError> {
        read(tags, self, |prefix| match self {
            Scheme::Iob1 | Scheme::Iob2 => matches!(prefix, Prefix::O | Prefix::B | Prefix::I),
            Scheme::Iobes => !matches!(prefix, Prefix::Open | Prefix::Close),
        })
    }

    /// Whether `tag` may come after `previous`. Both ends of a sequence count as `O`.
    fn may_follow(self, previous: Tag<'_>, tag: Tag<'_>) -> bool {
        let same = previous.kind == tag.kind;
        let in_span = matches!(previous.prefix, Prefix::B | Prefix::I);
        match self {
            Scheme::Iob1 => tag.prefix != Prefix::B || (in_span && same),
            Scheme::Iob2 => tag.prefix != Prefix::I || (in_span && same),
            Scheme::Iobes => {
                let goes_on = matches!(tag.prefix, Prefix::I | Prefix::E);
                in_span == goes_on && (same || !goes_on)
            }
        }
    }
}

/// Takes every tag apart and refuses those whose prefix is not `allowed`.
pub(super) fn read<T: AsRef<str>>(
    tags: &[T],
    scheme: Scheme,
    allowed: impl Fn(Prefix) -> bool,
) -> Result<Vec<Tag<'_>>, MetricsError> {
    let mut parsed = Vec::with_capacity(tags.len());
    for (position, text) in tags.iter().enumerate() {
        let tag = Tag::parse(text.as_ref(), position)?;
        if !allowed(tag.prefix) {
            return Err(MetricsError::TagOutsideScheme {
                position,
                tag: text.as_ref().to_owned(),
                scheme,
            });
        }
        parsed.push(tag);
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::Scheme;
    use crate::error::MetricsError;

    #[test]
    fn names() {
        for (name, scheme) in [
            ("iob", Scheme::Iob1),
            ("IOB1", Scheme::Iob1),
            ("BIO", Scheme::Iob2),
            ("iob2", Scheme::Iob2),
            ("BIOES", Scheme::Iobes),
            ("iobes", Scheme::Iobes),
        ] {
            assert_eq!(name.parse::<Scheme>().unwrap(), scheme, "{name}");
            assert_eq!(scheme.to_string().parse::<Scheme>().unwrap(), scheme);
        }
        assert_eq!(
            "bilou".parse::<Scheme>().unwrap_err().to_string(),
            "unknown tagging scheme `bilou`; known: iob1 (iob), iob2 (bio), iobes (bioes)"
        );
    }

    #[test]
    fn a_fault_names_place_and_transition() {
        for (scheme, tags, message) in [
            (Scheme::Iob2, "I-X", "token 1: a sequence may not begin with `I-X` in scheme iob2"),
            (Scheme::Iob2, "B-X I-Y", "token 2: `I-Y` may not follow `B-X` in scheme iob2"),
            (Scheme::Iob1, "I-X I-X B-Y", "token 3: `B-Y` may not follow `I-X` in scheme iob1"),
            (Scheme::Iob1, "B-X", "token 1: a sequence may not begin with `B-X` in scheme iob1"),
            (
                Scheme::Iobes,
                "B-X I-X",
                "token 3: a sequence may not end with `I-X` in scheme iobes",
            ),
            (Scheme::Iobes, "B-X S-X", "token 2: `S-X` may not follow `B-X` in scheme iobes"),
            (Scheme::Iobes, "E-X", "token 1: a sequence may not begin with `E-X` in scheme iobes"),
            (Scheme::Iob2, "O S-X", "token 2: `S-X` does not belong to scheme iob2"),
            (
                Scheme::Iob2,
                "O NOUN",
                "token 2: `NOUN` is not a span tag; expected `O`, or one of B, I, E, S, [, ] followed by `-` and a type",
            ),
        ] {
            let tags: Vec<&str> = tags.split(' ').collect();
            assert_eq!(scheme.check(&tags).unwrap_err().to_string(), message);
            assert_eq!(scheme.convert(&tags, Scheme::Iob2).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn detection() {
        for (sequences, scheme) in [
            (vec![], Scheme::Iob2),
            (vec!["O O"], Scheme::Iob2),
            (vec!["O", "B-X B-X I-X"], Scheme::Iob2),
            (vec!["I-X I-Y B-Y"], Scheme::Iob1),
            (vec!["B-X E-X", "O"], Scheme::Iobes),
            (vec!["S-X"], Scheme::Iobes),
        ] {
            let split: Vec<Vec<&str>> = sequences.iter().map(|s| s.split(' ').collect()).collect();
            assert_eq!(Scheme::detect(&split).unwrap(), scheme, "{sequences:?}");
        }
        let error = Scheme::detect(&[["B-X", "O"], ["I-X", "O"]]).unwrap_err();
        let MetricsError::NoSchemeFits { sequence: 1, source } = error else { panic!("{error:?}") };
        assert_eq!(
            source.to_string(),
            "token 1: a sequence may not begin with `I-X` in scheme iob2"
        );
    }
}
