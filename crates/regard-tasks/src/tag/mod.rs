//! Sequence labelling: one label for every token (N → N).
//!
//! | file | does |
//! |---|---|
//! | `config.rs` | the settings, their defaults by model, their ranges |
//! | `lexicon.rs` | words, characters and labels to ids and back |
//! | `model.rs` | the settings as a model; a trained model from its folder |
//! | `train.rs` | data, loss and scores for the loop in `crate::training` |
//! | `evaluate.rs` | accuracy and span scores of a model on a file |
//! | `predict.rs` | a stream of sentences through a model |
//! | `look.rs` | what attention did with one sentence, number by number |

mod config;
mod evaluate;
mod lexicon;
mod look;
mod model;
mod predict;
mod train;

pub use config::{DataConfig, ModelConfig, ModelKind, TagConfig, TrainConfig};
pub(crate) use evaluate::score_labels;
pub use evaluate::{TagEvaluation, evaluate, is_span_task};
pub use lexicon::Lexicon;
pub use look::look;
pub use model::LoadedTagger;
pub use predict::{Prediction, predict_stream};
pub(crate) use train::{Corpus, TagLearner};
pub use train::{TrainRequest, resume, train};
