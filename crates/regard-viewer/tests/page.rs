//! What must hold of every page, read as text; a browser test looks at it in use.

use regard_report::{Align, AttentionReport, SampleShape, ScoreKind, Table, sample_report};
use regard_viewer::{ViewerError, demo_page, page};

const HOSTILE: [&str; 9] = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "\"';--",
    "{{data}}",
    "שלום",
    "👩‍👩‍👧",
    "\u{2028}",
    "&lt;",
    "",
];

fn report(words: &[&str]) -> AttentionReport {
    let shape =
        SampleShape { score: ScoreKind::Additive, reach: Some(2), ..SampleShape::default() };
    let mut report = sample_report(words, &shape, 3);
    report.model.name = HOSTILE.concat();
    report.model.scope = HOSTILE.concat();
    for (guess, label) in report.predicted.iter_mut().zip(HOSTILE) {
        guess.label = label.into();
    }
    report
}

/// The text of the element `<script type="application/json" id="data">` as HTML parses it.
fn embedded(html: &str) -> Vec<AttentionReport> {
    let (_, after) = html.split_once("id=\"data\">").unwrap();
    let (json, _) = after.split_once("</script").unwrap();
    serde_json::from_str(json).unwrap()
}

#[test]
fn the_embedded_numbers_are_the_reports_to_the_last_bit() {
    let report = report(&HOSTILE);
    let html = page(&report).unwrap();
    assert_eq!(embedded(&html), [report]);
}

#[test]
fn hostile_words_stay_words() {
    let report = report(&HOSTILE);
    let mut results = Table::new([(HOSTILE.concat(), Align::Left)]);
    results.push([HOSTILE.concat()]);
    let title = HOSTILE.concat();
    for html in [
        page(&report).unwrap(),
        demo_page(&title, &results, &[report.clone(), report], &title).unwrap(),
    ] {
        assert!(!html.contains("<img") && !html.contains("<!--"));
        assert_eq!(html.matches("<script").count(), 2);
        assert_eq!(html.matches("</script").count(), 2);
    }
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let html = page(&sample_report(&["a", "b"], &SampleShape::default(), 1)).unwrap();
    // The one address is the name of SVG, which no browser fetches.
    let addresses: Vec<_> = html.match_indices("//www.").collect();
    assert_eq!(addresses.len(), html.matches("http://www.w3.org/2000/svg").count());
    assert_eq!(html.matches("://").count(), addresses.len());
    for part in [" src=", "@import", "url(", "fetch(", "XMLHttpRequest", "WebSocket"] {
        assert!(!html.contains(part), "{part}");
    }
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn script_inserts_no_markup() {
    let html = page(&report(&["a"])).unwrap();
    for part in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
        assert!(!html.contains(part), "{part}");
    }
}

#[test]
fn faults_are_told_with_the_sentence() {
    let table = Table::new(Vec::<(String, Align)>::new());
    assert!(matches!(demo_page("t", &table, &[], ""), Err(ViewerError::NoReports)));
    let good = report(&["a", "b"]);
    let mut bad = good.clone();
    bad.layers[1].heads[2].weights.data[0] = f32::NAN;
    let error = demo_page("t", &table, &[good, bad], "").unwrap_err();
    assert!(matches!(error, ViewerError::Report { sentence: 1, .. }));
}
