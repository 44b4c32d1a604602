//! `regard bench attention`: one line of numbers a variant, shape and pass.

use std::time::Duration;

use regard_tensor::{parallel, peak, simd};
use serde::Serialize;

use super::cases::{Case, VARIANTS, cases};
use super::choice::{BenchError, known};
use super::measure::{Pass, measure};

/// Sizes of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names of the sizes are the documentation")]
pub struct ShapeLine {
    pub name: String,
    pub batch: usize,
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub q_len: usize,
    pub kv_len: usize,
    pub d_k: usize,
    pub d_v: usize,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchLine {
    /// `regard`.
    #[serde(rename = "impl")]
    pub implementation: &'static str,
    /// Version of the toolkit.
    pub version: &'static str,
    /// Which variant.
    pub variant: String,
    /// Its sizes.
    pub shape: ShapeLine,
    /// `forward` or `forward_backward`.
    pub pass: &'static str,
    /// Median over the runs.
    pub seconds_median: f64,
    /// The fastest run.
    pub seconds_min: f64,
    /// The slowest run.
    pub seconds_max: f64,
    /// Number of runs.
    pub runs: usize,
    /// Operations over allowed pairs a second: 2·(d_k + d_v) a pair forward, 8·d_k + 6·d_v with
    /// backward; the softmax is not counted.
    pub gflops: f64,
    /// That, as a fraction of [`BenchLine::peak_gflops`].
    pub peak_fraction: f64,
    /// What the threads reach by multiply-adds in registers, measured in the same run.
    pub peak_gflops: f64,
    /// The most memory held at once above inputs, results and what was held before, in bytes; 0 where
    /// the program does not count its memory.
    pub extra_peak_bytes: usize,
    /// For decoding: keys and values read a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gbytes_per_s: Option<f64>,
    /// For decoding: what the threads reach reading memory from end to end, measured in the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gbytes_per_s: Option<f64>,
    /// Number of threads.
    pub threads: usize,
    /// SIMD level in use.
    pub simd: &'static str,
}

/// The cases of these variants and shapes, each once; of all where nothing is named.
///
/// # Errors
/// An unknown name; variants that have none of the shapes.
pub fn chosen(variants: &[String], shapes: &[String]) -> Result<Vec<Case>, BenchError> {
    const SHAPES: [&str; 8] =
        ["all", "long", "short", "small", "small_16", "small_25", "small_64", "own"];
    let shapes = if shapes.is_empty() { vec!["all"] } else { known("shape", shapes, &SHAPES)? };
    let mut chosen: Vec<Case> = Vec::new();
    for variant in known("variant", variants, &VARIANTS)? {
        for case in shapes.iter().flat_map(|shape| cases(variant, shape)) {
            if !chosen.contains(&case) {
                chosen.push(case);
            }
        }
    }
    if chosen.is_empty() { Err(BenchError::NoCase) } else { Ok(chosen) }
}

/// The passes that a case is measured in: decoding has no backward.
pub fn passes(case: &Case) -> &'static [Pass] {
    if case.variant.starts_with("decode") {
        &[Pass::Forward]
    } else {
        &[Pass::Forward, Pass::ForwardBackward]
    }
}

/// Measures one pass of a case for about `budget`, in at least three runs.
///
/// # Errors
/// The engine refuses the call.
pub fn measure_line(case: &Case, pass: Pass, budget: Duration) -> Result<BenchLine, BenchError> {
    let threads = parallel::threads();
    let before = peak::multiply_add_peak(threads);
    let mut measured = measure(case, pass, budget)?;
    // Again: the clock of a processor that did nothing before may have been low.
    let peak_gflops = before.max(peak::multiply_add_peak(threads));
    measured.seconds.sort_by(f64::total_cmp);
    let seconds = &measured.seconds;
    let median = seconds[seconds.len() / 2];
    let d = case.dims;
    let of_pair = match pass {
        Pass::Forward => 2 * (d.d_k + d.d_v),
        Pass::ForwardBackward => 8 * d.d_k + 6 * d.d_v,
    };
    let gflops = (measured.pairs * of_pair) as f64 / median / 1e9;
    let read = 4 * case.batch * case.kv_len * d.n_kv_heads * (d.d_k + d.d_v);
    let decodes = case.variant.starts_with("decode");
    Ok(BenchLine {
        implementation: "regard",
        version: env!("CARGO_PKG_VERSION"),
        variant: case.variant.into(),
        shape: ShapeLine {
            name: case.shape.into(),
            batch: case.batch,
            n_heads: d.n_heads,
            n_kv_heads: d.n_kv_heads,
            q_len: case.q_len,
            kv_len: case.kv_len,
            d_k: d.d_k,
            d_v: d.d_v,
        },
        pass: pass.name(),
        seconds_median: median,
        seconds_min: seconds[0],
        seconds_max: seconds[seconds.len() - 1],
        runs: seconds.len(),
        gflops,
        peak_fraction: gflops / peak_gflops,
        peak_gflops,
        extra_peak_bytes: measured.extra_peak_bytes,
        gbytes_per_s: decodes.then(|| read as f64 / median / 1e9),
        memory_gbytes_per_s: decodes.then(|| peak::read_peak(threads)),
        threads,
        simd: simd::level().name(),
    })
}
