//! Accuracy and span scores of a model on labelled sentences.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use regard_data::{Sentence, plan_in_order};
use regard_metrics::{
    Scheme, SpanMetrics, SpanMode, SpanScores, TagMetrics, TagScores, TokenFlags,
};
use serde::Serialize;

use super::lexicon::Lexicon;
use super::model::LoadedTagger;
use crate::TaskError;
use crate::training::{NEVER, heed};

/// Scores of a model on a file.
#[derive(Debug, Clone, Serialize)]
pub struct TagEvaluation {
    /// Accuracy and scores of every label.
    pub tags: TagScores,
    /// Span scores as the CoNLL script counts them, where the labels name spans.
    pub conlleval: Option<SpanScores>,
    /// Span scores as strict matching counts them, where the labels name spans.
    pub strict: Option<SpanScores>,
    /// Labels of the file that training never saw, and which no prediction can match.
    pub unknown_labels: BTreeSet<String>,
}

impl TagEvaluation {
    /// The main figures by name; rates in [0, 1].
    pub fn figures(&self) -> BTreeMap<String, f64> {
        let mut figures = BTreeMap::new();
        let mut put = |name: &str, value: Option<f64>| {
            if let Some(value) = value {
                figures.insert(name.to_string(), value);
            }
        };
        put("accuracy", self.tags.accuracy.score());
        put("accuracy_unseen", self.tags.unseen.score());
        put("accuracy_ambiguous", self.tags.ambiguous.score());
        put("span_f1", self.conlleval.as_ref().and_then(|s| s.averages.micro.f1));
        put("span_f1_strict", self.strict.as_ref().and_then(|s| s.averages.micro.f1));
        figures
    }
}

/// Whether labels name spans: all are `O` or a letter of a span scheme with a type, and there is
/// at least one beginning or inside.
pub fn is_span_task<'a>(labels: impl Iterator<Item = &'a str>) -> bool {
    let mut spans = false;
    for label in labels {
        let typed = label
            .split_once('-')
            .is_some_and(|(mark, kind)| !kind.is_empty() && ["B", "I", "E", "S"].contains(&mark));
        if !typed && label != "O" {
            return false;
        }
        spans |= typed;
    }
    spans
}

/// The score of predicted labels against the sentences' own; with `spans`, of whole spans too, which
/// every label must then be a part of.
pub(crate) fn score_labels(
    sentences: &[Sentence],
    predicted: &[Vec<String>],
    lexicon: Option<&Lexicon>,
    spans: bool,
) -> Result<TagEvaluation, TaskError> {
    let mut tags = TagMetrics::new();
    for (sentence, predicted) in sentences.iter().zip(predicted) {
        let flag = |word: &String| {
            lexicon.map_or_else(TokenFlags::default, |lexicon| TokenFlags {
                unseen: !lexicon.seen.is_seen(word),
                ambiguous: lexicon.seen.is_ambiguous(word),
            })
        };
        let flags: Vec<TokenFlags> = sentence.words.iter().map(flag).collect();
        tags.update(&sentence.labels, predicted, &flags)?;
    }
    let labels = || sentences.iter().flat_map(|s| &s.labels);
    let score = |mode| -> Result<Option<SpanScores>, TaskError> {
        if !spans {
            return Ok(None);
        }
        let gold: Vec<&[String]> = sentences.iter().map(|s| &s.labels[..]).collect();
        // Labels that follow no scheme throughout are still scored, as IOB2 or, where they mark
        // ends or single words, as IOBES.
        let marked = labels().any(|l| l.starts_with("E-") || l.starts_with("S-"));
        let fallback = if marked { Scheme::Iobes } else { Scheme::Iob2 };
        let scheme = Scheme::detect(&gold).unwrap_or(fallback);
        let mut metrics = SpanMetrics::new(mode, scheme);
        for (sentence, predicted) in sentences.iter().zip(predicted) {
            metrics.update(&sentence.labels, predicted)?;
        }
        Ok(Some(metrics.finish()))
    };
    let unknown = |label: &&String| lexicon.is_some_and(|l| l.labels.id(label).is_none());
    Ok(TagEvaluation {
        tags: tags.finish(),
        conlleval: score(SpanMode::ConllEval)?,
        strict: score(SpanMode::Strict)?,
        unknown_labels: labels().filter(unknown).cloned().collect(),
    })
}

/// Predicted labels.
pub(super) struct Labelled {
    /// Those of each sentence, in the order of the sentences.
    pub(super) labels: Vec<Vec<String>>,
    /// Whether they were chosen by finite numbers alone.
    pub(super) is_finite: bool,
}

/// Labels sentences in batches of at most `batch_tokens` words, until `stop` is set: then
/// [`TaskError::Stopped`] before the next batch.
pub(super) fn label(
    stop: &AtomicBool,
    model: &LoadedTagger,
    sentences: &[Sentence],
    batch_tokens: usize,
) -> Result<Labelled, TaskError> {
    let lengths: Vec<usize> = sentences.iter().map(|s| s.words.len()).collect();
    let mut labels = vec![Vec::new(); sentences.len()];
    let mut is_finite = true;
    for batch in plan_in_order(&lengths, batch_tokens) {
        heed(stop)?;
        let chosen: Vec<&Sentence> = batch.iter().map(|i| &sentences[*i]).collect();
        let ids = model.lexicon.ids(&chosen, None);
        let logits = model.logits(&ids, None)?;
        is_finite &= logits.data().iter().all(|x| x.is_finite());
        let best = model.tagger.decode(model.params(), &logits, &ids);
        for (b, i) in batch.into_iter().enumerate() {
            let rows = ids.items.rows(b);
            labels[i] =
                best[rows].iter().map(|l| model.lexicon.labels.name(*l).to_string()).collect();
        }
    }
    Ok(Labelled { labels, is_finite })
}

/// Labels sentences and scores the labels against their own.
///
/// # Errors
/// The sentences have no labels, or the model refuses.
pub fn evaluate(model: &LoadedTagger, sentences: &[Sentence]) -> Result<TagEvaluation, TaskError> {
    Ok(evaluate_until(&NEVER, model, sentences)?.0)
}

/// As [`evaluate`], until `stop` is set: then [`TaskError::Stopped`]. Also gives whether the labels were
/// chosen by finite numbers alone.
pub(super) fn evaluate_until(
    stop: &AtomicBool,
    model: &LoadedTagger,
    sentences: &[Sentence],
) -> Result<(TagEvaluation, bool), TaskError> {
    let Labelled { labels: predicted, is_finite } = label(stop, model, sentences, 2048)?;
    // A model trained on other labels may predict what is no span: then there are no span scores.
    let gold = || sentences.iter().flat_map(|s| &s.labels).map(String::as_str);
    let guesses = predicted.iter().flatten().map(String::as_str);
    let spans = is_span_task(gold()) && is_span_task(gold().chain(guesses));
    Ok((score_labels(sentences, &predicted, Some(&model.lexicon), spans)?, is_finite))
}
