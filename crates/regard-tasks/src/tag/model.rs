//! The settings as a model, and a trained model from its folder.

use std::path::Path;
use std::sync::OnceLock;

use regard_data::Format;
use regard_nn::layers::LayerAttention;
use regard_nn::models::{Tagger, TaggerConfig, TokenIds, WordsConfig};
use regard_nn::{NnError, PackedParams, ParamSpecs, Params, Tape};
use regard_tensor::Tensor;

use super::config::TagConfig;
use super::lexicon::Lexicon;
use crate::TaskError;
use crate::config::by_key;
use crate::run::{RunFacts, RunFolder, hash};
use crate::training::{check_memory, load_best};

/// The model that the settings stand for, and the list of its parameters.
///
/// # Errors
/// The model refuses the settings.
pub(super) fn build(
    config: &TagConfig,
    lexicon: &Lexicon,
) -> Result<(Tagger, ParamSpecs), TaskError> {
    of_settings(config, lexicon).map_err(|error| by_key(config, error))
}

fn of_settings(config: &TagConfig, lexicon: &Lexicon) -> Result<(Tagger, ParamSpecs), NnError> {
    let m = &config.model;
    let mut specs = ParamSpecs::new();
    let words = WordsConfig {
        n_words: lexicon.n_words(),
        d_word: m.word_dim,
        n_chars: lexicon.n_chars(),
        d_char: m.char_dim,
        encoder: m.chars,
        char_hidden: m.char_hidden,
        char_widths: m.char_widths.clone(),
        dropout: m.input_dropout,
    };
    let tagger = Tagger::new(
        &mut specs,
        TaggerConfig {
            words,
            encoder: config.encoder(),
            n_labels: lexicon.labels.len(),
            output: m.output,
        },
    )?;
    check_memory(&specs)?;
    Ok((tagger, specs))
}

/// The task's name in run folders.
pub(super) const TASK: &str = "tag";

/// Hash of the settings and vocabularies that weights belong to. With `all`, every setting
/// counts (but for where the data lies: its contents have a hash of their own), else only those of
/// the model.
pub(super) fn fingerprint(config: &TagConfig, lexicon: &Lexicon, all: bool) -> String {
    let mut shown = config.clone();
    (shown.data.train, shown.data.dev) = (String::new(), String::new());
    if !all {
        let defaults = TagConfig::defaults(config.model.kind);
        (shown.data, shown.train) = (defaults.data, defaults.train);
    }
    hash(format!("{}\n{}", shown.to_toml(), lexicon.identity()).as_bytes())
}

/// A trained tagger.
pub struct LoadedTagger {
    /// Its settings.
    pub config: TagConfig,
    /// Its vocabularies.
    pub lexicon: Lexicon,
    pub(super) tagger: Tagger,
    params: Params<f32>,
    /// The parameters as prediction reads them, while they stay what they are.
    packed: OnceLock<PackedParams<f32>>,
}

impl LoadedTagger {
    /// A tagger from its parts, before or between trainings.
    pub(super) fn new(
        config: TagConfig,
        lexicon: Lexicon,
        tagger: Tagger,
        params: Params<f32>,
    ) -> Self {
        Self { config, lexicon, tagger, params, packed: OnceLock::new() }
    }

    /// Loads the best weights of a run.
    ///
    /// # Errors
    /// A file of the folder is missing, damaged, or belongs to another model.
    pub fn load(path: &Path) -> Result<Self, TaskError> {
        let run = RunFolder::open(path)?;
        let (config, facts) = read_config(&run)?;
        let lexicon = Lexicon::load(&run, config.data.lowercase, &facts)?;
        let (tagger, specs) = build(&config, &lexicon)?;
        let mut params = Params::zeros(specs);
        load_best(&run, &mut params, &fingerprint(&config, &lexicon, false))?;
        Ok(Self::new(config, lexicon, tagger, params))
    }

    /// The trained values.
    pub(super) fn params(&self) -> &Params<f32> {
        &self.params
    }

    /// The trained values, to change them.
    pub(super) fn params_mut(&mut self) -> &mut Params<f32> {
        self.packed.take();
        &mut self.params
    }

    /// Number of trained values.
    pub fn n_parameters(&self) -> usize {
        self.params.count()
    }

    /// The format that a file is in: the one named, else the one that its ending tells, else that
    /// of the training file. The columns are those of the training file where the format is the
    /// same and none are named.
    ///
    /// # Errors
    /// Unknown format or column.
    pub fn format(&self, name: &str, column: &str, path: &Path) -> Result<Format, TaskError> {
        let data = &self.config.data;
        let trained = Format::parse(&data.format, &data.column, Path::new(&data.train))?;
        let told = Format::parse("auto", "", path);
        let name = match name {
            "" | "auto" => told.as_ref().map_or(trained.name(), Format::name),
            name => name,
        };
        if column.is_empty() && name == trained.name() {
            return Ok(trained);
        }
        Ok(Format::parse(name, column, path)?)
    }

    /// Scores of every label at every token, and what attention did where asked.
    pub(super) fn logits(
        &self,
        ids: &TokenIds,
        look: Option<&mut Vec<LayerAttention<f32>>>,
    ) -> Result<Tensor<f32>, NnError> {
        let packed = self.packed.get_or_init(|| PackedParams::new(&self.params));
        let mut tape = Tape::inference(packed);
        let logits = self.tagger.logits(&mut tape, ids, look)?;
        Ok(tape.value(logits).clone())
    }
}

/// The settings and facts of a run folder.
pub(super) fn read_config(run: &RunFolder) -> Result<(TagConfig, RunFacts), TaskError> {
    let (layer, facts) = run.read_config(TASK)?;
    Ok((TagConfig::resolve(None, &[layer])?, facts))
}
