//! Precision, recall and F1 of classes, be they labels or span types, and their averages.

use serde::Serialize;

use crate::accuracy::ratio;

/// How often a class was there, was predicted, and was predicted where it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Occurrences in the gold annotation (the support).
    pub gold: u64,
    /// Occurrences in the prediction.
    pub predicted: u64,
    /// Occurrences in both at the same place.
    pub correct: u64,
}

impl Counts {
    /// Adds another count.
    pub fn merge(&mut self, other: Counts) {
        self.gold += other.gold;
        self.predicted += other.predicted;
        self.correct += other.correct;
    }

    /// correct / predicted in [0, 1]; `None` where nothing was predicted.
    pub fn precision(self) -> Option<f64> {
        ratio(self.correct, self.predicted)
    }

    /// correct / gold in [0, 1]; `None` where the gold has none.
    pub fn recall(self) -> Option<f64> {
        ratio(self.correct, self.gold)
    }

    /// F1 = 2·P·R / (P + R) in [0, 1]; 0 where nothing is correct; `None` where the class is in
    /// neither sequence.
    ///
    /// Equal to 2·correct / (gold + predicted). It is computed from P and R so that the last bit, and with
    /// it the last printed digit of a tie, is that of scikit-learn and seqeval.
    pub fn f1(self) -> Option<f64> {
        if self.gold + self.predicted == 0 {
            return None;
        }
        let precision = self.precision().unwrap_or(0.0);
        let recall = self.recall().unwrap_or(0.0);
        if self.correct == 0 {
            return Some(0.0);
        }
        Some(2.0 * precision * recall / (precision + recall))
    }
}

/// One class's counts and scores.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassScores {
    /// The label, or the span type.
    pub name: String,
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
    /// See [`Counts::precision`].
    pub precision: Option<f64>,
    /// See [`Counts::recall`].
    pub recall: Option<f64>,
    /// See [`Counts::f1`].
    pub f1: Option<f64>,
}

impl ClassScores {
    pub(crate) fn new(name: String, counts: Counts) -> Self {
        ClassScores {
            name,
            counts,
            precision: counts.precision(),
            recall: counts.recall(),
            f1: counts.f1(),
        }
    }
}

/// One average over classes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Average {
    /// Average precision in [0, 1].
    pub precision: Option<f64>,
    /// Average recall in [0, 1].
    pub recall: Option<f64>,
    /// Average F1 in [0, 1]. Of macro and weighted it is the average of F1, not the F1 of averages.
    pub f1: Option<f64>,
    /// Gold occurrences of all classes together.
    pub support: u64,
}

/// The three usual averages over the classes that occur in gold or prediction.
///
/// - micro: the scores of the summed counts.
/// - macro: Σ_c s_c / C. A class's undefined score enters as 0; `None` without classes.
/// - weighted: Σ_c gold_c · s_c / Σ_c gold_c. `None` where the gold has no occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Averages {
    /// Scores of the summed counts.
    pub micro: Average,
    /// Mean over the classes.
    #[serde(rename = "macro")]
    pub macro_mean: Average,
    /// Mean over the classes, weighted by support.
    pub weighted: Average,
}

impl Averages {
    pub(crate) fn of(classes: &[ClassScores]) -> Self {
        let mut total = Counts::default();
        for class in classes {
            total.merge(class.counts);
        }
        let mean = |score: fn(&ClassScores) -> Option<f64>, weight: fn(&ClassScores) -> f64| {
            let weights: f64 = classes.iter().map(weight).sum();
            let sum: f64 =
                classes.iter().map(|class| score(class).unwrap_or(0.0) * weight(class)).sum();
            (weights > 0.0).then(|| sum / weights)
        };
        let average = |weight: fn(&ClassScores) -> f64| Average {
            precision: mean(|class| class.precision, weight),
            recall: mean(|class| class.recall, weight),
            f1: mean(|class| class.f1, weight),
            support: total.gold,
        };
        Averages {
            micro: Average {
                precision: total.precision(),
                recall: total.recall(),
                f1: total.f1(),
                support: total.gold,
            },
            macro_mean: average(|_| 1.0),
            weighted: average(|class| class.counts.gold as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Averages, ClassScores, Counts};

    fn class(name: &str, gold: u64, predicted: u64, correct: u64) -> ClassScores {
        let counts = Counts { gold, predicted, correct };
        ClassScores::new(name.to_owned(), counts)
    }

    #[test]
    fn a_zero_denominator_is_none_and_never_nan() {
        let never_predicted = class("a", 3, 0, 0);
        assert_eq!(never_predicted.precision, None);
        assert_eq!(never_predicted.recall, Some(0.0));
        assert_eq!(never_predicted.f1, Some(0.0));
        assert_eq!(class("a", 0, 0, 0).f1, None);

        let none = Averages::of(&[]);
        for average in [none.micro, none.macro_mean, none.weighted] {
            assert_eq!((average.precision, average.recall), (None, None));
            assert_eq!((average.f1, average.support), (None, 0));
        }
        let no_gold = Averages::of(&[class("a", 0, 2, 0)]);
        assert_eq!(no_gold.weighted.f1, None);
        assert_eq!(no_gold.macro_mean.recall, Some(0.0));
    }

    #[test]
    fn averages_by_hand() {
        // P: 1/2 and 1; R: 1/4 and 1; F1: 1/3 and 1; support 4 and 1.
        let averages = Averages::of(&[class("a", 4, 2, 1), class("b", 1, 1, 1)]);
        assert_eq!(averages.micro.precision, Some(2.0 / 3.0));
        assert_eq!(averages.micro.recall, Some(0.4));
        assert_eq!(averages.macro_mean.precision, Some(0.75));
        assert_eq!(averages.macro_mean.recall, Some(0.625));
        assert!((averages.macro_mean.f1.unwrap() - 2.0 / 3.0).abs() < 1e-15);
        assert_eq!(averages.weighted.precision, Some(0.6));
        assert_eq!(averages.weighted.recall, Some(0.4));
    }
}
