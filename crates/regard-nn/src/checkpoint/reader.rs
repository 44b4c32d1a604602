//! Reading arrays where they shall lie.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use regard_tensor::Real;
use safetensors::tensor::{Metadata, TensorInfo};

use super::{Archive, Array, CheckpointFault, dtype, swap_bytes};
use crate::NnError;
use crate::params::ParamSpec;

/// Numbers that are read and looked at together: they stay in the cache in between.
const BLOCK: usize = 1 << 15;

/// An archive that is open: its texts, and its arrays to be read into the place where they shall lie.
#[derive(Debug)]
pub struct Reader<T, R = File> {
    source: R,
    header: Metadata,
    /// Where the header ends.
    start: u64,
    texts: BTreeMap<String, String>,
    path: PathBuf,
    numbers: PhantomData<T>,
}

impl<T: Real> Reader<T> {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// The file is missing, cut short, of another format or of another number type.
    pub fn open(path: &Path) -> Result<Self, NnError> {
        Self::new(File::open(path).map_err(|e| unreadable(path, e))?, path)
    }
}

fn unreadable(path: &Path, source: io::Error) -> NnError {
    NnError::Io { action: "read", path: path.into(), source }
}

impl<T: Real, R: Read + Seek> Reader<T, R> {
    /// Reads the header of an archive; `path` is for errors.
    ///
    /// # Errors
    /// As [`Reader::open`]; never panics, whatever the bytes.
    pub fn new(mut source: R, path: &Path) -> Result<Self, NnError> {
        let fail = |fault| NnError::Checkpoint { path: path.into(), fault };
        let foreign =
            |what: &dyn std::fmt::Display| fail(CheckpointFault::Foreign(what.to_string()));
        let io = |e| unreadable(path, e);
        let whole = source.seek(SeekFrom::End(0)).map_err(io)?;
        source.rewind().map_err(io)?;
        let Some(rest) = whole.checked_sub(8) else {
            return Err(foreign(&"it is shorter than the length of a header"));
        };
        let mut length = [0; 8];
        source.read_exact(&mut length).map_err(io)?;
        let length = u64::from_le_bytes(length);
        if length > rest {
            return Err(foreign(&"it is shorter than its header says"));
        }
        let mut header = Vec::new();
        source.by_ref().take(length).read_to_end(&mut header).map_err(io)?;
        // This checks that the arrays lie one behind the other, each as long as its shape says.
        let header: Metadata = serde_json::from_slice(&header).map_err(|e| foreign(&e))?;
        if header.data_len() as u64 != rest - length {
            return Err(foreign(&"it is not as long as its header says"));
        }
        for name in header.offset_keys() {
            let actual = header.info(&name).map_or(dtype::<T>(), |info| info.dtype);
            if actual != dtype::<T>() {
                let actual = format!("{actual:?}");
                return Err(fail(CheckpointFault::Dtype { name, expected: T::DTYPE, actual }));
            }
        }
        let texts = header.metadata().clone().unwrap_or_default().into_iter().collect();
        let start = 8 + length;
        Ok(Self { source, header, start, texts, path: path.into(), numbers: PhantomData })
    }

    /// The texts by name.
    pub fn texts(&self) -> &BTreeMap<String, String> {
        &self.texts
    }

    /// Reads the arrays under `prefix` into a flat buffer laid out as `specs`.
    ///
    /// # Errors
    /// A tensor is missing, unknown, of another shape or not finite; `flat` then holds what was read before.
    pub fn get(
        &mut self,
        prefix: &str,
        specs: &[ParamSpec],
        flat: &mut [T],
    ) -> Result<(), NnError> {
        let fail = |path: &Path, fault| Err(NnError::Checkpoint { path: path.into(), fault });
        for spec in specs {
            let name = format!("{prefix}{}", spec.name);
            let Some(info) = self.header.info(&name) else {
                return fail(&self.path, CheckpointFault::Missing(name));
            };
            if info.shape[..] != spec.shape[..] {
                let (expected, actual) = (spec.shape.to_string(), format!("{:?}", info.shape));
                return fail(&self.path, CheckpointFault::Shape { name, expected, actual });
            }
            let info = info.clone();
            if !self.read(&info, &mut flat[spec.range()])? {
                return fail(&self.path, CheckpointFault::NotFinite(name));
            }
        }
        let known: HashSet<&str> = specs.iter().map(|s| s.name.as_str()).collect();
        let unknown = |name: &String| {
            name.strip_prefix(prefix).is_some_and(|rest| !known.contains(rest))
                && (!prefix.is_empty() || !known.is_empty())
        };
        let mut names = self.header.offset_keys();
        names.sort();
        match names.into_iter().find(unknown) {
            Some(name) => fail(&self.path, CheckpointFault::Unexpected(name)),
            None => Ok(()),
        }
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// The file cannot be read any more.
    pub fn read_all(mut self) -> Result<Archive<T>, NnError> {
        let mut arrays = BTreeMap::new();
        for (name, info) in self.header.clone().tensors() {
            let mut data = vec![T::ZERO; info.shape.iter().product()];
            self.read(info, &mut data)?;
            arrays.insert(name, Array { shape: info.shape.clone(), data });
        }
        Ok(Archive { arrays, texts: self.texts, path: self.path })
    }

    /// Reads an array, as long as its shape says; whether all of it is finite.
    fn read(&mut self, info: &TensorInfo, out: &mut [T]) -> Result<bool, NnError> {
        let place = self.start + info.data_offsets.0 as u64;
        self.source.seek(SeekFrom::Start(place)).map_err(|e| unreadable(&self.path, e))?;
        let mut finite = true;
        for block in out.chunks_mut(BLOCK) {
            let bytes = T::bytes_mut(block);
            self.source.read_exact(bytes).map_err(|e| unreadable(&self.path, e))?;
            swap_bytes::<T>(bytes);
            finite &= block.iter().fold(true, |all, x| all & x.is_finite());
        }
        Ok(finite)
    }
}
