//! Checks that a report is what it says it is.

use super::{AttentionReport, HeadAttention};
use crate::{Matrix, ReportError};

/// How far a row of weights may be from the sum 1.
///
/// Each weight is an exponential in f32. Its relative error is about the size of the exponent
/// (below 90, since smaller weights are 0) times 6·10⁻⁸, and the weights sum to 1, so the sum is
/// off by at most 90 · 6·10⁻⁸ < 10⁻⁵.
pub const ROW_SUM_TOLERANCE: f64 = 1e-5;

impl AttentionReport {
    /// Checks counts, shapes and ranges: as many labels as words, all matrices of the shapes that
    /// [`HeadAttention`] states, one d_k and d_v within a head, probabilities and weights in
    /// \[0, 1\], a forbidden pair without weight, each row of weights with the sum 1 (within
    /// [`ROW_SUM_TOLERANCE`]) or all 0 where nothing is allowed, no NaN anywhere. Time is that of
    /// reading every number once.
    ///
    /// # Errors
    ///
    /// [`ReportError::NoWords`], [`ReportError::Count`], [`ReportError::Shape`] or
    /// [`ReportError::Value`] for the first fault, with its place.
    pub fn validate(&self) -> Result<(), ReportError> {
        let len = self.tokens.len();
        if len == 0 {
            return Err(ReportError::NoWords);
        }
        if !self.predicted.is_empty() {
            count("predicted labels", len, self.predicted.len())?;
        }
        for (i, guess) in self.predicted.iter().enumerate() {
            if !(0.0..=1.0).contains(&guess.probability) {
                return Err(ReportError::Value {
                    what: format!("probability of the label of word {i}"),
                    expected: "a number in [0, 1]",
                    actual: guess.probability.into(),
                });
            }
        }
        if let Some(gold) = &self.gold {
            count("gold labels", len, gold.len())?;
        }
        count("layers", self.model.n_layers, self.layers.len())?;
        for (l, layer) in self.layers.iter().enumerate() {
            let what = format!("heads of layer {l}");
            count(&what, self.model.n_heads, layer.heads.len())?;
        }
        for (l, h, head) in self.heads() {
            head.validate(len, &format!("layer {l} head {h}"))?;
        }
        Ok(())
    }
}

impl HeadAttention {
    fn validate(&self, len: usize, place: &str) -> Result<(), ReportError> {
        let (d_k, d_v) = (self.q.cols, self.v.cols);
        shape(&self.q, (len, d_k), place, "q")?;
        shape(&self.k, (len, d_k), place, "k")?;
        shape(&self.v, (len, d_v), place, "v")?;
        shape(&self.scores, (len, len), place, "scores")?;
        shape(&self.weights, (len, len), place, "weights")?;
        shape(&self.context, (len, d_v), place, "context")?;
        for (matrix, name) in
            [(&self.q, "q"), (&self.k, "k"), (&self.v, "v"), (&self.context, "context")]
        {
            finite(&matrix.data, place, name)?;
        }
        if let Some(v_a) = &self.v_a {
            count(&format!("{place}: v_a"), d_k, v_a.len())?;
            finite(v_a, place, "v_a")?;
        }
        for i in 0..len {
            self.validate_row(i, place)?;
        }
        Ok(())
    }

    /// Row i of the scores and weights.
    fn validate_row(&self, i: usize, place: &str) -> Result<(), ReportError> {
        let (scores, weights) = (self.scores.row(i), self.weights.row(i));
        let mut sum = 0.0;
        let mut any_allowed = false;
        for (j, (score, weight)) in scores.iter().zip(weights).enumerate() {
            let forbidden = *score == f32::NEG_INFINITY;
            any_allowed |= !forbidden;
            sum += f64::from(*weight);
            if !forbidden && !score.is_finite() {
                return Err(ReportError::Value {
                    what: format!("{place}: score of query {i} and key {j}"),
                    expected: "a finite number, or −∞ where forbidden",
                    actual: (*score).into(),
                });
            }
            if !(0.0..=1.0).contains(weight) || (forbidden && *weight != 0.0) {
                return Err(ReportError::Value {
                    what: format!("{place}: weight of query {i} and key {j}"),
                    expected: if forbidden {
                        "0 for a forbidden pair"
                    } else {
                        "a number in [0, 1]"
                    },
                    actual: (*weight).into(),
                });
            }
        }
        if any_allowed && (sum - 1.0).abs() > ROW_SUM_TOLERANCE {
            return Err(ReportError::Value {
                what: format!("{place}: sum of the weights of query {i}"),
                expected: "1",
                actual: sum,
            });
        }
        Ok(())
    }
}

fn count(what: &str, expected: usize, actual: usize) -> Result<(), ReportError> {
    if expected == actual {
        return Ok(());
    }
    Err(ReportError::Count { what: what.into(), expected, actual })
}

fn shape(
    matrix: &Matrix,
    expected: (usize, usize),
    place: &str,
    name: &str,
) -> Result<(), ReportError> {
    let actual = (matrix.rows, matrix.cols);
    if actual != expected {
        return Err(ReportError::Shape { matrix: format!("{place}: {name}"), expected, actual });
    }
    // A report read from a file may say one shape and hold another number of elements.
    count(&format!("{place}: numbers in {name}"), expected.0 * expected.1, matrix.data.len())
}

fn finite(data: &[f32], place: &str, name: &str) -> Result<(), ReportError> {
    match data.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => Err(ReportError::Value {
            what: format!("{place}: {name}, number {index}"),
            expected: "a finite number",
            actual: data[index].into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SampleShape, ScoreKind, sample_report};

    fn report() -> AttentionReport {
        let shape = SampleShape {
            n_layers: 2,
            n_heads: 3,
            d_k: 5,
            d_v: 7,
            score: ScoreKind::Additive,
            reach: Some(1),
        };
        sample_report(&["a", "b", "c", "d"], &shape, 3)
    }

    #[test]
    fn a_consistent_report_passes() {
        report().validate().unwrap();
        let mut bare = report();
        bare.predicted.clear();
        bare.gold = None;
        bare.layers.clear();
        bare.model.n_layers = 0;
        bare.validate().unwrap();
    }

    #[test]
    fn a_query_that_sees_nothing_has_a_row_of_zeros() {
        let mut report = report();
        let head = &mut report.layers[0].heads[0];
        for j in 0..4 {
            head.scores.data[4 + j] = f32::NEG_INFINITY;
            head.weights.data[4 + j] = 0.0;
        }
        head.context.data[7..14].fill(0.0);
        report.validate().unwrap();
        assert!(report.recompute().unwrap().largest() < 1e-6);
    }

    #[test]
    fn each_fault_is_found_and_placed() {
        type Fault = (fn(&mut AttentionReport), &'static str);
        let faults: &[Fault] = &[
            (|r| r.tokens.clear(), "the report has no words"),
            (|r| r.predicted.truncate(1), "predicted labels: expected 4, got 1"),
            (
                |r| r.predicted[2].probability = f32::NAN,
                "probability of the label of word 2: expected a number in [0, 1], got NaN",
            ),
            (|r| r.gold = Some(Vec::new()), "gold labels: expected 4, got 0"),
            (|r| r.model.n_layers = 5, "layers: expected 5, got 2"),
            (|r| r.layers[1].heads.truncate(2), "heads of layer 1: expected 3, got 2"),
            (
                |r| r.layers[1].heads[2].k = Matrix::new(4, 3, vec![0.0; 12]),
                "layer 1 head 2: k: expected 4x5, got 4x3",
            ),
            (
                |r| r.layers[0].heads[1].v.data.truncate(27),
                "layer 0 head 1: numbers in v: expected 28, got 27",
            ),
            (
                |r| r.layers[0].heads[0].q.data[6] = f32::INFINITY,
                "layer 0 head 0: q, number 6: expected a finite number, got inf",
            ),
            (
                |r| r.layers[0].heads[0].v_a = Some(vec![1.0]),
                "layer 0 head 0: v_a: expected 5, got 1",
            ),
            (
                |r| r.layers[0].heads[0].scores.data[0] = f32::NAN,
                "layer 0 head 0: score of query 0 and key 0: expected a finite number, or −∞ where forbidden, got NaN",
            ),
            (
                |r| r.layers[0].heads[0].weights.data[3] = 0.25,
                "layer 0 head 0: weight of query 0 and key 3: expected 0 for a forbidden pair, got 0.25",
            ),
            (
                |r| r.layers[0].heads[0].weights.data[0] = -0.25,
                "layer 0 head 0: weight of query 0 and key 0: expected a number in [0, 1], got -0.25",
            ),
            (
                |r| r.layers[0].heads[0].weights.data[..2].fill(0.25),
                "layer 0 head 0: sum of the weights of query 0: expected 1, got 0.5",
            ),
        ];
        for (spoil, message) in faults {
            let mut spoiled = report();
            spoil(&mut spoiled);
            assert_eq!(&spoiled.validate().unwrap_err().to_string(), message);
        }
    }
}
