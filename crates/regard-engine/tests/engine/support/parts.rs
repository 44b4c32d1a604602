//! Descriptions of the parts of a problem, and the parts made of them.
//!
//! A description holds what does not depend on the precision; the parameters stand in one list a part, in the
//! order of their gradient. A part borrows, so that it is handed to a function and lives as long as that.

use regard_attn::normaliser::{
    Entmax15, Hard, Identity, Normaliser, Sampled, Sigmoid, Softmax, Sparsemax, Temperature,
};
use regard_attn::position::{
    Alibi, Chain, DenseBias, Gaussian, Grid, Learned, NoPosition, Position, Quadratic, Relative2d,
    RelativeBias, Rotary, RotaryLayout, Shaw, Sinusoidal,
};
use regard_attn::scope::{
    Alignment, And, Blocks, Causal, Csr, Documents, EdgeRows, Full, Given, Graph, Lengths, Or,
    PredictedCentre, Scope, SelfLoops, Window, Window2d,
};
use regard_attn::score::{
    Additive, Cosine, Distance, Dot, Gat, Gatv2, General, HeadScale, Location, Scaled, ScaledDot,
    Score, Softcap,
};
use regard_attn::{At, Dims, Item};
use regard_tensor::{Key, Real};

/// Which score.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ScoreKind {
    Dot,
    ScaledDot,
    Additive,
    General,
    Cosine,
    Distance,
    Location { max_len: usize, per_head: bool },
    Gat { slope: f64 },
    Gatv2 { slope: f64 },
    Softcap(Box<ScoreKind>, f64),
    Scaled(Box<ScoreKind>, f64),
    HeadScale(Box<ScoreKind>),
}

impl ScoreKind {
    /// The score inside, for one that stands around another.
    pub(crate) fn inner(&self) -> Option<&Self> {
        match self {
            Self::Softcap(inner, _) | Self::Scaled(inner, _) | Self::HeadScale(inner) => {
                Some(inner)
            }
            _ => None,
        }
    }

    /// The innermost score.
    pub(crate) fn leaf(&self) -> &Self {
        self.inner().map_or(self, Self::leaf)
    }

    pub(crate) fn n_params(&self, dims: Dims) -> usize {
        let Dims { n_heads, n_kv_heads, d_k, .. } = dims;
        match self {
            Self::Additive | Self::Gatv2 { .. } => n_heads * d_k,
            Self::Gat { .. } => n_heads * 2 * d_k,
            Self::General => n_heads * d_k * d_k,
            Self::Location { max_len, per_head } => {
                max_len * d_k * if *per_head { n_kv_heads } else { 1 }
            }
            Self::Softcap(inner, _) | Self::Scaled(inner, _) => inner.n_params(dims),
            Self::HeadScale(inner) => inner.n_params(dims) + n_heads,
            Self::Dot | Self::ScaledDot | Self::Cosine | Self::Distance => 0,
        }
    }

    pub(crate) fn with<T: Real>(&self, params: &[T], dims: Dims, f: &mut dyn FnMut(&dyn Score<T>)) {
        match self {
            Self::Dot => f(&Dot),
            Self::ScaledDot => f(&ScaledDot::new(dims.d_k)),
            Self::Additive => f(&Additive { v: params }),
            Self::General => f(&General { w: params }),
            Self::Cosine => f(&Cosine),
            Self::Distance => f(&Distance),
            Self::Location { max_len, .. } => {
                f(&Location { table: params, max_len: *max_len, d_k: dims.d_k });
            }
            Self::Gat { slope } => f(&Gat { a: params, slope: T::from_f64(*slope) }),
            Self::Gatv2 { slope } => f(&Gatv2 { a: params, slope: T::from_f64(*slope) }),
            Self::Softcap(inner, cap) => inner.with(params, dims, &mut |inner| {
                f(&Softcap { inner, cap: T::from_f64(*cap) });
            }),
            Self::Scaled(inner, factor) => inner.with(params, dims, &mut |inner| {
                f(&Scaled { inner, factor: T::from_f64(*factor) });
            }),
            Self::HeadScale(inner) => {
                let (of_inner, factors) = params.split_at(inner.n_params(dims));
                inner.with(of_inner, dims, &mut |inner| f(&HeadScale { inner, factors }));
            }
        }
    }

    /// The catalogue's names, from the outside to the inside.
    pub(crate) fn names(&self, dims: Dims) -> Vec<&'static str> {
        let params = vec![0.0f64; self.n_params(dims)];
        let mut names = Vec::new();
        self.with(&params, dims, &mut |score| names.push(score.name()));
        names.extend(self.inner().map(|inner| inner.names(dims)).into_iter().flatten());
        names
    }
}

/// Which normaliser. Two are no members of the catalogue but such as a user may write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum NormaliserKind {
    Softmax,
    Temperature(f64),
    Sparsemax,
    Entmax15,
    Sigmoid,
    Identity,
    Hard,
    Sampled(Key),
    /// The softmax, but by whole rows.
    WholeSoftmax,
    /// a = s/4 + 0.785…: rows do not sum to one, and weights may be negative.
    Quarter,
}

impl NormaliserKind {
    pub(crate) fn with<T: Real>(self, f: &mut dyn FnMut(&dyn Normaliser<T>)) {
        match self {
            Self::Softmax => f(&Softmax),
            Self::Temperature(tau) => f(&Temperature::new(tau).expect("a temperature")),
            Self::Sparsemax => f(&Sparsemax),
            Self::Entmax15 => f(&Entmax15),
            Self::Sigmoid => f(&Sigmoid),
            Self::Identity => f(&Identity),
            Self::Hard => f(&Hard),
            Self::Sampled(key) => f(&Sampled { key }),
            Self::WholeSoftmax => f(&WholeSoftmax),
            Self::Quarter => f(&Quarter),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        let mut name = "";
        self.with::<f64>(&mut |normaliser| name = normaliser.name());
        name
    }

    /// Whether rows sum to one, so that there is an entropy.
    pub(crate) fn sums_to_one(self) -> bool {
        !matches!(self, Self::Sigmoid | Self::Identity | Self::Quarter)
    }

    /// Whether it chooses a key, so that there is a log-probability.
    pub(crate) fn picks(self) -> bool {
        matches!(self, Self::Hard | Self::Sampled(_))
    }
}

#[derive(Debug)]
struct WholeSoftmax;

impl<T: Real> Normaliser<T> for WholeSoftmax {
    fn name(&self) -> &'static str {
        "softmax by whole rows"
    }
    fn rows_sum_to_one(&self) -> bool {
        true
    }
    fn row(&self, row: &mut [T]) -> T {
        Softmax.row(row)
    }
    fn row_backward(&self, weights: &[T], dweights: &mut [T]) {
        Softmax.row_backward(weights, dweights);
    }
}

#[derive(Debug)]
struct Quarter;

/// What [`NormaliserKind::Quarter`] adds: no score of the tests is its negative quarter.
pub(crate) const SHIFT: f64 = 0.785_398_125_648_498_5;

impl<T: Real> Normaliser<T> for Quarter {
    fn name(&self) -> &'static str {
        "quarter"
    }
    fn rows_sum_to_one(&self) -> bool {
        false
    }
    fn row(&self, row: &mut [T]) -> T {
        let nothing = row.iter().all(|s| *s == T::NEG_INFINITY);
        for s in row {
            let weight = *s * T::from_f64(0.25) + T::from_f64(SHIFT);
            *s = if *s == T::NEG_INFINITY { T::ZERO } else { weight };
        }
        if nothing { T::NEG_INFINITY } else { T::ZERO }
    }
    /// What it leaves at forbidden pairs is junk, which no one may look at.
    fn row_backward(&self, weights: &[T], dweights: &mut [T]) {
        for (a, d) in weights.iter().zip(dweights) {
            *d *= T::from_f64(if *a == T::ZERO { f64::NAN } else { 0.25 });
        }
    }
}

/// A scope that gives no hints, so that every tile is visited and partial.
#[derive(Debug)]
struct WithoutHints<'a>(&'a dyn Scope);

impl Scope for WithoutHints<'_> {
    fn name(&self) -> &'static str {
        "without hints"
    }
    fn check(&self, items: &[Item]) -> Result<(), regard_attn::AttnError> {
        self.0.check(items)
    }
    fn allows(&self, at: At, query: usize, key: usize) -> bool {
        self.0.allows(at, query, key)
    }
}

/// Which scope.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ScopeKind {
    Full,
    Lengths(Vec<usize>),
    Causal(Alignment),
    Window(Window),
    Window2d(Window2d),
    PredictedCentre {
        centres: Vec<Vec<f64>>,
        radius: usize,
    },
    Blocks(usize),
    /// The lengths of the documents of each item.
    Documents(Vec<Vec<usize>>),
    /// One graph, or one for each item.
    Graph(Vec<EdgeRows>, SelfLoops),
    /// One mask, or one for each item.
    Given(Vec<Vec<bool>>),
    And(Vec<ScopeKind>),
    Or(Vec<ScopeKind>),
    WithoutHints(Box<ScopeKind>),
}

impl ScopeKind {
    /// The scopes inside.
    pub(crate) fn inner(&self) -> &[Self] {
        match self {
            Self::And(members) | Self::Or(members) => members,
            Self::WithoutHints(inner) => std::slice::from_ref(inner),
            _ => &[],
        }
    }

    pub(crate) fn with(&self, f: &mut dyn FnMut(&dyn Scope)) {
        match self {
            Self::Full => f(&Full),
            Self::Lengths(kv) => f(&Lengths { kv }),
            Self::Causal(alignment) => f(&Causal { alignment: *alignment }),
            Self::Window(window) => f(window),
            Self::Window2d(window) => f(window),
            Self::PredictedCentre { centres, radius } => {
                let centres: Vec<&[f64]> = centres.iter().map(Vec::as_slice).collect();
                f(&PredictedCentre { centres: &centres, radius: *radius });
            }
            Self::Blocks(size) => f(&Blocks { size: *size }),
            Self::Documents(lengths) => {
                let lengths: Vec<&[usize]> = lengths.iter().map(Vec::as_slice).collect();
                f(&Documents::from_lengths(&lengths));
            }
            Self::Graph(graphs, self_loops) => {
                let graphs: Vec<Csr<'_>> = graphs.iter().map(EdgeRows::csr).collect();
                f(&Graph { graphs: &graphs, self_loops: *self_loops });
            }
            Self::Given(masks) => {
                let masks: Vec<&[bool]> = masks.iter().map(Vec::as_slice).collect();
                f(&Given { allowed: &masks });
            }
            Self::And(members) => Self::with_all(members, &[], &mut |all| f(&And(all))),
            Self::Or(members) => Self::with_all(members, &[], &mut |all| f(&Or(all))),
            Self::WithoutHints(inner) => inner.with(&mut |inner| f(&WithoutHints(inner))),
        }
    }

    fn with_all(kinds: &[Self], done: &[&dyn Scope], f: &mut dyn FnMut(&[&dyn Scope])) {
        match kinds {
            [] => f(done),
            [first, rest @ ..] => first.with(&mut |scope| {
                let mut done = done.to_vec();
                done.push(scope);
                Self::with_all(rest, &done, f);
            }),
        }
    }

    /// The catalogue's names, each scope before those inside.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        if !matches!(self, Self::WithoutHints(_)) {
            self.with(&mut |scope| names.push(scope.name()));
        }
        names.extend(self.inner().iter().flat_map(Self::names));
        names
    }
}

/// Which position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PositionKind {
    None,
    Sinusoidal,
    Learned {
        max_len: usize,
        d: usize,
    },
    /// With the sines of so many positions kept.
    Rotary {
        base: f64,
        layout: RotaryLayout,
        kept: usize,
    },
    RelativeBias {
        n_buckets: usize,
        max_distance: usize,
        bidirectional: bool,
    },
    /// The slopes of the paper, or these.
    Alibi(Option<Vec<f64>>),
    /// Whether r^K has a table for each head; the same of r^V, if there is one.
    Shaw {
        radius: usize,
        scale: f64,
        keys_per_head: bool,
        values_per_head: Option<bool>,
    },
    Relative2d {
        radius: usize,
        grid: Grid,
        scale: f64,
        per_head: [bool; 2],
    },
    Quadratic(Grid),
    Gaussian,
    DenseBias([usize; 4]),
    Chain(Vec<PositionKind>),
}

impl PositionKind {
    /// Lengths of the two tables that some positions have: all of their parameters.
    pub(crate) fn tables(&self, dims: Dims) -> (usize, usize) {
        let when = |per_head: bool| if per_head { dims.n_heads } else { 1 };
        match self {
            Self::Shaw { radius, keys_per_head, values_per_head, .. } => {
                let n = 2 * radius + 1;
                let values = values_per_head.map_or(0, |per_head| n * dims.d_v * when(per_head));
                (n * dims.d_k * when(*keys_per_head), values)
            }
            Self::Relative2d { radius, per_head, .. } => {
                let n = (2 * radius + 1) * (dims.d_k / 2);
                (n * when(per_head[0]), n * when(per_head[1]))
            }
            _ => (0, 0),
        }
    }

    pub(crate) fn n_params(&self, dims: Dims, items: &[Item]) -> usize {
        match self {
            Self::None | Self::Sinusoidal | Self::Rotary { .. } | Self::Alibi(_) => 0,
            Self::Learned { max_len, d } => max_len * d,
            Self::RelativeBias { n_buckets, .. } => n_buckets * dims.n_heads,
            Self::Shaw { .. } | Self::Relative2d { .. } => {
                let (a, b) = self.tables(dims);
                a + b
            }
            Self::Quadratic(_) => 3 * dims.n_heads,
            Self::Gaussian => items.iter().map(|item| item.q_len).sum::<usize>() + 1,
            Self::DenseBias(sizes) => sizes.iter().product(),
            Self::Chain(members) => members.iter().map(|one| one.n_params(dims, items)).sum(),
        }
    }

    pub(crate) fn with<T: Real>(
        &self,
        params: &[T],
        dims: Dims,
        items: &[Item],
        f: &mut dyn FnMut(&dyn Position<T>),
    ) {
        let (first, second) = params.split_at(self.tables(dims).0);
        match self {
            Self::None => f(&NoPosition),
            Self::Sinusoidal => f(&Sinusoidal),
            Self::Learned { max_len, d } => f(&Learned { table: params, max_len: *max_len, d: *d }),
            Self::Rotary { base, layout, kept } => {
                f(&Rotary::new(*base, *layout).with_table(dims.d_k, *kept));
            }
            Self::RelativeBias { n_buckets, max_distance, bidirectional } => f(&RelativeBias {
                table: params,
                n_buckets: *n_buckets,
                max_distance: *max_distance,
                bidirectional: *bidirectional,
            }),
            Self::Alibi(None) => f(&Alibi::new(dims.n_heads)),
            Self::Alibi(Some(slopes)) => f(&Alibi::with_slopes(slopes.clone())),
            Self::Shaw { radius, scale, .. } => f(&Shaw {
                keys: first,
                values: second,
                radius: *radius,
                scale: T::from_f64(*scale),
            }),
            Self::Relative2d { radius, grid, scale, .. } => f(&Relative2d {
                rows: first,
                columns: second,
                radius: *radius,
                grid: *grid,
                scale: T::from_f64(*scale),
            }),
            Self::Quadratic(grid) => f(&Quadratic { params, grid: *grid }),
            Self::Gaussian => {
                let q_lens: Vec<usize> = items.iter().map(|item| item.q_len).collect();
                f(&Gaussian::new(params, &q_lens));
            }
            Self::DenseBias(sizes) => f(&DenseBias { data: params, sizes: *sizes }),
            Self::Chain(members) => {
                Self::with_all(members, params, dims, items, &[], &mut |all| f(&Chain(all)));
            }
        }
    }

    fn with_all<T: Real>(
        kinds: &[Self],
        params: &[T],
        dims: Dims,
        items: &[Item],
        done: &[&dyn Position<T>],
        f: &mut dyn FnMut(&[&dyn Position<T>]),
    ) {
        match kinds {
            [] => f(done),
            [first, rest @ ..] => {
                let (own, others) = params.split_at(first.n_params(dims, items));
                first.with(own, dims, items, &mut |position| {
                    let mut done = done.to_vec();
                    done.push(position);
                    Self::with_all(rest, others, dims, items, &done, f);
                });
            }
        }
    }

    /// This position, or those of the chain, each with the place of its first parameter.
    pub(crate) fn members(&self, dims: Dims, items: &[Item]) -> Vec<(&Self, usize)> {
        let Self::Chain(members) = self else { return vec![(self, 0)] };
        let mut first = 0;
        let place = |one| {
            let place = (one, first);
            first += Self::n_params(one, dims, items);
            place
        };
        members.iter().map(place).collect()
    }

    /// The catalogue's names, the chain before its members.
    pub(crate) fn names(&self, dims: Dims, items: &[Item]) -> Vec<&'static str> {
        let params = vec![0.0f64; self.n_params(dims, items)];
        let mut names = Vec::new();
        self.with(&params, dims, items, &mut |position| names.push(position.name()));
        if let Self::Chain(members) = self {
            names.extend(members.iter().flat_map(|one| one.names(dims, items)));
        }
        names
    }
}
