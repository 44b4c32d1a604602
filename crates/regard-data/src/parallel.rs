//! Parallel text: line N of one file is a translation of line N of another, or two columns of a
//! table are.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{DataError, Place, clip};
use crate::lines::Lines;
use crate::reader::open_file;

/// A segment in two languages, without the white space around it, but for [`read_translated`]. A side can
/// be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The text to translate.
    pub source: String,
    /// Its translation.
    pub target: String,
    /// The line of the file, counted from 1.
    pub line: usize,
}

/// A column of a table: by number, or by its name in the first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairColumn {
    /// Counted from 0.
    At(usize),
    /// The first line is a header that names it.
    Named(String),
}

/// Which columns of a table of tabs are source and target.
///
/// ```
/// use regard_data::{PairColumn, PairColumns};
///
/// let columns = PairColumns::parse("source=1,target=0")?;
/// assert_eq!(columns.source, PairColumn::At(1));
/// assert_eq!(PairColumns::parse("")?, PairColumns::default());
/// assert!(PairColumns::parse("sauce=1").is_err());
/// # Ok::<(), regard_data::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairColumns {
    /// The column of the source.
    pub source: PairColumn,
    /// The column of the target.
    pub target: PairColumn,
}

impl Default for PairColumns {
    /// The first and the second column.
    fn default() -> Self {
        Self { source: PairColumn::At(0), target: PairColumn::At(1) }
    }
}

impl PairColumns {
    /// From `source=COLUMN,target=COLUMN` in any order and selection; a column is a number from 0,
    /// or a name in the first line. Empty for the default.
    ///
    /// # Errors
    /// [`BadPairColumns`](DataError::BadPairColumns) for another key, a key without a column, or
    /// the same column for both.
    pub fn parse(text: &str) -> Result<Self, DataError> {
        let fault = || DataError::BadPairColumns { text: clip(text) };
        let mut columns = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(fault)?;
            let value = value.trim();
            let column = match value.parse() {
                Ok(at) => PairColumn::At(at),
                Err(_) if value.is_empty() || value.starts_with('-') => return Err(fault()),
                Err(_) => PairColumn::Named(value.to_owned()),
            };
            match key.trim() {
                "source" => columns.source = column,
                "target" => columns.target = column,
                _ => return Err(fault()),
            }
        }
        if columns.source == columns.target {
            return Err(fault());
        }
        Ok(columns)
    }

    fn has_header(&self) -> bool {
        [&self.source, &self.target].into_iter().any(|c| matches!(c, PairColumn::Named(_)))
    }
}

/// The segments of a stream, one a line, without the white space around them.
///
/// The first error ends the iteration. An empty line is an empty segment.
pub struct Segments<R: Read> {
    lines: Lines<R>,
    is_whole: bool,
    is_done: bool,
}

impl<R: Read> Segments<R> {
    /// Reads from `reader`, plain or gzipped; `name` stands for it in errors.
    ///
    /// # Errors
    /// [`Read`](DataError::Read) if the first bytes cannot be read. The iterator gives every error that
    /// names a line.
    pub fn new(reader: R, name: &str) -> Result<Self, DataError> {
        Ok(Self { lines: Lines::new(reader, name)?, is_whole: false, is_done: false })
    }

    /// Leaves the white space around the segments in its place.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.is_whole = true;
        self
    }

    /// The number of the last line that was read; 0 before the first.
    pub fn line(&self) -> usize {
        self.lines.number()
    }
}

impl<R: Read> Iterator for Segments<R> {
    type Item = Result<String, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let line = self.lines.next();
        self.is_done = !matches!(line, Ok(Some(_)));
        let segment = |text: String| if self.is_whole { text } else { text.trim().to_owned() };
        line.map(|line| line.map(|(text, _)| segment(text))).transpose()
    }
}

/// The segments of a file, at least one.
///
/// # Errors
/// The file is missing, empty, not UTF-8 (with the line), or a damaged gzip file.
pub fn read_segments(path: &Path) -> Result<Vec<String>, DataError> {
    let (name, file) = open(path)?;
    all(Segments::new(file, &name)?, name)
}

/// All segments, at least one.
fn all<R: Read>(segments: Segments<R>, file: String) -> Result<Vec<String>, DataError> {
    let segments = segments.collect::<Result<Vec<_>, _>>()?;
    if segments.is_empty() {
        return Err(DataError::EmptyFile { file });
    }
    Ok(segments)
}

/// The pairs of two files that stand line by line, at least one.
///
/// # Errors
/// As [`read_segments`]; [`LineCounts`](DataError::LineCounts) where one file has more lines.
///
/// ```no_run
/// use std::path::Path;
///
/// let pairs = regard_data::read_parallel(Path::new("train.de.gz"), Path::new("train.en.gz"))?;
/// assert_eq!(pairs.len(), 29_000);
/// # Ok::<(), regard_data::DataError>(())
/// ```
pub fn read_parallel(source: &Path, target: &Path) -> Result<Vec<Pair>, DataError> {
    let sources = read_segments(source)?;
    pairs((source, sources), (target, read_segments(target)?))
}

/// As [`read_parallel`], with the targets as they stand in the file: white space around them counts.
///
/// # Errors
/// As there.
pub fn read_translated(source: &Path, target: &Path) -> Result<Vec<Pair>, DataError> {
    let sources = read_segments(source)?;
    let (name, file) = open(target)?;
    pairs((source, sources), (target, all(Segments::new(file, &name)?.whole(), name)?))
}

/// Line by line.
fn pairs(
    (source, sources): (&Path, Vec<String>),
    (target, targets): (&Path, Vec<String>),
) -> Result<Vec<Pair>, DataError> {
    if sources.len() != targets.len() {
        return Err(DataError::LineCounts {
            first: source.display().to_string(),
            first_lines: sources.len(),
            second: target.display().to_string(),
            second_lines: targets.len(),
        });
    }
    let pairs = sources.into_iter().zip(targets).enumerate();
    Ok(pairs.map(|(i, (source, target))| Pair { source, target, line: i + 1 }).collect())
}

/// The pairs of two columns of a table, separated by tabs, at least one. Blank lines are left out.
///
/// # Errors
/// As [`read_segments`]; [`WrongColumns`](DataError::WrongColumns) for a line with too few columns;
/// [`NoSuchColumn`](DataError::NoSuchColumn) for a name that the first line lacks.
pub fn read_pair_table(path: &Path, columns: &PairColumns) -> Result<Vec<Pair>, DataError> {
    let (name, file) = open(path)?;
    read_pair_stream(file, &name, columns)
}

fn read_pair_stream(
    reader: impl Read,
    name: &str,
    columns: &PairColumns,
) -> Result<Vec<Pair>, DataError> {
    let mut lines = Lines::new(reader, name)?;
    let mut header: Option<Vec<String>> = None;
    let mut at: Option<(usize, usize)> = None;
    let mut pairs = Vec::new();
    while let Some((text, _)) = lines.next()? {
        if text.trim().is_empty() {
            continue;
        }
        if columns.has_header() && header.is_none() {
            header = Some(text.split('\t').map(|name| name.trim().to_owned()).collect());
            continue;
        }
        let names = header.as_deref().unwrap_or_default();
        let (source, target) = match at {
            Some(at) => at,
            None => *at.insert((
                position(&columns.source, names, name)?,
                position(&columns.target, names, name)?,
            )),
        };
        let cells: Vec<&str> = text.split('\t').collect();
        let (Some(from), Some(to)) = (cells.get(source), cells.get(target)) else {
            let place = Place { file: name, line: lines.number(), text: &text };
            return Err(place.wrong_columns(
                cells.len(),
                1 + source.max(target),
                "a table of pairs has tabs between its columns; name them with --columns \
                 source=N,target=N, counted from 0",
            ));
        };
        pairs.push(Pair {
            source: from.trim().to_owned(),
            target: to.trim().to_owned(),
            line: lines.number(),
        });
    }
    if pairs.is_empty() {
        return Err(DataError::EmptyFile { file: name.to_owned() });
    }
    Ok(pairs)
}

fn position(column: &PairColumn, header: &[String], file: &str) -> Result<usize, DataError> {
    match column {
        PairColumn::At(at) => Ok(*at),
        PairColumn::Named(name) => {
            header.iter().position(|n| n == name).ok_or_else(|| DataError::NoSuchColumn {
                file: file.to_owned(),
                name: clip(name),
                names: clip(&header.join(", ")),
            })
        }
    }
}

fn open(path: &Path) -> Result<(String, File), DataError> {
    Ok((path.display().to_string(), open_file(path)?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn table(text: &str, columns: &str) -> Result<Vec<(String, String, usize)>, DataError> {
        let pairs = read_pair_stream(text.as_bytes(), "t", &PairColumns::parse(columns)?)?;
        Ok(pairs.into_iter().map(|p| (p.source, p.target, p.line)).collect())
    }

    fn own(pairs: &[(&str, &str, usize)]) -> Vec<(String, String, usize)> {
        pairs.iter().map(|(s, t, line)| ((*s).into(), (*t).into(), *line)).collect()
    }

    #[test]
    fn two_files_stand_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a.de"), "\u{feff}ein Hund \r\n\nzwei\n").unwrap();
        fs::write(path("a.en"), "a dog\nnothing\n two").unwrap();
        let pairs = read_parallel(&path("a.de"), &path("a.en")).unwrap();
        let pairs: Vec<_> = pairs.into_iter().map(|p| (p.source, p.target, p.line)).collect();
        assert_eq!(pairs, own(&[("ein Hund", "a dog", 1), ("", "nothing", 2), ("zwei", "two", 3)]));

        fs::write(path("b.en"), "a dog\n").unwrap();
        let error = read_parallel(&path("a.de"), &path("b.en")).unwrap_err().to_string();
        assert!(error.contains("a.de has 3 lines, ") && error.contains("b.en has 1;"), "{error}");
        fs::write(path("empty"), "").unwrap();
        let error = read_parallel(&path("empty"), &path("b.en")).unwrap_err().to_string();
        assert!(error.contains("empty: the file is empty"), "{error}");
        fs::write(path("latin"), b"gut\nf\xfcr\n").unwrap();
        let error = read_parallel(&path("latin"), &path("b.en")).unwrap_err().to_string();
        assert!(error.contains("latin, line 2: not UTF-8 at byte 5"), "{error}");
    }

    #[test]
    fn translations_keep_the_white_space_around_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a.de"), " ein Hund \nzwei\n").unwrap();
        fs::write(path("a.en"), " a dog  \r\n \n").unwrap();
        let pairs = read_translated(&path("a.de"), &path("a.en")).unwrap();
        let pairs: Vec<_> = pairs.into_iter().map(|p| (p.source, p.target, p.line)).collect();
        assert_eq!(pairs, own(&[("ein Hund", " a dog  ", 1), ("zwei", " ", 2)]));
        fs::write(path("b.en"), " a dog\n").unwrap();
        let error = read_translated(&path("a.de"), &path("b.en")).unwrap_err().to_string();
        assert!(error.contains("a.de has 2 lines, ") && error.contains("b.en has 1;"), "{error}");
    }

    #[test]
    fn columns_by_number_and_by_name() {
        let text = "Hi.\t嗨。\tCC-BY\n\nRun!\t你跑！\tCC-BY\n";
        assert_eq!(
            table(text, "source=1,target=0").unwrap(),
            own(&[("嗨。", "Hi.", 1), ("你跑！", "Run!", 3)])
        );
        let named = "id\ten\tzh\n1\tHi.\t嗨。\n";
        assert_eq!(table(named, "target=en, source=zh").unwrap(), own(&[("嗨。", "Hi.", 2)]));
        assert_eq!(table(named, "source=1,target=zh").unwrap(), own(&[("Hi.", "嗨。", 2)]));
    }

    #[test]
    fn broken_tables_are_named() {
        for (text, columns, message) in [
            ("a\tb\nc\n", "", "t, line 2: 1 columns, expected 2: \"c\";"),
            ("a\tb\n", "target=5", "t, line 1: 2 columns, expected 6"),
            ("en\tzh\na\tb\n", "source=en,target=de", "no column \"de\" among en, zh"),
            ("", "", "t: the file is empty"),
            ("en\tzh\n", "source=en,target=zh", "t: the file is empty"),
            ("a\tb\n", "source=1", "source=1"),
            ("a\tb\n", "source=-1", "source=-1"),
            ("a\tb\n", "quelle=0", "quelle=0"),
        ] {
            let error = table(text, columns).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
