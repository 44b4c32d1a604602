//! Some curves as an SVG picture.

use plotters::prelude::*;

use crate::ReportError;
use crate::learning_curve::{Curve, draw_panel, with_words};
use crate::text::xml_safe;

/// Size of the picture in pixels.
const SIZE: (u32, u32) = (760, 460);

/// Curves of (x, y) under a title, with the name of what runs along x. Values that are not finite are left
/// out.
///
/// ```
/// let curves = [("seq2seq".to_string(), vec![(5.0, 100.0), (80.0, 0.0)])];
/// let svg = regard_report::lines_svg("Exactly right (%)", "length", &curves)?;
/// assert!(svg.contains("seq2seq: 100.0000 at length 5, 0.0000 at length 80."));
/// # Ok::<(), regard_report::ReportError>(())
/// ```
///
/// # Errors
/// [`ReportError::Curve`] when the drawing library cannot draw.
pub fn lines_svg(title: &str, x_name: &str, curves: &[Curve]) -> Result<String, ReportError> {
    let finite = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect()
    };
    let curves: Vec<Curve> = curves
        .iter()
        .map(|(name, points)| (xml_safe(name), finite(points)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let mut svg = String::new();
    draw(&mut svg, title, x_name, &curves)
        .map_err(|reason| ReportError::Curve { reason: reason.to_string() })?;
    Ok(with_words(&svg, title, "", x_name, curves.iter()))
}

fn draw(
    svg: &mut String,
    title: &str,
    x_name: &str,
    curves: &[Curve],
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let picture = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    picture.fill(&WHITE)?;
    draw_panel(&picture, title, [x_name, ""], curves)?;
    picture.present()
}
