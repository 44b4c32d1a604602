//! Sentences back into files.

use std::io::Write;

use crate::error::{DataError, Place};
use crate::sentence::{Line, LineEnd, LineKind, Sentence, Separator, is_blank};
use crate::{Format, columns, conllu};

/// Writes the user's own lines; with `predicted`, one label for each word takes its place in them.
///
/// Without `predicted` the lines are as they were read, byte for byte. With it, only the label's column
/// changes: in CoNLL-U the column or the feature of `format`, in a column file its label
/// column, which is added behind the last where the file has none. Plain text turns into lines
/// `word<TAB>label` with a blank line after each sentence.
///
/// `format` must be the one that the sentence was read in.
///
/// # Errors
/// [`LabelCount`](DataError::LabelCount) unless there are as many labels as words,
/// [`UnwritableLabel`](DataError::UnwritableLabel) if one would break its line,
/// [`WrongColumns`](DataError::WrongColumns) or [`MissingColumn`](DataError::MissingColumn) if the
/// sentence was read in another format, [`Write`](DataError::Write) if the system refuses. Nothing of the
/// sentence is written except in the last case.
pub fn write_sentence(
    out: &mut impl Write,
    sentence: &Sentence,
    format: &Format,
    predicted: Option<&[String]>,
) -> Result<(), DataError> {
    let Some(labels) = predicted else {
        return write_lines(out, &sentence.lines);
    };
    let n_slots = match format {
        Format::Text => sentence.words.len(),
        _ => sentence.lines.iter().filter(|line| matches!(line.kind, LineKind::Word(_))).count(),
    };
    if labels.len() != n_slots || n_slots != sentence.words.len() {
        return Err(DataError::LabelCount {
            line: sentence.first_line,
            found: labels.len(),
            expected: sentence.words.len(),
        });
    }

    let mut text = String::new();
    let mut next = labels.iter();
    for (i, line) in sentence.lines.iter().enumerate() {
        let number = sentence.first_line + i;
        let LineKind::Word(separator) = line.kind else {
            text.push_str(&line.text);
            text.push_str(line.end.as_str());
            continue;
        };
        let place = Place { file: "the output", line: number, text: &line.text };
        let mut take = |separator: Separator| match next.next() {
            Some(label) => checked(label, separator, number),
            None => Ok(""),
        };
        match format {
            Format::ConllU { label: column } => {
                text.push_str(&conllu::fill(place, column, take(separator)?)?);
                text.push_str(line.end.as_str());
            }
            Format::Columns { token, label: column, .. } => {
                let label = take(separator)?;
                text.push_str(&columns::fill(place, separator, *token, *column, label)?);
                text.push_str(line.end.as_str());
            }
            Format::Text => {
                let end = if line.end == LineEnd::CrLf { "\r\n" } else { "\n" };
                for word in &sentence.words {
                    for part in [word, "\t", take(Separator::Tab)?, end] {
                        text.push_str(part);
                    }
                }
                text.push_str(end);
            }
        }
    }
    Ok(out.write_all(text.as_bytes())?)
}

/// Writes lines as they were read, such as [`Sentences::tail`](crate::Sentences::tail).
///
/// # Errors
/// [`Write`](DataError::Write) if the system refuses.
pub fn write_lines(out: &mut impl Write, lines: &[Line]) -> Result<(), DataError> {
    for line in lines {
        out.write_all(line.text.as_bytes())?;
        out.write_all(line.end.as_str().as_bytes())?;
    }
    Ok(())
}

fn checked(label: &str, separator: Separator, line: usize) -> Result<&str, DataError> {
    let breaks_line = label.contains(['\t', '\n', '\r']);
    let breaks_column = separator == Separator::Blanks && label.contains(' ');
    if is_blank(label) || breaks_line || breaks_column {
        return Err(DataError::UnwritableLabel { line, label: label.to_owned() });
    }
    Ok(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sentences;

    #[test]
    fn what_cannot_be_written_is_refused_whole() {
        let format = Format::Columns { token: 0, label: Some(-1), comments: false };
        let sentence = Sentences::new("\na O\nb O\n".as_bytes(), "f", &format)
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        for (labels, message) in [
            (vec!["X"], "1 labels for the 2 words of the sentence at line 1"),
            (vec!["X", "X", "X"], "3 labels for the 2 words"),
            (vec!["X", "X Y"], "the label \"X Y\" cannot stand in a column at line 3"),
            (vec!["X\n", "X"], "the label \"X\\n\" cannot stand in a column at line 2"),
            (vec!["", "X"], "the label \"\" cannot stand"),
        ] {
            let labels: Vec<String> = labels.into_iter().map(str::to_owned).collect();
            let mut out = Vec::new();
            let error = write_sentence(&mut out, &sentence, &format, Some(&labels)).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
            assert!(out.is_empty());
        }
        let other = Format::Columns { token: 3, label: None, comments: false };
        let labels = sentence.labels.clone();
        assert!(write_sentence(&mut Vec::new(), &sentence, &other, Some(&labels)).is_err());
    }
}
