//! A position of one's own: a bias that falls with the logarithm of the distance, at a learned rate
//! for each head.
//!
//! ```text
//! s_ij ← s_ij − w_h·ln(1 + |p_i − j|)
//! ```
//!
//! ```text
//! cargo run --release -p regard --example own_position
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its numbers")]

use regard::attn::normaliser::Softmax;
use regard::attn::position::Position;
use regard::attn::scope::Causal;
use regard::attn::score::ScaledDot;
use regard::attn::{At, AttnError, Call, Dims, Item, Rows, RowsMut, Upstream, reference};
use regard::engine;
use regard::tensor::Real;

/// `bias_ij = −w_h·ln(1 + |p_i − j|)`
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogDistance<'a, T> {
    /// w, `[n_heads]`.
    pub(crate) w: &'a [T],
}

/// ln(1 + |p_i − j|), p_i the query's position.
fn log_distance<T: Real>(at: At, query: usize, key: usize) -> T {
    T::from_f64(((at.q_offset + query).abs_diff(key) as f64).ln_1p())
}

impl<T: Real> Position<T> for LogDistance<'_, T> {
    fn name(&self) -> &'static str {
        "log_distance"
    }
    fn check(&self, dims: Dims, _: &[Item]) -> Result<(), AttnError> {
        let expected = format_args!("one for each of the {} heads", dims.n_heads);
        AttnError::size(self.w.len() == dims.n_heads, "w", expected, self.w.len())
    }
    fn n_params(&self) -> usize {
        self.w.len()
    }
    /// Whether there is a bias; of the other hooks there is none.
    fn biases(&self) -> bool {
        true
    }
    fn bias(&self, at: At, query: usize, key: usize, _: &[T]) -> T {
        -self.w[at.head] * log_distance(at, query, key)
    }
    /// ∂bias/∂w_h = −ln(1 + |p_i − j|); the bias does not look at the query.
    fn bias_backward(
        &self,
        at: At,
        query: usize,
        key: usize,
        _: &[T],
        g: T,
        _: &mut [T],
        dw: &mut [T],
    ) {
        dw[at.head] += -g * log_distance(at, query, key);
    }
}

fn main() -> Result<(), AttnError> {
    let call = Call {
        score: &ScaledDot::new(1),
        normaliser: &Softmax,
        scope: &Causal::square(),
        position: &LogDistance { w: &[1.0] },
        dropout: None,
        dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: 1, d_v: 1 },
        items: &Item::packed(&[4]),
    };
    let rows = |data| Rows { data, row_stride: 1, head_stride: 1 };
    let (q, k, v) = (rows(&[0.0; 4]), rows(&[0.0; 4]), rows(&[8.0, 4.0, 2.0, 1.0]));
    let mut context = [0.0; 4];
    let out = RowsMut { data: &mut context, row_stride: 1, head_stride: 1 };
    let out = engine::forward(&call, q, k, v, out, true)?;
    // Keys at the distances 0, 1, 2 and 3 weigh as 1 : 1/2 : 1/3 : 1/4.
    let weights = out.weights.expect("asked for");
    for (query, row) in weights.chunks(4).enumerate() {
        println!("query {query}: weights {row:.3?}, context {:.3}", context[query]);
    }
    let d = reference::backward(&call, q, k, v, &[1.0; 4], Upstream::NONE)?;
    println!("∂(sum of contexts)/∂w {:.4}", d.dposition_params[0]);
    Ok(())
}
