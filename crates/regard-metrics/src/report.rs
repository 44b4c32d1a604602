//! Scores as the text that other programs print, to the last digit.

use std::fmt;

use crate::classes::{Average, Averages, ClassScores, Counts};
use crate::spans::SpanScores;

/// The report of the CoNLL-2000 script `conlleval` (version 2004-01-26), in per cent. Every line ends with a line break.
///
/// Its habits are kept, since the text is meant to be compared with the script's: a rate with a zero denominator is
/// printed as 0; the second line is left out where there are no tokens; a type is padded by bytes; the line of
/// untyped spans comes twice where gold and prediction both hold some.
///
/// Made by [`SpanScores::conll_report`].
#[derive(Debug, Clone, Copy)]
pub struct ConllReport<'a> {
    scores: &'a SpanScores,
}

impl<'a> ConllReport<'a> {
    pub(crate) fn new(scores: &'a SpanScores) -> Self {
        ConllReport { scores }
    }
}

impl fmt::Display for ConllReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SpanScores { spans, tokens, .. } = self.scores;
        writeln!(
            f,
            "processed {} tokens with {} phrases; found: {} phrases; correct: {}.",
            tokens.total, spans.gold, spans.predicted, spans.correct
        )?;
        if tokens.total > 0 {
            let accuracy = percent(tokens.correct, tokens.total);
            let (precision, recall, f1) = percentages(*spans);
            writeln!(
                f,
                "accuracy: {accuracy:6.2}%; precision: {precision:6.2}%; recall: {recall:6.2}%; FB1: {f1:6.2}"
            )?;
        }
        for class in &self.scores.types {
            let counts = class.counts;
            let (precision, recall, f1) = percentages(counts);
            let twice = class.name.is_empty() && counts.gold > 0 && counts.predicted > 0;
            for _ in 0..=usize::from(twice) {
                let padding = 17_usize.saturating_sub(class.name.len());
                writeln!(
                    f,
                    "{:padding$}{}: precision: {precision:6.2}%; recall: {recall:6.2}%; FB1: {f1:6.2}  {}",
                    "", class.name, counts.predicted
                )?;
            }
        }
        Ok(())
    }
}

/// 100·part / whole, multiplied first: the order decides the last bit, and with it how a tie is rounded.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// Precision, recall and F1 in per cent.
fn percentages(counts: Counts) -> (f64, f64, f64) {
    let precision = percent(counts.correct, counts.predicted);
    let recall = percent(counts.correct, counts.gold);
    let f1 = if precision + recall > 0.0 {
        2.0 * precision * recall / (precision + recall)
    } else {
        0.0
    };
    (precision, recall, f1)
}

/// A table of classes and their averages in the layout of seqeval's `classification_report`. It ends with a line break.
///
/// A score with a zero denominator is printed as 0. Made by [`SpanScores::report`] and [`TagScores::report`].
///
/// [`TagScores::report`]: crate::TagScores::report
#[derive(Debug, Clone, Copy)]
pub struct ClassificationReport<'a> {
    classes: &'a [ClassScores],
    averages: &'a Averages,
    digits: usize,
}

impl<'a> ClassificationReport<'a> {
    pub(crate) fn new(classes: &'a [ClassScores], averages: &'a Averages, digits: usize) -> Self {
        ClassificationReport { classes, averages, digits }
    }
}

impl fmt::Display for ClassificationReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits;
        let names = self.classes.iter().map(|class| class.name.chars().count());
        let width = names.chain(["weighted avg".len(), digits]).max().unwrap_or(0);
        let row = |f: &mut fmt::Formatter<'_>, name: &str, scores: Average| {
            let [precision, recall, f1] =
                [scores.precision, scores.recall, scores.f1].map(|score| score.unwrap_or(0.0));
            writeln!(
                f,
                "{name:>width$}  {precision:>9.digits$} {recall:>9.digits$} {f1:>9.digits$} {:>9}",
                scores.support
            )
        };
        writeln!(
            f,
            "{:width$}  {:>9} {:>9} {:>9} {:>9}\n",
            "", "precision", "recall", "f1-score", "support"
        )?;
        for class in self.classes {
            let scores = Average {
                precision: class.precision,
                recall: class.recall,
                f1: class.f1,
                support: class.counts.gold,
            };
            row(f, &class.name, scores)?;
        }
        writeln!(f)?;
        row(f, "micro avg", self.averages.micro)?;
        row(f, "macro avg", self.averages.macro_mean)?;
        row(f, "weighted avg", self.averages.weighted)
    }
}
