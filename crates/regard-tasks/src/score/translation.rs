//! Scores of translations against references, line by line.

use std::io::Read;
use std::path::Path;

use regard_data::{DataError, Format, Sentences};
use regard_metrics::translation::{Corpus, TranslationError, TranslationMetric, trim_end};

/// What can be wrong with files of translations.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranslationFileError {
    /// A file cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Translations and references do not stand line by line.
    #[error(
        "{file}: {lines} lines, but {reference} has {expected}; line N of both must be about the same segment"
    )]
    LineCount {
        /// The file of the translations, or of further references.
        file: String,
        /// How many lines it has.
        lines: usize,
        /// The file of the first references.
        reference: String,
        /// How many lines that has.
        expected: usize,
    },
    /// The metric refuses.
    #[error(transparent)]
    Metric(#[from] TranslationError),
}

/// A file with one segment a line, read whole, plain or gzipped. The blanks at the end of a line are not part of it, as in sacreBLEU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentFile {
    /// The path, or what stands for it in messages.
    pub name: String,
    /// The segments in order, without line ends; an empty line is an empty segment.
    pub segments: Vec<String>,
}

impl SegmentFile {
    /// Reads a file of references.
    ///
    /// # Errors
    /// The file is not there, is no UTF-8 (with the line), is a damaged gzip file, is empty, or has only blank lines.
    pub fn references(path: &Path) -> Result<Self, DataError> {
        Self::collect(Sentences::open(path, &Format::Text)?, path.display().to_string())
    }

    /// Reads a file of translations. Only blank lines are no fault here: a system may have nothing to say.
    ///
    /// # Errors
    /// As [`SegmentFile::references`] else.
    pub fn translations(path: &Path) -> Result<Self, DataError> {
        blank_or(Self::references(path))
    }

    /// As [`SegmentFile::translations`], from a stream that `name` stands for.
    ///
    /// # Errors
    /// As there.
    pub fn translations_from<R: Read>(reader: R, name: &str) -> Result<Self, DataError> {
        blank_or(Self::collect(Sentences::new(reader, name, &Format::Text)?, name.to_owned()))
    }

    fn collect<R: Read>(mut sentences: Sentences<R>, name: String) -> Result<Self, DataError> {
        let mut segments = Vec::new();
        for sentence in sentences.by_ref() {
            segments.extend(sentence?.lines.iter().map(|line| trim_end(&line.text).to_owned()));
        }
        segments.extend(sentences.tail().iter().map(|line| trim_end(&line.text).to_owned()));
        Ok(SegmentFile { name, segments })
    }
}

fn blank_or(read: Result<SegmentFile, DataError>) -> Result<SegmentFile, DataError> {
    match read {
        Err(DataError::NoSentence { file, lines }) => {
            Ok(SegmentFile { name: file, segments: vec![String::new(); lines] })
        }
        read => read,
    }
}

/// Counts one system's translations against one reference file or several.
///
/// # Errors
/// [`TranslationFileError::LineCount`] where one file has more or fewer lines than the first reference file, and [`TranslationFileError::Metric`] without a
/// reference file or with too many.
pub fn score_translations<M: TranslationMetric>(
    metric: M,
    references: &[SegmentFile],
    translations: &SegmentFile,
) -> Result<Corpus<M>, TranslationFileError> {
    if let Some(first) = references.first() {
        let expected = first.segments.len();
        for file in references.iter().chain([translations]) {
            let lines = file.segments.len();
            if lines != expected {
                return Err(TranslationFileError::LineCount {
                    file: file.name.clone(),
                    lines,
                    reference: first.name.clone(),
                    expected,
                });
            }
        }
    }
    let mut corpus = Corpus::new(metric);
    let mut segment = Vec::with_capacity(references.len());
    for (line, translation) in translations.segments.iter().enumerate() {
        segment.clear();
        segment.extend(references.iter().map(|file| file.segments[line].as_str()));
        corpus.update(translation, &segment)?;
    }
    Ok(corpus)
}

#[cfg(test)]
mod tests {
    use regard_metrics::translation::Bleu;

    use super::*;

    fn file(text: &str) -> SegmentFile {
        SegmentFile::translations_from(text.as_bytes(), "f").unwrap()
    }

    #[test]
    fn every_line_is_a_segment() {
        for (text, segments) in [
            ("a\n\nb\n", &["a", "", "b"][..]),
            ("\n\na", &["", "", "a"]),
            ("a\r\n b \u{a0}\r\n\n\n", &["a", " b", "", ""]),
            (" \n\n", &["", ""]),
            ("a\u{2028}b\u{85}c\rd\n", &["a\u{2028}b\u{85}c\rd"]),
        ] {
            assert_eq!(file(text).segments, segments, "{text:?}");
        }
        let empty = SegmentFile::translations_from(&b""[..], "f").unwrap_err();
        assert_eq!(empty.to_string(), "f: the file is empty; give one with at least one sentence");
    }

    #[test]
    fn line_counts_must_agree() {
        let (two, three) = (file("a\nb\n"), file("a\nb\n\n"));
        let bleu = Bleu::default();
        assert_eq!(
            score_translations(bleu, std::slice::from_ref(&two), &two).unwrap().finish().score,
            0.0
        );
        for (references, translations) in
            [(&[two.clone()][..], &three), (&[two.clone(), three.clone()], &two)]
        {
            let error = score_translations(bleu, references, translations).unwrap_err();
            assert!(
                matches!(error, TranslationFileError::LineCount { lines: 3, expected: 2, .. }),
                "{error}"
            );
        }
        let error = score_translations(bleu, &[], &two).unwrap_err();
        assert_eq!(error.to_string(), "segment 1: 0 references, expected 1 to 16");
    }
}
