//! A score of one's own: `s = tanh(Σ_c w_c q_c k_c)`, with a learned vector w for each head.
//!
//! First with what a score must have, the value of a pair and its derivative; then once more with
//! tiles, which do for many pairs at once what need not be done for each.
//!
//! ```text
//! cargo run --release -p regard --example own_score
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its numbers")]

use regard::attn::normaliser::Softmax;
use regard::attn::position::NoPosition;
use regard::attn::scope::Full;
use regard::attn::score::{Block, BlockMut, Score};
use regard::attn::{AttnError, Call, Dims, Item, Rows, RowsMut, Upstream, reference};
use regard::engine;
use regard::tensor::Real;

/// `s = tanh(Σ_c w_c q_c k_c)`
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gated<'a, T> {
    /// The vectors w of all heads, `[n_heads, d_k]`.
    pub(crate) w: &'a [T],
}

impl<T: Real> Score<T> for Gated<'_, T> {
    fn name(&self) -> &'static str {
        "gated"
    }
    fn formula(&self) -> &'static str {
        "s = tanh(Σ_c w_c q_c k_c)"
    }
    fn check(&self, dims: Dims) -> Result<(), AttnError> {
        let Dims { n_heads, d_k, .. } = dims;
        let expected = format_args!("n_heads × d_k = {n_heads} × {d_k} elements");
        AttnError::size(self.w.len() == n_heads * d_k, "w", expected, self.w.len())
    }
    fn n_params(&self) -> usize {
        self.w.len()
    }
    fn pair(&self, head: usize, q: &[T], k: &[T]) -> T {
        let w = &self.w[head * q.len()..];
        w.iter().zip(q).zip(k).map(|((w, q), k)| *w * *q * *k).sum::<T>().tanh()
    }
    /// With t = s: ∂s/∂q_c = (1 − t²) w_c k_c, ∂s/∂k_c = (1 − t²) w_c q_c, ∂s/∂w_c = (1 − t²) q_c k_c.
    fn pair_backward(
        &self,
        head: usize,
        q: &[T],
        k: &[T],
        g: T,
        dq: &mut [T],
        dk: &mut [T],
        dw: &mut [T],
    ) {
        let (t, first) = (self.pair(head, q, k), head * q.len());
        let g = g * (T::ONE - t * t);
        for c in 0..q.len() {
            let w = self.w[first + c];
            dq[c] += g * w * k[c];
            dk[c] += g * w * q[c];
            dw[first + c] += g * q[c] * k[c];
        }
    }
}

/// [`Gated`] with tiles: a query meets w once, and not once for each key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TiledGated<'a, T>(pub(crate) Gated<'a, T>);

impl<T: Real> TiledGated<'_, T> {
    /// w_c q_c
    fn gate(&self, head: usize, q: &[T]) -> Vec<T> {
        self.0.w[head * q.len()..].iter().zip(q).map(|(w, q)| *w * *q).collect()
    }
}

fn dot<T: Real>(x: &[T], y: &[T]) -> T {
    x.iter().zip(y).map(|(x, y)| *x * *y).sum()
}

impl<T: Real> Score<T> for TiledGated<'_, T> {
    fn name(&self) -> &'static str {
        "tiled_gated"
    }
    fn formula(&self) -> &'static str {
        self.0.formula()
    }
    fn check(&self, dims: Dims) -> Result<(), AttnError> {
        self.0.check(dims)
    }
    fn n_params(&self) -> usize {
        self.0.n_params()
    }
    fn pair(&self, head: usize, q: &[T], k: &[T]) -> T {
        self.0.pair(head, q, k)
    }
    fn pair_backward(
        &self,
        head: usize,
        q: &[T],
        k: &[T],
        g: T,
        dq: &mut [T],
        dk: &mut [T],
        dw: &mut [T],
    ) {
        self.0.pair_backward(head, q, k, g, dq, dk, dw);
    }
    fn tile(&self, head: usize, q: Block<'_, T>, k: Block<'_, T>, out: &mut [T], stride: usize) {
        for i in 0..q.rows {
            let gated = self.gate(head, q.row(i));
            for j in 0..k.rows {
                out[i * stride + j] = dot(&gated, k.row(j)).tanh();
            }
        }
    }
    /// Sums (1 − t²) g_ij k_j over the keys before it multiplies by w or q.
    fn tile_backward(
        &self,
        head: usize,
        q: Block<'_, T>,
        k: Block<'_, T>,
        g: &[T],
        stride: usize,
        dq: &mut BlockMut<'_, T>,
        dk: &mut BlockMut<'_, T>,
        dw: &mut [T],
    ) {
        for i in 0..q.rows {
            let (gated, mut sum) = (self.gate(head, q.row(i)), vec![T::ZERO; q.width]);
            for j in 0..k.rows {
                // A forbidden pair has g = 0, and its key may hold anything, NaN too.
                if g[i * stride + j] == T::ZERO {
                    continue;
                }
                let t = dot(&gated, k.row(j)).tanh();
                let g = g[i * stride + j] * (T::ONE - t * t);
                for c in 0..q.width {
                    sum[c] += g * k.row(j)[c];
                    dk.row(j)[c] += g * gated[c];
                }
            }
            for c in 0..q.width {
                let at = head * q.width + c;
                dq.row(i)[c] += self.0.w[at] * sum[c];
                dw[at] += q.row(i)[c] * sum[c];
            }
        }
    }
}

fn main() -> Result<(), AttnError> {
    let gated = Gated { w: &[2.0, -1.0] };
    let tiled = TiledGated(gated);
    let scores: [&dyn Score<f64>; 2] = [&gated, &tiled];
    let x = [1.0, 0.0, 0.5, 1.0, -1.0, 2.0]; // three rows, which attend to each other
    let rows = Rows { data: &x[..], row_stride: 2, head_stride: 2 };
    for score in scores {
        let call = Call {
            score,
            normaliser: &Softmax,
            scope: &Full,
            position: &NoPosition,
            dropout: None,
            dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: 2, d_v: 2 },
            items: &Item::packed(&[3]),
        };
        let mut context = [0.0; 6];
        let out = RowsMut { data: &mut context, row_stride: 2, head_stride: 2 };
        let weights = engine::forward(&call, rows, rows, rows, out, true)?.weights;
        let weights = weights.expect("asked for");
        println!("{}: {}", score.name(), score.formula());
        println!("  weights  {:.4?}", &weights[..]);
        println!("  contexts {context:.4?}");
        let ones = [1.0; 6];
        let d = reference::backward(&call, rows, rows, rows, &ones, Upstream::NONE)?;
        println!("  ∂(sum of contexts)/∂w {:.4?}", d.dscore_params);
    }
    Ok(())
}
