//! The attention of one sentence: every number from query to context, for every layer and head.

pub(crate) mod csv;
pub(crate) mod heatmap;
pub(crate) mod npz;
pub(crate) mod recompute;
pub(crate) mod sample;
pub(crate) mod score;
pub(crate) mod svg;
pub(crate) mod terminal;
pub(crate) mod thumbnails;
mod validate;

use serde::{Deserialize, Serialize};

use crate::{Matrix, ReportError};

pub use validate::ROW_SUM_TOLERANCE;

/// What a model computed on its way to one sentence's labels.
///
/// For a head and words i (query) and j (key), with L words:
///
/// ```text
/// s_ij = score(q_i, k_j)      a_ij = exp(s_ij) / Σ_j' exp(s_ij')      c_i = Σ_j a_ij v_j
/// ```
///
/// ```
/// use regard_report::{SampleShape, sample_report};
///
/// let report = sample_report(&["I", "saw", "a", "saw"], &SampleShape::default(), 1);
/// report.validate()?;
/// assert!(report.recompute()?.largest() < 1e-6);
/// let head = report.head(1, 3)?;
/// assert_eq!((head.weights.rows, head.weights.cols), (4, 4));
/// # Ok::<(), regard_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttentionReport {
    /// The words, L of them.
    pub tokens: Vec<String>,
    /// The model's label for each word; empty when the model gives none.
    pub predicted: Vec<PredictedLabel>,
    /// The right label for each word, where known.
    pub gold: Option<Vec<String>>,
    /// The model that was looked at.
    pub model: ModelDescription,
    /// The layers from input to output; empty for a model without attention.
    pub layers: Vec<LayerAttention>,
}

/// A label and how sure the model is of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictedLabel {
    /// The label.
    pub label: String,
    /// Its probability in \[0, 1\].
    pub probability: f32,
}

impl PredictedLabel {
    /// `label` with a probability in \[0, 1\].
    pub fn new(label: impl Into<String>, probability: f32) -> Self {
        Self { label: label.into(), probability }
    }
}

/// What the reader of a report needs to know of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelDescription {
    /// Name of the model, for instance `transformer`.
    pub name: String,
    /// Layers with attention.
    pub n_layers: usize,
    /// Heads in each layer.
    pub n_heads: usize,
    /// Kind of the score. `dot`, `scaled-dot` and `additive` can be recomputed, see
    /// [`ScoreKind`](crate::ScoreKind); any other name is allowed and shown.
    pub score: String,
    /// The score as a formula for the reader, for instance `s = q·k / √d_k`.
    pub formula: String,
    /// What tells the order of the words, for instance `sinusoidal`.
    pub position: String,
    /// Which keys a query may see, for instance `full` or `window(2, 2)`.
    pub scope: String,
}

/// The heads of one layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerAttention {
    /// The heads, `n_heads` of them.
    pub heads: Vec<HeadAttention>,
}

/// One head's numbers for a sentence of L words, as the score and the sum saw them: after the
/// projections and after a turn by position, before dropout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeadAttention {
    /// Queries, `[L, d_k]`.
    pub q: Matrix,
    /// Keys, `[L, d_k]`.
    pub k: Matrix,
    /// Values, `[L, d_v]`.
    pub v: Matrix,
    /// Scores, `[L (query), L (key)]`; −∞ (`null` in JSON) where the scope forbids the pair.
    pub scores: Matrix,
    /// Weights, `[L (query), L (key)]`. A row sums to 1, or is all 0 where the query may see
    /// no key.
    pub weights: Matrix,
    /// Contexts, `[L, d_v]`.
    pub context: Matrix,
    /// The vector v_a of an additive score v_a·tanh(q + k), `d_k` numbers; `None` for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v_a: Option<Vec<f32>>,
}

impl AttentionReport {
    /// The numbers of one head; both counts start at 0.
    ///
    /// # Errors
    ///
    /// [`ReportError::NoSuchHead`] with the counts there are.
    pub fn head(&self, layer: usize, head: usize) -> Result<&HeadAttention, ReportError> {
        self.layers.get(layer).and_then(|layer| layer.heads.get(head)).ok_or(
            ReportError::NoSuchHead {
                layer,
                head,
                n_layers: self.model.n_layers,
                n_heads: self.model.n_heads,
            },
        )
    }

    /// Every head with its layer and number, layer by layer.
    pub fn heads(&self) -> impl Iterator<Item = (usize, usize, &HeadAttention)> {
        self.layers.iter().enumerate().flat_map(|(l, layer)| {
            layer.heads.iter().enumerate().map(move |(h, head)| (l, h, head))
        })
    }
}
