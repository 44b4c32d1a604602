//! One attention problem with everything drawn from a seed, given to the engine and to the reference.

#![allow(dead_code, reason = "every test binary uses a part of it")]

pub(crate) mod bound;
pub(crate) mod strategy;

use regard_attn::normaliser::{Normaliser, Softmax};
use regard_attn::position::{NoPosition, Position, Rotary, RotaryLayout};
use regard_attn::reference::{self, Reference};
use regard_attn::scope::{Alignment, And, Causal, Full, Lengths, Scope, Window};
use regard_attn::score::{Additive, Dot, ScaledDot, Score};
use regard_attn::{At, Call, Dims, Dropout, Item, Rows, RowsMut};
use regard_engine::{GradArrays, Gradients};
use regard_tensor::Real;
use regard_testkit::random_vec_f32;

/// Which score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Dot,
    ScaledDot,
    Additive,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::Dot, Kind::ScaledDot, Kind::Additive];

/// Which normaliser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weighing {
    Softmax,
    /// The softmax, but by whole rows.
    WholeSoftmax,
    /// a = s / 4: rows do not sum to one, and weights may be negative.
    Quarter,
}

pub(crate) const NORMALISERS: [Weighing; 3] =
    [Weighing::Softmax, Weighing::WholeSoftmax, Weighing::Quarter];

#[derive(Debug)]
struct WholeSoftmax;

impl<T: Real> Normaliser<T> for WholeSoftmax {
    fn name(&self) -> &'static str {
        "softmax by whole rows"
    }
    fn rows_sum_to_one(&self) -> bool {
        true
    }
    fn row(&self, row: &mut [T]) -> T {
        Softmax.row(row)
    }
    fn row_backward(&self, weights: &[T], dweights: &mut [T]) {
        Softmax.row_backward(weights, dweights);
    }
}

#[derive(Debug)]
struct Quarter;

impl<T: Real> Normaliser<T> for Quarter {
    fn name(&self) -> &'static str {
        "quarter"
    }
    fn rows_sum_to_one(&self) -> bool {
        false
    }
    fn row(&self, row: &mut [T]) -> T {
        let nothing = row.iter().all(|s| *s == T::NEG_INFINITY);
        for s in row {
            *s = if *s == T::NEG_INFINITY { T::ZERO } else { *s * T::from_f64(0.25) };
        }
        if nothing { T::NEG_INFINITY } else { T::ZERO }
    }
    /// What it leaves at forbidden pairs is junk, which no one may look at.
    fn row_backward(&self, weights: &[T], dweights: &mut [T]) {
        for (a, d) in weights.iter().zip(dweights) {
            *d *= T::from_f64(if *a == T::ZERO { f64::NAN } else { 0.25 });
        }
    }
}

/// A scope that gives no hints, so that every tile is visited and partial.
#[derive(Debug)]
struct WithoutHints<'a>(&'a dyn Scope);

impl Scope for WithoutHints<'_> {
    fn name(&self) -> &'static str {
        "without hints"
    }
    fn allows(&self, at: At, query: usize, key: usize) -> bool {
        self.0.allows(at, query, key)
    }
}

/// Which keys are allowed: all conditions together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowed {
    pub(crate) without_hints: bool,
    pub(crate) lengths: Option<Vec<usize>>,
    pub(crate) causal: Option<Alignment>,
    pub(crate) window: Option<Window>,
}

/// A call with its arrays, dense: `[rows, heads, width]`.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    pub(crate) normaliser: Weighing,
    pub(crate) allowed: Allowed,
    pub(crate) rotary: bool,
    pub(crate) dropout: Option<Dropout>,
    pub(crate) dims: Dims,
    pub(crate) items: Vec<Item>,
    pub(crate) q: Vec<f64>,
    pub(crate) k: Vec<f64>,
    pub(crate) v: Vec<f64>,
    pub(crate) d_context: Vec<f64>,
    pub(crate) d_weights: Option<Vec<f64>>,
    /// The additive score's vectors; empty for the others.
    pub(crate) params: Vec<f64>,
}

/// Everything that comes out, dense, in f64. Contexts are numbered as the queries.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) context: Vec<f64>,
    pub(crate) lse: Vec<f64>,
    pub(crate) weights: Vec<f64>,
    pub(crate) dq: Vec<f64>,
    pub(crate) dk: Vec<f64>,
    pub(crate) dv: Vec<f64>,
    pub(crate) dparams: Vec<f64>,
}

impl Outcome {
    pub(crate) fn arrays(&self) -> [(&'static str, &[f64]); 7] {
        [
            ("context", &self.context),
            ("lse", &self.lse),
            ("weights", &self.weights),
            ("dq", &self.dq),
            ("dk", &self.dk),
            ("dv", &self.dv),
            ("dparams", &self.dparams),
        ]
    }
}

/// Equal to the last bit (+0 equals −0), NaN nowhere.
#[track_caller]
pub(crate) fn assert_same(got: &Outcome, want: &Outcome, what: &str) {
    for ((name, got), (_, want)) in got.arrays().iter().zip(want.arrays()) {
        assert!(
            got.iter().zip(want).all(|(a, b)| a == b) && got.len() == want.len(),
            "{what}: {name}"
        );
    }
}

/// Row `row` of `head` in `[rows, heads, width]`.
pub(crate) fn at(row: usize, head: usize, heads: usize, width: usize) -> std::ops::Range<usize> {
    (row * heads + head) * width..(row * heads + head + 1) * width
}

/// `n` numbers that f32 holds exactly, so that both precisions see the same inputs.
pub(crate) fn numbers(seed: u64, n: usize) -> Vec<f64> {
    random_vec_f32(seed, n).into_iter().map(f64::from).collect()
}

fn cast<T: Real>(x: &[f64]) -> Vec<T> {
    x.iter().map(|x| T::from_f64(*x)).collect()
}

fn widen<T: Real>(x: &[T]) -> Vec<f64> {
    x.iter().map(|x| x.to_f64()).collect()
}

pub(crate) fn rows<T>(data: &[T], heads: usize, width: usize) -> Rows<'_, T> {
    Rows { data, row_stride: heads * width, head_stride: width }
}

pub(crate) fn rows_mut<T>(data: &mut [T], heads: usize, width: usize) -> RowsMut<'_, T> {
    RowsMut { data, row_stride: heads * width, head_stride: width }
}

impl Problem {
    /// Plain softmax attention by the score `kind`, with d_k = 5 and d_v = 3.
    pub(crate) fn new(kind: Kind, n_heads: usize, n_kv_heads: usize, items: Vec<Item>) -> Self {
        let dims = Dims { n_heads, n_kv_heads, d_k: 5, d_v: 3 };
        Self::with_dims(kind, dims, items)
    }

    pub(crate) fn with_dims(kind: Kind, dims: Dims, items: Vec<Item>) -> Self {
        let end = |start, len| if len == 0 { 0 } else { start + len };
        let q_rows = items.iter().map(|i| end(i.q_start, i.q_len)).max().unwrap_or(0);
        let kv_rows = items.iter().map(|i| end(i.kv_start, i.kv_len)).max().unwrap_or(0);
        let Dims { n_heads, n_kv_heads, d_k, d_v } = dims;
        let params = if kind == Kind::Additive { numbers(5, n_heads * d_k) } else { Vec::new() };
        Self {
            kind,
            normaliser: Weighing::Softmax,
            allowed: Allowed::default(),
            rotary: false,
            dropout: None,
            dims,
            items,
            q: numbers(1, q_rows * n_heads * d_k),
            k: numbers(2, kv_rows * n_kv_heads * d_k),
            v: numbers(3, kv_rows * n_kv_heads * d_v),
            d_context: numbers(4, q_rows * n_heads * d_v),
            d_weights: None,
            params,
        }
    }

    /// Items of these (q_len, kv_len), one behind the other.
    pub(crate) fn packed(lengths: &[(usize, usize)]) -> Vec<Item> {
        let (mut q_start, mut kv_start) = (0, 0);
        let item = |&(q_len, kv_len): &(usize, usize)| {
            let item = Item { q_start, q_len, kv_start, kv_len, q_offset: 0 };
            q_start += q_len;
            kv_start += kv_len;
            item
        };
        lengths.iter().map(item).collect()
    }

    pub(crate) fn n_weights(&self) -> usize {
        self.items.iter().map(|i| self.dims.n_heads * i.q_len * i.kv_len).sum()
    }

    /// Lets the loss look at the weights, too.
    pub(crate) fn watch_weights(&mut self) {
        self.d_weights = Some(numbers(6, self.n_weights()));
    }

    /// Calls `f` with the call that the problem describes.
    pub(crate) fn with_call<T: Real, R>(&self, f: impl FnOnce(&Call<'_, T>) -> R) -> R {
        let v = cast::<T>(&self.params);
        let (scaled, additive) = (ScaledDot::new(self.dims.d_k), Additive { v: &v });
        let score: &dyn Score<T> = match self.kind {
            Kind::Dot => &Dot,
            Kind::ScaledDot => &scaled,
            Kind::Additive => &additive,
        };
        let normaliser: &dyn Normaliser<T> = match self.normaliser {
            Weighing::Softmax => &Softmax,
            Weighing::WholeSoftmax => &WholeSoftmax,
            Weighing::Quarter => &Quarter,
        };
        let lengths = self.allowed.lengths.as_ref().map(|kv| Lengths { kv });
        let causal = self.allowed.causal.map(|alignment| Causal { alignment });
        let members = [
            lengths.as_ref().map(|scope| -> &dyn Scope { scope }),
            causal.as_ref().map(|scope| -> &dyn Scope { scope }),
            self.allowed.window.as_ref().map(|scope| -> &dyn Scope { scope }),
        ];
        let members: Vec<&dyn Scope> = members.into_iter().flatten().collect();
        let and = And(&members);
        let scope: &dyn Scope = match members[..] {
            [] => &Full,
            [one] => one,
            _ => &and,
        };
        let without_hints = WithoutHints(scope);
        let scope = if self.allowed.without_hints { &without_hints } else { scope };
        let rotary = Rotary::new(100.0, RotaryLayout::Half);
        let position: &dyn Position<T> = if self.rotary { &rotary } else { &NoPosition };
        let (dropout, dims, items) = (self.dropout, self.dims, &self.items[..]);
        f(&Call { score, normaliser, scope, position, dropout, dims, items })
    }

    /// The indices of forbidden pairs among the weights.
    pub(crate) fn forbidden(&self) -> Vec<usize> {
        let (mut n, mut forbidden) = (0, Vec::new());
        self.with_call::<f64, _>(|call| {
            for item in 0..call.items.len() {
                for head in 0..call.dims.n_heads {
                    let at = call.at(item, head);
                    for i in 0..at.q_len {
                        let hidden = (0..at.kv_len).filter(|j| !call.scope.allows(at, i, *j));
                        forbidden.extend(hidden.map(|j| n + j));
                        n += at.kv_len;
                    }
                }
            }
        });
        forbidden
    }

    /// What the engine computes in the precision `T`.
    pub(crate) fn engine<T: Real>(&self) -> Outcome {
        let Dims { n_heads, n_kv_heads, d_k, d_v } = self.dims;
        let (q, k, v) = (cast::<T>(&self.q), cast::<T>(&self.k), cast::<T>(&self.v));
        let d_context = cast::<T>(&self.d_context);
        let d_weights = self.d_weights.as_deref().map(cast::<T>);
        let (q_in, k_in) = (rows(&q, n_heads, d_k), rows(&k, n_kv_heads, d_k));
        let v_in = rows(&v, n_kv_heads, d_v);
        let mut context = vec![T::ZERO; d_context.len()];
        let (mut dq, mut dk) = (vec![T::ZERO; q.len()], vec![T::ZERO; k.len()]);
        let (mut dv, mut dparams) = (vec![T::ZERO; v.len()], vec![T::ZERO; self.params.len()]);
        let out = self.with_call(|call| {
            let c = rows_mut(&mut context, n_heads, d_v);
            let out = regard_engine::forward(call, q_in, k_in, v_in, c, true).unwrap();
            let arrays = GradArrays::Separate {
                dq: rows_mut(&mut dq, n_heads, d_k),
                dk: rows_mut(&mut dk, n_kv_heads, d_k),
                dv: rows_mut(&mut dv, n_kv_heads, d_v),
            };
            let grads =
                Gradients { arrays, dscore_params: &mut dparams, dposition_params: &mut [] };
            let (c, dc) = (rows(&context, n_heads, d_v), rows(&d_context, n_heads, d_v));
            let given = d_weights.as_deref();
            regard_engine::backward(call, q_in, k_in, v_in, c, &out.lse, dc, given.into(), grads)
                .unwrap();
            out
        });
        Outcome {
            context: widen(&context),
            lse: widen(&out.lse),
            weights: widen(&out.weights.unwrap()),
            dq: widen(&dq),
            dk: widen(&dk),
            dv: widen(&dv),
            dparams: widen(&dparams),
        }
    }

    /// What the reference computes in f64, and its forward pass as it is.
    pub(crate) fn reference(&self) -> (Outcome, Reference<f64>) {
        let Dims { n_heads, n_kv_heads, d_k, d_v } = self.dims;
        let (q, k) = (rows(&self.q, n_heads, d_k), rows(&self.k, n_kv_heads, d_k));
        let v = rows(&self.v, n_kv_heads, d_v);
        self.with_call(|call| {
            let out = reference::forward(call, q, k, v).unwrap();
            // The reference numbers contexts query by query, the engine as the rows of q.
            let width = n_heads * d_v;
            let mut context = vec![0.0; self.d_context.len()];
            let mut d_context = vec![0.0; out.context.len()];
            for (item, first) in self.items.iter().zip(call.query_offsets()) {
                for i in 0..item.q_len {
                    let (row, query) = ((item.q_start + i) * width, (first + i) * width);
                    context[row..row + width].copy_from_slice(&out.context[query..query + width]);
                    d_context[query..query + width]
                        .copy_from_slice(&self.d_context[row..row + width]);
                }
            }
            let given = self.d_weights.as_deref();
            let grads = reference::backward(call, q, k, v, &d_context, given.into()).unwrap();
            let outcome = Outcome {
                context,
                lse: out.lse.clone(),
                weights: out.weights.clone(),
                dq: grads.dq,
                dk: grads.dk,
                dv: grads.dv,
                dparams: grads.dscore_params,
            };
            (outcome, out)
        })
    }
}
