//! The page of a translation: every head as a picture, without a script.

use regard_report::{AlignmentHead, AlignmentKind, AlignmentReport, ReportError, alignment_svg};

use crate::page::ViewerError;
use crate::template::{escape_html, fill, json_in_script};

const PAGE: &str = include_str!("../assets/alignment.html");

/// One translation as a self-contained HTML page: source × target for the cross heads, which are open, and
/// the self-attention of encoder and decoder, which unfold; the numbers as JSON in `#data`. Each picture
/// stands in `details[data-kind][data-layer][data-head]`.
///
/// The page's size is about 250 bytes for each pair of each head: 2 MB for 20 tokens on each side and 36
/// heads.
///
/// # Errors
/// [`ViewerError::Report`] when the report is not valid.
pub fn alignment_page(report: &AlignmentReport) -> Result<String, ViewerError> {
    let fault = |source| ViewerError::Report { sentence: 0, source };
    report.validate().map_err(fault)?;
    let mut heads = String::new();
    for kind in [AlignmentKind::Cross, AlignmentKind::EncoderSelf, AlignmentKind::DecoderSelf] {
        let of_kind = report.heads.iter().filter(|head| head.kind == kind);
        let pictures = of_kind.map(|head| picture(report, head)).collect::<Result<String, _>>();
        let pictures = pictures.map_err(fault)?;
        if !pictures.is_empty() {
            heads.extend(["<section>\n", heading(kind), &pictures, "</section>\n"]);
        }
    }
    let title = match report.source_text.char_indices().nth(60) {
        Some((end, _)) => format!("Translation: {}…", &report.source_text[..end]),
        None => format!("Translation: {}", report.source_text),
    };
    let written = if report.given { "Target, given" } else { "Target, the model's own" };
    Ok(fill(
        PAGE,
        &[
            ("title", &escape_html(&title)),
            ("source", &escape_html(&report.source_text)),
            ("target", &escape_html(&report.target_text)),
            ("written", written),
            ("model", &escape_html(&format!("{}: {}", report.model, report.formula))),
            ("heads", &heads),
            ("data", &json_in_script(&serde_json::to_string(report)?)),
        ],
    ))
}

/// What a section shows.
fn heading(kind: AlignmentKind) -> &'static str {
    match kind {
        AlignmentKind::Cross => {
            "<h2>Target to source</h2>\n<p class=\"hint\">Rows are target tokens as they are about to \
             be written, columns source tokens.</p>\n"
        }
        AlignmentKind::EncoderSelf => {
            "<h2>Source to source</h2>\n<p class=\"hint\">Rows and columns are source tokens.</p>\n"
        }
        AlignmentKind::DecoderSelf => {
            "<h2>Target to target</h2>\n<p class=\"hint\">Rows are target tokens as they are about to \
             be written, columns what is written.</p>\n"
        }
    }
}

/// A head that unfolds.
fn picture(report: &AlignmentReport, head: &AlignmentHead) -> Result<String, ReportError> {
    let AlignmentHead { kind, layer, head, .. } = head;
    let svg = alignment_svg(report, *kind, *layer, *head)?;
    let open = if *kind == AlignmentKind::Cross { " open" } else { "" };
    let kind = kind.name();
    Ok(format!(
        "<details data-kind=\"{kind}\" data-layer=\"{layer}\" data-head=\"{head}\"{open}>\
         <summary>layer {layer}, head {head}</summary>\n<div class=\"scroll\">{svg}</div></details>\n"
    ))
}

#[cfg(test)]
mod tests {
    use regard_report::Matrix;

    use super::*;

    #[test]
    fn every_head_is_on_the_page_and_texts_are_safe() {
        let head = |kind, rows, cols| AlignmentHead {
            kind,
            layer: 0,
            head: 0,
            weights: Matrix::new(rows, cols, vec![0.25; rows * cols]),
            centres: None,
            sigma: None,
            radius: None,
        };
        let report = AlignmentReport {
            source: vec!["</script>".into()],
            target: vec!["a".into()],
            source_text: "</script>".into(),
            target_text: "a & b".into(),
            given: false,
            model: "transformer".into(),
            formula: "s = q·k / √d_k".into(),
            heads: vec![
                head(AlignmentKind::EncoderSelf, 1, 1),
                head(AlignmentKind::DecoderSelf, 2, 2),
                head(AlignmentKind::Cross, 2, 1),
            ],
        };
        let page = alignment_page(&report).unwrap();
        assert_eq!(page.matches("<details").count(), 3);
        assert_eq!(page.matches("\" open>").count(), 1);
        assert_eq!(page.matches("</script>").count(), 1);
        assert!(page.contains("a &amp; b") && page.contains("the model's own"));
        let (_, data) = page.split_once("id=\"data\">").unwrap();
        let data: AlignmentReport =
            serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
        assert_eq!(data, report);
        let mut empty = report;
        empty.target.clear();
        assert!(alignment_page(&empty).is_err());
    }
}
