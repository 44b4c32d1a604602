//! Files that appear whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ReportError;

/// Writes `bytes` to `path` so that the file holds either its old content or all of the new.
///
/// The bytes go to a temporary file in the same folder (`.NAME.PID-N.tmp`), are forced to the
/// disk, and the file is renamed. A link is followed: the file it points to is replaced. What is
/// not a plain file (`/dev/null`, a pipe) is written to directly, since a rename would replace
/// the device itself.
///
/// # Errors
///
/// [`ReportError::Io`] with the path when the folder is missing, the disk is full, or the name is
/// that of a folder. The old file is then untouched and the temporary one removed.
pub fn write_atomic(path: impl AsRef<Path>, bytes: &[u8]) -> Result<(), ReportError> {
    let path = path.as_ref();
    replace(path, bytes).map_err(ReportError::io("write", path))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Fails for a file that is not there yet, which then is its own target.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if let Ok(kind) = fs::metadata(&target)
        && !kind.is_file()
        && !kind.is_dir()
    {
        return OpenOptions::new().write(true).open(&target)?.write_all(bytes);
    }
    let temporary = temporary_sibling(&target)?;
    let written = write_and_rename(&temporary, &target, bytes);
    if written.is_err() {
        // The first fault is the one to tell; the leftover may not even exist.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_and_rename(temporary: &Path, target: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(temporary)?;
    file.write_all(bytes)?;
    // The rename must not reach the disk before the content does.
    file.sync_all()?;
    drop(file);
    fs::rename(temporary, target)?;
    sync_folder(target)
}

/// A name beside `target` that no other thread or process uses now.
fn temporary_sibling(target: &Path) -> io::Result<PathBuf> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let name = target
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let mut sibling = OsString::from(".");
    sibling.push(name);
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    sibling.push(format!(".{}-{n}.tmp", std::process::id()));
    Ok(target.with_file_name(sibling))
}

/// Makes the rename itself lasting, where the system lets a folder be opened as a file.
fn sync_folder(target: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let folder = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn replaces_whole_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write_atomic(&path, b"a longer first content").unwrap();
        write_atomic(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(folder.path()), ["a.txt"]);
    }

    #[test]
    fn a_fault_names_the_path_and_cleans_up() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none").join("a.txt");
        let error = write_atomic(&missing, b"x").unwrap_err();
        assert!(error.to_string().contains("a.txt"), "{error}");

        let taken = folder.path().join("folder");
        fs::create_dir(&taken).unwrap();
        assert!(write_atomic(&taken, b"x").is_err());
        assert_eq!(names(folder.path()), ["folder"]);
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_written_to_and_links_followed() {
        use std::os::unix::fs::{FileTypeExt, symlink};

        write_atomic("/dev/null", b"x").unwrap();
        let kind = fs::metadata("/dev/null").unwrap().file_type();
        assert!(kind.is_char_device());

        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::write(&target, b"old").unwrap();
        let link = folder.path().join("link");
        symlink(&target, &link).unwrap();
        write_atomic(&link, b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error() {
        assert!(write_atomic("/dev/full", b"x").is_err());
    }

    #[test]
    fn many_threads_may_write_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::thread::scope(|scope| {
            for letter in [b'a', b'b', b'c', b'd'] {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..5 {
                        write_atomic(path, &[letter; 1000]).unwrap();
                    }
                });
            }
        });
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 1000);
        assert!(bytes.iter().all(|byte| *byte == bytes[0]));
        assert_eq!(names(folder.path()), ["a"]);
    }
}
