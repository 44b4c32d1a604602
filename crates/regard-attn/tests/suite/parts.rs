//! Every member of every kind, by its name in the catalogue, so that a new one is enrolled in all
//! tests by one line here (the test of the catalogue asks for it).

use regard_attn::normaliser::Softmax;
use regard_attn::position::{Learned, NoPosition, Rotary, RotaryLayout, Sinusoidal};
use regard_attn::scope::{Alignment, And, Causal, Full, Lengths, Window};
use regard_attn::score::{Additive, Dot, ScaledDot};
use regard_attn::{Normaliser, Position, Scope, Score};
use regard_tensor::Real;

pub(crate) const SCORES: [&str; 3] = ["dot", "scaled_dot", "additive"];

/// A score for `n_heads` heads of width `d_k`; `params` is [`n_params`] long.
pub(crate) fn score<'a, T: Real>(
    name: &str,
    params: &'a [T],
    d_k: usize,
) -> Box<dyn Score<T> + 'a> {
    match name {
        "dot" => Box::new(Dot),
        "scaled_dot" => Box::new(ScaledDot::new(d_k)),
        "additive" => Box::new(Additive { v: params }),
        _ => panic!("no score {name}"),
    }
}

/// Number of parameters of a score.
pub(crate) fn n_params(score: &str, n_heads: usize, d_k: usize) -> usize {
    if score == "additive" { n_heads * d_k } else { 0 }
}

pub(crate) fn normalisers() -> Vec<Box<dyn Normaliser<f64>>> {
    vec![Box::new(Softmax)]
}

/// Every scope, some of them several times, for two items (see `problem`).
pub(crate) fn scopes() -> Vec<Box<dyn Scope>> {
    const LENGTHS: Lengths<'_> = Lengths { kv: &[3, 0] };
    const WINDOW: Window = Window { left: 1, right: 1 };
    const CAUSAL: Causal = Causal { alignment: Alignment::BottomRight };
    vec![
        Box::new(Full),
        Box::new(LENGTHS),
        Box::new(Causal { alignment: Alignment::TopLeft }),
        Box::new(CAUSAL),
        Box::new(WINDOW),
        Box::new(And(&[&Lengths { kv: &[4, 2] }, &WINDOW, &CAUSAL])),
    ]
}

/// Every position, for heads of even width.
pub(crate) fn positions() -> Vec<Box<dyn Position<f64>>> {
    vec![
        Box::new(NoPosition),
        Box::new(Sinusoidal),
        Box::new(Learned { table: &[0.5, -0.5, 0.25, 1.0], max_len: 2, d: 2 }),
        Box::new(Rotary::new(7.0, RotaryLayout::Interleaved)),
        Box::new(Rotary::new(7.0, RotaryLayout::Half)),
    ]
}
