//! What can be wrong with a request for attention.

/// A shape or an option that cannot be served.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AttnError {
    /// An argument has the wrong size.
    #[error("attention: `{argument}` must be {expected}, got {actual}")]
    Size {
        /// The argument at fault.
        argument: &'static str,
        /// What it must be.
        expected: String,
        /// What came.
        actual: String,
    },
    /// An option is out of its range.
    #[error("attention: option `{option}` must be {expected}, got {actual}")]
    Option {
        /// The option at fault.
        option: &'static str,
        /// Its range.
        expected: String,
        /// What came.
        actual: String,
    },
    /// Parts that do not go together.
    #[error("attention: {part} `{name}` cannot be used here: {reason}")]
    Unsupported {
        /// `score`, `normaliser`, `scope` or `position`.
        part: &'static str,
        /// The part's name.
        name: &'static str,
        /// Why.
        reason: &'static str,
    },
}

impl AttnError {
    /// Fails with [`AttnError::Size`] unless `ok`.
    ///
    /// # Errors
    /// `ok` is false.
    pub fn size(
        ok: bool,
        argument: &'static str,
        expected: impl std::fmt::Display,
        actual: impl std::fmt::Display,
    ) -> Result<(), Self> {
        if ok {
            return Ok(());
        }
        Err(Self::Size { argument, expected: expected.to_string(), actual: actual.to_string() })
    }
}
