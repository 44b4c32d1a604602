//! How far the engine may be from the reference, fixed before any test runs.
//!
//! Write ε for the machine epsilon, n for the number of keys, and for query i
//!
//! ```text
//! E_i = max_j S_ij          S_ij = the magnitude that is summed in the score s_ij:
//!                                  |scale|·‖q_i‖·‖k_j‖  or  Σ_c |v_c|(1 + |q_ic| + |k_jc|)
//! ```
//!
//! (norms rather than Σ|q||k|, so that turning by a position leaves them alone). To first order:
//!
//! 1. A score sums d_k products; with the turn of q and k (three roundings each) and the scale it is off
//!    by at most (d_k + 8)·ε·S_ij.
//! 2. A weight is exp(s − lse): its relative error is the absolute error of s and of the log-sum-exp,
//!    of s − top (|s − top| ≤ 2E_i), of exp (two units) and of a sum of n terms: at most
//!    ρ_i = (2(d_k + 9)·E_i + n + 4)·ε.
//! 3. A context adds n products: error at most (ρ_i + n·ε)·Σ_j |a_ij f_ij v_j|.
//! 4. ∂L/∂s_ij = a_ij(g_ij − Σ_l a_il g_il), where g is a sum of d_v products: error at most
//!    (2ρ_i + (n + d_v + 4)·ε)·G_ij with G_ij = a_ij(|g|_ij + Σ_l a_il |g|_il) and |g| the sum of magnitudes.
//! 5. Gradients of a query, a key, a value, a parameter add at most n, m, m and m·n of these (m: all queries
//!    of all heads that share the key), each times the magnitude of ∂s/∂q, ∂s/∂k, ∂s/∂θ.
//!
//! One number covers all of these,
//!
//! ```text
//! terms_i = 2·4·((d_k + 9)(1 + E_i) + d_v + n + m)
//! ```
//!
//! where the 4 is the largest factor above and the 2 is for the reference, which rounds as well.
//! Beside that, a weight below the smallest normal f32 may come out as 0.
//!
//! So every result is within ε·max_i terms_i of the reference, times the sum of magnitudes behind it.

use regard_attn::reference::Reference;
use regard_attn::{At, Call};

use super::{Kind, Problem, Weighing};

/// Allowed differences, laid out as the results.
pub(crate) struct Bounds {
    pub(crate) context: Vec<f64>,
    pub(crate) lse: Vec<f64>,
    pub(crate) weights: Vec<f64>,
    pub(crate) dq: Vec<f64>,
    pub(crate) dk: Vec<f64>,
    pub(crate) dv: Vec<f64>,
    pub(crate) dparams: Vec<f64>,
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The allowed differences of `problem`, given the reference's results in f64.
pub(crate) fn bounds(problem: &Problem, reference: &Reference<f64>, epsilon: f64) -> Bounds {
    problem.with_call::<f64, _>(|call| {
        let d = call.dims;
        let (q_rows, kv_rows) = (call.q_rows(), call.kv_rows());
        let mut out = Bounds {
            context: vec![0.0; q_rows * d.n_heads * d.d_v],
            lse: vec![0.0; reference.lse.len()],
            weights: vec![0.0; reference.weights.len()],
            dq: vec![0.0; q_rows * d.n_heads * d.d_k],
            dk: vec![0.0; kv_rows * d.n_kv_heads * d.d_k],
            dv: vec![0.0; kv_rows * d.n_kv_heads * d.d_v],
            dparams: vec![0.0; problem.params.len()],
        };
        for item in 0..call.items.len() {
            for head in 0..d.n_heads {
                for i in 0..call.items[item].q_len {
                    add_query(problem, call, reference, epsilon, call.at(item, head), i, &mut out);
                }
            }
        }
        out
    })
}

/// Adds what one query allows to differ.
fn add_query(
    problem: &Problem,
    call: &Call<'_, f64>,
    reference: &Reference<f64>,
    epsilon: f64,
    at: At,
    i: usize,
    out: &mut Bounds,
) {
    let (d, item) = (call.dims, call.items[at.item]);
    let (head, kv_head, group) = (at.head, d.kv_head(at.head), d.n_heads / d.n_kv_heads);
    let q_at = (item.q_start + i) * d.n_heads + head;
    let k_at = |j: usize| (item.kv_start + j) * d.n_kv_heads + kv_head;
    let q = &problem.q[q_at * d.d_k..(q_at + 1) * d.d_k];
    let k = |j: usize| &problem.k[k_at(j) * d.d_k..(k_at(j) + 1) * d.d_k];
    let v = |j: usize| &problem.v[k_at(j) * d.d_v..(k_at(j) + 1) * d.d_v];
    let dc = &problem.d_context[q_at * d.d_v..(q_at + 1) * d.d_v];
    let v_a = problem.params.get(head * d.d_k..(head + 1) * d.d_k).unwrap_or(&[]);
    let row = call.weight_offsets()[at.item] + (head * item.q_len + i) * item.kv_len;

    // S_ij, and the norms of ∂s/∂q and ∂s/∂k.
    let score = |j: usize| {
        let scale = if problem.kind == Kind::Dot { 1.0 } else { 1.0 / (d.d_k as f64).sqrt() };
        if problem.kind == Kind::Additive {
            let terms = v_a.iter().zip(q).zip(k(j));
            let sum = terms.map(|((v, q), k)| v.abs() * (1.0 + q.abs() + k.abs())).sum::<f64>();
            (sum, norm(v_a), norm(v_a))
        } else {
            let (q, k) = (norm(q), norm(k(j)));
            (scale * q * k, scale * k, scale * q)
        }
    };
    let factor = |j: usize| match call.dropout {
        Some(dropout) => dropout.factor::<f64>(dropout.row(at.item, head, i), j),
        None => 1.0,
    };
    // |g|_ij
    let upstream = |j: usize| {
        let dot: f64 = dc.iter().zip(v(j)).map(|(a, b)| (a * b).abs()).sum();
        factor(j) * dot + problem.d_weights.as_ref().map_or(0.0, |d| d[row + j].abs())
    };
    let seen: Vec<usize> = (0..item.kv_len).filter(|j| call.scope.allows(at, i, *j)).collect();
    let weight = |j: usize| reference.weights[row + j];
    let underflow = f64::from(f32::MIN_POSITIVE);
    let mean: f64 = seen.iter().map(|j| weight(*j) * upstream(*j)).sum();

    let largest = seen.iter().map(|j| score(*j).0).fold(0.0, f64::max);
    let sums = d.d_v + item.kv_len + item.q_len * group;
    let unit = epsilon * 8.0 * ((d.d_k as f64 + 9.0) * (1.0 + largest) + sums as f64);
    let lse = head * call.n_queries() + call.query_offsets()[at.item] + i;
    if seen.is_empty() {
        // lse = −∞ and zeros, exactly.
        return;
    }
    out.lse[lse] = unit * (1.0 + reference.lse[lse].abs());
    for &j in &seen {
        let (s, by_q, by_k) = score(j);
        let (a, g) = match problem.normaliser {
            Weighing::Softmax | Weighing::WholeSoftmax => {
                let weight = weight(j) + underflow / unit;
                (weight, weight * (upstream(j) + mean))
            }
            // Passes scores and gradients on, a quarter of them.
            Weighing::Quarter => (s / 4.0, upstream(j) / 4.0),
        };
        out.weights[row + j] = unit * a;
        for x in 0..d.d_v {
            out.context[q_at * d.d_v + x] += unit * a * factor(j) * v(j)[x].abs();
            out.dv[k_at(j) * d.d_v + x] += unit * a * factor(j) * dc[x].abs();
        }
        for x in 0..d.d_k {
            out.dq[q_at * d.d_k + x] += unit * g * by_q;
            out.dk[k_at(j) * d.d_k + x] += unit * g * by_k;
        }
        for dparam in out.dparams.iter_mut().skip(head * d.d_k).take(v_a.len()) {
            *dparam += (unit + epsilon * (item.q_len * item.kv_len) as f64) * g;
        }
    }
}
