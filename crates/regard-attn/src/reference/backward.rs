//! The derivative, step by step in the reverse order of the forward pass.

use regard_tensor::{Real, kernels::reduce};

use super::{Turned, index, row};
use crate::{AttnError, Call, Rows};

/// Gradients of a loss by everything that went into a call.
///
/// Rows are those of the inputs, dense: row r of head h stands at `(r·heads + h)·width`, whatever
/// the strides of the input; rows that belong to no item have zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Gradients<T> {
    /// ∂L/∂q, before the turn by position, `[q_rows, n_heads, d_k]`.
    pub dq: Vec<T>,
    /// ∂L/∂k, before the turn by position, `[kv_rows, n_kv_heads, d_k]`.
    pub dk: Vec<T>,
    /// ∂L/∂v, `[kv_rows, n_kv_heads, d_v]`.
    pub dv: Vec<T>,
    /// ∂L/∂θ of the score, [`Score::n_params`](crate::Score::n_params) long.
    pub dscore_params: Vec<T>,
}

/// The gradients of a call, given `d_context = ∂L/∂c` (laid out as
/// [`Reference::context`](super::Reference::context)) and, where the loss also looks at the
/// weights, `d_weights = ∂L/∂a` (as [`Reference::weights`](super::Reference::weights), before
/// dropout; entries of forbidden pairs are not read).
///
/// With f_ij dropout's factor: `∂L/∂v_j = Σ_i a_ij f_ij ∂L/∂c_i`,
/// `∂L/∂a_ij = f_ij v_j·∂L/∂c_i + d_weights_ij`; then the normaliser's, the score's and the
/// position's own derivative.
///
/// # Errors
/// Those of [`Call::check`]; `d_context` or `d_weights` of another length.
pub fn backward<T: Real>(
    call: &Call<'_, T>,
    q: Rows<'_, T>,
    k: Rows<'_, T>,
    v: Rows<'_, T>,
    d_context: &[T],
    d_weights: Option<&[T]>,
) -> Result<Gradients<T>, AttnError> {
    call.check(q, k, v)?;
    let d = call.dims;
    let (queries, weights) = (call.query_offsets(), call.weight_offsets());
    exactly("d_context", call.n_queries() * d.n_heads * d.d_v, d_context)?;
    if let Some(d_weights) = d_weights {
        exactly("d_weights", weights[call.items.len()], d_weights)?;
    }
    let (q_rows, kv_rows) = (call.q_rows(), call.kv_rows());
    let mut out = Gradients {
        dq: vec![T::ZERO; q_rows * d.n_heads * d.d_k],
        dk: vec![T::ZERO; kv_rows * d.n_kv_heads * d.d_k],
        dv: vec![T::ZERO; kv_rows * d.n_kv_heads * d.d_v],
        dscore_params: vec![T::ZERO; call.score.n_params()],
    };
    for (n, item) in call.items.iter().enumerate() {
        let turned = Turned::new(call, *item, q, k);
        // Gradients of the turned rows of this item.
        let mut dq = vec![T::ZERO; turned.q.len()];
        let mut dk = vec![T::ZERO; turned.k.len()];
        for head in 0..d.n_heads {
            let (at, kv_head) = (call.at(n, head), d.kv_head(head));
            for i in 0..item.q_len {
                let Some(row) = row(call, at, i, &turned) else { continue };
                let dc = &d_context[index(queries[n] + i, head, d.n_heads, d.d_v)];
                let first = weights[n] + (head * item.q_len + i) * item.kv_len;
                // ∂L/∂a_i, which the normaliser turns into ∂L/∂s_i.
                let mut ds = vec![T::ZERO; item.kv_len];
                for j in 0..item.kv_len {
                    if row.allowed[j] {
                        let value = v.row(item.kv_start + j, kv_head, d.d_v);
                        ds[j] = row.factors[j] * reduce::dot(value, dc);
                        if let Some(d_weights) = d_weights {
                            ds[j] += d_weights[first + j];
                        }
                        let kept = row.weights[j] * row.factors[j];
                        let dv = index(item.kv_start + j, kv_head, d.n_kv_heads, d.d_v);
                        for (dv, dc) in out.dv[dv].iter_mut().zip(dc) {
                            *dv += kept * *dc;
                        }
                    }
                }
                call.normaliser.row_backward(&row.weights, &mut ds);
                let at_q = index(i, head, d.n_heads, d.d_k);
                for j in 0..item.kv_len {
                    if row.allowed[j] {
                        let at_k = index(j, kv_head, d.n_kv_heads, d.d_k);
                        call.score.pair_backward(
                            head,
                            &turned.q[at_q.clone()],
                            &turned.k[at_k.clone()],
                            ds[j],
                            &mut dq[at_q.clone()],
                            &mut dk[at_k],
                            &mut out.dscore_params,
                        );
                    }
                }
            }
        }
        add_turned_back(call, &mut out.dq, item.q_start, dq, d.n_heads);
        add_turned_back(call, &mut out.dk, item.kv_start, dk, d.n_kv_heads);
    }
    Ok(out)
}

/// Adds to `out`, from row `start` on, the gradients of the rows before the turn, given those
/// after it, `[len, heads, d_k]`.
fn add_turned_back<T: Real>(
    call: &Call<'_, T>,
    out: &mut [T],
    start: usize,
    mut turned: Vec<T>,
    heads: usize,
) {
    let d_k = call.dims.d_k;
    for (n, row) in turned.chunks_exact_mut(d_k).enumerate() {
        if call.position.turns() {
            call.position.turn_backward(n / heads, row);
        }
        let first = (start * heads + n) * d_k;
        for (out, x) in out[first..first + d_k].iter_mut().zip(row) {
            *out += *x;
        }
    }
}

fn exactly<T>(argument: &'static str, n: usize, given: &[T]) -> Result<(), AttnError> {
    AttnError::size(given.len() == n, argument, format_args!("{n} elements"), given.len())
}
