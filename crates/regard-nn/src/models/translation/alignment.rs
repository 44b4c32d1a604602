//! The attention of the recurrent decoders: a model names its score, scope, normaliser and position.
//!
//! The formulas are those of [`AlignSpec`](crate::ops::AlignSpec). Matrices by the annotations alone
//! (W_a of `general`, U_a of `concat`) are applied once for a whole source, in [`Alignment::source`].

use std::sync::Arc;

use regard_attn::Normaliser;
use regard_attn::normaliser::{Entmax15, Sigmoid, Softmax, Sparsemax};
use regard_tensor::{Real, Tensor};

use super::{AlignmentScope, AlignmentScore, Annotations, LocationAware, NormaliserKind};
use crate::layers::Linear;
use crate::models::at_least_one;
use crate::ops::{AlignScope, AlignSpec};
use crate::{Init, NnError, ParamId, ParamSpecs, Ragged, Tape};

/// The parts and sizes of a recurrent decoder's attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlignmentConfig {
    /// Width of a decoder state.
    pub d_state: usize,
    /// Width of an annotation.
    pub d_annotation: usize,
    /// Width of the hidden layer of `concat`, and of the one that predicts centres.
    pub d_hidden: usize,
    /// The score.
    pub score: AlignmentScore,
    /// The scope, and with `local-p` the position: a Gaussian of σ = D/2 around the centre.
    pub scope: AlignmentScope,
    /// D
    pub radius: usize,
    /// Places of the location score.
    pub max_source: usize,
    /// The normaliser.
    pub normaliser: NormaliserKind,
    /// The weights of the step before, convolved into the score.
    pub location_aware: Option<LocationAware>,
}

/// The parameters of a recurrent decoder's attention.
#[derive(Debug, Clone)]
pub struct Alignment {
    config: AlignmentConfig,
    /// W_a of `concat`, by the state.
    query: Option<ParamId>,
    /// W_a of `general`, U_a and its bias of `concat`, by the annotations.
    key: Option<Linear>,
    v_a: Option<ParamId>,
    /// The rows of W_a of `location`.
    places: Option<ParamId>,
    /// W_p and v_p.
    centre: Option<(ParamId, ParamId)>,
    /// F and U.
    location: Option<(ParamId, ParamId)>,
}

/// A source as a decoder looks at it: kept from step to step.
#[derive(Debug, Clone)]
pub struct Source<T: Real> {
    pub(super) keys: Option<Tensor<T>>,
    pub(super) values: Tensor<T>,
    pub(super) items: Ragged,
}

impl Alignment {
    /// Parameters `query`, `key`, `v_a`, `places`, `centre.weight`, `centre.v`, `location.filters` and
    /// `location.project`, those that the parts need.
    ///
    /// # Errors
    /// A size of 0; the dot product of a state and an annotation of different widths; location-aware
    /// under another scope than the global one, or with the location score.
    pub fn new(
        specs: &mut ParamSpecs,
        name: &str,
        config: AlignmentConfig,
    ) -> Result<Self, NnError> {
        let AlignmentConfig { d_state, d_annotation, d_hidden, score, scope, .. } = config;
        at_least_one(&[("hidden", d_state), ("annotation width", d_annotation)])?;
        let additive = score == AlignmentScore::Concat;
        if additive || scope == AlignmentScope::LocalP {
            at_least_one(&[("attention", d_hidden)])?;
        }
        if scope != AlignmentScope::Global {
            at_least_one(&[("radius", config.radius)])?;
        }
        if score == AlignmentScore::Location {
            at_least_one(&[("max_source", config.max_source)])?;
        }
        if score == AlignmentScore::Dot && d_state != d_annotation {
            let expected = format!("the width {d_annotation} of an annotation, for the dot score");
            return Err(NnError::Hyper { name: "hidden", expected, actual: d_state.to_string() });
        }
        if let Some(LocationAware { filters, .. }) = config.location_aware {
            at_least_one(&[("filters", filters)])?;
            if scope != AlignmentScope::Global || score == AlignmentScore::Location {
                let expected = "none but under the global scope, with another score than location";
                return Err(NnError::Hyper {
                    name: "location_aware",
                    expected: expected.into(),
                    actual: format!("{score:?}, {scope:?}"),
                });
            }
        }
        let d_k = match score {
            AlignmentScore::Concat => d_hidden,
            _ => d_state,
        };
        Ok(specs.scope(name, |specs| Self {
            config,
            query: additive.then(|| specs.add("query", &[d_k, d_state], Init::Glorot)),
            key: match score {
                AlignmentScore::General => {
                    Some(Linear::without_bias(specs, "key", d_annotation, d_k))
                }
                AlignmentScore::Concat => Some(Linear::new(specs, "key", d_annotation, d_k)),
                _ => None,
            },
            v_a: additive
                .then(|| specs.add("v_a", &[d_k], Init::Uniform((3.0 / d_k as f64).sqrt()))),
            places: (score == AlignmentScore::Location)
                .then(|| specs.add("places", &[config.max_source, d_k], Init::Glorot)),
            centre: (scope == AlignmentScope::LocalP).then(|| {
                let w_p = specs.add("centre.weight", &[d_hidden, d_state], Init::Glorot);
                let bound = (3.0 / d_hidden as f64).sqrt();
                (w_p, specs.add("centre.v", &[d_hidden], Init::Uniform(bound)))
            }),
            location: config.location_aware.map(|LocationAware { filters, radius }| {
                let f = specs.add("location.filters", &[filters, 2 * radius + 1], Init::Glorot);
                (f, specs.add("location.project", &[d_k, filters], Init::Glorot))
            }),
        }))
    }

    /// The parts and sizes.
    pub fn config(&self) -> &AlignmentConfig {
        &self.config
    }

    /// The parts over annotations.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn spec<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        annotations: &Annotations,
    ) -> Result<AlignSpec<T>, NnError> {
        let keys = match (&self.key, self.places) {
            (Some(key), _) => key.forward(tape, annotations.values)?,
            (None, Some(places)) => tape.param(places),
            (None, None) => annotations.values,
        };
        Ok(self.parts(tape, annotations, keys))
    }

    /// What a decoder keeps of a source from step to step.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn source<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        annotations: &Annotations,
    ) -> Result<Source<T>, NnError> {
        let keys = match &self.key {
            Some(key) => {
                let keys = key.forward(tape, annotations.values)?;
                Some(tape.value(keys).clone())
            }
            None => None,
        };
        let values = annotations.held(tape);
        Ok(Source { keys, values, items: annotations.items.clone() })
    }

    /// The parts over a kept source.
    pub(super) fn resumed<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        source: &Source<T>,
    ) -> AlignSpec<T> {
        let values = tape.constant(source.values.clone());
        let annotations = Annotations { values, items: source.items.clone() };
        let keys = match (&source.keys, self.places) {
            (Some(keys), _) => tape.constant(keys.clone()),
            (None, Some(places)) => tape.param(places),
            (None, None) => values,
        };
        self.parts(tape, &annotations, keys)
    }

    fn parts<T: Real>(
        &self,
        tape: &mut Tape<'_, T>,
        annotations: &Annotations,
        keys: crate::Var,
    ) -> AlignSpec<T> {
        let normaliser: Arc<dyn Normaliser<T> + Send + Sync> = match self.config.normaliser {
            NormaliserKind::Softmax => Arc::new(Softmax),
            NormaliserKind::Sparsemax => Arc::new(Sparsemax),
            NormaliserKind::Entmax15 => Arc::new(Entmax15),
            NormaliserKind::Sigmoid => Arc::new(Sigmoid),
        };
        let radius = self.config.radius;
        let scope = match (self.config.scope, self.centre) {
            (AlignmentScope::LocalP, Some((w_p, v_p))) => {
                AlignScope::LocalP { radius, w_p: tape.param(w_p), v_p: tape.param(v_p) }
            }
            (AlignmentScope::LocalM, _) => AlignScope::LocalM { radius },
            _ => AlignScope::Global,
        };
        AlignSpec {
            sources: annotations.items.clone(),
            keys,
            own_keys: self.places.is_some(),
            values: annotations.values,
            query: self.query.map(|w| tape.param(w)),
            v_a: self.v_a.map(|v| tape.param(v)),
            scope,
            location: self.location.map(|(f, u)| (tape.param(f), tape.param(u))),
            normaliser,
        }
    }
}
