//! Scores of predicted labels against gold ones, and of translations against references, without a model.

pub mod translation;

use std::path::Path;

use regard_data::{Format, Sentence, read_path};

use crate::TaskError;
use crate::tag::{Lexicon, TagEvaluation, is_span_task};

/// Compares two labelled files of the same words.
///
/// `train`, where given, is the training file: it tells which words are unseen and which are
/// ambiguous.
///
/// # Errors
/// A file cannot be read, or the files differ in sentences or words.
pub fn score_files(
    gold: &Path,
    predicted: &Path,
    format: &str,
    column: &str,
    train: Option<&Path>,
) -> Result<TagEvaluation, TaskError> {
    let read = |path: &Path| -> Result<Vec<Sentence>, TaskError> {
        let format = Format::of_file(format, column, path)?;
        if !format.has_labels() {
            return Err(TaskError::NoLabels(path.display().to_string()));
        }
        Ok(read_path(path, &format)?)
    };
    let (gold, guesses) = (read(gold)?, read(predicted)?);
    let mismatch = |sentence: usize, line: usize, fault: String| TaskError::Mismatch {
        file: predicted.display().to_string(),
        sentence: sentence + 1,
        line,
        fault,
    };
    for (i, (a, b)) in gold.iter().zip(&guesses).enumerate() {
        if a.words.len() != b.words.len() {
            let fault = format!("{} words, the gold file has {}", b.words.len(), a.words.len());
            return Err(mismatch(i, b.first_line, fault));
        }
        if let Some((x, y)) = a.words.iter().zip(&b.words).find(|(x, y)| x != y) {
            let fault = format!("word {y:?} where the gold file has {x:?}");
            return Err(mismatch(i, b.first_line, fault));
        }
    }
    if gold.len() != guesses.len() {
        let shorter = gold.len().min(guesses.len());
        let line = guesses.get(shorter).or(guesses.last()).map_or(1, |s| s.first_line);
        let fault = format!("{} sentences, the gold file has {}", guesses.len(), gold.len());
        return Err(mismatch(shorter.max(1) - 1, line, fault));
    }
    let lexicon = train.map(read).transpose()?.map(|train| Lexicon::build(&train, 1, false));
    let labels: Vec<Vec<String>> = guesses.into_iter().map(|s| s.labels).collect();
    let spans = is_span_task(gold.iter().flat_map(|s| &s.labels).map(String::as_str));
    crate::tag::score_labels(&gold, &labels, lexicon.as_ref(), spans)
}
