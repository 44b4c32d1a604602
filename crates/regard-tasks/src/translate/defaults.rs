//! Defaults by model, ranges, and the model that settings stand for.

use regard_data::TokeniserSettings;
use regard_nn::layers::Norm;
use regard_nn::models::PositionKind;
use regard_nn::models::translation::{
    AlignmentScope, AlignmentScore, BahdanauConfig, Cho2014Config, LocationAware, LuongConfig,
    NormaliserKind, Seq2seqConfig, Tie, TransformerConfig, TranslatorModel,
};
use regard_nn::ops::Cell;

use super::config::{
    DataConfig, ModelConfig, ModelKind, Select, Tokens, TrainConfig, TranslateConfig,
};
use crate::config::ConfigError;
use crate::training::{OptimiserKind, ScheduleKind, SettingsCheck, range};

/// Bounds that only a slip of the hand exceeds.
const MAX_WIDTH: usize = 16_384;
const MAX_LAYERS: usize = 256;
const MAX_REACH: usize = 4096;
const MAX_VOCAB: usize = 1 << 20;

impl TranslateConfig {
    /// The defaults of a model, for some ten thousand pairs of short sentences and two processor cores.
    pub fn defaults(kind: ModelKind) -> Self {
        let attention = kind == ModelKind::Transformer;
        Self {
            data: DataConfig {
                train: Vec::new(),
                dev: Vec::new(),
                columns: String::new(),
                tokens: Tokens::Bpe,
                vocab_size: 4000,
                shared_vocab: true,
                min_count: 2,
                lowercase: false,
                max_tokens: 128,
                max_ratio: 0.0,
            },
            model: ModelConfig {
                kind,
                cell: Cell::Lstm,
                embedding: 256,
                hidden: 256,
                layers: 1,
                bidirectional: true,
                reverse_source: kind == ModelKind::Seq2seq,
                readout: 128,
                attention: 256,
                score: AlignmentScore::General,
                scope: AlignmentScope::Global,
                radius: 10,
                max_source: 256,
                input_feeding: true,
                normaliser: NormaliserKind::Softmax,
                location_filters: 0,
                location_radius: 5,
                d_model: 256,
                heads: 4,
                encoder_layers: 3,
                decoder_layers: 3,
                ff: 512,
                norm: Norm::Before,
                position: PositionKind::Sinusoidal,
                tie: Tie::All,
                attention_dropout: 0.1,
                dropout: 0.2,
            },
            train: TrainConfig {
                epochs: if attention { 16 } else { 15 },
                minutes: 0.0,
                batch_tokens: if attention { 2000 } else { 1500 },
                accumulate: 1,
                optimiser: OptimiserKind::Adam,
                lr: if attention { 1.5e-3 } else { 3e-3 },
                schedule: if attention { ScheduleKind::InverseSqrt } else { ScheduleKind::Cosine },
                warmup: if attention { 500 } else { 200 },
                floor: 0.05,
                momentum: 0.9,
                beta1: 0.9,
                beta2: 0.98,
                eps: 1e-9,
                weight_decay: 0.0,
                clip: 1.0,
                smoothing: 0.1,
                scheduled_sampling: 0.0,
                average: if attention { 0.995 } else { 0.99 },
                select: Select::Bleu,
                patience: 0,
                samples: 2,
                checkpoint_every: 0,
                seed: 1,
            },
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// Names the key at fault and its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (d, m, t) = (&self.data, &self.model, &self.train);
        let at_least = SettingsCheck::at_least;
        let within = SettingsCheck::within;
        let rate = SettingsCheck::rate;
        let positive = SettingsCheck::positive;
        let not_negative = SettingsCheck::not_negative;
        within("data.vocab_size", d.vocab_size, MAX_VOCAB)?;
        let least =
            if d.tokens.kind().is_subword() { TokeniserSettings::LEAST_SUBWORDS + 1 } else { 4 };
        at_least("data.vocab_size", d.vocab_size, least)?;
        at_least("data.max_tokens", d.max_tokens, 1)?;
        not_negative("data.max_ratio", d.max_ratio)?;
        if m.kind == ModelKind::Transformer && m.tie == Tie::All && !d.shared_vocab {
            let expected = "target or none where data.shared_vocab = false";
            return Err(range("model.tie", expected, "all"));
        }
        let by_place = m.kind == ModelKind::Luong && m.score == AlignmentScore::Location;
        if by_place && d.max_tokens > m.max_source {
            let expected = format!("at most model.max_source = {} for this score", m.max_source);
            return Err(range("data.max_tokens", expected, d.max_tokens));
        }
        for (key, width) in [
            ("model.embedding", m.embedding),
            ("model.hidden", m.hidden),
            ("model.readout", m.readout),
            ("model.attention", m.attention),
            ("model.d_model", m.d_model),
            ("model.heads", m.heads),
            ("model.ff", m.ff),
        ] {
            within(key, width, MAX_WIDTH)?;
        }
        within("model.layers", m.layers, MAX_LAYERS)?;
        within("model.encoder_layers", m.encoder_layers, MAX_LAYERS)?;
        within("model.decoder_layers", m.decoder_layers, MAX_LAYERS)?;
        within("model.radius", m.radius, MAX_REACH)?;
        within("model.max_source", m.max_source, MAX_WIDTH)?;
        within("model.location_radius", m.location_radius, MAX_REACH)?;
        if m.location_filters > MAX_WIDTH {
            let expected = format!("at most {MAX_WIDTH}");
            return Err(range("model.location_filters", expected, m.location_filters));
        }
        rate("model.dropout", m.dropout)?;
        rate("model.attention_dropout", m.attention_dropout)?;
        at_least("train.epochs", t.epochs as usize, 1)?;
        not_negative("train.minutes", t.minutes)?;
        at_least("train.batch_tokens", t.batch_tokens, 1)?;
        at_least("train.accumulate", t.accumulate, 1)?;
        positive("train.lr", t.lr)?;
        not_negative("train.clip", t.clip)?;
        not_negative("train.weight_decay", t.weight_decay)?;
        rate("train.smoothing", t.smoothing)?;
        rate("train.average", t.average)?;
        rate("train.momentum", t.momentum)?;
        rate("train.beta1", t.beta1)?;
        rate("train.beta2", t.beta2)?;
        positive("train.eps", t.eps)?;
        for (key, x) in
            [("train.floor", t.floor), ("train.scheduled_sampling", t.scheduled_sampling)]
        {
            if !(0.0..=1.0).contains(&x) {
                return Err(range(key, "in [0, 1]", x));
            }
        }
        Ok(())
    }

    /// The model that the settings stand for.
    pub fn translator(&self) -> TranslatorModel {
        let m = &self.model;
        let location_aware = (m.location_filters > 0)
            .then_some(LocationAware { filters: m.location_filters, radius: m.location_radius });
        match m.kind {
            ModelKind::Seq2seq => TranslatorModel::Seq2seq(Seq2seqConfig {
                cell: m.cell,
                embedding: m.embedding,
                hidden: m.hidden,
                layers: m.layers,
                reverse_source: m.reverse_source,
                dropout: m.dropout,
            }),
            ModelKind::Cho2014 => TranslatorModel::Cho2014(Cho2014Config {
                embedding: m.embedding,
                hidden: m.hidden,
                readout: m.readout,
                dropout: m.dropout,
            }),
            ModelKind::Bahdanau => TranslatorModel::Bahdanau(BahdanauConfig {
                embedding: m.embedding,
                hidden: m.hidden,
                attention: m.attention,
                readout: m.readout,
                normaliser: m.normaliser,
                location_aware,
                dropout: m.dropout,
            }),
            ModelKind::Luong => TranslatorModel::Luong(LuongConfig {
                cell: m.cell,
                embedding: m.embedding,
                hidden: m.hidden,
                layers: m.layers,
                bidirectional: m.bidirectional,
                reverse_source: m.reverse_source,
                score: m.score,
                scope: m.scope,
                radius: m.radius,
                max_source: m.max_source,
                normaliser: m.normaliser,
                location_aware,
                input_feeding: m.input_feeding,
                dropout: m.dropout,
            }),
            ModelKind::Transformer => TranslatorModel::Transformer(TransformerConfig {
                d_model: m.d_model,
                heads: m.heads,
                encoder_layers: m.encoder_layers,
                decoder_layers: m.decoder_layers,
                d_ff: m.ff,
                norm: m.norm,
                position: m.position,
                tie: m.tie,
                dropout: m.dropout,
                attention_dropout: m.attention_dropout,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layer;

    fn with(kind: Option<ModelKind>, sets: &[&str]) -> Result<TranslateConfig, ConfigError> {
        let layers: Vec<Layer> =
            sets.iter().map(|s| Layer::from_assignment(s)).collect::<Result<_, _>>()?;
        TranslateConfig::resolve(kind, &layers)
    }

    #[test]
    fn every_default_is_in_range_and_comes_back_from_its_toml() {
        for kind in ModelKind::ALL {
            let config = TranslateConfig::defaults(kind);
            config.check().unwrap();
            let layer = Layer::from_toml("config.toml", &config.to_toml()).unwrap();
            assert_eq!(TranslateConfig::resolve(None, &[layer]).unwrap(), config, "{kind}");
        }
    }

    #[test]
    fn the_model_decides_which_keys_there_are() {
        for (kind, set) in [
            (ModelKind::Bahdanau, "model.heads=2"),
            (ModelKind::Transformer, "model.cell=gru"),
            (ModelKind::Cho2014, "model.layers=2"),
            (ModelKind::Seq2seq, "model.score=dot"),
        ] {
            let error = with(Some(kind), &[set]).unwrap_err().to_string();
            assert!(error.contains(&format!("has no meaning for model `{kind}`")), "{error}");
        }
        let location = ["model.score=location", "model.max_source=100"];
        let error = with(Some(ModelKind::Luong), &location).unwrap_err().to_string();
        assert!(
            error.contains("`data.max_tokens` must be at most model.max_source = 100"),
            "{error}"
        );
        let error = with(None, &["model.kind=loung"]).unwrap_err().to_string();
        assert!(error.contains("one of seq2seq, cho2014, bahdanau, luong"), "{error}");
    }

    #[test]
    fn ranges_are_checked_with_the_key_named() {
        for (set, message) in [
            ("data.vocab_size=200", "`data.vocab_size` must be at least 260, got 200"),
            ("data.vocab_size=10000000", "`data.vocab_size` must be in 1..=1048576"),
            ("data.max_tokens=0", "`data.max_tokens` must be at least 1"),
            ("data.shared_vocab=false", "`model.tie` must be target or none where"),
            ("data.tokens=words", "unknown variant `words`, expected one of `bpe`, `unigram`"),
            ("model.d_model=0", "`model.d_model` must be in 1..=16384"),
            ("model.encoder_layers=0", "`model.encoder_layers` must be in 1..=256"),
            ("data.max_ratio=-1", "`data.max_ratio` must be at least 0"),
            ("train.minutes=-1", "`train.minutes` must be at least 0"),
            ("train.accumulate=0", "`train.accumulate` must be at least 1"),
            ("train.scheduled_sampling=2", "`train.scheduled_sampling` must be in [0, 1]"),
            ("train.select=ter", "unknown variant `ter`, expected `bleu` or `loss`"),
        ] {
            let error = with(None, &[set]).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
