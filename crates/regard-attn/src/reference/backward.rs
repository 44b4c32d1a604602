//! The derivative, step by step in the reverse order of the forward pass.

use regard_tensor::{Real, kernels::reduce};

use super::{Row, Turned, index, row};
use crate::{AttnError, Call, Rows, Streaming, Upstream};

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
    /// ∂L/∂θ of the position, [`Position::n_params`](crate::Position::n_params) long.
    pub dposition_params: Vec<T>,
}

/// The gradients of a call, given `d_context = ∂L/∂c` (laid out as
/// [`Reference::context`](super::Reference::context)) and what else the loss looks at.
///
/// With f_ij dropout's factor, w_ij position's, r_ij its value and p_ij the normaliser's share, a_ij = w_ij p_ij:
///
/// ```text
/// ∂L/∂v_j  = Σ_i a_ij f_ij ∂L/∂c_i
/// ∂L/∂a_ij = f_ij (v_j + r_ij)·∂L/∂c_i + d_weights_ij + d_key_sums_j
/// ∂L/∂p_ij = w_ij ∂L/∂a_ij − d_entropy_i (ln p_ij + 1)
/// ```
///
/// then the normaliser's, the score's and the position's own derivative. Where the normaliser
/// chooses a key c from π = softmax(s), with the entropy H:
/// `∂L/∂s_ij = d_log_prob_i ([j = c] − π_ij) − d_entropy_i π_ij (ln π_ij + H_i)`.
///
/// # Errors
/// Those of [`Call::check`] and [`Upstream::check`]; `d_context` of another length.
pub fn backward<T: Real>(
    call: &Call<'_, T>,
    q: Rows<'_, T>,
    k: Rows<'_, T>,
    v: Rows<'_, T>,
    d_context: &[T],
    upstream: Upstream<'_, T>,
) -> Result<Gradients<T>, AttnError> {
    call.check(q, k, v)?;
    let d = call.dims;
    let (queries, weights) = (call.query_offsets(), call.weight_offsets());
    exactly("d_context", call.n_queries() * d.n_heads * d.d_v, d_context)?;
    upstream.check(call)?;
    let (keys, n_queries) = (call.key_offsets(), call.n_queries());
    let (q_rows, kv_rows) = (call.q_rows(), call.kv_rows());
    let mut out = Gradients {
        dq: vec![T::ZERO; q_rows * d.n_heads * d.d_k],
        dk: vec![T::ZERO; kv_rows * d.n_kv_heads * d.d_k],
        dv: vec![T::ZERO; kv_rows * d.n_kv_heads * d.d_v],
        dscore_params: vec![T::ZERO; call.score.n_params()],
        dposition_params: vec![T::ZERO; call.position.n_params()],
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
                let place = head * n_queries + queries[n] + i;
                // ∂L/∂p_i, which the normaliser turns into ∂L/∂s_i.
                let mut ds = vec![T::ZERO; item.kv_len];
                for j in 0..item.kv_len {
                    if row.allowed[j] {
                        let value = v.row(item.kv_start + j, kv_head, d.d_v);
                        let kept = row.weights[j] * row.factors[j];
                        let mut dkept = reduce::dot(value, dc);
                        if call.position.has_values() {
                            dkept += call.position.value_dot(at, i, j, dc);
                            let dparams = &mut out.dposition_params;
                            call.position.value_backward(at, i, j, kept, dc, dparams);
                        }
                        let mut da = row.factors[j] * dkept;
                        if let Some(d_weights) = upstream.weights {
                            da += d_weights[first + j];
                        }
                        if let Some(d_key_sums) = upstream.key_sums {
                            da += d_key_sums[head * call.n_keys() + keys[n] + j];
                        }
                        ds[j] = row.of_position[j] * da;
                        if call.position.weighs() {
                            let (g, dparams) = (row.shares[j] * da, &mut out.dposition_params);
                            call.position.weight_backward(at, i, j, g, dparams);
                        }
                        let dv = index(item.kv_start + j, kv_head, d.n_kv_heads, d.d_v);
                        for (dv, dc) in out.dv[dv].iter_mut().zip(dc) {
                            *dv += kept * *dc;
                        }
                    }
                }
                let d_entropy = upstream.entropy.map_or(T::ZERO, |d| d[place]);
                let d_log_prob = upstream.log_prob.map_or(T::ZERO, |d| d[place]);
                row.looked_at(call, d_entropy, d_log_prob, &mut ds);
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
                        if call.position.biases() {
                            call.position.bias_backward(
                                at,
                                i,
                                j,
                                &turned.q[at_q.clone()],
                                ds[j],
                                &mut dq[at_q.clone()],
                                &mut out.dposition_params,
                            );
                        }
                    }
                }
            }
        }
        turn_back(call, &mut dq, item.q_offset, d.n_heads);
        turn_back(call, &mut dk, 0, d.n_kv_heads);
        if item.q_len > 0 {
            add_rows(&mut out.dq[item.q_start * d.n_heads * d.d_k..], &dq);
        }
        if call.score.has_own_keys() {
            for (n, dk) in dk.chunks_exact(d.d_k).enumerate() {
                let (key, kv_head) = (n / d.n_kv_heads, n % d.n_kv_heads);
                call.score.own_key_backward(kv_head, key, dk, &mut out.dscore_params);
            }
        } else if item.kv_len > 0 {
            add_rows(&mut out.dk[item.kv_start * d.n_kv_heads * d.d_k..], &dk);
        }
    }
    Ok(out)
}

impl<T: Real> Row<T> {
    /// Turns ∂L/∂p into ∂L/∂s, in place, where the loss also looks at the entropy of the row and at the
    /// log-probability of the key that was chosen.
    fn looked_at(&self, call: &Call<'_, T>, d_entropy: T, d_log_prob: T, ds: &mut [T]) {
        let Streaming::Pick { .. } = call.normaliser.streaming() else {
            for (ds, p) in ds.iter_mut().zip(&self.shares) {
                if *p != T::ZERO && d_entropy != T::ZERO {
                    *ds -= d_entropy * (p.ln() + T::ONE);
                }
            }
            return call.normaliser.row_backward(&self.shares, ds);
        };
        call.normaliser.row_backward(&self.shares, ds);
        let (chosen, entropy) = (self.chosen(), self.entropy(call));
        for (j, (ds, p)) in ds.iter_mut().zip(self.probabilities(call)).enumerate() {
            if p != T::ZERO {
                let hit = if chosen == Some(j) { T::ONE } else { T::ZERO };
                *ds += d_log_prob * (hit - p) - d_entropy * p * (p.ln() + entropy);
            }
        }
    }
}

/// Turns the gradients of the turned rows `[len, heads, d_k]` into those of the rows; positions
/// from `first` on.
fn turn_back<T: Real>(call: &Call<'_, T>, turned: &mut [T], first: usize, heads: usize) {
    if call.position.turns() {
        for (n, row) in turned.chunks_exact_mut(call.dims.d_k).enumerate() {
            call.position.turn_backward(first + n / heads, row);
        }
    }
}

fn add_rows<T: Real>(out: &mut [T], rows: &[T]) {
    for (out, x) in out.iter_mut().zip(rows) {
        *out += *x;
    }
}

fn exactly<T>(argument: &'static str, n: usize, given: &[T]) -> Result<(), AttnError> {
    AttnError::size(given.len() == n, argument, format_args!("{n} elements"), given.len())
}
