//! Translation: from one sequence to another (N → M).
//!
//! | file | does |
//! |---|---|
//! | `config.rs` | the settings, and how files and flags are laid over them |
//! | `defaults.rs` | their defaults by model, their ranges, the model that they stand for |
//! | `lexicon.rs` | the tokens of both languages, in memory and in a run folder |
//! | `corpus.rs` | pairs from files, filtered by length, as numbers |
//! | `model.rs` | the settings as a model; a trained model from its folder |
//! | `train.rs` | data, loss and scores for the loop in `crate::training` |
//! | `decode.rs` | lines through a model, and how likely given translations are |
//! | `evaluate.rs` | BLEU, chrF and perplexity of a model on a file |
//! | `predict.rs` | a stream of lines through a model |
//! | `look.rs` | what attention did with one sentence and its translation |
//! | `reversal.rs` | a made-up task: strings and the same strings from the end |

mod config;
mod corpus;
mod decode;
mod defaults;
mod evaluate;
mod lexicon;
mod look;
mod model;
mod predict;
pub mod reversal;
mod train;

pub use config::{
    DataConfig, ModelConfig, ModelKind, Select, Tokens, TrainConfig, TranslateConfig,
};
pub use corpus::{read_pairs, read_sources, read_translations};
pub use decode::{TranslateOptions, Translated, Translation, force_decode, translate_lines};
pub use evaluate::{ScoreOptions, TranslateEvaluation, evaluate};
pub use lexicon::Lexicon;
pub use look::look;
pub use model::{LoadedTranslator, TASK};
pub use predict::{Predicted, predict_stream};
pub use train::{TrainRequest, resume, train};
