//! Scores: how alike a query and a key are, `s = score(q, k)`.
//!
//! A score has two faces. [`Score::pair`] is the truth: one query, one key, one number, with its
//! derivative in [`Score::pair_backward`]. [`Score::tile`] is what runs: many queries and keys at
//! once; its default calls `pair`, and tests hold any other version equal to it. The dot family
//! says by [`Score::lowering`] that a tile is one matrix product. [`Softcap`], [`Scaled`] and
//! [`HeadScale`] stand around any other score.
//!
//! A score owns no parameters: it borrows them, all heads in one slice, and adds their
//! gradient to a slice of the same length.

pub(crate) mod additive;
pub(crate) mod cosine;
pub(crate) mod distance;
pub(crate) mod dot;
pub(crate) mod gat;
pub(crate) mod gatv2;
pub(crate) mod general;
pub(crate) mod head_scale;
mod hidden;
pub(crate) mod location;
pub(crate) mod scaled;
pub(crate) mod scaled_dot;
pub(crate) mod softcap;

use std::fmt::Debug;

use regard_tensor::Real;

use crate::{AttnError, Dims, Item};

pub use additive::Additive;
pub use cosine::Cosine;
pub use distance::Distance;
pub use dot::Dot;
pub use gat::Gat;
pub use gatv2::Gatv2;
pub use general::General;
pub use head_scale::HeadScale;
pub use location::Location;
pub use scaled::Scaled;
pub use scaled_dot::ScaledDot;
pub use softcap::Softcap;

/// How the engine may compute a whole tile of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Lowering<T> {
    /// By [`Score::tile`].
    Tile,
    /// As a matrix product: `s_ij = scale · Σ_c q_ic k_jc`.
    Product {
        /// Factor on the product.
        scale: T,
    },
}

/// A score that is the LeakyReLU of a number of the query and one of the key: `s = f(by_query·q + by_key·k)` with f(x) = x for
/// x > 0, else slope·x; slope 1 leaves the sum as it is.
#[derive(Debug, Clone, Copy)]
pub struct SumOfParts<'a, T> {
    /// What the query is multiplied with, `[d_k]`.
    pub by_query: &'a [T],
    /// What the key is multiplied with, `[d_k]`.
    pub by_key: &'a [T],
    /// Slope below zero, finite.
    pub slope: T,
    /// Where the gradient of `by_query` begins in that of the parameters.
    pub query_params: usize,
    /// Where that of `by_key` begins.
    pub key_params: usize,
}

/// A block of rows with a stride: row i is `data[i·stride .. i·stride + width]`.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// Number of rows.
    pub rows: usize,
    /// Elements of a row that count.
    pub width: usize,
    /// Elements between rows.
    pub stride: usize,
}

impl<'a, T> Block<'a, T> {
    /// Row `i`.
    #[inline(always)]
    pub fn row(&self, i: usize) -> &'a [T] {
        &self.data[i * self.stride..i * self.stride + self.width]
    }
}

/// As [`Block`], for writing.
#[derive(Debug)]
pub struct BlockMut<'a, T> {
    /// The elements.
    pub data: &'a mut [T],
    /// Number of rows.
    pub rows: usize,
    /// Elements of a row that count.
    pub width: usize,
    /// Elements between rows.
    pub stride: usize,
}

impl<T> BlockMut<'_, T> {
    /// Row `i`.
    #[inline(always)]
    pub fn row(&mut self, i: usize) -> &mut [T] {
        &mut self.data[i * self.stride..i * self.stride + self.width]
    }
}

/// A score of a query and a key.
pub trait Score<T: Real>: Sync + Debug {
    /// The name in the catalogue, such as `scaled_dot`.
    fn name(&self) -> &'static str;

    /// The formula, in the letters of the documentation.
    fn formula(&self) -> &'static str;

    /// Checks that the score can serve these sizes.
    ///
    /// # Errors
    /// Names the argument at fault.
    fn check(&self, dims: Dims) -> Result<(), AttnError>;

    /// Checks that the score can serve these items; only one with keys of its own need look.
    ///
    /// # Errors
    /// Names the argument at fault.
    fn check_items(&self, items: &[Item]) -> Result<(), AttnError> {
        let _ = items;
        Ok(())
    }

    /// `s(q, k)` for one query and one key of query head `head`.
    fn pair(&self, head: usize, q: &[T], k: &[T]) -> T;

    /// With upstream gradient g = ∂L/∂s, adds g·∂s/∂q to `dq`, g·∂s/∂k to `dk` and g·∂s/∂θ to
    /// `dparams` (all heads, [`Score::n_params`] long).
    fn pair_backward(
        &self,
        head: usize,
        q: &[T],
        k: &[T],
        g: T,
        dq: &mut [T],
        dk: &mut [T],
        dparams: &mut [T],
    );

    /// Length of the parameter gradient; 0 where the score has none.
    fn n_params(&self) -> usize {
        0
    }

    /// Whether the score has keys of its own, one for each place, in place of the caller's
    /// (location): then [`Score::own_key`] answers for every key.
    fn has_own_keys(&self) -> bool {
        false
    }

    /// The score's own key `key` of key head `kv_head`, d_k wide: what stands in place of the caller's.
    fn own_key(&self, kv_head: usize, key: usize) -> &[T] {
        let _ = (kv_head, key);
        &[]
    }

    /// Adds the gradient `dk` of [`Score::own_key`] to `dparams`.
    fn own_key_backward(&self, kv_head: usize, key: usize, dk: &[T], dparams: &mut [T]) {
        let _ = (kv_head, key, dk, dparams);
    }

    /// How the engine may compute a tile.
    fn lowering(&self) -> Lowering<T> {
        Lowering::Tile
    }

    /// The score of `head` as a function of the sum of two numbers, if it is one: where few, scattered keys are looked at,
    /// each number is then computed once and not once a pair.
    fn sum_of_parts(&self, head: usize, d_k: usize) -> Option<SumOfParts<'_, T>> {
        let _ = (head, d_k);
        None
    }

    /// `out[i·stride + j] = s(q_i, k_j)` for every pair of a tile.
    fn tile(&self, head: usize, q: Block<'_, T>, k: Block<'_, T>, out: &mut [T], stride: usize) {
        for i in 0..q.rows {
            for j in 0..k.rows {
                out[i * stride + j] = self.pair(head, q.row(i), k.row(j));
            }
        }
    }

    /// The derivative of [`Score::tile`]: adds to `dq`, `dk` and `dparams`, given
    /// `g[i·stride + j] = ∂L/∂s_ij`. Pairs with g = 0 may be passed over (forbidden pairs have 0).
    fn tile_backward(
        &self,
        head: usize,
        q: Block<'_, T>,
        k: Block<'_, T>,
        g: &[T],
        stride: usize,
        dq: &mut BlockMut<'_, T>,
        dk: &mut BlockMut<'_, T>,
        dparams: &mut [T],
    ) {
        for i in 0..q.rows {
            for j in 0..k.rows {
                let g = g[i * stride + j];
                if g != T::ZERO {
                    self.pair_backward(head, q.row(i), k.row(j), g, dq.row(i), dk.row(j), dparams);
                }
            }
        }
    }
}

/// A borrowed score is a score, so that one chosen at run time can stand inside another:
/// `Softcap { inner: score, cap }` with `score: &dyn Score<T>`.
impl<T: Real, S: Score<T> + ?Sized> Score<T> for &S {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn formula(&self) -> &'static str {
        (**self).formula()
    }

    fn check(&self, dims: Dims) -> Result<(), AttnError> {
        (**self).check(dims)
    }

    fn pair(&self, head: usize, q: &[T], k: &[T]) -> T {
        (**self).pair(head, q, k)
    }

    fn pair_backward(
        &self,
        head: usize,
        q: &[T],
        k: &[T],
        g: T,
        dq: &mut [T],
        dk: &mut [T],
        dparams: &mut [T],
    ) {
        (**self).pair_backward(head, q, k, g, dq, dk, dparams);
    }

    fn n_params(&self) -> usize {
        (**self).n_params()
    }

    fn check_items(&self, items: &[Item]) -> Result<(), AttnError> {
        (**self).check_items(items)
    }

    fn has_own_keys(&self) -> bool {
        (**self).has_own_keys()
    }

    fn own_key(&self, kv_head: usize, key: usize) -> &[T] {
        (**self).own_key(kv_head, key)
    }

    fn own_key_backward(&self, kv_head: usize, key: usize, dk: &[T], dparams: &mut [T]) {
        (**self).own_key_backward(kv_head, key, dk, dparams);
    }

    fn lowering(&self) -> Lowering<T> {
        (**self).lowering()
    }

    fn sum_of_parts(&self, head: usize, d_k: usize) -> Option<SumOfParts<'_, T>> {
        (**self).sum_of_parts(head, d_k)
    }

    fn tile(&self, head: usize, q: Block<'_, T>, k: Block<'_, T>, out: &mut [T], stride: usize) {
        (**self).tile(head, q, k, out, stride);
    }

    fn tile_backward(
        &self,
        head: usize,
        q: Block<'_, T>,
        k: Block<'_, T>,
        g: &[T],
        stride: usize,
        dq: &mut BlockMut<'_, T>,
        dk: &mut BlockMut<'_, T>,
        dparams: &mut [T],
    ) {
        (**self).tile_backward(head, q, k, g, stride, dq, dk, dparams);
    }
}

/// A score around another has the keys of the one inside. The parameters of the one inside come first.
macro_rules! own_keys_of_inner {
    () => {
        fn check_items(&self, items: &[$crate::Item]) -> Result<(), AttnError> {
            self.inner.check_items(items)
        }

        fn has_own_keys(&self) -> bool {
            self.inner.has_own_keys()
        }

        fn own_key(&self, kv_head: usize, key: usize) -> &[T] {
            self.inner.own_key(kv_head, key)
        }

        fn own_key_backward(&self, kv_head: usize, key: usize, dk: &[T], dparams: &mut [T]) {
            self.inner.own_key_backward(kv_head, key, dk, dparams);
        }
    };
}
use own_keys_of_inner;

/// The scores of a tile, `[queries, keys]` without gaps.
fn tile_of<T: Real>(
    score: &impl Score<T>,
    head: usize,
    q: Block<'_, T>,
    k: Block<'_, T>,
) -> Vec<T> {
    let mut out = vec![T::ZERO; q.rows * k.rows];
    score.tile(head, q, k, &mut out, k.rows);
    out
}

/// `out += a·x`
fn add_scaled<T: Real>(out: &mut [T], a: T, x: &[T]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out += a * *x;
    }
}
