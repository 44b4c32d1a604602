//! What a command ends with, and how a failure is told: the chain of causes, then a hint.

use std::fmt;
use std::io;

use regard::data::DataError;
use regard::nn::NnError;
use regard::report::ReportError;
use regard::tasks::TaskError;
use regard::tasks::config::ConfigError;
use regard::tasks::run::files;

/// What helps where a file of a run folder is damaged.
const COPY_AGAIN: &str = "copy the run folder again, or train anew into another one";

/// How a command ended when nothing failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is done.
    Done,
    /// All is done, but a number is below what the user asked for.
    BarMissed,
    /// The user stopped it, and it can be resumed.
    Interrupted,
}

/// A fault that the command line itself finds.
#[derive(Debug)]
pub(crate) struct Fault {
    message: String,
    hint: Option<String>,
}

impl Fault {
    /// A fault that explains itself.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

/// Refuses a flag that has no meaning for the kind of model in a run folder.
pub(crate) fn not_for_task(flag: Option<&str>, kind: &str) -> Result<(), Fault> {
    flag.map_or(Ok(()), |flag| {
        Err(Fault::new(format!("{flag} has no meaning for a {kind}, which the run holds")))
    })
}

/// `error: …`, a line `caused by: …` for each cause, and `hint: …` where one helps.
pub(crate) fn describe(error: &anyhow::Error) -> String {
    let mut text = format!("error: {error}");
    let mut last = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Some errors put their cause into their own words already.
        if !last.contains(&cause) {
            text += &format!("\ncaused by: {cause}");
            last = cause;
        }
    }
    if let Some(hint) = hint(error) {
        text += &format!("\nhint: {hint}");
    }
    text
}

/// Whether the reader of the output has gone, as in `regard … | head`.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    io_errors(error).any(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

fn io_errors(error: &anyhow::Error) -> impl Iterator<Item = &io::Error> {
    error.chain().filter_map(|cause| cause.downcast_ref())
}

fn hint(error: &anyhow::Error) -> Option<String> {
    if let Some(hint) = error.chain().find_map(|e| e.downcast_ref::<Fault>()?.hint.as_ref()) {
        return Some(hint.clone());
    }
    if io_errors(error).any(|e| is_out_of_room(e.kind())) {
        let room = "the disk is full, or a limit is reached; make room and try again";
        return Some(format!("{room} (a training goes on from its last checkpoint with --resume)"));
    }
    if let Some(data) = error.chain().find_map(|e| e.downcast_ref()) {
        return data_hint(data);
    }
    if let Some(config) = error.chain().find_map(|e| e.downcast_ref()) {
        return config_hint(config);
    }
    match error.chain().find_map(|e| e.downcast_ref())? {
        TaskError::Data(data) => data_hint(data),
        TaskError::Config(config) => config_hint(config),
        TaskError::Model(NnError::Checkpoint { path, .. }) if path.ends_with(files::LAST) => {
            Some(format!(
                "without {} the run begins again at its first step and writes over the best weights so \
                 far; copy {} to a safe place first",
                path.display(),
                files::MODEL
            ))
        }
        TaskError::Model(NnError::Checkpoint { .. }) | TaskError::Damaged { .. } => {
            Some(COPY_AGAIN.into())
        }
        TaskError::OtherTask { found, .. } if ["tag", "translate"].contains(&found.as_str()) => {
            Some(format!(
                "go on with it by `regard train {found} --resume`, or name another folder"
            ))
        }
        TaskError::OtherTask { .. } => Some(COPY_AGAIN.into()),
        TaskError::Report(ReportError::Line { .. }) => Some(
            "remove this line, or the whole file: nothing but the learning curve is made from it"
                .into(),
        ),
        TaskError::MissingFile { .. } | TaskError::NoRun(_) | TaskError::NoFolder(_) => Some(
            "a run folder is what `regard train tag --out RUN` makes, or `train translate`".into(),
        ),
        _ => None,
    }
}

fn is_out_of_room(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(kind, FileTooLarge | QuotaExceeded | StorageFull)
}

fn config_hint(error: &ConfigError) -> Option<String> {
    use ConfigError::{NotForModel, Range, Type, UnknownKey, Value};
    match error {
        UnknownKey { .. } | Type { .. } | NotForModel { .. } | Range { .. } | Value { .. } => Some(
            "`regard config tag --model KIND` prints every setting with its default, and so \
                 does `config translate`"
                .into(),
        ),
        _ => None,
    }
}

fn data_hint(error: &DataError) -> Option<String> {
    match error {
        DataError::UnknownEnding { .. } => {
            Some("name the format with --format conllu, columns or text".into())
        }
        DataError::UnknownColumn { .. } | DataError::MissingColumn { .. } => {
            Some("name the column with --column; `--help` lists the choices".into())
        }
        DataError::BadCount { .. }
        | DataError::BadEscape { .. }
        | DataError::DuplicateEntry { .. }
        | DataError::MissingUnknown { .. }
        | DataError::NoLabel { .. }
        | DataError::SavedTokeniser { .. } => Some(COPY_AGAIN.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let io = || io::Error::other("no luck");
        let error =
            anyhow::Error::new(TaskError::Io { action: "read", path: "a".into(), source: io() });
        assert_eq!(describe(&error), "error: cannot read a: no luck");
        let error = anyhow::Error::new(io()).context("second").context("first");
        assert_eq!(describe(&error), "error: first\ncaused by: second\ncaused by: no luck");
    }

    #[test]
    fn a_hint_comes_last() {
        let error = anyhow::Error::new(Fault::new("bad").hint("do better")).context("outer");
        assert_eq!(describe(&error), "error: outer\ncaused by: bad\nhint: do better");
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(describe(&anyhow::Error::new(full)).contains("hint: the disk is full"));
        let pipe = anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe)).context("x");
        assert!(is_closed_pipe(&pipe));
    }
}
