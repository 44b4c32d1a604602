//! The engine against the reference, for any parts.

#![allow(dead_code, reason = "every test binary uses a part of it")]

use regard::attn::reference::{self, Reference};
use regard::attn::{Call, Item, Rows, RowsMut, Upstream};
use regard::engine::{self, GradArrays, Gradients};
use regard::tensor::Real;
use regard_testkit::{Bound, assert_close, assert_close_each, random_vec};

/// Inputs of a call, `[rows, heads, width]`, from −1 to 1, and ∂L/∂c of the same kind.
#[derive(Debug, Clone)]
pub(crate) struct Inputs<T> {
    pub(crate) q: Vec<T>,
    pub(crate) k: Vec<T>,
    pub(crate) v: Vec<T>,
    pub(crate) d_context: Vec<T>,
}

impl Inputs<f64> {
    /// For the sizes of `call`, whose rows must leave no gaps. Numbers have f32's digits.
    pub(crate) fn new(call: &Call<'_, f64>) -> Self {
        let (d, queries, keys) = (call.dims, call.q_rows(), call.kv_rows());
        assert_eq!(queries, call.n_queries(), "queries without gaps");
        let numbers = |seed, n| -> Vec<f64> {
            random_vec(seed, n).into_iter().map(|x| f64::from(x as f32)).collect()
        };
        Self {
            q: numbers(1, queries * d.n_heads * d.d_k),
            k: numbers(2, keys * d.n_kv_heads * d.d_k),
            v: numbers(3, keys * d.n_kv_heads * d.d_v),
            d_context: numbers(4, queries * d.n_heads * d.d_v),
        }
    }

    pub(crate) fn round<T: Real>(&self) -> Inputs<T> {
        let Self { q, k, v, d_context } = self;
        let [q, k, v, d_context] = [q, k, v, d_context].map(|x| round(x));
        Inputs { q, k, v, d_context }
    }
}

/// The same numbers as T.
pub(crate) fn round<T: Real>(x: &[f64]) -> Vec<T> {
    x.iter().map(|x| T::from_f64(*x)).collect()
}

/// Everything that forward and backward give.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Results<T> {
    pub(crate) context: Vec<T>,
    pub(crate) lse: Vec<T>,
    pub(crate) weights: Vec<T>,
    pub(crate) dq: Vec<T>,
    pub(crate) dk: Vec<T>,
    pub(crate) dv: Vec<T>,
    pub(crate) dscore: Vec<T>,
    pub(crate) dposition: Vec<T>,
}

fn rows<T>(data: &[T], heads: usize, width: usize) -> Rows<'_, T> {
    Rows { data, row_stride: heads * width, head_stride: width }
}

fn rows_mut<T>(data: &mut [T], heads: usize, width: usize) -> RowsMut<'_, T> {
    RowsMut { data, row_stride: heads * width, head_stride: width }
}

/// A call by the plain loops.
pub(crate) fn by_reference<T: Real>(call: &Call<'_, T>, x: &Inputs<T>) -> Results<T> {
    let d = call.dims;
    let (q, k, v) = inputs(call, x);
    let Reference { context, lse, weights, .. } = reference::forward(call, q, k, v).unwrap();
    let grads = reference::backward(call, q, k, v, &x.d_context, Upstream::NONE).unwrap();
    assert_eq!(grads.dq.len(), call.q_rows() * d.n_heads * d.d_k);
    Results {
        context,
        lse,
        weights,
        dq: grads.dq,
        dk: grads.dk,
        dv: grads.dv,
        dscore: grads.dscore_params,
        dposition: grads.dposition_params,
    }
}

/// The same call by the engine.
pub(crate) fn by_engine<T: Real>(call: &Call<'_, T>, x: &Inputs<T>) -> Results<T> {
    let d = call.dims;
    let (q, k, v) = inputs(call, x);
    let zeros = |n: usize| vec![T::ZERO; n];
    let mut context = zeros(x.d_context.len());
    let out = rows_mut(&mut context, d.n_heads, d.d_v);
    let out = engine::forward(call, q, k, v, out, true).unwrap();
    let (mut dq, mut dk, mut dv) = (zeros(x.q.len()), zeros(x.k.len()), zeros(x.v.len()));
    let mut dscore = zeros(call.score.n_params());
    let mut dposition = zeros(call.position.n_params());
    let grads = Gradients {
        arrays: GradArrays::Separate {
            dq: rows_mut(&mut dq, d.n_heads, d.d_k),
            dk: rows_mut(&mut dk, d.n_kv_heads, d.d_k),
            dv: rows_mut(&mut dv, d.n_kv_heads, d.d_v),
        },
        add: true,
        dscore_params: &mut dscore,
        dposition_params: &mut dposition,
    };
    let contexts = rows(&context, d.n_heads, d.d_v);
    let d_context = rows(&x.d_context, d.n_heads, d.d_v);
    let none = Upstream::NONE;
    engine::backward(call, q, k, v, contexts, &out.lse, d_context, none, grads).unwrap();
    let (lse, weights) = (out.lse.to_vec(), out.weights.unwrap().to_vec());
    Results { context, lse, weights, dq, dk, dv, dscore, dposition }
}

fn inputs<'a, T: Real>(
    call: &Call<'_, T>,
    x: &'a Inputs<T>,
) -> (Rows<'a, T>, Rows<'a, T>, Rows<'a, T>) {
    let d = call.dims;
    (rows(&x.q, d.n_heads, d.d_k), rows(&x.k, d.n_kv_heads, d.d_k), rows(&x.v, d.n_kv_heads, d.d_v))
}

/// Magnitudes behind the numbers of a call whose inputs lie within ±1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Magnitudes {
    /// Largest sum of magnitudes behind a score and what position adds to it.
    pub(crate) score: f64,
    /// Largest |∂s/∂q_c| and |∂s/∂k_c|, as the same sums.
    pub(crate) by_row: f64,
    /// Largest |∂s/∂θ|, θ any parameter of the score or of the position.
    pub(crate) by_param: f64,
    /// Largest change of a weight per change of a score, in weights: 1 for a softmax.
    pub(crate) steepness: f64,
}

/// Holds `got` to `want`, which was computed in f64, within bounds that do not look at either.
///
/// With ε the machine epsilon, E the magnitude behind a score, n keys, m queries that share a key, to
/// first order: a score is off by (d_k + 8)·ε·E; its exponential relative to the row's by twice
/// that and n + 4 roundings of the sum; a context by d_v-wide sums of n such. Each is at most
///
/// ```text
/// unit = 8·ε·((d_k + 9)(1 + E) + d_v + n + m)
/// ```
///
/// times the magnitudes that are summed (the 8 holds the largest factor, 4, for both computations):
/// Σ_j a_ij = A_i for a context (values are within ±1), G_ij ≤ 2·d_v·a_ij for ∂L/∂s_ij, and so
/// 2·d_v·A_i·|∂s/∂q| for a query; for keys, values and parameters the same summed over the queries.
pub(crate) fn assert_near<T: Real>(
    call: &Call<'_, f64>,
    got: &Results<T>,
    want: &Results<f64>,
    magnitudes: Magnitudes,
) {
    let d = call.dims;
    let Magnitudes { score, by_row, by_param, steepness } = magnitudes;
    let longest = |len: fn(&Item) -> usize| call.items.iter().map(len).max().unwrap_or(0);
    let group = d.n_heads / d.n_kv_heads;
    let (n, m) = (longest(|item| item.kv_len), longest(|item| item.q_len) * group);
    let terms = (d.d_k as f64 + 9.0) * (1.0 + score) + (d.d_v + n + m) as f64;
    let unit = 8.0 * T::EPSILON.to_f64() * terms * steepness;

    // A_i by query and head; the same sums by key and key head.
    let mut of_query = vec![0.0; call.n_queries() * d.n_heads];
    let mut of_key = vec![0.0; call.kv_rows() * d.n_kv_heads];
    for (item, first) in call.weight_offsets()[..call.items.len()].iter().enumerate() {
        let Item { q_start, q_len, kv_start, kv_len, .. } = call.items[item];
        for head in 0..d.n_heads {
            for i in 0..q_len {
                for j in 0..kv_len {
                    let a = want.weights[first + (head * q_len + i) * kv_len + j].abs();
                    of_query[(q_start + i) * d.n_heads + head] += a;
                    of_key[(kv_start + j) * d.n_kv_heads + d.kv_head(head)] += a;
                }
            }
        }
    }
    let all: f64 = of_query.iter().sum();
    let near = |got: &[T], want: &[f64], magnitude: &dyn Fn(usize) -> f64| {
        let got: Vec<f64> = got.iter().map(|x| x.to_f64()).collect();
        // A weight that is 0 here may be a rounding there.
        assert_close_each(&got, want, |n| Bound::new(unit, 1, magnitude(n) + f64::MIN_POSITIVE));
    };
    let slack = 1.0 / (n.max(1) as f64);
    let by_score = 2.0 * d.d_v as f64;
    near(&got.weights, &want.weights, &|_| 1.0 + steepness);
    near(&got.context, &want.context, &|n| of_query[n / d.d_v] + slack);
    near(&got.dq, &want.dq, &|n| by_row * by_score * (of_query[n / d.d_k] + slack));
    near(&got.dk, &want.dk, &|n| by_row * by_score * (of_key[n / d.d_k] + slack * m as f64));
    near(&got.dv, &want.dv, &|n| of_key[n / d.d_v] + slack * m as f64);
    near(&got.dscore, &want.dscore, &|_| by_param * by_score * all);
    near(&got.dposition, &want.dposition, &|_| by_param * by_score * all);
    let finite = |lse: &&f64| lse.is_finite();
    let largest = want.lse.iter().filter(finite).fold(1.0, |a: f64, b| a.max(b.abs()));
    let lse: Vec<f64> = got.lse.iter().map(|x| x.to_f64()).collect();
    assert_close(&lse, &want.lse, Bound::new(unit, 1, 1.0 + largest));
}
