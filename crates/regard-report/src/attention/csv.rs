//! The weights as a table with one line for each (layer, head, query, key).

use std::fmt::Write;

use super::AttentionReport;
use crate::ReportError;

/// Columns of [`attention_csv`].
const HEADER: &str = "layer,head,query_index,query,key_index,key,score,weight";

/// The scores and weights of every head in long form, under the header
/// `layer,head,query_index,query,key_index,key,score,weight`.
///
/// Counts start at 0. A forbidden pair has the score `-inf` and the weight `0.0`. Numbers are the
/// shortest decimals that read back as the same f32. A word with a comma, quote or line end is
/// quoted as RFC 4180 says, with quotes inside doubled.
///
/// ```
/// use regard_report::{SampleShape, attention_csv, sample_report};
///
/// let shape = SampleShape { n_layers: 1, n_heads: 1, reach: Some(0), ..SampleShape::default() };
/// let csv = attention_csv(&sample_report(&["a", "b, c"], &shape, 1))?;
/// let lines: Vec<&str> = csv.lines().collect();
/// assert_eq!(lines[0], "layer,head,query_index,query,key_index,key,score,weight");
/// assert_eq!(lines[2], "0,0,0,a,1,\"b, c\",-inf,0.0");
/// assert_eq!(lines.len(), 1 + 4);
/// # Ok::<(), regard_report::ReportError>(())
/// ```
///
/// # Errors
///
/// Those of [`AttentionReport::validate`].
pub fn attention_csv(report: &AttentionReport) -> Result<String, ReportError> {
    report.validate()?;
    let words: Vec<String> = report.tokens.iter().map(|word| quoted(word)).collect();
    let mut csv = format!("{HEADER}\n");
    for (l, h, head) in report.heads() {
        for (i, query) in words.iter().enumerate() {
            let numbers = head.scores.row(i).iter().zip(head.weights.row(i));
            for ((j, key), (score, weight)) in words.iter().enumerate().zip(numbers) {
                // `{:?}` of a float is its shortest decimal, with an exponent where that is short.
                writeln!(csv, "{l},{h},{i},{query},{j},{key},{score:?},{weight:?}")
                    .expect("writing to a string cannot fail");
            }
        }
    }
    Ok(csv)
}

pub(crate) fn quoted(word: &str) -> String {
    if word.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", word.replace('"', "\"\""))
    } else {
        word.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SampleShape, sample_report};

    /// Splits CSV text by the rules of RFC 4180, apart from the writer's code.
    fn parse(csv: &str) -> Vec<Vec<String>> {
        let mut rows = vec![vec![String::new()]];
        let mut in_quotes = false;
        let mut chars = csv.chars().peekable();
        while let Some(c) = chars.next() {
            let row = rows.last_mut().unwrap();
            match c {
                '"' if in_quotes && chars.peek() == Some(&'"') => {
                    chars.next();
                    row.last_mut().unwrap().push('"');
                }
                '"' => in_quotes = !in_quotes,
                ',' if !in_quotes => row.push(String::new()),
                '\n' if !in_quotes => rows.push(vec![String::new()]),
                c => row.last_mut().unwrap().push(c),
            }
        }
        assert_eq!(rows.pop().unwrap(), [""], "the last line has its end");
        rows
    }

    #[test]
    fn every_number_and_word_reads_back() {
        let words = ["a,b", "say \"hi\"", "two\nlines", "", "\r", "שלום", "plain"];
        let shape =
            SampleShape { n_layers: 2, n_heads: 3, reach: Some(2), ..SampleShape::default() };
        let report = sample_report(&words, &shape, 5);
        let rows = parse(&attention_csv(&report).unwrap());
        assert_eq!(rows.len(), 1 + 2 * 3 * 7 * 7);
        for row in &rows[1..] {
            let number = |c: usize| row[c].parse::<usize>().unwrap();
            let (l, h, i, j) = (number(0), number(1), number(2), number(4));
            let head = report.head(l, h).unwrap();
            assert_eq!(row[3], words[i]);
            assert_eq!(row[5], words[j]);
            assert_eq!(row[6].parse::<f32>().unwrap(), head.scores.at(i, j));
            assert_eq!(row[7].parse::<f32>().unwrap(), head.weights.at(i, j));
        }
    }
}
