//! A scope of one's own: every `step`-th position around the query, `reach` of them to each side.
//!
//! ```text
//! scope(i) = {j : |j − i| ≤ step·reach and step divides j − i}
//! ```
//!
//! ```text
//! cargo run --release -p regard --example own_scope
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its numbers")]

use regard::attn::normaliser::Softmax;
use regard::attn::position::NoPosition;
use regard::attn::scope::Scope;
use regard::attn::score::ScaledDot;
use regard::attn::{At, AttnError, Call, Dims, Item, Rows, RowsMut, Span};
use regard::engine;

/// scope(i) = {j : |j − i| ≤ step·reach and step divides j − i}
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dilated {
    /// Distance between two keys, at least 1.
    pub(crate) step: usize,
    /// Keys to each side.
    pub(crate) reach: usize,
}

impl Dilated {
    /// The positions, below `len`, within step·reach of those of `span`.
    fn around(self, span: &Span, len: usize) -> Span {
        let far = self.step.saturating_mul(self.reach);
        let end = span.end.saturating_add(far).min(len);
        span.start.saturating_sub(far).min(end)..end
    }
}

impl Scope for Dilated {
    fn name(&self) -> &'static str {
        "dilated"
    }
    fn check(&self, _: &[Item]) -> Result<(), AttnError> {
        AttnError::size(self.step > 0, "step", "at least 1", self.step)
    }
    /// The truth; queries stand at `q_offset` and after.
    fn allows(&self, at: At, query: usize, key: usize) -> bool {
        let distance = (at.q_offset + query).abs_diff(key);
        distance.is_multiple_of(self.step) && distance / self.step <= self.reach
    }
    /// A hint, which may say too much but not too little: what lies outside is not even visited.
    fn keys(&self, at: At, queries: Span) -> Span {
        self.around(&(at.q_offset + queries.start..at.q_offset + queries.end), at.kv_len)
    }
    /// The same from the keys' side, for the backward pass.
    fn queries(&self, at: At, keys: Span) -> Span {
        let positions = self.around(&keys, at.q_offset + at.q_len);
        let end = positions.end.saturating_sub(at.q_offset);
        positions.start.saturating_sub(at.q_offset).min(end)..end
    }
}

fn main() -> Result<(), AttnError> {
    let call = Call {
        score: &ScaledDot::new(1),
        normaliser: &Softmax,
        scope: &Dilated { step: 2, reach: 1 },
        position: &NoPosition,
        dropout: None,
        dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: 1, d_v: 1 },
        items: &Item::packed(&[6]),
    };
    let rows = |data| Rows { data, row_stride: 1, head_stride: 1 };
    let (zeros, values) = ([0.0; 6], [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
    let mut context = [0.0; 6];
    let out = RowsMut { data: &mut context, row_stride: 1, head_stride: 1 };
    let out = engine::forward(&call, rows(&zeros), rows(&zeros), rows(&values), out, true)?;
    let weights = out.weights.expect("asked for");
    for (query, row) in weights.chunks(6).enumerate() {
        println!("query {query}: weights {row:.3?}, context {:.3}", context[query]);
    }
    Ok(())
}
