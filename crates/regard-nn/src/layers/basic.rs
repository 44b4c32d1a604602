//! Linear map, layer norm and embedding with their parameters.

use regard_tensor::Real;

use crate::ops::Activation;
use crate::{Init, NnError, ParamId, ParamSpecs, Tape, Var};

/// `y = act(x Wᵀ + b) + r`: see [`Tape::linear`].
#[derive(Debug, Clone)]
pub struct Linear {
    w: ParamId,
    b: Option<ParamId>,
}

impl Linear {
    /// Parameters `weight` `[d_out, d_in]` (Glorot) and `bias` `[d_out]` (zero).
    pub fn new(specs: &mut ParamSpecs, name: &str, d_in: usize, d_out: usize) -> Self {
        specs.scope(name, |specs| Self {
            w: specs.add("weight", &[d_out, d_in], Init::Glorot),
            b: Some(specs.add("bias", &[d_out], Init::Constant(0.0))),
        })
    }

    /// Without bias.
    pub fn without_bias(specs: &mut ParamSpecs, name: &str, d_in: usize, d_out: usize) -> Self {
        let w = specs.scope(name, |specs| specs.add("weight", &[d_out, d_in], Init::Glorot));
        Self { w, b: None }
    }

    /// x Wᵀ + b
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward<T: Real>(&self, tape: &mut Tape<'_, T>, x: Var) -> Result<Var, NnError> {
        self.apply(tape, x, Activation::None, None)
    }

    /// act(x Wᵀ + b) + r
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn apply<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        activation: Activation,
        residual: Option<Var>,
    ) -> Result<Var, NnError> {
        let w = tape.param(self.w);
        let b = self.b.map(|b| tape.param(b));
        tape.linear(x, w, b, activation, residual)
    }
}

/// See [`Tape::layer_norm`].
#[derive(Debug, Clone)]
pub struct LayerNorm {
    gain: ParamId,
    bias: ParamId,
}

impl LayerNorm {
    /// Parameters `gain` (one) and `bias` (zero), `[d]`.
    pub fn new(specs: &mut ParamSpecs, name: &str, d: usize) -> Self {
        specs.scope(name, |specs| Self {
            gain: specs.add("gain", &[d], Init::Constant(1.0)),
            bias: specs.add("bias", &[d], Init::Constant(0.0)),
        })
    }

    /// The normalised rows.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward<T: Real>(&self, tape: &mut Tape<'_, T>, x: Var) -> Result<Var, NnError> {
        let (gain, bias) = (tape.param(self.gain), tape.param(self.bias));
        tape.layer_norm(x, gain, bias)
    }
}

/// A table of vectors: see [`Tape::embedding`].
#[derive(Debug, Clone)]
pub struct Embedding {
    table: ParamId,
}

impl Embedding {
    /// Parameter `table` `[rows, d]`, normal with standard deviation `sd`.
    pub fn new(specs: &mut ParamSpecs, name: &str, rows: usize, d: usize, sd: f64) -> Self {
        let table = specs.scope(name, |specs| specs.add("table", &[rows, d], Init::Normal(sd)));
        Self { table }
    }

    /// The rows of `ids`.
    ///
    /// # Errors
    /// An id outside the table.
    pub fn forward<T: Real>(&self, tape: &mut Tape<'_, T>, ids: &[u32]) -> Result<Var, NnError> {
        let table = tape.param(self.table);
        tape.embedding(table, ids)
    }
}
