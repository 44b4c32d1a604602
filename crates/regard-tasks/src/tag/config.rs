//! The settings of a tagger, their defaults by model and their ranges.

use std::fmt;

use regard_nn::layers::{Norm, ScopeConfig, ScoreKind};
use regard_nn::models::{
    CharEncoder, CnnConfig, EncoderConfig, FeedForwardConfig, Output, PositionKind, RnnConfig,
    SelfAttentionConfig, TransformerConfig,
};
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, Layer, resolve, to_table};
use crate::training::{LoopSettings, OptimiserKind, ScheduleKind, SettingsCheck, optimiser, range};

/// Which model labels the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelKind {
    /// Each token alone.
    Fc,
    /// A fully connected layer over each token and its neighbours.
    Window,
    /// Convolutions.
    Cnn,
    /// LSTM from left to right.
    Lstm,
    /// LSTM in both directions.
    Bilstm,
    /// Single-head self-attention.
    SelfAttention,
    /// The Transformer's encoder.
    Transformer,
}

impl ModelKind {
    /// All of them, simplest first.
    pub const ALL: [Self; 7] = [
        Self::Fc,
        Self::Window,
        Self::Cnn,
        Self::Lstm,
        Self::Bilstm,
        Self::SelfAttention,
        Self::Transformer,
    ];

    /// The name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fc => "fc",
            Self::Window => "window",
            Self::Cnn => "cnn",
            Self::Lstm => "lstm",
            Self::Bilstm => "bilstm",
            Self::SelfAttention => "self-attention",
            Self::Transformer => "transformer",
        }
    }

    /// The model of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for ModelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where the data comes from and how it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// The training file.
    pub train: String,
    /// The development file; empty for none (then the last epoch's model is kept).
    pub dev: String,
    /// `auto`, `conllu`, `columns` or `text`.
    pub format: String,
    /// The label column, as `regard_data::Format::parse` takes it; empty for the default.
    pub column: String,
    /// Words seen less often in training share the unknown word's vector.
    pub min_count: u64,
    /// Whether word vectors ignore case (characters never do).
    pub lowercase: bool,
}

/// The model. Only the keys of its kind may be set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Which model.
    pub kind: ModelKind,
    /// Width of word vectors.
    pub word_dim: usize,
    /// How characters are read: `none`, `cnn`, `lstm`.
    pub chars: CharEncoder,
    /// Width of character vectors.
    pub char_dim: usize,
    /// Filters of each width, or hidden size of each direction.
    pub char_hidden: usize,
    /// Widths of the character convolutions.
    pub char_widths: Vec<usize>,
    /// Dropout on the input vectors.
    pub input_dropout: f64,
    /// Width of hidden layers (`fc`, `window`, `cnn`), or of each direction (`lstm`, `bilstm`).
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
    /// Neighbours seen on each side (`window`).
    pub context: usize,
    /// Tokens that a filter sees (`cnn`).
    pub kernel: usize,
    /// Width of queries, keys and values of all heads together (attention models).
    pub d_model: usize,
    /// Number of heads (`transformer`).
    pub heads: usize,
    /// Width of the feed-forward layers (`transformer`).
    pub ff: usize,
    /// Layer norm `before` or `after` each sub-layer (`transformer`).
    pub norm: Norm,
    /// `dot`, `scaled-dot` or `additive` (attention models).
    pub score: ScoreKind,
    /// `none`, `sinusoidal`, `learned` or `rotary` (attention models).
    pub position: PositionKind,
    /// Truncated attention: how many tokens before a token it sees; −1 for all.
    pub window_left: i64,
    /// Truncated attention: how many tokens after a token it sees; −1 for all.
    pub window_right: i64,
    /// Dropout after each layer.
    pub dropout: f64,
    /// Dropout on the attention weights (`transformer`).
    pub attention_dropout: f64,
    /// `softmax`, or `crf` for the best chain of labels.
    pub output: Output,
}

/// The training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// Passes over the training file, at most.
    pub epochs: u64,
    /// Tokens of a batch, at most (a longer sentence is a batch of its own).
    pub batch_tokens: usize,
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
    /// A training word seen n times is read as unknown with probability a/(a + n)
    /// (Kiperwasser and Goldberg 2016); 0 for never.
    pub word_dropout: f64,
    /// Decay of the running average of the weights that is evaluated and kept; 0 for none.
    pub average: f64,
    /// Epochs without a better development metric after which training stops; 0 for never.
    pub patience: u64,
    /// Steps between checkpoints; 0 for one an epoch.
    pub checkpoint_every: u64,
    /// Decides first weights, order of the data and dropout.
    pub seed: u64,
}

/// All settings of a tagger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagConfig {
    /// The data.
    pub data: DataConfig,
    /// The model.
    pub model: ModelConfig,
    /// The training.
    pub train: TrainConfig,
}

/// Bounds that only a slip of the hand exceeds.
const MAX_WIDTH: usize = 16_384;
const MAX_LAYERS: usize = 256;
const MAX_TAPS: usize = 64;

/// Keys of `model` that have a meaning for some kinds only.
const KINDS_OF_KEY: [(&str, &[ModelKind]); 11] = {
    use ModelKind::{Bilstm, Cnn, Fc, Lstm, SelfAttention, Transformer, Window};
    [
        ("hidden", &[Fc, Window, Cnn, Lstm, Bilstm]),
        ("context", &[Window]),
        ("kernel", &[Cnn]),
        ("d_model", &[SelfAttention, Transformer]),
        ("heads", &[Transformer]),
        ("ff", &[Transformer]),
        ("norm", &[Transformer]),
        ("score", &[SelfAttention, Transformer]),
        ("position", &[SelfAttention, Transformer]),
        ("window_left", &[SelfAttention, Transformer]),
        ("window_right", &[SelfAttention, Transformer]),
    ]
};

impl TagConfig {
    /// The defaults of a model.
    pub fn defaults(kind: ModelKind) -> Self {
        let attention = matches!(kind, ModelKind::SelfAttention | ModelKind::Transformer);
        let recurrent = matches!(kind, ModelKind::Lstm | ModelKind::Bilstm);
        let layers = match kind {
            ModelKind::Fc | ModelKind::Window => 1,
            ModelKind::Transformer => 3,
            _ => 2,
        };
        Self {
            data: DataConfig {
                train: String::new(),
                dev: String::new(),
                format: "auto".into(),
                column: String::new(),
                min_count: 1,
                lowercase: true,
            },
            model: ModelConfig {
                kind,
                word_dim: 100,
                chars: CharEncoder::Cnn,
                char_dim: 32,
                char_hidden: 64,
                char_widths: vec![2, 3, 4],
                input_dropout: 0.33,
                hidden: if recurrent { 200 } else { 256 },
                layers,
                context: 2,
                kernel: 3,
                d_model: 128,
                heads: 4,
                ff: 512,
                norm: Norm::Before,
                score: ScoreKind::ScaledDot,
                position: PositionKind::Rotary,
                window_left: -1,
                window_right: -1,
                dropout: if attention { 0.15 } else { 0.4 },
                attention_dropout: 0.1,
                output: Output::Softmax,
            },
            train: TrainConfig {
                epochs: if attention { 12 } else { 8 },
                batch_tokens: 500,
                optimiser: OptimiserKind::Adam,
                lr: if attention { 1.5e-3 } else { 2e-3 },
                schedule: ScheduleKind::Cosine,
                warmup: if attention { 400 } else { 100 },
                floor: 0.0,
                momentum: 0.9,
                beta1: 0.9,
                beta2: 0.99,
                eps: 1e-8,
                weight_decay: 0.0,
                clip: 5.0,
                smoothing: 0.0,
                word_dropout: 0.25,
                average: 0.0,
                patience: 0,
                checkpoint_every: 0,
                seed: 1,
            },
        }
    }

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

    /// Checks every range.
    ///
    /// # Errors
    /// Names the key at fault and its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (m, t) = (&self.model, &self.train);
        let at_least = SettingsCheck::at_least;
        let within = SettingsCheck::within;
        let rate = SettingsCheck::rate;
        let positive = SettingsCheck::positive;
        let not_negative = SettingsCheck::not_negative;
        within("model.word_dim", m.word_dim, MAX_WIDTH)?;
        within("model.char_dim", m.char_dim, MAX_WIDTH)?;
        within("model.char_hidden", m.char_hidden, MAX_WIDTH)?;
        if m.char_widths.is_empty() {
            return Err(range("model.char_widths", "a list of at least one width", "[]"));
        }
        for width in &m.char_widths {
            within("model.char_widths", *width, MAX_TAPS)?;
        }
        if m.context > MAX_TAPS {
            return Err(range("model.context", format!("at most {MAX_TAPS}"), m.context));
        }
        within("model.hidden", m.hidden, MAX_WIDTH)?;
        within("model.layers", m.layers, MAX_LAYERS)?;
        within("model.kernel", m.kernel, MAX_TAPS)?;
        within("model.d_model", m.d_model, MAX_WIDTH)?;
        within("model.heads", m.heads, MAX_WIDTH)?;
        within("model.ff", m.ff, MAX_WIDTH)?;
        for (key, window) in
            [("model.window_left", m.window_left), ("model.window_right", m.window_right)]
        {
            if window < -1 {
                return Err(range(key, "at least 0, or -1 for no limit", window));
            }
        }
        rate("model.input_dropout", m.input_dropout)?;
        rate("model.dropout", m.dropout)?;
        rate("model.attention_dropout", m.attention_dropout)?;
        at_least("train.epochs", t.epochs as usize, 1)?;
        at_least("train.batch_tokens", t.batch_tokens, 1)?;
        positive("train.lr", t.lr)?;
        not_negative("train.clip", t.clip)?;
        not_negative("train.weight_decay", t.weight_decay)?;
        not_negative("train.word_dropout", t.word_dropout)?;
        rate("train.smoothing", t.smoothing)?;
        rate("train.average", t.average)?;
        rate("train.momentum", t.momentum)?;
        rate("train.beta1", t.beta1)?;
        rate("train.beta2", t.beta2)?;
        positive("train.eps", t.eps)?;
        if !(0.0..=1.0).contains(&t.floor) {
            return Err(range("train.floor", "in [0, 1]", t.floor));
        }
        if m.output == Output::Crf && t.smoothing > 0.0 {
            return Err(range("train.smoothing", "0 with model.output = \"crf\"", t.smoothing));
        }
        Ok(())
    }

    /// The encoder that the settings stand for.
    pub fn encoder(&self) -> EncoderConfig {
        let m = &self.model;
        let limit = |n: i64| usize::try_from(n).unwrap_or(usize::MAX >> 1);
        let truncated = m.window_left >= 0 || m.window_right >= 0;
        let scope = ScopeConfig {
            causal: false,
            window: truncated.then(|| (limit(m.window_left), limit(m.window_right))),
        };
        let feed_forward = |context| {
            EncoderConfig::FeedForward(FeedForwardConfig {
                context,
                hidden: m.hidden,
                layers: m.layers,
                dropout: m.dropout,
            })
        };
        let rnn = |bidirectional| {
            EncoderConfig::Rnn(RnnConfig {
                hidden: m.hidden,
                layers: m.layers,
                bidirectional,
                dropout: m.dropout,
            })
        };
        match m.kind {
            ModelKind::Fc => feed_forward(0),
            ModelKind::Window => feed_forward(m.context),
            ModelKind::Cnn => EncoderConfig::Cnn(CnnConfig {
                kernel: m.kernel,
                hidden: m.hidden,
                layers: m.layers,
                dropout: m.dropout,
            }),
            ModelKind::Lstm => rnn(false),
            ModelKind::Bilstm => rnn(true),
            ModelKind::SelfAttention => EncoderConfig::SelfAttention(SelfAttentionConfig {
                d_model: m.d_model,
                layers: m.layers,
                score: m.score,
                scope,
                position: m.position,
                dropout: m.dropout,
            }),
            ModelKind::Transformer => EncoderConfig::Transformer(TransformerConfig {
                d_model: m.d_model,
                heads: m.heads,
                layers: m.layers,
                d_ff: m.ff,
                norm: m.norm,
                score: m.score,
                scope,
                position: m.position,
                dropout: m.dropout,
                attention_dropout: m.attention_dropout,
            }),
        }
    }

    /// The settings of the training loop.
    pub(crate) fn loop_settings(&self) -> LoopSettings {
        let t = &self.train;
        LoopSettings {
            epochs: t.epochs,
            minutes: 0.0,
            optimiser: optimiser(
                t.optimiser,
                [t.momentum, t.beta1, t.beta2, t.eps, t.weight_decay],
            ),
            lr: t.lr,
            schedule: t.schedule,
            warmup: t.warmup,
            floor: t.floor,
            clip: t.clip,
            accumulate: 1,
            average: t.average,
            patience: t.patience,
            checkpoint_every: t.checkpoint_every,
            seed: t.seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(kind: Option<ModelKind>, sets: &[&str]) -> Result<TagConfig, ConfigError> {
        let layers: Vec<Layer> =
            sets.iter().map(|s| Layer::from_assignment(s)).collect::<Result<_, _>>()?;
        TagConfig::resolve(kind, &layers)
    }

    #[test]
    fn the_model_decides_the_defaults_and_which_keys_there_are() {
        assert_eq!(with(None, &[]).unwrap().model.kind, ModelKind::Transformer);
        let config = with(None, &["model.kind=bilstm"]).unwrap();
        assert_eq!(config.model.hidden, TagConfig::defaults(ModelKind::Bilstm).model.hidden);
        let error = with(Some(ModelKind::Bilstm), &["model.heads=2"]).unwrap_err().to_string();
        assert!(error.contains("`model.heads` has no meaning for model `bilstm`"), "{error}");
        let error = with(None, &["model.kind=bilstn"]).unwrap_err().to_string();
        assert!(error.contains("one of fc, window"), "{error}");
    }

    #[test]
    fn every_default_is_in_range_and_comes_back_from_its_toml() {
        for kind in ModelKind::ALL {
            let config = TagConfig::defaults(kind);
            config.check().unwrap();
            let layer = Layer::from_toml("config.toml", &config.to_toml()).unwrap();
            assert_eq!(TagConfig::resolve(None, &[layer]).unwrap(), config, "{kind}");
        }
    }

    #[test]
    fn warm_up_takes_at_most_a_fifth_of_a_short_training() {
        let config = TagConfig::defaults(ModelKind::Transformer);
        assert_eq!(config.loop_settings().schedule(100).factor(20), 1.0);
        assert_eq!(config.loop_settings().schedule(5000).factor(400), 1.0);
        assert!(config.loop_settings().schedule(5000).factor(200) < 0.51);
    }

    #[test]
    fn ranges_are_checked_with_the_key_named() {
        for (set, message) in [
            ("train.lr=0", "`train.lr` must be above 0, got 0"),
            ("train.lr=nan", "`train.lr` must be finite and above 0 in single precision, got NaN"),
            ("train.lr=1e-60", "`train.lr` must be finite and above 0 in single precision"),
            ("train.weight_decay=inf", "finite"),
            ("model.dropout=1.0", "`model.dropout` must be in [0, 1), got 1"),
            ("model.layers=0", "`model.layers` must be in 1..=256, got 0"),
            ("model.window_left=-2", "`model.window_left` must be at least 0, or -1"),
            ("train.batch_tokens=0", "`train.batch_tokens` must be at least 1"),
            ("model.layers=1000000", "`model.layers` must be in 1..=256, got 1000000"),
            ("model.d_model=1000000", "`model.d_model` must be in 1..=16384, got 1000000"),
            ("model.char_widths=[10000000]", "`model.char_widths` must be in 1..=64"),
            ("model.char_widths=[]", "`model.char_widths` must be a list of at least one width"),
        ] {
            let error = with(None, &[set]).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
