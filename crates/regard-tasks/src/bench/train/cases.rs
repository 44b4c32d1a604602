//! The models and sizes, and the operations that a step of them takes at least.

use regard_nn::models::TokenIds;
use serde::Serialize;

use super::super::choice::{BenchError, known};

/// What encodes the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainModel {
    /// The Transformer's encoder: layer norms before the sub-layers, GELU, sinusoidal positions.
    Transformer,
    /// An LSTM from left to right.
    Lstm,
    /// An LSTM in both directions.
    Bilstm,
    /// A GRU from left to right.
    Gru,
}

impl TrainModel {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Transformer, Self::Lstm, Self::Bilstm, Self::Gru];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Transformer => "transformer",
            Self::Lstm => "lstm",
            Self::Bilstm => "bilstm",
            Self::Gru => "gru",
        }
    }
}

/// Sizes of the convolutions over characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CharSizes {
    /// Number of characters.
    pub n_chars: usize,
    /// Width of a character vector.
    pub width: usize,
    /// Filters of each width.
    pub hidden: usize,
    /// Widths of the convolutions.
    pub widths: [usize; 3],
}

/// A tagger of fixed sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TrainCase {
    /// Its name.
    pub name: &'static str,
    /// What encodes the tokens.
    pub model: TrainModel,
    /// Sentences of a batch; 0 where it differs from batch to batch.
    pub batch: usize,
    /// Tokens of a sentence; 0 where it differs from sentence to sentence.
    pub length: usize,
    /// Width of the Transformer and of a direction's hidden state.
    pub width: usize,
    /// Width of a word vector.
    pub d_word: usize,
    /// The convolutions over a word's characters, where there are any.
    pub chars: Option<CharSizes>,
    /// Whether queries and keys are turned by their place; else the Transformer adds sines and cosines to its input.
    pub rotary: bool,
    /// Number of layers.
    pub layers: usize,
    /// Attention heads; 0 without attention.
    pub heads: usize,
    /// Width of the feed-forward layers; 0 without them.
    pub d_ff: usize,
    /// Words of the vocabulary.
    pub n_words: usize,
    /// Number of labels.
    pub n_labels: usize,
}

const TAGGER: TrainCase = TrainCase {
    name: "tagger_32",
    model: TrainModel::Transformer,
    batch: 16,
    length: 128,
    width: 256,
    d_word: 256,
    chars: None,
    rotary: false,
    layers: 4,
    heads: 4,
    d_ff: 1024,
    n_words: 10_000,
    n_labels: 32,
};

const LSTM: TrainCase = TrainCase {
    name: "lstm",
    model: TrainModel::Lstm,
    batch: 32,
    length: 30,
    layers: 1,
    heads: 0,
    d_ff: 0,
    ..TAGGER
};

/// All cases.
const CASES: [TrainCase; 6] = [
    TAGGER,
    TrainCase { name: "tagger_10000", n_labels: 10_000, ..TAGGER },
    LSTM,
    TrainCase { name: "bilstm", model: TrainModel::Bilstm, ..LSTM },
    TrainCase { name: "gru", model: TrainModel::Gru, ..LSTM },
    TrainCase {
        name: "small",
        batch: 8,
        length: 32,
        width: 64,
        d_word: 64,
        layers: 2,
        d_ff: 256,
        n_words: 1_000,
        ..TAGGER
    },
];

/// The cases of these names that are of one of these models; of all where nothing is named.
///
/// # Errors
/// An unknown name; cases of which none is of one of the models.
pub fn chosen(cases: &[String], models: &[String]) -> Result<Vec<TrainCase>, BenchError> {
    let models = known("model", models, &TrainModel::ALL.map(TrainModel::name))?;
    let names = known("case", cases, &CASES.map(|case| case.name))?;
    let wanted =
        |case: &TrainCase| names.contains(&case.name) && models.contains(&case.model.name());
    let chosen: Vec<_> = CASES.into_iter().filter(wanted).collect();
    if chosen.is_empty() { Err(BenchError::NoCase) } else { Ok(chosen) }
}

impl TrainCase {
    /// Operations of the matrix products of a step, a multiply-add being two: forward, and twice as many
    /// backward.
    pub fn operations(&self, ids: &TokenIds) -> usize {
        let (d, tokens) = (self.width, ids.words.len());
        let linear = |d_in: usize, d_out: usize| d_in * d_out;
        let of_char = self.chars.map_or(0, |chars| {
            chars.widths.iter().map(|width| linear(width * chars.width, chars.hidden)).sum()
        });
        // Each direction: both matrices of all gates at every token.
        let recurrent = |gates: usize, directions: usize| {
            directions * gates * linear(2 * d, d) + linear(directions * d, self.n_labels)
        };
        let of_token = match self.model {
            TrainModel::Transformer => {
                let attention = linear(d, 3 * d) + linear(d, d);
                let layer = attention + linear(d, self.d_ff) + linear(self.d_ff, d);
                linear(self.d_in(), d) + self.layers * layer + linear(d, self.n_labels)
            }
            TrainModel::Lstm => recurrent(4, 1),
            TrainModel::Bilstm => recurrent(4, 2),
            TrainModel::Gru => recurrent(3, 1),
        };
        let pairs: usize = ids.items.lengths().iter().map(|length| length * length).sum();
        let attention = if self.heads == 0 { 0 } else { self.layers * 2 * pairs * d };
        3 * 2 * (of_token * tokens + attention + of_char * ids.chars.len())
    }

    /// Width of a token's vector before the encoder.
    fn d_in(&self) -> usize {
        self.d_word + self.chars.map_or(0, |chars| chars.widths.len() * chars.hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Work;
    use super::*;

    fn names(cases: &[&str], models: &[&str]) -> Vec<&'static str> {
        let own = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        chosen(&own(cases), &own(models)).unwrap().iter().map(|case| case.name).collect()
    }

    #[test]
    fn cases_are_chosen_by_name_and_model() {
        assert_eq!(names(&[], &[]).len(), CASES.len());
        assert_eq!(names(&["gru"], &[]), ["gru"]);
        assert_eq!(names(&[], &["lstm", "bilstm"]), ["lstm", "bilstm"]);
        let none = chosen(&["gru".into()], &["lstm".into()]);
        assert!(matches!(none, Err(BenchError::NoCase)));
    }

    #[test]
    fn operations_are_those_of_the_products() {
        let of = |name: &str| chosen(&[name.into()], &[]).unwrap()[0];
        // An LSTM's token: eight matrices of 256 × 256 and 32 labels.
        let operations = |name: &str| of(name).operations(&Work::drawn(of(name)).batches[0].ids);
        assert_eq!(operations("lstm"), 6 * (8 * 256 * 256 + 32 * 256) * 960);
        // A Transformer's token: 12 d² a layer, 2·L·d a layer for the pairs, the input and the labels.
        let token = 4 * (12 * 256 * 256 + 2 * 128 * 256) + 256 * 256 + 32 * 256;
        assert_eq!(operations("tagger_32"), 6 * token * 2048);
    }
}
