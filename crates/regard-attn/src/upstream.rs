//! What a loss looks at beside the contexts.

use regard_tensor::Real;

use crate::{AttnError, Call, Streaming};

/// Upstream gradients beside `∂L/∂c`; each is laid out as the output that it belongs to, and
/// `None` stands for zero.
///
/// Doubly stochastic and coverage losses look at the weights or their sums by key, hard attention at
/// the log-probability of its choice and at the entropy.
#[derive(Debug, Clone, Copy)]
pub struct Upstream<'a, T> {
    /// ∂L/∂a by the weights before dropout, item by item `[n_heads, q_len, kv_len]`, beginning at
    /// [`Call::weight_offsets`]. Entries of forbidden pairs are not looked at.
    pub weights: Option<&'a [T]>,
    /// By the sums of weights over the queries, `[n_heads, n_keys]`, item by item as
    /// [`Call::key_offsets`] says.
    pub key_sums: Option<&'a [T]>,
    /// By the entropy of each row, `[n_heads, n_queries]`.
    pub entropy: Option<&'a [T]>,
    /// By the log-probability of each row's chosen key, `[n_heads, n_queries]`.
    pub log_prob: Option<&'a [T]>,
}

impl<'a, T: Real> Upstream<'a, T> {
    /// The loss looks at the contexts alone.
    pub const NONE: Self = Self { weights: None, key_sums: None, entropy: None, log_prob: None };

    /// The loss looks at the weights, too.
    pub const fn weights(d_weights: &'a [T]) -> Self {
        Self { weights: Some(d_weights), ..Self::NONE }
    }

    /// Whether every part is `None`.
    pub fn is_none(&self) -> bool {
        let Self { weights, key_sums, entropy, log_prob } = self;
        [weights, key_sums, entropy, log_prob].iter().all(|part| part.is_none())
    }

    /// Checks the parts against a call.
    ///
    /// # Errors
    /// An array of another length; an entropy or a log-probability of a normaliser that has none.
    pub fn check(&self, call: &Call<'_, T>) -> Result<(), AttnError> {
        let (items, heads) = (call.items.len(), call.dims.n_heads);
        let rows = heads * call.n_queries();
        for (argument, part, len) in [
            ("d_weights", self.weights, call.weight_offsets()[items]),
            ("d_key_sums", self.key_sums, heads * call.n_keys()),
            ("d_entropy", self.entropy, rows),
            ("d_log_prob", self.log_prob, rows),
        ] {
            if let Some(part) = part {
                let expected = format_args!("{len} elements");
                AttnError::size(part.len() == len, argument, expected, part.len())?;
            }
        }
        check_looks(call, self.entropy.is_some(), self.log_prob.is_some())
    }
}

impl<'a, T: Real> From<Option<&'a [T]>> for Upstream<'a, T> {
    /// The loss looks at the weights if there is a gradient of them.
    fn from(weights: Option<&'a [T]>) -> Self {
        Self { weights, ..Self::NONE }
    }
}

/// # Errors
/// The normaliser of the call has no entropy, or chooses no key.
pub(crate) fn check_looks<T: Real>(
    call: &Call<'_, T>,
    entropy: bool,
    choices: bool,
) -> Result<(), AttnError> {
    let normaliser = call.normaliser;
    let unsupported =
        |reason| AttnError::Unsupported { part: "normaliser", name: normaliser.name(), reason };
    if entropy && !normaliser.rows_sum_to_one() {
        return Err(unsupported("the entropy is that of weights which sum to one"));
    }
    if choices && !matches!(normaliser.streaming(), Streaming::Pick { .. }) {
        return Err(unsupported("only `hard` and `sampled` choose a key"));
    }
    Ok(())
}
