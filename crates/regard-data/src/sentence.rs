//! What every reader gives: the words and labels of one sentence, and the user's own lines.

/// One sentence of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sentence {
    /// The words, at least one, none of them empty.
    pub words: Vec<String>,
    /// One label a word; empty where the format has no label or none was asked for.
    pub labels: Vec<String>,
    /// Every line from the end of the sentence before to the end of this one (blank lines
    /// and comments too), so that the file can be given back as it was.
    pub lines: Vec<Line>,
    /// The number in the file, from 1, of the first of `lines`; line `lines[i]` is number
    /// `first_line + i`.
    pub first_line: usize,
}

/// One line as the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The line without its end.
    pub text: String,
    /// How it ended.
    pub end: LineEnd,
    /// What the reader took it for.
    pub kind: LineKind,
}

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnd {
    /// A line feed.
    Lf,
    /// A carriage return and a line feed.
    CrLf,
    /// The file ends without a line end.
    Missing,
}

impl LineEnd {
    /// The characters: `"\n"`, `"\r\n"` or none.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::Missing => "",
        }
    }
}

/// What a line is to its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// It holds a word (in plain text: all words of a sentence).
    Word(Separator),
    /// A blank line, a comment, or a row that is not a word of the sentence.
    Other,
}

/// What stands between the columns of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Separator {
    /// One tab; cells may be empty and may hold blanks.
    Tab,
    /// Any number of blanks.
    Blanks,
}

/// What one line of a file is, as its format's reader sees it.
pub(crate) enum Row {
    /// One word, with its label where one is wanted.
    Word { word: String, label: Option<String>, separator: Separator },
    /// A whole sentence without labels.
    Whole(Vec<String>),
    /// A line that is no word: a comment, for one.
    Other,
    /// The end of a sentence, if one has begun.
    Blank,
}

/// Whether there is nothing but blanks, in ASCII's sense: other spaces may be tokens.
pub(crate) fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_whitespace())
}
