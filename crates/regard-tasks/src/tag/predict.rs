//! A stream of sentences through a model.

use std::io::{Read, Write};

use regard_data::{DataError, Format, Sentence, Sentences, write_lines, write_sentence};

use super::evaluate::label;
use super::model::LoadedTagger;
use crate::TaskError;
use crate::training::NEVER;

/// What a stream came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prediction {
    /// Sentences labelled.
    pub sentences: u64,
    /// Words labelled.
    pub words: u64,
}

/// Reads sentences, fills in the label column, and writes the user's own lines back.
///
/// Sentences are taken `chunk_words` words at a time (at least one sentence), so that memory stays
/// small however long the stream is; 1 answers after every sentence. An empty stream stays empty, and one
/// of blank lines and comments as it is.
///
/// # Errors
/// The input is at fault, the output cannot be written, or the model refuses. What was written
/// until then is whole sentences.
pub fn predict_stream(
    model: &LoadedTagger,
    input: impl Read,
    name: &str,
    format: &Format,
    output: &mut impl Write,
    chunk_words: usize,
) -> Result<Prediction, TaskError> {
    let mut sentences = Sentences::new(input, name, format)?.unlabelled();
    let mut done = Prediction::default();
    loop {
        let mut chunk: Vec<Sentence> = Vec::new();
        let mut words = 0;
        while words < chunk_words.max(1) {
            let sentence = match sentences.next() {
                // A filter that reads nothing writes nothing, and gives back lines without a word.
                None | Some(Err(DataError::EmptyFile { .. } | DataError::NoSentence { .. })) => {
                    break;
                }
                Some(sentence) => sentence?,
            };
            words += sentence.words.len();
            chunk.push(sentence);
        }
        if chunk.is_empty() {
            break;
        }
        let found = label(&NEVER, model, &chunk, chunk_words.max(2048))?;
        for (sentence, labels) in chunk.iter().zip(&found.labels) {
            write_sentence(output, sentence, format, Some(labels))?;
        }
        output.flush().map_err(DataError::from)?;
        done.sentences += chunk.len() as u64;
        done.words += words as u64;
    }
    write_lines(output, sentences.tail())?;
    output.flush().map_err(DataError::from)?;
    Ok(done)
}
