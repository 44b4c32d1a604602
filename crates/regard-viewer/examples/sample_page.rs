//! Writes sample pages and everything else that is made from the same report, to be looked at and
//! to be tested in a browser: `cargo run -p regard-viewer --example sample_page -- FOLDER`.

use std::error::Error;
use std::path::Path;

use regard_report::{
    Align, AttentionReport, EvalRecord, MetricsRecord, ReportError, SampleShape, ScoreKind,
    StepRecord, Table, attention_csv, attention_npz, grid_svg, heatmap_svg, learning_curve_svg,
    sample_report, terminal_heatmap, write_atomic,
};
use regard_viewer::{demo_page, page};

const HOSTILE: [&str; 8] = [
    "</script><img src=x onerror=alert(1)>",
    "<!--",
    "\"quoted\"",
    "it's",
    "שלום",
    "مرحبا",
    "👩‍👩‍👧",
    "我看见了",
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: sample_page FOLDER")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;

    let shape = SampleShape::default();
    let words = ["I", "saw", "the", "saw", "on", "the", "old", "table"];
    let plain = sample_report(&words, &shape, 12);
    write_page(folder, "plain", &plain)?;
    write_atomic(folder.join("plain.csv"), attention_csv(&plain)?.as_bytes())?;
    write_atomic(folder.join("plain.npz"), &attention_npz(&plain)?)?;
    write_atomic(folder.join("head.svg"), heatmap_svg(&plain, 1, 2)?.as_bytes())?;
    write_atomic(folder.join("grid.svg"), grid_svg(&plain)?.as_bytes())?;
    write_atomic(folder.join("head.txt"), terminal_heatmap(&plain, 1, 2, 80)?.as_bytes())?;

    let additive = SampleShape { score: ScoreKind::Additive, reach: Some(2), ..shape };
    let mut hostile = sample_report(&HOSTILE, &additive, 5);
    for (guess, label) in hostile.predicted.iter_mut().zip(HOSTILE) {
        guess.label = label.into();
    }
    write_page(folder, "hostile", &hostile)?;

    let long: Vec<&str> = words.iter().copied().cycle().take(100).collect();
    let wide = SampleShape { n_layers: 4, n_heads: 8, d_k: 32, d_v: 32, ..shape };
    write_page(folder, "long", &sample_report(&long, &wide, 7))?;
    write_page(folder, "one", &sample_report(&["Yes"], &shape, 7))?;

    let none = SampleShape { n_layers: 0, ..shape };
    write_page(folder, "none", &sample_report(&words, &none, 7))?;

    let mut results = Table::new([
        ("model", Align::Left),
        ("all words", Align::Right),
        ("ambiguous words", Align::Right),
    ]);
    results.push(["fc per token", "81.2", "53.9"]);
    results.push(["self-attention", "99.1", "98.4"]);
    let reports = [plain, sample_report(&words[..3], &shape, 9), hostile];
    let intro = "Made-up numbers, to try the page.\n\nChoose a sentence below.";
    let html = demo_page("Sample results", &results, &reports, intro)?;
    write_atomic(folder.join("demo.html"), html.as_bytes())?;
    write_atomic(folder.join("demo.json"), serde_json::to_string(&reports)?.as_bytes())?;
    write_atomic(folder.join("curve.svg"), sample_curve()?.as_bytes())?;
    Ok(())
}

/// The learning curve of a run that never was.
fn sample_curve() -> Result<String, ReportError> {
    let mut records: Vec<MetricsRecord> = Vec::new();
    for step in 1..=600u64 {
        let far = step as f64 / 600.0;
        let noise = (step * 7919 % 101) as f64 / 101.0 - 0.5;
        records.push(MetricsRecord::Step(StepRecord {
            step,
            epoch: 1 + step / 100,
            tokens: 500 * step,
            loss: 0.1 + 2.5 * (-5.0 * far).exp() + 0.1 * noise,
            lr: 1e-3,
            grad_norm: 1.0,
            tokens_per_s: 5000.0,
            elapsed_s: 0.1 * step as f64,
        }));
        if step % 60 == 0 {
            let metrics = [
                ("loss".into(), 0.25 + 2.4 * (-5.0 * far).exp()),
                ("accuracy".into(), 0.95 - 0.6 * (-5.0 * far).exp()),
                ("accuracy_unseen".into(), 0.85 - 0.6 * (-4.0 * far).exp()),
            ];
            records.push(MetricsRecord::Eval(EvalRecord {
                step,
                epoch: 1 + step / 100,
                split: "dev".into(),
                metrics: metrics.into(),
                elapsed_s: 0.1 * step as f64,
            }));
        }
    }
    learning_curve_svg(&records)
}

/// `NAME.html`, and the report itself as `NAME.json`.
fn write_page(folder: &Path, name: &str, report: &AttentionReport) -> Result<(), Box<dyn Error>> {
    let html = page(report)?;
    write_atomic(folder.join(format!("{name}.html")), html.as_bytes())?;
    let json = serde_json::to_string(report)?;
    write_atomic(folder.join(format!("{name}.json")), json.as_bytes())?;
    Ok(())
}
