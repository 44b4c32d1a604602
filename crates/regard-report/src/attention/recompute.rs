//! Computes a report's numbers again in f64 and says how far they are off.

use super::{AttentionReport, HeadAttention};
use crate::{ReportError, ScoreKind};

/// Largest absolute differences between a report's numbers and the plain formulas in f64.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Differences {
    /// Of the scores of allowed pairs from score(q_i, k_j); `None` when the score's kind is not
    /// a [`ScoreKind`], or its vector v_a is missing.
    pub scores: Option<f64>,
    /// Of the weights from the softmax of the reported scores.
    pub weights: f64,
    /// Of the contexts from Σ_j a_ij v_j with the reported weights.
    pub context: f64,
}

impl Differences {
    /// The largest of all differences that could be taken.
    pub fn largest(&self) -> f64 {
        self.scores.unwrap_or(0.0).max(self.weights).max(self.context)
    }
}

impl AttentionReport {
    /// Computes scores from q and k, weights from the scores by softmax, and contexts from weights
    /// and v, for every head, and compares. Each step starts from the reported input, so that a
    /// difference names the step that made it. Time O(heads · L² · d).
    ///
    /// # Errors
    ///
    /// Those of [`AttentionReport::validate`], which runs first.
    pub fn recompute(&self) -> Result<Differences, ReportError> {
        self.validate()?;
        let kind = ScoreKind::from_name(&self.model.score);
        let mut all = Differences { scores: kind.map(|_| 0.0), weights: 0.0, context: 0.0 };
        for (_, _, head) in self.heads() {
            let one = head.differences(kind);
            all.scores = all.scores.zip(one.scores).map(|(a, b)| a.max(b));
            all.weights = all.weights.max(one.weights);
            all.context = all.context.max(one.context);
        }
        Ok(all)
    }
}

impl HeadAttention {
    fn differences(&self, kind: Option<ScoreKind>) -> Differences {
        let mut weights = 0.0f64;
        let mut context = 0.0f64;
        for i in 0..self.scores.rows {
            for (a, b) in softmax(self.scores.row(i)).iter().zip(self.weights.row(i)) {
                weights = weights.max((a - f64::from(*b)).abs());
            }
            for d in 0..self.v.cols {
                let sum: f64 = (0..self.v.rows)
                    .map(|j| f64::from(self.weights.at(i, j)) * f64::from(self.v.at(j, d)))
                    .sum();
                context = context.max((sum - f64::from(self.context.at(i, d))).abs());
            }
        }
        Differences { scores: kind.and_then(|kind| self.score_difference(kind)), weights, context }
    }

    fn score_difference(&self, kind: ScoreKind) -> Option<f64> {
        let v_a = match (kind, &self.v_a) {
            (ScoreKind::Additive, v_a) => v_a.as_deref()?,
            (ScoreKind::Dot | ScoreKind::ScaledDot, _) => &[],
        };
        let mut largest = 0.0f64;
        for i in 0..self.scores.rows {
            for j in 0..self.scores.cols {
                let reported = f64::from(self.scores.at(i, j));
                if reported.is_finite() {
                    let score = kind.score(self.q.row(i), self.k.row(j), v_a);
                    largest = largest.max((score - reported).abs());
                }
            }
        }
        Some(largest)
    }
}

/// exp(s_j − max s) / Σ_j' exp(s_j' − max s); all 0 where every score is −∞.
fn softmax(scores: &[f32]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if largest == f32::NEG_INFINITY {
        return vec![0.0; scores.len()];
    }
    let exponentials: Vec<f64> =
        scores.iter().map(|score| (f64::from(*score) - f64::from(largest)).exp()).collect();
    let sum: f64 = exponentials.iter().sum();
    exponentials.iter().map(|value| value / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Matrix, SampleShape, sample_report};

    /// Two words, d_k = 1, d_v = 1, scores 0 and ln 3: weights ¼ and ¾ by hand.
    fn by_hand() -> AttentionReport {
        let mut report = sample_report(
            &["a", "b"],
            &SampleShape {
                n_layers: 1,
                n_heads: 1,
                d_k: 1,
                d_v: 1,
                score: ScoreKind::Dot,
                reach: None,
            },
            1,
        );
        let ln_3 = 3.0f32.ln();
        report.layers[0].heads[0] = HeadAttention {
            q: Matrix::new(2, 1, vec![1.0, 0.0]),
            k: Matrix::new(2, 1, vec![0.0, ln_3]),
            v: Matrix::new(2, 1, vec![8.0, 16.0]),
            scores: Matrix::new(2, 2, vec![0.0, ln_3, 0.0, 0.0]),
            weights: Matrix::new(2, 2, vec![0.25, 0.75, 0.5, 0.5]),
            context: Matrix::new(2, 1, vec![14.0, 12.0]),
            v_a: None,
        };
        report
    }

    #[test]
    fn numbers_by_hand_agree() {
        let differences = by_hand().recompute().unwrap();
        assert!(differences.largest() < 1e-7, "{differences:?}");
    }

    #[test]
    fn each_step_owns_its_difference() {
        let mut report = by_hand();
        report.layers[0].heads[0].context.data[1] = 12.5;
        let found = report.recompute().unwrap();
        assert_eq!(found.context, 0.5);
        assert!(found.weights < 1e-7 && found.scores.unwrap() < 1e-7);

        let mut report = by_hand();
        report.layers[0].heads[0].q.data[1] = 2.0;
        let found = report.recompute().unwrap();
        assert!((found.scores.unwrap() - 2.0 * 3.0f64.ln()).abs() < 1e-6);
        assert!(found.weights < 1e-7 && found.context < 1e-6);

        let mut report = by_hand();
        report.layers[0].heads[0].weights.data.copy_from_slice(&[0.75, 0.25, 0.5, 0.5]);
        let found = report.recompute().unwrap();
        assert!((found.weights - 0.5).abs() < 1e-7);
        assert_eq!(found.context, 4.0);
    }

    #[test]
    fn an_unknown_score_is_left_alone() {
        let mut report = by_hand();
        report.model.score = "cosine".into();
        assert_eq!(report.recompute().unwrap().scores, None);
        report.model.score = "additive".into();
        assert_eq!(report.recompute().unwrap().scores, None);
    }

    #[test]
    fn samples_of_every_kind_agree() {
        for score in [ScoreKind::Dot, ScoreKind::ScaledDot, ScoreKind::Additive] {
            for reach in [None, Some(0), Some(2)] {
                let shape = SampleShape { n_layers: 1, n_heads: 2, d_k: 3, d_v: 5, score, reach };
                let report = sample_report(&["a", "b", "c", "d", "e", "f", "g"], &shape, 11);
                let found = report.recompute().unwrap();
                assert!(found.scores.is_some());
                assert!(found.largest() < 1e-6, "{score:?} {reach:?} {found:?}");
            }
        }
    }
}
