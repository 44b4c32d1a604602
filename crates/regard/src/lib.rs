//! Attention, all of it: the front door of the toolkit.
//!
//! | crate | re-exported as | holds |
//! |---|---|---|
//! | `regard-tensor` | [`tensor`] | arrays, buffer pool, addressed randomness, kernels |
//! | `regard-attn` | [`attn`] | what attention means: scores, normalisers, scopes, positions, catalogue, reference |
//! | `regard-engine` | [`engine`] | how it runs: tiled forward and backward |
//! | `regard-nn` | [`nn`] | tape, operators, layers, models, optimisers, checkpoints |
//! | `regard-data` | [`data`] | readers, tokens, vocabularies, batches |
//! | `regard-metrics` | [`metrics`] | accuracy, span scores, scores of translations |
//! | `regard-report` | [`report`] | results and their writers |
//! | `regard-tasks` | [`tasks`] | train, evaluate, predict, look |
//! | `regard-viewer` | [`viewer`] | the pages to look into a model |

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

pub use regard_attn as attn;
pub use regard_data as data;
pub use regard_engine as engine;
pub use regard_metrics as metrics;
pub use regard_nn as nn;
pub use regard_report as report;
pub use regard_tasks as tasks;
pub use regard_tensor as tensor;
pub use regard_viewer as viewer;
