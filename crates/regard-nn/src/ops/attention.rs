//! Attention as one operator: the engine with its parts.

use std::sync::Arc;

use regard_attn::score::Additive;
use regard_attn::{
    AttnError, Call, Dims, Dropout, Item, Normaliser, Position, Rows, RowsMut, Scope, Score,
    Upstream,
};
use regard_engine::{GradArrays, Gradients, Place};
use regard_tensor::{Real, ShapeError, Tensor};

use super::recurrent::{Handed, take};
use crate::{NnError, Ragged, Tape, Var};

/// Makes a score out of its parameters and hands it to a function.
pub type WithScore<T> = Arc<dyn Fn(&[T], &mut dyn FnMut(&dyn Score<T>)) + Send + Sync>;

/// Makes a position out of its parameters and hands it to a function.
pub type WithPosition<T> = Arc<dyn Fn(&[T], &mut dyn FnMut(&dyn Position<T>)) + Send + Sync>;

/// The score of an attention operator.
#[derive(Clone)]
pub enum ScoreSpec<T: Real> {
    /// A score without trained parameters.
    Fixed(Arc<dyn Score<T> + Send + Sync>),
    /// The additive score with its vector v_a `[heads, d_k]`.
    Additive(Var),
    /// Any other score with trained parameters, `n_params` of them.
    Trained {
        /// The parameters, as the score takes them.
        params: Var,
        /// Makes the score of them.
        with: WithScore<T>,
    },
}

impl<T: Real> ScoreSpec<T> {
    fn params(&self) -> Option<Var> {
        match self {
            Self::Fixed(_) => None,
            Self::Additive(v) => Some(*v),
            Self::Trained { params, .. } => Some(*params),
        }
    }
}

/// The position of an attention operator.
#[derive(Clone)]
pub enum PositionSpec<T: Real> {
    /// A position without trained parameters.
    Fixed(Arc<dyn Position<T> + Send + Sync>),
    /// A position with trained parameters: a relative bias, Shaw's vectors, a Gaussian's centres.
    Trained {
        /// The parameters, as the position takes them.
        params: Var,
        /// Makes the position of them.
        with: WithPosition<T>,
    },
}

impl<T: Real> PositionSpec<T> {
    fn params(&self) -> Option<Var> {
        match self {
            Self::Fixed(_) => None,
            Self::Trained { params, .. } => Some(*params),
        }
    }
}

/// The parts of an attention operator.
#[derive(Clone)]
pub struct AttentionSpec<T: Real> {
    /// Number of heads.
    pub n_heads: usize,
    /// How alike a query and a key are.
    pub score: ScoreSpec<T>,
    /// How a row of scores becomes weights.
    pub normaliser: Arc<dyn Normaliser<T> + Send + Sync>,
    /// Which keys a query may see.
    pub scope: Arc<dyn Scope + Send + Sync>,
    /// What the order adds.
    pub position: PositionSpec<T>,
    /// Dropout on the weights, in training.
    pub dropout: f64,
}

/// Where queries, keys and values lie: heads side by side in each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operands {
    /// One array `[rows, 3·heads·d]`: queries of all heads, then keys, then values, as one projection gives
    /// them for self-attention.
    Fused(Var),
    /// Queries `[q_rows, heads·d]` and one array `[kv_rows, 2·heads·d]` of keys and then values, as one
    /// projection gives them for attention from one sequence to another.
    KeyValue {
        /// The queries.
        q: Var,
        /// The keys and values.
        kv: Var,
    },
    /// Three arrays: queries `[q_rows, heads·d_k]`, keys `[kv_rows, kv_heads·d_k]`, values
    /// `[kv_rows, kv_heads·d_v]`.
    Separate {
        /// The queries.
        q: Var,
        /// The keys.
        k: Var,
        /// The values.
        v: Var,
        /// Heads of keys and values; divides the number of heads.
        kv_heads: usize,
    },
}

/// What [`Tape::attention`] gives.
#[derive(Debug, Clone)]
pub struct Attended<T: Real> {
    /// The contexts `[q_rows, heads·d_v]`; rows of no item are zero.
    pub context: Var,
    /// The weights before dropout, item by item `[heads, q_len, kv_len]` one after another, where they
    /// were asked for. A loss may look at them.
    pub weights: Option<Var>,
    /// The log-sum-exp of each row of scores, `[heads, queries]`.
    pub lse: Tensor<T>,
}

/// What attention did: everything a reader needs to follow it number by number.
#[derive(Debug, Clone)]
pub struct AttentionWeights<T: Real> {
    /// Queries, keys and values before any turn: `[total, 3, heads, d_k]`.
    pub qkv: Tensor<T>,
    /// Weights before dropout, of each item `[heads, len, len]`, one item after another.
    pub weights: Tensor<T>,
    /// Contexts `[total, heads, d_k]`.
    pub context: Tensor<T>,
    /// Log-sum-exp of each row of scores, `[heads, total]`.
    pub lse: Tensor<T>,
}

/// One operand of a call: an array and where its rows lie in it.
#[derive(Clone)]
struct Operand<T: Real> {
    var: Var,
    value: Tensor<T>,
    place: Place,
}

impl<T: Real> Operand<T> {
    fn new(tape: &Tape<'_, T>, var: Var, offset: usize, head: usize) -> Self {
        let value = tape.value(var).clone();
        let row_stride = value.cols();
        Self { var, value, place: Place { offset, row_stride, head_stride: head } }
    }

    fn rows(&self) -> Rows<'_, T> {
        let Place { offset, row_stride, head_stride } = self.place;
        let data = self.value.data().get(offset..).unwrap_or(&[]);
        Rows { data, row_stride, head_stride }
    }
}

/// Everything of a call that outlives the forward pass.
struct Kept<T: Real> {
    spec: AttentionSpec<T>,
    score_params: Option<Tensor<T>>,
    position_params: Option<Tensor<T>>,
    items: Vec<Item>,
    dims: Dims,
    dropout: Option<Dropout>,
}

impl<T: Real> Kept<T> {
    fn call<R>(&self, f: impl FnOnce(&Call<'_, T>) -> R) -> R {
        let of = |params: &Option<Tensor<T>>| params.clone().unwrap_or_else(|| Tensor::zeros(&[0]));
        let (of_score, of_position) = (of(&self.score_params), of(&self.position_params));
        let (mut f, mut result) = (Some(f), None);
        let mut with_both = |score: &dyn Score<T>, position: &dyn Position<T>| {
            if let Some(f) = f.take() {
                result = Some(f(&Call {
                    score,
                    normaliser: &*self.spec.normaliser,
                    scope: &*self.spec.scope,
                    position,
                    dropout: self.dropout,
                    dims: self.dims,
                    items: &self.items,
                }));
            }
        };
        let mut with_score = |score: &dyn Score<T>| match &self.spec.position {
            PositionSpec::Fixed(position) => with_both(score, &**position),
            PositionSpec::Trained { with, .. } => {
                with(of_position.data(), &mut |position| with_both(score, position));
            }
        };
        match &self.spec.score {
            ScoreSpec::Fixed(score) => with_score(&**score),
            ScoreSpec::Additive(_) => with_score(&Additive { v: of_score.data() }),
            ScoreSpec::Trained { with, .. } => with(of_score.data(), &mut with_score),
        }
        result.expect("a part's maker hands the part on")
    }
}

impl<T: Real> Tape<'_, T> {
    /// Self-attention of each item of a packed batch over its own tokens:
    /// `c_i = Σ_j normalise_j(score(q_i, k_j)) v_j` per head.
    ///
    /// qkv `[total, 3·heads·d]`: queries of all heads, then keys, then values, as one projection
    /// gives them; result `[total, heads·d]`. No `[len, len]` array is built unless
    /// `want_weights`. See `regard-engine` for the tiles and [`regard_attn`] for the parts.
    ///
    /// # Errors
    /// Names the argument or option that cannot be served.
    pub fn self_attention(
        &mut self,
        qkv: Var,
        items: &Ragged,
        spec: AttentionSpec<T>,
        want_weights: bool,
    ) -> Result<(Var, Option<AttentionWeights<T>>), NnError> {
        let value = self.value(qkv).clone();
        let width = value.cols();
        ShapeError::expect("self_attention", "qkv", &[items.total(), width], value.shape())?;
        if spec.n_heads == 0 || width == 0 || !width.is_multiple_of(3 * spec.n_heads) {
            let expected = format!("[_, 3·heads·d] with {} heads", spec.n_heads);
            return Err(ShapeError::new("self_attention", "qkv", expected, value.shape()).into());
        }
        let packed = Item::packed(items.lengths());
        let attended = self.attention(Operands::Fused(qkv), &packed, spec, want_weights)?;
        let look = attended.weights.map(|weights| AttentionWeights {
            qkv: value,
            weights: self.value(weights).clone(),
            context: self.value(attended.context).clone(),
            lse: attended.lse,
        });
        Ok((attended.context, look))
    }

    /// Attention of the queries of each item over its keys: `c_i = Σ_j normalise_j(score(q_i, k_j)) v_j` per
    /// head.
    ///
    /// The items say which rows belong together: all of one packed batch to itself, one packed
    /// batch to another, one new query to a cache. In training no two items share rows; in
    /// inference they may share keys. No array of all weights is built unless `want_weights`.
    ///
    /// # Errors
    /// Names the argument or option that cannot be served.
    pub fn attention(
        &mut self,
        operands: Operands,
        items: &[Item],
        spec: AttentionSpec<T>,
        want_weights: bool,
    ) -> Result<Attended<T>, NnError> {
        let (dims, [q, k, v]) = self.operands(operands, spec.n_heads)?;
        if !(0.0..1.0).contains(&spec.dropout) {
            let (expected, actual) = ("in [0, 1)".into(), spec.dropout.to_string());
            return Err(AttnError::Option { option: "dropout", expected, actual }.into());
        }
        let dropout = if spec.dropout > 0.0 { self.next_key() } else { None };
        let (of_score, of_position) = (spec.score.params(), spec.position.params());
        let kept = Kept {
            dropout: dropout.map(|key| Dropout { rate: spec.dropout, key }),
            score_params: of_score.map(|v| self.value(v).clone()),
            position_params: of_position.map(|v| self.value(v).clone()),
            items: items.to_vec(),
            dims,
            spec,
        };
        let width = dims.n_heads * dims.d_v;
        let covered = items.iter().map(|item| item.q_len).sum::<usize>() == q.value.rows();
        let shape = [q.value.rows(), width];
        let mut context = if covered { Tensor::stale(&shape) } else { Tensor::zeros(&shape) };
        let output = kept.call(|call| {
            let data = context.data_mut();
            let rows = RowsMut { data, row_stride: width, head_stride: dims.d_v };
            regard_engine::forward(call, q.rows(), k.rows(), v.rows(), rows, want_weights)
        })?;
        let queries = items.iter().map(|item| item.q_len).sum();
        let lse = Tensor::from_slice(&[dims.n_heads, queries], &output.lse)?;
        let mut inputs = vec![q.var, k.var, v.var];
        inputs.extend(of_score.iter().chain(&of_position));
        let (saved, kept_lse) = (context.clone(), lse.clone());
        let handed = Handed::default();
        let of_weights = Handed::clone(&handed);
        let context = self.record(context, &inputs, move |dy, grads| {
            let mut d_score = vec![T::ZERO; kept.score_params.as_ref().map_or(0, Tensor::len)];
            let mut d_position =
                vec![T::ZERO; kept.position_params.as_ref().map_or(0, Tensor::len)];
            // One array a variable: operands of the same one lie side by side in it. Zeros where rows may belong to
            // no item or columns to no operand; what is written whole needs none.
            let fused = matches!(operands, Operands::Fused(_));
            let separate = matches!(operands, Operands::Separate { .. });
            let (of_q, of_k, of_v) =
                (dims.n_heads * dims.d_k, dims.n_kv_heads * dims.d_k, dims.n_kv_heads * dims.d_v);
            let array = |of: &Operand<T>, rows: usize, columns: usize| {
                let whole = of.value.rows() == rows && of.value.cols() == columns;
                if whole {
                    Tensor::stale(of.value.shape())
                } else {
                    Tensor::zeros(of.value.shape())
                }
            };
            let q_rows: usize = kept.items.iter().map(|item| item.q_len).sum();
            let k_rows: usize = kept.items.iter().map(|item| item.kv_len).sum();
            let nothing = || Tensor::zeros(&[0]);
            let (mut dq, mut dk, mut dv) = if fused {
                // Rows of queries and of keys are the same ones.
                let rows = if q_rows == k_rows { q_rows } else { usize::MAX };
                (array(&q, rows, of_q + of_k + of_v), nothing(), nothing())
            } else if separate {
                (array(&q, q_rows, of_q), array(&k, k_rows, of_k), array(&v, k_rows, of_v))
            } else {
                (array(&q, q_rows, of_q), array(&k, k_rows, of_k + of_v), nothing())
            };
            let whole = |t, place: Place| {
                let Place { row_stride, head_stride, .. } = place;
                RowsMut { data: Tensor::data_mut(t), row_stride, head_stride }
            };
            let arrays = if fused {
                let data = dq.data_mut();
                GradArrays::Fused { data, dq: q.place, dk: k.place, dv: v.place }
            } else if !separate {
                let dq = whole(&mut dq, q.place);
                GradArrays::KeyValue { dq, data: dk.data_mut(), dk: k.place, dv: v.place }
            } else {
                let (dq, dk) = (whole(&mut dq, q.place), whole(&mut dk, k.place));
                GradArrays::Separate { dq, dk, dv: whole(&mut dv, v.place) }
            };
            let d_weights = take(&of_weights);
            let upstream = match &d_weights {
                Some(d) => Upstream::weights(d.data()),
                None => Upstream::NONE,
            };
            let result = kept.call(|call| {
                let rows =
                    |t| Rows { data: Tensor::data(t), row_stride: width, head_stride: dims.d_v };
                let grads = Gradients {
                    arrays,
                    add: false,
                    dscore_params: &mut d_score,
                    dposition_params: &mut d_position,
                };
                regard_engine::backward(
                    call,
                    q.rows(),
                    k.rows(),
                    v.rows(),
                    rows(&saved),
                    kept_lse.data(),
                    rows(dy),
                    upstream,
                    grads,
                )
            });
            result.expect("the same call passed its checks in forward");
            grads.add(q.var, dq);
            if !fused {
                grads.add(k.var, dk);
            }
            if separate {
                grads.add(v.var, dv);
            }
            for (var, d) in [(of_score, d_score), (of_position, d_position)] {
                if let Some(var) = var
                    && grads.wants(var)
                {
                    grads.sum(var).iter_mut().zip(&d).for_each(|(s, g)| *s += *g);
                }
            }
        });
        let weights = match output.weights {
            Some(weights) => {
                let weights = Tensor::from_slice(&[weights.len()], &weights)?;
                Some(self.second_output(weights, context, &handed))
            }
            None => None,
        };
        Ok(Attended { context, weights, lse })
    }

    /// The sizes of a call, and its queries, keys and values.
    fn operands(
        &self,
        operands: Operands,
        heads: usize,
    ) -> Result<(Dims, [Operand<T>; 3]), NnError> {
        let width = |argument, var: Var, parts: usize| {
            let shape = self.shape(var);
            let width = self.value(var).cols();
            if parts == 0 || width == 0 || !width.is_multiple_of(parts) {
                let expected = format!("[_, a multiple of {parts}]");
                return Err(ShapeError::new("attention", argument, expected, shape));
            }
            Ok(width / parts)
        };
        let at = |var, offset, head| Operand::new(self, var, offset, head);
        let alike = |d, n_kv_heads| Dims { n_heads: heads, n_kv_heads, d_k: d, d_v: d };
        Ok(match operands {
            Operands::Fused(qkv) => {
                let d = width("qkv", qkv, 3 * heads)?;
                (alike(d, heads), [0, 1, 2].map(|part| at(qkv, part * heads * d, d)))
            }
            Operands::KeyValue { q, kv } => {
                let d = width("q", q, heads)?;
                let wide = 2 * heads * d;
                ShapeError::expect(
                    "attention",
                    "kv",
                    &[self.value(kv).rows(), wide],
                    &self.shape(kv),
                )?;
                (alike(d, heads), [at(q, 0, d), at(kv, 0, d), at(kv, heads * d, d)])
            }
            Operands::Separate { q, k, v, kv_heads } => {
                let d_k = width("q", q, heads)?;
                let rows = self.value(k).rows();
                ShapeError::expect("attention", "k", &[rows, kv_heads * d_k], &self.shape(k))?;
                let d_v = width("v", v, kv_heads)?;
                let dims = Dims { n_heads: heads, n_kv_heads: kv_heads, d_k, d_v };
                (dims, [at(q, 0, d_k), at(k, 0, d_k), at(v, 0, d_v)])
            }
        })
    }
}
