//! The model of a case.

use regard_nn::layers::{Gru, Linear, Norm, ScopeConfig, ScoreKind};
use regard_nn::models::{
    CharEncoder, EncoderConfig, Output, PositionKind, RnnConfig, Tagger, TaggerConfig, Target,
    TokenIds, TransformerConfig, Words, WordsConfig,
};
use regard_nn::{NnError, ParamSpecs, Tape, Var};

use super::cases::{TrainCase, TrainModel};
use super::data::Batch;

/// A tagger; one over a GRU, which is no encoder of the library's taggers, is put together here.
pub(super) enum Model {
    Tagger(Tagger),
    Gru { words: Words, gru: Gru, output: Linear },
}

impl Model {
    /// Lists the parameters.
    pub(super) fn new(specs: &mut ParamSpecs, case: &TrainCase) -> Result<Self, NnError> {
        let TrainCase { width, d_word, layers, heads, d_ff, n_labels, .. } = *case;
        let words = WordsConfig {
            n_words: case.n_words,
            d_word,
            n_chars: case.chars.map_or(0, |chars| chars.n_chars),
            d_char: case.chars.map_or(0, |chars| chars.width),
            encoder: if case.chars.is_some() { CharEncoder::Cnn } else { CharEncoder::None },
            char_hidden: case.chars.map_or(0, |chars| chars.hidden),
            char_widths: case.chars.map_or(Vec::new(), |chars| chars.widths.to_vec()),
            dropout: 0.0,
        };
        let position = if case.rotary { PositionKind::Rotary } else { PositionKind::Sinusoidal };
        let rnn = |bidirectional| {
            EncoderConfig::Rnn(RnnConfig { hidden: width, layers, bidirectional, dropout: 0.0 })
        };
        let encoder = match case.model {
            TrainModel::Transformer => EncoderConfig::Transformer(TransformerConfig {
                d_model: width,
                heads,
                layers,
                d_ff,
                score: ScoreKind::ScaledDot,
                scope: ScopeConfig::default(),
                norm: Norm::Before,
                position,
                dropout: 0.0,
                attention_dropout: 0.0,
            }),
            TrainModel::Lstm => rnn(false),
            TrainModel::Bilstm => rnn(true),
            TrainModel::Gru => {
                let words = Words::new(specs, words);
                let gru = Gru::new(specs, "encoder.layers.0", d_word, width, false);
                return Ok(Self::Gru {
                    words,
                    gru,
                    output: Linear::new(specs, "output", width, n_labels),
                });
            }
        };
        let config = TaggerConfig { words, encoder, n_labels, output: Output::Softmax };
        Ok(Self::Tagger(Tagger::new(specs, config)?))
    }

    /// Mean cross-entropy a token.
    pub(super) fn loss(&self, tape: &mut Tape<'_, f32>, batch: &Batch) -> Result<Var, NnError> {
        let Batch { ids, labels } = batch;
        match self {
            Self::Tagger(tagger) => tagger.loss(tape, ids, Target { labels, smoothing: 0.0 }),
            Self::Gru { .. } => {
                let logits = self.logits(tape, ids)?;
                tape.cross_entropy(logits, labels, 0.0)
            }
        }
    }

    /// Scores of every label at every token.
    pub(super) fn logits(&self, tape: &mut Tape<'_, f32>, ids: &TokenIds) -> Result<Var, NnError> {
        match self {
            Self::Tagger(tagger) => tagger.logits(tape, ids, None),
            Self::Gru { words, gru, output } => {
                let x = words.forward(tape, ids)?;
                let x = gru.forward(tape, x, &ids.items)?;
                output.forward(tape, x)
            }
        }
    }
}
