//! The choice among the token encoders.

use regard_tensor::Real;

use super::{
    Cnn, CnnConfig, FeedForward, FeedForwardConfig, Rnn, RnnConfig, SelfAttention,
    SelfAttentionConfig, Transformer, TransformerConfig, at_least_one,
};
use crate::layers::LayerAttention;
use crate::{NnError, ParamSpecs, Ragged, Tape, Var};

/// Which encoder, with its sizes.
#[derive(Debug, Clone, PartialEq)]
pub enum EncoderConfig {
    /// Each token alone, or with its neighbours.
    FeedForward(FeedForwardConfig),
    /// Convolution.
    Cnn(CnnConfig),
    /// LSTM.
    Rnn(RnnConfig),
    /// Single-head self-attention.
    SelfAttention(SelfAttentionConfig),
    /// The Transformer's encoder.
    Transformer(TransformerConfig),
}

impl EncoderConfig {
    /// Checks the sizes that stand alone; what must divide what, the layers check.
    fn check(&self) -> Result<(), NnError> {
        match self {
            Self::FeedForward(c) => at_least_one(&[("hidden", c.hidden), ("layers", c.layers)]),
            Self::Cnn(c) => {
                at_least_one(&[("hidden", c.hidden), ("layers", c.layers), ("kernel", c.kernel)])
            }
            Self::Rnn(c) => at_least_one(&[("hidden", c.hidden), ("layers", c.layers)]),
            Self::SelfAttention(c) => at_least_one(&[("d_model", c.d_model)]),
            Self::Transformer(c) => at_least_one(&[("d_model", c.d_model), ("d_ff", c.d_ff)]),
        }
    }
}

/// A map from token vectors `[total, d]` to token vectors `[total, width]`.
#[derive(Debug, Clone)]
pub enum Encoder {
    /// Each token alone, or with its neighbours.
    FeedForward(FeedForward),
    /// Convolution.
    Cnn(Cnn),
    /// LSTM.
    Rnn(Rnn),
    /// Single-head self-attention.
    SelfAttention(SelfAttention),
    /// The Transformer's encoder.
    Transformer(Transformer),
}

impl Encoder {
    /// Lists the parameters of an encoder of vectors `d` wide.
    ///
    /// # Errors
    /// A size of 0, or sizes that do not go together.
    #[expect(clippy::needless_pass_by_value, reason = "a model uses its configuration up")]
    pub fn new(specs: &mut ParamSpecs, d: usize, config: EncoderConfig) -> Result<Self, NnError> {
        config.check()?;
        specs.scope("encoder", |specs| {
            Ok(match config {
                EncoderConfig::FeedForward(c) => Self::FeedForward(FeedForward::new(specs, d, c)),
                EncoderConfig::Cnn(c) => Self::Cnn(Cnn::new(specs, d, c)),
                EncoderConfig::Rnn(c) => Self::Rnn(Rnn::new(specs, d, c)),
                EncoderConfig::SelfAttention(c) => {
                    Self::SelfAttention(SelfAttention::new(specs, d, c)?)
                }
                EncoderConfig::Transformer(c) => Self::Transformer(Transformer::new(specs, d, c)?),
            })
        })
    }

    /// Width of the result.
    pub fn width(&self) -> usize {
        match self {
            Self::FeedForward(m) => m.width(),
            Self::Cnn(m) => m.width(),
            Self::Rnn(m) => m.width(),
            Self::SelfAttention(m) => m.width(),
            Self::Transformer(m) => m.width(),
        }
    }

    /// Encodes a packed batch; with `look`, what each attention layer did is added to it.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        items: &Ragged,
        look: Option<&mut Vec<LayerAttention<T>>>,
    ) -> Result<Var, NnError> {
        match self {
            Self::FeedForward(m) => m.forward(tape, x, items),
            Self::Cnn(m) => m.forward(tape, x, items),
            Self::Rnn(m) => m.forward(tape, x, items),
            Self::SelfAttention(m) => m.forward(tape, x, items, look),
            Self::Transformer(m) => m.forward(tape, x, items, look),
        }
    }
}
