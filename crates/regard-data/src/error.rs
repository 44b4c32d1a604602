//! What can be wrong with a file, and what to do about it.

use std::io;

use crate::lines::MAX_LINE_BYTES;

/// A file, a setting or a label that cannot be served. `file` is the path, or the name given for a
/// stream; lines count from 1; `text` is the offending line, cut after 80 characters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// There is no such file.
    #[error("{file}: no such file; check the path")]
    NotFound {
        /// The path.
        file: String,
    },
    /// The file cannot be opened or read.
    #[error("{file}: cannot be read; check that it is a file and that you may read it")]
    Read {
        /// The path or name.
        file: String,
        /// What the system says.
        source: io::Error,
    },
    /// The output cannot be written; `source` tells a closed pipe from a full disk.
    #[error("the output cannot be written")]
    Write {
        /// What the system says.
        #[from]
        source: io::Error,
    },
    /// The file begins as a gzip file but cannot be unpacked.
    #[error(
        "{file}: damaged or cut-off gzip file after line {line}; fetch it again and test it with gzip -t"
    )]
    CorruptGzip {
        /// The path or name.
        file: String,
        /// How many whole lines came out of it.
        line: usize,
        /// What the unpacker says.
        source: io::Error,
    },
    /// A line is not UTF-8.
    #[error(
        "{file}, line {line}: not UTF-8 at byte {byte} of the file: {text:?}; convert it first, \
         for example with iconv -f latin1 -t utf-8"
    )]
    NotUtf8 {
        /// The path or name.
        file: String,
        /// The line.
        line: usize,
        /// The offset of the first bad byte from the start of the (unpacked) file.
        byte: u64,
        /// The line, with the bad bytes replaced.
        text: String,
    },
    /// A line is longer than [`MAX_LINE_BYTES`].
    #[error(
        "{file}, line {line}: longer than {MAX_LINE_BYTES} bytes: {text:?}; is it a text file in \
         the expected format?"
    )]
    LongLine {
        /// The path or name.
        file: String,
        /// The line.
        line: usize,
        /// Its beginning.
        text: String,
    },
    /// The file has no bytes.
    #[error("{file}: the file is empty; give one with at least one sentence")]
    EmptyFile {
        /// The path or name.
        file: String,
    },
    /// The file has lines but no word.
    #[error(
        "{file}: no sentence among {lines} lines, only blank lines and comments; is the format right?"
    )]
    NoSentence {
        /// The path or name.
        file: String,
        /// How many lines it has.
        lines: usize,
    },
    /// A line has too few or too many columns.
    #[error("{file}, line {line}: {found} columns, expected {expected}: {text:?}; {remedy}")]
    WrongColumns {
        /// The path or name.
        file: String,
        /// The line.
        line: usize,
        /// The line's text.
        text: String,
        /// How many columns it has.
        found: usize,
        /// How many it should have.
        expected: usize,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A line of a column file has a tab, though the first line with a token has only blanks.
    #[error(
        "{file}, line {line}: a tab, where the first line with a token has blanks: {text:?}; \
         separate all columns alike; if lines that begin with # are comments, set comments=true"
    )]
    MixedSeparators {
        /// The path or name.
        file: String,
        /// The line.
        line: usize,
        /// The line's text.
        text: String,
    },
    /// The chosen token or label column is not in the file, or both are the same column.
    #[error(
        "{file}, line {line}: no {role} in column {column} of {found}: {text:?}; name the columns, \
         counted from 0 or from -1 at the end, as in token=0,label=-1"
    )]
    MissingColumn {
        /// The path or name.
        file: String,
        /// The line.
        line: usize,
        /// The line's text.
        text: String,
        /// `token` or `label`.
        role: &'static str,
        /// The column that was asked for.
        column: i32,
        /// How many columns there are.
        found: usize,
    },
    /// A token or label that must not be empty is.
    #[error("{file}, line {line}: the {role} is empty: {text:?}; fill it in")]
    EmptyCell {
        /// The path or name.
        file: String,
        /// The line.
        line: usize,
        /// The line's text.
        text: String,
        /// `token` or `label`.
        role: &'static str,
    },
    /// The first column of a CoNLL-U line is no id, or not above the id before it.
    #[error(
        "{file}, line {line}: {id:?} is no word id that may follow {after}: {text:?}; ids are \
         rising whole numbers, 1-2 or 3.1, and a blank line ends a sentence"
    )]
    BadId {
        /// The path or name.
        file: String,
        /// The line.
        line: usize,
        /// The line's text.
        text: String,
        /// The first column.
        id: String,
        /// The id before it, 0 at the start of a sentence.
        after: u64,
    },
    /// A part of the FEATS column is not `Name=Value`.
    #[error(
        "{file}, line {line}: {feature:?} is not Name=Value: {text:?}; features are joined by |, \
         and _ stands for none"
    )]
    BadFeature {
        /// The path or name.
        file: String,
        /// The line.
        line: usize,
        /// The line's text.
        text: String,
        /// The offending part.
        feature: String,
    },
    /// No format of this name.
    #[error(
        "unknown format {name:?}{}; one of auto, conllu, columns, text",
        did_you_mean(*.nearest)
    )]
    UnknownFormat {
        /// What was asked for.
        name: String,
        /// The choice most like it.
        nearest: Option<&'static str>,
    },
    /// The file name does not tell the format.
    #[error(
        "{file}: the name does not tell the format; name it (conllu, columns or text), or end the \
         name in .conllu, .conll, .tsv, .bio, .iob2 or .txt, with or without .gz"
    )]
    UnknownEnding {
        /// The path.
        file: String,
    },
    /// No column or setting of this name in this format.
    #[error(
        "unknown column {column:?} for format {format}{}; {choices}",
        did_you_mean(*.nearest)
    )]
    UnknownColumn {
        /// What was asked for.
        column: String,
        /// The format.
        format: &'static str,
        /// The choice most like it.
        nearest: Option<&'static str>,
        /// What may be asked for.
        choices: &'static str,
    },
    /// A column's number, or a switch, has no such value.
    #[error("{key}={value:?} is not {expected}")]
    BadColumnValue {
        /// `token`, `label` or `comments`.
        key: &'static str,
        /// The value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// Files that should stand line by line do not.
    #[error(
        "{first} has {first_lines} lines, but {second} has {second_lines}; line N of one must be \
         the translation of line N of the other"
    )]
    LineCounts {
        /// The file of the sources.
        first: String,
        /// How many lines it has.
        first_lines: usize,
        /// The file of the targets.
        second: String,
        /// How many lines it has.
        second_lines: usize,
    },
    /// Columns of pairs are named in a way that is not understood, or both are the same.
    #[error(
        "columns {text:?}: name two columns of the table as source=N,target=N, counted from 0, or \
         by the names in its first line"
    )]
    BadPairColumns {
        /// What was given.
        text: String,
    },
    /// The first line of a table does not name a column.
    #[error("{file}, line 1: no column {name:?} among {names}; name one of these, or count from 0")]
    NoSuchColumn {
        /// The path or name.
        file: String,
        /// The name that was asked for.
        name: String,
        /// The names in the first line.
        names: String,
    },
    /// No tokeniser can be made, or it refuses a text.
    #[error("the tokeniser: {fault}")]
    Tokeniser {
        /// What is wrong.
        fault: String,
    },
    /// A saved tokeniser cannot be read.
    #[error("{file}: {fault}; {REMAKE}")]
    SavedTokeniser {
        /// The file.
        file: String,
        /// What is wrong.
        fault: String,
    },
    /// There is not one label for each word to write.
    #[error("{found} labels for the {expected} words of the sentence at line {line}")]
    LabelCount {
        /// The first line of the sentence.
        line: usize,
        /// How many labels were given.
        found: usize,
        /// How many words there are.
        expected: usize,
    },
    /// A label that would break the columns of the line that it is written into.
    #[error(
        "the label {label:?} cannot stand in a column at line {line}; it must not be empty nor \
         hold tabs, line ends or, between blanks, blanks"
    )]
    UnwritableLabel {
        /// The line in the user's file.
        line: usize,
        /// The label.
        label: String,
    },
    /// A count in a saved vocabulary is no whole number.
    #[error("{file}, line {line}: {count:?} is no count; {REMAKE}")]
    BadCount {
        /// The name of the vocabulary.
        file: String,
        /// The line.
        line: usize,
        /// The text in the count's place.
        count: String,
    },
    /// A backslash in a saved vocabulary does not begin an escape.
    #[error("{file}, line {line}: a bad escape in {text:?}; {REMAKE}")]
    BadEscape {
        /// The name of the vocabulary.
        file: String,
        /// The line.
        line: usize,
        /// The line's text.
        text: String,
    },
    /// An entry of a saved vocabulary stands there twice.
    #[error("{file}, line {line}: {entry:?} for the second time; {REMAKE}")]
    DuplicateEntry {
        /// The name of the vocabulary.
        file: String,
        /// The line of the second one.
        line: usize,
        /// The entry.
        entry: String,
    },
    /// A saved list of labels is empty.
    #[error("{file}: there is no label; {REMAKE}")]
    NoLabel {
        /// The name of the list.
        file: String,
    },
    /// A saved vocabulary does not begin with the unknown word.
    #[error("{file}, line 1: the first entry is not <unk>; {REMAKE}")]
    MissingUnknown {
        /// The name of the vocabulary.
        file: String,
    },
}

const REMAKE: &str = "the file was changed by hand or is another one; save it again";

fn did_you_mean(nearest: Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |name| format!(", did you mean {name}?"))
}

/// The choice most like `word`, or `None` where none is like it.
pub(crate) fn nearest(word: &str, choices: &[&'static str]) -> Option<&'static str> {
    let word = word.to_lowercase();
    choices
        .iter()
        .rev() // so that the first of several equals wins
        .map(|&choice| (strsim::jaro_winkler(&word, choice), choice))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, choice)| choice)
}

/// The beginning of a line, for a message.
pub(crate) fn clip(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Where a reader stands, to say so in an error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) file: &'a str,
    pub(crate) line: usize,
    pub(crate) text: &'a str,
}

impl Place<'_> {
    pub(crate) fn wrong_columns(
        self,
        found: usize,
        expected: usize,
        remedy: &'static str,
    ) -> DataError {
        DataError::WrongColumns {
            file: self.file.to_owned(),
            line: self.line,
            text: clip(self.text),
            found,
            expected,
            remedy,
        }
    }

    pub(crate) fn mixed_separators(self) -> DataError {
        DataError::MixedSeparators {
            file: self.file.to_owned(),
            line: self.line,
            text: clip(self.text),
        }
    }

    pub(crate) fn missing_column(self, role: &'static str, column: i32, found: usize) -> DataError {
        DataError::MissingColumn {
            file: self.file.to_owned(),
            line: self.line,
            text: clip(self.text),
            role,
            column,
            found,
        }
    }

    pub(crate) fn empty_cell(self, role: &'static str) -> DataError {
        DataError::EmptyCell {
            file: self.file.to_owned(),
            line: self.line,
            text: clip(self.text),
            role,
        }
    }

    pub(crate) fn bad_id(self, id: &str, after: u64) -> DataError {
        DataError::BadId {
            file: self.file.to_owned(),
            line: self.line,
            text: clip(self.text),
            id: id.to_owned(),
            after,
        }
    }

    pub(crate) fn bad_feature(self, feature: &str) -> DataError {
        DataError::BadFeature {
            file: self.file.to_owned(),
            line: self.line,
            text: clip(self.text),
            feature: clip(feature),
        }
    }
}
