//! What can go wrong in building, running and restoring models.

use std::path::PathBuf;

use regard_attn::AttnError;
use regard_tensor::ShapeError;

/// Errors of the training core.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NnError {
    /// An argument of an operator has the wrong shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Attention cannot serve this request.
    #[error(transparent)]
    Attention(#[from] AttnError),
    /// An index lies outside the table or the classes it points into.
    #[error("{operation}: {what} {index} at position {at} is outside 0..{limit}")]
    Index {
        /// The operation that was asked for.
        operation: &'static str,
        /// What the index is: `id`, `target`, `tag`.
        what: &'static str,
        /// The offending index.
        index: usize,
        /// Where it stands.
        at: usize,
        /// First index that is too large.
        limit: usize,
    },
    /// A hyper-parameter is out of range.
    #[error("`{name}` must be {expected}, got {actual}")]
    Hyper {
        /// Its name.
        name: &'static str,
        /// Its range.
        expected: String,
        /// What came.
        actual: String,
    },
    /// The loss, a gradient or a weight is no longer a finite number.
    #[error("{what} became {value} at step {step}; lower the learning rate or clip gradients")]
    NotFinite {
        /// The loss, the norm of the gradient, a weight or all scores.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The step.
        step: u64,
    },
    /// A checkpoint cannot be used.
    #[error("checkpoint {path}: {fault}", path = .path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        fault: crate::checkpoint::CheckpointFault,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {path}: {source}", path = .path.display())]
    Io {
        /// `read`, `write`, …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}
