//! What a decoder attends to.

use regard_tensor::{Real, Tensor};

use crate::{NnError, Ragged, Tape, Var};

/// Annotations of a batch: vectors, as many an item as its length says, in whatever order the
/// encoder has them.
///
/// Cho et al. 2015 (<https://arxiv.org/abs/1507.01053>): an encoder is anything that yields these,
/// bidirectional states for a sentence, the cells of a convolutional grid for an image, frames for
/// speech or video. The recurrent decoders take nothing else.
#[derive(Debug, Clone)]
pub struct Annotations {
    /// The vectors `[total, d]`.
    pub values: Var,
    /// How many belong to each item; none has none.
    pub items: Ragged,
}

impl Annotations {
    /// The mean of each item's annotations, `[items, d]`: a summary for encoders that have no last state.
    ///
    /// # Errors
    /// The lengths do not fit the vectors.
    pub fn mean<T: Real>(&self, tape: &mut Tape<'_, T>) -> Result<Var, NnError> {
        tape.pool(self.values, &self.items, crate::ops::Pool::Mean)
    }

    /// The values as they stand.
    pub(super) fn held<T: Real>(&self, tape: &Tape<'_, T>) -> Tensor<T> {
        tape.value(self.values).clone()
    }
}
