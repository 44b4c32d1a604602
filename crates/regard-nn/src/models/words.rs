//! The input of a token model: word vectors with an optional character encoder.

use regard_tensor::Real;
use serde::{Deserialize, Serialize};

use super::at_least_one;
use crate::layers::{Embedding, Linear, Lstm};
use crate::ops::{Activation, Pool};
use crate::{NnError, ParamSpecs, Ragged, Tape, Var};

/// How the characters of a word become a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CharEncoder {
    /// Not at all.
    None,
    /// Convolutions over the characters, maximum over the word (Santos and Zadrozny 2014).
    Cnn,
    /// The last states of a bidirectional LSTM (Ling et al. 2015).
    Lstm,
}

/// Sizes of the input.
#[derive(Debug, Clone, PartialEq)]
pub struct WordsConfig {
    /// Number of words in the vocabulary.
    pub n_words: usize,
    /// Width of a word vector.
    pub d_word: usize,
    /// Number of characters.
    pub n_chars: usize,
    /// Width of a character vector.
    pub d_char: usize,
    /// How characters are read.
    pub encoder: CharEncoder,
    /// Filters of each width, or hidden size of each direction.
    pub char_hidden: usize,
    /// Widths of the convolutions.
    pub char_widths: Vec<usize>,
    /// Dropout on the word and on the character vectors.
    pub dropout: f64,
}

impl WordsConfig {
    /// Checks the sizes; those of the characters only where they are read.
    pub(super) fn check(&self) -> Result<(), NnError> {
        at_least_one(&[("d_word", self.d_word)])?;
        if self.encoder == CharEncoder::None {
            return Ok(());
        }
        at_least_one(&[("d_char", self.d_char), ("char_hidden", self.char_hidden)])?;
        let widths = &self.char_widths;
        let repeats = (1..widths.len()).any(|i| widths[i..].contains(&widths[i - 1]));
        if self.encoder == CharEncoder::Cnn && (widths.is_empty() || widths.contains(&0) || repeats)
        {
            let expected = "one or more different widths, each at least 1".into();
            let actual = format!("{widths:?}");
            return Err(NnError::Hyper { name: "char_widths", expected, actual });
        }
        Ok(())
    }
}

/// The ids of a batch. Characters are those of the batch's distinct words, each read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenIds {
    /// Lengths of the sentences.
    pub items: Ragged,
    /// Word id of every token.
    pub words: Vec<u32>,
    /// Index of every token's word among the distinct words.
    pub distinct: Vec<u32>,
    /// Character ids of the distinct words, one word after another.
    pub chars: Vec<u32>,
    /// Lengths of the distinct words; each at least 1.
    pub char_items: Ragged,
}

#[derive(Debug, Clone)]
enum Chars {
    None,
    Cnn { table: Embedding, filters: Vec<(usize, Linear)> },
    Lstm { table: Embedding, lstm: Lstm },
}

/// `x_i = [E w_i; chars(w_i)]`
#[derive(Debug, Clone)]
pub struct Words {
    config: WordsConfig,
    table: Embedding,
    chars: Chars,
}

impl Words {
    /// Parameters `words.table`, `chars.table` and the character encoder's.
    pub fn new(specs: &mut ParamSpecs, config: WordsConfig) -> Self {
        let table = Embedding::new(specs, "words", config.n_words, config.d_word, 0.1);
        let chars = specs.scope("chars", |specs| {
            let table = |specs: &mut ParamSpecs| {
                Embedding::new(specs, "embedding", config.n_chars, config.d_char, 0.3)
            };
            let hidden = config.char_hidden;
            match config.encoder {
                CharEncoder::None => Chars::None,
                CharEncoder::Cnn => Chars::Cnn {
                    table: table(specs),
                    filters: config
                        .char_widths
                        .iter()
                        .map(|w| {
                            (
                                *w,
                                Linear::new(specs, &format!("width{w}"), w * config.d_char, hidden),
                            )
                        })
                        .collect(),
                },
                CharEncoder::Lstm => Chars::Lstm {
                    table: table(specs),
                    lstm: Lstm::new(specs, "lstm", config.d_char, hidden, true),
                },
            }
        });
        Self { config, table, chars }
    }

    /// Width of the vectors.
    pub fn width(&self) -> usize {
        let chars = match self.config.encoder {
            CharEncoder::None => 0,
            CharEncoder::Cnn => self.config.char_widths.len() * self.config.char_hidden,
            CharEncoder::Lstm => 2 * self.config.char_hidden,
        };
        self.config.d_word + chars
    }

    /// The vectors of all tokens, `[tokens, width]`.
    ///
    /// # Errors
    /// An id outside its table.
    pub fn forward<T: Real>(&self, tape: &mut Tape<'_, T>, ids: &TokenIds) -> Result<Var, NnError> {
        let rate = self.config.dropout;
        let words = self.table.forward(tape, &ids.words)?;
        let words = tape.dropout(words, rate)?;
        let distinct = match &self.chars {
            Chars::None => return Ok(words),
            Chars::Cnn { table, filters } => {
                let x = table.forward(tape, &ids.chars)?;
                let mut parts = Vec::new();
                for (width, filter) in filters {
                    let left = (width - 1) / 2;
                    let windows = tape.windows(x, &ids.char_items, left, width - 1 - left)?;
                    let y = filter.apply(tape, windows, Activation::Relu, None)?;
                    parts.push(tape.pool(y, &ids.char_items, Pool::Max)?);
                }
                tape.concat(&parts)?
            }
            Chars::Lstm { table, lstm } => {
                let x = table.forward(tape, &ids.chars)?;
                let (there, back) = lstm.directions(tape, x, &ids.char_items)?;
                let items = &ids.char_items;
                let ends: Vec<u32> =
                    (0..items.items()).map(|b| items.rows(b).end as u32 - 1).collect();
                let starts: Vec<u32> =
                    (0..items.items()).map(|b| items.rows(b).start as u32).collect();
                let mut parts = vec![tape.embedding(there, &ends)?];
                if let Some(back) = back {
                    parts.push(tape.embedding(back, &starts)?);
                }
                tape.concat(&parts)?
            }
        };
        let chars = tape.embedding(distinct, &ids.distinct)?;
        let chars = tape.dropout(chars, rate)?;
        tape.concat(&[words, chars])
    }
}
