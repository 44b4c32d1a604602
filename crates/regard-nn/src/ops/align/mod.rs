//! The attention of recurrent decoders over annotations: written once, for one time or for all.
//!
//! ```text
//! q_i = W_q h_i                                    the query of a decoder state
//! s_ij = q_i·k_j  |  v_aᵀ tanh(q_i + k_j)          keys: projected annotations, or learned vectors of places
//! a_i = normalise over j in scope(i) of s_ij       all  |  |j − t| ≤ D  |  |j − ⌊p_i⌋| ≤ D
//! a_ij ← a_ij exp(−(j − p_i)²/2σ²), σ = D/2        under a predicted centre p_i = (S − 1) σ(v_pᵀ tanh(W_p h_i))
//! c_i = Σ_j a_ij h̄_j
//! ```
//!
//! Scores, scopes, normalisers and the Gaussian are the parts of [`regard_attn`]. The weights are not
//! normalised again after the Gaussian. [`Tape::align`] takes the states of all times at once;
//! [`Tape::attentive_decoder`](crate::Tape::attentive_decoder) runs the same code one time after another.
//! Sources: Bahdanau et al. 2015; Luong et al. 2015, §3, with p in positions from 0, as the paper's code
//! has it ((S − 1) σ(·) + 1 from 1).

mod backward;
mod conv;
mod kernel;

use std::sync::Arc;

use regard_attn::Normaliser;
use regard_tensor::kernels::matmul::{Mat, MatMut, matmul};
use regard_tensor::{Real, ShapeError, Tensor};

pub(crate) use kernel::{Arrays, Before, Kept, Sums};

use crate::{Grads, NnError, Ragged, Tape, Var};

/// Which annotations a decoder state may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlignScope {
    /// All.
    Global,
    /// Those at most `radius` from the place t, or from the source's last one where t is behind it.
    LocalM {
        /// D
        radius: usize,
    },
    /// Those at most `radius` from a predicted place, weighted by a Gaussian.
    LocalP {
        /// D, at least 1
        radius: usize,
        /// W_p `[d_p, d_q]`
        w_p: Var,
        /// v_p `[d_p]`
        v_p: Var,
    },
}

impl AlignScope {
    /// D, under a local scope.
    pub fn radius(&self) -> Option<usize> {
        match self {
            Self::Global => None,
            Self::LocalM { radius } | Self::LocalP { radius, .. } => Some(*radius),
        }
    }

    /// The σ of the Gaussian, where there is one.
    pub fn sigma(&self) -> Option<f64> {
        match self {
            Self::LocalP { radius, .. } => Some(*radius as f64 / 2.0),
            _ => None,
        }
    }
}

/// The annotations that a decoder looks at, and the parts of its attention:
///
/// ```text
/// q_i = W_q h_i        s_ij = q_i·k_j or v_aᵀ tanh(q_i + k_j)        a_i = normalise over j in scope(i) of s_ij
/// p_i = (S − 1) σ(v_pᵀ tanh(W_p h_i))        a_ij ← a_ij exp(−(j − p_i)²/2σ²)        c_i = Σ_j a_ij h̄_j
/// ```
#[derive(Debug, Clone)]
pub struct AlignSpec<T: Real> {
    /// The annotations of each item.
    pub sources: Ragged,
    /// Keys `[annotations, d_k]`; or a table `[places, d_k]` where `own_keys`.
    pub keys: Var,
    /// Whether the keys are learned vectors of places, whatever stands there (Luong's location score).
    pub own_keys: bool,
    /// Values `[annotations, d_v]`: the annotations.
    pub values: Var,
    /// W_q `[d_k, d_q]`; without it the states themselves are the queries.
    pub query: Option<Var>,
    /// v_a `[d_k]` of the additive score; without it the score is the product.
    pub v_a: Option<Var>,
    /// The scope.
    pub scope: AlignScope,
    /// F `[filters, 2·radius + 1]` and U `[d_k, filters]` of a location-aware score; under the global scope
    /// alone.
    pub location: Option<(Var, Var)>,
    /// How scores become weights.
    pub normaliser: Arc<dyn Normaliser<T> + Send + Sync>,
}

/// What [`Tape::align`] gives.
#[derive(Debug, Clone)]
pub struct Aligned<T: Real> {
    /// The contexts `[states, d_v]`.
    pub context: Var,
    /// What each state looked at, where asked for.
    pub seen: Option<Seen<T>>,
}

/// What each state of a decoder looked at, in the order of the states.
#[derive(Debug, Clone)]
pub struct Seen<T: Real> {
    /// The weights over the whole source.
    pub weights: Vec<Vec<T>>,
    /// The centre of each window, under a local scope.
    pub centres: Option<Vec<T>>,
}

impl<T: Real> AlignSpec<T> {
    /// Every array of the attention with a gradient.
    pub(crate) fn vars(&self) -> Vec<Var> {
        let mut all = vec![self.keys, self.values];
        all.extend(self.query.iter().chain(&self.v_a));
        if let AlignScope::LocalP { w_p, v_p, .. } = self.scope {
            all.extend([w_p, v_p]);
        }
        all.extend(self.location.iter().flat_map(|(f, u)| [*f, *u]));
        all
    }

    /// Checks the shapes for states `d_q` wide, each of which looks at the source of this index.
    pub(crate) fn check(
        &self,
        tape: &Tape<'_, T>,
        d_q: usize,
        of_item: &[usize],
    ) -> Result<(), NnError> {
        let shape = |var| tape.shape(var);
        let (keys, values) = (shape(self.keys), shape(self.values));
        let (d_k, d_v) = (tape.value(self.keys).cols(), tape.value(self.values).cols());
        for (argument, size) in [("keys", d_k), ("values", d_v)] {
            if size == 0 {
                return Err(ShapeError::new("align", argument, "at least 1 wide", 0).into());
            }
        }
        ShapeError::expect("align", "values", &[self.sources.total(), d_v], &values)?;
        if self.own_keys {
            let (places, longest) = (keys[0], self.sources.longest());
            ShapeError::expect("align", "keys", &[places, d_k], &keys)?;
            if longest > places {
                let expected = format!("at most the {places} places of the location score");
                return Err(ShapeError::new("align", "source length", expected, longest).into());
            }
        } else {
            ShapeError::expect("align", "keys", &[self.sources.total(), d_k], &keys)?;
        }
        match self.query {
            Some(w) => ShapeError::expect("align", "query", &[d_k, d_q], &shape(w))?,
            None => ShapeError::expect("align", "states", &[d_k], &[d_q])?,
        }
        if let Some(v) = self.v_a {
            ShapeError::expect("align", "v_a", &[d_k], &shape(v))?;
        }
        if let AlignScope::LocalP { radius, w_p, v_p } = self.scope {
            let d_p = tape.value(v_p).len();
            ShapeError::expect("align", "v_p", &[d_p], &shape(v_p))?;
            ShapeError::expect("align", "w_p", &[d_p, d_q], &shape(w_p))?;
            if radius == 0 || d_p == 0 {
                let expected = "at least 1, and so the width of v_p";
                return Err(ShapeError::new("align", "radius", expected, radius).into());
            }
        }
        if let Some((filters, project)) = self.location {
            let (f, u) = (shape(filters), shape(project));
            let r = u.last().copied().unwrap_or(0);
            ShapeError::expect("align", "project", &[d_k, r], &u)?;
            if f.len() != 2 || f[0] != r || r == 0 || f[1].is_multiple_of(2) {
                let expected = format!("[{r}, an odd width]");
                return Err(ShapeError::new("align", "filters", expected, f).into());
            }
            if self.scope != AlignScope::Global || self.own_keys {
                let expected = "the global scope over keys of annotations";
                return Err(
                    ShapeError::new("align", "a location-aware score", expected, "other").into()
                );
            }
        }
        let items = self.sources.items();
        if let Some(at) = of_item.iter().position(|item| *item >= items) {
            let (operation, what, index) = ("align", "source", of_item[at]);
            return Err(NnError::Index { operation, what, index, at, limit: items });
        }
        if tape.records() {
            let mut sorted = of_item.to_vec();
            sorted.sort_unstable();
            if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
                let expected = "different items, while gradients are recorded";
                return Err(ShapeError::new("align", "sources", expected, "one twice").into());
            }
        }
        Ok(())
    }
}

/// Adds what backward summed up to the gradients; `states` `[rows, d_q]` in the order of the rows.
pub(crate) fn add_sums<T: Real>(
    arrays: &Arrays<T>,
    sums: Sums<T>,
    kept: &Kept<T>,
    states: &Tensor<T>,
    grads: &mut Grads<'_, T>,
) {
    let spec = &arrays.spec;
    let (n, d_q) = (states.rows(), states.cols());
    let mut product = |var: Var, dz: &Tensor<T>| {
        if grads.wants(var) {
            let d = dz.cols();
            let (dw, keep) = grads.slot(var);
            let (dz, h) = (Mat::new(dz.data(), n, d), Mat::new(states.data(), n, d_q));
            matmul(MatMut::new(dw, d, d_q), keep, 1.0, dz.t(), h);
        }
    };
    if let Some(w) = spec.query {
        product(w, &sums.q);
    }
    if let AlignScope::LocalP { w_p, v_p, .. } = spec.scope {
        product(w_p, &sums.hidden);
        if grads.wants(v_p) {
            let dv = grads.sum(v_p);
            for (du, m) in sums.centre.iter().zip(kept.hidden.data().chunks_exact(dv.len())) {
                dv.iter_mut().zip(m).for_each(|(dv, m)| *dv += *du * *m);
            }
        }
    }
    let mut sum = |var: Var, d: &[T]| {
        if grads.wants(var) {
            grads.sum(var).iter_mut().zip(d).for_each(|(s, g)| *s += *g);
        }
    };
    if let Some(v) = spec.v_a {
        sum(v, &sums.v_a);
    }
    if let Some((filters, project)) = spec.location {
        sum(filters, &sums.filters);
        sum(project, &sums.project);
    }
    grads.add(spec.keys, sums.keys);
    grads.add(spec.values, sums.values);
}

/// What rows looked at, in this order.
pub(crate) fn seen<T: Real>(
    arrays: &Arrays<T>,
    kept: &Kept<T>,
    order: impl Iterator<Item = usize> + Clone,
) -> Seen<T> {
    let weights = order.clone().map(|row| arrays.weights(kept, row)).collect();
    let local = arrays.spec.scope.radius().is_some();
    let centres = local.then(|| order.map(|row| kept.centres[row]).collect());
    Seen { weights, centres }
}

impl<T: Real> Tape<'_, T> {
    /// The contexts of decoder states that do not depend on each other's, by the formulas of
    /// [`AlignSpec`].
    ///
    /// states `[total, d_q]`, packed as `items` says; item b looks at source `of_item[b]`, and its state i
    /// stands at time `first + i`. Time and memory follow the scope: O(states · (2D + 1)) under a local one.
    ///
    /// # Errors
    /// Names the argument whose shape does not fit; a location-aware score needs the weights of the time
    /// before and so the decoder's operator.
    pub fn align(
        &mut self,
        states: Var,
        items: &Ragged,
        of_item: &[usize],
        first: usize,
        spec: AlignSpec<T>,
        want_seen: bool,
    ) -> Result<Aligned<T>, NnError> {
        let hv = self.value(states).clone();
        let (total, d_q) = (items.total(), hv.cols());
        ShapeError::expect("align", "states", &[total, d_q], hv.shape())?;
        ShapeError::expect("align", "sources of items", &[items.items()], &[of_item.len()])?;
        spec.check(self, d_q, of_item)?;
        if spec.location.is_some() {
            let expected = "one that does not look at the weights before";
            return Err(ShapeError::new("align", "score", expected, "location-aware").into());
        }
        let mut inputs = spec.vars();
        inputs.push(states);
        let arrays = Arrays::new(self, spec);
        let places = items
            .lengths()
            .iter()
            .zip(of_item)
            .flat_map(|(len, source)| (0..*len).map(|t| (*source, first + t)))
            .collect();
        let mut kept = arrays.kept(places);
        let mut context = Tensor::stale(&[total, arrays.d_v()]);
        arrays.forward(&mut kept, 0..total, hv.data(), context.data_mut(), Before::Nothing);
        let seen = want_seen.then(|| seen(&arrays, &kept, 0..total));
        let context = self.record(context, &inputs, move |dy, grads| {
            let mut sums = arrays.sums(&kept);
            let mut dh = Tensor::zeros(hv.shape());
            let d_states = dh.data_mut();
            arrays.backward(&kept, 0..total, dy.data(), d_states, &mut sums, Before::Nothing);
            grads.add(states, dh);
            add_sums(&arrays, sums, &kept, &hv, grads);
        });
        Ok(Aligned { context, seen })
    }
}
