//! Encoder–decoder models: from one sequence to another.
//!
//! | file | model |
//! |---|---|
//! | `config.rs` | sizes and choices of every model |
//! | `seq2seq.rs` | recurrent encoder and decoder without attention (Sutskever et al. 2014) |
//! | `cho2014.rs` | one fixed context at every step (Cho et al. 2014) |
//! | `bahdanau.rs` | additive attention from the state before (Bahdanau et al. 2015) |
//! | `luong.rs` | global and local attention, input feeding (Luong et al. 2015) |
//! | `transformer.rs` | attention alone (Vaswani et al. 2017) |
//! | `annotations.rs` | what a decoder attends to, whatever made it (Cho et al. 2015) |
//! | `alignment.rs` | the one attention of the recurrent decoders: score, scope, normaliser, position |
//! | `translator.rs` | the choice among them: loss, decoding, looking |
//! | `decoding.rs` | a batch of half-written outputs, step by step |
//! | `decode.rs` | greedy and beam search |
//!
//! Ids [`UNKNOWN`], [`BEGIN`] and [`END`] are special in every vocabulary. Batches are packed: no id stands
//! for padding.

mod alignment;
mod annotations;
pub mod bahdanau;
pub mod cho2014;
mod config;
pub mod decode;
mod decoding;
mod look;
pub mod luong;
pub mod seq2seq;
mod sequences;
pub mod transformer;
mod translator;

pub use alignment::{Alignment, AlignmentConfig, Source};
pub use annotations::Annotations;
pub use bahdanau::{Bahdanau, BahdanauDecoder};
pub use cho2014::Cho2014;
pub use config::{
    AlignmentScope, AlignmentScore, BahdanauConfig, Cho2014Config, LocationAware, LuongConfig,
    NormaliserKind, Seq2seqConfig, Tie, TransformerConfig, TranslatorConfig, TranslatorModel,
};
pub use decoding::Decoding;
pub use look::{AlignmentMap, AttentionKind};
pub use luong::{Luong, LuongDecoder};
pub use seq2seq::Seq2seq;
pub use sequences::{BEGIN, END, PairBatch, SPECIAL, Sequences, UNKNOWN};
pub use transformer::TranslationTransformer;
pub use translator::{LossOptions, TranslationLoss, Translator};
