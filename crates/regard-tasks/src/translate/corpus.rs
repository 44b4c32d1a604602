//! Pairs of a training: from files, filtered by length, as numbers.

use std::path::Path;

use regard_data::{
    Filtered, LengthFilter, Pair, PairColumns, read_pair_table, read_parallel, read_segments,
    read_translated,
};

use super::config::{Select, TranslateConfig};
use super::decode::check_length;
use super::lexicon::Lexicon;
use crate::TaskError;
use crate::run::{check_unchanged, hash_file};

/// The numbers of both sides of a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EncodedPair {
    pub(super) source: Vec<u32>,
    pub(super) target: Vec<u32>,
}

/// Training and development pairs of a run.
pub(crate) struct Corpus {
    /// Pairs to learn from, with both sides inside the limits.
    pub(super) train: Vec<EncodedPair>,
    /// Development pairs, all of them.
    pub(super) dev: Vec<Pair>,
    /// What the length filter left out.
    pub(super) filtered: Filtered,
}

/// The pairs of two files, or of one table.
///
/// # Errors
/// A file is at fault; there are neither one nor two files.
pub fn read_pairs(files: &[String], columns: &str) -> Result<Vec<Pair>, TaskError> {
    match files {
        [table] => Ok(read_pair_table(Path::new(table), &PairColumns::parse(columns)?)?),
        [source, target] => {
            if !columns.is_empty() {
                return Err(TaskError::ColumnsOfFiles(columns.into()));
            }
            Ok(read_parallel(Path::new(source), Path::new(target))?)
        }
        other => Err(TaskError::PairFiles(other.len())),
    }
}

/// Sources and translations that a model may have written: the translations with the blanks at both of their
/// ends, which are tokens like others.
///
/// # Errors
/// A file is at fault.
pub fn read_translations(sources: &Path, translations: &Path) -> Result<Vec<Pair>, TaskError> {
    Ok(read_translated(sources, translations)?)
}

/// The sources of a file: its lines.
///
/// # Errors
/// The file is at fault.
pub fn read_sources(file: &Path) -> Result<Vec<String>, TaskError> {
    Ok(read_segments(file)?)
}

/// The pairs of the settings' files, before they are numbers.
pub(super) fn read(config: &TranslateConfig) -> Result<(Vec<Pair>, Vec<Pair>), TaskError> {
    let columns = &config.data.columns;
    let train = read_pairs(&config.data.train, columns)?;
    let dev = &config.data.dev;
    Ok((train, if dev.is_empty() { Vec::new() } else { read_pairs(dev, columns)? }))
}

impl Corpus {
    pub(super) fn new(
        config: &TranslateConfig,
        lexicon: &Lexicon,
        train: &[Pair],
        dev: Vec<Pair>,
    ) -> Result<Self, TaskError> {
        let pairs = train.iter().map(|pair| tokens(lexicon, pair));
        let mut pairs = pairs.collect::<Result<Vec<_>, _>>()?;
        let (max_tokens, max_ratio) = (config.data.max_tokens, config.data.max_ratio);
        let filter = LengthFilter { max_tokens, max_ratio };
        let (kept, filtered) =
            filter.apply(pairs.iter().map(|pair| (pair.source.len(), pair.target.len())));
        if kept.is_empty() {
            return Err(TaskError::NoPairs {
                file: config.data.train.join(", "),
                reason: filtered.to_string(),
            });
        }
        // What would end the first epoch is told before it.
        let mut has_loss = dev.is_empty() || config.train.select != Select::Loss;
        for pair in &dev {
            let EncodedPair { source, target } = encode(lexicon, pair)?;
            has_loss |= !source.is_empty() && !target.is_empty();
        }
        if !has_loss {
            return Err(TaskError::NoDevLoss(config.data.dev.join(", ")));
        }
        let mut i = 0;
        let mut kept = kept.into_iter().peekable();
        pairs.retain(|_| {
            let keep = kept.next_if_eq(&i).is_some();
            i += 1;
            keep
        });
        Ok(Self { train: pairs, dev, filtered })
    }
}

/// A pair to be measured, each of its sides short enough for that.
pub(super) fn encode(lexicon: &Lexicon, pair: &Pair) -> Result<EncodedPair, TaskError> {
    let encoded = tokens(lexicon, pair)?;
    check_length(pair.line, &pair.source, encoded.source.len())?;
    check_length(pair.line, &pair.target, encoded.target.len())?;
    Ok(encoded)
}

/// A pair to be trained on: the filter leaves out what is too long.
fn tokens(lexicon: &Lexicon, pair: &Pair) -> Result<EncodedPair, TaskError> {
    Ok(EncodedPair {
        source: lexicon.source().encode(&pair.source)?,
        target: lexicon.target().encode(&pair.target)?,
    })
}

/// The hashes of files, in a line.
pub(super) fn hashes(files: &[String]) -> Result<String, TaskError> {
    let hashes = files.iter().map(|file| hash_file(Path::new(file)));
    Ok(hashes.collect::<Result<Vec<_>, _>>()?.join(" "))
}

/// Refuses files that have changed since [`hashes`] gave `expected`.
pub(super) fn check_files(files: &[String], expected: &str) -> Result<(), TaskError> {
    let mut expected = expected.split(' ');
    for file in files {
        check_unchanged(file, expected.next().unwrap_or(""), hash_file(Path::new(file))?)?;
    }
    Ok(())
}
