//! `metrics.jsonl`: the records of a run, one JSON object a line, that outlives a killed process.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::{MetricsRecord, ReportError, write_atomic};

/// The growing file of a run's records.
///
/// Each record is written as one whole line at once. A process that is killed while it writes may
/// leave a torn last line; reading skips it and resuming cuts it off. Any other line that is no
/// record is an error: nothing is skipped in silence.
///
/// ```
/// use regard_report::{EvalRecord, MetricsLog, read_metrics};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("metrics.jsonl");
/// let record = |step| EvalRecord {
///     step,
///     epoch: 1,
///     split: "dev".into(),
///     metrics: [("accuracy".to_string(), 0.5)].into(),
///     elapsed_s: 2.0,
/// };
/// let mut log = MetricsLog::create(&path)?;
/// for step in [10, 20, 30] {
///     log.append(&record(step).into())?;
/// }
/// drop(log);
///
/// // A checkpoint of step 20 is resumed: what came after it is done again.
/// let (mut log, kept) = MetricsLog::resume(&path, |record| record.step() <= 20)?;
/// assert_eq!(kept.len(), 2);
/// log.append(&record(25).into())?;
/// let steps: Vec<u64> = read_metrics(&path)?.iter().map(|r| r.step()).collect();
/// assert_eq!(steps, [10, 20, 25]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MetricsLog {
    path: PathBuf,
    file: File,
}

impl MetricsLog {
    /// Starts an empty log at `path`; a file that is there is emptied.
    ///
    /// # Errors
    ///
    /// [`ReportError::Io`] when the file cannot be made.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, ReportError> {
        let path = path.as_ref();
        write_atomic(path, b"")?;
        Self::open_to_append(path)
    }

    /// Goes on with the log at `path`: the records that are not to `keep`, such as those of steps that
    /// are done again, and a torn last line are cut off. Gives the records that stay. A file that is not there counts
    /// as empty, since a run may be killed before its first record.
    ///
    /// # Errors
    ///
    /// [`ReportError::Line`] when a line is no record, [`ReportError::Io`] when the file cannot be
    /// read or written.
    pub fn resume(
        path: impl AsRef<Path>,
        keep: impl Fn(&MetricsRecord) -> bool,
    ) -> Result<(Self, Vec<MetricsRecord>), ReportError> {
        let path = path.as_ref();
        let mut records = match read_metrics(path) {
            Err(ReportError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                Vec::new()
            }
            read => read?,
        };
        records.retain(keep);
        let mut text = String::new();
        for record in &records {
            text.push_str(&line(record)?);
        }
        write_atomic(path, text.as_bytes())?;
        Ok((Self::open_to_append(path)?, records))
    }

    /// Adds one record as one line.
    ///
    /// # Errors
    ///
    /// [`ReportError::Io`] when the line cannot be written, for instance on a full disk.
    pub fn append(&mut self, record: &MetricsRecord) -> Result<(), ReportError> {
        self.file.write_all(line(record)?.as_bytes()).map_err(ReportError::io("write", &self.path))
    }

    /// Forces what was appended to the disk. Worth its time before a checkpoint, not after each
    /// record: a killed process loses nothing without it, only a power cut does.
    ///
    /// # Errors
    ///
    /// [`ReportError::Io`] when the system reports a fault.
    pub fn sync(&self) -> Result<(), ReportError> {
        self.file.sync_all().map_err(ReportError::io("write", &self.path))
    }

    fn open_to_append(path: &Path) -> Result<Self, ReportError> {
        let file =
            OpenOptions::new().append(true).open(path).map_err(ReportError::io("write", path))?;
        Ok(Self { path: path.to_path_buf(), file })
    }
}

/// All records of the log at `path`, in the order of the file.
///
/// A last line without its line end is taken when it is a whole record and otherwise left out: it
/// was torn by the death of its writer. Blank lines are allowed.
///
/// # Errors
///
/// [`ReportError::Io`] when the file cannot be read, [`ReportError::Line`] with the line number
/// and text when any other line is no record.
pub fn read_metrics(path: impl AsRef<Path>) -> Result<Vec<MetricsRecord>, ReportError> {
    let path = path.as_ref();
    // Bytes and not text, since a line can be torn inside a character.
    let bytes = fs::read(path).map_err(ReportError::io("read", path))?;
    let mut records = Vec::new();
    for (index, raw) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if raw.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice(raw) {
            Ok(record) => records.push(record),
            // Only the last line can lack its end.
            Err(_) if !raw.ends_with(b"\n") => {}
            Err(source) => {
                return Err(ReportError::Line {
                    path: path.to_path_buf(),
                    line: index + 1,
                    text: beginning(raw),
                    source,
                });
            }
        }
    }
    Ok(records)
}

fn line(record: &MetricsRecord) -> Result<String, ReportError> {
    let mut line = serde_json::to_string(record)
        .map_err(|source| ReportError::Json { what: "a metrics record".into(), source })?;
    line.push('\n');
    Ok(line)
}

/// The start of an offending line, short enough for an error message.
fn beginning(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let text = text.trim_end();
    let mut shown: String = text.chars().take(80).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EvalRecord, StepRecord};

    fn step(step: u64, loss: f64) -> MetricsRecord {
        StepRecord {
            step,
            epoch: 1,
            tokens: step * 100,
            loss,
            lr: 0.001,
            grad_norm: 1.0 / 3.0,
            tokens_per_s: 4321.5,
            elapsed_s: 0.1 * step as f64,
        }
        .into()
    }

    fn eval(step: u64) -> MetricsRecord {
        EvalRecord {
            step,
            epoch: 1,
            split: "dév".into(),
            metrics: [("accuracy".into(), 2.0 / 3.0)].into(),
            elapsed_s: 1.5,
        }
        .into()
    }

    #[test]
    fn every_cut_of_the_file_resumes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let records = [step(1, 2.5), eval(1), step(2, 0.1 + 0.2)];
        let mut log = MetricsLog::create(&path).unwrap();
        for record in &records {
            log.append(record).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        let ends: Vec<usize> = (0..whole.len()).filter(|i| whole[*i] == b'\n').collect();
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            // A line counts once its closing brace is there, with or without the line end.
            let expected = ends.iter().filter(|end| **end <= cut).count();
            let (mut log, kept) = MetricsLog::resume(&path, |_| true).unwrap();
            assert_eq!(kept, records[..expected], "cut at byte {cut}");
            log.append(&step(9, 1.0)).unwrap();
            let mut after = records[..expected].to_vec();
            after.push(step(9, 1.0));
            assert_eq!(read_metrics(&path).unwrap(), after, "cut at byte {cut}");
        }
    }

    #[test]
    fn later_steps_are_cut_and_a_missing_file_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let (mut log, kept) = MetricsLog::resume(&path, |record| record.step() <= 5).unwrap();
        assert!(kept.is_empty());
        for record in [step(1, 1.0), step(2, 1.0), eval(2), step(3, 1.0)] {
            log.append(&record).unwrap();
        }
        log.sync().unwrap();
        let (_, kept) = MetricsLog::resume(&path, |record| record.step() <= 2).unwrap();
        assert_eq!(kept, [step(1, 1.0), step(2, 1.0), eval(2)]);
        assert_eq!(read_metrics(&path).unwrap(), kept);
    }

    #[test]
    fn a_broken_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let good = line(&step(1, 1.0)).unwrap();
        for bad in ["{\"type\":\"step\"}", "{\"type\":\"other\",\"data\":{}}", "\u{0}\u{0}"] {
            fs::write(&path, format!("{good}\n{bad}\n{good}")).unwrap();
            let error = read_metrics(&path).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("metrics.jsonl:3: "), "{text}");
            assert!(text.contains(bad), "{text}");
        }
        fs::write(&path, [b'\xff', b'\n']).unwrap();
        assert!(read_metrics(&path).is_err());
        assert!(matches!(read_metrics(folder.path().join("none")), Err(ReportError::Io { .. })));
    }

    #[test]
    fn numbers_survive_and_what_is_not_finite_becomes_nan() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut log = MetricsLog::create(&path).unwrap();
        let values = [0.1 + 0.2, 1e-310, f64::MAX, 5e-324, -0.0, 1.0 / 3.0];
        for value in values {
            log.append(&step(1, value)).unwrap();
        }
        log.append(&step(2, f64::INFINITY)).unwrap();
        let read = read_metrics(&path).unwrap();
        for (record, value) in read.iter().zip(values) {
            let MetricsRecord::Step(record) = record else {
                panic!("a step was written");
            };
            assert_eq!(record.loss.to_bits(), value.to_bits());
        }
        let Some(MetricsRecord::Step(last)) = read.last() else {
            panic!("a step was written");
        };
        assert!(last.loss.is_nan());
    }
}
