//! Several positions, one after the other.

use regard_tensor::Real;

use super::Position;
use crate::catalogue::{Entry, Kind, example};
use crate::position::{Alibi, Rotary, RotaryLayout};
use crate::score::{Block, BlockMut};
use crate::{At, AttnError, Dims, Item, TileAt};

pub(crate) const ENTRY: Entry = Entry {
    name: "chain",
    kind: Kind::Position,
    title: "several positions",
    formula: "turns one after the other, biases and values summed, factors multiplied",
    parts: None,
    paper: None,
    taxonomy: None,
    shapes: "as the positions of the chain",
    cost: "the sum of theirs",
    mistakes: &["two positions that say the same thing in two places"],
    example: example!(Chain::<f32>(&[&Rotary::new(10000.0, RotaryLayout::Half), &Alibi::new(8),])),
};

/// Several positions at once: what each adds to the inputs is added in order, queries and keys are
/// turned in order, biases and values are summed, factors on the weights multiplied.
///
/// The parameters are those of the first, then those of the second, and so on. Derivatives: turns
/// go back in reverse order; that of a factor is multiplied by all the other factors. A bias sees
/// the query after all turns.
///
/// ```
/// use regard_attn::position::{Alibi, Chain, Gaussian, Position};
/// use regard_attn::At;
///
/// let (alibi, gaussian) = (Alibi::with_slopes(vec![0.5]), Gaussian::new(&[0.0f64, 1.0], &[1]));
/// let both = Chain(&[&alibi, &gaussian]);
/// let at = At { item: 0, head: 0, q_len: 1, kv_len: 4, q_offset: 0 };
/// assert_eq!(both.bias(at, 0, 2, &[0.0]), -1.0);
/// assert_eq!(both.weight(at, 0, 2), (-2f64).exp());
/// assert_eq!(both.n_params(), 2);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Chain<'a, T: Real>(
    /// The positions.
    pub &'a [&'a dyn Position<T>],
);

impl<T: Real> Chain<'_, T> {
    /// Each position with its part of the parameters' gradient.
    fn with<'b>(
        &'b self,
        mut dparams: &'b mut [T],
    ) -> impl Iterator<Item = (&'b dyn Position<T>, &'b mut [T])> {
        self.0.iter().map(move |position| {
            let (own, rest) = std::mem::take(&mut dparams).split_at_mut(position.n_params());
            dparams = rest;
            (*position as &dyn Position<T>, own)
        })
    }

    fn with_values(&self) -> impl Iterator<Item = &dyn Position<T>> {
        self.0.iter().copied().filter(|position| position.has_values())
    }

    fn with_bias(&self) -> impl Iterator<Item = &dyn Position<T>> {
        self.0.iter().copied().filter(|position| position.biases())
    }

    /// The positions with a factor, but for the one at `n`.
    fn other_weights(&self, n: usize) -> impl Iterator<Item = &dyn Position<T>> {
        let others = self.0.iter().copied().enumerate().filter(move |(m, _)| *m != n);
        others.map(|(_, position)| position).filter(|position| position.weighs())
    }
}

impl<T: Real> Position<T> for Chain<'_, T> {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn check(&self, dims: Dims, items: &[Item]) -> Result<(), AttnError> {
        self.0.iter().try_for_each(|position| position.check(dims, items))
    }

    fn n_params(&self) -> usize {
        self.0.iter().map(|position| position.n_params()).sum()
    }

    fn input(&self, position: usize, x: &mut [T]) -> Result<(), AttnError> {
        self.0.iter().try_for_each(|each| each.input(position, x))
    }

    fn input_backward(&self, position: usize, dx: &[T], dparams: &mut [T]) {
        for (each, dparams) in self.with(dparams) {
            each.input_backward(position, dx, dparams);
        }
    }

    fn turns(&self) -> bool {
        self.0.iter().any(|position| position.turns())
    }

    fn turn(&self, position: usize, row: &mut [T]) {
        self.0.iter().for_each(|each| each.turn(position, row));
    }

    fn turn_backward(&self, position: usize, drow: &mut [T]) {
        self.0.iter().rev().for_each(|each| each.turn_backward(position, drow));
    }

    fn biases(&self) -> bool {
        self.0.iter().any(|position| position.biases())
    }

    fn bias(&self, at: At, query: usize, key: usize, q: &[T]) -> T {
        self.with_bias().map(|position| position.bias(at, query, key, q)).sum()
    }

    fn bias_backward(
        &self,
        at: At,
        query: usize,
        key: usize,
        q: &[T],
        g: T,
        dq: &mut [T],
        dparams: &mut [T],
    ) {
        for (position, dparams) in self.with(dparams) {
            if position.biases() {
                position.bias_backward(at, query, key, q, g, dq, dparams);
            }
        }
    }

    fn bias_tile(&self, tile: &TileAt, q: Block<'_, T>, out: &mut [T], stride: usize) {
        self.with_bias().for_each(|position| position.bias_tile(tile, q, out, stride));
    }

    fn bias_tile_backward(
        &self,
        tile: &TileAt,
        q: Block<'_, T>,
        g: &[T],
        stride: usize,
        dq: &mut BlockMut<'_, T>,
        dparams: &mut [T],
    ) {
        for (position, dparams) in self.with(dparams) {
            if position.biases() {
                position.bias_tile_backward(tile, q, g, stride, dq, dparams);
            }
        }
    }

    fn weighs(&self) -> bool {
        self.0.iter().any(|position| position.weighs())
    }

    fn weight(&self, at: At, query: usize, key: usize) -> T {
        let factors = self.0.iter().filter(|position| position.weighs());
        factors.fold(T::ONE, |product, position| product * position.weight(at, query, key))
    }

    /// ∂(Π w)/∂w_n = Π of the others
    fn weight_backward(&self, at: At, query: usize, key: usize, g: T, dparams: &mut [T]) {
        for (n, (position, dparams)) in self.with(dparams).enumerate() {
            if position.weighs() {
                let others = self.other_weights(n).map(|other| other.weight(at, query, key));
                position.weight_backward(at, query, key, others.fold(g, |g, w| g * w), dparams);
            }
        }
    }

    fn weight_tile(&self, tile: &TileAt, weights: &mut [T], stride: usize) {
        for position in self.0.iter().filter(|position| position.weighs()) {
            position.weight_tile(tile, weights, stride);
        }
    }

    fn weight_tile_backward(&self, tile: &TileAt, g: &[T], stride: usize, dparams: &mut [T]) {
        let keys = tile.keys.len();
        for (n, (position, dparams)) in self.with(dparams).enumerate() {
            if !position.weighs() {
                continue;
            }
            if self.other_weights(n).next().is_none() {
                position.weight_tile_backward(tile, g, stride, dparams);
                continue;
            }
            // g times the other factors.
            let mut inner = Vec::with_capacity(tile.queries.len() * keys);
            for i in 0..tile.queries.len() {
                inner.extend_from_slice(&g[i * stride..i * stride + keys]);
            }
            self.other_weights(n).for_each(|other| other.weight_tile(tile, &mut inner, keys));
            position.weight_tile_backward(tile, &inner, keys, dparams);
        }
    }

    fn has_values(&self) -> bool {
        self.0.iter().any(|position| position.has_values())
    }

    fn add_value(&self, at: At, query: usize, key: usize, a: T, context: &mut [T]) {
        self.with_values().for_each(|position| position.add_value(at, query, key, a, context));
    }

    fn value_dot(&self, at: At, query: usize, key: usize, dc: &[T]) -> T {
        self.with_values().map(|position| position.value_dot(at, query, key, dc)).sum()
    }

    fn value_backward(&self, at: At, query: usize, key: usize, a: T, dc: &[T], dparams: &mut [T]) {
        for (position, dparams) in self.with(dparams) {
            if position.has_values() {
                position.value_backward(at, query, key, a, dc, dparams);
            }
        }
    }

    fn value_tile(
        &self,
        tile: &TileAt,
        weights: &[T],
        stride: usize,
        context: &mut BlockMut<'_, T>,
    ) {
        for position in self.with_values() {
            position.value_tile(tile, weights, stride, context);
        }
    }

    fn value_dot_tile(&self, tile: &TileAt, dc: Block<'_, T>, out: &mut [T], stride: usize) {
        self.with_values().for_each(|position| position.value_dot_tile(tile, dc, out, stride));
    }

    fn value_tile_backward(
        &self,
        tile: &TileAt,
        weights: &[T],
        stride: usize,
        dc: Block<'_, T>,
        dparams: &mut [T],
    ) {
        for (position, dparams) in self.with(dparams) {
            if position.has_values() {
                position.value_tile_backward(tile, weights, stride, dc, dparams);
            }
        }
    }
}
