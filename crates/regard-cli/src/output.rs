//! Standard output, standard error, and files that appear whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::fault::Fault;
use crate::identity::{Source, place};

/// Writes a result to standard output.
///
/// # Errors
/// The disk is full, or the reader has gone.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// Writes one line of `--json` output.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_json<T: serde::Serialize + ?Sized>(kind: &str, data: &T) -> Result<()> {
    print(&(regard::report::json_line(kind, data)? + "\n"))
}

/// Tells the user something beside the results, on standard error.
pub(crate) fn tell(text: &str) {
    // Where standard error is closed, there is no one to tell.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Checks that no file is to be written twice in one call: the second would take the place of the first.
///
/// # Errors
/// Names the two options and the file.
pub(crate) fn apart(outputs: &[(&str, Option<&PathBuf>)]) -> Result<()> {
    let named: Vec<_> = outputs.iter().filter_map(|(flag, path)| Some((flag, (*path)?))).collect();
    for (n, (flag, path)) in named.iter().enumerate() {
        if let Some((other, _)) = named[..n].iter().find(|(_, other)| place(other) == place(path)) {
            let fault = Fault::new(format!("{other} and {flag} both name {}", path.display()));
            return Err(fault.hint("give each a file of its own").into());
        }
    }
    Ok(())
}

/// Checks that what is written does not take the place of what is read.
///
/// # Errors
/// Names the option and the file.
pub(crate) fn not_input(inputs: &[Source], outputs: &[(&str, Option<&Path>)]) -> Result<()> {
    for (flag, output) in outputs.iter().filter_map(|(flag, path)| Some((flag, (*path)?))) {
        if inputs.iter().any(|input| input.is(output)) {
            let fault = Fault::new(format!("{flag} names the input, {}", output.display()));
            return Err(fault.hint("give the result a file of its own").into());
        }
    }
    Ok(())
}

/// Checks that no result takes the place of a file of the run that it is made with.
///
/// # Errors
/// Names the option and the file.
pub(crate) fn beside_run(run: &Path, outputs: &[(&str, Option<&Path>)]) -> Result<()> {
    let Ok(run) = fs::canonicalize(run) else { return Ok(()) };
    for (flag, output) in outputs.iter().filter_map(|(flag, path)| Some((flag, (*path)?))) {
        let place = place(output);
        let name = place.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let within = place.parent() == Some(run.as_path());
        if within && regard::tasks::run::files::is_one(name) {
            let fault = Fault::new(format!("{flag} names the run's own {name}"));
            return Err(fault.hint("give the result a name of its own").into());
        }
    }
    Ok(())
}

/// Writes a file whole and says so.
///
/// # Errors
/// The file cannot be written; an older one is untouched.
pub(crate) fn save(path: &Path, bytes: &[u8], what: &str) -> Result<()> {
    regard::report::write_atomic(path, bytes)?;
    tell(&format!("wrote {} ({what})", path.display()));
    Ok(())
}

/// Checks that a file can be written, before the work for it is done.
///
/// # Errors
/// The folder is missing or may not be written to; the path is that of a folder.
pub(crate) fn writable(path: &Path) -> Result<()> {
    // A device or a pipe is left alone: opening it may wait for its reader.
    let is_special = fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir());
    if is_special { Ok(()) } else { WholeFile::create(path).map(drop) }
}

/// A file that is written piece by piece under a temporary name beside its place and takes its
/// name only when it is complete. A device or a pipe is written to directly.
pub(crate) struct WholeFile {
    path: PathBuf,
    temporary: Option<PathBuf>,
    writer: BufWriter<File>,
}

impl WholeFile {
    /// Opens the temporary file.
    ///
    /// # Errors
    /// The folder is missing or may not be written to; the path is that of a folder.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let fault = || format!("cannot write {}", path.display());
        if path.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory)).with_context(fault);
        }
        let mut open = OpenOptions::new();
        open.write(true);
        // A link is followed: the file that it points to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let is_special = fs::metadata(&target).is_ok_and(|m| !m.is_file() && !m.is_dir());
        let (temporary, file) = if is_special {
            (None, open.open(&target).with_context(fault)?)
        } else {
            let mut name = OsString::from(".");
            name.push(target.file_name().unwrap_or_default());
            name.push(format!(".{}.tmp", std::process::id()));
            let temporary = target.with_file_name(name);
            let file = open.create(true).truncate(true).open(&temporary).with_context(fault)?;
            (Some(temporary), file)
        };
        Ok(Self { path: target, temporary, writer: BufWriter::new(file) })
    }

    /// Where the content lies until it is complete.
    pub(crate) fn temporary(&self) -> Option<&Path> {
        self.temporary.as_deref()
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// The rest cannot be written, or a folder has the name. Then nothing is left behind.
    pub(crate) fn finish(mut self) -> Result<()> {
        let fault = || format!("cannot write {}", self.path.display());
        self.writer.flush().with_context(fault)?;
        if let Some(temporary) = &self.temporary {
            self.writer.get_ref().sync_all().with_context(fault)?;
            fs::rename(temporary, &self.path).with_context(fault)?;
            self.temporary = None;
        }
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Columns to print on: what the environment says, or 80.
pub(crate) fn terminal_width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.unwrap_or(80)
}
