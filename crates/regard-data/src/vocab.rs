//! Strings and their numbers: words with an unknown one, labels without.

use std::collections::HashMap;

use crate::error::DataError;
use crate::tsv;

/// What stands for a word that is not in a [`Vocab`].
pub const UNK: &str = "<unk>";

/// The number of [`UNK`].
pub const UNK_ID: u32 = 0;

/// Words (or characters) and their numbers `0..len`; 0 is [`UNK`], any word that is not in it.
///
/// The others are ordered by count, the largest first, then by their bytes, so that the same
/// counts give the same numbers.
///
/// ```
/// use regard_data::Vocab;
///
/// let vocab = Vocab::build(["a", "saw", "I", "saw", "a", "saw"], 2);
/// assert_eq!(vocab.len(), 3);
/// assert_eq!((vocab.get("saw"), vocab.get("a"), vocab.get("I")), (1, 2, 0));
/// assert_eq!((vocab.name(1), vocab.count(1), vocab.count(0)), ("saw", 3, 1));
/// assert_eq!(vocab.to_tsv(), "<unk>\t1\nsaw\t3\na\t2\n");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocab {
    entries: Vec<(String, u64)>,
    ids: HashMap<String, u32>,
}

impl Vocab {
    /// Counts `words`; see [`from_counts`](Self::from_counts).
    pub fn build<'a>(words: impl IntoIterator<Item = &'a str>, min_count: u64) -> Self {
        Self::from_counts(count(words), min_count)
    }

    /// The words that were counted at least `min_count` times (0 and 1 keep all). The counts of the
    /// others, and of a word spelled `<unk>`, add up to that of [`UNK`]. A word given twice counts as its
    /// sum.
    pub fn from_counts(counts: impl IntoIterator<Item = (String, u64)>, min_count: u64) -> Self {
        let mut merged: HashMap<String, u64> = HashMap::new();
        for (word, count) in counts {
            let sum = merged.entry(word).or_default();
            *sum = sum.saturating_add(count);
        }
        let mut n_unknown = 0u64;
        merged.retain(|word, count| {
            let is_kept = *count >= min_count && word != UNK;
            if !is_kept {
                n_unknown = n_unknown.saturating_add(*count);
            }
            is_kept
        });
        let mut entries = vec![(UNK.to_owned(), n_unknown)];
        entries.extend(in_order(merged));
        Self::from_entries(entries)
    }

    fn from_entries(entries: Vec<(String, u64)>) -> Self {
        let ids = numbered(&entries[1..], 1);
        Self { entries, ids }
    }

    /// The number of a word; [`UNK_ID`] if it is not here.
    pub fn get(&self, word: &str) -> u32 {
        self.ids.get(word).copied().unwrap_or(UNK_ID)
    }

    /// Whether a word has a number of its own. [`UNK`] itself is no word.
    pub fn contains(&self, word: &str) -> bool {
        self.ids.contains_key(word)
    }

    /// The word of a number.
    ///
    /// # Panics
    /// If `id` is not below [`len`](Self::len).
    pub fn name(&self, id: u32) -> &str {
        &self.entries[id as usize].0
    }

    /// How often the word of a number was counted; for [`UNK_ID`], all words left out.
    ///
    /// # Panics
    /// If `id` is not below [`len`](Self::len).
    pub fn count(&self, id: u32) -> u64 {
        self.entries[id as usize].1
    }

    /// How many numbers there are, [`UNK_ID`] among them: at least one.
    #[allow(clippy::len_without_is_empty, reason = "it is never empty: it holds the unknown word")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// As lines `word<TAB>count` in the order of the numbers; `\\`, `\t`, `\n`, `\r` stand for
    /// a backslash, tab or line end in a word.
    pub fn to_tsv(&self) -> String {
        tsv::write(entries(&self.entries))
    }

    /// From the text of [`to_tsv`](Self::to_tsv); `name` stands for it in errors. The numbers
    /// follow the order of the lines.
    ///
    /// # Errors
    /// [`MissingUnknown`](DataError::MissingUnknown), [`WrongColumns`](DataError::WrongColumns),
    /// [`BadCount`](DataError::BadCount), [`BadEscape`](DataError::BadEscape) or
    /// [`DuplicateEntry`](DataError::DuplicateEntry), each with its line.
    pub fn from_tsv(name: &str, text: &str) -> Result<Self, DataError> {
        let entries = tsv::read(name, text)?;
        if entries.first().is_none_or(|(word, _)| word != UNK) {
            return Err(DataError::MissingUnknown { file: name.to_owned() });
        }
        Ok(Self::from_entries(entries))
    }
}

/// Labels and their numbers `0..len`, ordered by count, the largest first, then by their bytes. A
/// label that is not in it has no number.
///
/// ```
/// use regard_data::LabelSet;
///
/// let labels = LabelSet::build(["NOUN", "VERB", "NOUN"]);
/// assert_eq!((labels.id("NOUN"), labels.id("VERB"), labels.id("ADJ")), (Some(0), Some(1), None));
/// assert_eq!(labels.name(1), "VERB");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSet {
    entries: Vec<(String, u64)>,
    ids: HashMap<String, u32>,
}

impl LabelSet {
    /// Counts `labels`.
    pub fn build<'a>(labels: impl IntoIterator<Item = &'a str>) -> Self {
        Self::from_entries(in_order(count(labels)))
    }

    fn from_entries(entries: Vec<(String, u64)>) -> Self {
        let ids = numbered(&entries, 0);
        Self { entries, ids }
    }

    /// The number of a label, or `None` if it is not here.
    pub fn id(&self, label: &str) -> Option<u32> {
        self.ids.get(label).copied()
    }

    /// The label of a number.
    ///
    /// # Panics
    /// If `id` is not below [`len`](Self::len).
    pub fn name(&self, id: u32) -> &str {
        &self.entries[id as usize].0
    }

    /// How often the label of a number was counted.
    ///
    /// # Panics
    /// If `id` is not below [`len`](Self::len).
    pub fn count(&self, id: u32) -> u64 {
        self.entries[id as usize].1
    }

    /// The labels in the order of their numbers.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }

    /// How many labels there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// As [`Vocab::to_tsv`].
    pub fn to_tsv(&self) -> String {
        tsv::write(entries(&self.entries))
    }

    /// As [`Vocab::from_tsv`], without an unknown one.
    ///
    /// # Errors
    /// [`WrongColumns`](DataError::WrongColumns), [`BadCount`](DataError::BadCount),
    /// [`BadEscape`](DataError::BadEscape), [`DuplicateEntry`](DataError::DuplicateEntry) or
    /// [`NoLabel`](DataError::NoLabel).
    pub fn from_tsv(name: &str, text: &str) -> Result<Self, DataError> {
        let entries = tsv::read(name, text)?;
        if entries.is_empty() {
            return Err(DataError::NoLabel { file: name.to_owned() });
        }
        Ok(Self::from_entries(entries))
    }
}

fn count<'a>(names: impl IntoIterator<Item = &'a str>) -> HashMap<String, u64> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for name in names {
        // Most names are there already: no copy for those.
        match counts.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                counts.insert(name.to_owned(), 1);
            }
        }
    }
    counts
}

fn in_order(counts: HashMap<String, u64>) -> Vec<(String, u64)> {
    let mut entries: Vec<_> = counts.into_iter().collect();
    entries.sort_unstable_by(|(a, n), (b, m)| m.cmp(n).then_with(|| a.cmp(b)));
    entries
}

fn numbered(entries: &[(String, u64)], first: u32) -> HashMap<String, u32> {
    entries.iter().map(|(name, _)| name.clone()).zip(first..).collect()
}

fn entries(entries: &[(String, u64)]) -> impl Iterator<Item = (&str, u64)> {
    entries.iter().map(|(name, count)| (name.as_str(), *count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_by_count_then_bytes() {
        let words = ["b", "a", "c", "c", "é", "Z"];
        let vocab = Vocab::build(words, 1);
        let names: Vec<&str> = (0..vocab.len() as u32).map(|id| vocab.name(id)).collect();
        assert_eq!(names, [UNK, "c", "Z", "a", "b", "é"]);
        let labels = LabelSet::build(words);
        assert_eq!(labels.names().collect::<Vec<_>>(), ["c", "Z", "a", "b", "é"]);
        for (id, name) in (0..).zip(labels.names()) {
            assert_eq!(labels.id(name), Some(id));
        }
    }

    #[test]
    fn the_unknown_word_is_no_word() {
        let vocab = Vocab::build([UNK, "rare", "often", "often", UNK], 2);
        assert_eq!(vocab.len(), 2);
        assert_eq!((vocab.get(UNK), vocab.get("rare"), vocab.get("often")), (UNK_ID, UNK_ID, 1));
        assert!(!vocab.contains(UNK) && !vocab.contains("rare") && vocab.contains("often"));
        assert_eq!(vocab.count(UNK_ID), 3);
        assert_eq!(Vocab::build([], 0).len(), 1);
        assert!(LabelSet::build([]).is_empty());
    }

    #[test]
    fn awkward_names_survive() {
        let words = ["a\tb", "\n", "\r\n", "\\", "\\t", "", " ", "\u{85}", "\u{2028}", UNK];
        let vocab = Vocab::build(words, 1);
        assert_eq!(Vocab::from_tsv("v", &vocab.to_tsv()).unwrap(), vocab);
        let labels = LabelSet::build(words);
        assert_eq!(LabelSet::from_tsv("l", &labels.to_tsv()).unwrap(), labels);
    }

    #[test]
    fn broken_files_are_named() {
        for (text, message) in [
            ("", "v, line 1: the first entry is not <unk>"),
            ("a\t1\n", "the first entry is not <unk>"),
            ("<unk>\t0\na\n", "v, line 2: 1 columns, expected 2: \"a\""),
            ("<unk>\t0\n\n", "v, line 2: 1 columns"),
            ("<unk>\t0\na\t1\t2\n", "v, line 2: 3 columns"),
            ("<unk>\t0\na\tx\n", "v, line 2: \"x\" is no count"),
            ("<unk>\t0\na\t-1\n", "\"-1\" is no count"),
            ("<unk>\t0\na\\x\t1\n", "v, line 2: a bad escape in \"a\\\\x\\t1\""),
            ("<unk>\t0\na\\\t1\n", "a bad escape"),
            ("<unk>\t0\na\t1\nb\t1\na\t1\n", "v, line 4: \"a\" for the second time"),
            ("<unk>\t0\n<unk>\t1\n", "v, line 2: \"<unk>\" for the second time"),
        ] {
            let error = Vocab::from_tsv("v", text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        // A cut-off last line end is no loss.
        assert_eq!(Vocab::from_tsv("v", "<unk>\t0\r\na\t1").unwrap().get("a"), 1);
    }
}
