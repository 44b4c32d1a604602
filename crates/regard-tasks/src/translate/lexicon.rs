//! Tokens of both languages, in memory and in a run folder.

use regard_data::{Pair, Tokeniser, TokeniserKind};

use super::config::TranslateConfig;
use crate::TaskError;
use crate::run::{RunFolder, files, hash};

/// The tokenisers of source and target, which may be one.
#[derive(Clone)]
pub struct Lexicon {
    source: Tokeniser,
    /// `None` where it is the source's.
    target: Option<Tokeniser>,
    /// Hash of what decides which number a token has.
    identity: String,
}

impl Lexicon {
    /// Learns the tokens of training pairs.
    ///
    /// # Errors
    /// The library of subwords refuses.
    pub fn build(pairs: &[Pair], config: &TranslateConfig) -> Result<Self, TaskError> {
        let settings = config.tokeniser();
        let sources = pairs.iter().map(|pair| pair.source.as_str());
        let targets = pairs.iter().map(|pair| pair.target.as_str());
        let (source, target) = if config.data.shared_vocab {
            (Tokeniser::train(sources.chain(targets), settings)?, None)
        } else {
            (Tokeniser::train(sources, settings)?, Some(Tokeniser::train(targets, settings)?))
        };
        Self::new(source, target)
    }

    fn new(source: Tokeniser, target: Option<Tokeniser>) -> Result<Self, TaskError> {
        let mut text = source.to_text()?;
        if let Some(target) = &target {
            text += &target.to_text()?;
        }
        let settings = source.settings();
        let (kind, lowercase) = (settings.kind, settings.lowercase);
        let identity = hash(format!("{kind} {lowercase} {}\n{text}", target.is_none()).as_bytes());
        Ok(Self { source, target, identity })
    }

    /// Writes the tokens to a run folder.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn save(&self, run: &RunFolder) -> Result<(), TaskError> {
        let [shared, source, target] = names(self.source.settings().kind);
        let Some(own) = &self.target else {
            return run.write(shared, &self.source.to_text()?);
        };
        run.write(source, &self.source.to_text()?)?;
        run.write(target, &own.to_text()?)
    }

    /// Reads the tokens of a run folder.
    ///
    /// # Errors
    /// A file is missing or damaged.
    pub fn load(run: &RunFolder, config: &TranslateConfig) -> Result<Self, TaskError> {
        let settings = config.tokeniser();
        let [shared, source, target] = names(settings.kind);
        let read = |file: &'static str| -> Result<Tokeniser, TaskError> {
            let name = run.file(file).display().to_string();
            Ok(Tokeniser::from_text(&name, &run.read(file)?, settings)?)
        };
        if config.data.shared_vocab {
            Self::new(read(shared)?, None)
        } else {
            Self::new(read(source)?, Some(read(target)?))
        }
    }

    /// The tokens of the source.
    pub fn source(&self) -> &Tokeniser {
        &self.source
    }

    /// The tokens of the target.
    pub fn target(&self) -> &Tokeniser {
        self.target.as_ref().unwrap_or(&self.source)
    }

    /// All that decides which number a token has, hashed.
    pub(super) fn identity(&self) -> &str {
        &self.identity
    }
}

/// File names for a shared vocabulary, that of the source, and that of the target.
fn names(kind: TokeniserKind) -> [&'static str; 3] {
    if kind.is_subword() {
        [files::TOKENIZER, files::SOURCE_TOKENIZER, files::TARGET_TOKENIZER]
    } else {
        [files::TOKENS, files::SOURCE_TOKENS, files::TARGET_TOKENS]
    }
}
