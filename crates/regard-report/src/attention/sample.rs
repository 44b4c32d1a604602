//! A made-up report whose numbers fit together, for examples and tests of what shows reports.

use super::{AttentionReport, HeadAttention, LayerAttention, ModelDescription, PredictedLabel};
use crate::{Matrix, ScoreKind};

/// The sizes of a [`sample_report`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleShape {
    /// Layers.
    pub n_layers: usize,
    /// Heads in each layer.
    pub n_heads: usize,
    /// Numbers in a query and in a key.
    pub d_k: usize,
    /// Numbers in a value and in a context.
    pub d_v: usize,
    /// The score.
    pub score: ScoreKind,
    /// The scope: a query sees keys at most this far to either side; `None` for all keys.
    pub reach: Option<usize>,
}

impl Default for SampleShape {
    /// 2 layers of 4 heads, d_k = d_v = 8, scaled dot, full scope.
    fn default() -> Self {
        Self { n_layers: 2, n_heads: 4, d_k: 8, d_v: 8, score: ScoreKind::ScaledDot, reach: None }
    }
}

/// A report about `words` from random queries, keys and values: no model was asked, but scores,
/// weights and contexts follow from them by the formulas. The same arguments give the same
/// numbers.
///
/// ```
/// use regard_report::{SampleShape, sample_report};
///
/// let report = sample_report(&["a", "b", "c"], &SampleShape::default(), 7);
/// let row = report.head(0, 0)?.weights.row(2);
/// assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
/// # Ok::<(), regard_report::ReportError>(())
/// ```
pub fn sample_report<W: AsRef<str>>(
    words: &[W],
    shape: &SampleShape,
    seed: u64,
) -> AttentionReport {
    let mut random = Random(seed);
    let labels = ["PRON", "VERB", "DET", "NOUN", "ADP", "ADJ"];
    let gold: Vec<String> = (0..words.len()).map(|i| labels[i % labels.len()].into()).collect();
    let predicted = (0..words.len())
        .map(|i| {
            let probability = 0.5 + 0.5 * random.next().abs();
            // Every seventh word is labelled wrongly, so that a mistake can be seen too.
            let label = labels[(i + usize::from(i % 7 == 6)) % labels.len()];
            PredictedLabel::new(label, probability)
        })
        .collect();
    let mut head = || sample_head(words.len(), shape, &mut random);
    let layers = (0..shape.n_layers)
        .map(|_| LayerAttention { heads: (0..shape.n_heads).map(|_| head()).collect() })
        .collect();
    AttentionReport {
        tokens: words.iter().map(|word| word.as_ref().into()).collect(),
        predicted,
        gold: Some(gold),
        model: ModelDescription {
            name: "sample".into(),
            n_layers: shape.n_layers,
            n_heads: shape.n_heads,
            score: shape.score.name().into(),
            formula: shape.score.formula().into(),
            position: "none".into(),
            scope: shape
                .reach
                .map_or_else(|| "full".into(), |reach| format!("window({reach}, {reach})")),
        },
        layers,
    }
}

fn sample_head(len: usize, shape: &SampleShape, random: &mut Random) -> HeadAttention {
    let mut numbers = |n: usize| -> Vec<f32> { (0..n).map(|_| 2.0 * random.next()).collect() };
    let q = Matrix::new(len, shape.d_k, numbers(len * shape.d_k));
    let k = Matrix::new(len, shape.d_k, numbers(len * shape.d_k));
    let v = Matrix::new(len, shape.d_v, numbers(len * shape.d_v));
    let v_a = (shape.score == ScoreKind::Additive).then(|| numbers(shape.d_k));

    let mut scores = Matrix::new(len, len, vec![f32::NEG_INFINITY; len * len]);
    let mut weights = Matrix::new(len, len, vec![0.0; len * len]);
    let mut context = Matrix::new(len, shape.d_v, vec![0.0; len * shape.d_v]);
    for i in 0..len {
        let allowed = |j: &usize| shape.reach.is_none_or(|reach| i.abs_diff(*j) <= reach);
        let v_a = v_a.as_deref().unwrap_or_default();
        for j in (0..len).filter(allowed) {
            scores.data[i * len + j] = shape.score.score(q.row(i), k.row(j), v_a) as f32;
        }
        let largest = scores.row(i).iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = scores.row(i).iter().map(|s| (s - largest).exp()).sum();
        for j in 0..len {
            let weight = (scores.at(i, j) - largest).exp() / sum;
            weights.data[i * len + j] = weight;
            for d in 0..shape.d_v {
                context.data[i * shape.d_v + d] += weight * v.at(j, d);
            }
        }
    }
    HeadAttention { q, k, v, scores, weights, context, v_a }
}

/// A linear congruential generator: enough for made-up numbers.
struct Random(u64);

impl Random {
    /// A number in \[−1, 1).
    fn next(&mut self) -> f32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}
