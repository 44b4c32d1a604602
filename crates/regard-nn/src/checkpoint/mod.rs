//! Checkpoints: safetensors files, written atomically.
//!
//! A file is first written whole under a temporary name beside its place, synced, and then
//! renamed. A process killed at any moment leaves the old file or the new one, never half of
//! one.

mod atomic;
mod reader;

use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;
use std::path::{Path, PathBuf};

use regard_tensor::Real;
use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, TensorView};

pub use self::atomic::write_atomic;
pub use self::reader::Reader;
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

    /// Writes the archive to `path`, atomically.
    ///
    /// # Errors
    /// The disk is full, the folder is missing, … What lay at `path` before stays.
    pub fn write(&self, path: &Path) -> Result<(), NnError> {
        let bytes: BTreeMap<&String, Vec<u8>> =
            self.arrays.iter().map(|(name, array)| (name, to_bytes(&array.data))).collect();
        let fail = |e: SafeTensorError| NnError::Io {
            action: "write",
            path: path.into(),
            source: std::io::Error::other(e.to_string()),
        };
        let mut views = Vec::new();
        for (name, bytes) in &bytes {
            let view = TensorView::new(dtype::<T>(), self.arrays[*name].shape.clone(), bytes);
            views.push((name.as_str(), view.map_err(fail)?));
        }
        let texts: HashMap<String, String> = self.texts.clone().into_iter().collect();
        // The library spoils the header of a file with neither arrays nor texts unless told so.
        let texts = (!texts.is_empty()).then_some(texts);
        let mut whole = safetensors::serialize(views, texts).map_err(fail)?;
        sort_header(&mut whole);
        write_atomic(path, &whole)
    }

    /// Reads an archive whole; [`Reader`] reads parts of one.
    ///
    /// # Errors
    /// The file is missing, cut short, of another format or of another number type.
    pub fn read(path: &Path) -> Result<Self, NnError> {
        Reader::open(path)?.read_all()
    }

    /// Reads an archive from bytes; `path` is for errors.
    ///
    /// # Errors
    /// As [`Archive::read`]; never panics, whatever the bytes.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, NnError> {
        Reader::new(Cursor::new(bytes), path)?.read_all()
    }
}

impl<T: Real> Default for Archive<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// How the format spells a number type.
fn dtype<T: Real>() -> Dtype {
    if T::DTYPE == "F32" { Dtype::F32 } else { Dtype::F64 }
}

/// The bytes of numbers in this machine's order, made those of the format, or back.
fn swap_bytes<T: Real>(bytes: &mut [u8]) {
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
    }
}

fn to_bytes<T: Real>(data: &[T]) -> Vec<u8> {
    let mut bytes = T::bytes(data).to_vec();
    swap_bytes::<T>(&mut bytes);
    bytes
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
