//! A run folder: everything that one training leaves behind, and every other command takes.
//!
//! | file | holds |
//! |---|---|
//! | `config.toml` | the resolved settings, with version and data hashes |
//! | `words.tsv`, `chars.tsv`, `labels.tsv`, `seen.tsv` | a tagger's vocabularies, and which words training saw |
//! | `tokenizer.json` or `tokens.tsv` | a translator's tokens, where both languages share them |
//! | `source.…`, `target.…` | the same of each language, where they do not |
//! | `model.safetensors` | the best weights so far |
//! | `last.safetensors` | weights, optimiser and place in the data, to resume from |
//! | `metrics.jsonl` | one line a logged step and an evaluation |
//! | `curve.svg` | the learning curve |
//!
//! Every file is written atomically. One training at a time writes into a folder: it holds a lock on the
//! folder itself, which ends with its process.

use std::fmt::Write;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use regard_nn::checkpoint::write_atomic;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::TaskError;
use crate::config::{ConfigError, Layer};

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
    /// Subwords that source and target share.
    pub const TOKENIZER: &str = "tokenizer.json";
    /// Subwords of the source.
    pub const SOURCE_TOKENIZER: &str = "source.tokenizer.json";
    /// Subwords of the target.
    pub const TARGET_TOKENIZER: &str = "target.tokenizer.json";
    /// Words or characters that source and target share.
    pub const TOKENS: &str = "tokens.tsv";
    /// Words or characters of the source.
    pub const SOURCE_TOKENS: &str = "source.tsv";
    /// Words or characters of the target.
    pub const TARGET_TOKENS: &str = "target.tsv";
    /// Best weights.
    pub const MODEL: &str = "model.safetensors";
    /// Checkpoint to resume from.
    pub const LAST: &str = "last.safetensors";
    /// Log of the training.
    pub const METRICS: &str = "metrics.jsonl";
    /// Learning curve.
    pub const CURVE: &str = "curve.svg";
    /// Whether a run folder has a file of this name.
    pub fn is_one(name: &str) -> bool {
        BEFORE_CONFIG.contains(&name) || [CONFIG, MODEL, LAST, METRICS, CURVE].contains(&name)
    }
    /// What is written before the settings, whose presence makes a folder a run.
    pub(super) const BEFORE_CONFIG: [&str; 11] = [
        WORDS,
        CHARS,
        LABELS,
        SEEN,
        TOKENIZER,
        SOURCE_TOKENIZER,
        TARGET_TOKENIZER,
        TOKENS,
        SOURCE_TOKENS,
        TARGET_TOKENS,
        METRICS,
    ];
}

/// Facts of a run that are no settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFacts {
    /// Which task.
    pub task: String,
    /// Version of Regard that trained it.
    pub version: String,
    /// SHA-256 of the training file.
    pub train_sha256: String,
    /// SHA-256 of the development file; empty without one.
    pub dev_sha256: String,
    /// SHA-256 of what a tagger's `seen.tsv` holds. `None` for a translator, and in runs of versions that did
    /// not write it: then the file is taken as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_sha256: Option<String>,
}

/// The folder of one run.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// The folder, locked for as long as a training writes into it.
    lock: Option<File>,
}

impl RunFolder {
    /// A folder for a new run, made if it is not there, and no other training's while this value lives.
    ///
    /// # Errors
    /// It holds a run or something else already, or cannot be made; another training writes into it.
    pub fn create(path: &Path) -> Result<Self, TaskError> {
        if path.is_file() {
            return Err(TaskError::FileThere(path.into()));
        }
        fs::create_dir_all(path).map_err(TaskError::io("create", path))?;
        let lock = lock(path)?;
        if path.join(files::CONFIG).exists() {
            return Err(TaskError::RunExists(path.into()));
        }
        let mut entries = fs::read_dir(path).map_err(TaskError::io("read", path))?;
        let foreign = entries.any(|entry| {
            // What an interrupted start of a run may leave is no obstacle to the next.
            entry.is_ok_and(|e| {
                let name = e.file_name().to_string_lossy().into_owned();
                !is_temporary(&name) && !files::BEFORE_CONFIG.contains(&name.as_str())
            })
        });
        if foreign {
            return Err(TaskError::NotARunFolder(path.into()));
        }
        let run = Self { path: path.into(), lock };
        run.tidy();
        Ok(run)
    }

    /// The folder of an existing run, to go on with it: no other training's while this value lives.
    ///
    /// # Errors
    /// As [`open`](Self::open); another training writes into it.
    pub fn go_on(path: &Path) -> Result<Self, TaskError> {
        let mut run = Self::open(path)?;
        run.lock = lock(path)?;
        run.tidy();
        Ok(run)
    }

    /// The folder of an existing run, to read from it.
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
        Ok(Self { path: path.into(), lock: None })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that no file of the data would be overwritten: none is one of the folder's.
    ///
    /// # Errors
    /// One is.
    pub(crate) fn holds_none_of(&self, data: &[PathBuf]) -> Result<(), TaskError> {
        let Ok(folder) = self.path.canonicalize() else { return Ok(()) };
        let within = |file: &PathBuf| {
            file.canonicalize().is_ok_and(|file| file.parent() == Some(folder.as_path()))
        };
        if data.iter().any(within) {
            return Err(TaskError::NotARunFolder(self.path.clone()));
        }
        Ok(())
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

    /// The settings, and the facts beside them.
    ///
    /// # Errors
    /// `config.toml` is missing or damaged, or the run is for another task than `task`.
    pub(crate) fn read_config(&self, task: &str) -> Result<(Layer, RunFacts), TaskError> {
        let (layer, facts) = self.read_facts()?;
        if facts.task != task {
            return Err(TaskError::OtherTask {
                file: self.file(files::CONFIG),
                found: facts.task,
                expected: task.into(),
            });
        }
        Ok((layer, facts))
    }

    fn read_facts(&self) -> Result<(Layer, RunFacts), TaskError> {
        let path = self.file(files::CONFIG);
        let origin = path.display().to_string();
        let mut layer = Layer::from_toml(&origin, &self.read(files::CONFIG)?)?;
        let facts = layer.table.remove("run").ok_or_else(|| TaskError::Damaged {
            file: path.clone(),
            fault: "the section [run] is missing".into(),
        })?;
        let facts = facts.try_into().map_err(|e: toml::de::Error| ConfigError::Value {
            origin,
            fault: e.to_string().trim_end().replace('\n', " "),
        })?;
        Ok((layer, facts))
    }

    /// Removes temporary files that a killed process left.
    fn tidy(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if is_temporary(&entry.file_name().to_string_lossy()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Locks a folder until the file is closed. The folder itself is locked, since each file in it may be
/// replaced by another of its name. `None` where the system has no locks for folders (Windows, some
/// network drives): then nothing but the user's care keeps two trainings apart.
fn lock(path: &Path) -> Result<Option<File>, TaskError> {
    let Ok(folder) = File::open(path) else { return Ok(None) };
    match folder.try_lock() {
        Ok(()) => Ok(Some(folder)),
        Err(TryLockError::WouldBlock) => Err(TaskError::InUse(path.into())),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

fn is_temporary(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| e == "tmp")
}

/// The task that the run in a folder is for.
///
/// # Errors
/// There is no run, or its `config.toml` is damaged.
pub fn task_of(path: &Path) -> Result<String, TaskError> {
    Ok(RunFolder::open(path)?.read_facts()?.1.task)
}

/// The text of `config.toml`.
pub(crate) fn config_text(settings: &str, facts: &RunFacts) -> String {
    let facts = toml::to_string(facts).unwrap_or_default();
    format!("{settings}\n[run]\n{facts}")
}

/// Refuses data whose hash is no longer that of the run's beginning.
pub(crate) fn check_unchanged(file: &str, expected: &str, actual: String) -> Result<(), TaskError> {
    if actual == expected {
        return Ok(());
    }
    Err(TaskError::DataChanged { file: file.into(), expected: expected.into(), actual })
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
