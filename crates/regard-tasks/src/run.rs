//! A run folder: everything that one training leaves behind, and every other command takes.
//!
//! | file | holds |
//! |---|---|
//! | `config.toml` | the resolved settings, with version and data hashes |
//! | `words.tsv`, `chars.tsv`, `labels.tsv`, `seen.tsv` | vocabularies, and which words training saw |
//! | `model.safetensors` | the best weights so far |
//! | `last.safetensors` | weights, optimiser and place in the data, to resume from |
//! | `metrics.jsonl` | one line a logged step and an evaluation |
//! | `curve.svg` | the learning curve |
//!
//! Every file is written atomically.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use regard_nn::checkpoint::write_atomic;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::TaskError;

/// File names in a run folder.
pub mod files {
    /// Resolved settings.
    pub const CONFIG: &str = "config.toml";
    /// Word vocabulary.
    pub const WORDS: &str = "words.tsv";
    /// Character vocabulary.
    pub const CHARS: &str = "chars.tsv";
    /// Labels.
    pub const LABELS: &str = "labels.tsv";
    /// Words of the training file, and whether they are ambiguous.
    pub const SEEN: &str = "seen.tsv";
    /// Best weights.
    pub const MODEL: &str = "model.safetensors";
    /// Checkpoint to resume from.
    pub const LAST: &str = "last.safetensors";
    /// Log of the training.
    pub const METRICS: &str = "metrics.jsonl";
    /// Learning curve.
    pub const CURVE: &str = "curve.svg";
}

/// Facts of a run that are no settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFacts {
    /// Which task.
    pub task: String,
    /// Version of Regard that trained it.
    pub version: String,
    /// SHA-256 of the training file.
    pub train_sha256: String,
    /// SHA-256 of the development file; empty without one.
    pub dev_sha256: String,
}

/// The folder of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// A folder for a new run, made if it is not there.
    ///
    /// # Errors
    /// It holds a run or something else already, or cannot be made.
    pub fn create(path: &Path) -> Result<Self, TaskError> {
        if path.join(files::CONFIG).exists() {
            return Err(TaskError::RunExists(path.into()));
        }
        fs::create_dir_all(path).map_err(TaskError::io("create", path))?;
        let mut entries = fs::read_dir(path).map_err(TaskError::io("read", path))?;
        let foreign = entries.any(|entry| {
            // What an interrupted start of a run may leave is no obstacle to the next.
            entry.is_ok_and(|e| {
                let name = e.file_name().to_string_lossy().into_owned();
                !is_temporary(&name)
                    && ![files::WORDS, files::CHARS, files::LABELS, files::SEEN, files::METRICS]
                        .contains(&name.as_str())
            })
        });
        if foreign {
            return Err(TaskError::NotARunFolder(path.into()));
        }
        let run = Self { path: path.into() };
        run.tidy();
        Ok(run)
    }

    /// The folder of an existing run.
    ///
    /// # Errors
    /// It does not exist, or there is no `config.toml` in it.
    pub fn open(path: &Path) -> Result<Self, TaskError> {
        if !path.is_dir() {
            return Err(TaskError::NoFolder(path.into()));
        }
        if !path.join(files::CONFIG).is_file() {
            return Err(TaskError::NoRun(path.into()));
        }
        Ok(Self { path: path.into() })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads a text file of the folder.
    ///
    /// # Errors
    /// It is missing or not readable as UTF-8 text.
    pub fn read(&self, name: &'static str) -> Result<String, TaskError> {
        let path = self.file(name);
        if !path.is_file() {
            return Err(TaskError::MissingFile { folder: self.path.clone(), file: name });
        }
        fs::read_to_string(&path).map_err(TaskError::io("read", path))
    }

    /// Writes a text file of the folder, atomically.
    ///
    /// # Errors
    /// As the system says; an older file stays as it was.
    pub fn write(&self, name: &str, text: &str) -> Result<(), TaskError> {
        Ok(write_atomic(&self.file(name), text.as_bytes())?)
    }

    /// Removes temporary files that a killed process left.
    pub fn tidy(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if is_temporary(&entry.file_name().to_string_lossy()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn is_temporary(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| e == "tmp")
}

/// SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// The file cannot be read.
pub fn hash_file(path: &Path) -> Result<String, TaskError> {
    let bytes = fs::read(path).map_err(TaskError::io("read", path))?;
    Ok(hash(&bytes))
}

/// SHA-256 of bytes, in hexadecimal.
pub fn hash(bytes: &[u8]) -> String {
    let mut hex = String::new();
    for byte in Sha256::digest(bytes) {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}
