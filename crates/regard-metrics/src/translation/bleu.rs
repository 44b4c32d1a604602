//! BLEU: n-grams of words in common.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::corpus::{SegmentCounts, TranslationMetric, TranslationScore};
use super::text::{trim_end, words};
use super::{TranslationError, ngrams};
use crate::error::MetricsError;
use crate::metric::Metric;

/// The longest n-gram.
const ORDER: usize = 4;

/// What a precision is where nothing of an order matches, after Chen and Cherry (2014, <https://aclanthology.org/W14-3346>).
/// Where not one word matches, the score is 0 whatever the smoothing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Smoothing {
    /// `none`: 0, so that the score is 0.
    None,
    /// `floor`: this many n-grams match instead of none (their method 1). Positive; sacreBLEU's default is 0.1.
    Floor(f64),
    /// `add-k`: k is added to matches and totals of the orders above 1 (their method 2). Positive; sacreBLEU's default is 1.
    AddK(f64),
    /// `exp`: the i-th order without a match counts as if 1/2^i of an n-gram matched (their method 3, that of mteval-v13a).
    #[default]
    Exp,
}

impl Smoothing {
    /// The names, for [`FromStr`] and the command line.
    pub const NAMES: [&'static str; 4] = ["exp", "floor", "add-k", "none"];

    /// With another value than the default.
    ///
    /// # Errors
    /// [`TranslationError::Setting`] for a value that is not positive and finite, and for a smoothing that has none.
    pub fn with_value(self, value: f64) -> Result<Self, TranslationError> {
        let fault = |expected| TranslationError::Setting {
            setting: "smoothing value",
            expected,
            actual: value,
        };
        match self {
            Smoothing::None | Smoothing::Exp => {
                Err(fault("left out, since only floor and add-k have one"))
            }
            _ if !(value.is_finite() && value > 0.0) => Err(fault("above 0")),
            Smoothing::Floor(_) => Ok(Smoothing::Floor(value)),
            Smoothing::AddK(_) => Ok(Smoothing::AddK(value)),
        }
    }
}

impl fmt::Display for Smoothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Smoothing::None => f.write_str("none"),
            Smoothing::Floor(value) => write!(f, "floor[{value:.2}]"),
            Smoothing::AddK(value) => write!(f, "add-k[{value:.2}]"),
            Smoothing::Exp => f.write_str("exp"),
        }
    }
}

impl FromStr for Smoothing {
    type Err = MetricsError;

    /// A name without a value: floor and add-k have sacreBLEU's defaults.
    ///
    /// # Errors
    /// [`MetricsError::UnknownName`] for anything but [`Smoothing::NAMES`].
    fn from_str(name: &str) -> Result<Self, MetricsError> {
        match name {
            "none" => Ok(Smoothing::None),
            "floor" => Ok(Smoothing::Floor(0.1)),
            "add-k" => Ok(Smoothing::AddK(1.0)),
            "exp" => Ok(Smoothing::Exp),
            _ => Err(MetricsError::UnknownName {
                what: "smoothing",
                name: name.to_owned(),
                known: "exp, floor, add-k, none",
            }),
        }
    }
}

/// BLEU = 100 · BP · exp((1/N) Σ_{n=1..N} ln p_n) with N = 4,
/// p_n = matched n-grams / n-grams of the hypotheses, BP = min(1, exp(1 − r/c)),
/// c words in the hypotheses and r in the references nearest to them in length (the shorter of two equally near).
///
/// An n-gram matches at most as often as it occurs in one of the references. Papineni et al. (2002,
/// <https://aclanthology.org/P02-1040>), equations 1 to 3; the counts, and the scores to the last printed digit, are those of sacreBLEU 2.6.0 (Post
/// 2018, <https://aclanthology.org/W18-6319>), whose defaults these are.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bleu {
    /// How lines become words.
    pub tokenisation: super::Tokenisation,
    /// Whether upper and lower case are the same.
    pub lowercase: bool,
    /// What to do where nothing of an order matches.
    pub smoothing: Smoothing,
    /// Whether N is the longest n-gram that the hypothesis has, at most 4. Off for a corpus, on for single sentences, where else a hypothesis of three
    /// words had the score 0.
    pub effective_order: bool,
}

/// What BLEU counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BleuCounts {
    hypothesis_len: u64,
    reference_len: u64,
    matched: [u64; ORDER],
    total: [u64; ORDER],
}

impl SegmentCounts for BleuCounts {
    fn add(&mut self, other: &Self, times: u64) {
        self.hypothesis_len += times * other.hypothesis_len;
        self.reference_len += times * other.reference_len;
        for n in 0..ORDER {
            self.matched[n] += times * other.matched[n];
            self.total[n] += times * other.total[n];
        }
    }
}

impl TranslationMetric for Bleu {
    const METRIC: Metric = Metric::BLEU;
    type Counts = BleuCounts;
    type Score = BleuScore;

    fn count(&self, hypothesis: &str, references: &[&str]) -> BleuCounts {
        let hypothesis = self.spaced(hypothesis);
        let references: Vec<String> = references.iter().map(|text| self.spaced(text)).collect();
        let hypothesis: Vec<&str> = words(&hypothesis).collect();
        let references: Vec<Vec<&str>> = references.iter().map(|r| words(r).collect()).collect();
        let references: Vec<&[&str]> = references.iter().map(Vec::as_slice).collect();
        let len = hypothesis.len();
        let nearest = references.iter().map(|r| r.len()).min_by_key(|&r| (r.abs_diff(len), r));
        let matched = ngrams::matched(&hypothesis, &references, ORDER);
        BleuCounts {
            hypothesis_len: len as u64,
            reference_len: nearest.unwrap_or(0) as u64,
            matched: std::array::from_fn(|n| matched[n]),
            total: std::array::from_fn(|n| ngrams::total(len, n + 1)),
        }
    }

    fn score(&self, counts: &BleuCounts) -> BleuScore {
        let (c, r) = (counts.hypothesis_len as f64, counts.reference_len as f64);
        let brevity_penalty = match counts.hypothesis_len {
            0 if r > 0.0 => 0.0,
            _ if c < r => (1.0 - r / c).exp(),
            _ => 1.0,
        };
        let (precisions, score) = self.precisions(counts, brevity_penalty);
        BleuScore {
            score,
            precisions,
            brevity_penalty,
            hypothesis_len: counts.hypothesis_len,
            reference_len: counts.reference_len,
            matched: counts.matched,
            total: counts.total,
        }
    }

    fn settings(&self) -> String {
        format!(
            "case:{}|eff:{}|tok:{}|smooth:{}",
            if self.lowercase { "lc" } else { "mixed" },
            if self.effective_order { "yes" } else { "no" },
            self.tokenisation,
            self.smoothing
        )
    }
}

impl Bleu {
    fn spaced(&self, text: &str) -> String {
        let lower;
        let text = if self.lowercase {
            lower = text.to_lowercase();
            &lower
        } else {
            text
        };
        self.tokenisation.spaced(trim_end(text)).into_owned()
    }

    /// The precisions in per cent, and the score. Operations stand in sacreBLEU's order, since it decides the last bit.
    fn precisions(&self, counts: &BleuCounts, brevity_penalty: f64) -> ([f64; ORDER], f64) {
        let mut precisions = [0.0; ORDER];
        if counts.matched == [0; ORDER] {
            return (precisions, 0.0);
        }
        let mut orders = ORDER;
        let mut halved = 1.0;
        for n in 0..ORDER {
            let k = match self.smoothing {
                Smoothing::AddK(k) if n > 0 => k,
                _ => 0.0,
            };
            let (matched, total) = (counts.matched[n] as f64 + k, counts.total[n] as f64 + k);
            if total == 0.0 {
                break;
            }
            if self.effective_order {
                orders = n + 1;
            }
            precisions[n] = match self.smoothing {
                _ if matched > 0.0 => 100.0 * matched / total,
                Smoothing::Exp => {
                    halved *= 2.0;
                    100.0 / (halved * total)
                }
                Smoothing::Floor(value) => 100.0 * value / total,
                Smoothing::None | Smoothing::AddK(_) => 0.0,
            };
        }
        let logs: f64 = precisions[..orders].iter().map(|p| p.ln()).sum();
        (precisions, brevity_penalty * (logs / orders as f64).exp())
    }
}

/// BLEU and what it is made of. It displays as sacreBLEU's line, `BLEU = 36.50 67.1/42.0/… (BP = … ratio = … hyp_len = … ref_len = …)`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BleuScore {
    /// In per cent.
    pub score: f64,
    /// p_1 to p_4 in per cent, after smoothing.
    pub precisions: [f64; ORDER],
    /// BP, in [0, 1].
    pub brevity_penalty: f64,
    /// Words of the hypotheses.
    pub hypothesis_len: u64,
    /// Words of the references nearest in length.
    pub reference_len: u64,
    /// Matched n-grams of each order, before smoothing.
    pub matched: [u64; ORDER],
    /// n-grams of the hypotheses of each order, before smoothing.
    pub total: [u64; ORDER],
}

impl TranslationScore for BleuScore {
    fn points(&self) -> f64 {
        self.score
    }
}

impl fmt::Display for BleuScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let [p1, p2, p3, p4] = self.precisions;
        let ratio = match self.reference_len {
            0 => 0.0,
            len => self.hypothesis_len as f64 / len as f64,
        };
        write!(
            f,
            "BLEU = {:.digits$} {p1:.1}/{p2:.1}/{p3:.1}/{p4:.1} (BP = {:.3} ratio = {ratio:.3} hyp_len = {} ref_len = {})",
            self.score, self.brevity_penalty, self.hypothesis_len, self.reference_len
        )
    }
}
