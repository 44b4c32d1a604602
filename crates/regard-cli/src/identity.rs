//! Whether two names, or a name and a stream, are one file.

use std::fs;
#[cfg(unix)]
use std::io;
use std::path::{Path, PathBuf};

/// Where a command reads from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    File(&'a Path),
    StandardInput,
}

impl<'a> Source<'a> {
    /// The file, or standard input where there is none.
    pub(crate) fn new(file: Option<&'a Path>) -> Self {
        file.map_or(Self::StandardInput, Self::File)
    }

    /// Whether it is the plain file of this name, by whatever name or redirection it is read.
    pub(crate) fn is(self, file: &Path) -> bool {
        let own = self.identity();
        own.is_some() && own == Identity::of_file(file)
    }

    fn identity(self) -> Option<Identity> {
        match self {
            Self::File(path) => Identity::of_file(path),
            Self::StandardInput => Identity::of_input(),
        }
    }

    /// Whether standard output goes to the plain file that is read: what is written would be read again.
    pub(crate) fn is_output(self) -> bool {
        let own = self.identity();
        own.is_some() && own == Identity::of_output()
    }
}

/// What tells a plain file from all others.
#[derive(Debug, PartialEq)]
struct Identity(#[cfg(unix)] (u64, u64), #[cfg(not(unix))] PathBuf);

#[cfg(unix)]
impl Identity {
    fn new(metadata: &fs::Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        metadata.is_file().then(|| Self((metadata.dev(), metadata.ino())))
    }

    fn of_file(path: &Path) -> Option<Self> {
        Self::new(&fs::metadata(path).ok()?)
    }

    fn of_input() -> Option<Self> {
        Self::of_stream(&io::stdin())
    }

    fn of_output() -> Option<Self> {
        Self::of_stream(&io::stdout())
    }

    fn of_stream(stream: &impl std::os::fd::AsFd) -> Option<Self> {
        let stream = stream.as_fd().try_clone_to_owned().ok()?;
        Self::new(&fs::File::from(stream).metadata().ok()?)
    }
}

#[cfg(not(unix))]
impl Identity {
    fn of_file(path: &Path) -> Option<Self> {
        fs::canonicalize(path).ok().filter(|path| path.is_file()).map(Self)
    }

    fn of_input() -> Option<Self> {
        None
    }

    fn of_output() -> Option<Self> {
        None
    }
}

/// The place of a file that may not be there yet: links are followed, as writing does.
pub(crate) fn place(path: &Path) -> PathBuf {
    let in_folder = || {
        let parent = path.parent()?;
        let folder = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        Some(fs::canonicalize(folder).ok()?.join(path.file_name()?))
    };
    fs::canonicalize(path).ok().or_else(in_folder).unwrap_or_else(|| path.to_path_buf())
}
