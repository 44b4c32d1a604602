//! Checkpoints: safetensors files, written atomically.
//!
//! A file is first written whole under a temporary name beside its place, synced, and then
//! renamed. A process killed at any moment leaves the old file or the new one, never half of
//! one.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use regard_tensor::Real;
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};

use crate::{NnError, Params};

/// What is wrong with a checkpoint.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointFault {
    /// The bytes are not a whole safetensors file.
    #[error("not a whole safetensors file ({0}); it was cut short or made by something else")]
    Foreign(String),
    /// A tensor of the model is not in the file.
    #[error("tensor `{0}` is missing; the file belongs to a model of another configuration")]
    Missing(String),
    /// The file has a tensor that the model has not.
    #[error("tensor `{0}` is unknown; the file belongs to a model of another configuration")]
    Unexpected(String),
    /// A tensor has another shape than the model's.
    #[error("tensor `{name}` has shape {actual}, the model needs {expected}")]
    Shape {
        /// The tensor.
        name: String,
        /// The model's shape.
        expected: String,
        /// The file's shape.
        actual: String,
    },
    /// A tensor has another number type.
    #[error("tensor `{name}` is {actual}, expected {expected}")]
    Dtype {
        /// The tensor.
        name: String,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        actual: String,
    },
    /// A value is NaN or infinite.
    #[error("tensor `{0}` holds a value that is not finite")]
    NotFinite(String),
    /// The description of the run inside the file cannot be read.
    #[error("the run's state inside it cannot be read: {0}")]
    State(String),
}

/// One array of an archive.
#[derive(Debug, Clone, PartialEq)]
pub struct Array<T> {
    /// Sizes of the axes.
    pub shape: Vec<usize>,
    /// The elements, row-major.
    pub data: Vec<T>,
}

/// Named arrays and named texts: what a safetensors file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Archive<T> {
    /// The arrays by name.
    pub arrays: BTreeMap<String, Array<T>>,
    /// The texts by name.
    pub texts: BTreeMap<String, String>,
    /// Where it was read from, for errors.
    pub path: PathBuf,
}

impl<T: Real> Archive<T> {
    /// An empty archive.
    pub fn new() -> Self {
        Self { arrays: BTreeMap::new(), texts: BTreeMap::new(), path: PathBuf::new() }
    }

    /// Adds every parameter, or any flat buffer of the same layout, under `prefix` + its name.
    ///
    /// # Panics
    /// If `flat` is shorter than the parameters' buffer.
    pub fn put(&mut self, prefix: &str, params: &Params<T>, flat: &[T]) {
        for spec in params.specs() {
            let array = Array { shape: spec.shape.to_vec(), data: flat[spec.range()].to_vec() };
            self.arrays.insert(format!("{prefix}{}", spec.name), array);
        }
    }

    /// Copies the arrays under `prefix` into a flat buffer laid out as `params`.
    ///
    /// # Errors
    /// A tensor is missing, unknown, of another shape or not finite.
    pub fn get(&self, prefix: &str, params: &Params<T>, flat: &mut [T]) -> Result<(), NnError> {
        let fail = |fault| Err(NnError::Checkpoint { path: self.path.clone(), fault });
        for spec in params.specs() {
            let name = format!("{prefix}{}", spec.name);
            let Some(array) = self.arrays.get(&name) else {
                return fail(CheckpointFault::Missing(name));
            };
            if array.shape[..] != spec.shape[..] {
                return fail(CheckpointFault::Shape {
                    name,
                    expected: spec.shape.to_string(),
                    actual: format!("{:?}", array.shape),
                });
            }
            if array.data.iter().any(|x| !x.is_finite()) {
                return fail(CheckpointFault::NotFinite(name));
            }
            flat[spec.range()].copy_from_slice(&array.data);
        }
        let known: std::collections::HashSet<&str> =
            params.specs().iter().map(|s| s.name.as_str()).collect();
        let unknown = |name: &&String| {
            name.strip_prefix(prefix).is_some_and(|rest| !known.contains(rest))
                && (!prefix.is_empty() || !known.is_empty())
        };
        match self.arrays.keys().find(unknown) {
            Some(name) => fail(CheckpointFault::Unexpected(name.clone())),
            None => Ok(()),
        }
    }

    /// Writes the archive to `path`, atomically.
    ///
    /// # Errors
    /// The disk is full, the folder is missing, … What lay at `path` before stays.
    pub fn write(&self, path: &Path) -> Result<(), NnError> {
        let bytes: BTreeMap<&String, Vec<u8>> =
            self.arrays.iter().map(|(name, array)| (name, to_bytes(&array.data))).collect();
        let dtype = if T::DTYPE == "F32" { Dtype::F32 } else { Dtype::F64 };
        let fail = |e: SafeTensorError| NnError::Io {
            action: "write",
            path: path.into(),
            source: std::io::Error::other(e.to_string()),
        };
        let mut views = Vec::new();
        for (name, bytes) in &bytes {
            let view = TensorView::new(dtype, self.arrays[*name].shape.clone(), bytes);
            views.push((name.as_str(), view.map_err(fail)?));
        }
        let texts: HashMap<String, String> = self.texts.clone().into_iter().collect();
        // The library spoils the header of a file with neither arrays nor texts unless told so.
        let texts = (!texts.is_empty()).then_some(texts);
        let mut whole = safetensors::serialize(views, texts).map_err(fail)?;
        sort_header(&mut whole);
        write_atomic(path, &whole)
    }

    /// Reads an archive.
    ///
    /// # Errors
    /// The file is missing, cut short, of another format or of another number type.
    pub fn read(path: &Path) -> Result<Self, NnError> {
        let bytes = fs::read(path).map_err(|source| NnError::Io {
            action: "read",
            path: path.into(),
            source,
        })?;
        Self::parse(&bytes, path)
    }

    /// Reads an archive from bytes; `path` is for errors.
    ///
    /// # Errors
    /// As [`Archive::read`]; never panics, whatever the bytes.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, NnError> {
        let fail = |fault| NnError::Checkpoint { path: path.into(), fault };
        let foreign = |e: SafeTensorError| fail(CheckpointFault::Foreign(e.to_string()));
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(foreign)?;
        let file = SafeTensors::deserialize(bytes).map_err(foreign)?;
        let mut archive = Self::new();
        archive.path = path.into();
        for (name, view) in file.iter() {
            let actual = view.dtype();
            let wanted = if T::DTYPE == "F32" { Dtype::F32 } else { Dtype::F64 };
            if actual != wanted {
                return Err(fail(CheckpointFault::Dtype {
                    name: name.into(),
                    expected: T::DTYPE,
                    actual: format!("{actual:?}"),
                }));
            }
            let array = Array { shape: view.shape().to_vec(), data: from_bytes(view.data()) };
            archive.arrays.insert(name.into(), array);
        }
        if let Some(texts) = metadata.metadata() {
            archive.texts = texts.clone().into_iter().collect();
        }
        Ok(archive)
    }
}

impl<T: Real> Default for Archive<T> {
    fn default() -> Self {
        Self::new()
    }
}

fn to_bytes<T: Real>(data: &[T]) -> Vec<u8> {
    if T::DTYPE == "F32" {
        // Exact: every f32 is an f64.
        data.iter().flat_map(|x| (x.to_f64() as f32).to_le_bytes()).collect()
    } else {
        data.iter().flat_map(|x| x.to_f64().to_le_bytes()).collect()
    }
}

fn from_bytes<T: Real>(bytes: &[u8]) -> Vec<T> {
    let read = |chunk: &[u8]| match *chunk {
        [a, b, c, d] => T::from_f64(f64::from(f32::from_le_bytes([a, b, c, d]))),
        [a, b, c, d, e, f, g, h] => T::from_f64(f64::from_le_bytes([a, b, c, d, e, f, g, h])),
        _ => T::ZERO,
    };
    bytes.chunks_exact(size_of::<T>()).map(read).collect()
}

/// Puts the names in a file's header in order: the library writes texts in an order that changes
/// from run to run, and the same archive is to give the same bytes.
fn sort_header(file: &mut [u8]) {
    type Header = BTreeMap<String, BTreeMap<String, serde_json::Value>>;
    let Some((length, rest)) = file.split_first_chunk_mut() else { return };
    let length = u64::from_le_bytes(*length) as usize;
    let Some(header) = rest.get_mut(..length) else { return };
    let sorted = serde_json::from_slice::<Header>(header).and_then(|h| serde_json::to_vec(&h));
    // The same entries, so the same length; the spaces that fill it up stay.
    if let Ok(sorted) = sorted
        && let Some(place) = header.get_mut(..sorted.len())
    {
        place.copy_from_slice(&sorted);
    }
}

/// Writes bytes to `path` so that at every moment the old or the new contents are there whole.
///
/// # Errors
/// As the system says; the temporary file is removed and what was at `path` stays.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), NnError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = write_synced(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if let Err(source) = written {
        let _ = fs::remove_file(&temporary);
        return Err(NnError::Io { action: "write", path: path.into(), source });
    }
    // The rename itself survives a power cut once the folder is synced; not all systems let a
    // folder be opened, and the data is safe either way.
    if let Some(folder) = path.parent()
        && let Ok(folder) = File::open(folder)
    {
        let _ = folder.sync_all();
    }
    Ok(())
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let half = bytes.len() / 2;
    file.write_all(&bytes[..half])?;
    abort_if_asked();
    file.write_all(&bytes[half..])?;
    file.sync_all()
}

/// For tests of resuming: with `REGARD_TEST_ABORT_WRITE=n` the process dies, as by a power cut, in
/// the middle of its n-th atomic write.
fn abort_if_asked() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let n = WRITES.fetch_add(1, Ordering::Relaxed) + 1;
    if std::env::var("REGARD_TEST_ABORT_WRITE").is_ok_and(|v| v == n.to_string()) {
        std::process::abort();
    }
}
