//! The page: template, styles, script and data in one text.

use regard_report::{Align, AttentionReport, ReportError, Table};

use crate::template::{escape_html, fill, json_in_script};

const PAGE: &str = include_str!("../assets/page.html");
const STYLE: &str = include_str!("../assets/page.css");
/// The script in the order in which its parts build on each other.
const SCRIPT: &str = concat!(
    include_str!("../assets/numbers.js"),
    include_str!("../assets/dom.js"),
    include_str!("../assets/colours.js"),
    include_str!("../assets/heads.js"),
    include_str!("../assets/heatmap.js"),
    include_str!("../assets/lines.js"),
    include_str!("../assets/steps.js"),
    include_str!("../assets/main.js"),
);

/// Why a page could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewerError {
    /// A report does not hold together.
    #[error("the report of sentence {sentence} cannot be shown")]
    Report {
        /// Which report, from 0.
        sentence: usize,
        /// Its first fault.
        #[source]
        source: ReportError,
    },
    /// A report has no JSON form.
    #[error("the reports cannot be written as json")]
    Json(#[from] serde_json::Error),
    /// There is nothing to show.
    #[error("a page needs at least one report")]
    NoReports,
}

/// One sentence as a self-contained HTML page. Its numbers are the report's to the last bit.
///
/// The page's size is about 12 bytes for each number of the report: 0.6 MB for 20 words in 4 layers
/// of 4 heads with d = 32, and 12 MB for 100 words in 4 layers of 8 heads.
///
/// ```
/// use regard_report::{SampleShape, sample_report};
///
/// let report = sample_report(&["I", "saw", "a", "</script>"], &SampleShape::default(), 1);
/// let html = regard_viewer::page(&report)?;
/// assert!(html.starts_with("<!doctype html>"));
/// assert!(html.contains("<title>Attention: I saw a &lt;/script&gt;</title>"));
/// # Ok::<(), regard_viewer::ViewerError>(())
/// ```
///
/// # Errors
///
/// [`ViewerError::Report`] when the report is not valid, so that a page never shows numbers that
/// contradict each other.
pub fn page(report: &AttentionReport) -> Result<String, ViewerError> {
    let sentence = report.tokens.join(" ");
    let title = match sentence.char_indices().nth(60) {
        Some((end, _)) => format!("Attention: {}…", &sentence[..end]),
        None => format!("Attention: {sentence}"),
    };
    render(&title, "", None, std::slice::from_ref(report))
}

/// Several sentences as one self-contained HTML page with an introduction and a table of results
/// above. The reader chooses a sentence from a list; `intro` is plain text, its blank lines part
/// paragraphs.
///
/// ```
/// use regard_report::{Align, SampleShape, Table, sample_report};
///
/// let mut results = Table::new([("model", Align::Left), ("accuracy", Align::Right)]);
/// results.push(["self-attention", "98.7"]);
/// let reports = [["I", "saw"], ["a", "saw"]]
///     .map(|words| sample_report(&words, &SampleShape::default(), 1));
/// let html = regard_viewer::demo_page("Demo", &results, &reports, "Two sentences.")?;
/// assert!(html.contains("98.7") && html.contains("<p>Two sentences.</p>"));
/// # Ok::<(), regard_viewer::ViewerError>(())
/// ```
///
/// # Errors
///
/// [`ViewerError::NoReports`] for no sentence; [`ViewerError::Report`] for the first report that
/// is not valid.
pub fn demo_page(
    title: &str,
    results: &Table,
    reports: &[AttentionReport],
    intro: &str,
) -> Result<String, ViewerError> {
    render(title, intro, Some(results), reports)
}

fn render(
    title: &str,
    intro: &str,
    results: Option<&Table>,
    reports: &[AttentionReport],
) -> Result<String, ViewerError> {
    if reports.is_empty() {
        return Err(ViewerError::NoReports);
    }
    for (sentence, report) in reports.iter().enumerate() {
        report.validate().map_err(|source| ViewerError::Report { sentence, source })?;
    }
    let data = json_in_script(&serde_json::to_string(reports)?);
    let intro: String = intro
        .split("\n\n")
        .filter(|paragraph| !paragraph.trim().is_empty())
        .flat_map(|paragraph| ["<p>".into(), escape_html(paragraph.trim()), "</p>\n".into()])
        .collect();
    Ok(fill(
        PAGE,
        &[
            ("title", &escape_html(title)),
            ("intro", &intro),
            ("results", &results.map(results_html).unwrap_or_default()),
            ("css", STYLE),
            ("js", SCRIPT),
            ("data", &data),
        ],
    ))
}

fn results_html(table: &Table) -> String {
    let row = |cells: &[String], tag: &str| {
        let mut html = String::from("<tr>");
        for (cell, column) in cells.iter().zip(&table.columns) {
            let class = match column.align {
                Align::Left => "",
                Align::Right => " class=\"right\"",
            };
            let cell = escape_html(cell);
            html.extend(["<", tag, class, ">", &cell, "</", tag, ">"]);
        }
        html + "</tr>\n"
    };
    let names: Vec<String> = table.columns.iter().map(|c| c.name.clone()).collect();
    let head = row(&names, "th");
    let body: String = table.rows.iter().map(|cells| row(cells, "td")).collect();
    format!(
        "<section aria-labelledby=\"results-title\">\n<h2 id=\"results-title\">Results</h2>\n\
         <div class=\"scroll\"><table id=\"results\" class=\"results\">\n\
         <thead>{head}</thead>\n<tbody>{body}</tbody>\n</table></div>\n</section>"
    )
}
