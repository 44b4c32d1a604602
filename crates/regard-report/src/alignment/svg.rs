//! One head's weights as an SVG picture: rows are queries, columns keys.

use super::{AlignmentHead, AlignmentKind, AlignmentReport};
use crate::ReportError;
use crate::attention::svg::{Svg, colour, short_weight, text_colour};
use crate::text::{display_width, escape_xml, shorten};

/// Tokens longer than this many columns are shortened in the labels.
const LABEL_COLUMNS: usize = 18;
/// Width of a letter at the labels' size, in pixels: an upper estimate, since no font is read.
const LETTER: f32 = 8.0;

/// The weights of one head as an SVG heat map.
///
/// Colour depth grows with the root of the weight; each cell tells its tokens and weight when pointed
/// at, and shows its weight where there are few. What is not yet written is hatched. Under a local scope
/// the window of each query is framed and its centre marked by a line. Size O(queries · keys).
///
/// # Errors
/// [`ReportError::NoSuchHead`], and those of [`AlignmentReport::validate`].
pub fn alignment_svg(
    report: &AlignmentReport,
    kind: AlignmentKind,
    layer: usize,
    head: usize,
) -> Result<String, ReportError> {
    report.validate()?;
    let numbers = report.head(kind, layer, head)?;
    let (queries, keys) = (report.queries(kind), report.keys(kind));
    let cell: f32 = match queries.len().max(keys.len()) {
        0..=14 => 40.0,
        15..=40 => 22.0,
        _ => 14.0,
    };
    let widest = |labels: &[String]| {
        let labels = labels.iter().map(|label| display_width(&shorten(label, LABEL_COLUMNS)));
        labels.max().unwrap_or(0) as f32 * LETTER
    };
    // Key labels lean by 45°, so they take 0.71 of their length upwards and to the right.
    let lean = widest(&keys) * 0.71 + 16.0;
    let (left, top) = ((widest(&queries) + 28.0).max(104.0), lean + 62.0);
    let width = (left + cell * keys.len() as f32 + lean).max(480.0);
    let height = top + cell * queries.len() as f32 + 48.0;

    let name = kind.name();
    let title = format!("Attention ({name}), layer {layer}, head {head}");
    let description = format!(
        "Weights of model {} over {} queries and {} keys; rows are queries, columns are keys. {}",
        report.model,
        queries.len(),
        keys.len(),
        report.formula
    );
    let mut svg = Svg::open(width, height, &title, &description);
    let (model, formula) = (escape_xml(&report.model), escape_xml(&report.formula));
    let local = window_text(numbers);
    svg.push(format_args!(
        r#"<text x="16" y="26" font-size="16" font-weight="600">{name}, layer {layer}, head {head}</text>
<text x="16" y="46" font-size="12">{model}: {formula}{local}</text>"#
    ));
    for (i, label) in queries.iter().enumerate() {
        let label = escape_xml(&shorten(label, LABEL_COLUMNS));
        let (x, y) = (left - 8.0, top + cell * (i as f32 + 0.5) + 4.5);
        svg.push(format_args!(r#"<text x="{x}" y="{y}" text-anchor="end">{label}</text>"#));
    }
    for (j, label) in keys.iter().enumerate() {
        let label = escape_xml(&shorten(label, LABEL_COLUMNS));
        let (x, y) = (left + cell * (j as f32 + 0.5) + 4.0, top - 8.0);
        svg.push(format_args!(
            r#"<text x="{x}" y="{y}" transform="rotate(-45 {x} {y})">{label}</text>"#
        ));
    }
    for (i, query) in queries.iter().enumerate() {
        for (j, key) in keys.iter().enumerate() {
            let (x, y) = (left + cell * j as f32, top + cell * i as f32);
            let words = escape_xml(&format!("{query} → {key}"));
            if !numbers.is_allowed(i, j) {
                svg.push(format_args!(
                    r##"<rect x="{x}" y="{y}" width="{cell}" height="{cell}" fill="url(#forbidden)" stroke="#ffffff"><title>{words}: not written yet</title></rect>"##
                ));
                continue;
            }
            let weight = numbers.weights.at(i, j);
            let fill = colour(weight);
            svg.push(format_args!(
                r##"<rect x="{x}" y="{y}" width="{cell}" height="{cell}" fill="{fill}" stroke="#ffffff"><title>{words}: weight {weight:.6}</title></rect>"##
            ));
            if cell >= 40.0 {
                let (x, y) = (x + cell / 2.0, y + cell / 2.0 + 4.0);
                let (fill, text) = (text_colour(weight), short_weight(weight));
                svg.push(format_args!(
                    r#"<text x="{x}" y="{y}" font-size="11" text-anchor="middle" fill="{fill}" pointer-events="none">{text}</text>"#
                ));
            }
        }
    }
    push_windows(&mut svg, numbers, keys.len(), (left, top, cell));
    svg.push_legend(16.0, height - 28.0);
    Ok(svg.close())
}

fn window_text(head: &AlignmentHead) -> String {
    let radius = head.radius.map(|radius| format!("; window ±{radius} around the line"));
    let sigma = head.sigma.map(|sigma| format!(", σ = {sigma}"));
    radius.into_iter().chain(sigma).collect()
}

/// Frames the window of each query and marks its centre.
fn push_windows(
    svg: &mut Svg,
    head: &AlignmentHead,
    n_keys: usize,
    (left, top, cell): (f32, f32, f32),
) {
    let Some(centres) = &head.centres else { return };
    // Position j is the middle of cell j.
    let at = |position: f32| left + cell * (position + 0.5).clamp(0.0, n_keys as f32);
    for (i, centre) in centres.iter().enumerate() {
        let (y, bottom) = (top + cell * i as f32, top + cell * (i as f32 + 1.0));
        if let Some(radius) = head.radius {
            let reach = radius as f32 + 0.5;
            let (from, to) = (at(centre - reach), at(centre + reach));
            let width = to - from;
            svg.push(format_args!(
                r##"<rect class="window" x="{from}" y="{y}" width="{width}" height="{cell}" fill="none" stroke="#d55e00" stroke-width="1.5" pointer-events="none"/>"##
            ));
        }
        let x = at(*centre);
        svg.push(format_args!(
            r##"<line class="centre" x1="{x}" y1="{y}" x2="{x}" y2="{bottom}" stroke="#d55e00" stroke-width="2.5"><title>centre {centre:.3}</title></line>"##
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alignment::tests::report;

    #[test]
    fn every_cell_is_drawn_and_windows_where_there_are() {
        let report = report();
        let svg = alignment_svg(&report, AlignmentKind::Cross, 0, 0).unwrap();
        assert_eq!(svg.matches("weight 0.").count(), 6);
        assert_eq!(svg.matches(r#"class="window""#).count(), 3);
        assert!(
            svg.contains("centre 0.750") && svg.contains("window ±1") && svg.contains("σ = 0.5")
        );
        assert!(svg.contains("&lt;Hund&gt;") && !svg.contains("<Hund>"));
        let svg = alignment_svg(&report, AlignmentKind::DecoderSelf, 0, 0).unwrap();
        assert_eq!(svg.matches("not written yet").count(), 3);
        assert!(!svg.contains("class=\"window\""));
        assert!(alignment_svg(&report, AlignmentKind::Cross, 0, 1).is_err());
    }
}
