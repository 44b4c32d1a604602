//! Models: token encoders and what stands on top of them.
//!
//! | file | model |
//! |---|---|
//! | `words.rs` | the input: word vectors with an optional character encoder |
//! | `encoder.rs` | the choice among the encoders below |
//! | `feed_forward.rs` | each token alone, or with its neighbours |
//! | `cnn.rs` | convolution over the tokens |
//! | `rnn.rs` | LSTM, in one direction or both |
//! | `self_attention.rs` | one head, as in the lecture notes' first form |
//! | `transformer.rs` | the encoder of Vaswani et al. 2017 |
//! | `translation/` | encoder–decoder models, from Bahdanau to the Transformer |
//! | `tagger.rs` | a label for every token: softmax or a chain of tags |

mod cnn;
mod encoder;
mod feed_forward;
mod rnn;
mod self_attention;
mod tagger;
mod transformer;
pub mod translation;
mod words;

pub use cnn::{Cnn, CnnConfig};
pub use encoder::{Encoder, EncoderConfig};
pub use feed_forward::{FeedForward, FeedForwardConfig};
pub use rnn::{Rnn, RnnConfig};
pub use self_attention::{SelfAttention, SelfAttentionConfig};
pub use tagger::{Output, Tagger, TaggerConfig, Target};
pub use transformer::{MAX_LEARNED, PositionKind, Transformer, TransformerConfig};
pub use words::{CharEncoder, TokenIds, Words, WordsConfig};

use crate::NnError;

/// Fails on the first size that is 0.
fn at_least_one(sizes: &[(&'static str, usize)]) -> Result<(), NnError> {
    match sizes.iter().find(|(_, size)| *size == 0) {
        Some((name, _)) => {
            Err(NnError::Hyper { name, expected: "at least 1".into(), actual: "0".into() })
        }
        None => Ok(()),
    }
}
