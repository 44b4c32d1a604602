//! Sentence after sentence from a stream, whatever the format.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::columns::ColumnRows;
use crate::conllu::ConllURows;
use crate::error::{DataError, Place};
use crate::lines::Lines;
use crate::sentence::{Line, LineKind, Row, Sentence, Separator};
use crate::{Format, text};

/// The sentences of a stream, one at a time: memory holds one sentence, and each is given as
/// soon as the blank line after it is read.
///
/// The first error ends the iteration. A stream without a sentence is an error.
pub struct Sentences<R: Read> {
    lines: Lines<R>,
    format: Format,
    rows: Rows,
    wants_labels: bool,
    n_read: usize,
    is_done: bool,
    tail: Vec<Line>,
}

/// What a format's reader remembers from line to line.
enum Rows {
    ConllU(ConllURows),
    Columns(ColumnRows),
    Text,
}

impl<R: Read> Sentences<R> {
    /// Reads from `reader`, plain or gzipped; `name` stands for it in errors.
    ///
    /// The reader is buffered here. Its first two bytes are read at once, to know gzip.
    ///
    /// # Errors
    /// [`Read`](DataError::Read) if the first bytes cannot be read. The iterator itself gives every error
    /// that names a line, and [`EmptyFile`](DataError::EmptyFile),
    /// [`NoSentence`](DataError::NoSentence) and [`CorruptGzip`](DataError::CorruptGzip).
    pub fn new(reader: R, name: &str, format: &Format) -> Result<Self, DataError> {
        let rows = match format {
            Format::ConllU { .. } => Rows::ConllU(ConllURows::default()),
            Format::Columns { .. } => Rows::Columns(ColumnRows::default()),
            Format::Text => Rows::Text,
        };
        Ok(Self {
            lines: Lines::new(reader, name)?,
            format: format.clone(),
            rows,
            wants_labels: format.has_labels(),
            n_read: 0,
            is_done: false,
            tail: Vec::new(),
        })
    }

    /// Leaves the labels alone, for files to be labelled: they may be missing, be empty, or have no
    /// column yet, and [`Sentence::labels`] is empty.
    #[must_use]
    pub fn unlabelled(mut self) -> Self {
        self.wants_labels = false;
        self
    }

    /// The lines after the last sentence and the blank line that ends it: more blank lines, or comments
    /// without a sentence. Complete once the iteration has ended; mostly empty.
    pub fn tail(&self) -> &[Line] {
        &self.tail
    }

    fn read_sentence(&mut self) -> Result<Option<Sentence>, DataError> {
        let mut sentence = Sentence { first_line: self.lines.number() + 1, ..Sentence::default() };
        loop {
            let Some((text, end)) = self.lines.next()? else {
                return self.finish(sentence);
            };
            let place = Place { file: self.lines.file(), line: self.lines.number(), text: &text };
            let row = match (&mut self.rows, &self.format) {
                (Rows::ConllU(rows), Format::ConllU { label }) => {
                    rows.read(place, label, self.wants_labels)?
                }
                (Rows::Columns(rows), Format::Columns { token, label, comments }) => {
                    rows.read(place, *token, *label, *comments, self.wants_labels)?
                }
                _ => text::read(&text),
            };
            let mut kind = LineKind::Other;
            let mut is_end = false;
            match row {
                Row::Word { word, label, separator } => {
                    sentence.words.push(word);
                    sentence.labels.extend(label);
                    kind = LineKind::Word(separator);
                }
                Row::Whole(words) => {
                    sentence.words = words;
                    kind = LineKind::Word(Separator::Blanks);
                    is_end = true;
                }
                Row::Other => {}
                Row::Blank => is_end = !sentence.words.is_empty(),
            }
            sentence.lines.push(Line { text, end, kind });
            if is_end {
                return Ok(Some(sentence));
            }
        }
    }

    /// At the end of the stream, with the lines since the last sentence.
    fn finish(&mut self, sentence: Sentence) -> Result<Option<Sentence>, DataError> {
        if !sentence.words.is_empty() {
            return Ok(Some(sentence));
        }
        self.tail = sentence.lines;
        let file = self.lines.file().to_owned();
        match (self.n_read, self.lines.number()) {
            (0, 0) => Err(DataError::EmptyFile { file }),
            (0, lines) => Err(DataError::NoSentence { file, lines }),
            _ => Ok(None),
        }
    }
}

impl Sentences<File> {
    /// Opens a file.
    ///
    /// # Errors
    /// [`NotFound`](DataError::NotFound), or [`Read`](DataError::Read) if it cannot be opened; then as
    /// [`new`](Self::new).
    pub fn open(path: &Path, format: &Format) -> Result<Self, DataError> {
        Self::new(open_file(path)?, &path.display().to_string(), format)
    }
}

/// Opens a file to read.
///
/// # Errors
/// [`NotFound`](DataError::NotFound) and [`Read`](DataError::Read), which name it.
pub fn open_file(path: &Path) -> Result<File, DataError> {
    File::open(path).map_err(|source| {
        let file = path.display().to_string();
        match source.kind() {
            io::ErrorKind::NotFound => DataError::NotFound { file },
            _ => DataError::Read { file, source },
        }
    })
}

impl<R: Read> Iterator for Sentences<R> {
    type Item = Result<Sentence, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let item = self.read_sentence().transpose();
        match item {
            Some(Ok(_)) => self.n_read += 1,
            _ => self.is_done = true,
        }
        item
    }
}

/// All sentences of a file, at least one, with labels where the format has them. Lines after the last
/// sentence are added to it.
///
/// # Errors
/// As [`Sentences::open`] and [`Sentences::new`].
///
/// ```no_run
/// use std::path::Path;
/// use regard_data::{Format, read_path};
///
/// let path = Path::new("en_ewt-ud-dev.conllu.gz");
/// let sentences = read_path(path, &Format::parse("auto", "upos", path)?)?;
/// assert_eq!(sentences.len(), 2001);
/// # Ok::<(), regard_data::DataError>(())
/// ```
pub fn read_path(path: &Path, format: &Format) -> Result<Vec<Sentence>, DataError> {
    let mut reader = Sentences::open(path, format)?;
    let mut sentences = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    if let Some(last) = sentences.last_mut() {
        last.lines.append(&mut reader.tail);
    }
    Ok(sentences)
}
