//! Files that are there whole, the old or the new one, at every moment.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::NnError;

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
