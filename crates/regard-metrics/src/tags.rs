//! One label a token: accuracy, scores per label, confusion.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::accuracy::Accuracy;
use crate::classes::{Averages, ClassScores, Counts};
use crate::confusion::ConfusionTable;
use crate::error::{MetricsError, Side};
use crate::report::ClassificationReport;

/// What training knew about a word. The default is a seen, unambiguous word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenFlags {
    /// The word form is not in the training vocabulary.
    pub unseen: bool,
    /// The word form has two labels or more in the training data.
    pub ambiguous: bool,
}

/// Counts over label sequences.
///
/// ```
/// use regard_metrics::{TagMetrics, TokenFlags};
///
/// let seen = TokenFlags::default();
/// let ambiguous = TokenFlags { ambiguous: true, ..seen };
/// let mut metrics = TagMetrics::new();
/// // "I saw a saw": the second "saw" is taken for a verb.
/// metrics.update(
///     &["PRON", "VERB", "DET", "NOUN"],
///     &["PRON", "VERB", "DET", "VERB"],
///     &[seen, ambiguous, seen, ambiguous],
/// )?;
/// let scores = metrics.finish();
/// assert_eq!(scores.accuracy.score(), Some(0.75));
/// assert_eq!(scores.ambiguous.score(), Some(0.5));
/// assert_eq!(scores.unseen.score(), None);
/// assert_eq!(scores.label("VERB").unwrap().precision, Some(0.5));
/// assert_eq!(scores.label("NOUN").unwrap().precision, None);
/// assert_eq!(scores.confusion.count("NOUN", "VERB"), 1);
/// # Ok::<(), regard_metrics::MetricsError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TagMetrics {
    sequences: u64,
    all: Accuracy,
    unseen: Accuracy,
    ambiguous: Accuracy,
    /// gold label → predicted label → tokens
    pairs: BTreeMap<String, BTreeMap<String, u64>>,
}

impl TagMetrics {
    /// An accumulator that has seen nothing.
    pub fn new() -> Self {
        TagMetrics::default()
    }

    /// Adds one sequence: `gold`, `predicted` and `flags` hold one entry a token.
    ///
    /// # Errors
    /// [`MetricsError::LengthMismatch`] or [`MetricsError::FlagsMismatch`] where the lengths differ. The counts then stay as they were.
    pub fn update<G: AsRef<str>, P: AsRef<str>>(
        &mut self,
        gold: &[G],
        predicted: &[P],
        flags: &[TokenFlags],
    ) -> Result<(), MetricsError> {
        self.check_lengths(gold.len(), predicted.len(), flags.len())?;
        for ((gold, predicted), flags) in gold.iter().zip(predicted).zip(flags) {
            self.add_token(gold.as_ref(), predicted.as_ref(), *flags);
        }
        self.sequences += 1;
        Ok(())
    }

    /// Adds one sequence of label ids; `labels[id]` is an id's name.
    ///
    /// # Errors
    /// As [`TagMetrics::update`], and [`MetricsError::LabelId`] within [`MetricsError::InSequence`] for an id
    /// without a name. The counts then stay as they were.
    pub fn update_ids<L: AsRef<str>>(
        &mut self,
        labels: &[L],
        gold: &[u32],
        predicted: &[u32],
        flags: &[TokenFlags],
    ) -> Result<(), MetricsError> {
        self.check_lengths(gold.len(), predicted.len(), flags.len())?;
        for (side, ids) in [(Side::Gold, gold), (Side::Predicted, predicted)] {
            if let Some(position) = ids.iter().position(|&id| id as usize >= labels.len()) {
                return Err(MetricsError::InSequence {
                    side,
                    sequence: self.sequences,
                    source: Box::new(MetricsError::LabelId {
                        position,
                        id: ids[position],
                        labels: labels.len(),
                    }),
                });
            }
        }
        let name = |id: u32| labels[id as usize].as_ref();
        for ((&gold, &predicted), flags) in gold.iter().zip(predicted).zip(flags) {
            self.add_token(name(gold), name(predicted), *flags);
        }
        self.sequences += 1;
        Ok(())
    }

    /// Adds another accumulator's counts.
    pub fn merge(&mut self, other: &TagMetrics) {
        self.sequences += other.sequences;
        self.all.merge(other.all);
        self.unseen.merge(other.unseen);
        self.ambiguous.merge(other.ambiguous);
        for (gold, row) in &other.pairs {
            for (predicted, &count) in row {
                self.add_pair(gold, predicted, count);
            }
        }
    }

    /// The scores of everything added so far. Time and memory grow with the square of the number of labels.
    pub fn finish(&self) -> TagScores {
        let names: BTreeSet<&String> =
            self.pairs.iter().flat_map(|(gold, row)| row.keys().chain([gold])).collect();
        let labels: Vec<String> = names.into_iter().cloned().collect();
        let pair = |gold: &String, predicted: &String| {
            let row = self.pairs.get(gold);
            row.and_then(|row| row.get(predicted)).copied().unwrap_or(0)
        };
        let counts: Vec<Vec<u64>> = labels
            .iter()
            .map(|gold| labels.iter().map(|predicted| pair(gold, predicted)).collect())
            .collect();
        let classes: Vec<ClassScores> = labels
            .iter()
            .enumerate()
            .map(|(i, label)| {
                let counts = Counts {
                    gold: counts[i].iter().sum(),
                    predicted: counts.iter().map(|row| row[i]).sum(),
                    correct: counts[i][i],
                };
                ClassScores::new(label.clone(), counts)
            })
            .collect();
        TagScores {
            sequences: self.sequences,
            accuracy: self.all,
            unseen: self.unseen,
            ambiguous: self.ambiguous,
            averages: Averages::of(&classes),
            labels: classes,
            confusion: ConfusionTable { labels, counts },
        }
    }

    fn check_lengths(
        &self,
        gold: usize,
        predicted: usize,
        flags: usize,
    ) -> Result<(), MetricsError> {
        let sequence = self.sequences;
        if gold != predicted {
            return Err(MetricsError::LengthMismatch { sequence, gold, predicted });
        }
        if gold != flags {
            return Err(MetricsError::FlagsMismatch { sequence, tokens: gold, flags });
        }
        Ok(())
    }

    fn add_token(&mut self, gold: &str, predicted: &str, flags: TokenFlags) {
        let correct = gold == predicted;
        self.all.update(correct);
        if flags.unseen {
            self.unseen.update(correct);
        }
        if flags.ambiguous {
            self.ambiguous.update(correct);
        }
        self.add_pair(gold, predicted, 1);
    }

    fn add_pair(&mut self, gold: &str, predicted: &str, count: u64) {
        // Looking up before inserting saves a copy of both labels for all but the first token of a pair.
        if let Some(cell) = self.pairs.get_mut(gold).and_then(|row| row.get_mut(predicted)) {
            *cell += count;
            return;
        }
        let row = self.pairs.entry(gold.to_owned()).or_default();
        row.insert(predicted.to_owned(), count);
    }
}

/// What [`TagMetrics`] found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TagScores {
    /// Sequences added.
    pub sequences: u64,
    /// Over all words.
    pub accuracy: Accuracy,
    /// Over the words flagged as unseen in training.
    pub unseen: Accuracy,
    /// Over the words flagged as ambiguous in training.
    pub ambiguous: Accuracy,
    /// Micro, macro and weighted averages over the labels. With one label a token, micro precision, recall and F1 equal the accuracy.
    pub averages: Averages,
    /// Every label of gold or prediction, sorted.
    pub labels: Vec<ClassScores>,
    /// Which label was taken for which.
    pub confusion: ConfusionTable,
}

impl TagScores {
    /// One label's scores; `None` for a label in neither gold nor prediction.
    pub fn label(&self, name: &str) -> Option<&ClassScores> {
        self.labels.iter().find(|label| label.name == name)
    }

    /// The scores per label and their averages as a table with `digits` decimal places.
    pub fn report(&self, digits: usize) -> ClassificationReport<'_> {
        ClassificationReport::new(&self.labels, &self.averages, digits)
    }
}

#[cfg(test)]
mod tests {
    use super::{TagMetrics, TokenFlags};
    use crate::error::{MetricsError, Side};

    const SEEN: TokenFlags = TokenFlags { unseen: false, ambiguous: false };

    #[test]
    fn nothing_added_gives_none() {
        let scores = TagMetrics::new().finish();
        assert_eq!(scores.accuracy.score(), None);
        assert_eq!(scores.averages.macro_mean.f1, None);
        assert!(scores.labels.is_empty() && scores.confusion.labels.is_empty());
        assert!(!serde_json::to_string(&scores).unwrap().contains("NaN"));
    }

    #[test]
    fn a_refused_sequence_is_named_and_leaves_the_counts() {
        let mut metrics = TagMetrics::new();
        metrics.update(&["a"], &["a"], &[SEEN]).unwrap();
        let before = metrics.clone();
        let error = metrics.update(&["a", "b"], &["a"], &[SEEN; 2]).unwrap_err();
        assert_eq!(error.to_string(), "sequence 2: 2 gold labels but 1 predicted");
        let error = metrics.update(&["a"], &["a"], &[]).unwrap_err();
        assert_eq!(error.to_string(), "sequence 2: 1 tokens but 0 token flags");
        let error = metrics.update_ids(&["a", "b"], &[0, 1], &[1, 2], &[SEEN; 2]).unwrap_err();
        let MetricsError::InSequence { side: Side::Predicted, sequence: 1, source } = error else {
            panic!("{error:?}")
        };
        assert_eq!(source.to_string(), "token 2: label id 2 is not below 2, the number of labels");
        assert_eq!(metrics, before);
    }

    #[test]
    fn ids_count_as_their_names() {
        let flags = [TokenFlags { unseen: true, ..SEEN }, SEEN];
        let (mut by_id, mut by_name) = (TagMetrics::new(), TagMetrics::new());
        by_id.update_ids(&["x", "y", "z"], &[2, 0], &[2, 1], &flags).unwrap();
        by_name.update(&["z", "x"], &["z", "y"], &flags).unwrap();
        assert_eq!(by_id, by_name);
    }

    #[test]
    fn mistakes_come_most_frequent_first() {
        let mut metrics = TagMetrics::new();
        let gold = ["a", "a", "b", "b", "b", "c"];
        let predicted = ["a", "c", "a", "a", "b", "b"];
        metrics.update(&gold, &predicted, &[SEEN; 6]).unwrap();
        let scores = metrics.finish();
        let mistakes: Vec<_> = scores.confusion.mistakes();
        let mistakes: Vec<_> = mistakes.iter().map(|m| (m.gold, m.predicted, m.count)).collect();
        assert_eq!(mistakes, [("b", "a", 2), ("a", "c", 1), ("c", "b", 1)]);
        assert_eq!(scores.confusion.counts, [[1, 0, 1], [2, 1, 0], [0, 1, 0]]);
        assert_eq!(scores.confusion.count("a", "no such label"), 0);
    }
}
