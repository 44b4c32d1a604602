//! Which label was taken for which.

use serde::Serialize;

/// Counts of (gold, predicted) label pairs, as a square table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfusionTable {
    /// Every label of gold or prediction, sorted.
    pub labels: Vec<String>,
    /// `counts[g][p]`: tokens with gold label `labels[g]` that were given `labels[p]`. `[labels, labels]`.
    pub counts: Vec<Vec<u64>>,
}

/// One kind of mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Confused<'a> {
    /// The label that was right.
    pub gold: &'a str,
    /// The label that was given.
    pub predicted: &'a str,
    /// How often.
    pub count: u64,
}

impl ConfusionTable {
    /// Tokens with gold label `gold` that were given `predicted`; 0 for a label that never occurred.
    pub fn count(&self, gold: &str, predicted: &str) -> u64 {
        let index = |label: &str| self.labels.binary_search_by(|l| l.as_str().cmp(label)).ok();
        match (index(gold), index(predicted)) {
            (Some(g), Some(p)) => self.counts[g][p],
            _ => 0,
        }
    }

    /// The mistakes that were made, most frequent first; equal counts in the labels' order.
    pub fn mistakes(&self) -> Vec<Confused<'_>> {
        let mut mistakes = Vec::new();
        for (g, row) in self.counts.iter().enumerate() {
            for (p, &count) in row.iter().enumerate() {
                if g != p && count > 0 {
                    mistakes.push(Confused {
                        gold: &self.labels[g],
                        predicted: &self.labels[p],
                        count,
                    });
                }
            }
        }
        // The sort is stable, so equal counts keep the order of the labels.
        mistakes.sort_by_key(|mistake| std::cmp::Reverse(mistake.count));
        mistakes
    }
}
