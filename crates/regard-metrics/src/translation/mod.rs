//! Scores of translations: BLEU, chrF and TER with sacreBLEU's numbers, and the comparison of two systems.
//!
//! | metric | counts | better |
//! |---|---|---|
//! | [`Bleu`] | n-grams of words in common | more |
//! | [`Chrf`] | n-grams of characters (chrF++: and words) in common | more |
//! | [`Ter`] | edits and shifts | less |
//!
//! A metric holds its settings; a [`Corpus`] of it takes the segments one by one, gives their sum's score, each segment's own, and the signature that says
//! how they were made. [`paired_bootstrap`] compares two corpora.
//!
//! Scores are in per cent, as the field prints them, and printed lines equal those of sacreBLEU 2.6.0 (Post 2018,
//! <https://aclanthology.org/W18-6319>) to the last digit. Signatures have its form but end in `version:regard-…`, since it was not sacreBLEU that counted.
//! What sacreBLEU has and this module has not: tokenisers that need a model (`spm`, `flores`, `ja-mecab`, `ko-mecab`), BLEU of other orders than 4, chrF with
//! epsilon smoothing, more than [`MAX_REFERENCES`] references. A score over no segment at all is 0 here and an error there.

mod bleu;
mod bootstrap;
mod chrf;
mod corpus;
mod error;
mod ngrams;
mod ter;
mod text;
mod tokenise;
mod unicode;

pub use bleu::{Bleu, BleuCounts, BleuScore, Smoothing};
pub use bootstrap::{PairedBootstrap, Resampled, paired_bootstrap, paired_bootstrap_of};
pub use chrf::{Chrf, ChrfCounts, ChrfScore};
pub use corpus::{Corpus, SegmentCounts, TranslationMetric, TranslationScore};
pub use error::TranslationError;
pub use ter::{Ter, TerCounts, TerScore};
pub use text::trim_end;
pub use tokenise::Tokenisation;

use crate::metric::Metric;

/// The most references that a segment may have.
pub const MAX_REFERENCES: usize = 16;

impl Metric {
    /// BLEU in per cent.
    pub const BLEU: Metric = Metric { name: "bleu", unit: "percent", higher_is_better: true };
    /// chrF in per cent.
    pub const CHRF: Metric = Metric { name: "chrf", unit: "percent", higher_is_better: true };
    /// Translation edit rate in per cent.
    pub const TER: Metric = Metric { name: "ter", unit: "percent", higher_is_better: false };
}
