//! A label for every token: words, an encoder, and a softmax or a chain of tags on top.

use regard_tensor::{Real, Tensor};
use serde::{Deserialize, Serialize};

use super::words::{TokenIds, Words, WordsConfig};
use super::{Encoder, EncoderConfig, at_least_one};
use crate::layers::{LayerAttention, Linear};
use crate::ops::{Crf, viterbi};
use crate::{Init, NnError, ParamId, ParamSpecs, Params, Tape, Var};

/// What stands on the encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// Each token's label by itself.
    Softmax,
    /// The best chain of labels (linear-chain CRF).
    Crf,
}

/// Sizes and parts of a tagger.
#[derive(Debug, Clone, PartialEq)]
pub struct TaggerConfig {
    /// The input.
    pub words: WordsConfig,
    /// The encoder.
    pub encoder: EncoderConfig,
    /// Number of labels.
    pub n_labels: usize,
    /// What stands on the encoder.
    pub output: Output,
}

/// The gold labels of a batch and how they count.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Label id of every token; [`IGNORED`](crate::ops::IGNORED) where none counts (softmax output
    /// only: a chain has no gaps).
    pub labels: &'a [u32],
    /// Label smoothing ε (softmax output only).
    pub smoothing: f64,
}

#[derive(Debug, Clone, Copy)]
struct Chain {
    transitions: ParamId,
    start: ParamId,
    end: ParamId,
}

/// Words → encoder → labels.
#[derive(Debug, Clone)]
pub struct Tagger {
    words: Words,
    encoder: Encoder,
    output: Linear,
    chain: Option<Chain>,
}

impl Tagger {
    /// Lists the parameters.
    ///
    /// # Errors
    /// A size of 0, or sizes that do not go together.
    pub fn new(specs: &mut ParamSpecs, config: TaggerConfig) -> Result<Self, NnError> {
        at_least_one(&[("n_labels", config.n_labels)])?;
        config.words.check()?;
        let words = Words::new(specs, config.words);
        let encoder = Encoder::new(specs, words.width(), config.encoder)?;
        let n = config.n_labels;
        let output = Linear::new(specs, "output", encoder.width(), n);
        let chain = (config.output == Output::Crf).then(|| {
            specs.scope("crf", |specs| Chain {
                transitions: specs.add("transitions", &[n, n], Init::Uniform(0.1)),
                start: specs.add("start", &[n], Init::Uniform(0.1)),
                end: specs.add("end", &[n], Init::Uniform(0.1)),
            })
        });
        Ok(Self { words, encoder, output, chain })
    }

    /// The score of every label at every token, `[tokens, labels]`.
    ///
    /// # Errors
    /// Ids outside their tables, shapes that do not fit.
    pub fn logits<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        ids: &TokenIds,
        look: Option<&mut Vec<LayerAttention<T>>>,
    ) -> Result<Var, NnError> {
        let x = self.words.forward(tape, ids)?;
        let x = self.encoder.forward(tape, x, &ids.items, look)?;
        self.output.forward(tape, x)
    }

    /// The loss of a batch: mean cross-entropy a token, or the chain's negative log-likelihood
    /// divided by the number of tokens.
    ///
    /// # Errors
    /// Ids outside their tables, shapes that do not fit.
    pub fn loss<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        ids: &TokenIds,
        target: Target<'_>,
    ) -> Result<Var, NnError> {
        let logits = self.logits(tape, ids, None)?;
        let Some(chain) = self.chain else {
            return tape.cross_entropy(logits, target.labels, target.smoothing);
        };
        let crf = Crf {
            transitions: tape.param(chain.transitions),
            start: tape.param(chain.start),
            end: tape.param(chain.end),
        };
        let loss = tape.crf(logits, &ids.items, target.labels, crf)?;
        let items = ids.items.items() as f64;
        Ok(tape.scale(loss, items / ids.items.total().max(1) as f64))
    }

    /// The best label of every token given the scores: the largest, or the best chain's.
    pub fn decode<T: Real>(
        &self,
        params: &Params<T>,
        logits: &Tensor<T>,
        ids: &TokenIds,
    ) -> Vec<u32> {
        let Some(chain) = self.chain else {
            let largest = |row: &[T]| {
                let better = |best: usize, j: usize| if row[j] > row[best] { j } else { best };
                (0..row.len()).reduce(better).unwrap_or(0) as u32
            };
            return (0..logits.rows()).map(|i| largest(logits.row(i))).collect();
        };
        let c = logits.cols();
        let (transitions, start, end) = (
            params.tensor(chain.transitions),
            params.tensor(chain.start),
            params.tensor(chain.end),
        );
        let path = |b| {
            let rows = ids.items.rows(b);
            let e = &logits.data()[rows.start * c..rows.end * c];
            viterbi(e, transitions.data(), start.data(), end.data())
        };
        (0..ids.items.items()).flat_map(path).collect()
    }
}
