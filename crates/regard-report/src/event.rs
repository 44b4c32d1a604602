//! One line of `--json` output: `{"type": "...", "data": {...}}`.

use serde::{Deserialize, Serialize};

use crate::ReportError;

/// A typed JSON object: every line of `--json` output is one.
///
/// A program that reads the lines chooses by `type` and need not know the others.
///
/// ```
/// use regard_report::Event;
///
/// let event: Event<Vec<u32>> = serde_json::from_str(r#"{"type":"primes","data":[2,3,5]}"#)?;
/// assert_eq!(event, Event::new("primes", vec![2, 3, 5]));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event<T> {
    /// Names the kind of `data`, in lower case with hyphens.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is told.
    pub data: T,
}

impl<T> Event<T> {
    /// `data` under the name `kind`.
    pub fn new(kind: impl Into<String>, data: T) -> Self {
        Self { kind: kind.into(), data }
    }
}

/// `{"type": kind, "data": data}` on one line, without the line's end.
///
/// Line breaks inside texts are escaped by JSON, so the result is always one line.
///
/// ```
/// let line = regard_report::json_line("score", &[("accuracy", 0.5)])?;
/// assert_eq!(line, r#"{"type":"score","data":[["accuracy",0.5]]}"#);
/// # Ok::<(), regard_report::ReportError>(())
/// ```
///
/// # Errors
///
/// [`ReportError::Json`] when `data` has no JSON form: a map whose keys are not texts, or a
/// [`Matrix`](crate::Matrix) that holds NaN or +∞.
pub fn json_line<T: Serialize + ?Sized>(kind: &str, data: &T) -> Result<String, ReportError> {
    serde_json::to_string(&Event::new(kind, data))
        .map_err(|source| ReportError::Json { what: format!("the event {kind:?}"), source })
}
