//! Every member of every kind, by its name in the catalogue, so that a new one is enrolled in all
//! tests by one line here (the test of the catalogue asks for it).

use regard_attn::normaliser::{Entmax15, Hard, Identity, Sigmoid, Softmax, Sparsemax, Temperature};
use regard_attn::position::{Learned, NoPosition, Rotary, RotaryLayout, Sinusoidal};
use regard_attn::scope::{
    Alignment, And, Blocks, Causal, Csr, Documents, Full, Given, Graph, Lengths, Or,
    PredictedCentre, SelfLoops, Window, Window2d,
};
use regard_attn::score::{
    Additive, Cosine, Distance, Dot, Gat, Gatv2, General, HeadScale, Scaled, ScaledDot, Softcap,
};
use regard_attn::{At, Coverage, Item, Normaliser, Position, Scope, Score};
use regard_tensor::Real;

pub(crate) const SCORES: [&str; 11] = [
    "dot",
    "scaled_dot",
    "additive",
    "general",
    "cosine",
    "distance",
    "gat",
    "gatv2",
    "softcap",
    "scaled",
    "head_scale",
];

/// A score for `n_heads` heads of width `d_k`; `params` is [`n_params`] long.
pub(crate) fn score<'a, T: Real>(
    name: &str,
    params: &'a [T],
    d_k: usize,
) -> Box<dyn Score<T> + 'a> {
    let slope = T::from_f64(0.2);
    match name {
        "dot" => Box::new(Dot),
        "scaled_dot" => Box::new(ScaledDot::new(d_k)),
        "additive" => Box::new(Additive { v: params }),
        "general" => Box::new(General { w: params }),
        "cosine" => Box::new(Cosine),
        "distance" => Box::new(Distance),
        "gat" => Box::new(Gat { a: params, slope }),
        "gatv2" => Box::new(Gatv2 { a: params, slope }),
        // Around a score with parameters, to see them passed on.
        "softcap" => Box::new(Softcap { inner: Gatv2 { a: params, slope }, cap: T::ONE }),
        "scaled" => Box::new(Scaled { inner: Dot, factor: T::from_f64(-0.3) }),
        "head_scale" => Box::new(HeadScale { inner: Cosine, factors: params }),
        _ => panic!("no score {name}"),
    }
}

/// Number of parameters of a score.
pub(crate) fn n_params(score: &str, n_heads: usize, d_k: usize) -> usize {
    match score {
        "additive" | "gatv2" | "softcap" => n_heads * d_k,
        "gat" => n_heads * 2 * d_k,
        "general" => n_heads * d_k * d_k,
        "head_scale" => n_heads,
        _ => 0,
    }
}

/// Whether a tile sums the derivatives of its pairs in an order of its own.
pub(crate) fn sums_tiles_in_its_own_order(score: &str) -> bool {
    matches!(score, "general" | "gat")
}

pub(crate) fn normalisers() -> Vec<Box<dyn Normaliser<f64>>> {
    vec![
        Box::new(Softmax),
        Box::new(Temperature::new(0.7).unwrap()),
        Box::new(Sparsemax),
        Box::new(Entmax15),
        Box::new(Sigmoid),
        Box::new(Identity),
        Box::new(Hard),
    ]
}

/// The part of a scope of squares that lies over the items of `problem`, none of which is square.
#[derive(Debug)]
struct Inside<S>(S, &'static [At]);

const SQUARES: [At; 2] =
    [At { item: 0, head: 0, q_len: 5, kv_len: 5 }, At { item: 1, head: 0, q_len: 5, kv_len: 5 }];

impl<S: Scope> Scope for Inside<S> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn check(&self, _: &[Item]) -> Result<(), regard_attn::AttnError> {
        let item = |at: &At| Item { q_start: 0, q_len: at.q_len, kv_start: 0, kv_len: at.kv_len };
        self.0.check(&self.1.iter().map(item).collect::<Vec<_>>())
    }

    fn allows(&self, at: At, query: usize, key: usize) -> bool {
        self.0.allows(self.1[at.item], query, key)
    }

    fn tile(
        &self,
        at: At,
        queries: std::ops::Range<usize>,
        keys: std::ops::Range<usize>,
    ) -> Coverage {
        self.0.tile(self.1[at.item], queries, keys)
    }
}

/// Every scope, some of them several times, for two items (see `problem`).
pub(crate) fn scopes() -> Vec<Box<dyn Scope>> {
    const LENGTHS: Lengths<'_> = Lengths { kv: &[3, 0] };
    const WINDOW: Window = Window { left: 1, right: 1 };
    const CAUSAL: Causal = Causal { alignment: Alignment::BottomRight };
    const T: bool = true;
    const F: bool = false;
    // 3 × 5 and 4 × 2; a query and a key of no pair in each.
    const MASKS: [&[bool]; 2] =
        [&[T, F, T, F, F, F, F, F, F, F, F, F, T, T, F], &[T, F, F, F, T, F, T, F]];
    const GRAPHS: [Csr<'_>; 2] = [
        Csr { offsets: &[0, 2, 2, 5], columns: &[1, 4, 0, 1, 3] },
        Csr { offsets: &[0, 1, 1, 2, 2], columns: &[1, 1] },
    ];
    vec![
        Box::new(Full),
        Box::new(LENGTHS),
        Box::new(Causal { alignment: Alignment::TopLeft }),
        Box::new(CAUSAL),
        Box::new(WINDOW),
        Box::new(And(&[&Lengths { kv: &[4, 2] }, &WINDOW, &CAUSAL])),
        Box::new(Inside(Window2d { width: 5, radius: 1 }, &SQUARES)),
        Box::new(PredictedCentre {
            centres: &[&[2.5, -7.0, 0.0], &[1.0, 9.0, 0.5, 1.9]],
            radius: 1,
        }),
        Box::new(Blocks { size: 2 }),
        Box::new(Inside(Documents::from_lengths(&[&[1, 2, 2], &[3, 2]]), &SQUARES)),
        Box::new(Given { allowed: &MASKS }),
        Box::new(Graph { graphs: &GRAPHS, self_loops: SelfLoops::AsGiven }),
        Box::new(Or(&[&Blocks { size: 2 }, &Lengths { kv: &[1, 1] }])),
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
