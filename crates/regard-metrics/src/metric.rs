//! What a reported number means.

use serde::Serialize;

/// The name, unit and direction of a number.
///
/// ```
/// use regard_metrics::Metric;
///
/// assert!(Metric::ACCURACY.improves(0.95, 0.94));
/// assert!(Metric::LOSS.improves(0.31, 0.32));
/// assert!(!Metric::LOSS.improves(f64::NAN, 0.32));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Metric {
    /// Name in reports and in `--json` output: lower case with underscores.
    pub name: &'static str,
    /// `"fraction"` for rates in [0, 1]; otherwise the unit's own name.
    pub unit: &'static str,
    /// Whether a larger value is a better one.
    pub higher_is_better: bool,
}

impl Metric {
    /// Share of all words whose label is right.
    pub const ACCURACY: Metric = Metric::rate("accuracy");
    /// Share of right labels among the words that training never showed.
    pub const ACCURACY_UNSEEN: Metric = Metric::rate("accuracy_unseen");
    /// Share of right labels among the words that training showed with two labels or more.
    pub const ACCURACY_AMBIGUOUS: Metric = Metric::rate("accuracy_ambiguous");
    /// Mean F1 over the labels, each of the same weight.
    pub const MACRO_F1: Metric = Metric::rate("macro_f1");
    /// F1 over all labelled spans (micro average).
    pub const SPAN_F1: Metric = Metric::rate("span_f1");
    /// Mean negative log-probability of a target.
    pub const LOSS: Metric = Metric { name: "loss", unit: "nats", higher_is_better: false };

    /// A rate in [0, 1] of which more is better.
    pub const fn rate(name: &'static str) -> Metric {
        Metric { name, unit: "fraction", higher_is_better: true }
    }

    /// Whether `candidate` is strictly better than `best`. A NaN is never better, and anything but a
    /// NaN is better than one.
    pub fn improves(&self, candidate: f64, best: f64) -> bool {
        if best.is_nan() {
            return !candidate.is_nan();
        }
        if self.higher_is_better { candidate > best } else { candidate < best }
    }
}

#[cfg(test)]
mod tests {
    use super::Metric;

    #[test]
    fn a_tie_or_a_nan_is_no_improvement() {
        assert!(!Metric::ACCURACY.improves(0.5, 0.5));
        assert!(!Metric::LOSS.improves(0.5, 0.5));
        assert!(!Metric::ACCURACY.improves(f64::NAN, f64::NAN));
        assert!(Metric::ACCURACY.improves(0.0, f64::NAN));
    }
}
