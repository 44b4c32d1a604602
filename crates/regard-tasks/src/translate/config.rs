//! The settings of a translator: what there is to set, and how files and flags are laid over it.

use std::fmt;

use regard_data::{TokeniserKind, TokeniserSettings};
use regard_nn::layers::Norm;
use regard_nn::models::PositionKind;
use regard_nn::models::translation::{AlignmentScope, AlignmentScore, NormaliserKind, Tie};
use regard_nn::ops::Cell;
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, Layer, resolve, to_table};
use crate::training::{LoopSettings, OptimiserKind, ScheduleKind, optimiser};

/// Which model translates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelKind {
    /// Recurrent encoder and decoder without attention.
    Seq2seq,
    /// One fixed context at every step.
    Cho2014,
    /// Additive attention from the state before.
    Bahdanau,
    /// Global or local attention over stacked recurrent layers.
    Luong,
    /// Attention alone.
    Transformer,
}

impl ModelKind {
    /// All of them, oldest first.
    pub const ALL: [Self; 5] =
        [Self::Seq2seq, Self::Cho2014, Self::Bahdanau, Self::Luong, Self::Transformer];

    /// The name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seq2seq => "seq2seq",
            Self::Cho2014 => "cho2014",
            Self::Bahdanau => "bahdanau",
            Self::Luong => "luong",
            Self::Transformer => "transformer",
        }
    }

    /// The model of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether there is attention to look at.
    pub fn has_attention(self) -> bool {
        !matches!(self, Self::Seq2seq | Self::Cho2014)
    }
}

impl fmt::Display for ModelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the tokens of a text are: see [`TokeniserKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tokens {
    /// Byte-pair encoding.
    Bpe,
    /// Subwords of a unigram language model.
    Unigram,
    /// Words and punctuation marks.
    Word,
    /// Characters.
    Char,
}

impl Tokens {
    /// The kind that the data crate knows.
    pub fn kind(self) -> TokeniserKind {
        match self {
            Self::Bpe => TokeniserKind::Bpe,
            Self::Unigram => TokeniserKind::Unigram,
            Self::Word => TokeniserKind::Word,
            Self::Char => TokeniserKind::Char,
        }
    }
}

/// Where the data comes from and how it becomes tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// Training files: a source and a target file, or one table of tabs.
    pub train: Vec<String>,
    /// Development files; none: the last epoch's model is kept.
    pub dev: Vec<String>,
    /// Columns of a table, as `regard_data::PairColumns::parse` takes them.
    pub columns: String,
    /// What the tokens are.
    pub tokens: Tokens,
    /// Tokens of a vocabulary, at most.
    pub vocab_size: usize,
    /// Whether both languages share one vocabulary.
    pub shared_vocab: bool,
    /// Words and characters seen less often in training are unknown.
    pub min_count: u64,
    /// Whether text is lower-cased, in both languages.
    pub lowercase: bool,
    /// Training pairs with a longer side are left out.
    pub max_tokens: usize,
    /// Training pairs with one side this many times as long as the other are left out; 0 for none.
    pub max_ratio: f64,
}

/// The model. Only the keys of its kind may be set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Which model.
    pub kind: ModelKind,
    /// `lstm` or `gru` (`seq2seq`, `luong`).
    pub cell: Cell,
    /// Width of token vectors (recurrent models).
    pub embedding: usize,
    /// Width of a state (recurrent models).
    pub hidden: usize,
    /// Recurrent layers on each side (`seq2seq`, `luong`).
    pub layers: usize,
    /// Whether the encoder reads both ways (`luong`).
    pub bidirectional: bool,
    /// Whether the encoder reads from the end (`seq2seq`, `luong`).
    pub reverse_source: bool,
    /// Maxout units of the read-out (`cho2014`, `bahdanau`).
    pub readout: usize,
    /// Width of the score's hidden layer (`bahdanau`).
    pub attention: usize,
    /// `dot`, `general`, `concat` or `location` (`luong`).
    pub score: AlignmentScore,
    /// `global`, `local-m` or `local-p` (`luong`).
    pub scope: AlignmentScope,
    /// D, positions to each side of a local scope's centre (`luong`).
    pub radius: usize,
    /// Positions that the location score has weights for (`luong`).
    pub max_source: usize,
    /// Whether h̃ is an input of the next step (`luong`).
    pub input_feeding: bool,
    /// `softmax`, `sparsemax`, `entmax15` or `sigmoid` (`bahdanau`, `luong`).
    pub normaliser: NormaliserKind,
    /// Filters over the weights of the step before; 0 for none (`bahdanau`, `luong`).
    pub location_filters: usize,
    /// Positions to each side that such a filter reads (`bahdanau`, `luong`).
    pub location_radius: usize,
    /// Width of the tokens (`transformer`).
    pub d_model: usize,
    /// Number of heads (`transformer`).
    pub heads: usize,
    /// Layers of the encoder (`transformer`).
    pub encoder_layers: usize,
    /// Layers of the decoder (`transformer`).
    pub decoder_layers: usize,
    /// Width of the feed-forward layers (`transformer`).
    pub ff: usize,
    /// Layer norm `before` or `after` each sub-layer (`transformer`).
    pub norm: Norm,
    /// `none`, `sinusoidal`, `learned` or `rotary` (`transformer`).
    pub position: PositionKind,
    /// Which tables of vectors are one: `none`, `target` or `all` (`transformer`).
    pub tie: Tie,
    /// Dropout on the attention weights (`transformer`).
    pub attention_dropout: f64,
    /// Dropout after each layer.
    pub dropout: f64,
}

/// What chooses the best weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// BLEU of greedy translations.
    Bleu,
    /// −log p of the references' tokens; nothing is translated for it.
    Loss,
}

/// The training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// Passes over the training pairs, at most.
    pub epochs: u64,
    /// Minutes of training after which it ends; 0 for no limit.
    pub minutes: f64,
    /// Source and target tokens of a batch, at most (a longer pair is a batch of its own).
    pub batch_tokens: usize,
    /// Batches that make one step.
    pub accumulate: usize,
    /// The optimiser.
    pub optimiser: OptimiserKind,
    /// Peak learning rate.
    pub lr: f64,
    /// The schedule.
    pub schedule: ScheduleKind,
    /// Steps of warm-up; at most a fifth of all steps are taken for it.
    pub warmup: u64,
    /// Factor on the learning rate at the end of a cosine.
    pub floor: f64,
    /// Momentum of SGD.
    pub momentum: f64,
    /// β₁ of Adam.
    pub beta1: f64,
    /// β₂ of Adam.
    pub beta2: f64,
    /// ε of Adam.
    pub eps: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// Largest gradient norm; 0 for no clipping.
    pub clip: f64,
    /// Label smoothing.
    pub smoothing: f64,
    /// Probability that the decoder reads its own choice in place of the given token.
    pub scheduled_sampling: f64,
    /// Decay of the running average of the weights that is evaluated and kept; 0 for none.
    pub average: f64,
    /// What chooses the best weights.
    pub select: Select,
    /// Epochs without a better value of it after which training stops; 0 for never.
    pub patience: u64,
    /// Development lines whose translations are shown after each epoch.
    pub samples: usize,
    /// Steps between checkpoints; 0 for one an epoch.
    pub checkpoint_every: u64,
    /// Decides first weights, order of the data and dropout.
    pub seed: u64,
}

/// All settings of a translator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranslateConfig {
    /// The data.
    pub data: DataConfig,
    /// The model.
    pub model: ModelConfig,
    /// The training.
    pub train: TrainConfig,
}

/// Keys of `model` that have a meaning for some kinds only.
const KINDS_OF_KEY: [(&str, &[ModelKind]); 25] = {
    use ModelKind::{Bahdanau, Cho2014, Luong, Seq2seq, Transformer};
    [
        ("cell", &[Seq2seq, Luong]),
        ("embedding", &[Seq2seq, Cho2014, Bahdanau, Luong]),
        ("hidden", &[Seq2seq, Cho2014, Bahdanau, Luong]),
        ("layers", &[Seq2seq, Luong]),
        ("bidirectional", &[Luong]),
        ("reverse_source", &[Seq2seq, Luong]),
        ("readout", &[Cho2014, Bahdanau]),
        ("attention", &[Bahdanau]),
        ("score", &[Luong]),
        ("scope", &[Luong]),
        ("radius", &[Luong]),
        ("max_source", &[Luong]),
        ("input_feeding", &[Luong]),
        ("normaliser", &[Bahdanau, Luong]),
        ("location_filters", &[Bahdanau, Luong]),
        ("location_radius", &[Bahdanau, Luong]),
        ("d_model", &[Transformer]),
        ("heads", &[Transformer]),
        ("encoder_layers", &[Transformer]),
        ("decoder_layers", &[Transformer]),
        ("ff", &[Transformer]),
        ("norm", &[Transformer]),
        ("position", &[Transformer]),
        ("tie", &[Transformer]),
        ("attention_dropout", &[Transformer]),
    ]
};

impl TranslateConfig {
    /// Lays files and `--set` over the defaults of the model that they choose.
    ///
    /// # Errors
    /// Unknown keys or models, wrong types, values out of range, keys of another model.
    pub fn resolve(kind: Option<ModelKind>, layers: &[Layer]) -> Result<Self, ConfigError> {
        let chosen = layers
            .iter()
            .rev()
            .find_map(|layer| layer.text("model", "kind").map(|name| (layer, name)));
        let kind = match (kind, chosen) {
            (Some(kind), _) => kind,
            (None, None) => ModelKind::Transformer,
            (None, Some((layer, name))) => {
                ModelKind::parse(name).ok_or_else(|| ConfigError::Type {
                    origin: layer.origin.clone(),
                    key: "model.kind".into(),
                    expected: "one of ".to_string()
                        + &ModelKind::ALL.map(ModelKind::name).join(", "),
                    actual: format!("\"{name}\""),
                })?
            }
        };
        for layer in layers {
            let table = layer.table.get("model").and_then(toml::Value::as_table);
            for (key, kinds) in KINDS_OF_KEY {
                if table.is_some_and(|t| t.contains_key(key)) && !kinds.contains(&kind) {
                    return Err(ConfigError::NotForModel {
                        origin: layer.origin.clone(),
                        key: format!("model.{key}"),
                        model: kind.to_string(),
                    });
                }
            }
        }
        let mut config = resolve(&Self::defaults(kind), layers)?;
        config.model.kind = kind;
        config.check()?;
        Ok(config)
    }

    /// The settings as TOML, without the keys that have no meaning for the model.
    pub fn to_toml(&self) -> String {
        let mut table = to_table(self);
        if let Some(model) = table.get_mut("model").and_then(toml::Value::as_table_mut) {
            for (key, kinds) in KINDS_OF_KEY {
                if !kinds.contains(&self.model.kind) {
                    model.remove(key);
                }
            }
        }
        toml::to_string(&table).unwrap_or_default()
    }

    /// How the tokens of one language, or of both, are made.
    pub fn tokeniser(&self) -> TokeniserSettings {
        let DataConfig { tokens, vocab_size, min_count, lowercase, .. } = self.data;
        TokeniserSettings { kind: tokens.kind(), size: vocab_size, min_count, lowercase }
    }

    /// The settings of the training loop.
    pub(crate) fn loop_settings(&self) -> LoopSettings {
        let t = &self.train;
        LoopSettings {
            epochs: t.epochs,
            minutes: t.minutes,
            optimiser: optimiser(
                t.optimiser,
                [t.momentum, t.beta1, t.beta2, t.eps, t.weight_decay],
            ),
            lr: t.lr,
            schedule: t.schedule,
            warmup: t.warmup,
            floor: t.floor,
            clip: t.clip,
            accumulate: t.accumulate,
            average: t.average,
            patience: t.patience,
            checkpoint_every: t.checkpoint_every,
            seed: t.seed,
        }
    }
}
