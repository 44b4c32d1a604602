//! Column files: one token a line with its columns, a blank line after each sentence. BIO, IOB2 and
//! IOBES files, CoNLL-2003 and the like. The first line with a token settles for the whole file whether
//! tabs or blanks separate the columns, and how many there are. Lines that begin with
//! `-DOCSTART-` are kept as lines but are not words.

use std::ops::Range;

use crate::error::{DataError, Place};
use crate::sentence::{Row, Separator, is_blank};

/// The word that stands for an empty token in a tab-separated file: U+FFFD, the replacement character.
///
/// Tweets collected before emoji were common hold such lines (`<TAB>O`), where a character was
/// lost. They count as tokens in published figures, so that they cannot be
/// dropped; the line itself is given back as it was.
pub const BLANK_TOKEN: &str = "\u{fffd}";

/// Reads line after line; knows the shape of the file after the first token.
#[derive(Debug, Default)]
pub(crate) struct ColumnRows {
    shape: Option<(Separator, usize)>,
}

impl ColumnRows {
    pub(crate) fn read(
        &mut self,
        place: Place,
        token: i32,
        label: Option<i32>,
        comments: bool,
        wants_label: bool,
    ) -> Result<Row, DataError> {
        let text = place.text;
        if is_blank(text) {
            return Ok(Row::Blank);
        }
        if text.starts_with("-DOCSTART-") || (comments && text.starts_with('#')) {
            return Ok(Row::Other);
        }
        let separator = match self.shape {
            Some((separator, _)) => separator,
            None if text.contains('\t') => Separator::Tab,
            None => Separator::Blanks,
        };
        if separator == Separator::Blanks && text.contains('\t') {
            return Err(place.mixed_separators());
        }
        let cells = cells(text, separator);
        let (_, expected) = *self.shape.get_or_insert((separator, cells.len()));
        if cells.len() != expected {
            return Err(place.wrong_columns(
                cells.len(),
                expected,
                "every line needs as many columns as the first; if lines that begin with # are \
                 comments, set comments=true",
            ));
        }
        let token_at = position(token, cells.len())
            .ok_or_else(|| place.missing_column("token", token, cells.len()))?;
        let slot = slot(place, token_at, label, cells.len())?;
        let word = match &text[cells[token_at].clone()] {
            "" => BLANK_TOKEN,
            word => word,
        };
        let label = match (wants_label, label, slot) {
            (false, ..) | (_, None, _) => None,
            (_, Some(_), Slot::Replace(at)) => match &text[cells[at].clone()] {
                "" => return Err(place.empty_cell("label")),
                label => Some(label.to_owned()),
            },
            (_, Some(label), Slot::Append) => {
                return Err(place.missing_column("label", label, cells.len()));
            }
        };
        Ok(Row::Word { word: word.to_owned(), label, separator })
    }
}

/// The cells of a line, each without the blanks around it.
fn cells(text: &str, separator: Separator) -> Vec<Range<usize>> {
    let separating = if separator == Separator::Tab { b'\t' } else { b' ' };
    let is_space = |byte: &&u8| **byte == b' ';
    let mut cells = Vec::new();
    let mut start = 0;
    for piece in text.as_bytes().split(|byte| *byte == separating) {
        let end = start + piece.len();
        let before = piece.iter().take_while(is_space).count();
        let after = piece[before..].iter().rev().take_while(is_space).count();
        let cell = start + before..end - after;
        if separator == Separator::Tab || !cell.is_empty() {
            cells.push(cell);
        }
        start = end + 1;
    }
    cells
}

/// A column number as a position among `n` columns.
fn position(column: i32, n: usize) -> Option<usize> {
    let size = column.unsigned_abs() as usize;
    if column < 0 { n.checked_sub(size) } else { Some(size).filter(|at| *at < n) }
}

/// Where the label of a line goes.
enum Slot {
    Replace(usize),
    Append,
}

/// A label has its column, or a place right behind the last one: where there are only
/// tokens, or where its number is the next.
fn slot(place: Place, token_at: usize, label: Option<i32>, n: usize) -> Result<Slot, DataError> {
    let Some(label) = label else {
        return Ok(Slot::Append);
    };
    match position(label, n) {
        Some(at) if at != token_at => Ok(Slot::Replace(at)),
        Some(_) if label < 0 && n == 1 => Ok(Slot::Append),
        None if label >= 0 && label as usize == n => Ok(Slot::Append),
        _ => Err(place.missing_column("label", label, n)),
    }
}

/// The line with the label in its column, or behind the last.
pub(crate) fn fill(
    place: Place,
    separator: Separator,
    token: i32,
    column: Option<i32>,
    label: &str,
) -> Result<String, DataError> {
    let text = place.text;
    let cells = cells(text, separator);
    let token_at = position(token, cells.len())
        .ok_or_else(|| place.missing_column("token", token, cells.len()))?;
    Ok(match slot(place, token_at, column, cells.len())? {
        Slot::Replace(at) => {
            format!("{}{label}{}", &text[..cells[at].start], &text[cells[at].end..])
        }
        // A single column says nothing of how columns are separated.
        Slot::Append if separator == Separator::Tab || cells.len() == 1 => {
            format!("{text}\t{label}")
        }
        Slot::Append => format!("{text} {label}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Sentence, Sentences, write_sentence};

    fn format(token: i32, label: Option<i32>, comments: bool) -> Format {
        Format::Columns { token, label, comments }
    }

    fn read(text: &str, format: &Format) -> Result<Vec<Sentence>, DataError> {
        Sentences::new(text.as_bytes(), "f", format)?.collect()
    }

    fn filled(text: &str, format: &Format, label: &str) -> Result<String, DataError> {
        let mut out = Vec::new();
        for sentence in Sentences::new(text.as_bytes(), "f", format)?.unlabelled() {
            let sentence = sentence?;
            let labels = vec![label.to_owned(); sentence.words.len()];
            write_sentence(&mut out, &sentence, format, Some(&labels))?;
        }
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn conll_2003() {
        let text = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects  VBZ I-VP O\n\nPeter NNP I-NP I-PER\n";
        let sentences = read(text, &format(0, Some(-1), false)).unwrap();
        assert_eq!(sentences.len(), 2);
        assert_eq!(sentences[0].words, ["EU", "rejects"]);
        assert_eq!(sentences[0].labels, ["I-ORG", "O"]);
        assert_eq!((sentences[0].first_line, sentences[1].first_line), (1, 6));
        let sentences = read(text, &format(-4, Some(1), false)).unwrap();
        assert_eq!(sentences[0].labels, ["NNP", "VBZ"]);
        // Only the label changes, not the two blanks.
        let expected = text.replace("I-ORG", "Z").replace("I-VP O", "I-VP Z").replace("I-PER", "Z");
        assert_eq!(filled(text, &format(0, Some(-1), false), "Z").unwrap(), expected);
    }

    #[test]
    fn hashes_are_tokens_or_comments() {
        let text = "# id\n#\tO\n#tag\tB-ORG\n";
        let tweets = read(&text[5..], &format(0, Some(-1), false)).unwrap();
        assert_eq!(tweets[0].words, ["#", "#tag"]);
        let comments = read("# id\n1\t#\tO\n", &format(1, Some(2), true)).unwrap();
        assert_eq!(comments[0].words, ["#"]);
        let error = read(text, &format(0, Some(-1), false)).unwrap_err();
        assert!(error.to_string().contains("comments=true"), "{error}");
    }

    #[test]
    fn blanks_around_tabbed_cells_are_not_part_of_them() {
        let text = "MH17 \tO\n\tO\n \t B-LOC \nNew York\tB-LOC\n \n\u{a0}\tO\n";
        let format = format(0, Some(1), false);
        let sentences = read(text, &format).unwrap();
        assert_eq!(sentences[0].words, ["MH17", BLANK_TOKEN, BLANK_TOKEN, "New York"]);
        assert_eq!(sentences[0].labels, ["O", "O", "B-LOC", "B-LOC"]);
        // A blank line of spaces ends a sentence; a no-break space is a token.
        assert_eq!(sentences[1].words, ["\u{a0}"]);
        let mut out = Vec::new();
        for sentence in &sentences {
            write_sentence(&mut out, sentence, &format, Some(&sentence.labels)).unwrap();
        }
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn a_missing_label_column_is_appended() {
        for (text, format, expected) in [
            ("a\nb\n\nc", format(0, Some(-1), false), "a\tX\nb\tX\n\nc\tX"),
            ("a\r\nb\r\n", format(0, Some(1), false), "a\tX\r\nb\tX\r\n"),
            ("1\ta\n", format(1, Some(2), true), "1\ta\tX\n"),
            ("1\ta\n", format(1, None, true), "1\ta\tX\n"),
            ("a NN\n", format(0, None, false), "a NN X\n"),
            ("a\t\n", format(0, Some(-1), false), "a\tX\n"),
        ] {
            assert_eq!(filled(text, &format, "X").unwrap(), expected);
            if text != "a NN\n" {
                assert_eq!(read(text, &format).is_ok(), format.column().contains("none"), "{text}");
            }
        }
    }

    #[test]
    fn broken_lines_are_named() {
        for (text, format, message) in [
            ("a\tO\nb\n", format(0, Some(-1), false), "f, line 2: 1 columns, expected 2: \"b\";"),
            ("a\tO\nb O\n", format(0, Some(-1), false), "f, line 2: 1 columns, expected 2"),
            ("a O\nb c O\n", format(0, Some(-1), false), "f, line 2: 3 columns, expected 2"),
            ("a\n", format(0, Some(-1), false), "f, line 1: no label in column -1 of 1: \"a\";"),
            ("a O\n", format(2, Some(1), false), "no token in column 2 of 2"),
            ("a O\n", format(-3, Some(1), false), "no token in column -3 of 2"),
            ("a O\n", format(0, Some(3), false), "no label in column 3 of 2"),
            ("a O\n", format(1, Some(-1), false), "no label in column -1 of 2"),
            ("a O\n", format(0, Some(i32::MIN), false), "no label in column -2147483648 of 2"),
            ("a O\nb\tO\n", format(0, Some(1), false), "f, line 2: a tab, where the first line"),
            ("a\t \n", format(0, Some(1), false), "f, line 1: the label is empty"),
        ] {
            let error = read(text, &format).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
