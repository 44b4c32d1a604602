//! chrF: n-grams of characters in common.

use std::fmt;

use serde::Serialize;

use super::corpus::{SegmentCounts, TranslationMetric, TranslationScore};
use super::text::{is_blank, words};
use super::{TranslationError, ngrams};
use crate::metric::Metric;

/// The longest n-gram that may be asked for; hardly one of more characters is found again.
const MAX_ORDER: usize = 16;
/// Above it recall is all that counts.
const MAX_BETA: u32 = 1000;

/// chrF_β = 100 · (1 + β²) P R / (β² P + R), with P and R the means over the orders of
/// p_n = matched n-grams / n-grams of the hypotheses and r_n = matched n-grams / n-grams of the references.
///
/// n-grams of 1 to `char_order` characters count, and in chrF++ those of 1 to `word_order` words; an order of which hypotheses or references have none is
/// left out of the means. Of several references the one with the highest chrF for its segment counts. Popović (2015,
/// <https://aclanthology.org/W15-3049>; 2017, <https://aclanthology.org/W17-4770>); counts and scores are those of sacreBLEU 2.6.0 without its epsilon
/// smoothing (`eff:yes`). Unlike the usual F, P and R are averaged before they are joined.
///
/// ```
/// use regard_metrics::translation::{Chrf, Corpus};
///
/// let mut corpus = Corpus::new(Chrf::default());
/// corpus.update("the cat sat", &["the cat sits"])?;
/// assert_eq!(corpus.finish().to_string(), "chrF2 = 61.03");
/// let mut corpus = Corpus::new(Chrf::plus_plus());
/// corpus.update("the cat sat", &["the cat sits"])?;
/// assert_eq!(format!("{:.1}", corpus.finish()), "chrF2++ = 60.4");
/// # Ok::<(), regard_metrics::translation::TranslationError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chrf {
    char_order: usize,
    word_order: usize,
    beta: u32,
    /// Whether upper and lower case are the same.
    pub lowercase: bool,
    /// Whether blanks are characters too, those at the ends of a line included.
    pub whitespace: bool,
}

impl Default for Chrf {
    /// chrF2: 6 characters, no words, β = 2.
    fn default() -> Self {
        Chrf { char_order: 6, word_order: 0, beta: 2, lowercase: false, whitespace: false }
    }
}

impl Chrf {
    /// chrF2++: chrF2 and up to 2 words.
    pub fn plus_plus() -> Self {
        Chrf { word_order: 2, ..Chrf::default() }
    }

    /// With other orders and another β: `char_order` in 1..=16, `word_order` in 0..=16, `beta` in 1..=1000.
    ///
    /// # Errors
    /// [`TranslationError::Setting`] for one outside its range.
    pub fn with_orders(
        self,
        char_order: usize,
        word_order: usize,
        beta: u32,
    ) -> Result<Self, TranslationError> {
        for (is_good, setting, expected, actual) in [
            ((1..=MAX_ORDER).contains(&char_order), "character order", "in 1..=16", char_order),
            (word_order <= MAX_ORDER, "word order", "in 0..=16", word_order),
            ((1..=MAX_BETA).contains(&beta), "beta", "in 1..=1000", beta as usize),
        ] {
            if !is_good {
                let actual = actual as f64;
                return Err(TranslationError::Setting { setting, expected, actual });
            }
        }
        Ok(Chrf { char_order, word_order, beta, ..self })
    }

    fn text(&self, text: &str) -> Text {
        let lower = if self.lowercase { text.to_lowercase() } else { text.to_owned() };
        let chars = lower.chars().filter(|&c| self.whitespace || !is_blank(c)).collect();
        Text { chars, lower }
    }

    fn f_score(&self, orders: &[OrderCounts]) -> f64 {
        let (mut precision, mut recall, mut present) = (0.0, 0.0, 0.0);
        for order in orders.iter().filter(|order| order.hypothesis > 0 && order.reference > 0) {
            precision += order.matched as f64 / order.hypothesis as f64;
            recall += order.matched as f64 / order.reference as f64;
            present += 1.0;
        }
        if present > 0.0 {
            precision /= present;
            recall /= present;
        }
        if precision + recall == 0.0 {
            return 0.0;
        }
        let factor = f64::from(self.beta).powi(2);
        let score = (1.0 + factor) * precision * recall;
        100.0 * (score / (factor * precision + recall))
    }
}

struct Text {
    chars: Vec<char>,
    lower: String,
}

impl Text {
    fn words(&self) -> Vec<&str> {
        let mut found = Vec::new();
        for word in words(&self.lower) {
            found.extend(without_punctuation(word).into_iter().filter(|part| !part.is_empty()));
        }
        found
    }
}

/// One ASCII punctuation mark at the end is a word of its own; where there is none, one at the beginning is. So `(hi)` becomes `(hi` and `)`, as
/// in Popović's chrF++.py.
fn without_punctuation(word: &str) -> [&str; 2] {
    let is_mark = |c: char| c.is_ascii_punctuation();
    if word.ends_with(is_mark) {
        word.split_at(word.len() - 1).into()
    } else if word.starts_with(is_mark) {
        word.split_at(1).into()
    } else {
        [word, ""]
    }
}

/// n-grams of one order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct OrderCounts {
    hypothesis: u64,
    reference: u64,
    matched: u64,
}

/// What chrF counts: n-grams of each order of characters, then of words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChrfCounts {
    /// Empty for a sum over nothing.
    orders: Vec<OrderCounts>,
}

impl SegmentCounts for ChrfCounts {
    fn add(&mut self, other: &Self, times: u64) {
        if self.orders.is_empty() {
            self.orders.resize(other.orders.len(), OrderCounts::default());
        }
        for (sum, counts) in self.orders.iter_mut().zip(&other.orders) {
            sum.hypothesis += times * counts.hypothesis;
            sum.reference += times * counts.reference;
            sum.matched += times * counts.matched;
        }
    }
}

fn count<T: Ord + Copy>(hypothesis: &[T], reference: &[T], max_order: usize) -> Vec<OrderCounts> {
    let matched = ngrams::matched(hypothesis, &[reference], max_order);
    let counts = (1..=max_order).zip(matched).map(|(order, matched)| {
        let reference = ngrams::total(reference.len(), order);
        // n-grams that the reference is too short to have are no mistakes.
        let hypothesis = if reference > 0 { ngrams::total(hypothesis.len(), order) } else { 0 };
        OrderCounts { hypothesis, reference, matched }
    });
    counts.collect()
}

impl TranslationMetric for Chrf {
    const METRIC: Metric = Metric::CHRF;
    type Counts = ChrfCounts;
    type Score = ChrfScore;

    fn count(&self, hypothesis: &str, references: &[&str]) -> ChrfCounts {
        let hypothesis = self.text(hypothesis);
        let hypothesis_words = hypothesis.words();
        let mut best: Option<(f64, Vec<OrderCounts>)> = None;
        for reference in references {
            let reference = self.text(reference);
            let mut orders = count(&hypothesis.chars, &reference.chars, self.char_order);
            if self.word_order > 0 {
                orders.extend(count(&hypothesis_words, &reference.words(), self.word_order));
            }
            let score = self.f_score(&orders);
            // The first of equals, as in sacreBLEU.
            if best.as_ref().is_none_or(|(highest, _)| score > *highest) {
                best = Some((score, orders));
            }
        }
        ChrfCounts { orders: best.map(|(_, orders)| orders).unwrap_or_default() }
    }

    fn score(&self, counts: &ChrfCounts) -> ChrfScore {
        ChrfScore {
            score: self.f_score(&counts.orders),
            word_order: self.word_order,
            beta: self.beta,
        }
    }

    fn settings(&self) -> String {
        format!(
            "case:{}|eff:yes|nc:{}|nw:{}|space:{}",
            if self.lowercase { "lc" } else { "mixed" },
            self.char_order,
            self.word_order,
            if self.whitespace { "yes" } else { "no" }
        )
    }
}

/// chrF. It displays as sacreBLEU's line: `chrF2 = 60.41`, with a + for each order of words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChrfScore {
    /// In per cent.
    pub score: f64,
    /// Longest n-gram of words.
    pub word_order: usize,
    /// How much more recall counts than precision.
    pub beta: u32,
}

impl TranslationScore for ChrfScore {
    fn points(&self) -> f64 {
        self.score
    }
}

impl fmt::Display for ChrfScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let plus = "+".repeat(self.word_order);
        write!(f, "chrF{}{plus} = {:.digits$}", self.beta, self.score)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mark_leaves_a_word() {
        for (word, parts) in [
            ("a", ["a", ""]),
            (".", ["", "."]),
            ("a.", ["a", "."]),
            ("(hi)", ["(hi", ")"]),
            ("(hi", ["(", "hi"]),
            ("...", ["..", "."]),
            ("„ja“", ["„ja“", ""]),
            ("é!", ["é", "!"]),
        ] {
            assert_eq!(without_punctuation(word), parts, "{word}");
        }
    }

    #[test]
    fn settings_have_ranges() {
        let chrf = Chrf::default();
        assert!(chrf.with_orders(16, 16, 1000).is_ok() && chrf.with_orders(1, 0, 1).is_ok());
        for (char_order, word_order, beta, message) in [
            (0, 0, 2, "character order must be in 1..=16, got 0"),
            (6, 17, 2, "word order must be in 0..=16, got 17"),
            (6, 2, 0, "beta must be in 1..=1000, got 0"),
        ] {
            let error = chrf.with_orders(char_order, word_order, beta).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
