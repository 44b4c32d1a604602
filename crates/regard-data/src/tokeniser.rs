//! Text to numbers and back: subwords, words or characters.

use std::collections::HashMap;
use std::fmt;
use std::iter;

use crate::error::DataError;
use crate::subword::{LEAST_SUBWORDS, SubwordKind, Subwords};
use crate::vocab::{UNK, Vocab};
use crate::word_pieces;

/// Begins a text for a decoder; number [`BEGIN_ID`].
pub const BEGIN: &str = "<s>";
/// Ends a text; number [`END_ID`].
pub const END: &str = "</s>";
/// The number of [`BEGIN`].
pub const BEGIN_ID: u32 = 1;
/// The number of [`END`].
pub const END_ID: u32 = 2;
/// The tokens that every vocabulary begins with.
pub(crate) const SPECIALS: [&str; 3] = [UNK, BEGIN, END];

/// What the tokens of a text are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokeniserKind {
    /// Byte-pair encoding.
    Bpe,
    /// Subwords of a unigram language model.
    Unigram,
    /// Words and punctuation marks.
    Word,
    /// Characters, blanks among them.
    Char,
}

impl TokeniserKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Bpe, Self::Unigram, Self::Word, Self::Char];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bpe => "bpe",
            Self::Unigram => "unigram",
            Self::Word => "word",
            Self::Char => "char",
        }
    }

    /// The kind of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether it is saved as `tokenizer.json`; the others are saved as `.tsv`.
    pub fn is_subword(self) -> bool {
        matches!(self, Self::Bpe | Self::Unigram)
    }
}

impl fmt::Display for TokeniserKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a [`Tokeniser`] is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokeniserSettings {
    /// What the tokens are.
    pub kind: TokeniserKind,
    /// Tokens in all, at most, the special ones counted; subwords need [`TokeniserSettings::LEAST_SUBWORDS`].
    pub size: usize,
    /// Words and characters seen less often are unknown (not for subwords).
    pub min_count: u64,
    /// Whether text is lower-cased first.
    pub lowercase: bool,
}

impl TokeniserSettings {
    /// Fewest subwords: all bytes and the special tokens.
    pub const LEAST_SUBWORDS: usize = LEAST_SUBWORDS;
}

/// Text to numbers and back. 0 is `<unk>`, 1 `<s>`, 2 `</s>`; a text's own numbers never hold 1 or 2.
///
/// | kind | tokens | what is lost |
/// |---|---|---|
/// | `bpe`, `unigram` | subwords of bytes, see `subword.rs` | nothing |
/// | `word` | words and punctuation marks, see `word_pieces.rs` | unknown words, the number of blanks, blanks beside ideographs |
/// | `char` | characters | unknown characters |
///
/// Subwords and words need no blanks in the text: Chinese is cut into subwords or ideographs. In text of
/// words or characters `<unk>`, which decoding writes for an unknown one, is one unknown token again.
///
/// ```
/// use regard_data::{Tokeniser, TokeniserKind, TokeniserSettings};
///
/// let settings =
///     TokeniserSettings { kind: TokeniserKind::Word, size: 100, min_count: 1, lowercase: true };
/// let tokeniser = Tokeniser::train(["A dog's ball.", "a dog"].into_iter(), settings)?;
/// let ids = tokeniser.encode("The dog's ball.")?;
/// assert_eq!(tokeniser.pieces(&ids)?, ["<unk>", "dog", "￭'", "￭s", "ball", "￭."]);
/// assert_eq!(tokeniser.decode(&ids)?, "<unk> dog's ball.");
/// # Ok::<(), regard_data::DataError>(())
/// ```
#[derive(Clone)]
pub struct Tokeniser {
    settings: TokeniserSettings,
    model: Model,
}

#[derive(Clone)]
enum Model {
    Subwords(Box<Subwords>),
    Words(Vocab),
    Chars(Vocab),
}

impl Tokeniser {
    /// Learns the tokens of lines. The same lines give the same tokens.
    ///
    /// # Errors
    /// [`Tokeniser`](DataError::Tokeniser) if the library refuses.
    pub fn train<'a>(
        lines: impl Iterator<Item = &'a str>,
        settings: TokeniserSettings,
    ) -> Result<Self, DataError> {
        let lines: Vec<String> = lines.map(|line| normal(line, settings.lowercase)).collect();
        let lines = || lines.iter().map(String::as_str);
        let subwords = |kind| {
            let made = Subwords::train(lines(), kind, settings.size, settings.lowercase);
            Ok::<_, DataError>(Model::Subwords(Box::new(made?)))
        };
        let model = match settings.kind {
            TokeniserKind::Bpe => subwords(SubwordKind::Bpe)?,
            TokeniserKind::Unigram => subwords(SubwordKind::Unigram)?,
            TokeniserKind::Word => {
                Model::Words(vocabulary(lines().flat_map(word_pieces::split), settings))
            }
            TokeniserKind::Char => {
                Model::Chars(vocabulary(lines().flat_map(chars).map(String::from), settings))
            }
        };
        Ok(Self { settings, model })
    }

    /// From the text of [`to_text`](Self::to_text); `name` stands for it in errors.
    ///
    /// # Errors
    /// The text is damaged, or its special tokens are not the first three.
    pub fn from_text(
        name: &str,
        text: &str,
        settings: TokeniserSettings,
    ) -> Result<Self, DataError> {
        let model = match settings.kind {
            TokeniserKind::Bpe | TokeniserKind::Unigram => {
                Model::Subwords(Box::new(Subwords::from_json(name, text)?))
            }
            kind => {
                let vocab = Vocab::from_tsv(name, text)?;
                for (id, special) in (0..).zip(SPECIALS) {
                    let found =
                        if (id as usize) < vocab.len() { vocab.name(id) } else { "nothing" };
                    if found != special {
                        let fault = format!("token {id} is {found}, expected {special}");
                        return Err(DataError::SavedTokeniser { file: name.to_owned(), fault });
                    }
                }
                if kind == TokeniserKind::Word { Model::Words(vocab) } else { Model::Chars(vocab) }
            }
        };
        Ok(Self { settings, model })
    }

    /// As a text: `tokenizer.json` for subwords, else lines `token<TAB>count`.
    ///
    /// # Errors
    /// [`Tokeniser`](DataError::Tokeniser) if the library refuses.
    pub fn to_text(&self) -> Result<String, DataError> {
        match &self.model {
            Model::Subwords(subwords) => subwords.to_json(),
            Model::Words(vocab) | Model::Chars(vocab) => Ok(vocab.to_tsv()),
        }
    }

    /// How it was made.
    pub fn settings(&self) -> TokeniserSettings {
        self.settings
    }

    /// How many numbers there are, special ones counted.
    #[allow(clippy::len_without_is_empty, reason = "it always holds the special tokens")]
    pub fn len(&self) -> usize {
        match &self.model {
            Model::Subwords(subwords) => subwords.len(),
            Model::Words(vocab) | Model::Chars(vocab) => vocab.len(),
        }
    }

    /// The text as the tokens see it: lower-cased where that is set.
    pub fn normal(&self, text: &str) -> String {
        normal(text, self.settings.lowercase)
    }

    /// The numbers of a text; none for an empty one.
    ///
    /// # Errors
    /// [`Tokeniser`](DataError::Tokeniser) if the library refuses.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, DataError> {
        let text = self.normal(text);
        match &self.model {
            Model::Subwords(subwords) => {
                if text.is_empty() {
                    return Ok(Vec::new());
                }
                subwords.encode(&text)
            }
            Model::Words(vocab) => {
                Ok(word_pieces::split(&text).iter().map(|word| vocab.get(word)).collect())
            }
            Model::Chars(vocab) => Ok(chars(&text).map(|c| vocab.get(c)).collect()),
        }
    }

    /// The text of numbers: one line, special tokens left out but for `<unk>` of words and characters.
    ///
    /// # Errors
    /// [`Tokeniser`](DataError::Tokeniser) if the library refuses.
    ///
    /// # Panics
    /// If a number is not below [`len`](Self::len).
    pub fn decode(&self, ids: &[u32]) -> Result<String, DataError> {
        self.decode_with(ids, &HashMap::new())
    }

    /// As [`decode`](Self::decode), with other pieces in the places that `replaced` names.
    ///
    /// # Errors
    /// As there. Subwords have no unknown words to replace; `replaced` has no effect on them.
    ///
    /// # Panics
    /// As there.
    pub fn decode_with(
        &self,
        ids: &[u32],
        replaced: &HashMap<usize, String>,
    ) -> Result<String, DataError> {
        let own = |id: u32| id != BEGIN_ID && id != END_ID;
        let text = match &self.model {
            Model::Subwords(subwords) => subwords.decode(ids)?,
            Model::Words(vocab) | Model::Chars(vocab) => {
                let pieces = ids.iter().enumerate().filter(|(_, id)| own(**id)).map(|(i, id)| {
                    replaced.get(&i).map_or_else(|| vocab.name(*id), String::as_str)
                });
                match &self.model {
                    Model::Words(_) => word_pieces::join(pieces),
                    _ => pieces.collect(),
                }
            }
        };
        // A translation is one line, whatever the model came up with.
        Ok(text.replace(['\n', '\r'], " "))
    }

    /// The tokens of numbers, to be shown one by one. In subwords a blank is `▁`.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    ///
    /// # Panics
    /// As there.
    pub fn pieces(&self, ids: &[u32]) -> Result<Vec<String>, DataError> {
        ids.iter()
            .map(|id| match &self.model {
                Model::Subwords(subwords) => subwords.piece(*id),
                Model::Words(vocab) => Ok(vocab.name(*id).to_owned()),
                Model::Chars(vocab) => Ok(vocab.name(*id).replace(' ', "▁")),
            })
            .collect()
    }

    /// The tokens of a text as it spells them, also those that have no number; `None` for
    /// subwords, where there are no such.
    pub fn spelled(&self, text: &str) -> Option<Vec<String>> {
        let text = self.normal(text);
        match &self.model {
            Model::Subwords(_) => None,
            Model::Words(_) => Some(word_pieces::split(&text)),
            Model::Chars(_) => Some(chars(&text).map(String::from).collect()),
        }
    }
}

fn normal(text: &str, lowercase: bool) -> String {
    if lowercase { text.to_lowercase() } else { text.to_owned() }
}

/// The characters of a text; `<unk>` counts as one.
fn chars(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    iter::from_fn(move || {
        let len = if rest.starts_with(UNK) { UNK.len() } else { rest.chars().next()?.len_utf8() };
        let (first, after) = rest.split_at(len);
        rest = after;
        Some(first)
    })
}

/// The most frequent tokens behind the special ones. No text can spell those but `<unk>`.
fn vocabulary(tokens: impl Iterator<Item = String>, settings: TokeniserSettings) -> Vocab {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for token in tokens {
        *counts.entry(token).or_default() += 1;
    }
    let mut counts: Vec<(String, u64)> =
        counts.into_iter().filter(|(_, n)| *n >= settings.min_count).collect();
    counts.sort_unstable_by(|(a, n), (b, m)| m.cmp(n).then_with(|| a.cmp(b)));
    counts.truncate(settings.size.saturating_sub(SPECIALS.len()));
    // A vocabulary is ordered by count.
    counts.extend([(BEGIN.to_owned(), u64::MAX), (END.to_owned(), u64::MAX - 1)]);
    Vocab::from_counts(counts, 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINES: [&str; 7] = [
        "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.",
        "Ein Boston Terrier läuft über saftig-grünes Gras vor einem weißen Zaun.",
        "Ein Mädchen in einem Karateanzug bricht ein Brett mit einem Tritt.",
        "Fünf Leute in Winterjacken und mit Helmen stehen im Schnee.",
        "Leute Reparieren das Dach eines Hauses.",
        "一个 男人 在 街上 走。我们去 the park 吧！",
        "Ein Mann läuft über das Gras; ein Mann steht im Schnee.",
    ];

    fn made(kind: TokeniserKind, size: usize, lowercase: bool) -> Tokeniser {
        let settings = TokeniserSettings { kind, size, min_count: 1, lowercase };
        Tokeniser::train(LINES.into_iter(), settings).unwrap()
    }

    #[test]
    fn the_special_tokens_come_first_and_no_text_spells_them() {
        for kind in TokeniserKind::ALL {
            let tokeniser = made(kind, 400, false);
            assert_eq!(tokeniser.pieces(&[0, 1, 2]).unwrap(), SPECIALS, "{kind}");
            let ids = tokeniser.encode("a </s> b <s> c <unk></s>").unwrap();
            assert!(!ids.contains(&BEGIN_ID) && !ids.contains(&END_ID), "{kind}");
            assert!(tokeniser.encode("").unwrap().is_empty());
            assert!(ids.iter().all(|id| (*id as usize) < tokeniser.len()));
        }
    }

    #[test]
    fn text_comes_back_and_so_does_the_tokeniser() {
        for kind in TokeniserKind::ALL {
            for lowercase in [false, true] {
                let tokeniser = made(kind, 400, lowercase);
                let saved = tokeniser.to_text().unwrap();
                let again = Tokeniser::from_text("t", &saved, tokeniser.settings()).unwrap();
                assert_eq!(again.to_text().unwrap(), saved, "{kind}");
                for line in &LINES[..5] {
                    let ids = tokeniser.encode(line).unwrap();
                    assert_eq!(again.encode(line).unwrap(), ids, "{kind}");
                    let expected = if lowercase { line.to_lowercase() } else { (*line).into() };
                    assert_eq!(tokeniser.decode(&ids).unwrap(), expected, "{kind}");
                }
            }
        }
    }

    #[test]
    fn the_same_lines_give_the_same_tokens() {
        for kind in TokeniserKind::ALL {
            let first = made(kind, 330, false).to_text().unwrap();
            for _ in 0..3 {
                assert_eq!(made(kind, 330, false).to_text().unwrap(), first, "{kind}");
            }
        }
    }

    #[test]
    fn sizes_are_kept() {
        for kind in [TokeniserKind::Bpe, TokeniserKind::Unigram] {
            // The unigram model can come out a little smaller than it may be.
            assert!((290..=300).contains(&made(kind, 300, false).len()), "{kind}");
            assert_eq!(made(kind, 0, false).len(), LEAST_SUBWORDS, "{kind}");
        }
        // More subwords make shorter texts.
        let length = |size| made(TokeniserKind::Bpe, size, false).encode(LINES[1]).unwrap().len();
        assert!(length(400) < length(300) && length(300) < length(0));
        assert_eq!(made(TokeniserKind::Char, 10, false).len(), 10);
        assert_eq!(made(TokeniserKind::Word, 0, false).len(), 3);
    }

    #[test]
    fn what_was_never_seen_is_spelled_in_bytes_or_unknown() {
        for kind in TokeniserKind::ALL {
            let tokeniser = made(kind, 400, false);
            let ids = tokeniser.encode("Ein Ж😀").unwrap();
            let text = tokeniser.decode(&ids).unwrap();
            if kind.is_subword() {
                assert_eq!(text, "Ein Ж😀");
                assert!(!ids.contains(&0));
                assert_eq!(tokeniser.spelled("Ж"), None);
            } else {
                assert!(ids.contains(&0) && text.contains(UNK), "{text}");
                let spelled = tokeniser.spelled("Ein Ж😀").unwrap();
                let at = ids.iter().position(|id| *id == 0).unwrap();
                assert!(spelled[at].contains('Ж'));
                let replaced = HashMap::from([(at, spelled[at].clone())]);
                assert!(tokeniser.decode_with(&ids, &replaced).unwrap().contains('Ж'));
            }
        }
    }

    #[test]
    fn a_text_with_unknown_tokens_has_their_numbers_again() {
        for kind in [TokeniserKind::Word, TokeniserKind::Char] {
            let tokeniser = made(kind, 400, false);
            let ids = tokeniser.encode("Ein Жук, ein Ж.").unwrap();
            assert!(ids.contains(&0), "{kind}");
            let text = tokeniser.decode(&ids).unwrap();
            assert_eq!(tokeniser.encode(&text).unwrap(), ids, "{kind}: {text}");
        }
    }

    #[test]
    fn every_number_is_one_line_of_text() {
        for kind in TokeniserKind::ALL {
            let tokeniser = made(kind, 400, false);
            let all: Vec<u32> = (0..tokeniser.len() as u32).collect();
            for ids in all.chunks(1).chain([all.as_slice()]) {
                let text = tokeniser.decode(ids).unwrap();
                assert!(!text.contains(['\n', '\r']), "{kind} {ids:?}");
                assert_eq!(tokeniser.pieces(ids).unwrap().len(), ids.len());
            }
        }
    }

    #[test]
    fn damaged_files_are_refused_with_a_remedy() {
        for kind in TokeniserKind::ALL {
            let tokeniser = made(kind, 400, false);
            let text = tokeniser.to_text().unwrap().replace("</s>", "<z>");
            for text in [text.as_str(), "", "{}"] {
                let error = Tokeniser::from_text("t", text, tokeniser.settings()).err().unwrap();
                let error = error.to_string();
                assert!(error.starts_with('t') && error.contains("; "), "{kind}: {error}");
            }
        }
    }

    proptest! {
        /// Any text without white space at its ends comes back from subwords.
        #[test]
        fn subwords_lose_nothing(text in "\\PC{0,30}") {
            let text = text.trim();
            for kind in [TokeniserKind::Bpe, TokeniserKind::Unigram] {
                let tokeniser = made(kind, 300, false);
                let ids = tokeniser.encode(text).unwrap();
                prop_assert_eq!(tokeniser.decode(&ids).unwrap(), text);
            }
        }
    }
}
