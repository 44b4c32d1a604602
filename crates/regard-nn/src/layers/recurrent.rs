//! LSTM and GRU layers, in one direction or both.

use regard_tensor::Real;

use crate::ops::Direction;
use crate::{Init, NnError, ParamId, ParamSpecs, Ragged, Tape, Var};

#[derive(Debug, Clone)]
struct LstmWeights {
    w_ih: ParamId,
    w_hh: ParamId,
    b: ParamId,
}

/// One LSTM layer: see [`Tape::lstm`].
#[derive(Debug, Clone)]
pub struct Lstm {
    forward: LstmWeights,
    backward: Option<LstmWeights>,
}

impl Lstm {
    /// `d` in, `hidden` out a direction. Input matrices Glorot, recurrent ones orthogonal by gate,
    /// biases zero but one for the forget gate.
    pub fn new(specs: &mut ParamSpecs, name: &str, d: usize, hidden: usize, both: bool) -> Self {
        let weights = |name: &str, specs: &mut ParamSpecs| {
            specs.scope(name, |specs| LstmWeights {
                w_ih: specs.add("w_ih", &[4 * hidden, d], Init::Glorot),
                w_hh: specs.add("w_hh", &[4 * hidden, hidden], Init::Orthogonal),
                b: specs.add("b", &[4 * hidden], Init::ForgetGate),
            })
        };
        specs.scope(name, |specs| Self {
            forward: weights("forward", specs),
            backward: both.then(|| weights("backward", specs)),
        })
    }

    /// Hidden states `[total, hidden]`, or `[total, 2·hidden]` with both directions side by side.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        items: &Ragged,
    ) -> Result<Var, NnError> {
        let (there, back) = self.directions(tape, x, items)?;
        match back {
            Some(back) => tape.concat(&[there, back]),
            None => Ok(there),
        }
    }

    /// The states of the two directions apart.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn directions<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        items: &Ragged,
    ) -> Result<(Var, Option<Var>), NnError> {
        let mut run = |weights: &LstmWeights, direction| {
            let (wi, wh, b) =
                (tape.param(weights.w_ih), tape.param(weights.w_hh), tape.param(weights.b));
            tape.lstm(x, items, wi, wh, b, direction)
        };
        let there = run(&self.forward, Direction::Forward)?;
        let back = self.backward.as_ref().map(|w| run(w, Direction::Backward)).transpose()?;
        Ok((there, back))
    }
}

#[derive(Debug, Clone)]
struct GruWeights {
    w: (ParamId, ParamId),
    b: (ParamId, ParamId),
}

/// One GRU layer: see [`Tape::gru`].
#[derive(Debug, Clone)]
pub struct Gru {
    forward: GruWeights,
    backward: Option<GruWeights>,
}

impl Gru {
    /// `d` in, `hidden` out a direction. Input matrices Glorot, recurrent ones orthogonal by gate,
    /// biases zero.
    pub fn new(specs: &mut ParamSpecs, name: &str, d: usize, hidden: usize, both: bool) -> Self {
        let zero = Init::Constant(0.0);
        let weights = |name: &str, specs: &mut ParamSpecs| {
            specs.scope(name, |specs| GruWeights {
                w: (
                    specs.add("w_ih", &[3 * hidden, d], Init::Glorot),
                    specs.add("w_hh", &[3 * hidden, hidden], Init::Orthogonal),
                ),
                b: (specs.add("b_ih", &[3 * hidden], zero), specs.add("b_hh", &[3 * hidden], zero)),
            })
        };
        specs.scope(name, |specs| Self {
            forward: weights("forward", specs),
            backward: both.then(|| weights("backward", specs)),
        })
    }

    /// Hidden states `[total, hidden]`, or `[total, 2·hidden]` with both directions side by side.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        items: &Ragged,
    ) -> Result<Var, NnError> {
        let (there, back) = self.directions(tape, x, items)?;
        match back {
            Some(back) => tape.concat(&[there, back]),
            None => Ok(there),
        }
    }

    /// The states of the two directions apart.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn directions<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        items: &Ragged,
    ) -> Result<(Var, Option<Var>), NnError> {
        let mut run = |weights: &GruWeights, direction| {
            let w = (tape.param(weights.w.0), tape.param(weights.w.1));
            let b = (tape.param(weights.b.0), tape.param(weights.b.1));
            tape.gru(x, items, w, b, direction)
        };
        let there = run(&self.forward, Direction::Forward)?;
        let back = self.backward.as_ref().map(|w| run(w, Direction::Backward)).transpose()?;
        Ok((there, back))
    }
}
