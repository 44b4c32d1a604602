//! The tape: operators write down what they computed, and the gradient runs over it backwards.
//!
//! Operators are methods of [`Tape`], one file each under [`crate::ops`]. Each computes its value
//! at once and, when training, leaves a closure that turns the gradient of its output into
//! those of its inputs. Gradients of parameters go straight into one flat buffer.

use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

use regard_tensor::kernels::{elementwise, matmul::Packed};
use regard_tensor::{Key, Real, Shape, Tensor};

use crate::{OperatorTimes, PackedParams, ParamId, Params};

/// A value on the tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Var(usize);

pub(crate) type Backward<T> = Box<dyn FnOnce(&Tensor<T>, &mut Grads<'_, T>) + Send>;

struct Node<T: Real> {
    value: Tensor<T>,
    param: Option<ParamId>,
    /// Whether a gradient has to reach this node.
    wanted: bool,
    backward: Option<(Backward<T>, &'static Location<'static>)>,
}

/// What a tape is made for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// No gradient, no dropout.
    Inference,
    /// Gradients, no dropout: for gradient checks.
    Gradient,
    /// Gradients and dropout, with the random stream of this step.
    Training(Key),
}

/// A record of one forward pass.
pub struct Tape<'p, T: Real> {
    params: &'p Params<T>,
    packed: Option<&'p PackedParams<T>>,
    nodes: Vec<Node<T>>,
    mode: Mode,
    draws: u64,
    times: Option<&'p mut OperatorTimes>,
}

impl<'p, T: Real> Tape<'p, T> {
    /// An empty tape over a model's parameters.
    pub fn new(params: &'p Params<T>, mode: Mode) -> Self {
        Self { params, packed: None, nodes: Vec::new(), mode, draws: 0, times: None }
    }

    /// An empty tape in [`Mode::Inference`] over parameters that do not change any more.
    pub fn inference(packed: &'p PackedParams<T>) -> Self {
        Self { packed: Some(packed), ..Self::new(packed.params(), Mode::Inference) }
    }

    /// Adds the time of every operator from now on, forward and backward, to `times`.
    pub fn time_into(&mut self, times: &'p mut OperatorTimes) {
        times.start();
        self.times = Some(times);
    }

    /// The parameters.
    pub fn params(&self) -> &'p Params<T> {
        self.params
    }

    /// Whether gradients are recorded.
    pub fn records(&self) -> bool {
        self.mode != Mode::Inference
    }

    /// A random stream for the next operator that draws, or `None` outside training.
    pub fn next_key(&mut self) -> Option<Key> {
        let Mode::Training(key) = self.mode else { return None };
        self.draws += 1;
        Some(key.child(self.draws))
    }

    /// An input without gradient.
    pub fn constant(&mut self, value: Tensor<T>) -> Var {
        self.push(value, None, false, None)
    }

    /// An input whose gradient is asked for.
    pub fn input(&mut self, value: Tensor<T>) -> Var {
        let wanted = self.records();
        self.push(value, None, wanted, None)
    }

    /// A parameter; its gradient goes to the flat buffer.
    pub fn param(&mut self, id: ParamId) -> Var {
        let wanted = self.records();
        self.push(self.params.tensor(id), Some(id), wanted, None)
    }

    /// The value of a node.
    pub fn value(&self, var: Var) -> &Tensor<T> {
        &self.nodes[var.0].value
    }

    /// The transpose of some columns of a parameter, packed, where parameters are kept so.
    pub(crate) fn packed(&self, var: Var, columns: Range<usize>) -> Option<Arc<Packed<T>>> {
        let id = self.nodes[var.0].param?;
        Some(self.packed?.transposed(id, columns))
    }

    /// The shape of a node's value.
    pub fn shape(&self, var: Var) -> Shape {
        *self.value(var).shape()
    }

    /// Whether a gradient has to reach a node.
    pub(crate) fn wanted(&self, var: Var) -> bool {
        self.nodes[var.0].wanted
    }

    fn push(
        &mut self,
        value: Tensor<T>,
        param: Option<ParamId>,
        wanted: bool,
        backward: Option<(Backward<T>, &'static Location<'static>)>,
    ) -> Var {
        self.nodes.push(Node { value, param, wanted, backward });
        Var(self.nodes.len() - 1)
    }

    /// Writes down an operator's output and the way back; `backward` is dropped when no input
    /// wants a gradient. Who calls is the operator, for its time.
    #[track_caller]
    pub(crate) fn record(
        &mut self,
        value: Tensor<T>,
        inputs: &[Var],
        backward: impl FnOnce(&Tensor<T>, &mut Grads<'_, T>) + Send + 'static,
    ) -> Var {
        let place = Location::caller();
        if let Some(times) = &mut self.times {
            times.forward(place);
        }
        let wanted = self.records() && inputs.iter().any(|v| self.wanted(*v));
        let backward = wanted.then(|| (Box::new(backward) as Backward<T>, place));
        self.push(value, None, wanted, backward)
    }

    /// Runs the gradient of the scalar `loss` back over the tape and adds the parameters'
    /// gradients to `flat`, laid out as [`Params::flat`].
    ///
    /// Returns the gradients of the nodes made by [`Tape::input`].
    ///
    /// # Panics
    /// If `loss` has more than one element or `flat` another length than the parameters.
    pub fn backward(self, loss: Var, flat: &mut [T]) -> Gradients<T> {
        let one = Tensor::from_slice(&[1], &[T::ONE]).expect("one element");
        let one = one.reshape(&self.shape(loss)).expect("the loss is a scalar");
        self.backward_from(loss, one, flat)
    }

    /// As [`Tape::backward`], from any node and upstream gradient.
    ///
    /// # Panics
    /// If the gradient's shape is not the node's, or `flat` has the wrong length.
    pub fn backward_from(mut self, from: Var, gradient: Tensor<T>, flat: &mut [T]) -> Gradients<T> {
        assert_eq!(flat.len(), self.params.flat_len(), "one gradient a parameter");
        assert_eq!(gradient.shape(), &self.shape(from), "the gradient has the node's shape");
        let targets = self.nodes.iter().map(|node| Target {
            shape: *node.value.shape(),
            param: node.param.map(|id| self.params.range(id)),
            wanted: node.wanted,
            gradient: None,
        });
        let mut grads = Grads { targets: targets.collect(), flat };
        grads.add(from, gradient);
        let mut times = self.times.take();
        if let Some(times) = &mut times {
            times.start();
        }
        while let Some(node) = self.nodes.pop() {
            let at = self.nodes.len();
            if let Some((backward, place)) = node.backward {
                // An output that nothing used has no gradient and passes none on.
                if let Some(dy) = grads.targets[at].gradient.take() {
                    drop(node.value);
                    backward(&dy, &mut grads);
                    if let Some(times) = &mut times {
                        times.backward(place);
                    }
                }
            }
        }
        Gradients(grads.targets.into_iter().map(|t| t.gradient).collect())
    }
}

struct Target<T: Real> {
    shape: Shape,
    param: Option<std::ops::Range<usize>>,
    wanted: bool,
    gradient: Option<Tensor<T>>,
}

/// The gradients of a tape while they are being collected.
pub struct Grads<'g, T: Real> {
    targets: Vec<Target<T>>,
    flat: &'g mut [T],
}

impl<T: Real> Grads<'_, T> {
    /// Whether the gradient of a node is needed at all.
    pub(crate) fn wants(&self, var: Var) -> bool {
        self.targets[var.0].wanted
    }

    /// Adds a whole gradient.
    #[expect(clippy::needless_pass_by_value, reason = "a first gradient is kept as it is")]
    pub(crate) fn add(&mut self, var: Var, gradient: Tensor<T>) {
        let target = &mut self.targets[var.0];
        debug_assert_eq!(gradient.len(), target.shape.size(), "a gradient has its node's size");
        if !target.wanted {
            return;
        }
        if let Some(range) = &target.param {
            elementwise::add(&mut self.flat[range.clone()], gradient.data());
        } else if let Some(sum) = &mut target.gradient {
            elementwise::add(sum.data_mut(), gradient.data());
        } else {
            let gradient = gradient.reshape(&target.shape).expect("same size");
            target.gradient = Some(gradient);
        }
    }

    /// The place of a gradient, and the factor that its present contents count with: 0 for a
    /// place that was not written yet (whose contents are arbitrary), else 1.
    pub(crate) fn slot(&mut self, var: Var) -> (&mut [T], f64) {
        let target = &mut self.targets[var.0];
        if let Some(range) = &target.param {
            return (&mut self.flat[range.clone()], 1.0);
        }
        let fresh = target.gradient.is_none();
        let place = target.gradient.get_or_insert_with(|| Tensor::stale(&target.shape));
        (place.data_mut(), if fresh { 0.0 } else { 1.0 })
    }

    /// As [`Grads::slot`], taken out, so that another place can be written at the same time; [`Grads::put`] gives it back.
    /// None for a parameter, whose place is part of the flat gradient.
    pub(crate) fn take(&mut self, var: Var) -> Option<(Tensor<T>, f64)> {
        let target = &mut self.targets[var.0];
        if target.param.is_some() {
            return None;
        }
        Some(match target.gradient.take() {
            Some(sum) => (sum, 1.0),
            None => (Tensor::stale(&target.shape), 0.0),
        })
    }

    /// Gives back what [`Grads::take`] took.
    pub(crate) fn put(&mut self, taken: Var, gradient: Tensor<T>) {
        self.targets[taken.0].gradient = Some(gradient);
    }

    /// The place of a gradient to add to: as [`Grads::slot`], zeroed where nothing was written.
    pub(crate) fn sum(&mut self, var: Var) -> &mut [T] {
        let (place, keep) = self.slot(var);
        if keep == 0.0 {
            place.fill(T::ZERO);
        }
        place
    }
}

/// The gradients of a tape's inputs.
pub struct Gradients<T: Real>(Vec<Option<Tensor<T>>>);

impl<T: Real> Gradients<T> {
    /// The gradient of an input; `None` where the result does not depend on it.
    pub fn of(&self, var: Var) -> Option<&Tensor<T>> {
        self.0[var.0].as_ref()
    }
}
