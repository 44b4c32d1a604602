//! What can go wrong in a task, with the place and the remedy.

use std::path::PathBuf;

use regard_data::{DataError, TokeniserKind};
use regard_metrics::MetricsError;
use regard_metrics::translation::TranslationError;
use regard_nn::NnError;
use regard_report::ReportError;

use crate::config::ConfigError;

/// Errors of training, evaluating, predicting and looking.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// A data file is at fault.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A setting is at fault.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The training core refuses.
    #[error(transparent)]
    Model(#[from] NnError),
    /// Labels cannot be scored.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// Translations cannot be scored.
    #[error(transparent)]
    Translation(#[from] TranslationError),
    /// A report cannot be written or read.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The output folder already holds a run.
    #[error(
        "{path} already holds a run; go on with it by --resume, choose another folder for --out, or delete this one",
        path = .0.display()
    )]
    RunExists(PathBuf),
    /// The output folder exists and holds something else.
    #[error("{path} is not empty and holds no run; choose an empty or a new folder", path = .0.display())]
    NotARunFolder(PathBuf),
    /// A file stands where the output folder is to be.
    #[error("{path} is a file; choose an empty or a new folder", path = .0.display())]
    FileThere(PathBuf),
    /// Another training writes into the output folder.
    #[error(
        "another training is writing into {path}; wait until it has ended or stop it, or choose another \
         folder for --out",
        path = .0.display()
    )]
    InUse(PathBuf),
    /// The folder of a run is not there.
    #[error("{path}: no such folder; give the folder that the training's --out named", path = .0.display())]
    NoFolder(PathBuf),
    /// A folder holds no run, or one that was stopped before it had begun.
    #[error(
        "{path} holds no run (config.toml is missing); start one there with `regard train`, without --resume",
        path = .0.display()
    )]
    NoRun(PathBuf),
    /// A run that was trained for a while has lost its best weights.
    #[error(
        "{path} is missing, and the checkpoint beside it does not hold the best weights; train again into a new folder",
        path = .0.display()
    )]
    LostModel(PathBuf),
    /// The numbers of a training ran away.
    #[error(
        "{source}, and train into another folder or delete {folder} first: with --resume it would go the same way",
        folder = .folder.display()
    )]
    Diverged {
        /// The run's folder.
        folder: PathBuf,
        /// What ran away, at which step.
        source: Box<NnError>,
    },
    /// The last loss of a training without a development file is a finite number, but an absurd one.
    #[error(
        "the loss was {loss:.1e} at step {step}, the last, and that of guessing is {guess:.3}; lower the \
         learning rate or clip gradients, and train into another folder or delete {folder} first: with \
         --resume it would go the same way",
        folder = .folder.display()
    )]
    RanAway {
        /// The run's folder.
        folder: PathBuf,
        /// The last step.
        step: u64,
        /// Its loss.
        loss: f64,
        /// The loss of guessing.
        guess: f64,
    },
    /// It was stopped from outside before it was done.
    #[error("stopped before it was done")]
    Stopped,
    /// A run folder lacks a file.
    #[error(
        "{path}: {file} is missing; the run was stopped before it was written (go on with --resume), or it was removed",
        path = .folder.display()
    )]
    MissingFile {
        /// The folder.
        folder: PathBuf,
        /// The file in it.
        file: &'static str,
    },
    /// A run is resumed with other data than it began with.
    #[error(
        "{file} has changed since the run began (its contents hash to {actual}, not {expected}); \
         put the old file back or start a new run"
    )]
    DataChanged {
        /// The file.
        file: String,
        /// Hash at the start.
        expected: String,
        /// Hash now.
        actual: String,
    },
    /// The run in a folder is another task's.
    #[error("{file}: the run is for task `{found}`, not `{expected}`", file = .file.display())]
    OtherTask {
        /// The settings of the run.
        file: PathBuf,
        /// The task that they name.
        found: String,
        /// The task that was asked for.
        expected: String,
    },
    /// A file of a run folder is damaged.
    #[error("{file}: {fault}", file = .file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// Weights and the files beside them do not belong together.
    #[error(
        "{path}: settings or vocabularies are not those that {file} was written with; \
         put the old config.toml and vocabulary files back, or train anew into another folder",
        path = .folder.display()
    )]
    Changed {
        /// The folder.
        folder: PathBuf,
        /// The file that holds the weights.
        file: &'static str,
    },
    /// Every training word has the same label.
    #[error(
        "{file}: every word has the label `{label}`, so there is nothing to learn; \
         name the column of the labels with --column"
    )]
    OneLabel {
        /// The training file.
        file: String,
        /// The label.
        label: String,
    },
    /// The development file has not one label of the training file.
    #[error(
        "{dev}: none of its labels ({seen}) is in {train}; do both files have the same format and column?"
    )]
    NoCommonLabel {
        /// The training file.
        train: String,
        /// The development file.
        dev: String,
        /// Some labels of the development file.
        seen: String,
    },
    /// A file that must have labels is read in a way that gives none.
    #[error("{0}: no labels in this format; name a column that holds them, or another format")]
    NoLabels(String),
    /// Gold and predicted files differ in something that must agree.
    #[error("{file}, sentence {sentence} (line {line}): {fault}")]
    Mismatch {
        /// The predicted file.
        file: String,
        /// The sentence, counted from 1.
        sentence: usize,
        /// Its first line.
        line: usize,
        /// What differs.
        fault: String,
    },
    /// A model without attention was asked to show it.
    #[error(
        "model `{0}` has no attention to look at; train one with --model self-attention or --model transformer"
    )]
    NothingToLookAt(String),
    /// A translator without attention was asked for what only attention tells.
    #[error(
        "model `{0}` has no attention to look at, to align words by or to replace unknown words by; \
         train one with --model bahdanau, luong or transformer"
    )]
    NoAlignment(String),
    /// Unknown words are to be replaced, but the model knows none.
    #[error(
        "tokens of kind `{0}` spell every word, so that there is no unknown one to replace; leave out \
         --replace-unknown, or train a model with --tokens word or char"
    )]
    NothingUnknown(TokeniserKind),
    /// A line is longer than a translator takes.
    #[error(
        "line {line}: {tokens} tokens, more than the {most} that a translator takes: {text:?}; cut it into \
         sentences"
    )]
    LongLine {
        /// The line, counted from 1.
        line: usize,
        /// Its tokens.
        tokens: usize,
        /// The most that there may be.
        most: usize,
        /// Its beginning.
        text: String,
    },
    /// There is no token in the model's translation.
    #[error("the model's translation is empty; give one with --target")]
    EmptyTranslation,
    /// There is no token in the translation to look at.
    #[error(
        "there is no word in the target; give a translation, or leave --target out to look at the model's own"
    )]
    EmptyTarget,
    /// The training text leaves no token for a vocabulary.
    #[error(
        "the vocabulary of the {side} has no token: give more text, or lower data.min_count (now {min_count})"
    )]
    NoTokens {
        /// `source` or `target`.
        side: &'static str,
        /// How often a token must be seen.
        min_count: u64,
    },
    /// Parallel text is neither two files nor one table.
    #[error(
        "{0} files of parallel text; give a source file and a target file, or one table of tabs"
    )]
    PairFiles(usize),
    /// Columns are named for text that has none.
    #[error("columns {0:?} are for one table of tabs; two files stand line by line")]
    ColumnsOfFiles(String),
    /// No pair is left to train on.
    #[error("{file}: no pair is left to train on: {reason}")]
    NoPairs {
        /// The training files.
        file: String,
        /// What the length filter left out.
        reason: String,
    },
    /// No development pair has a loss to choose the best weights by.
    #[error(
        "{0}: every pair has an empty side, so that there is no loss to choose the best weights by; give \
         other development files"
    )]
    NoDevLoss(String),
    /// There is no word to look at.
    #[error("there is no word to look at; give a sentence, words separated by blanks")]
    NoWords,
    /// A file could not be read or written.
    #[error("cannot {action} {path}: {source}", path = .path.display())]
    Io {
        /// `read`, `write`, `create`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl TaskError {
    /// The error of a part of a file that has `lines` before it.
    pub(crate) fn after_lines(mut self, lines: usize) -> Self {
        if let Self::LongLine { line, .. } = &mut self {
            *line += lines;
        }
        self
    }

    /// Wraps a system error with what was done to which path.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
