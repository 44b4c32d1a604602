//! Stacked recurrent layers that start from given states and hand on their last ones.

use regard_tensor::Real;

use crate::ops::{Cell, Direction};
use crate::{Init, NnError, ParamId, ParamSpecs, Ragged, Tape, Var};

/// The parameters of one recurrent cell, of either kind.
#[derive(Debug, Clone)]
pub struct CellParams {
    pub(crate) w_ih: ParamId,
    pub(crate) w_hh: ParamId,
    /// The bias; a GRU's of the input part.
    pub(crate) b: ParamId,
    /// A GRU's bias of the recurrent part.
    pub(crate) b_hh: Option<ParamId>,
}

impl CellParams {
    /// Parameters `w_ih` (Glorot), `w_hh` (orthogonal by gate) and biases (zero but one for a forget
    /// gate).
    pub(crate) fn new(specs: &mut ParamSpecs, cell: Cell, d: usize, hidden: usize) -> Self {
        let rows = cell.gates() * hidden;
        let w_ih = specs.add("w_ih", &[rows, d], Init::Glorot);
        let w_hh = specs.add("w_hh", &[rows, hidden], Init::Orthogonal);
        match cell {
            Cell::Lstm => {
                Self { w_ih, w_hh, b: specs.add("b", &[rows], Init::ForgetGate), b_hh: None }
            }
            Cell::Gru => {
                let zero = Init::Constant(0.0);
                let (b, b_hh) =
                    (specs.add("b_ih", &[rows], zero), specs.add("b_hh", &[rows], zero));
                Self { w_ih, w_hh, b, b_hh: Some(b_hh) }
            }
        }
    }

    /// The states over a packed batch, and the last state of each item.
    pub(crate) fn forward<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        items: &Ragged,
        direction: Direction,
        initial: Option<StateVars>,
    ) -> Result<(Var, StateVars), NnError> {
        let (w_ih, w_hh, b) = (tape.param(self.w_ih), tape.param(self.w_hh), tape.param(self.b));
        let (states, c) = if let Some(b_hh) = self.b_hh {
            let b = (b, tape.param(b_hh));
            let initial = initial.map(|s| s.h);
            (tape.gru_from(x, items, (w_ih, w_hh), b, direction, initial)?, None)
        } else {
            let initial = initial.and_then(|s| Some((s.h, s.c?)));
            let run = tape.lstm_from(x, items, w_ih, w_hh, b, direction, initial)?;
            (run.states, run.last_cells)
        };
        let ends: Vec<u32> = (0..items.items())
            .map(|item| match direction {
                Direction::Forward => items.rows(item).end.saturating_sub(1) as u32,
                Direction::Backward => items.rows(item).start as u32,
            })
            .collect();
        let h = tape.embedding(states, &ends)?;
        Ok((states, StateVars { h, c }))
    }
}

/// The state of one recurrent layer, `[items, hidden]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateVars {
    /// h
    pub h: Var,
    /// c, an LSTM's alone.
    pub c: Option<Var>,
}

/// Recurrent layers on top of each other, each in one direction or in both side by side; dropout on the
/// input of every layer but the first.
#[derive(Debug, Clone)]
pub struct Stack {
    layers: Vec<Vec<CellParams>>,
    dropout: f64,
}

impl Stack {
    /// `d` in, `hidden` out; with `both`, half of it each way.
    ///
    /// # Errors
    /// `both` and an odd width.
    pub fn new(
        specs: &mut ParamSpecs,
        name: &str,
        cell: Cell,
        (d, hidden, layers): (usize, usize, usize),
        both: bool,
        dropout: f64,
    ) -> Result<Self, NnError> {
        if both && !hidden.is_multiple_of(2) {
            let expected = "even where both directions share it".into();
            return Err(NnError::Hyper { name: "hidden", expected, actual: hidden.to_string() });
        }
        let layers = (0..layers).map(|l| {
            let d = if l == 0 { d } else { hidden };
            specs.scope(format!("{name}.{l}"), |specs| {
                if both {
                    ["forward", "backward"]
                        .map(|way| specs.scope(way, |s| CellParams::new(s, cell, d, hidden / 2)))
                        .into()
                } else {
                    vec![CellParams::new(specs, cell, d, hidden)]
                }
            })
        });
        Ok(Self { layers: layers.collect(), dropout })
    }

    /// The parameters of the layers of a stack in one direction.
    pub(crate) fn cells(&self) -> Vec<&CellParams> {
        self.layers.iter().filter_map(|ways| ways.first()).collect()
    }

    /// The states of the top layer `[total, hidden]`, and the last state of every layer. No item may be
    /// empty.
    ///
    /// A stack in both directions takes no initial state and does not look at `direction`.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        x: Var,
        items: &Ragged,
        direction: Direction,
        initial: Option<&[StateVars]>,
    ) -> Result<(Var, Vec<StateVars>), NnError> {
        let mut x = x;
        let mut last = Vec::with_capacity(self.layers.len());
        for (l, ways) in self.layers.iter().enumerate() {
            if l > 0 {
                x = tape.dropout(x, self.dropout)?;
            }
            let initial = initial.and_then(|states| states.get(l).copied());
            if let [there, back] = &ways[..] {
                let (y, s) = there.forward(tape, x, items, Direction::Forward, None)?;
                let (y2, s2) = back.forward(tape, x, items, Direction::Backward, None)?;
                x = tape.concat(&[y, y2])?;
                let c = match (s.c, s2.c) {
                    (Some(c), Some(c2)) => Some(tape.concat(&[c, c2])?),
                    _ => None,
                };
                last.push(StateVars { h: tape.concat(&[s.h, s2.h])?, c });
            } else {
                for cell in ways {
                    let (y, s) = cell.forward(tape, x, items, direction, initial)?;
                    x = y;
                    last.push(s);
                }
            }
        }
        Ok((x, last))
    }
}
