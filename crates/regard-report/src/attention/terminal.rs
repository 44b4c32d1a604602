//! One head's weights as plain text.

use std::fmt::Write;

use super::{AttentionReport, HeadAttention};
use crate::ReportError;
use crate::text::{display_width, pad_end, pad_start, shorten, terminal_safe};

/// Shades for weights from this one on; below the first a dot, and a blank where not allowed.
const SHADES: [(f32, char); 4] = [(0.05, '░'), (0.2, '▒'), (0.4, '▓'), (0.7, '█')];
/// Columns kept for the list of the largest weights, and how many it names.
const TOP_COLUMNS: usize = 34;
const TOP: usize = 2;
/// Longest word shown as a row's label, in columns.
const LABEL_COLUMNS: usize = 16;

/// The weights of one head as lines of text no wider than `width` columns (at least 60).
///
/// A line for each query: its number and word, a shade for each key, and the keys with the
/// largest weights in numbers. Nothing depends on colour. A sentence with more words than fit
/// across is shown in several blocks of keys. Words cannot smuggle in control characters.
///
/// ```
/// use regard_report::{SampleShape, sample_report, terminal_heatmap};
///
/// let report = sample_report(&["I", "saw", "a", "saw"], &SampleShape::default(), 1);
/// let text = terminal_heatmap(&report, 0, 2, 80)?;
/// let line = text.lines().find(|line| line.starts_with("1 saw")).unwrap();
/// let weights = report.head(0, 2)?.weights.row(1);
/// let largest = weights.iter().copied().fold(0.0, f32::max);
/// assert!(line.contains(&format!("{largest:.2}")));
/// # Ok::<(), regard_report::ReportError>(())
/// ```
///
/// # Errors
///
/// [`ReportError::NoSuchHead`], and those of [`AttentionReport::validate`].
pub fn terminal_heatmap(
    report: &AttentionReport,
    layer: usize,
    head: usize,
    width: usize,
) -> Result<String, ReportError> {
    report.validate()?;
    let numbers = report.head(layer, head)?;
    let words: Vec<String> =
        report.tokens.iter().map(|word| shorten(&terminal_safe(word), LABEL_COLUMNS)).collect();
    let len = words.len();
    let digits = (len - 1).to_string().len();
    let longest = words.iter().map(|word| display_width(word)).max();
    let label_columns = digits + 1 + longest.unwrap_or(0);
    // Two blanks on either side of the picture.
    let room = width.max(60).saturating_sub(TOP_COLUMNS + label_columns + 4);
    // A number's last two digits can stand above a key that is three columns wide.
    let cell = (room / len).clamp(1, 3);
    let keys_a_block = (room / cell).max(1);

    let mut text = format!("layer {layer}, head {head}: each row sums to 1 over its keys\n");
    for first in (0..len).step_by(keys_a_block) {
        let keys = first..(first + keys_a_block).min(len);
        let heads: String = keys.clone().map(|j| key_number(j, cell)).collect();
        let columns = keys.len() * cell;
        let label = pad_end("", label_columns);
        push_line(&mut text, &format!("{label}  {}", pad_end(&heads, columns)));
        for (i, word) in words.iter().enumerate() {
            let number = pad_start(&i.to_string(), digits);
            let label = pad_end(&format!("{number} {word}"), label_columns);
            let shades: String =
                keys.clone().map(|j| shade(numbers, i, j).to_string().repeat(cell)).collect();
            let top = if first == 0 { largest(numbers, i, &words) } else { String::new() };
            push_line(&mut text, &format!("{label}  {shades}  {top}"));
        }
    }
    text.push_str(&legend());
    Ok(text)
}

/// What the shades mean.
pub(crate) fn legend() -> String {
    let mut text = String::from("weight: ·");
    for (from, shade) in SHADES {
        write!(text, " {shade} {from}+").expect("writing to a string cannot fail");
    }
    text + " blank: not allowed\n"
}

pub(crate) fn push_line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

/// The last digits of a key's number that fit above its cell, with a blank before where it can be.
pub(crate) fn key_number(j: usize, cell: usize) -> String {
    match cell {
        1 => (j % 10).to_string(),
        cell => pad_start(&(j % 100).to_string(), cell),
    }
}

fn shade(numbers: &HeadAttention, i: usize, j: usize) -> char {
    if numbers.scores.at(i, j) == f32::NEG_INFINITY {
        return ' ';
    }
    shade_of(numbers.weights.at(i, j))
}

/// The shade of a weight.
pub(crate) fn shade_of(weight: f32) -> char {
    let reached = SHADES.iter().rev().find(|(from, _)| weight >= *from);
    reached.map_or('·', |(_, shade)| *shade)
}

/// `1 saw 0.62  4 dog 0.21`: the keys of query i with the largest weights, the earlier first among
/// equals.
fn largest(numbers: &HeadAttention, i: usize, words: &[String]) -> String {
    let weights = numbers.weights.row(i);
    let mut order: Vec<usize> = (0..weights.len()).filter(|j| weights[*j] > 0.0).collect();
    order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
    if order.is_empty() {
        return "sees no key".into();
    }
    let digits = (words.len() - 1).to_string().len();
    // Half the room each, less the number, the weight and the blanks between.
    let columns = (TOP_COLUMNS / TOP).saturating_sub(digits + 8);
    let named: Vec<String> = order
        .iter()
        .take(TOP)
        .map(|j| {
            let word = shorten(&words[*j], columns);
            format!("{j} {word} {:.2}", weights[*j])
        })
        .collect();
    named.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SampleShape, sample_report};

    fn shape(reach: Option<usize>) -> SampleShape {
        SampleShape { n_layers: 1, n_heads: 1, reach, ..SampleShape::default() }
    }

    #[test]
    fn no_line_is_wider_than_asked_whatever_the_sentence() {
        for len in [1, 2, 11, 40, 101] {
            for word in ["a", "incomprehensibilities", "我看见", "\u{1b}[2J"] {
                let words = vec![word; len];
                let report = sample_report(&words, &shape(Some(3)), 1);
                for width in [60, 80, 131] {
                    let text = terminal_heatmap(&report, 0, 0, width).unwrap();
                    for line in text.lines() {
                        assert!(display_width(line) <= width, "{width} {len} {line:?}");
                        assert!(!line.contains('\u{1b}'));
                    }
                }
            }
        }
    }

    #[test]
    fn shades_follow_the_weights() {
        let report = sample_report(&["a", "b", "c", "d", "e"], &shape(Some(1)), 4);
        let numbers = report.head(0, 0).unwrap();
        let text = terminal_heatmap(&report, 0, 0, 80).unwrap();
        for (i, line) in text.lines().skip(2).take(5).enumerate() {
            let cells: Vec<char> = line.chars().skip(5).step_by(3).take(5).collect();
            for (j, cell) in cells.into_iter().enumerate() {
                let weight = numbers.weights.at(i, j);
                let expected = match weight {
                    _ if i.abs_diff(j) > 1 => ' ',
                    w if w < 0.05 => '·',
                    w if w < 0.2 => '░',
                    w if w < 0.4 => '▒',
                    w if w < 0.7 => '▓',
                    _ => '█',
                };
                assert_eq!(cell, expected, "{i} {j} {weight} in\n{text}");
            }
        }
    }

    #[test]
    fn a_query_without_keys_says_so() {
        let mut report = sample_report(&["a", "b"], &shape(None), 4);
        let head = &mut report.layers[0].heads[0];
        head.scores.data[..2].fill(f32::NEG_INFINITY);
        head.weights.data[..2].fill(0.0);
        head.context.data[..8].fill(0.0);
        let text = terminal_heatmap(&report, 0, 0, 80).unwrap();
        assert!(text.lines().nth(2).unwrap().ends_with("sees no key"), "{text}");
    }
}
