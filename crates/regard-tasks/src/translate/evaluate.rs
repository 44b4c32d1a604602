//! How good translations of a file are, and how likely its references.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use regard_data::Pair;
use regard_metrics::translation::{
    Bleu, BleuScore, Chrf, ChrfScore, Corpus, Tokenisation, TranslationScore,
};
use serde::Serialize;

use super::decode::{TranslateOptions, Translated, force_until, translate_until};
use super::model::LoadedTranslator;
use crate::TaskError;
use crate::training::NEVER;

/// Scores of a model on parallel text.
#[derive(Debug, Clone, Serialize)]
pub struct TranslateEvaluation {
    /// BLEU.
    pub bleu: BleuScore,
    /// What was counted for it, as sacreBLEU writes it.
    pub bleu_signature: String,
    /// chrF.
    pub chrf: ChrfScore,
    /// What was counted for it.
    pub chrf_signature: String,
    /// Mean of −ln p over the references' tokens and ends; `None` without one.
    pub loss: Option<f64>,
    /// exp of that.
    pub perplexity: Option<f64>,
    /// Lines whose translation is the reference to the letter.
    pub exact: usize,
    /// Lines that were translated.
    pub lines: usize,
}

impl TranslateEvaluation {
    /// The main figures by name: BLEU and chrF in per cent, the loss in nats a token, the exact lines as a
    /// rate in [0, 1].
    pub fn figures(&self) -> BTreeMap<String, f64> {
        let mut figures = BTreeMap::from([
            ("bleu".to_string(), self.bleu.points()),
            ("chrf".to_string(), self.chrf.points()),
        ]);
        figures.insert("exact".to_string(), self.exact as f64 / self.lines.max(1) as f64);
        for (name, value) in [("loss", self.loss), ("perplexity", self.perplexity)] {
            if let Some(value) = value {
                figures.insert(name.to_string(), value);
            }
        }
        figures
    }
}

/// What is counted as the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScoreOptions {
    /// How lines become words.
    pub tokenisation: Tokenisation,
    /// Whether upper and lower case are the same. A model of lower-cased text is always scored so.
    pub lowercase: bool,
}

/// Translates the sources of pairs and scores the translations against the targets.
///
/// # Errors
/// As [`translate_lines`](super::translate_lines).
pub fn evaluate(
    model: &LoadedTranslator,
    pairs: &[Pair],
    options: &TranslateOptions,
    score: ScoreOptions,
) -> Result<(TranslateEvaluation, Vec<Translated>), TaskError> {
    evaluate_until(&NEVER, model, pairs, options, score)
}

/// As [`evaluate`], until `stop` is set: then [`TaskError::Stopped`].
pub(super) fn evaluate_until(
    stop: &AtomicBool,
    model: &LoadedTranslator,
    pairs: &[Pair],
    options: &TranslateOptions,
    score: ScoreOptions,
) -> Result<(TranslateEvaluation, Vec<Translated>), TaskError> {
    let lines: Vec<String> = pairs.iter().map(|pair| pair.source.clone()).collect();
    let translated = translate_until(stop, model, &lines, options)?;
    let lowercase = score.lowercase || model.config.data.lowercase;
    let mut bleu =
        Corpus::new(Bleu { tokenisation: score.tokenisation, lowercase, ..Bleu::default() });
    let mut chrf = Chrf::default();
    chrf.lowercase = lowercase;
    let mut chrf = Corpus::new(chrf);
    let mut exact = 0;
    for (pair, line) in pairs.iter().zip(&translated) {
        let text = line.translations.first().map_or("", |t| t.text.as_str());
        bleu.update(text, &[&pair.target])?;
        chrf.update(text, &[&pair.target])?;
        let same = |a: &str, b: &str| {
            if lowercase { a.to_lowercase() == b.to_lowercase() } else { a == b }
        };
        exact += usize::from(same(text, &pair.target));
    }
    let loss = loss(stop, model, pairs)?;
    let scores = TranslateEvaluation {
        bleu: bleu.finish(),
        bleu_signature: bleu.signature(),
        chrf: chrf.finish(),
        chrf_signature: chrf.signature(),
        loss,
        perplexity: loss.map(f64::exp),
        exact,
        lines: pairs.len(),
    };
    Ok((scores, translated))
}

/// Mean of −ln p over the tokens and ends of the targets; `None` where every pair has an empty
/// side.
///
/// # Errors
/// As [`force_until`].
pub(super) fn loss(
    stop: &AtomicBool,
    model: &LoadedTranslator,
    pairs: &[Pair],
) -> Result<Option<f64>, TaskError> {
    let mut sum = 0.0;
    let mut tokens = 0;
    for (log_prob, n) in force_until(stop, model, pairs)?.into_iter().flatten() {
        sum -= log_prob;
        tokens += n;
    }
    Ok((tokens > 0).then(|| sum / tokens as f64))
}
