//! Every SVG picture is well-formed XML, whatever the words.

use regard_report::{
    EvalRecord, SampleShape, grid_svg, heatmap_svg, learning_curve_svg, sample_report,
};

const WORDS: [&str; 8] = [
    "</svg><script>alert(1)</script>",
    "\"quoted\" & 'so'",
    "]]>",
    "<!--",
    "&amp;",
    "שלום",
    "👩‍👩‍👧",
    "\u{0}\u{1b}\u{fffe}",
];

/// Panics unless `xml` is one element tree: tags nest, attributes are quoted, `<` and `&` occur
/// only as markup and as the five named or a numbered reference, and every character is allowed.
fn assert_well_formed(xml: &str) {
    let mut open = Vec::new();
    let mut rest = xml;
    let mut roots = 0;
    while let Some(at) = rest.find('<') {
        assert_text(&rest[..at]);
        let end = at + rest[at..].find('>').expect("a tag is closed");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "</{name}>");
            continue;
        }
        let (tag, alone) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(name.chars().all(char::is_alphanumeric), "<{tag}>");
        assert_attributes(attributes);
        roots += usize::from(open.is_empty());
        if !alone {
            open.push(name);
        }
    }
    assert_eq!(rest.trim(), "");
    assert_eq!((roots, open.len()), (1, 0));
}

fn assert_attributes(text: &str) {
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").expect("a value in quotes");
        assert!(name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == ':'), "{name}");
        let (value, after) = value.split_once('"').expect("a closing quote");
        assert_text(value);
        rest = after.trim_start();
    }
}

fn assert_text(text: &str) {
    for part in text.split('&').skip(1) {
        let (name, _) = part.split_once(';').expect("a reference ends");
        let known = ["amp", "lt", "gt", "quot", "apos"].contains(&name);
        assert!(known || name.starts_with('#'), "&{name};");
    }
    for c in text.chars() {
        let allowed = c >= ' ' || c == '\n' || c == '\t';
        assert!(allowed && c != '\u{fffe}' && c != '\u{ffff}', "{c:?}");
    }
}

#[test]
fn the_checker_finds_faults() {
    for bad in ["<a>", "<a></b>", "<a/><b/>", "<a>&b</a>", "<a b=c/>", "<a>\u{1b}</a>", "<a/>x"] {
        let found = std::panic::catch_unwind(|| assert_well_formed(bad));
        assert!(found.is_err(), "{bad}");
    }
    assert_well_formed("<a b=\"c d\"><e/>text &lt; &#39;</a>\n");
}

#[test]
fn heat_maps_and_grids() {
    for reach in [None, Some(1)] {
        let shape = SampleShape { reach, ..SampleShape::default() };
        let mut report = sample_report(&WORDS, &shape, 1);
        report.model.name = WORDS.join(" ");
        report.model.formula = WORDS.join(" ");
        assert_well_formed(&heatmap_svg(&report, 0, 0).unwrap());
        assert_well_formed(&grid_svg(&report).unwrap());

        let long: Vec<&str> = WORDS.iter().copied().cycle().take(67).collect();
        let report = sample_report(&long, &shape, 1);
        assert_well_formed(&heatmap_svg(&report, 1, 3).unwrap());
        let grid = grid_svg(&report).unwrap();
        assert_well_formed(&grid);
        // 67 words share cells three at a time: 23 to a side.
        let cells = grid.matches("<rect").count();
        assert!((8 * 23 * 23..8 * 23 * 23 + 30).contains(&cells), "{cells}");
    }
}

#[test]
fn learning_curves() {
    assert_well_formed(&learning_curve_svg(&[]).unwrap());
    let record = |step| EvalRecord {
        step,
        epoch: 1,
        split: WORDS.join(" "),
        metrics: WORDS.iter().map(|word| ((*word).into(), 0.5)).collect(),
        elapsed_s: 1.0,
    };
    let records: Vec<_> = (1..50).map(|step| record(step).into()).collect();
    assert_well_formed(&learning_curve_svg(&records).unwrap());
}
