//! What a case is trained on: batches drawn by the addressed generator, the same on every machine, or those of a treebank.

use std::collections::HashMap;
use std::path::Path;

use regard_data::{Format, Sentence, plan, read_path};
use regard_nn::Ragged;
use regard_nn::models::{CharEncoder, TokenIds};
use regard_tensor::Key;

use super::super::choice::BenchError;
use super::cases::{CharSizes, TrainCase, TrainModel};
use crate::tag::{Lexicon, ModelKind, TagConfig};

/// Drawn batches that the steps take in turn.
const DRAWN: usize = 10;

/// Batches of a treebank that the steps take in turn.
const OF_TREEBANK: usize = 40;

/// Words and their labels.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub(super) ids: TokenIds,
    pub(super) labels: Vec<u32>,
}

/// A case and its batches.
#[derive(Debug, Clone)]
pub struct Work {
    /// The model.
    pub case: TrainCase,
    pub(super) batches: Vec<Batch>,
}

impl Work {
    /// A case of fixed sizes with ten batches: words drawn evenly from the vocabulary; a word's label is its number
    /// modulo the number of labels, so that there is something to learn.
    pub fn drawn(case: TrainCase) -> Self {
        let key = Key::new(0).named("bench train");
        let items = Ragged::new(&vec![case.length; case.batch]);
        let n = items.total();
        let batch = |b: usize| {
            let key = key.child(b as u64);
            let words: Vec<u32> =
                (0..n as u32).map(|i| key.below(i, case.n_words as u32)).collect();
            let labels = words.iter().map(|word| word % case.n_labels as u32).collect();
            Batch { ids: without_chars(items.clone(), words), labels }
        };
        Self { case, batches: (0..DRAWN).map(batch).collect() }
    }

    /// The `transformer` that `train tag` trains by default, without dropout, and the first batches of its first epoch on a
    /// labelled file, at most forty.
    ///
    /// # Errors
    /// The file cannot be read, or has less than two labels.
    pub fn of_treebank(path: &Path) -> Result<Self, BenchError> {
        let TagConfig { data, model, train } = TagConfig::defaults(ModelKind::Transformer);
        let format = Format::of_file(&data.format, &data.column, path)?;
        let sentences = read_path(path, &format)?;
        let lexicon = Lexicon::build(&sentences, data.min_count, data.lowercase);
        if lexicon.labels.len() < 2 {
            return Err(BenchError::TooFewLabels { file: path.to_path_buf() });
        }
        let lengths: Vec<usize> = sentences.iter().map(|s| s.words.len()).collect();
        let plan = plan(&lengths, train.batch_tokens, train.seed, 1);
        let batch = |of: Vec<usize>| {
            let chosen: Vec<&Sentence> = of.into_iter().map(|i| &sentences[i]).collect();
            // Every label is that of a training sentence: none is missing.
            Batch { ids: lexicon.ids(&chosen, None), labels: lexicon.label_ids(&chosen, 0) }
        };
        let case = TrainCase {
            name: "treebank",
            model: TrainModel::Transformer,
            batch: 0,
            length: 0,
            width: model.d_model,
            d_word: model.word_dim,
            chars: Some(CharSizes {
                n_chars: lexicon.n_chars(),
                width: model.char_dim,
                hidden: model.char_hidden,
                widths: std::array::from_fn(|i| model.char_widths[i]),
            }),
            rotary: true,
            layers: model.layers,
            heads: model.heads,
            d_ff: model.ff,
            n_words: lexicon.n_words(),
            n_labels: lexicon.labels.len(),
        };
        debug_assert_eq!(model.chars, CharEncoder::Cnn, "the default reads characters so");
        Ok(Self { case, batches: plan.into_iter().take(OF_TREEBANK).map(batch).collect() })
    }

    /// The sentences that are labelled: of drawn batches the first `1 + (7·i mod 25)` words of sentence i, lengths as those of
    /// a treebank; of a treebank all words.
    pub(super) fn sentences(&self) -> Vec<TokenIds> {
        let all = self.batches.iter().flat_map(|batch| {
            (0..batch.ids.items.items()).map(|item| of_sentence(&batch.ids, item))
        });
        if self.case.length == 0 {
            return all.collect();
        }
        let cut = |(i, sentence): (usize, TokenIds)| {
            let n = (1 + 7 * i % 25).min(self.case.length);
            without_chars(Ragged::new(&[n]), sentence.words[..n].to_vec())
        };
        all.enumerate().map(cut).collect()
    }
}

fn without_chars(items: Ragged, words: Vec<u32>) -> TokenIds {
    let distinct = vec![0; words.len()];
    TokenIds { items, words, distinct, chars: Vec::new(), char_items: Ragged::new(&[]) }
}

/// One sentence of a batch.
fn of_sentence(ids: &TokenIds, item: usize) -> TokenIds {
    let rows = ids.items.rows(item);
    let spellings = ids.distinct[rows.clone()].iter().map(|word| spelling(ids, *word));
    join(&[rows.len()], ids.words[rows.clone()].to_vec(), spellings)
}

/// Sentences as one batch.
pub(super) fn together(sentences: &[&TokenIds]) -> TokenIds {
    let lengths: Vec<usize> = sentences.iter().map(|ids| ids.words.len()).collect();
    let words = sentences.iter().flat_map(|ids| &ids.words).copied().collect();
    let spellings =
        sentences.iter().flat_map(|ids| ids.distinct.iter().map(move |word| spelling(ids, *word)));
    join(&lengths, words, spellings)
}

/// The characters of a distinct word; nothing where characters are not read.
fn spelling(ids: &TokenIds, word: u32) -> &[u32] {
    if ids.chars.is_empty() { &[] } else { &ids.chars[ids.char_items.rows(word as usize)] }
}

/// Words with their spellings, of which each is read once.
fn join<'a>(
    lengths: &[usize],
    words: Vec<u32>,
    spellings: impl Iterator<Item = &'a [u32]>,
) -> TokenIds {
    let mut ids = without_chars(Ragged::new(lengths), words);
    let (mut places, mut char_lengths) = (HashMap::new(), Vec::new());
    for (place, spelling) in ids.distinct.iter_mut().zip(spellings) {
        let next = places.len() as u32;
        *place = *places.entry(spelling).or_insert(next);
        if *place == next && !spelling.is_empty() {
            char_lengths.push(spelling.len());
            ids.chars.extend_from_slice(spelling);
        }
    }
    ids.char_items = Ragged::new(&char_lengths);
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_of_a_batch_together_are_the_batch() {
        let mut file = tempfile::Builder::new().suffix(".conllu").tempfile().unwrap();
        let word =
            |i: usize, form: &str, pos: &str| format!("{i}\t{form}\t_\t{pos}\t_\t_\t_\t_\t_\t_\n");
        let text = [
            word(1, "a", "DET") + &word(2, "dog", "NOUN") + &word(3, "barks", "VERB"),
            word(1, "the", "DET") + &word(2, "dog", "NOUN"),
            word(1, "dog", "NOUN"),
        ]
        .join("\n");
        std::io::Write::write_all(&mut file, (text + "\n").as_bytes()).unwrap();
        let work = Work::of_treebank(file.path()).unwrap();
        assert_eq!((work.batches.len(), work.case.n_labels), (1, 3));
        let batch = &work.batches[0].ids;
        assert_eq!((batch.words.len(), batch.char_items.items()), (6, 4));
        let sentences = work.sentences();
        let all = together(&sentences.iter().collect::<Vec<_>>());
        assert_eq!(&all, batch);
        std::fs::write(file.path(), word(1, "a", "DET") + &word(2, "b", "DET") + "\n").unwrap();
        let one = Work::of_treebank(file.path());
        assert!(matches!(one, Err(BenchError::TooFewLabels { .. })));
        let none = Work::of_treebank(Path::new("none.conllu"));
        assert!(matches!(none, Err(BenchError::Data(_))));
    }
}
