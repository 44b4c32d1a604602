//! How a run went, as an SVG picture.

use std::collections::BTreeMap;
use std::fmt::Write;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::text::{escape_xml, xml_safe};
use crate::{MetricsRecord, ReportError};

/// Size of the picture in pixels.
const SIZE: (u32, u32) = (1000, 420);
/// A line has at most this many points: more could not be told apart at this size.
const MOST_POINTS: usize = 400;
/// Told apart by lightness as well as by hue.
const COLOURS: [RGBColor; 4] =
    [RGBColor(11, 60, 125), RGBColor(213, 94, 0), RGBColor(0, 140, 110), RGBColor(140, 140, 150)];

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// A line's name and its points (x, y).
pub(crate) type Curve = (String, Vec<(f64, f64)>);

/// Two panels over the optimiser step: losses on the left, the other metrics on the right.
///
/// The left panel has the training loss of the [`StepRecord`](crate::StepRecord)s and each metric
/// called `loss` of the [`EvalRecord`](crate::EvalRecord)s; the right panel each other metric, as
/// `split metric`. Lines differ in colour and in the shape of their marks. Of more than 400
/// points neighbours are averaged. Values that are not finite are left out; a panel without values
/// says so. Labels name no font, so the viewer's own is used.
///
/// ```
/// use regard_report::{EvalRecord, learning_curve_svg};
///
/// let records: Vec<_> = [0.5, 0.7, 0.8]
///     .into_iter()
///     .zip(1..)
///     .map(|(accuracy, epoch)| EvalRecord {
///         step: 100 * epoch,
///         epoch,
///         split: "dev".into(),
///         metrics: [("accuracy".to_string(), accuracy)].into(),
///         elapsed_s: 1.0,
///     })
///     .map(Into::into)
///     .collect();
/// let svg = learning_curve_svg(&records)?;
/// assert!(svg.contains("dev accuracy") && svg.contains("no values yet"));
/// # Ok::<(), regard_report::ReportError>(())
/// ```
///
/// # Errors
///
/// [`ReportError::Curve`] when the drawing library cannot draw.
pub fn learning_curve_svg(records: &[MetricsRecord]) -> Result<String, ReportError> {
    let (losses, metrics) = curves(records);
    let mut svg = String::new();
    draw(&mut svg, &losses, &metrics)
        .map_err(|reason| ReportError::Curve { reason: reason.to_string() })?;
    Ok(described(&svg, &losses, &metrics))
}

/// The curves of both panels, in the order of their names, the training loss first.
fn curves(records: &[MetricsRecord]) -> (Vec<Curve>, Vec<Curve>) {
    let mut train = Vec::new();
    let mut losses = BTreeMap::<String, Vec<(f64, f64)>>::new();
    let mut metrics = BTreeMap::<String, Vec<(f64, f64)>>::new();
    for record in records {
        match record {
            MetricsRecord::Step(record) => train.push((record.step as f64, record.loss)),
            MetricsRecord::Eval(record) => {
                for (metric, value) in &record.metrics {
                    let panel = if metric == "loss" { &mut losses } else { &mut metrics };
                    // The drawing library escapes markup, but not what XML cannot hold.
                    let name = xml_safe(&format!("{} {metric}", record.split));
                    let point = (record.step as f64, *value);
                    panel.entry(name).or_default().push(point);
                }
            }
        }
    }
    let train = [("train loss".to_string(), train)];
    let clean = |curves: &mut dyn Iterator<Item = Curve>| -> Vec<Curve> {
        curves
            .map(|(name, points)| (name, thinned(points)))
            .filter(|(_, points)| !points.is_empty())
            .collect()
    };
    (clean(&mut train.into_iter().chain(losses)), clean(&mut metrics.into_iter()))
}

/// The finite points, neighbours averaged until at most [`MOST_POINTS`] are left.
fn thinned(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.retain(|(_, value)| value.is_finite());
    let together = points.len().div_ceil(MOST_POINTS).max(1);
    let mean = |points: &[(f64, f64)]| {
        let n = points.len() as f64;
        (
            points.iter().map(|(step, _)| step / n).sum(),
            points.iter().map(|(_, value)| value / n).sum(),
        )
    };
    points.chunks(together).map(mean).collect()
}

fn draw(
    svg: &mut String,
    losses: &[Curve],
    metrics: &[Curve],
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let picture = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    picture.fill(&WHITE)?;
    let (left, right) = picture.split_horizontally(SIZE.0 / 2);
    draw_panel(&left, "Loss", ["step", "loss"], losses)?;
    draw_panel(&right, "Metrics", ["step", "value"], metrics)?;
    picture.present()
}

/// Curves with a title over them and names along the axes.
pub(crate) fn draw_panel(
    area: &Area<'_>,
    title: &str,
    [x_name, y_name]: [&str; 2],
    curves: &[Curve],
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let points = || curves.iter().flat_map(|(_, points)| points);
    let steps = range(points().map(|(step, _)| *step));
    let values = range(points().map(|(_, value)| *value));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(14)
        .x_label_area_size(40)
        .y_label_area_size(58)
        .build_cartesian_2d(steps, values)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(x_name)
        .y_desc(y_name)
        .x_labels(6)
        .y_labels(6)
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 15))
        .x_label_formatter(&|step| format!("{step:.0}"))
        .draw()?;
    if curves.is_empty() {
        let (width, height) = area.dim_in_pixel();
        let style = ("sans-serif", 14).into_text_style(area);
        let place = (width as i32 / 2 - 40, height as i32 / 2);
        return area.draw_text("no values yet", &style, place);
    }
    for (n, (name, points)) in curves.iter().enumerate() {
        let colour = COLOURS[n % COLOURS.len()];
        let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
        chart.draw_series(line)?.label(name).legend(move |(x, y)| {
            let rule = PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2));
            EmptyElement::at((0, 0)) + rule + mark(n, (x + 9, y), colour)
        });
        // A mark on every point of a long line would hide it.
        let every = points.len().div_ceil(24);
        let marked = points.iter().step_by(every);
        chart
            .draw_series(marked.map(|point| EmptyElement::at(*point) + mark(n, (0, 0), colour)))?;
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.25))
        .label_font(("sans-serif", 13))
        .draw()
}

/// The n-th curve's mark, so that colour is not all that tells curves apart.
fn mark<'a>(
    n: usize,
    at: (i32, i32),
    colour: RGBColor,
) -> DynElement<'static, SVGBackend<'a>, (i32, i32)> {
    match n % 3 {
        0 => Circle::new(at, 3, colour.filled()).into_dyn(),
        1 => TriangleMarker::new(at, 5, colour.filled()).into_dyn(),
        _ => Cross::new(at, 4, colour.stroke_width(2)).into_dyn(),
    }
}

/// From the least to the largest value with a little room, or around a lone one.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (least, largest) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)));
    if least > largest {
        return 0.0..1.0;
    }
    let room = 0.05 * (largest - least);
    if room > 0.0 { least - room..largest + room } else { least - 0.5..largest + 0.5 }
}

/// The picture with a title and a description in words behind its opening tag.
fn described(svg: &str, losses: &[Curve], metrics: &[Curve]) -> String {
    let curves = losses.iter().chain(metrics);
    with_words(svg, "Learning curve", "By optimiser step.", "step", curves)
}

/// A picture with its title, and where each curve begins and ends, behind its opening tag.
pub(crate) fn with_words<'a>(
    svg: &str,
    title: &str,
    before: &str,
    x_name: &str,
    curves: impl Iterator<Item = &'a Curve>,
) -> String {
    let mut words = String::from(before);
    for (name, points) in curves {
        if let (Some((a, from)), Some((b, to))) = (points.first(), points.last()) {
            write!(words, " {name}: {from:.4} at {x_name} {a:.0}, {to:.4} at {x_name} {b:.0}.")
                .expect("writing to a string cannot fail");
        }
    }
    let (title, words) = (escape_xml(title), escape_xml(&words));
    let head = format!("<title>{title}</title>\n<desc>{words}</desc>\n");
    let end = svg.find(">\n").map_or(0, |at| at + 2);
    format!("{}{head}{}", &svg[..end], &svg[end..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EvalRecord, StepRecord};

    fn step(step: u64, loss: f64) -> MetricsRecord {
        StepRecord {
            step,
            epoch: 1,
            tokens: step,
            loss,
            lr: 0.1,
            grad_norm: 1.0,
            tokens_per_s: 1.0,
            elapsed_s: 1.0,
        }
        .into()
    }

    fn eval(step: u64, metrics: &[(&str, f64)]) -> MetricsRecord {
        EvalRecord {
            step,
            epoch: 1,
            split: "dev".into(),
            metrics: metrics.iter().map(|(n, v)| ((*n).into(), *v)).collect(),
            elapsed_s: 1.0,
        }
        .into()
    }

    #[test]
    fn losses_and_metrics_have_their_panels() {
        let records = [
            step(1, 3.0),
            eval(1, &[("loss", 2.0), ("accuracy", 0.5), ("f1", 0.25)]),
            step(2, 1.0),
            eval(2, &[("loss", 1.0), ("accuracy", 0.75), ("f1", f64::NAN)]),
        ];
        let (losses, metrics) = curves(&records);
        let names =
            |curves: &[Curve]| -> Vec<String> { curves.iter().map(|c| c.0.clone()).collect() };
        assert_eq!(names(&losses), ["train loss", "dev loss"]);
        assert_eq!(names(&metrics), ["dev accuracy", "dev f1"]);
        assert_eq!(metrics[0].1, [(1.0, 0.5), (2.0, 0.75)]);
        assert_eq!(metrics[1].1, [(1.0, 0.25)]);
        let svg = learning_curve_svg(&records).unwrap();
        for text in ["step", "loss", "train loss", "dev accuracy", "Metrics", "<title>"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(svg.contains("dev accuracy: 0.5000 at step 1, 0.7500 at step 2."));
    }

    #[test]
    fn long_runs_are_averaged() {
        let records: Vec<_> = (1..=100_000).map(|n| step(n, (n % 2) as f64)).collect();
        let (losses, _) = curves(&records);
        assert!(losses[0].1.len() <= MOST_POINTS);
        assert!(losses[0].1.iter().all(|(_, loss)| (loss - 0.5).abs() < 1e-9));
        assert!(learning_curve_svg(&records).unwrap().len() < 60_000);
    }

    #[test]
    fn odd_runs_are_drawn() {
        for records in [
            vec![],
            vec![step(1, f64::NAN)],
            vec![step(5, 2.0)],
            vec![step(1, 1.0), step(1, 1.0)],
            vec![step(1, 1e300), step(2, -1e300)],
            vec![step(1, 1e-300), step(2, 2e-300)],
            vec![step(1, 1e12), step(2, 1e12 + 1e-4)],
        ] {
            let svg = learning_curve_svg(&records).unwrap();
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            assert!(!svg.contains("NaN"), "{records:?}");
        }
    }

    #[test]
    fn names_are_escaped() {
        let svg = learning_curve_svg(&[eval(1, &[("<a&b>", 1.0)])]).unwrap();
        assert!(svg.contains("dev &lt;a&amp;b&gt;") && !svg.contains("<a&"));
    }
}
