//! What attention did with one sentence and its translation.

use regard_nn::models::translation::{AlignmentMap, AlignmentScore, AttentionKind};
use regard_report::{AlignmentHead, AlignmentKind, AlignmentReport, Matrix};

use super::config::ModelKind;
use super::decode::TranslateOptions;
use super::model::LoadedTranslator;
use crate::TaskError;

/// Reads a source, and writes the given target or the model's own translation; reports the weights of
/// every attention on the way. For a local scope the centres and the window are told too.
///
/// # Errors
/// The model has no attention; the source is empty, or the target is; a side that the model cannot
/// read.
pub fn look(
    model: &LoadedTranslator,
    source: &str,
    target: Option<&str>,
    options: &TranslateOptions,
) -> Result<AlignmentReport, TaskError> {
    let kind = model.config.model.kind;
    if !kind.has_attention() {
        return Err(TaskError::NoAlignment(kind.to_string()));
    }
    let (from, to) = (model.lexicon.source(), model.lexicon.target());
    let source = source.trim();
    let source_ids = from.encode(source)?;
    if source_ids.is_empty() {
        return Err(TaskError::NoWords);
    }
    let target_ids = match target {
        Some(target) => to.encode(target)?,
        None => model.best(&source_ids, options)?,
    };
    if target_ids.is_empty() {
        return Err(match target {
            Some(_) => TaskError::EmptyTarget,
            None => TaskError::EmptyTranslation,
        });
    }
    let maps = model.translator.look(&model.params, &source_ids, &target_ids)?;
    let report = AlignmentReport {
        source: from.pieces(&source_ids)?,
        target: to.pieces(&target_ids)?,
        source_text: source.to_owned(),
        target_text: to.decode(&target_ids)?,
        given: target.is_some(),
        model: kind.to_string(),
        formula: formula(model).into(),
        heads: maps.into_iter().map(head).collect(),
    };
    report.validate()?;
    Ok(report)
}

fn formula(model: &LoadedTranslator) -> &'static str {
    match (model.config.model.kind, model.config.model.score) {
        (ModelKind::Transformer, _) => "s = q·k / √d_k",
        (ModelKind::Luong, AlignmentScore::Dot) => "s = h·h̄",
        (ModelKind::Luong, AlignmentScore::General) => "s = hᵀ W_a h̄",
        (ModelKind::Luong, AlignmentScore::Location) => "s = W_a h",
        _ => "s = v_aᵀ tanh(W_a h + U_a h̄)",
    }
}

fn head(map: AlignmentMap<f32>) -> AlignmentHead {
    let [rows, cols] = [map.weights.rows(), map.weights.cols()];
    AlignmentHead {
        kind: match map.kind {
            AttentionKind::EncoderSelf => AlignmentKind::EncoderSelf,
            AttentionKind::DecoderSelf => AlignmentKind::DecoderSelf,
            AttentionKind::Cross => AlignmentKind::Cross,
        },
        layer: map.layer,
        head: map.head,
        weights: Matrix::new(rows, cols, map.weights.data().to_vec()),
        centres: map.centres,
        sigma: map.sigma,
        radius: map.radius,
    }
}
