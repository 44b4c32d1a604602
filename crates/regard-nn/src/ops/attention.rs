//! Attention as one operator: the engine with its parts.

use std::sync::Arc;

use regard_attn::score::Additive;
use regard_attn::{
    AttnError, Call, Dims, Dropout, Item, Normaliser, Position, Rows, RowsMut, Scope, Score,
    Upstream,
};
use regard_engine::{GradArrays, Gradients, Place};
use regard_tensor::{Real, ShapeError, Tensor};

use crate::{NnError, Ragged, Tape, Var};

/// The score of an attention operator.
#[derive(Clone)]
pub enum ScoreSpec<T: Real> {
    /// A score without trained parameters.
    Fixed(Arc<dyn Score<T> + Send + Sync>),
    /// The additive score with its vector v_a `[heads, d_k]`.
    Additive(Var),
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
    /// What turns queries and keys by their place.
    pub position: Arc<dyn Position<T> + Send + Sync>,
    /// Dropout on the weights, in training.
    pub dropout: f64,
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

/// Everything of a call that outlives the forward pass.
struct Kept<T: Real> {
    spec: AttentionSpec<T>,
    v_a: Option<Tensor<T>>,
    items: Vec<Item>,
    dims: Dims,
    dropout: Option<Dropout>,
}

impl<T: Real> Kept<T> {
    fn call<R>(&self, f: impl FnOnce(&Call<'_, T>) -> R) -> R {
        let additive = Additive { v: self.v_a.as_ref().map_or(&[], |v| v.data()) };
        let score: &dyn Score<T> = match &self.spec.score {
            ScoreSpec::Fixed(score) => &**score,
            ScoreSpec::Additive(_) => &additive,
        };
        f(&Call {
            score,
            normaliser: &*self.spec.normaliser,
            scope: &*self.spec.scope,
            position: &*self.spec.position,
            dropout: self.dropout,
            dims: self.dims,
            items: &self.items,
        })
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
        let qv = self.value(qkv).clone();
        let (total, width) = (qv.rows(), qv.cols());
        let heads = spec.n_heads;
        ShapeError::expect("self_attention", "qkv", &[items.total(), width], qv.shape())?;
        if heads == 0 || !width.is_multiple_of(3 * heads) {
            let expected = format!("[_, 3·heads·d] with {heads} heads");
            return Err(ShapeError::new("self_attention", "qkv", expected, qv.shape()).into());
        }
        let d = width / 3 / heads;
        let dims = Dims { n_heads: heads, n_kv_heads: heads, d_k: d, d_v: d };
        let v_a = match &spec.score {
            ScoreSpec::Additive(v) => Some((*v, self.value(*v).clone())),
            ScoreSpec::Fixed(_) => None,
        };
        if !(0.0..1.0).contains(&spec.dropout) {
            let (expected, actual) = ("in [0, 1)".into(), spec.dropout.to_string());
            return Err(AttnError::Option { option: "dropout", expected, actual }.into());
        }
        let dropout = if spec.dropout > 0.0 { self.next_key() } else { None };
        let dropout = dropout.map(|key| Dropout { rate: spec.dropout, key });
        let kept = Kept {
            spec,
            v_a: v_a.as_ref().map(|(_, v)| v.clone()),
            items: Item::packed(items.lengths()),
            dims,
            dropout,
        };
        let mut context = Tensor::stale(&[total, heads * d]);
        let output = kept.call(|call| {
            let [q, k, v] = parts(&qv, heads, d);
            let rows = RowsMut { data: context.data_mut(), row_stride: heads * d, head_stride: d };
            regard_engine::forward(call, q, k, v, rows, want_weights)
        })?;
        let lse = Tensor::from_slice(&[heads, total], &output.lse)?;
        let look = output.weights.map(|weights| {
            let weights = Tensor::from_slice(&[weights.len()], &weights)?;
            let (qkv, context, lse) = (qv.clone(), context.clone(), lse.clone());
            Ok::<_, NnError>(AttentionWeights { qkv, weights, context, lse })
        });
        let look = look.transpose()?;
        let mut inputs = vec![qkv];
        inputs.extend(v_a.as_ref().map(|(var, _)| *var));
        let saved = context.clone();
        let out = self.record(context, &inputs, move |dy, grads| {
            let mut dparams = vec![T::ZERO; v_a.as_ref().map_or(0, |(_, v)| v.len())];
            let dqkv = grads.sum(qkv);
            let result = kept.call(|call| {
                let [q, k, v] = parts(&qv, heads, d);
                let rows =
                    |t| Rows { data: Tensor::data(t), row_stride: heads * d, head_stride: d };
                let place =
                    |part| Place { offset: part * heads * d, row_stride: width, head_stride: d };
                let arrays =
                    GradArrays::Fused { data: dqkv, dq: place(0), dk: place(1), dv: place(2) };
                let mut dposition = vec![T::ZERO; call.position.n_params()];
                let grads = Gradients {
                    arrays,
                    dscore_params: &mut dparams,
                    dposition_params: &mut dposition,
                };
                regard_engine::backward(
                    call,
                    q,
                    k,
                    v,
                    rows(&saved),
                    lse.data(),
                    rows(dy),
                    Upstream::NONE,
                    grads,
                )
            });
            result.expect("the same call passed its checks in forward");
            if let Some((var, _)) = v_a
                && grads.wants(var)
            {
                grads.sum(var).iter_mut().zip(&dparams).for_each(|(s, g)| *s += *g);
            }
        });
        Ok((out, look))
    }
}

/// The three parts of a fused projection, as rows.
fn parts<T: Real>(qkv: &Tensor<T>, heads: usize, d: usize) -> [Rows<'_, T>; 3] {
    [0, 1, 2].map(|part| Rows {
        data: qkv.data().get(part * heads * d..).unwrap_or(&[]),
        row_stride: 3 * heads * d,
        head_stride: d,
    })
}
