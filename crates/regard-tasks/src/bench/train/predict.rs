//! Timing a case's labels for new sentences: one at a time, and in bulk.

use std::time::{Duration, Instant};

use regard_data::plan_in_order;
use regard_nn::models::TokenIds;
use regard_nn::{NnError, PackedParams, ParamSpecs, Params, Tape};
use regard_tensor::{parallel, simd};
use serde::Serialize;

use super::SEED;
use super::cases::TrainCase;
use super::data::{Work, together};
use super::measure::{median, sorted};
use super::model::Model;

/// Tokens of a batch at most, in bulk.
const BULK_TOKENS: usize = 2048;

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PredictLine {
    /// `regard`.
    #[serde(rename = "impl")]
    pub implementation: &'static str,
    /// Version of the toolkit.
    pub version: &'static str,
    /// How it is computed; there is one way.
    pub path: &'static str,
    /// Whose first weights label the sentences.
    pub case: TrainCase,
    /// Number of sentences.
    pub sentences: usize,
    /// Their tokens.
    pub tokens: usize,
    /// Sentences a second one at a time, by the median pass over all of them.
    pub one_per_s: f64,
    /// Sentences a second in batches, the median over passes likewise.
    pub bulk_per_s: f64,
    /// The likeliest label of every token, sentence by sentence.
    pub labels: Vec<u32>,
    /// Number of threads.
    pub threads: usize,
    /// SIMD level in use.
    pub simd: &'static str,
}

/// The likeliest label of every token of a batch.
fn label(model: &Model, packed: &PackedParams<f32>, ids: &TokenIds) -> Result<Vec<u32>, NnError> {
    let mut tape = Tape::inference(packed);
    let logits = model.logits(&mut tape, ids)?;
    let logits = tape.value(logits);
    let likeliest = |row: &[f32]| {
        let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
        best.map_or(0, |(label, _)| label as u32)
    };
    Ok(logits.data().chunks_exact(logits.cols()).map(likeliest).collect())
}

/// Labels the sentences of the work by the case's first weights for about `budget` one at a time and then in bulk, at least
/// three passes of each after one that warms up.
///
/// # Errors
/// The model refuses.
pub fn measure_prediction(work: &Work, budget: Duration) -> Result<PredictLine, NnError> {
    let case = &work.case;
    let mut specs = ParamSpecs::new();
    let model = Model::new(&mut specs, case)?;
    let packed = PackedParams::new(&Params::new(specs, SEED));
    let sentences = work.sentences();
    let lengths: Vec<usize> = sentences.iter().map(|ids| ids.words.len()).collect();
    let mut by_length: Vec<usize> = (0..sentences.len()).collect();
    by_length.sort_by_key(|i| lengths[*i]);
    let sorted_lengths: Vec<usize> = by_length.iter().map(|i| lengths[*i]).collect();
    let batch = |batch: Vec<usize>| {
        let chosen: Vec<&TokenIds> = batch.into_iter().map(|i| &sentences[by_length[i]]).collect();
        together(&chosen)
    };
    let batches: Vec<TokenIds> =
        plan_in_order(&sorted_lengths, BULK_TOKENS).into_iter().map(batch).collect();

    let mut labels = Vec::new();
    let one = passes(budget, || {
        labels = sentences
            .iter()
            .map(|sentence| label(&model, &packed, sentence))
            .collect::<Result<Vec<_>, _>>()?
            .concat();
        Ok(())
    })?;
    let bulk = passes(budget, || {
        for batch in &batches {
            label(&model, &packed, batch)?;
        }
        Ok(())
    })?;
    let n = sentences.len();
    Ok(PredictLine {
        implementation: "regard",
        version: env!("CARGO_PKG_VERSION"),
        path: "native",
        case: *case,
        sentences: n,
        tokens: lengths.iter().sum(),
        one_per_s: n as f64 / one,
        bulk_per_s: n as f64 / bulk,
        labels,
        threads: parallel::threads(),
        simd: simd::level().name(),
    })
}

/// Seconds of the median pass.
fn passes(budget: Duration, mut pass: impl FnMut() -> Result<(), NnError>) -> Result<f64, NnError> {
    pass()?;
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < 3 || begin.elapsed() < budget {
        let start = Instant::now();
        pass()?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(median(&sorted(times.into_iter())))
}

#[cfg(test)]
mod tests {
    use super::super::cases::chosen;
    use super::*;

    #[test]
    fn sentences_get_the_same_labels_alone_and_in_bulk() {
        let small = chosen(&["small".into()], &[]).unwrap()[0];
        for model in super::super::TrainModel::ALL {
            let case = TrainCase { model, ..small };
            let mut specs = ParamSpecs::new();
            let model = Model::new(&mut specs, &case).unwrap();
            let packed = PackedParams::new(&Params::new(specs, SEED));
            let work = Work::drawn(case);
            let sentences = work.sentences();
            let all = together(&sentences.iter().collect::<Vec<_>>());
            let together = label(&model, &packed, &all).unwrap();
            let line = measure_prediction(&work, Duration::ZERO).unwrap();
            assert_eq!((line.sentences, line.tokens), (80, together.len()));
            assert_eq!(line.labels, together);
            assert!(line.one_per_s > 0.0 && line.bulk_per_s > 0.0);
            assert!(line.labels.iter().any(|label| *label != line.labels[0]));
        }
    }
}
