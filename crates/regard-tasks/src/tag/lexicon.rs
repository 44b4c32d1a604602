//! Words, characters and labels to ids and back.

use std::collections::HashMap;

use regard_data::{LabelSet, Sentence, Vocab, WordStats};
use regard_nn::Ragged;
use regard_nn::models::TokenIds;
use regard_tensor::Key;

use crate::TaskError;
use crate::run::{RunFacts, RunFolder, files, hash};

/// Marks the beginning of a word for the character encoder.
const BEGIN: &str = "<w>";
/// Marks its end.
const END: &str = "</w>";
/// Characters of a word that are read: its first and last ones, this many in all.
const MAX_CHARS: usize = 40;

/// The vocabularies of a tagger.
#[derive(Debug, Clone)]
pub struct Lexicon {
    words: Vocab,
    chars: Vocab,
    /// The labels.
    pub labels: LabelSet,
    /// Which words training saw, and which of them are ambiguous.
    pub seen: WordStats,
    lowercase: bool,
}

impl Lexicon {
    /// Collects the vocabularies of a training file.
    pub fn build(sentences: &[Sentence], min_count: u64, lowercase: bool) -> Self {
        let all = || sentences.iter().flat_map(|s| &s.words);
        let forms: Vec<String> = all().map(|w| normal(w, lowercase)).collect();
        let words = Vocab::build(forms.iter().map(String::as_str), min_count.max(1));
        let mut counts: HashMap<String, u64> = HashMap::new();
        for word in all() {
            for c in word.chars() {
                *counts.entry(c.to_string()).or_default() += 1;
            }
        }
        let total = forms.len() as u64;
        counts.extend([(BEGIN.to_string(), total), (END.to_string(), total)]);
        let labels = LabelSet::build(sentences.iter().flat_map(|s| &s.labels).map(String::as_str));
        Self {
            words,
            chars: Vocab::from_counts(counts, 1),
            labels,
            seen: WordStats::new(sentences),
            lowercase,
        }
    }

    /// Writes the vocabularies to a run folder.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn save(&self, run: &RunFolder) -> Result<(), TaskError> {
        run.write(files::WORDS, &self.words.to_tsv())?;
        run.write(files::CHARS, &self.chars.to_tsv())?;
        run.write(files::LABELS, &self.labels.to_tsv())?;
        run.write(files::SEEN, &self.seen.to_tsv())
    }

    /// Reads the vocabularies of a run folder.
    ///
    /// # Errors
    /// A file is missing or damaged.
    pub fn load(run: &RunFolder, lowercase: bool, facts: &RunFacts) -> Result<Self, TaskError> {
        let name = |file: &str| run.file(file).display().to_string();
        let read = |file| run.read(file);
        let lexicon = Self {
            words: Vocab::from_tsv(&name(files::WORDS), &read(files::WORDS)?)?,
            chars: Vocab::from_tsv(&name(files::CHARS), &read(files::CHARS)?)?,
            labels: LabelSet::from_tsv(&name(files::LABELS), &read(files::LABELS)?)?,
            seen: WordStats::from_tsv(&name(files::SEEN), &read(files::SEEN)?)?,
            lowercase,
        };
        // No weight depends on these words, so that the fingerprint does not tell.
        if facts.seen_sha256.as_ref().is_some_and(|hash| *hash != lexicon.seen_sha256()) {
            let fault = "the words are not those that the training saw".into();
            return Err(TaskError::Damaged { file: run.file(files::SEEN), fault });
        }
        Ok(lexicon)
    }

    /// Hash of the words that training saw, with the number of labels of each.
    pub(super) fn seen_sha256(&self) -> String {
        hash(self.seen.to_tsv().as_bytes())
    }

    /// All that decides which id a word, a character and a label has, as one text.
    pub(super) fn identity(&self) -> String {
        let lowercase = self.lowercase;
        let (words, chars, labels) =
            (self.words.to_tsv(), self.chars.to_tsv(), self.labels.to_tsv());
        format!("lowercase = {lowercase}\n{words}\n{chars}\n{labels}")
    }

    /// Number of word vectors.
    pub fn n_words(&self) -> usize {
        self.words.len()
    }

    /// Number of character vectors.
    pub fn n_chars(&self) -> usize {
        self.chars.len()
    }

    /// The ids of a batch. With `dropout` (α and a random stream), a word seen n times in training
    /// is read as unknown with probability α/(α + n).
    pub fn ids(&self, sentences: &[&Sentence], dropout: Option<(f64, Key)>) -> TokenIds {
        let lengths: Vec<usize> = sentences.iter().map(|s| s.words.len()).collect();
        let mut ids = TokenIds {
            items: Ragged::new(&lengths),
            words: Vec::new(),
            distinct: Vec::new(),
            chars: Vec::new(),
            char_items: Ragged::new(&[]),
        };
        let mut places: HashMap<&str, u32> = HashMap::new();
        let mut char_lengths = Vec::new();
        for word in sentences.iter().flat_map(|s| &s.words) {
            let mut id = self.words.get(&normal(word, self.lowercase));
            if let Some((alpha, key)) = dropout {
                let unknown = alpha / (alpha + self.words.count(id) as f64);
                if f64::from(key.uniform(ids.words.len() as u32)) < unknown {
                    id = 0;
                }
            }
            ids.words.push(id);
            let next = places.len() as u32;
            let place = *places.entry(word).or_insert(next);
            if place == next {
                char_lengths.push(self.push_chars(word, &mut ids.chars));
            }
            ids.distinct.push(place);
        }
        ids.char_items = Ragged::new(&char_lengths);
        ids
    }

    fn push_chars(&self, word: &str, out: &mut Vec<u32>) -> usize {
        let before = out.len();
        let n = word.chars().count();
        let half = MAX_CHARS / 2;
        let mut buffer = [0; 4];
        out.push(self.chars.get(BEGIN));
        for (i, c) in word.chars().enumerate() {
            if n <= MAX_CHARS || i < half || i >= n - half {
                out.push(self.chars.get(c.encode_utf8(&mut buffer)));
            }
        }
        out.push(self.chars.get(END));
        out.len() - before
    }

    /// The label ids of sentences; `missing` stands for labels that training did not see.
    pub fn label_ids(&self, sentences: &[&Sentence], missing: u32) -> Vec<u32> {
        let labels = sentences.iter().flat_map(|s| &s.labels);
        labels.map(|label| self.labels.id(label).unwrap_or(missing)).collect()
    }
}

fn normal(word: &str, lowercase: bool) -> String {
    if lowercase { word.to_lowercase() } else { word.to_string() }
}
