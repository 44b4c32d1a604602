//! Every member of every kind, by its name in the catalogue, so that a new one is enrolled in all
//! tests by one line here (the test of the catalogue asks for it).

use regard_attn::normaliser::{
    Entmax15, Hard, Identity, Sampled, Sigmoid, Softmax, Sparsemax, Temperature,
};
use regard_attn::position::{
    Alibi, Chain, DenseBias, Gaussian, Grid, Learned, NoPosition, Quadratic, Relative2d,
    RelativeBias, Rotary, RotaryLayout, Shaw, Sinusoidal,
};
use regard_attn::scope::{
    Alignment, And, Blocks, Causal, Csr, Documents, Full, Given, Graph, Lengths, Or,
    PredictedCentre, SelfLoops, Window, Window2d,
};
use regard_attn::score::{
    Additive, Cosine, Distance, Dot, Gat, Gatv2, General, HeadScale, Location, Scaled, ScaledDot,
    Softcap,
};
use regard_attn::{At, Coverage, Dims, Item, Normaliser, Position, Scope, Score};
use regard_tensor::{Key, Real};
use regard_testkit::random_vec;

use crate::problem::{DIMS, ITEMS};

pub(crate) const SCORES: [&str; 12] = [
    "dot",
    "scaled_dot",
    "additive",
    "general",
    "cosine",
    "distance",
    "gat",
    "gatv2",
    "location",
    "softcap",
    "scaled",
    "head_scale",
];

/// Places in the table of the location score, which serves one key head.
const MAX_LEN: usize = 6;

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
        "location" => Box::new(Location { table: params, max_len: MAX_LEN, d_k }),
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
        "location" => MAX_LEN * d_k,
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
        Box::new(Sampled { key: Key::new(3) }),
    ]
}

/// The part of a scope of squares that lies over the items of `problem`, none of which is square.
#[derive(Debug)]
struct Inside<S>(S, &'static [At]);

const SQUARES: [At; 2] = [
    At { item: 0, head: 0, q_len: 5, kv_len: 5, q_offset: 0 },
    At { item: 1, head: 0, q_len: 5, kv_len: 5, q_offset: 0 },
];

impl<S: Scope> Scope for Inside<S> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn check(&self, _: &[Item]) -> Result<(), regard_attn::AttnError> {
        let item = |at: &At| Item {
            q_start: 0,
            q_len: at.q_len,
            kv_start: 0,
            kv_len: at.kv_len,
            q_offset: 0,
        };
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

/// Positions, some of them several times: the name in the catalogue and, behind a colon, which
/// variant.
pub(crate) const POSITIONS: [&str; 21] = [
    "none",
    "sinusoidal",
    "learned",
    "rotary",
    "rotary:half",
    "relative_bias",
    "relative_bias:back",
    "alibi",
    "shaw",
    "shaw:keys",
    "shaw:heads",
    "relative_2d",
    "relative_2d:line",
    "quadratic",
    "quadratic:line",
    "gaussian",
    "dense_bias",
    "dense_bias:keys",
    "dense_bias:queries",
    "chain",
    "chain:factors",
];

/// What a position must fit: sizes, and the numbers of queries and of keys of the items.
#[derive(Clone, Copy)]
pub(crate) struct Fit<'a> {
    pub(crate) dims: Dims,
    pub(crate) q_lens: &'a [usize],
    pub(crate) kv_lens: &'a [usize],
}

/// The sizes of `problem`.
pub(crate) const PROBLEM: Fit<'static> = Fit {
    dims: DIMS,
    q_lens: &[ITEMS[0].q_len, ITEMS[1].q_len],
    kv_lens: &[ITEMS[0].kv_len, ITEMS[1].kv_len],
};

/// Radius of the variants of Shaw's and of the 2-D position.
const RADII: [(&str, usize); 5] = [
    ("shaw", 2),
    ("shaw:keys", 50),
    ("shaw:heads", 1),
    ("relative_2d", 1),
    ("relative_2d:line", 2),
];

fn radius(name: &str) -> usize {
    RADII.iter().find(|(of, _)| *of == name).unwrap().1
}

/// The sizes of a given bias.
fn bias_sizes(name: &str, fit: Fit<'_>) -> [usize; 4] {
    let longest = |lens: &[usize]| *lens.iter().max().unwrap();
    let (items, heads) = (fit.q_lens.len(), fit.dims.n_heads);
    match name {
        "dense_bias" => [1, heads, longest(fit.q_lens) + 1, longest(fit.kv_lens)],
        "dense_bias:keys" => [items, 1, 1, longest(fit.kv_lens) + 2],
        _ => [items, heads, longest(fit.q_lens), 1],
    }
}

/// The positions of a chain.
fn links(name: &str) -> &'static [&'static str] {
    match name {
        "chain" => &["learned", "rotary", "gaussian", "relative_bias", "shaw", "rotary:half"],
        _ => &["gaussian", "alibi", "gaussian", "shaw:heads", "shaw"],
    }
}

/// Number of parameters of a position.
pub(crate) fn n_position_params(name: &str, fit: Fit<'_>) -> usize {
    let Dims { n_heads, d_k, d_v, .. } = fit.dims;
    match name {
        "learned" => 4,
        "relative_bias" => 8 * n_heads,
        "relative_bias:back" => 5 * n_heads,
        "shaw" => (2 * radius(name) + 1) * (d_k + d_v),
        "shaw:keys" | "relative_2d:line" => (2 * radius(name) + 1) * d_k,
        "shaw:heads" => n_heads * (2 * radius(name) + 1) * (d_k + d_v),
        "relative_2d" => (2 * radius(name) + 1) * (d_k / 2) * (1 + n_heads),
        "quadratic" | "quadratic:line" => 3 * n_heads,
        "gaussian" => fit.q_lens.iter().sum::<usize>() + 1,
        "dense_bias" | "dense_bias:keys" | "dense_bias:queries" => {
            bias_sizes(name, fit).iter().product()
        }
        "chain" | "chain:factors" => {
            links(name).iter().map(|link| n_position_params(link, fit)).sum()
        }
        _ => 0,
    }
}

/// Parameters for a position, of the order of one.
pub(crate) fn position_params(name: &str, fit: Fit<'_>) -> Vec<f64> {
    match name {
        "gaussian" => {
            let n = n_position_params(name, fit);
            let mut params: Vec<f64> =
                random_vec(6, n).iter().map(|centre| 1.5 + 2.0 * centre).collect();
            params[n - 1] = 1.3;
            params
        }
        "quadratic" | "quadratic:line" => {
            random_vec(6, n_position_params(name, fit)).iter().map(|x| 0.3 * x).collect()
        }
        "chain" | "chain:factors" => {
            links(name).iter().flat_map(|link| position_params(link, fit)).collect()
        }
        _ => random_vec(6, n_position_params(name, fit)),
    }
}

/// A position for these sizes; `params` is [`n_position_params`] long, `d_k` even.
pub(crate) fn position<'a, T: Real>(
    name: &str,
    params: &'a [T],
    fit: Fit<'_>,
) -> Box<dyn Position<T> + 'a> {
    let Dims { n_heads, d_k, .. } = fit.dims;
    let scale = T::from_f64(0.6);
    let grid = match name {
        "relative_2d:line" | "quadratic:line" => Grid::LINE,
        _ => Grid { query_width: 2, key_width: 3, top: 1, left: -1 },
    };
    match name {
        "none" => Box::new(NoPosition),
        "sinusoidal" => Box::new(Sinusoidal),
        "learned" => Box::new(Learned { table: params, max_len: 2, d: 2 }),
        "rotary" => Box::new(Rotary::new(7.0, RotaryLayout::Interleaved)),
        "rotary:half" => Box::new(Rotary::new(7.0, RotaryLayout::Half)),
        "relative_bias" | "relative_bias:back" => Box::new(RelativeBias {
            table: params,
            n_buckets: params.len() / n_heads,
            max_distance: 6,
            bidirectional: name == "relative_bias",
        }),
        "alibi" => Box::new(Alibi::new(n_heads)),
        "shaw" | "shaw:keys" | "shaw:heads" => {
            let heads = if name == "shaw:heads" { n_heads } else { 1 };
            let radius = radius(name);
            let (keys, values) = params.split_at(heads * (2 * radius + 1) * d_k);
            Box::new(Shaw { keys, values, radius, scale })
        }
        "relative_2d" | "relative_2d:line" => {
            let radius = radius(name);
            let (rows, columns) = params.split_at((2 * radius + 1) * (d_k / 2));
            Box::new(Relative2d { rows, columns, radius, grid, scale })
        }
        "quadratic" | "quadratic:line" => Box::new(Quadratic { params, grid }),
        "gaussian" => Box::new(Gaussian::new(params, fit.q_lens)),
        "dense_bias" | "dense_bias:keys" | "dense_bias:queries" => {
            Box::new(DenseBias { data: params, sizes: bias_sizes(name, fit) })
        }
        "chain" | "chain:factors" => {
            let mut rest = params;
            let each = links(name).iter().map(|link| {
                let (own, after) = rest.split_at(n_position_params(link, fit));
                rest = after;
                // A chain borrows its links; those of tests may stay for good.
                &*Box::leak(position(link, own, fit))
            });
            Box::new(Chain(Vec::leak(each.collect())))
        }
        _ => panic!("no position {name}"),
    }
}

/// Every position, for the sizes of `problem`.
pub(crate) fn positions() -> Vec<Box<dyn Position<f64>>> {
    let of = |name: &&str| -> Box<dyn Position<f64>> {
        position(name, Vec::leak(position_params(name, PROBLEM)), PROBLEM)
    };
    POSITIONS.iter().map(of).collect()
}
