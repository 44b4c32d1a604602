//! `c_i = Σ_j a_ij v_j`

use regard_tensor::Real;

use super::{Turned, index, row};
use crate::{AttnError, Call, Rows};

/// What attention gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference<T> {
    /// Contexts `[n_queries, n_heads, d_v]`; query i of an item stands at
    /// [`Call::query_offsets`]`[item] + i`.
    pub context: Vec<T>,
    /// Log-sum-exp of each row of scores, `[n_heads, n_queries]`; −∞ where nothing is allowed.
    pub lse: Vec<T>,
    /// Weights before dropout, with position's factor, item by item `[n_heads, q_len, kv_len]`, beginning at
    /// [`Call::weight_offsets`].
    pub weights: Vec<T>,
    /// Weights after dropout, laid out as `weights`; the same numbers without dropout.
    pub kept: Vec<T>,
}

/// Computes a call: queries `q`, keys `k`, values `v`, as [`Call::items`] cuts them.
///
/// ```
/// use regard_attn::{Call, Dims, Item, Rows, reference};
/// use regard_attn::{normaliser::Softmax, position::NoPosition, scope::Causal, score::Dot};
///
/// let call = Call {
///     score: &Dot,
///     normaliser: &Softmax,
///     scope: &Causal::square(),
///     position: &NoPosition,
///     dropout: None,
///     dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: 1, d_v: 1 },
///     items: &Item::packed(&[2]),
/// };
/// let rows = |data| Rows { data, row_stride: 1, head_stride: 1 };
/// let (q, k, v) = ([1.0f64, 1.0], [0.0, 3f64.ln()], [8.0, 16.0]);
/// let out = reference::forward(&call, rows(&q), rows(&k), rows(&v))?;
/// // The first token sees itself; the second gives itself three times the weight of the first.
/// assert!((out.context[0] - 8.0).abs() < 1e-14 && (out.context[1] - 14.0).abs() < 1e-14);
/// assert_eq!(out.weights[1], 0.0);
/// # Ok::<(), regard_attn::AttnError>(())
/// ```
///
/// # Errors
/// Those of [`Call::check`].
pub fn forward<T: Real>(
    call: &Call<'_, T>,
    q: Rows<'_, T>,
    k: Rows<'_, T>,
    v: Rows<'_, T>,
) -> Result<Reference<T>, AttnError> {
    call.check(q, k, v)?;
    call.check_weights()?;
    let d = call.dims;
    let n_queries = call.n_queries();
    let (queries, weights) = (call.query_offsets(), call.weight_offsets());
    let total = weights[call.items.len()];
    let mut out = Reference {
        context: vec![T::ZERO; n_queries * d.n_heads * d.d_v],
        lse: vec![T::NEG_INFINITY; d.n_heads * n_queries],
        weights: vec![T::ZERO; total],
        kept: vec![T::ZERO; total],
    };
    for (n, item) in call.items.iter().enumerate() {
        let turned = Turned::new(call, *item, q, k);
        for head in 0..d.n_heads {
            let at = call.at(n, head);
            for i in 0..item.q_len {
                let Some(row) = row(call, at, i, &turned) else { continue };
                let query = queries[n] + i;
                out.lse[head * n_queries + query] = row.lse;
                let first = weights[n] + (head * item.q_len + i) * item.kv_len;
                let context = &mut out.context[index(query, head, d.n_heads, d.d_v)];
                for j in 0..item.kv_len {
                    if row.allowed[j] {
                        let kept = row.weights[j] * row.factors[j];
                        out.weights[first + j] = row.weights[j];
                        out.kept[first + j] = kept;
                        let value = v.row(item.kv_start + j, d.kv_head(head), d.d_v);
                        for (c, v) in context.iter_mut().zip(value) {
                            *c += kept * *v;
                        }
                        if call.position.has_values() {
                            call.position.add_value(at, i, j, kept, context);
                        }
                    }
                }
            }
        }
    }
    Ok(out)
}
