//! Subwords: byte-pair encoding (Sennrich et al. 2016) and the unigram language model (Kudo 2018),
//! trained and run by the library `tokenizers`.
//!
//! Both work on bytes: a text is cut before words and marks (a blank belongs to the word behind
//! it), each byte becomes one printable character, and the vocabulary holds all 256 of them. So every text can be
//! written, nothing is lost on the way back, and no character is unknown. The file
//! is the library's own `tokenizer.json`.

use std::collections::{BTreeMap, HashSet};

use rayon::ThreadPoolBuilder;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::models::unigram::{Unigram, UnigramTrainer};
use tokenizers::normalizers::utils::Lowercase;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::tokenizer::pre_tokenizer::{OffsetType, PreTokenizedString};
use tokenizers::{AddedToken, ModelWrapper, OffsetReferential, PreTokenizer, Tokenizer, Trainer};

use crate::error::DataError;
use crate::tokeniser::SPECIALS;
use crate::vocab::UNK;

/// Which subwords.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubwordKind {
    Bpe,
    Unigram,
}

/// A trained vocabulary of subwords.
#[derive(Clone)]
pub(crate) struct Subwords {
    tokenizer: Tokenizer,
}

/// All bytes, and the three special tokens.
pub(crate) const LEAST_SUBWORDS: usize = 256 + SPECIALS.len();

impl Subwords {
    /// Learns at most `size` subwords, special tokens counted. The same lines give the same ones, for
    /// any number of threads.
    pub(crate) fn train<'a>(
        lines: impl Iterator<Item = &'a str>,
        kind: SubwordKind,
        size: usize,
        lowercase: bool,
    ) -> Result<Self, DataError> {
        let cut = pre_tokeniser();
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for line in lines {
            let mut text = PreTokenizedString::from(line);
            cut.pre_tokenize(&mut text).map_err(fault)?;
            for (word, ..) in text.get_splits(OffsetReferential::Normalized, OffsetType::Byte) {
                match counts.get_mut(word) {
                    Some(count) => *count = count.saturating_add(1),
                    None => {
                        counts.insert(word.to_owned(), 1);
                    }
                }
            }
        }
        let size = size.max(LEAST_SUBWORDS);
        let model: ModelWrapper = match kind {
            SubwordKind::Bpe => bpe(&counts, size)?.into(),
            SubwordKind::Unigram => unigram(counts, size)?.into(),
        };
        let mut tokenizer = Tokenizer::new(model);
        tokenizer.with_pre_tokenizer(Some(cut)).with_decoder(Some(ByteLevel::default()));
        if lowercase {
            tokenizer.with_normalizer(Some(Lowercase)).map_err(fault)?;
        }
        tokenizer.add_special_tokens(specials()).map_err(fault)?;
        Self::new(tokenizer, "the trained tokeniser")
    }

    /// From the text of a `tokenizer.json`; `name` stands for it in errors.
    pub(crate) fn from_json(name: &str, text: &str) -> Result<Self, DataError> {
        let tokenizer = Tokenizer::from_bytes(text.as_bytes()).map_err(|e| {
            DataError::SavedTokeniser { file: name.to_owned(), fault: e.to_string() }
        })?;
        Self::new(tokenizer, name)
    }

    fn new(mut tokenizer: Tokenizer, name: &str) -> Result<Self, DataError> {
        for (id, token) in (0..).zip(SPECIALS) {
            let found = tokenizer.token_to_id(token);
            if found != Some(id) {
                let found = found.map_or_else(|| "not there".into(), |id| format!("number {id}"));
                let fault = format!("{token} is {found}, expected number {id}");
                return Err(DataError::SavedTokeniser { file: name.into(), fault });
            }
        }
        // A text that spells `</s>` is a text, not an end.
        tokenizer.set_encode_special_tokens(true);
        Ok(Self { tokenizer })
    }

    pub(crate) fn to_json(&self) -> Result<String, DataError> {
        self.tokenizer.to_string(true).map_err(fault)
    }

    pub(crate) fn len(&self) -> usize {
        self.tokenizer.get_vocab_size(true)
    }

    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, DataError> {
        let encoding = self.tokenizer.encode_fast(text, false).map_err(fault)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of subwords, without the blank that stands before its first word.
    pub(crate) fn decode(&self, ids: &[u32]) -> Result<String, DataError> {
        let text = self.tokenizer.decode(ids, true).map_err(fault)?;
        Ok(text.strip_prefix(' ').map_or_else(|| text.clone(), str::to_owned))
    }

    /// A subword to be shown: a blank before it is `▁`.
    pub(crate) fn piece(&self, id: u32) -> Result<String, DataError> {
        if let Some(special) = SPECIALS.get(id as usize) {
            return Ok((*special).to_owned());
        }
        Ok(self.tokenizer.decode(&[id], false).map_err(fault)?.replace(' ', "▁"))
    }
}

fn pre_tokeniser() -> ByteLevel {
    // A blank before the first word makes it the same word as elsewhere.
    ByteLevel::new(true, true, true)
}

fn specials() -> [AddedToken; 3] {
    SPECIALS.map(|token| AddedToken::from(token, true))
}

fn bpe(counts: &BTreeMap<String, u32>, size: usize) -> Result<BPE, DataError> {
    let alphabet: HashSet<char> = ByteLevel::alphabet().into_iter().collect();
    let mut trainer = BpeTrainer::builder()
        .vocab_size(size)
        .min_frequency(2)
        .show_progress(false)
        .special_tokens(specials().to_vec())
        .initial_alphabet(alphabet)
        .build();
    let words = counts.iter().flat_map(|(word, n)| std::iter::repeat_n(word, *n as usize));
    trainer.feed(words, |word| Ok(vec![word.to_owned()])).map_err(fault)?;
    let mut model = BPE::default();
    trainer.train(&mut model).map_err(fault)?;
    Ok(model)
}

fn unigram(counts: BTreeMap<String, u32>, size: usize) -> Result<Unigram, DataError> {
    let trainer = UnigramTrainer::builder()
        .show_progress(false)
        .vocab_size(size as u32)
        .special_tokens(specials().to_vec())
        .unk_token(Some(UNK.to_owned()))
        .build()
        .map_err(|e| fault(e.into()))?;
    // The trainer sums over one piece of the words a thread, and sums of floats depend on how they are
    // cut: one thread, one result.
    let pool = ThreadPoolBuilder::new().num_threads(1).build().map_err(|e| fault(e.into()))?;
    let words: Vec<(String, u32)> = counts.into_iter().collect();
    let mut model = Unigram::default();
    pool.install(|| trainer.do_train(words, &mut model)).map_err(fault)?;
    let pieces: Vec<(String, f64)> = model.iter().skip(SPECIALS.len()).cloned().collect();
    let mut pieces = with_all_bytes(pieces);
    pieces.truncate(size.saturating_sub(SPECIALS.len()));
    let vocabulary = SPECIALS.iter().map(|token| ((*token).to_owned(), 0.0)).chain(pieces);
    Unigram::from(vocabulary.collect(), Some(0), false).map_err(fault)
}

/// Step between the scores that the library gives to characters which no subword list has kept.
const STEP: f64 = 1e-4;

/// Adds the bytes that the training text lacks, bytes first, then by score. The library hands out the scores of
/// characters that fell out of the vocabulary in no order; here it is theirs.
fn with_all_bytes(pieces: Vec<(String, f64)>) -> Vec<(String, f64)> {
    let lowest = pieces.iter().map(|(_, score)| *score).fold(0.0, f64::min);
    let was_out = |score: f64| {
        let steps = (score - lowest) / STEP;
        steps < 256.0 && (steps - steps.round()).abs() < 1e-6
    };
    let is_byte = |piece: &str| piece.chars().nth(1).is_none();
    let mut alphabet: Vec<char> = ByteLevel::alphabet().into_iter().collect();
    alphabet.sort_unstable();
    let (bytes, mut longer): (Vec<_>, Vec<_>) = pieces.into_iter().partition(|p| is_byte(&p.0));
    let known: BTreeMap<String, f64> =
        bytes.into_iter().filter(|(_, score)| !was_out(*score)).collect();
    let mut next = lowest;
    let mut all: Vec<(String, f64)> = Vec::new();
    for c in alphabet {
        let piece = c.to_string();
        let score = known.get(&piece).copied().unwrap_or_else(|| {
            next -= STEP;
            next
        });
        all.push((piece, score));
    }
    longer.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all.append(&mut longer);
    all
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn fault(error: tokenizers::Error) -> DataError {
    DataError::Tokeniser { fault: error.to_string() }
}
