//! All heads side by side as one SVG picture.

use super::AttentionReport;
use super::svg::{Svg, colour};
use crate::ReportError;
use crate::text::escape_xml;

/// Side of one head's square in pixels, and the room from one to the next.
const SIDE: f32 = 112.0;
const STEP: f32 = 136.0;
/// At most this many cells to a side; more words are gathered.
const MOST_CELLS: usize = 32;

/// The weights of all heads as an SVG grid: a row of squares for each layer, a column for each
/// head; inside a square, a row for each query and a column for each key.
///
/// Colours are those of [`heatmap_svg`](crate::heatmap_svg). Of more than 32 words, neighbours
/// share a cell, which shows the largest of their weights, so that the picture stays small.
///
/// # Errors
///
/// Those of [`AttentionReport::validate`].
pub fn grid_svg(report: &AttentionReport) -> Result<String, ReportError> {
    report.validate()?;
    let (n_layers, n_heads) = (report.model.n_layers, report.model.n_heads);
    let (left, top) = (84.0, 84.0);
    let width = (left + STEP * n_heads as f32).max(480.0);
    let height = top + STEP * n_layers as f32 + 32.0;
    let description = format!(
        "Weights of {n_layers} layers with {n_heads} heads each over the sentence: {}",
        report.tokens.join(" ")
    );
    let mut svg = Svg::open(width, height, "Attention of all heads", &description);
    let model = escape_xml(&report.model.name);
    svg.push(format_args!(
        r#"<text x="16" y="26" font-size="16" font-weight="600">Attention of all heads</text>
<text x="16" y="46" font-size="12">{model}</text>"#
    ));
    for head in 0..n_heads {
        let x = left + STEP * head as f32 + SIDE / 2.0;
        svg.push(format_args!(
            r#"<text x="{x}" y="{}" text-anchor="middle">head {head}</text>"#,
            top - 8.0
        ));
    }
    for layer in 0..n_layers {
        let y = top + STEP * layer as f32 + SIDE / 2.0 + 4.5;
        svg.push(format_args!(r#"<text x="16" y="{y}">layer {layer}</text>"#));
    }
    let len = report.tokens.len();
    let words_a_cell = len.div_ceil(MOST_CELLS);
    let cells = len.div_ceil(words_a_cell);
    let size = SIDE / cells as f32;
    for (layer, head, numbers) in report.heads() {
        let (x, y) = (left + STEP * head as f32, top + STEP * layer as f32);
        svg.push(format_args!(
            r#"<g transform="translate({x} {y})"><title>layer {layer}, head {head}</title>"#
        ));
        for row in 0..cells {
            for col in 0..cells {
                let gathered = |n: usize| n * words_a_cell..((n + 1) * words_a_cell).min(len);
                let pairs = gathered(row).flat_map(|i| gathered(col).map(move |j| (i, j)));
                let allowed = pairs.filter(|(i, j)| numbers.scores.at(*i, *j).is_finite());
                let largest = allowed.map(|(i, j)| numbers.weights.at(i, j)).reduce(f32::max);
                let fill = largest.map_or_else(|| "url(#forbidden)".into(), colour);
                svg.push(format_args!(
                    r#"<rect x="{:.2}" y="{:.2}" width="{size:.2}" height="{size:.2}" fill="{fill}"/>"#,
                    size * col as f32,
                    size * row as f32,
                ));
            }
        }
        svg.push(format_args!(
            r##"<rect width="{SIDE}" height="{SIDE}" fill="none" stroke="#8a96a3" stroke-width="0.5"/></g>"##
        ));
    }
    svg.push_legend(16.0, height - 26.0);
    Ok(svg.close())
}
