//! One head's weights as an SVG picture.

use super::AttentionReport;
use super::svg::{Svg, colour, short_weight, text_colour};
use crate::ReportError;
use crate::text::{display_width, escape_xml, shorten};

/// Words longer than this many columns are shortened in the labels.
const LABEL_COLUMNS: usize = 18;
/// Width of a letter at the labels' size, in pixels: an upper estimate, since no font is read.
const LETTER: f32 = 8.0;

/// The weights of one head as an SVG heat map: a row for each query, a column for each key.
///
/// Colour depth grows with the root of the weight, in one hue; forbidden pairs are hatched; each
/// cell tells its words, weight and score when pointed at, and shows its weight where the
/// sentence is short enough. Size O(L²).
///
/// ```
/// use regard_report::{SampleShape, heatmap_svg, sample_report};
///
/// let report = sample_report(&["a", "<b>"], &SampleShape::default(), 1);
/// let svg = heatmap_svg(&report, 1, 3)?;
/// assert!(svg.contains("<title>Attention, layer 1, head 3</title>"));
/// assert!(svg.contains("&lt;b&gt;") && !svg.contains("<b>"));
/// assert!(heatmap_svg(&report, 2, 0).is_err());
/// # Ok::<(), regard_report::ReportError>(())
/// ```
///
/// # Errors
///
/// [`ReportError::NoSuchHead`], and those of [`AttentionReport::validate`].
pub fn heatmap_svg(
    report: &AttentionReport,
    layer: usize,
    head: usize,
) -> Result<String, ReportError> {
    report.validate()?;
    let numbers = report.head(layer, head)?;
    let len = report.tokens.len();
    let cell: f32 = match len {
        0..=14 => 40.0,
        15..=40 => 22.0,
        _ => 14.0,
    };
    let labels: Vec<String> =
        report.tokens.iter().map(|word| shorten(word, LABEL_COLUMNS)).collect();
    let longest = labels.iter().map(|label| display_width(label)).max();
    let label_width = longest.unwrap_or(0) as f32 * LETTER;
    // Key labels lean by 45°, so they take 0.71 of their length upwards and to the right.
    let lean = label_width * 0.71 + 16.0;
    let (left, top) = ((label_width + 28.0).max(104.0), lean + 62.0);
    let side = cell * len as f32;
    let width = (left + side + lean).max(480.0);
    let height = top + side + 48.0;

    let title = format!("Attention, layer {layer}, head {head}");
    let description = format!(
        "Weights of model {} over {len} words; rows are queries, columns are keys. {}",
        report.model.name, report.model.formula
    );
    let mut svg = Svg::open(width, height, &title, &description);
    let model = escape_xml(&report.model.name);
    let formula = escape_xml(&report.model.formula);
    svg.push(format_args!(
        r#"<text x="16" y="26" font-size="16" font-weight="600">Layer {layer}, head {head}</text>
<text x="16" y="46" font-size="12">{model}: {formula}</text>"#
    ));
    let (x, y) = (left - 8.0, top - 8.0);
    svg.push(format_args!(
        r##"<text x="{x}" y="{y}" font-size="11" fill="#5a6673" text-anchor="end">query ↓ key →</text>"##
    ));
    for (n, label) in labels.iter().enumerate() {
        let label = escape_xml(label);
        let middle = cell * (n as f32 + 0.5);
        let (x, y) = (left - 8.0, top + middle + 4.5);
        svg.push(format_args!(r#"<text x="{x}" y="{y}" text-anchor="end">{label}</text>"#));
        let (x, y) = (left + middle + 4.0, top - 8.0);
        svg.push(format_args!(
            r#"<text x="{x}" y="{y}" transform="rotate(-45 {x} {y})">{label}</text>"#
        ));
    }
    for i in 0..len {
        for j in 0..len {
            let (score, weight) = (numbers.scores.at(i, j), numbers.weights.at(i, j));
            let (x, y) = (left + cell * j as f32, top + cell * i as f32);
            let words = format!("{} → {}", report.tokens[i], report.tokens[j]);
            let words = escape_xml(&words);
            if score == f32::NEG_INFINITY {
                svg.push(format_args!(
                    r##"<rect x="{x}" y="{y}" width="{cell}" height="{cell}" fill="url(#forbidden)" stroke="#ffffff"><title>{words}: not allowed</title></rect>"##
                ));
                continue;
            }
            let fill = colour(weight);
            svg.push(format_args!(
                r##"<rect x="{x}" y="{y}" width="{cell}" height="{cell}" fill="{fill}" stroke="#ffffff"><title>{words}: weight {weight:.6}, score {score:.6}</title></rect>"##
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
    svg.push_legend(16.0, height - 28.0);
    Ok(svg.close())
}
