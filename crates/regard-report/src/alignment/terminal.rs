//! One head's weights as plain text.

use super::{AlignmentHead, AlignmentKind, AlignmentReport};
use crate::ReportError;
use crate::attention::terminal::{key_number, legend, push_line, shade_of};
use crate::text::{display_width, pad_end, pad_start, shorten, terminal_safe};

/// Columns kept for the key with the largest weight.
const TOP_COLUMNS: usize = 24;
/// Longest token shown as a row's label, in columns.
const LABEL_COLUMNS: usize = 16;

/// The weights of one head as lines of text no wider than `width` columns (at least 60): a line for
/// each query, a shade for each key, and the key with the largest weight. Many keys are shown in several
/// blocks. Under a local scope the line ends with the window's centre.
///
/// # Errors
/// [`ReportError::NoSuchHead`], and those of [`AlignmentReport::validate`].
pub fn terminal_alignment(
    report: &AlignmentReport,
    kind: AlignmentKind,
    layer: usize,
    head: usize,
    width: usize,
) -> Result<String, ReportError> {
    report.validate()?;
    let numbers = report.head(kind, layer, head)?;
    let clean = |tokens: Vec<String>| -> Vec<String> {
        tokens.iter().map(|token| shorten(&terminal_safe(token), LABEL_COLUMNS)).collect()
    };
    let (queries, keys) = (clean(report.queries(kind)), clean(report.keys(kind)));
    let digits = (queries.len().max(keys.len()) - 1).to_string().len();
    let longest = queries.iter().map(|token| display_width(token)).max();
    let label_columns = digits + 1 + longest.unwrap_or(0);
    // Two blanks on either side of the picture.
    let room = width.max(60).saturating_sub(TOP_COLUMNS + label_columns + 4);
    let cell = (room / keys.len()).clamp(1, 3);
    let keys_a_block = (room / cell).max(1);

    let mut text = format!("{} attention, layer {layer}, head {head}\n", kind.name());
    for first in (0..keys.len()).step_by(keys_a_block) {
        let block = first..(first + keys_a_block).min(keys.len());
        let heads: String = block.clone().map(|j| key_number(j, cell)).collect();
        let label = pad_end("", label_columns);
        push_line(&mut text, &format!("{label}  {}", pad_end(&heads, block.len() * cell)));
        for (i, query) in queries.iter().enumerate() {
            let label =
                pad_end(&format!("{} {query}", pad_start(&i.to_string(), digits)), label_columns);
            let shades: String =
                block.clone().map(|j| shade(numbers, i, j).to_string().repeat(cell)).collect();
            let top = if first == 0 { largest(numbers, i, &keys) } else { String::new() };
            push_line(&mut text, &format!("{label}  {shades}  {top}"));
        }
    }
    text.push_str(&legend());
    Ok(text)
}

fn shade(head: &AlignmentHead, i: usize, j: usize) -> char {
    if head.is_allowed(i, j) { shade_of(head.weights.at(i, j)) } else { ' ' }
}

/// `1 ▁Hund 0.62`, and the centre where there is one.
fn largest(head: &AlignmentHead, i: usize, keys: &[String]) -> String {
    let row = head.weights.row(i);
    let mut best = 0;
    for (j, weight) in row.iter().enumerate() {
        if *weight > row[best] {
            best = j;
        }
    }
    let centre = head.centres.as_ref().map(|c| format!(" @{:.1}", c[i])).unwrap_or_default();
    let digits = (keys.len() - 1).to_string().len();
    let columns = TOP_COLUMNS.saturating_sub(digits + 6 + centre.len());
    format!("{best} {} {:.2}{centre}", shorten(&keys[best], columns), row[best])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alignment::tests::report;

    #[test]
    fn no_line_is_wider_than_asked() {
        let mut report = report();
        for kind in AlignmentKind::ALL {
            for width in [60, 80, 131] {
                let text = terminal_alignment(&report, kind, 0, 0, width).unwrap();
                assert!(text.lines().all(|line| display_width(line) <= width), "{text}");
            }
        }
        let text = terminal_alignment(&report, AlignmentKind::Cross, 0, 0, 80).unwrap();
        assert!(text.contains("1 ▁<Hund> 0.50 @0.8"), "{text}");
        // A long source goes into several blocks.
        report.source = vec!["incomprehensibilities".into(); 120];
        report.heads.retain(|head| head.kind == AlignmentKind::Cross);
        report.heads[0].weights = crate::Matrix::new(3, 120, vec![1.0 / 128.0; 360]);
        let text = terminal_alignment(&report, AlignmentKind::Cross, 0, 0, 80).unwrap();
        assert!(text.lines().all(|line| display_width(line) <= 80), "{text}");
        assert!(text.matches("</s>").count() > 1);
    }
}
