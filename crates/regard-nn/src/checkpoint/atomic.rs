//! Files that are there whole, the old or the new one, at every moment.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::NnError;

/// Writes bytes to `path` so that at every moment the old or the new contents are there whole.
///
/// A link stays one: the file it leads to is written. A device or a pipe is written to, not replaced.
///
/// # Errors
/// As the system says; the temporary file is removed and what was at `path` stays.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), NnError> {
    let failed = |source| NnError::Io { action: "write", path: path.into(), source };
    let kind = fs::metadata(path).map(|of| of.file_type());
    if kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir()) {
        let device = fs::OpenOptions::new().write(true).open(path);
        return device.and_then(|mut device| device.write_all(bytes)).map_err(failed);
    }
    let is_link = fs::symlink_metadata(path).is_ok_and(|of| of.is_symlink());
    let target = if is_link { fs::canonicalize(path).ok() } else { None };
    let path = target.as_deref().unwrap_or(path);
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = write_synced(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if let Err(source) = written {
        let _ = fs::remove_file(&temporary);
        return Err(failed(source));
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_is_followed_and_a_device_is_not_replaced() {
        let folder = std::env::temp_dir().join(format!("regard-atomic-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, link, full) = (folder.join("file"), folder.join("link"), folder.join("full"));
        fs::write(&file, "old").unwrap();
        symlink(&file, &link).unwrap();
        write_atomic(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");

        if Path::new("/dev/full").exists() {
            symlink("/dev/full", &full).unwrap();
            let error = write_atomic(&full, b"new").unwrap_err().to_string();
            assert!(error.contains("full"), "{error}");
            assert!(fs::symlink_metadata(&full).unwrap().is_symlink());
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
