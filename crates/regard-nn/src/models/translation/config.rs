//! What the translation models are made of: sizes and choices, as plain data.

use serde::{Deserialize, Serialize};

use crate::layers::Norm;
use crate::models::PositionKind;
use crate::ops::Cell;

/// A translation model with its vocabularies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TranslatorConfig {
    /// Number of source tokens, [`SPECIAL`](super::SPECIAL) of them special.
    pub source_vocab: usize,
    /// Number of target tokens, [`SPECIAL`](super::SPECIAL) of them special.
    pub target_vocab: usize,
    /// The model.
    pub model: TranslatorModel,
}

/// Which model, with its sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum TranslatorModel {
    /// Encoder and decoder without attention.
    Seq2seq(Seq2seqConfig),
    /// One fixed context at every step.
    Cho2014(Cho2014Config),
    /// Additive attention from the state before.
    Bahdanau(BahdanauConfig),
    /// Global and local attention over stacked recurrent layers.
    Luong(LuongConfig),
    /// Attention alone.
    Transformer(TransformerConfig),
}

/// Sizes of [`Seq2seq`](super::Seq2seq).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Seq2seqConfig {
    /// The recurrent cell.
    pub cell: Cell,
    /// Width of the word vectors.
    pub embedding: usize,
    /// Width of a state.
    pub hidden: usize,
    /// Recurrent layers on each side.
    pub layers: usize,
    /// Whether the encoder reads from the last token to the first.
    pub reverse_source: bool,
    /// Dropout on the inputs and outputs of the layers.
    pub dropout: f64,
}

/// Sizes of [`Cho2014`](super::Cho2014).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cho2014Config {
    /// Width of the word vectors.
    pub embedding: usize,
    /// Width of a state and of the context.
    pub hidden: usize,
    /// Maxout units of the read-out.
    pub readout: usize,
    /// Dropout on the word vectors and the read-out.
    pub dropout: f64,
}

/// Sizes and parts of [`Bahdanau`](super::Bahdanau).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BahdanauConfig {
    /// Width of the word vectors, m.
    pub embedding: usize,
    /// Width of a state of the decoder and of each direction of the encoder, n.
    pub hidden: usize,
    /// Width of the hidden layer of the score, n'.
    pub attention: usize,
    /// Maxout units of the read-out, l.
    pub readout: usize,
    /// How scores become weights.
    pub normaliser: NormaliserKind,
    /// The weights of the step before, convolved into the score.
    pub location_aware: Option<LocationAware>,
    /// Dropout on the word vectors, the annotations and the read-out.
    pub dropout: f64,
}

/// Sizes and parts of [`Luong`](super::Luong).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LuongConfig {
    /// The recurrent cell.
    pub cell: Cell,
    /// Width of the word vectors.
    pub embedding: usize,
    /// Width of a state.
    pub hidden: usize,
    /// Recurrent layers on each side.
    pub layers: usize,
    /// Whether the encoder reads both ways, each half as wide.
    pub bidirectional: bool,
    /// Whether the encoder reads from the last token to the first. The annotations keep the order of
    /// the tokens, so that positions mean the same either way.
    pub reverse_source: bool,
    /// The score.
    pub score: AlignmentScore,
    /// The scope.
    pub scope: AlignmentScope,
    /// D: positions to each side of a local scope's centre.
    pub radius: usize,
    /// Positions that the location score has weights for; longer sources are refused.
    pub max_source: usize,
    /// How scores become weights.
    pub normaliser: NormaliserKind,
    /// The weights of the step before, convolved into the score; under the global scope alone.
    pub location_aware: Option<LocationAware>,
    /// Whether h̃ of the step before is an input of the first layer.
    pub input_feeding: bool,
    /// Dropout on the inputs of the layers and on h̃.
    pub dropout: f64,
}

/// The score of a recurrent decoder's attention, of its state h and an annotation h̄.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlignmentScore {
    /// h·h̄
    Dot,
    /// hᵀ W_a h̄
    General,
    /// v_aᵀ tanh(W_a h + U_a h̄): additive, or concat
    Concat,
    /// W_a h: a weight for each position, whatever stands there
    Location,
}

/// Which annotations a recurrent decoder may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlignmentScope {
    /// All.
    Global,
    /// Those around the place p_t = t.
    LocalM,
    /// Those around a predicted place p_t, weighted by a Gaussian.
    LocalP,
}

/// How a recurrent decoder's scores become weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormaliserKind {
    /// exp(s_j)/Σ exp(s)
    #[default]
    Softmax,
    /// The nearest point of the simplex.
    Sparsemax,
    /// Between the two.
    Entmax15,
    /// σ(s_j), each by itself.
    Sigmoid,
}

/// The convolution of location-aware attention (Chorowski et al. 2015).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocationAware {
    /// Number of filters.
    pub filters: usize,
    /// Positions to each side that a filter reads.
    pub radius: usize,
}

/// Sizes and parts of [`TranslationTransformer`](super::TranslationTransformer).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TransformerConfig {
    /// Width of the tokens.
    pub d_model: usize,
    /// Number of heads; divides `d_model`.
    pub heads: usize,
    /// Layers of the encoder.
    pub encoder_layers: usize,
    /// Layers of the decoder.
    pub decoder_layers: usize,
    /// Width of the feed-forward layers.
    pub d_ff: usize,
    /// Where the norms stand.
    pub norm: Norm,
    /// What tells the order: `sinusoidal`, `learned`, `rotary` or `none`.
    pub position: PositionKind,
    /// Which of the three tables of word vectors are one.
    pub tie: Tie,
    /// Dropout on the input and the sub-layers.
    pub dropout: f64,
    /// Dropout on the attention weights.
    pub attention_dropout: f64,
}

/// Which of a model's tables of word vectors are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tie {
    /// None.
    None,
    /// The decoder's input and the output layer (Press and Wolf 2017).
    #[default]
    Target,
    /// All three: source and target share a vocabulary.
    All,
}
