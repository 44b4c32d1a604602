//! Right over all.

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

/// Counts of right answers: accuracy = correct / total.
///
/// Serialised with its score: `{"correct":3,"total":4,"score":0.75}`, and `"score":null` over nothing.
///
/// ```
/// use regard_metrics::Accuracy;
///
/// let mut accuracy = Accuracy::default();
/// assert_eq!(accuracy.score(), None);
/// for right in [true, true, false, true] {
///     accuracy.update(right);
/// }
/// assert_eq!(accuracy.score(), Some(0.75));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accuracy {
    /// Right answers.
    pub correct: u64,
    /// All answers.
    pub total: u64,
}

impl Accuracy {
    /// Adds one answer.
    pub fn update(&mut self, correct: bool) {
        self.correct += u64::from(correct);
        self.total += 1;
    }

    /// Adds another accumulator's answers.
    pub fn merge(&mut self, other: Accuracy) {
        self.correct += other.correct;
        self.total += other.total;
    }

    /// correct / total in [0, 1]; `None` over nothing.
    pub fn score(self) -> Option<f64> {
        ratio(self.correct, self.total)
    }
}

impl Serialize for Accuracy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Accuracy", 3)?;
        fields.serialize_field("correct", &self.correct)?;
        fields.serialize_field("total", &self.total)?;
        fields.serialize_field("score", &self.score())?;
        fields.end()
    }
}

/// part / whole; `None` where the whole is nothing.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
