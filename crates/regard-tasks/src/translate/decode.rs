//! Lines of text through a model: tokens, batches, search, text again.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use regard_data::plan_in_order;
use regard_nn::models::translation::decode::{DecodeConfig, Hypothesis, LengthPenalty, translate};
use regard_nn::models::translation::{PairBatch, Sequences, UNKNOWN};
use serde::Serialize;

use super::model::LoadedTranslator;
use crate::TaskError;
use crate::training::{NEVER, heed};

/// Tokens that a batch may come to in decoding: source tokens times the beam.
const BATCH_TOKENS: usize = 4096;
/// Tokens of a line, at most. Attention grows with the square of it: what takes minutes at this length
/// would take days for a file that has no line ends.
const MAX_TOKENS: usize = 10_000;
/// Limits of length are multiples of this, so that sources of about one length share a batch.
const LENGTH_STEP: usize = 16;

/// How to translate.
#[derive(Debug, Clone, PartialEq)]
pub struct TranslateOptions {
    /// Prefixes that go on at each step; 1 is greedy search.
    pub beam: usize,
    /// Translations of each line, at most `beam`.
    pub n_best: usize,
    /// The length penalty.
    pub length_penalty: LengthPenalty,
    /// β of the coverage penalty (models with attention).
    pub coverage_penalty: f64,
    /// Fewest tokens of a translation.
    pub min_length: usize,
    /// Most tokens of a translation; 0 for twice the source's and ten more, but at most its length and a
    /// hundred more, rounded up to a multiple of 16. The source counts as `min_length` tokens at least.
    pub max_length: usize,
    /// Length of the runs of tokens that may not come twice; 0 allows all.
    pub no_repeat: usize,
    /// Whether unknown words are replaced by the source words most looked at (words and characters).
    pub replace_unknown: bool,
    /// Whether translations come with their alignments.
    pub alignments: bool,
}

impl TranslateOptions {
    /// Greedy search.
    pub fn greedy() -> Self {
        Self {
            beam: 1,
            n_best: 1,
            length_penalty: LengthPenalty::None,
            coverage_penalty: 0.0,
            min_length: 0,
            max_length: 0,
            no_repeat: 0,
            replace_unknown: false,
            alignments: false,
        }
    }

    fn search(&self, max_length: usize) -> DecodeConfig {
        DecodeConfig {
            beam: self.beam,
            n_best: self.n_best,
            max_length,
            min_length: self.min_length,
            length_penalty: self.length_penalty,
            coverage_penalty: self.coverage_penalty,
            no_repeat: self.no_repeat,
            attention: self.alignments || self.replace_unknown,
        }
    }

    /// Most tokens of the translation of a source. It depends on that source alone, so that a line is
    /// translated alike in any company.
    fn limit(&self, source_len: usize) -> usize {
        match self.max_length {
            0 => {
                let len = source_len.max(self.min_length);
                (len + (len + 10).min(100)).next_multiple_of(LENGTH_STEP)
            }
            limit => limit,
        }
    }
}

/// A translation of a line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Translation {
    /// The text.
    pub text: String,
    /// Its tokens.
    pub tokens: Vec<String>,
    /// Σ ln p of its tokens and its end.
    pub log_prob: f64,
    /// What the translations of a line are ranked by: `log_prob` with the penalties.
    pub score: f64,
    /// Whether it ended by itself rather than at the longest length.
    pub finished: bool,
    /// For each of its tokens, the place of the source token most looked at; empty unless asked for.
    pub alignment: Vec<usize>,
}

/// A line with its translations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Translated {
    /// The line's tokens.
    pub source_tokens: Vec<String>,
    /// Its translations, best first. An empty line has one, which is empty.
    pub translations: Vec<Translation>,
}

/// Translates lines.
///
/// # Errors
/// An option out of range, such as a beam of 0 or wider than the vocabulary; a line longer than
/// the model can read, or than 10 000 tokens; alignments or replacements of a model without attention;
/// replacements where subwords leave nothing unknown.
pub fn translate_lines(
    model: &LoadedTranslator,
    lines: &[String],
    options: &TranslateOptions,
) -> Result<Vec<Translated>, TaskError> {
    translate_until(&NEVER, model, lines, options)
}

/// As [`translate_lines`], until `stop` is set: then [`TaskError::Stopped`] before the next batch.
pub(super) fn translate_until(
    stop: &AtomicBool,
    model: &LoadedTranslator,
    lines: &[String],
    options: &TranslateOptions,
) -> Result<Vec<Translated>, TaskError> {
    let kind = model.config.model.kind;
    if (options.alignments || options.replace_unknown) && !kind.has_attention() {
        return Err(TaskError::NoAlignment(kind.to_string()));
    }
    let tokens = model.lexicon.source().settings().kind;
    if options.replace_unknown && tokens.is_subword() {
        return Err(TaskError::NothingUnknown(tokens));
    }
    // Also where there is no line to find it out with.
    options.search(options.limit(0)).check(model.lexicon.target().len())?;
    let tokeniser = model.lexicon.source();
    let encode = |line: &String| tokeniser.encode(line);
    let sources = lines.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
    let lengths: Vec<usize> = sources.iter().map(Vec::len).collect();
    for (i, tokens) in lengths.iter().enumerate() {
        check_length(i + 1, &lines[i], *tokens)?;
    }
    let mut done: Vec<Option<Translated>> = vec![None; lines.len()];
    for i in (0..lines.len()).filter(|i| lengths[*i] == 0) {
        let (text, tokens, alignment) = (String::new(), Vec::new(), Vec::new());
        let empty =
            Translation { text, tokens, log_prob: 0.0, score: 0.0, finished: true, alignment };
        done[i] = Some(Translated { source_tokens: Vec::new(), translations: vec![empty] });
    }
    for batch in plan_in_order(&lengths, (BATCH_TOKENS / options.beam.max(1)).max(1)) {
        let mut rest = batch.as_slice();
        while let Some(first) = rest.first() {
            let limit = options.limit(lengths[*first]);
            let same = rest.iter().take_while(|i| options.limit(lengths[**i]) == limit).count();
            let (chosen, after) = rest.split_at(same);
            rest = after;
            let chosen: Vec<usize> = chosen.iter().copied().filter(|i| lengths[*i] > 0).collect();
            if chosen.is_empty() {
                continue;
            }
            heed(stop)?;
            let packed: Vec<&[u32]> = chosen.iter().map(|i| sources[*i].as_slice()).collect();
            let found = translate(
                &model.translator,
                &model.params,
                &Sequences::new(&packed),
                &options.search(limit),
            )?;
            for (i, hypotheses) in chosen.into_iter().zip(found) {
                done[i] = Some(spell(model, &lines[i], &sources[i], hypotheses, options)?);
            }
        }
    }
    Ok(done.into_iter().flatten().collect())
}

impl LoadedTranslator {
    /// The tokens of the best translation of a source that is not empty.
    pub(super) fn best(
        &self,
        source: &[u32],
        options: &TranslateOptions,
    ) -> Result<Vec<u32>, TaskError> {
        let search = options.search(options.limit(source.len()));
        let packed = Sequences::new(&[source]);
        let found = translate(&self.translator, &self.params, &packed, &search)?;
        Ok(found.into_iter().flatten().next().map(|best| best.tokens).unwrap_or_default())
    }
}

/// Refuses a line that would take hours.
pub(super) fn check_length(line: usize, text: &str, tokens: usize) -> Result<(), TaskError> {
    if tokens <= MAX_TOKENS {
        return Ok(());
    }
    let text = text.chars().take(40).chain(['…']).collect();
    Err(TaskError::LongLine { line, tokens, most: MAX_TOKENS, text })
}

/// The text of what the search found for a line.
fn spell(
    model: &LoadedTranslator,
    line: &str,
    source: &[u32],
    hypotheses: Vec<Hypothesis>,
    options: &TranslateOptions,
) -> Result<Translated, TaskError> {
    let (from, to) = (model.lexicon.source(), model.lexicon.target());
    let spelled = if options.replace_unknown { from.spelled(line) } else { None };
    let mut translations = Vec::with_capacity(hypotheses.len());
    for found in hypotheses {
        let looked: Vec<usize> = found.attention.iter().map(|row| most(row)).collect();
        let mut replaced = HashMap::new();
        if let Some(spelled) = &spelled {
            for (i, (id, at)) in found.tokens.iter().zip(&looked).enumerate() {
                if let (UNKNOWN, Some(word)) = (*id, spelled.get(*at)) {
                    replaced.insert(i, word.clone());
                }
            }
        }
        translations.push(Translation {
            text: to.decode_with(&found.tokens, &replaced)?,
            tokens: to.pieces(&found.tokens)?,
            log_prob: found.log_prob,
            score: found.score,
            finished: found.finished,
            alignment: if options.alignments {
                looked[..found.tokens.len().min(looked.len())].to_vec()
            } else {
                Vec::new()
            },
        });
    }
    Ok(Translated { source_tokens: from.pieces(source)?, translations })
}

/// The place of the largest weight, the first of several.
fn most(row: &[f32]) -> usize {
    let mut best = 0;
    for (j, weight) in row.iter().enumerate() {
        if *weight > row[best] {
            best = j;
        }
    }
    best
}

/// How likely given translations are: for each pair Σ ln p of its tokens and its end, and their
/// number; `None` for a pair with an empty side.
///
/// # Errors
/// As [`translate_lines`].
pub fn force_decode(
    model: &LoadedTranslator,
    pairs: &[regard_data::Pair],
) -> Result<Vec<Option<(f64, usize)>>, TaskError> {
    force_until(&NEVER, model, pairs)
}

/// As [`force_decode`], until `stop` is set: then [`TaskError::Stopped`] before the next batch.
pub(super) fn force_until(
    stop: &AtomicBool,
    model: &LoadedTranslator,
    pairs: &[regard_data::Pair],
) -> Result<Vec<Option<(f64, usize)>>, TaskError> {
    let encode = |pair| super::corpus::encode(&model.lexicon, pair);
    let pairs = pairs.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
    let lengths: Vec<usize> = pairs
        .iter()
        .map(|p| match p.source.len().min(p.target.len()) {
            0 => 0,
            _ => p.source.len() + p.target.len(),
        })
        .collect();
    let mut done = vec![None; pairs.len()];
    for batch in plan_in_order(&lengths, BATCH_TOKENS) {
        let batch: Vec<usize> = batch.into_iter().filter(|i| lengths[*i] > 0).collect();
        if batch.is_empty() {
            continue;
        }
        heed(stop)?;
        let side = |of: fn(&super::corpus::EncodedPair) -> &[u32]| {
            let packed: Vec<&[u32]> = batch.iter().map(|i| of(&pairs[*i])).collect();
            Sequences::new(&packed)
        };
        let packed = PairBatch { source: side(|p| &p.source), target: side(|p| &p.target) };
        let scores = model.translator.log_probs(&model.params, &packed)?;
        for (i, scores) in batch.iter().zip(scores) {
            done[*i] = Some((scores.iter().sum(), scores.len()));
        }
    }
    Ok(done)
}
