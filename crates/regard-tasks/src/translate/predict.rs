//! A stream of lines through a model.

use std::io::{self, Read};

use regard_data::{DataError, Segments};

use super::decode::{TranslateOptions, Translated, translate_lines};
use super::model::LoadedTranslator;
use crate::TaskError;

/// What a stream came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Predicted {
    /// Lines read and translated; an empty line counts.
    pub lines: usize,
    /// Of these, translations that reached the longest length without an end.
    pub cut: usize,
}

/// Reads lines, translates them `chunk_lines` at a time, and gives each to `write` with its number
/// from 1 and its text; 1 answers after every line. A line is translated alike in any company. Where
/// nothing is read, nothing is written.
///
/// # Errors
/// The input is at fault (with the line), `write` fails, or as [`translate_lines`]. What was given to
/// `write` until then is whole chunks.
pub fn predict_stream(
    model: &LoadedTranslator,
    input: impl Read,
    name: &str,
    options: &TranslateOptions,
    chunk_lines: usize,
    mut write: impl FnMut(usize, &str, &Translated) -> io::Result<()>,
) -> Result<Predicted, TaskError> {
    let mut segments = Segments::new(input, name)?;
    let mut done = Predicted::default();
    loop {
        let chunk: Vec<String> =
            segments.by_ref().take(chunk_lines.max(1)).collect::<Result<_, _>>()?;
        if chunk.is_empty() {
            break;
        }
        let translated = translate_lines(model, &chunk, options);
        let translated = translated.map_err(|error| error.after_lines(done.lines))?;
        for (line, translated) in chunk.iter().zip(translated) {
            done.lines += 1;
            let best = translated.translations.first();
            done.cut += usize::from(best.is_some_and(|best| !best.finished));
            write(done.lines, line, &translated).map_err(DataError::from)?;
        }
    }
    Ok(done)
}
