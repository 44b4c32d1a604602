//! The text that vocabularies are saved in: `name<TAB>count` lines. In a name, a backslash, tab or
//! line end is written `\\`, `\t`, `\n`, `\r`.

use std::collections::HashSet;

use crate::error::{DataError, clip};

pub(crate) fn write<'a>(entries: impl Iterator<Item = (&'a str, u64)>) -> String {
    let mut text = String::new();
    for (name, count) in entries {
        for c in name.chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '\t' => text.push_str("\\t"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                c => text.push(c),
            }
        }
        text.push('\t');
        text.push_str(&count.to_string());
        text.push('\n');
    }
    text
}

/// The entries in the order of the file; a name that stands there twice is an error.
pub(crate) fn read(file: &str, text: &str) -> Result<Vec<(String, u64)>, DataError> {
    let mut entries: Vec<(String, u64)> = Vec::new();
    let mut seen = HashSet::new();
    for (i, row) in text.split_terminator('\n').enumerate() {
        let file = || file.to_owned();
        let line = i + 1;
        let row = row.strip_suffix('\r').unwrap_or(row);
        let n_columns = row.split('\t').count();
        let (name, count) = row.split_once('\t').filter(|_| n_columns == 2).ok_or_else(|| {
            DataError::WrongColumns {
                file: file(),
                line,
                text: clip(row),
                found: n_columns,
                expected: 2,
                remedy: "a saved vocabulary has lines of a name, a tab and a count",
            }
        })?;
        let name = unescape(name).ok_or_else(|| DataError::BadEscape {
            file: file(),
            line,
            text: clip(row),
        })?;
        let count = count.parse().map_err(|_| DataError::BadCount {
            file: file(),
            line,
            count: clip(count),
        })?;
        if !seen.insert(name.clone()) {
            return Err(DataError::DuplicateEntry { file: file(), line, entry: clip(&name) });
        }
        entries.push((name, count));
    }
    Ok(entries)
}

fn unescape(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.push(match c {
            '\\' => match chars.next()? {
                '\\' => '\\',
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            },
            c => c,
        });
    }
    Some(plain)
}
