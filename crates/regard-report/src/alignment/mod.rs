//! What the attentions of a translator did with one source and one target.

mod csv;
mod svg;
mod terminal;

use serde::{Deserialize, Serialize};

use crate::{Matrix, ReportError};

pub use csv::alignment_csv;
pub use svg::alignment_svg;
pub use terminal::terminal_alignment;

/// What stands before a target.
const BEGIN: &str = "<s>";
/// What ends it.
const END: &str = "</s>";

/// Every attention of a model that reads a source and writes a target, S and T tokens long.
///
/// ```
/// use regard_report::{AlignmentHead, AlignmentReport, AlignmentKind, Matrix};
///
/// let report = AlignmentReport {
///     source: vec!["▁ein".into(), "▁Hund".into()],
///     target: vec!["▁a".into(), "▁dog".into()],
///     source_text: "ein Hund".into(),
///     target_text: "a dog".into(),
///     given: false,
///     model: "bahdanau".into(),
///     formula: "s = v·tanh(W s + U h)".into(),
///     heads: vec![AlignmentHead {
///         kind: AlignmentKind::Cross,
///         layer: 0,
///         head: 0,
///         weights: Matrix::new(3, 2, vec![0.9, 0.1, 0.2, 0.8, 0.5, 0.5]),
///         centres: None,
///         sigma: None,
///         radius: None,
///     }],
/// };
/// report.validate()?;
/// assert_eq!(report.queries(AlignmentKind::Cross), ["▁a", "▁dog", "</s>"]);
/// # Ok::<(), regard_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AlignmentReport {
    /// The source's tokens.
    pub source: Vec<String>,
    /// The target's tokens, without its end.
    pub target: Vec<String>,
    /// The source as text.
    pub source_text: String,
    /// The target as text.
    pub target_text: String,
    /// Whether the target was given, not the model's own.
    pub given: bool,
    /// The model's name.
    pub model: String,
    /// Its score, as a formula.
    pub formula: String,
    /// The heads, layer by layer: encoder, decoder, cross.
    pub heads: Vec<AlignmentHead>,
}

/// Who attends to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlignmentKind {
    /// The source to itself.
    EncoderSelf,
    /// The target to what was written of it.
    DecoderSelf,
    /// The target to the source.
    Cross,
}

impl AlignmentKind {
    /// All, as they stand in a report.
    pub const ALL: [Self; 3] = [Self::EncoderSelf, Self::DecoderSelf, Self::Cross];

    /// The name, as in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Self::EncoderSelf => "encoder-self",
            Self::DecoderSelf => "decoder-self",
            Self::Cross => "cross",
        }
    }
}

/// The weights of one head.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AlignmentHead {
    /// Who attends to whom.
    pub kind: AlignmentKind,
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0.
    pub head: usize,
    /// A row for each of [`AlignmentReport::queries`], a column for each of [`AlignmentReport::keys`]. A
    /// row of softmax weights sums to 1; under a Gaussian it sums to less.
    pub weights: Matrix,
    /// Under a local scope, the centre of each query's window, in source positions from 0.
    pub centres: Option<Vec<f32>>,
    /// σ of the Gaussian around it.
    pub sigma: Option<f32>,
    /// Positions to each side of it that are seen.
    pub radius: Option<usize>,
}

impl AlignmentHead {
    /// Whether a key may be seen, as far as the order of writing tells: a decoder's past alone.
    fn is_allowed(&self, query: usize, key: usize) -> bool {
        self.kind != AlignmentKind::DecoderSelf || key <= query
    }
}

impl AlignmentReport {
    /// What asks: source tokens, or target tokens and the end, as they are about to be written.
    pub fn queries(&self, kind: AlignmentKind) -> Vec<String> {
        match kind {
            AlignmentKind::EncoderSelf => self.source.clone(),
            _ => self.target.iter().cloned().chain([END.to_owned()]).collect(),
        }
    }

    /// What is asked: source tokens, or the beginning and the target's tokens.
    pub fn keys(&self, kind: AlignmentKind) -> Vec<String> {
        match kind {
            AlignmentKind::DecoderSelf => {
                [BEGIN.to_owned()].into_iter().chain(self.target.iter().cloned()).collect()
            }
            _ => self.source.clone(),
        }
    }

    /// A head by its place.
    ///
    /// # Errors
    /// [`ReportError::NoSuchAttention`] with the kinds there are; [`ReportError::NoSuchHead`] with the counts
    /// there are of this kind.
    pub fn head(
        &self,
        kind: AlignmentKind,
        layer: usize,
        head: usize,
    ) -> Result<&AlignmentHead, ReportError> {
        let of_kind = || self.heads.iter().filter(|h| h.kind == kind);
        if of_kind().next().is_none() {
            let is_there = |kind: &AlignmentKind| self.heads.iter().any(|h| h.kind == *kind);
            let known: Vec<&str> =
                AlignmentKind::ALL.into_iter().filter(is_there).map(AlignmentKind::name).collect();
            let (model, kind) = (self.model.clone(), kind.name());
            return Err(ReportError::NoSuchAttention { model, kind, known: known.join(", ") });
        }
        of_kind().find(|h| h.layer == layer && h.head == head).ok_or_else(|| {
            ReportError::NoSuchHead {
                layer,
                head,
                n_layers: of_kind().map(|h| h.layer + 1).max().unwrap_or(0),
                n_heads: of_kind().map(|h| h.head + 1).max().unwrap_or(0),
            }
        })
    }

    /// Checks shapes and ranges: both sides have tokens, every head has the rows and columns of its kind,
    /// weights are in \[0, 1\] (a little more for rounding), there is a finite centre for each query.
    ///
    /// # Errors
    /// [`ReportError::NoWords`], [`ReportError::Shape`], [`ReportError::Count`] or [`ReportError::Value`]
    /// for the first fault, with its place.
    pub fn validate(&self) -> Result<(), ReportError> {
        if self.source.is_empty() || self.target.is_empty() {
            return Err(ReportError::NoWords);
        }
        for head in &self.heads {
            let place = format!("{} layer {} head {}", head.kind.name(), head.layer, head.head);
            let (rows, cols) = (self.queries(head.kind).len(), self.keys(head.kind).len());
            let actual = (head.weights.rows, head.weights.cols);
            if actual != (rows, cols) {
                let matrix = format!("{place}: weights");
                return Err(ReportError::Shape { matrix, expected: (rows, cols), actual });
            }
            if head.weights.data.len() != rows * cols {
                let what = format!("{place}: numbers in weights");
                let (expected, actual) = (rows * cols, head.weights.data.len());
                return Err(ReportError::Count { what, expected, actual });
            }
            if let Some(weight) =
                head.weights.data.iter().find(|w| !(0.0..=1.0 + 1e-4).contains(*w))
            {
                return Err(ReportError::Value {
                    what: format!("{place}: a weight"),
                    expected: "a number in [0, 1]",
                    actual: (*weight).into(),
                });
            }
            let Some(centres) = &head.centres else { continue };
            if centres.len() != rows {
                let what = format!("{place}: centres");
                return Err(ReportError::Count { what, expected: rows, actual: centres.len() });
            }
            if let Some(centre) = centres.iter().find(|c| !c.is_finite()) {
                return Err(ReportError::Value {
                    what: format!("{place}: a centre"),
                    expected: "a finite number",
                    actual: (*centre).into(),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report with a head of each kind, the last under a local scope.
    pub(crate) fn report() -> AlignmentReport {
        let texts = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let head = |kind, rows, cols, data: &[f32]| AlignmentHead {
            kind,
            layer: 0,
            head: 0,
            weights: Matrix::new(rows, cols, data.to_vec()),
            centres: None,
            sigma: None,
            radius: None,
        };
        let mut cross = head(AlignmentKind::Cross, 3, 2, &[0.875, 0.125, 0.25, 0.5, 0.0625, 0.75]);
        cross.centres = Some(vec![0.25, 0.75, 1.0]);
        cross.sigma = Some(0.5);
        cross.radius = Some(1);
        AlignmentReport {
            source: texts(&["▁ein", "▁<Hund>"]),
            target: texts(&["▁a", "▁dog, \"big\""]),
            source_text: "ein <Hund>".into(),
            target_text: "a dog, \"big\"".into(),
            given: true,
            model: "luong".into(),
            formula: "s = h·W h̄".into(),
            heads: vec![
                head(AlignmentKind::EncoderSelf, 2, 2, &[0.5, 0.5, 0.0, 1.0]),
                head(
                    AlignmentKind::DecoderSelf,
                    3,
                    3,
                    &[1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.25, 0.25, 0.5],
                ),
                cross,
            ],
        }
    }

    #[test]
    fn a_consistent_report_passes_and_survives_json() {
        let report = report();
        report.validate().unwrap();
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<AlignmentReport>(&json).unwrap(), report);
        assert_eq!(report.keys(AlignmentKind::DecoderSelf)[0], "<s>");
        let error = report.head(AlignmentKind::Cross, 1, 0).unwrap_err().to_string();
        assert!(error.contains("layer 1"), "{error}");
    }

    #[test]
    fn each_fault_is_found_and_placed() {
        type Fault = (fn(&mut AlignmentReport), &'static str);
        let faults: &[Fault] = &[
            (|r| r.target.clear(), "the report has no words"),
            (|r| r.source.push("x".into()), "encoder-self layer 0 head 0: weights: expected 3x3"),
            (|r| r.heads[2].weights.data[0] = -0.5, "cross layer 0 head 0: a weight: expected"),
            (|r| r.heads[0].weights.data[0] = f32::NAN, "a weight: expected a number in [0, 1]"),
            (|r| r.heads[2].centres = Some(vec![0.0]), "centres: expected 3, got 1"),
            (|r| r.heads[2].centres = Some(vec![f32::NAN; 3]), "a centre: expected a finite"),
        ];
        for (spoil, message) in faults {
            let mut spoiled = report();
            spoil(&mut spoiled);
            let error = spoiled.validate().unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
