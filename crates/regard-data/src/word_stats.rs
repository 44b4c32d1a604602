//! What training data say of a word: whether it was seen, and with how many labels.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::error::DataError;
use crate::sentence::Sentence;
use crate::tsv;

/// The words of the training data with the number of labels that each was seen with.
///
/// An unseen word shows what a model makes of spelling and context; an ambiguous one, whether it
/// uses context at all.
///
/// ```
/// use regard_data::{Format, Sentences, WordStats};
///
/// let text = "I\tPRON\nsaw\tVERB\na\tDET\nsaw\tNOUN\n";
/// let format = Format::Columns { token: 0, label: Some(1), comments: false };
/// let sentences: Vec<_> = Sentences::new(text.as_bytes(), "t", &format)?.collect::<Result<_, _>>()?;
/// let stats = WordStats::new(&sentences);
/// assert!(stats.is_ambiguous("saw") && !stats.is_ambiguous("I") && !stats.is_ambiguous("cat"));
/// assert!(stats.is_seen("I") && !stats.is_seen("cat"));
/// assert_eq!(stats.to_tsv(), "I\t1\na\t1\nsaw\t2\n");
/// # Ok::<(), regard_data::DataError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WordStats {
    n_labels: BTreeMap<String, u64>,
}

impl WordStats {
    /// From labelled sentences. Words are told apart by case; a word of an unlabelled sentence is seen
    /// with no label.
    pub fn new(sentences: &[Sentence]) -> Self {
        let mut labels: HashMap<&str, HashSet<&str>> = HashMap::new();
        for sentence in sentences {
            for (i, word) in sentence.words.iter().enumerate() {
                let seen = labels.entry(word).or_default();
                seen.extend(sentence.labels.get(i).map(String::as_str));
            }
        }
        let n_labels =
            labels.into_iter().map(|(word, seen)| (word.to_owned(), seen.len() as u64)).collect();
        Self { n_labels }
    }

    /// Whether the word was in the training data.
    pub fn is_seen(&self, word: &str) -> bool {
        self.n_labels.contains_key(word)
    }

    /// Whether the word was seen with two labels or more.
    pub fn is_ambiguous(&self, word: &str) -> bool {
        self.n_labels.get(word).is_some_and(|n| *n >= 2)
    }

    /// How many different words were seen.
    pub fn len(&self) -> usize {
        self.n_labels.len()
    }

    /// Whether no word was seen.
    pub fn is_empty(&self) -> bool {
        self.n_labels.is_empty()
    }

    /// As lines `word<TAB>number of labels`, sorted by word; escapes as in
    /// [`Vocab::to_tsv`](crate::Vocab::to_tsv).
    pub fn to_tsv(&self) -> String {
        tsv::write(self.n_labels.iter().map(|(word, n)| (word.as_str(), *n)))
    }

    /// From the text of [`to_tsv`](Self::to_tsv); `name` stands for it in errors.
    ///
    /// # Errors
    /// [`WrongColumns`](DataError::WrongColumns), [`BadCount`](DataError::BadCount),
    /// [`BadEscape`](DataError::BadEscape) or [`DuplicateEntry`](DataError::DuplicateEntry).
    pub fn from_tsv(name: &str, text: &str) -> Result<Self, DataError> {
        Ok(Self { n_labels: tsv::read(name, text)?.into_iter().collect() })
    }
}
