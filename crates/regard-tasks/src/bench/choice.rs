//! Cases by name, and what can be wrong with a wish for them.

use std::path::PathBuf;

use regard_attn::AttnError;
use regard_data::DataError;
use regard_nn::NnError;

use crate::config::nearest;

/// What can be wrong with a wish for a measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// There is nothing of this name.
    #[error(
        "there is no {what} `{name}`{}; there are {known}",
        nearest.map_or_else(String::new, |nearest| format!(", did you mean `{nearest}`?"))
    )]
    Unknown {
        /// `variant`, `shape`, `case` or `model`.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// The name most like it.
        nearest: Option<&'static str>,
        /// What there is.
        known: String,
    },
    /// None of the variants has one of the shapes, or none of the cases one of the models.
    #[error("nothing has all of these names; `--list` shows what there is")]
    NoCase,
    /// A treebank cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A treebank has nothing to learn.
    #[error(
        "{}: less than two different labels, so there is nothing to learn; name a file that `regard train tag` could learn from",
        file.display()
    )]
    TooFewLabels {
        /// The file.
        file: PathBuf,
    },
    /// The engine refuses.
    #[error(transparent)]
    Attention(#[from] AttnError),
    /// The training core refuses.
    #[error(transparent)]
    Model(#[from] NnError),
}

/// The names asked for, or all; an unknown one is an error that lists them.
pub(super) fn known(
    what: &'static str,
    asked: &[String],
    names: &[&'static str],
) -> Result<Vec<&'static str>, BenchError> {
    if asked.is_empty() {
        return Ok(names.to_vec());
    }
    let find = |name: &String| {
        let unknown = || BenchError::Unknown {
            what,
            name: name.clone(),
            nearest: nearest(name, names.iter().copied()),
            known: names.join(", "),
        };
        names.iter().copied().find(|known| known == name).ok_or_else(unknown)
    };
    asked.iter().map(find).collect()
}
