//! What can go wrong when a result is checked, written or read back.

use std::path::PathBuf;

/// A fault in a report, or in reading or writing one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The operating system refused to read or write a file.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried: `read`, `write`, `truncate`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A line of a JSON-lines file is not a record.
    #[error("{}:{line}: not a metrics record: {text}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The start of the line.
        text: String,
        /// What the JSON reader says.
        #[source]
        source: serde_json::Error,
    },
    /// A value cannot be written as JSON, for instance a matrix that holds NaN.
    #[error("cannot write {what} as json")]
    Json {
        /// What was to be written.
        what: String,
        /// What the JSON writer says.
        #[source]
        source: serde_json::Error,
    },
    /// Something has another length than the report's sentence or model says.
    #[error("{what}: expected {expected}, got {actual}")]
    Count {
        /// What was counted.
        what: String,
        /// What the rest of the report asks for.
        expected: usize,
        /// What it holds.
        actual: usize,
    },
    /// A matrix has another shape than the report's sentence or model says.
    #[error("{matrix}: expected {}x{}, got {}x{}", expected.0, expected.1, actual.0, actual.1)]
    Shape {
        /// Layer, head and name of the matrix.
        matrix: String,
        /// Rows and columns that the rest of the report asks for.
        expected: (usize, usize),
        /// Rows and columns that it has.
        actual: (usize, usize),
    },
    /// A number is outside its range.
    #[error("{what}: expected {expected}, got {actual}")]
    Value {
        /// Where the number stands.
        what: String,
        /// The range that it should be in.
        expected: &'static str,
        /// The number.
        actual: f64,
    },
    /// The report's sentence has no words.
    #[error("the report has no words")]
    NoWords,
    /// The model has no attention of this kind.
    #[error("model `{model}` has no {kind} attention; it has {known}")]
    NoSuchAttention {
        /// The model.
        model: String,
        /// The kind asked for.
        kind: &'static str,
        /// The kinds there are.
        known: String,
    },
    /// There is no such layer or head in the report.
    #[error(
        "there is no layer {layer} with a head {head}: the model has {n_layers} layers of {n_heads} heads, counted from 0"
    )]
    NoSuchHead {
        /// The layer asked for, from 0.
        layer: usize,
        /// The head asked for, from 0.
        head: usize,
        /// Layers in the report.
        n_layers: usize,
        /// Heads in each layer.
        n_heads: usize,
    },
    /// The archive of arrays could not be put together.
    #[error("cannot write the npz archive")]
    Npz(#[from] zip::result::ZipError),
    /// The learning curve could not be drawn.
    #[error("cannot draw the learning curve: {reason}")]
    Curve {
        /// What the drawing library says.
        reason: String,
    },
}

impl ReportError {
    /// An [`ReportError::Io`] made in a `map_err`.
    pub(crate) fn io(
        action: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_path_buf(), source }
    }
}
