//! The settings as a model, and a trained model from its folder.

use std::path::Path;

use regard_data::END_ID;
use regard_nn::models::translation::{Translator, TranslatorConfig};
use regard_nn::{ParamSpecs, Params};

use super::config::TranslateConfig;
use super::lexicon::Lexicon;
use crate::TaskError;
use crate::config::by_key;
use crate::run::{RunFacts, RunFolder, hash};
use crate::training::{check_memory, load_best};

/// The task's name in run folders.
pub const TASK: &str = "translate";

/// The model that the settings stand for, and the list of its parameters.
///
/// # Errors
/// A vocabulary holds the special tokens alone; the model refuses the settings.
pub(super) fn build(
    config: &TranslateConfig,
    lexicon: &Lexicon,
) -> Result<(Translator, ParamSpecs), TaskError> {
    for (side, tokens) in [("source", lexicon.source()), ("target", lexicon.target())] {
        if tokens.len() <= END_ID as usize + 1 {
            return Err(TaskError::NoTokens { side, min_count: config.data.min_count });
        }
    }
    let mut specs = ParamSpecs::new();
    let model = TranslatorConfig {
        source_vocab: lexicon.source().len(),
        target_vocab: lexicon.target().len(),
        model: config.translator(),
    };
    let translator = Translator::new(&mut specs, model).and_then(|translator| {
        check_memory(&specs)?;
        Ok(translator)
    });
    Ok((translator.map_err(|error| by_key(config, error))?, specs))
}

/// Hash of the settings and tokens that weights belong to. With `all`, every setting counts (but
/// for where the data lies: its contents have hashes of their own), else only those of the model.
pub(super) fn fingerprint(config: &TranslateConfig, lexicon: &Lexicon, all: bool) -> String {
    let mut shown = config.clone();
    (shown.data.train, shown.data.dev) = (Vec::new(), Vec::new());
    if !all {
        let defaults = TranslateConfig::defaults(config.model.kind);
        (shown.data, shown.train) = (defaults.data, defaults.train);
    }
    hash(format!("{}\n{}", shown.to_toml(), lexicon.identity()).as_bytes())
}

/// A trained translator.
pub struct LoadedTranslator {
    /// Its settings.
    pub config: TranslateConfig,
    /// Its tokens.
    pub lexicon: Lexicon,
    pub(super) translator: Translator,
    pub(super) params: Params<f32>,
}

impl LoadedTranslator {
    /// Loads the best weights of a run.
    ///
    /// # Errors
    /// A file of the folder is missing, damaged, or belongs to another model or other tokens.
    pub fn load(path: &Path) -> Result<Self, TaskError> {
        let run = RunFolder::open(path)?;
        let (config, _) = read_config(&run)?;
        let lexicon = Lexicon::load(&run, &config)?;
        let (translator, specs) = build(&config, &lexicon)?;
        let mut params = Params::zeros(specs);
        load_best(&run, &mut params, &fingerprint(&config, &lexicon, false))?;
        Ok(Self { config, lexicon, translator, params })
    }

    /// Number of trained values.
    pub fn n_parameters(&self) -> usize {
        self.params.count()
    }
}

/// The settings and facts of a run folder.
pub(super) fn read_config(run: &RunFolder) -> Result<(TranslateConfig, RunFacts), TaskError> {
    let (layer, facts) = run.read_config(TASK)?;
    Ok((TranslateConfig::resolve(None, &[layer])?, facts))
}
