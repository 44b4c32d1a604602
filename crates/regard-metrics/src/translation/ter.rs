//! TER: edits to the hypothesis, moves of whole phrases among them.

mod distance;
mod shift;
mod tokens;

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use super::corpus::{SegmentCounts, TranslationMetric, TranslationScore};
use super::text::{trim_end, words};
use crate::metric::Metric;

/// A word has so many parts that the mean length of up to [`MAX_REFERENCES`](super::MAX_REFERENCES) = 16 references is a whole number of them: the
/// least common multiple of 1 to 16. So lengths add up without rounding, in any order.
const PARTS_OF_A_WORD: u64 = 720_720;

/// TER = 100 · edits / words of the references: the edits turn the hypothesis into the nearest reference, and are insertions, deletions and
/// substitutions of a word and shifts of a phrase, 1 each; of several references the mean length counts.
///
/// The least number of edits is not known to be found in reasonable time; this is the search of the program tercom as sacreBLEU 2.6.0 does it, with
/// the same scores. Among the phrases of up to 10 words that the reference has elsewhere, not more than 50 words away, the shift that
/// lowers the edit distance most is made, again and again until none does, or until 1000 shifts have been tried for the segment. The edit
/// distance looks no further than 25 words from the diagonal. Snover et al. (2006, <https://aclanthology.org/2006.amta-papers.25>).
///
/// Time per segment is at most that of 1000 edit distances, each linear in the length of the hypothesis.
///
/// ```
/// use regard_metrics::translation::{Corpus, Ter};
///
/// let mut corpus = Corpus::new(Ter::default());
/// // "on Monday" moves to the front, and a word is missing: 2 edits for 6 words.
/// corpus.update("we saw him on Monday", &["on Monday we saw him again"])?;
/// assert_eq!(corpus.finish().to_string(), "TER = 33.33");
/// # Ok::<(), regard_metrics::translation::TranslationError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "four switches of tercom, each on its own")]
pub struct Ter {
    /// Whether punctuation is parted from words, and SGML entities are characters.
    pub normalized: bool,
    /// Whether punctuation is removed.
    pub no_punct: bool,
    /// Whether the other two mean Chinese and Japanese characters too: they become words, and their punctuation is removed.
    pub asian_support: bool,
    /// Whether upper and lower case differ.
    pub case_sensitive: bool,
}

/// What TER counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TerCounts {
    edits: u64,
    reference_parts: u64,
}

impl SegmentCounts for TerCounts {
    fn add(&mut self, other: &Self, times: u64) {
        self.edits += times * other.edits;
        self.reference_parts += times * other.reference_parts;
    }
}

impl TranslationMetric for Ter {
    const METRIC: Metric = Metric::TER;
    type Counts = TerCounts;
    type Score = TerScore;

    fn count(&self, hypothesis: &str, references: &[&str]) -> TerCounts {
        let mut ids = HashMap::new();
        let hypothesis = word_ids(&tokens::spaced(*self, trim_end(hypothesis)), &mut ids);
        let references: Vec<Vec<u32>> = references
            .iter()
            .map(|text| word_ids(&tokens::spaced_reference(*self, trim_end(text)), &mut ids))
            .collect();
        let edits = references.iter().map(|r| shift::edits(&hypothesis, r)).min();
        let words: u64 = references.iter().map(|r| r.len() as u64).sum();
        TerCounts {
            edits: edits.unwrap_or(0),
            reference_parts: words * (PARTS_OF_A_WORD / references.len().max(1) as u64),
        }
    }

    fn score(&self, counts: &TerCounts) -> TerScore {
        let reference_len = counts.reference_parts as f64 / PARTS_OF_A_WORD as f64;
        let rate = if reference_len > 0.0 {
            counts.edits as f64 / reference_len
        } else if counts.edits > 0 {
            1.0
        } else {
            0.0
        };
        TerScore { score: 100.0 * rate, edits: counts.edits, reference_len }
    }

    fn settings(&self) -> String {
        let yes = |is_so| if is_so { "yes" } else { "no" };
        format!(
            "case:{}|tok:tercom|norm:{}|punct:{}|asian:{}",
            if self.case_sensitive { "mixed" } else { "lc" },
            yes(self.normalized),
            yes(!self.no_punct),
            yes(self.asian_support)
        )
    }
}

/// A number for each word, the same for the same word.
fn word_ids(spaced: &str, ids: &mut HashMap<String, u32>) -> Vec<u32> {
    let mut id = |word: &str| {
        if let Some(&id) = ids.get(word) {
            return id;
        }
        let id = ids.len() as u32;
        ids.insert(word.to_owned(), id);
        id
    };
    words(spaced).map(&mut id).collect()
}

/// TER and what it is made of; less is better. It displays as sacreBLEU's line, `TER = 45.83`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TerScore {
    /// In per cent; above 100 where there are more edits than words. 100 for words where the references have none, 0 where nothing has any.
    pub score: f64,
    /// Edits, shifts included.
    pub edits: u64,
    /// Words of the references; of several, their mean.
    pub reference_len: f64,
}

impl TranslationScore for TerScore {
    fn points(&self) -> f64 {
        self.score
    }
}

impl fmt::Display for TerScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "TER = {:.digits$}", self.score)
    }
}
