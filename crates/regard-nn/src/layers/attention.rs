//! Multi-head attention with its projections.

use std::sync::Arc;

use regard_attn::call::{At, Item, Span};
use regard_attn::normaliser::Softmax;
use regard_attn::position::{NoPosition, Rotary, RotaryLayout};
use regard_attn::scope::{And, Causal, Full, Window};
use regard_attn::score::{Dot, ScaledDot};
use regard_attn::{AttnError, Coverage, Position, Scope, Score};
use regard_tensor::{Real, Tensor};
use serde::{Deserialize, Serialize};

use super::Linear;
use crate::ops::{Activation, AttentionSpec, AttentionWeights, PositionSpec, ScoreSpec};
use crate::{Init, NnError, ParamId, ParamSpecs, Ragged, Tape, Var};

/// Which score a layer uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreKind {
    /// q·k
    Dot,
    /// q·k/√d_k
    ScaledDot,
    /// v_aᵀ tanh(q + k), with q and k already projected
    Additive,
}

/// Which keys a token may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScopeConfig {
    /// Only itself and tokens before it.
    pub causal: bool,
    /// Only tokens at most (left, right) away.
    pub window: Option<(usize, usize)>,
}

impl ScopeConfig {
    /// Calls `f` with the parts that the configuration stands for.
    fn with<R>(&self, f: impl FnOnce(&dyn Scope) -> R) -> R {
        let causal = Causal::square();
        match (self.causal, self.window) {
            (false, None) => f(&Full),
            (true, None) => f(&causal),
            (false, Some((left, right))) => f(&Window { left, right }),
            (true, Some((left, right))) => f(&And(&[&causal, &Window { left, right }])),
        }
    }
}

impl Scope for ScopeConfig {
    fn name(&self) -> &'static str {
        self.with(|scope| scope.name())
    }
    fn describe(&self) -> String {
        self.with(|scope| scope.describe())
    }
    fn check(&self, items: &[Item]) -> Result<(), AttnError> {
        self.with(|scope| scope.check(items))
    }
    fn allows(&self, at: At, query: usize, key: usize) -> bool {
        self.with(|scope| scope.allows(at, query, key))
    }
    fn tile(&self, at: At, queries: Span, keys: Span) -> Coverage {
        self.with(|scope| scope.tile(at, queries, keys))
    }
    fn keys(&self, at: At, queries: Span) -> Span {
        self.with(|scope| scope.keys(at, queries))
    }
    fn queries(&self, at: At, keys: Span) -> Span {
        self.with(|scope| scope.queries(at, keys))
    }
}

/// Sizes and parts of a self-attention layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionConfig {
    /// Width of the tokens.
    pub d_model: usize,
    /// Number of heads; divides `d_model`.
    pub n_heads: usize,
    /// The score.
    pub score: ScoreKind,
    /// The scope.
    pub scope: ScopeConfig,
    /// Whether q and k are turned by their position, with this base.
    pub rotary: Option<f64>,
    /// Dropout on the weights.
    pub dropout: f64,
}

/// `MultiHead(x) = [c_1; …; c_h] W_oᵀ + b`, c_i the context of head i over q = x W_qᵀ, k, v
/// (Vaswani et al. 2017, §3.2.2).
#[derive(Debug, Clone)]
pub struct MultiHeadAttention {
    config: AttentionConfig,
    /// q, k and v of all heads in one product.
    qkv: Linear,
    output: Option<Linear>,
    v_a: Option<ParamId>,
}

impl MultiHeadAttention {
    /// Parameters `qkv`, `output` (W_o) and, for the additive score, `v_a` `[heads, d_k]`.
    ///
    /// # Errors
    /// `n_heads` does not divide `d_model`, or the head is of odd width under rotary position.
    pub fn new(
        specs: &mut ParamSpecs,
        name: &str,
        config: AttentionConfig,
    ) -> Result<Self, NnError> {
        Self::build(specs, name, config, true)
    }

    /// As [`MultiHeadAttention::new`] without W_o: the contexts themselves are the result.
    ///
    /// # Errors
    /// As [`MultiHeadAttention::new`].
    pub fn without_output(
        specs: &mut ParamSpecs,
        name: &str,
        config: AttentionConfig,
    ) -> Result<Self, NnError> {
        Self::build(specs, name, config, false)
    }

    fn build(
        specs: &mut ParamSpecs,
        name: &str,
        config: AttentionConfig,
        output: bool,
    ) -> Result<Self, NnError> {
        let (d, h) = (config.d_model, config.n_heads);
        if h == 0 || !d.is_multiple_of(h) {
            let expected = format!("a divisor of d_model = {d}");
            return Err(NnError::Hyper { name: "heads", expected, actual: h.to_string() });
        }
        if config.rotary.is_some() && !(d / h).is_multiple_of(2) {
            let expected = "even for rotary position (choose d_model and heads so)".into();
            return Err(NnError::Hyper {
                name: "d_model/heads",
                expected,
                actual: (d / h).to_string(),
            });
        }
        Ok(specs.scope(name, |specs| Self {
            config,
            qkv: Linear::new(specs, "qkv", d, 3 * d),
            output: output.then(|| Linear::new(specs, "output", d, d)),
            v_a: (config.score == ScoreKind::Additive).then(|| {
                let bound = (3.0 / (d / h) as f64).sqrt();
                specs.add("v_a", &[h, d / h], Init::Uniform(bound))
            }),
        }))
    }

    /// The layer's sizes and parts.
    pub fn config(&self) -> &AttentionConfig {
        &self.config
    }

    /// The output, and what attention did where `want_weights`.
    ///
    /// x `[total, d_model]`, result the same.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        items: &Ragged,
        residual: Option<Var>,
        want_weights: bool,
    ) -> Result<(Var, Option<AttentionWeights<T>>), NnError> {
        let config = &self.config;
        let d_k = config.d_model / config.n_heads;
        let qkv = self.qkv.forward(tape, x)?;
        let fixed = |score: Arc<dyn Score<T> + Send + Sync>| ScoreSpec::Fixed(score);
        let score = match (config.score, self.v_a) {
            (ScoreKind::Additive, Some(v_a)) => ScoreSpec::Additive(tape.param(v_a)),
            (ScoreKind::Dot, _) => fixed(Arc::new(Dot)),
            _ => fixed(Arc::new(ScaledDot::new(d_k))),
        };
        let position: Arc<dyn Position<T> + Send + Sync> = match config.rotary {
            Some(base) => {
                Arc::new(Rotary::new(base, RotaryLayout::Half).with_table(d_k, items.longest()))
            }
            None => Arc::new(NoPosition),
        };
        let spec = AttentionSpec {
            n_heads: config.n_heads,
            score,
            normaliser: Arc::new(Softmax),
            scope: Arc::new(config.scope),
            position: PositionSpec::Fixed(position),
            dropout: config.dropout,
        };
        let (context, weights) = tape.self_attention(qkv, items, spec, want_weights)?;
        Ok((self.closed(tape, context, residual)?, weights))
    }

    /// Queries, keys and values `[rows, 3·d_model]`.
    pub(super) fn projected<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
    ) -> Result<Var, NnError> {
        self.qkv.forward(tape, x)
    }

    /// What the layer makes of the contexts.
    pub(super) fn closed<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        context: Var,
        residual: Option<Var>,
    ) -> Result<Var, NnError> {
        match &self.output {
            Some(output) => output.apply(tape, context, Activation::None, residual),
            None => Ok(context),
        }
    }

    /// What attention did in this layer, for looking into it.
    pub fn looked_at<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        weights: AttentionWeights<T>,
    ) -> LayerAttention<T> {
        let v_a = self.v_a.map(|id| tape.param(id)).map(|v| tape.value(v).clone());
        LayerAttention { config: self.config, weights, v_a }
    }
}

/// What one attention layer did, for looking into it.
#[derive(Debug, Clone)]
pub struct LayerAttention<T: Real> {
    /// The layer's sizes and parts.
    pub config: AttentionConfig,
    /// Queries, keys, values, weights and contexts of all heads.
    pub weights: AttentionWeights<T>,
    /// The additive score's v_a `[heads, d_k]`, where there is one.
    pub v_a: Option<Tensor<T>>,
}
