//! Which format a file is in, and which of its columns count.

use std::path::Path;

use crate::conllu::ConllUColumn;
use crate::error::{DataError, nearest};

/// A file format with the columns to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// CoNLL-U: ten columns, the token is FORM.
    ConllU {
        /// The column, or the feature, that is the label.
        label: ConllUColumn,
    },
    /// One token a line, with other columns beside it.
    Columns {
        /// The token's column, from 0, or from -1 at the end.
        token: i32,
        /// The label's column, counted likewise. `None`: no label is read, and one is
        /// written behind the last column.
        label: Option<i32>,
        /// Whether a line that begins with `#` is a comment. Off for tweets, whose tokens
        /// do so.
        comments: bool,
    },
    /// One sentence a line, words between white space, no labels.
    Text,
}

const NAMES: [&str; 4] = ["auto", "conllu", "columns", "text"];
const COLUMN_KEYS: [&str; 3] = ["token", "label", "comments"];

impl Format {
    /// A format from its settings.
    ///
    /// `name`: `conllu`, `columns`, `text`, or `auto` (also empty), which goes by the ending of `path`
    /// (a `.gz` behind it does not count): `.conllu` → conllu; `.conll`, `.tsv`, `.bio`, `.iob2`
    /// → columns; `.txt` → text.
    ///
    /// `column`, where empty, is the default of the format:
    ///
    /// | format | column | default |
    /// |---|---|---|
    /// | conllu | `lemma`, `upos`, `xpos`, `feats`, `head`, `deprel`, `deps`, `misc` or `feats:NAME` | `upos` |
    /// | columns | any of `token=N`, `label=N` or `label=none`, `comments=true` or `false`, joined by commas | `token=0,label=-1,comments=false`; for `.iob2` `token=1,label=2,comments=true` |
    /// | text | nothing | |
    ///
    /// # Errors
    /// [`UnknownFormat`](DataError::UnknownFormat), [`UnknownEnding`](DataError::UnknownEnding),
    /// [`UnknownColumn`](DataError::UnknownColumn) or
    /// [`BadColumnValue`](DataError::BadColumnValue).
    ///
    /// ```
    /// use std::path::Path;
    /// use regard_data::{ConllUColumn, Format};
    ///
    /// let file = Path::new("da-train.iob2.gz");
    /// let format = Format::parse("auto", "", file)?;
    /// assert_eq!(format, Format::Columns { token: 1, label: Some(2), comments: true });
    ///
    /// let format = Format::parse("conllu", "feats:Number", Path::new("-"))?;
    /// assert_eq!(format, Format::ConllU { label: ConllUColumn::Feature("Number".into()) });
    ///
    /// let error = Format::parse("conlu", "", file).unwrap_err();
    /// assert!(error.to_string().contains("did you mean conllu?"));
    /// # Ok::<(), regard_data::DataError>(())
    /// ```
    pub fn parse(name: &str, column: &str, path: &Path) -> Result<Self, DataError> {
        let column = column.trim();
        let ending = ending(path);
        let name = match name {
            "" | "auto" => match ending.as_str() {
                "conllu" => "conllu",
                "conll" | "tsv" | "bio" | "iob2" => "columns",
                "txt" => "text",
                _ => return Err(DataError::UnknownEnding { file: path.display().to_string() }),
            },
            name => name,
        };
        match name {
            "conllu" => Ok(Self::ConllU { label: ConllUColumn::parse(column)? }),
            "columns" => parse_columns(column, ending == "iob2"),
            "text" if column.is_empty() => Ok(Self::Text),
            "text" => Err(DataError::UnknownColumn {
                column: column.to_owned(),
                format: "text",
                nearest: None,
                choices: "plain text has no columns",
            }),
            _ => Err(DataError::UnknownFormat {
                name: name.to_owned(),
                nearest: nearest(name, &NAMES),
            }),
        }
    }

    /// As [`parse`](Self::parse), for a file that is to be read: where its ending does not tell the format, and there is no
    /// such file, it says so.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse); [`NotFound`](DataError::NotFound).
    pub fn of_file(name: &str, column: &str, path: &Path) -> Result<Self, DataError> {
        match Self::parse(name, column, path) {
            Err(DataError::UnknownEnding { file }) if !path.exists() => {
                Err(DataError::NotFound { file })
            }
            format => format,
        }
    }

    /// The name for [`parse`](Self::parse): `conllu`, `columns` or `text`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ConllU { .. } => "conllu",
            Self::Columns { .. } => "columns",
            Self::Text => "text",
        }
    }

    /// All that [`parse`](Self::parse) needs as `column` to give this format again, whatever the path.
    pub fn column(&self) -> String {
        match self {
            Self::ConllU { label } => label.to_string(),
            Self::Columns { token, label, comments } => {
                let label = label.map_or_else(|| "none".to_owned(), |column| column.to_string());
                format!("token={token},label={label},comments={comments}")
            }
            Self::Text => String::new(),
        }
    }

    /// Whether files of this format hold labels.
    pub fn has_labels(&self) -> bool {
        match self {
            Self::ConllU { .. } => true,
            Self::Columns { label, .. } => label.is_some(),
            Self::Text => false,
        }
    }
}

/// The ending of the file name in small letters, `.gz` aside.
fn ending(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.rsplit_once('.').map_or_else(String::new, |(_, ending)| ending.to_owned())
}

fn parse_columns(settings: &str, is_iob2: bool) -> Result<Format, DataError> {
    let (mut token, mut label, mut comments) =
        if is_iob2 { (1, Some(2), true) } else { (0, Some(-1), false) };
    for setting in settings.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        let (key, value) = (key.trim(), value.trim());
        match key {
            "token" => token = column_number("token", value)?,
            "label" if value == "none" => label = None,
            "label" => label = Some(column_number("label", value)?),
            "comments" => {
                comments = value.parse().map_err(|_| DataError::BadColumnValue {
                    key: "comments",
                    value: value.to_owned(),
                    expected: "true or false",
                })?;
            }
            _ => {
                return Err(DataError::UnknownColumn {
                    column: key.to_owned(),
                    format: "columns",
                    nearest: nearest(key, &COLUMN_KEYS),
                    choices: "settings are token=N, label=N or label=none, comments=true or \
                              comments=false, joined by commas",
                });
            }
        }
    }
    Ok(Format::Columns { token, label, comments })
}

fn column_number(key: &'static str, value: &str) -> Result<i32, DataError> {
    value.parse().map_err(|_| DataError::BadColumnValue {
        key,
        value: value.to_owned(),
        expected: "a column number, from 0, or from -1 at the end",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, column: &str, path: &str) -> Result<Format, DataError> {
        Format::parse(name, column, Path::new(path))
    }

    #[test]
    fn endings_tell_the_format() {
        let upos = Format::ConllU { label: ConllUColumn::Upos };
        let pairs = Format::Columns { token: 0, label: Some(-1), comments: false };
        let iob2 = Format::Columns { token: 1, label: Some(2), comments: true };
        for (path, format) in [
            ("a/en.conllu", &upos),
            ("en.CONLLU.GZ", &upos),
            ("a.conll", &pairs),
            ("a.tsv.gz", &pairs),
            ("a.bio", &pairs),
            ("b.iob2", &iob2),
            ("c.txt.gz", &Format::Text),
        ] {
            assert_eq!(parse("auto", "", path).unwrap(), *format, "{path}");
            assert_eq!(parse("", "", path).unwrap(), *format, "{path}");
        }
        for path in ["-", "", "a.gz", "conllu", "a.doc", "/", ".."] {
            let error = parse("auto", "", path).unwrap_err();
            assert!(matches!(error, DataError::UnknownEnding { .. }), "{path}: {error:?}");
        }
        let of_file = |path: &Path| Format::of_file("auto", "", path).unwrap_err();
        assert!(matches!(of_file(Path::new("no/such.doc")), DataError::NotFound { .. }));
        for path in ["..", "/"] {
            assert!(matches!(of_file(Path::new(path)), DataError::UnknownEnding { .. }));
        }
    }

    #[test]
    fn settings_override_defaults_and_come_back() {
        let format = parse("auto", "label=-1", "b.iob2").unwrap();
        assert_eq!(format, Format::Columns { token: 1, label: Some(-1), comments: true });
        let format = parse("columns", " token = 2, label=none, comments=true ", "-").unwrap();
        assert_eq!(format, Format::Columns { token: 2, label: None, comments: true });
        assert!(!format.has_labels());
        for (name, column) in [
            ("conllu", ""),
            ("conllu", "XPOS"),
            ("conllu", "feats:Number[psor]"),
            ("columns", "token=-2,label=3"),
            ("columns", "label=none"),
            ("text", ""),
        ] {
            let format = parse(name, column, "-").unwrap();
            assert_eq!(parse(format.name(), &format.column(), "x.iob2").unwrap(), format);
        }
    }

    #[test]
    fn faults_name_the_nearest_choice() {
        for (name, column, message) in [
            (
                "column",
                "",
                "unknown format \"column\", did you mean columns?; one of auto, conllu, columns, text",
            ),
            ("zzz", "", "unknown format \"zzz\"; one of auto, conllu, columns, text"),
            ("columns", "tokens=1", "did you mean token?"),
            (
                "columns",
                "token=x",
                "token=\"x\" is not a column number, from 0, or from -1 at the end",
            ),
            ("columns", "token", "token=\"\" is not a column number"),
            ("columns", "label=99999999999", "is not a column number"),
            ("columns", "comments=yes", "comments=\"yes\" is not true or false"),
            ("conllu", "pos", "did you mean upos?"),
            ("conllu", "feats:", "unknown column \"feats:\" for format conllu"),
            ("conllu", "feats:A=b", "unknown column \"feats:A=b\""),
            ("text", "upos", "plain text has no columns"),
        ] {
            let error = parse(name, column, "-").unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
