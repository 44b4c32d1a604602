//! Labelled spans encoded as one tag a token, and how well they were found.

mod conlleval;
mod scheme;
mod strict;
mod tag;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

pub use scheme::Scheme;
pub use strict::Span;

use crate::accuracy::Accuracy;
use crate::classes::{Averages, ClassScores, Counts};
use crate::error::{MetricsError, Side};
use crate::report::{ClassificationReport, ConllReport};
use tag::Tag;

/// By which rules tags become spans. Both rules agree on well-formed tags; they differ on the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SpanMode {
    /// `conlleval`: the rules of the CoNLL-2000 script of that name (Tjong Kim Sang, version 2004-01-26). Every tag but `O` is part
    /// of some span: an `I-X` after `O`, or after a tag of another type, begins one.
    ///
    /// The script knows `B`, `I`, `E`, `O`, `[` and `]`, not `S`, and joins `E-X B-X` into one span. So it cannot read IOBES. With
    /// [`Scheme::Iobes`], and only with it, `S` is a span of its own and a span ends after every `E`, as in
    /// seqeval's default mode; on well-formed IOBES this finds the spans that the script finds in the same data as IOB2.
    ConllEval,
    /// `strict`: the rules of seqeval 1.2.2 with `mode='strict'` and a scheme. A span that is not encoded as the scheme demands does
    /// not count; nor does, in IOB1, a one-token span `B-X` before a `B-Y`.
    Strict,
}

impl fmt::Display for SpanMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SpanMode::ConllEval => "conlleval",
            SpanMode::Strict => "strict",
        })
    }
}

impl FromStr for SpanMode {
    type Err = MetricsError;

    /// # Errors
    /// [`MetricsError::UnknownName`] for anything but `conlleval` and `strict`.
    fn from_str(name: &str) -> Result<Self, MetricsError> {
        match name {
            "conlleval" => Ok(SpanMode::ConllEval),
            "strict" => Ok(SpanMode::Strict),
            _ => Err(MetricsError::UnknownName {
                what: "span mode",
                name: name.to_owned(),
                known: "conlleval, strict",
            }),
        }
    }
}

/// Counts of labelled spans.
///
/// ```
/// use regard_metrics::{Scheme, SpanMetrics, SpanMode};
///
/// let gold = ["I-LOC", "O", "B-PER", "I-PER"];
/// let predicted = ["B-LOC", "O", "B-PER", "O"];
///
/// // The script takes the ill-formed I-LOC for a span, and finds it in the prediction.
/// let mut lenient = SpanMetrics::new(SpanMode::ConllEval, Scheme::Iob2);
/// lenient.update(&gold, &predicted)?;
/// assert_eq!(lenient.finish().averages.micro.f1, Some(0.5));
///
/// // In strict IOB2 a span begins with B.
/// let mut strict = SpanMetrics::new(SpanMode::Strict, Scheme::Iob2);
/// strict.update(&gold, &predicted)?;
/// assert_eq!(strict.finish().averages.micro.f1, Some(0.0));
/// # Ok::<(), regard_metrics::MetricsError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanMetrics {
    mode: SpanMode,
    scheme: Scheme,
    sequences: u64,
    tokens: Accuracy,
    types: BTreeMap<String, Counts>,
}

impl SpanMetrics {
    /// An accumulator that has seen nothing. `scheme` says which tags may occur; in [`SpanMode::ConllEval`] the
    /// rules are the same for [`Scheme::Iob1`] and [`Scheme::Iob2`].
    pub fn new(mode: SpanMode, scheme: Scheme) -> Self {
        SpanMetrics {
            mode,
            scheme,
            sequences: 0,
            tokens: Accuracy::default(),
            types: BTreeMap::new(),
        }
    }

    /// Adds one sequence of tags; no span reaches beyond it. A tag without a type, such as `B`, makes a span whose
    /// type is empty (conlleval) or `_` (strict), as it does in the programs followed.
    ///
    /// # Errors
    /// [`MetricsError::LengthMismatch`]; or within [`MetricsError::InSequence`]: [`MetricsError::UnknownTag`],
    /// [`MetricsError::TagOutsideScheme`]. The counts then stay as they were.
    pub fn update<G: AsRef<str>, P: AsRef<str>>(
        &mut self,
        gold: &[G],
        predicted: &[P],
    ) -> Result<(), MetricsError> {
        if gold.len() != predicted.len() {
            return Err(MetricsError::LengthMismatch {
                sequence: self.sequences,
                gold: gold.len(),
                predicted: predicted.len(),
            });
        }
        let gold = self.read(Side::Gold, gold)?;
        let predicted = self.read(Side::Predicted, predicted)?;
        for (gold, predicted) in gold.iter().zip(&predicted) {
            self.tokens.update(gold == predicted);
        }
        match self.mode {
            SpanMode::ConllEval => {
                let scheme = self.scheme;
                conlleval::count(&gold, &predicted, scheme, |kind, counts| self.add(kind, counts));
            }
            SpanMode::Strict => {
                let gold = strict::spans(&gold, self.scheme);
                let predicted = strict::spans(&predicted, self.scheme);
                strict::count(&gold, &predicted, |kind, counts| self.add(kind, counts));
            }
        }
        self.sequences += 1;
        Ok(())
    }

    /// Adds another accumulator's counts.
    ///
    /// # Errors
    /// [`MetricsError::SettingsDiffer`] where mode or scheme differ.
    pub fn merge(&mut self, other: &SpanMetrics) -> Result<(), MetricsError> {
        if (self.mode, self.scheme) != (other.mode, other.scheme) {
            return Err(MetricsError::SettingsDiffer {
                mode: self.mode,
                scheme: self.scheme,
                other_mode: other.mode,
                other_scheme: other.scheme,
            });
        }
        self.sequences += other.sequences;
        self.tokens.merge(other.tokens);
        for (kind, &counts) in &other.types {
            self.add(kind, counts);
        }
        Ok(())
    }

    /// The scores of everything added so far.
    pub fn finish(&self) -> SpanScores {
        let mut spans = Counts::default();
        let mut types = Vec::with_capacity(self.types.len());
        for (kind, &counts) in &self.types {
            spans.merge(counts);
            types.push(ClassScores::new(kind.clone(), counts));
        }
        SpanScores {
            mode: self.mode,
            scheme: self.scheme,
            sequences: self.sequences,
            tokens: self.tokens,
            spans,
            averages: Averages::of(&types),
            types,
        }
    }

    fn read<'a, T: AsRef<str>>(
        &self,
        side: Side,
        tags: &'a [T],
    ) -> Result<Vec<Tag<'a>>, MetricsError> {
        let read = match self.mode {
            SpanMode::ConllEval => conlleval::read(tags, self.scheme),
            SpanMode::Strict => strict::read(tags, self.scheme),
        };
        read.map_err(|fault| MetricsError::InSequence {
            side,
            sequence: self.sequences,
            source: Box::new(fault),
        })
    }

    fn add(&mut self, kind: &str, counts: Counts) {
        if let Some(sum) = self.types.get_mut(kind) {
            sum.merge(counts);
        } else {
            self.types.insert(kind.to_owned(), counts);
        }
    }
}

/// What [`SpanMetrics`] found. It displays as the report of the program that its mode follows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpanScores {
    /// The rules used.
    pub mode: SpanMode,
    /// The encoding of the tags.
    pub scheme: Scheme,
    /// Sequences added.
    pub sequences: u64,
    /// Tokens, and those with the same tag in gold and prediction.
    pub tokens: Accuracy,
    /// Spans of all types.
    pub spans: Counts,
    /// Micro, macro and weighted averages over the types. Span F1 is `averages.micro.f1`.
    pub averages: Averages,
    /// Every type of gold or prediction, sorted.
    pub types: Vec<ClassScores>,
}

impl SpanScores {
    /// The report of the CoNLL-2000 script.
    ///
    /// ```
    /// use regard_metrics::{Scheme, SpanMetrics, SpanMode};
    ///
    /// let mut metrics = SpanMetrics::new(SpanMode::ConllEval, Scheme::Iob2);
    /// metrics.update(&["B-NP", "I-NP", "B-VP"], &["B-NP", "I-NP", "O"])?;
    /// assert_eq!(
    ///     metrics.finish().conll_report().to_string(),
    ///     "processed 3 tokens with 2 phrases; found: 1 phrases; correct: 1.\n\
    ///      accuracy:  66.67%; precision: 100.00%; recall:  50.00%; FB1:  66.67\n\
    ///      \x20              NP: precision: 100.00%; recall: 100.00%; FB1: 100.00  1\n\
    ///      \x20              VP: precision:   0.00%; recall:   0.00%; FB1:   0.00  0\n"
    /// );
    /// # Ok::<(), regard_metrics::MetricsError>(())
    /// ```
    pub fn conll_report(&self) -> ConllReport<'_> {
        ConllReport::new(self)
    }

    /// The report of seqeval, with `digits` decimal places.
    pub fn report(&self, digits: usize) -> ClassificationReport<'_> {
        ClassificationReport::new(&self.types, &self.averages, digits)
    }
}

impl fmt::Display for SpanScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mode {
            SpanMode::ConllEval => self.conll_report().fmt(f),
            SpanMode::Strict => self.report(4).fmt(f),
        }
    }
}
