//! What attention did with one sentence, number by number.

use regard_attn::position::{Rotary, RotaryLayout};
use regard_attn::score::{Additive, Dot, ScaledDot};
use regard_attn::{At, Position, Scope, Score};
use regard_data::Sentence;
use regard_nn::layers::{LayerAttention, ScoreKind};
use regard_report::{
    AttentionReport, HeadAttention, LayerAttention as LayerReport, Matrix, ModelDescription,
    PredictedLabel,
};
use regard_tensor::kernels::reduce::softmax_in_place;

use super::config::ModelKind;
use super::model::LoadedTagger;
use crate::TaskError;

/// Runs one sentence through the model and reports, for every layer and head, queries, keys,
/// values, scores, weights and contexts, with the predicted labels. Gold labels are taken over
/// from the sentence where it has any.
///
/// Queries and keys are as the score saw them, after a turn by rotary position. The scores are
/// those of the score's own definition; weights and contexts are the engine's.
///
/// # Errors
/// The model has no attention; the sentence has no word.
pub fn look(model: &LoadedTagger, sentence: &Sentence) -> Result<AttentionReport, TaskError> {
    let kind = model.config.model.kind;
    if !matches!(kind, ModelKind::SelfAttention | ModelKind::Transformer) {
        return Err(TaskError::NothingToLookAt(kind.to_string()));
    }
    if sentence.words.is_empty() {
        return Err(TaskError::NoWords);
    }
    let ids = model.lexicon.ids(&[sentence], None);
    let mut layers = Vec::new();
    let logits = model.logits(&ids, Some(&mut layers))?;
    let best = model.tagger.decode(model.params(), &logits, &ids);
    let predicted = best.iter().enumerate().map(|(i, label)| {
        let mut row = logits.row(i).to_vec();
        softmax_in_place(&mut row);
        PredictedLabel::new(model.lexicon.labels.name(*label), row[*label as usize])
    });
    let Some(config) = layers.first().map(|l| l.config) else {
        return Err(TaskError::NothingToLookAt(kind.to_string()));
    };
    let (name, formula) = match config.score {
        ScoreKind::Dot => ("dot", "s = q·k"),
        ScoreKind::ScaledDot => ("scaled-dot", "s = q·k / √d_k"),
        ScoreKind::Additive => ("additive", "s = v_a·tanh(q + k)"),
    };
    let report = AttentionReport {
        tokens: sentence.words.clone(),
        predicted: predicted.collect(),
        gold: (!sentence.labels.is_empty()).then(|| sentence.labels.clone()),
        model: ModelDescription {
            name: kind.to_string(),
            n_layers: layers.len(),
            n_heads: config.n_heads,
            score: name.into(),
            formula: formula.into(),
            position: serde_json::to_value(model.config.model.position)
                .ok()
                .and_then(|v| v.as_str().map(str::to_string))
                .unwrap_or_default(),
            scope: config.scope.describe(),
        },
        layers: layers.iter().map(|layer| layer_report(layer, sentence.words.len())).collect(),
    };
    report.validate()?;
    Ok(report)
}

fn layer_report(layer: &LayerAttention<f32>, len: usize) -> LayerReport {
    let heads = layer.config.n_heads;
    LayerReport { heads: (0..heads).map(|head| head_report(layer, head, len)).collect() }
}

fn head_report(layer: &LayerAttention<f32>, head: usize, len: usize) -> HeadAttention {
    let config = &layer.config;
    let (heads, d) = (config.n_heads, config.d_model / config.n_heads);
    let rotary = config.rotary.map(|base| Rotary::new(base, RotaryLayout::Half));
    let part = |part: usize| {
        let mut rows = Vec::with_capacity(len * d);
        for i in 0..len {
            let row = layer.weights.qkv.row(i);
            let start = (part * heads + head) * d;
            rows.extend_from_slice(&row[start..start + d]);
            if let (Some(rotary), true) = (&rotary, part < 2) {
                Position::<f32>::turn(rotary, i, &mut rows[i * d..]);
            }
        }
        matrix(len, d, rows)
    };
    let (q, k, v) = (part(0), part(1), part(2));
    let v_a = layer.v_a.as_ref().map(|v| v.data().to_vec());
    let scaled = ScaledDot::new(d);
    let additive = Additive { v: v_a.as_deref().unwrap_or(&[]) };
    let score: &dyn Score<f32> = match config.score {
        ScoreKind::Dot => &Dot,
        ScoreKind::ScaledDot => &scaled,
        ScoreKind::Additive => &additive,
    };
    let at = At { item: 0, head, q_len: len, kv_len: len, q_offset: 0 };
    let mut scores = Vec::with_capacity(len * len);
    for i in 0..len {
        for j in 0..len {
            scores.push(if config.scope.allows(at, i, j) {
                score.pair(head, row(&q, i), row(&k, j))
            } else {
                f32::NEG_INFINITY
            });
        }
    }
    let weights = &layer.weights.weights.data()[head * len * len..(head + 1) * len * len];
    let mut context = Vec::with_capacity(len * d);
    for i in 0..len {
        let row = layer.weights.context.row(i);
        context.extend_from_slice(&row[head * d..(head + 1) * d]);
    }
    HeadAttention {
        scores: matrix(len, len, scores),
        weights: matrix(len, len, weights.to_vec()),
        context: matrix(len, d, context),
        v_a: v_a.map(|v| v[head * d..(head + 1) * d].to_vec()),
        q,
        k,
        v,
    }
}

fn matrix(rows: usize, cols: usize, data: Vec<f32>) -> Matrix {
    Matrix { rows, cols, data }
}

fn row(matrix: &Matrix, i: usize) -> &[f32] {
    &matrix.data[i * matrix.cols..(i + 1) * matrix.cols]
}
