//! Problems drawn from a seed: any score, normaliser, scope and position with any sizes that they can serve.

use regard_attn::position::{Grid, RotaryLayout};
use regard_attn::scope::{Alignment, EdgeRows, SelfLoops, Window, Window2d};
use regard_attn::{Dims, Dropout, Item, Wanted};
use regard_tensor::Key;
use regard_testkit::EDGE_SIZES;

use super::parts::{NormaliserKind, PositionKind, ScopeKind, ScoreKind};
use super::{GradLayout, Layout, Problem};

/// Random numbers one after the other.
#[derive(Debug)]
pub(crate) struct Draw {
    key: Key,
    next: u32,
}

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self { key: Key::new(seed).named("problem"), next: 0 }
    }

    fn address(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// From 0 up to `n`, which is left out.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let address = self.address();
        self.key.below(address, n as u32) as usize
    }

    /// From `least` to `most`, both included.
    pub(crate) fn within(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        let address = self.address();
        f64::from(self.key.uniform(address)) < probability
    }

    pub(crate) fn pick<X: Copy>(&mut self, of: &[X]) -> X {
        of[self.below(of.len())]
    }

    pub(crate) fn key(&mut self) -> Key {
        let address = self.address();
        self.key.child(u64::from(address))
    }

    /// In [−size, size), exact in f32.
    pub(crate) fn number(&mut self, size: f64) -> f64 {
        let address = self.address();
        f64::from(((f64::from(self.key.uniform(address)) * 2.0 - 1.0) * size) as f32)
    }

    pub(crate) fn numbers(&mut self, n: usize, size: f64) -> Vec<f64> {
        (0..n).map(|_| self.number(size)).collect()
    }

    /// In [least, most), exact in f32.
    fn between(&mut self, least: f64, most: f64) -> f64 {
        let (middle, half) = (f64::midpoint(least, most), (most - least) / 2.0);
        f64::from((middle + self.number(half)) as f32)
    }

    /// Around the borders of lanes and tiles, up to 130.
    fn edge(&mut self) -> usize {
        if self.chance(0.6) { self.pick(&EDGE_SIZES) } else { self.below(131) }
    }

    pub(crate) fn score_params(&mut self, score: &ScoreKind, dims: Dims) -> Vec<f64> {
        match score {
            ScoreKind::HeadScale(inner) => {
                let mut params = self.score_params(inner, dims);
                params.extend((0..dims.n_heads).map(|_| self.between(-2.0, 3.0)));
                params
            }
            ScoreKind::Softcap(inner, _) | ScoreKind::Scaled(inner, _) => {
                self.score_params(inner, dims)
            }
            _ => self.numbers(score.n_params(dims), 1.0),
        }
    }

    pub(crate) fn position_params(
        &mut self,
        position: &PositionKind,
        dims: Dims,
        items: &[Item],
    ) -> Vec<f64> {
        match position {
            PositionKind::Quadratic(_) => {
                let head =
                    |draw: &mut Self| [draw.number(0.25), draw.number(3.0), draw.number(3.0)];
                (0..dims.n_heads).flat_map(|_| head(self)).collect()
            }
            PositionKind::Gaussian => {
                let mut params = Vec::new();
                for item in items {
                    let end = item.kv_len as f64 + 4.0;
                    params.extend((0..item.q_len).map(|_| self.between(-4.0, end)));
                }
                params.push(self.between(0.5, 25.0));
                params
            }
            PositionKind::Chain(members) => {
                let params = members.iter().map(|one| self.position_params(one, dims, items));
                params.collect::<Vec<_>>().concat()
            }
            _ => self.numbers(position.n_params(dims, items), 1.0),
        }
    }

    fn leaf_score(&mut self, max_len: usize) -> ScoreKind {
        match self.below(9) {
            0 => ScoreKind::Dot,
            1 => ScoreKind::ScaledDot,
            2 => ScoreKind::Additive,
            3 => ScoreKind::General,
            4 => ScoreKind::Cosine,
            5 => ScoreKind::Distance,
            6 => {
                let (max_len, per_head) = (max_len + self.below(3), self.chance(0.5));
                ScoreKind::Location { max_len, per_head }
            }
            7 => ScoreKind::Gat { slope: self.slope() },
            _ => ScoreKind::Gatv2 { slope: self.slope() },
        }
    }

    /// Of a LeakyReLU, exact in f32.
    fn slope(&mut self) -> f64 {
        f64::from(self.pick(&[0.2f32, 0.2, 0.0, 1.0, -0.5]))
    }

    fn score(&mut self, max_len: usize) -> ScoreKind {
        let mut score = self.leaf_score(max_len);
        let layers = self.pick(&[0, 0, 0, 1, 1, 2]);
        for _ in 0..layers {
            let inner = Box::new(score);
            score = match self.below(3) {
                0 => ScoreKind::Softcap(inner, self.between(0.5, 20.0)),
                1 => ScoreKind::Scaled(inner, self.between(-1.0, 4.0)),
                _ => ScoreKind::HeadScale(inner),
            };
        }
        score
    }

    fn normaliser(&mut self) -> NormaliserKind {
        match self.below(100) {
            0..24 => NormaliserKind::Softmax,
            24..31 => NormaliserKind::Temperature(self.pick(&[0.1, 0.5, 0.93, 2.0, 7.0])),
            31..33 => NormaliserKind::Temperature(self.pick(&[1e-6, 1e-3, 1e6])),
            33..40 => NormaliserKind::Temperature(self.pick(&[1e-30, 1e-8, 5e-7, 2e6, 1e9, 1e12])),
            40..51 => NormaliserKind::Sparsemax,
            51..62 => NormaliserKind::Entmax15,
            62..70 => NormaliserKind::Sigmoid,
            70..78 => NormaliserKind::Identity,
            78..86 => NormaliserKind::Hard,
            86..94 => NormaliserKind::Sampled(self.key()),
            94..97 => NormaliserKind::WholeSoftmax,
            _ => NormaliserKind::Quarter,
        }
    }

    fn grid(&mut self) -> Grid {
        let width = self.within(1, 14);
        match self.below(4) {
            0 => Grid::LINE,
            1 => Grid::same(width),
            2 => Grid::padded(width, self.within(0, 3)),
            _ => Grid {
                query_width: width,
                key_width: self.within(1, 20),
                top: self.within(0, 8) as i64 - 4,
                left: self.within(0, 8) as i64 - 4,
            },
        }
    }

    fn leaf_position(&mut self, dims: Dims, items: &[Item]) -> PositionKind {
        let Dims { n_heads, d_k, .. } = dims;
        let scale = if self.chance(0.5) { 1.0 } else { f64::from(1.0 / (d_k as f32).sqrt()) };
        let radius = self.within(0, 24);
        match self.below(24) {
            0..2 => PositionKind::None,
            2..4 => PositionKind::Sinusoidal,
            4..6 => PositionKind::Learned { max_len: 3, d: 2 },
            6..9 => PositionKind::Rotary {
                base: self.pick(&[10000.0, 100.0, 3.0]),
                layout: self.pick(&[RotaryLayout::Half, RotaryLayout::Interleaved]),
                kept: self.pick(&[0, 40, 200]),
            },
            9..11 => {
                let (n_buckets, max_distance, bidirectional) =
                    self.pick(&[(8, 20, true), (32, 128, true), (2, 5, false), (16, 64, false)]);
                PositionKind::RelativeBias { n_buckets, max_distance, bidirectional }
            }
            11..13 => {
                let own = self.chance(0.3).then(|| self.numbers(n_heads, 0.5));
                PositionKind::Alibi(own)
            }
            13..15 => PositionKind::Shaw {
                radius,
                scale,
                keys_per_head: self.chance(0.5),
                values_per_head: self.pick(&[None, Some(false), Some(true)]),
            },
            15..17 => PositionKind::Relative2d {
                radius,
                grid: self.grid(),
                scale,
                per_head: [self.chance(0.5), self.chance(0.5)],
            },
            17..19 => PositionKind::Quadratic(self.grid()),
            19..22 => PositionKind::Gaussian,
            _ => {
                let most = |len: fn(&Item) -> usize| items.iter().map(len).max().unwrap_or(0);
                let (q_len, kv_len) = (most(|item| item.q_len), most(|item| item.kv_len));
                let mut axis = |n: usize, more: usize| {
                    if self.chance(0.4) { 1 } else { n + self.below(more + 1) }
                };
                PositionKind::DenseBias([
                    axis(items.len(), 0),
                    axis(n_heads, 0),
                    axis(q_len, 2),
                    axis(kv_len, 2),
                ])
            }
        }
    }

    fn position(&mut self, dims: Dims, items: &[Item]) -> PositionKind {
        if self.chance(0.16) {
            let members = self.within(2, 3);
            return PositionKind::Chain(
                (0..members).map(|_| self.leaf_position(dims, items)).collect(),
            );
        }
        self.leaf_position(dims, items)
    }

    fn layout(&mut self) -> Layout {
        Layout { heads_first: self.chance(0.4), gap: self.pick(&[0, 0, 1, 3]) }
    }
}

/// A scope of which the members are known, but not their numbers.
#[derive(Debug)]
enum Plan {
    Full,
    Lengths,
    Causal(Alignment),
    Window,
    Window2d,
    PredictedCentre,
    Blocks,
    Documents,
    Graph(SelfLoops),
    Given,
    And(Vec<Plan>),
    Or(Vec<Plan>),
}

/// What a scope asks of the items.
#[derive(Debug, Clone, Copy, Default)]
struct Demands {
    /// As many queries as keys.
    square: bool,
    /// No offset.
    at_start: bool,
    /// Lengths are multiples.
    multiple: Option<usize>,
}

impl Plan {
    fn leaf(draw: &mut Draw) -> Self {
        match draw.below(10) {
            0 => Self::Full,
            1 => Self::Lengths,
            2 => Self::Causal(draw.pick(&[
                Alignment::TopLeft,
                Alignment::BottomRight,
                Alignment::Square,
            ])),
            3 => Self::Window,
            4 => Self::Window2d,
            5 => Self::PredictedCentre,
            6 => Self::Blocks,
            7 => Self::Documents,
            8 => Self::Graph(draw.pick(&[SelfLoops::AsGiven, SelfLoops::Added])),
            _ => Self::Given,
        }
    }

    fn new(draw: &mut Draw, depth: usize) -> Self {
        if depth == 0 || draw.chance(0.62) {
            return Self::leaf(draw);
        }
        let members = draw.pick(&[1, 2, 2, 2, 3]);
        let is_and = draw.chance(0.5);
        let members = (0..members).map(|_| Self::new(draw, depth - 1)).collect();
        if is_and { Self::And(members) } else { Self::Or(members) }
    }

    /// Few keys a query.
    fn narrow(draw: &mut Draw) -> Self {
        let narrow = |draw: &mut Draw| if draw.chance(0.6) { Self::Window } else { Self::Blocks };
        match draw.below(4) {
            0 => Self::And(vec![narrow(draw), Self::leaf(draw)]),
            1 => Self::Or(vec![narrow(draw), narrow(draw)]),
            2 => Self::PredictedCentre,
            _ => narrow(draw),
        }
    }

    fn demands(&self, draw: &mut Draw, demands: &mut Demands) {
        match self {
            Self::Documents | Self::Graph(SelfLoops::Added) => demands.square = true,
            Self::Causal(Alignment::Square) => (demands.square, demands.at_start) = (true, true),
            Self::Window2d => {
                let width = demands.multiple.unwrap_or_else(|| draw.within(1, 12));
                demands.multiple = Some(width);
            }
            Self::And(members) | Self::Or(members) => {
                for member in members {
                    member.demands(draw, demands);
                }
            }
            _ => {}
        }
    }

    fn finish(&self, draw: &mut Draw, items: &[Item], demands: Demands) -> ScopeKind {
        let alike = items
            .windows(2)
            .all(|pair| (pair[0].q_len, pair[0].kv_len) == (pair[1].q_len, pair[1].kv_len));
        // One mask or graph for all items, where that is possible.
        let one = !items.is_empty() && alike && draw.chance(0.5);
        let own = if one { &items[..1] } else { items };
        match self {
            Self::Full => ScopeKind::Full,
            Self::Lengths => {
                ScopeKind::Lengths(items.iter().map(|item| draw.within(0, item.kv_len)).collect())
            }
            Self::Causal(alignment) => ScopeKind::Causal(*alignment),
            Self::Window => {
                let most = draw.pick(&[0, 1, 3, 20, 20, 70, 70, 130, 130]);
                let mut side = || {
                    if draw.chance(0.1) { usize::MAX } else { draw.within(0, most) }
                };
                ScopeKind::Window(Window { left: side(), right: side() })
            }
            Self::Window2d => ScopeKind::Window2d(Window2d {
                width: demands.multiple.unwrap_or(1),
                radius: draw.pick(&[0, 1, 1, 2, 2, 3, 4, 4]),
            }),
            Self::PredictedCentre => {
                let centres = items.iter().map(|item| {
                    let end = item.kv_len as f64 + 3.0;
                    // Now and then in order, as alignments mostly are.
                    let rises = draw.chance(0.5);
                    let centre = |i: usize| {
                        let along = end * i as f64 / item.q_len as f64;
                        if rises { along + draw.number(2.0) } else { draw.between(-3.0, end) }
                    };
                    (0..item.q_len).map(centre).collect()
                });
                let centres = centres.collect();
                ScopeKind::PredictedCentre { centres, radius: draw.within(0, 20) }
            }
            Self::Blocks => ScopeKind::Blocks(draw.pick(&[1, 5, 16, 16, 50, 64, 64, 100])),
            Self::Documents => {
                let documents = items.iter().map(|item| {
                    let (mut left, mut lengths) = (item.kv_len, Vec::new());
                    while left > 0 {
                        let length = draw.within(0, left.min(90));
                        lengths.push(length);
                        left -= length;
                    }
                    lengths
                });
                ScopeKind::Documents(documents.collect())
            }
            Self::Graph(self_loops) => {
                let graphs = own.iter().map(|item| {
                    let mut edges = Vec::new();
                    let density = draw.pick(&[0.0, 0.02, 0.1, 0.4]);
                    for i in 0..item.q_len {
                        // Some queries have no edge at all.
                        let density = if draw.chance(0.1) { 0.0 } else { density };
                        edges.extend(
                            (0..item.kv_len).filter(|_| draw.chance(density)).map(|j| (i, j)),
                        );
                    }
                    draw.key().shuffle(&mut edges);
                    EdgeRows::new(item.q_len, &edges).expect("edges of the item, each once")
                });
                ScopeKind::Graph(graphs.collect(), *self_loops)
            }
            Self::Given => {
                let masks = own.iter().map(|item| {
                    let density = draw.pick(&[0.03, 0.5, 0.9, 1.0]);
                    // Whole stretches alike, so that there are tiles of all kinds.
                    let stretch = draw.pick(&[1, 1, 16, 64]);
                    let columns = item.kv_len.div_ceil(stretch).max(1);
                    let mut mask = Vec::with_capacity(item.q_len * item.kv_len);
                    for _ in 0..item.q_len {
                        let row: Vec<bool> = (0..columns).map(|_| draw.chance(density)).collect();
                        mask.extend((0..item.kv_len).map(|j| row[j / stretch]));
                    }
                    mask
                });
                ScopeKind::Given(masks.collect())
            }
            Self::And(members) => ScopeKind::And(
                members.iter().map(|member| member.finish(draw, items, demands)).collect(),
            ),
            Self::Or(members) => ScopeKind::Or(
                members.iter().map(|member| member.finish(draw, items, demands)).collect(),
            ),
        }
    }
}

/// What the sizes are about.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Size {
    /// Around lanes and tiles.
    Edges,
    /// Over two borders of tiles at least.
    Crossing,
    /// More than a thousand rows in all heads of a key head, so that backward cuts them in pieces.
    Long,
    /// Hundreds of tiny items.
    Crowd,
}

/// (q_len, kv_len) over two borders of tiles.
fn crossing(draw: &mut Draw, square: bool) -> (usize, usize) {
    if square {
        let n = draw.within(129, 200);
        return (n, n);
    }
    match draw.below(10) {
        // A query against a cache.
        0 => (1, draw.within(129, 300)),
        1..4 => (draw.edge().max(1), draw.within(129, 210)),
        4..8 => (draw.within(97, 200), draw.within(65, 150)),
        _ => (draw.within(193, 260), draw.edge().clamp(1, 70)),
    }
}

/// (q_len, kv_len) of all items.
fn lengths(draw: &mut Draw, size: Size, square: bool, group: usize) -> Vec<(usize, usize)> {
    let small = |draw: &mut Draw, most: usize| {
        let (q_len, kv_len) = (draw.edge().min(most), draw.edge().min(most));
        if square { (kv_len, kv_len) } else { (q_len, kv_len) }
    };
    match size {
        Size::Edges => {
            let n = draw.pick(&[0, 1, 1, 1, 2, 2, 3, 4]);
            if n > 1 && draw.chance(0.2) {
                return vec![small(draw, 70); n];
            }
            let most = if n > 2 { 70 } else { 130 };
            (0..n).map(|_| small(draw, most)).collect()
        }
        Size::Crossing => {
            let mut lengths: Vec<_> =
                (0..draw.pick(&[0, 0, 0, 1, 2])).map(|_| small(draw, 40)).collect();
            let place = draw.within(0, lengths.len());
            lengths.insert(place, crossing(draw, square));
            lengths
        }
        Size::Long => {
            let q_len = draw.within(1024, 1250).div_ceil(group);
            vec![(q_len, if square { q_len } else { draw.within(100, q_len) })]
        }
        Size::Crowd => (0..draw.within(257, 400)).map(|_| small(draw, 4)).collect(),
    }
}

/// Places items in the arrays, with gaps between them.
fn place(draw: &mut Draw, lengths: &[(usize, usize)], demands: Demands) -> Vec<Item> {
    let gaps = if draw.chance(0.4) { 3 } else { 0 };
    let (mut q, mut kv) = (0, 0);
    let mut items = Vec::new();
    for &(q_len, kv_len) in lengths {
        let round = |len: usize| demands.multiple.map_or(len, |width| len.next_multiple_of(width));
        let (q_len, kv_len) = (round(q_len), round(kv_len));
        let q_offset = match draw.below(10) {
            _ if demands.at_start => 0,
            0..2 => draw.within(0, 80),
            2..5 => kv_len.saturating_sub(q_len),
            _ => 0,
        };
        let (q_start, kv_start) = (q + draw.within(0, gaps), kv + draw.within(0, gaps));
        items.push(Item { q_start, q_len, kv_start, kv_len, q_offset });
        (q, kv) = (q_start + q_len, kv_start + kv_len);
    }
    if draw.chance(0.15) {
        // Items need not come in the order of their rows.
        draw.key().shuffle(&mut items);
    }
    items
}

/// The problem of a seed.
pub(crate) fn draw(seed: u64) -> Problem {
    let draw = &mut Draw::new(seed);
    let size = match draw.below(100) {
        0..54 => Size::Crossing,
        54..57 => Size::Long,
        57..59 => Size::Crowd,
        _ => Size::Edges,
    };
    let heads = match size {
        Size::Long => &[(1, 1), (2, 1), (4, 1)][..],
        Size::Crowd => &[(1, 1), (2, 2)][..],
        _ => &[(1, 1), (1, 1), (2, 2), (2, 1), (3, 1), (4, 2)][..],
    };
    let heads = draw.pick(heads);

    let mut plan = if size == Size::Long { Plan::narrow(draw) } else { Plan::new(draw, 2) };
    if size == Size::Crowd && draw.chance(0.5) {
        plan = Plan::Full;
    }
    let mut demands = Demands::default();
    plan.demands(draw, &mut demands);
    let square = demands.square || draw.chance(0.3);
    let lengths = lengths(draw, size, square, heads.0 / heads.1);
    let items = place(draw, &lengths, demands);
    let mut scope = plan.finish(draw, &items, demands);
    if draw.chance(0.12) {
        scope = ScopeKind::WithoutHints(Box::new(scope));
    }

    let widest = if matches!(size, Size::Long | Size::Crowd) { 4 } else { 33 };
    let mut problem = parts(draw, heads, items, widest);
    problem.seed = Some(seed);
    problem.scope = scope;
    special_rows(draw, &mut problem);
    forbid_by_bias(draw, &mut problem);
    if draw.chance(0.3) {
        problem.dropout = Some(Dropout { rate: draw.number(0.45) + 0.45, key: draw.key() });
    }
    looks(draw, &mut problem);
    if draw.chance(0.5) {
        problem.layouts = [0; 4].map(|_| draw.layout());
        problem.grad_layout =
            draw.pick(&[GradLayout::Separate, GradLayout::KeyValue, GradLayout::Fused]);
    }
    problem.add_gradients = draw.chance(0.5);
    problem
}

/// A problem with these items and a full scope, without dropout, in which the loss looks at contexts alone; its
/// score, normaliser and position are those of the seed.
pub(crate) fn draw_parts(seed: u64, items: Vec<Item>) -> Problem {
    let draw = &mut Draw::new(seed);
    let heads = draw.pick(&[(1, 1), (2, 1), (4, 2)]);
    let mut problem = parts(draw, heads, items, 12);
    problem.seed = Some(seed);
    problem
}

/// Draws score, normaliser and position for these items, and the arrays.
fn parts(
    draw: &mut Draw,
    (n_heads, n_kv_heads): (usize, usize),
    items: Vec<Item>,
    widest: usize,
) -> Problem {
    let max_len = items.iter().map(|item| item.kv_len).max().unwrap_or(0);
    let score = draw.score(max_len);
    let of_score = match score.leaf() {
        ScoreKind::General => 8,
        ScoreKind::Additive => 12,
        _ => 33,
    };
    let mut width = |most: usize| {
        let width = if draw.chance(0.8) { draw.within(1, 11) } else { draw.within(15, 33) };
        width.min(most)
    };
    let (d_k, d_v) = (width(widest.min(of_score)), width(widest));
    let mut dims = Dims { n_heads, n_kv_heads, d_k, d_v };
    let position = draw.position(dims, &items);
    let halves = |one: &PositionKind| {
        matches!(one, PositionKind::Rotary { .. } | PositionKind::Relative2d { .. })
    };
    if position.members(dims, &items).iter().any(|(one, _)| halves(one)) {
        dims.d_k = dims.d_k.next_multiple_of(2);
    }

    let mut problem = Problem::with_dims(ScoreKind::Dot, dims, items);
    problem.score = score;
    problem.normaliser = draw.normaliser();
    let sizes = if draw.chance(0.03) {
        [64.0, 1.0]
    } else {
        [0; 2].map(|_| draw.pick(&[0.25, 1.0, 1.0, 2.0, 4.0]))
    };
    problem.fill(draw, sizes);
    problem.position_params = draw.position_params(&position, dims, &problem.items);
    problem.position = position;
    problem
}

/// Zero vectors, keys that equal a query, keys that equal each other.
fn special_rows(draw: &mut Draw, problem: &mut Problem) {
    let Dims { n_heads, n_kv_heads, d_k, .. } = problem.dims;
    for item in problem.items.clone() {
        if item.q_len == 0 || item.kv_len == 0 || !draw.chance(0.3) {
            continue;
        }
        let query = (item.q_start + draw.below(item.q_len)) * n_heads + draw.below(n_heads);
        let key = (item.kv_start + draw.below(item.kv_len)) * n_kv_heads + draw.below(n_kv_heads);
        let other = (item.kv_start + draw.below(item.kv_len)) * n_kv_heads + draw.below(n_kv_heads);
        let row = |n: usize| n * d_k..(n + 1) * d_k;
        match draw.below(4) {
            0 => problem.q[row(query)].fill(0.0),
            1 => problem.k[row(key)].fill(0.0),
            2 => problem.k[row(key)].copy_from_slice(&problem.q[row(query)]),
            _ => problem.k.copy_within(row(other), row(key).start),
        }
    }
}

/// Makes some entries of a dense bias −∞.
fn forbid_by_bias(draw: &mut Draw, problem: &mut Problem) {
    let (dims, items) = (problem.dims, &problem.items);
    let members = problem.position.members(dims, items);
    for (member, first) in members {
        if let PositionKind::DenseBias(_) = member
            && !matches!(problem.normaliser, NormaliserKind::Quarter | NormaliserKind::Identity)
            && draw.chance(0.3)
        {
            let n = member.n_params(dims, items);
            for b in &mut problem.position_params[first..first + n] {
                if draw.chance(0.1) {
                    *b = f64::NEG_INFINITY;
                }
            }
        }
    }
}

/// What the loss looks at and what is wanted of the weights.
pub(crate) fn looks(draw: &mut Draw, problem: &mut Problem) {
    let (heads, normaliser) = (problem.dims.n_heads, problem.normaliser);
    let rows = heads * problem.n_queries();
    let mut numbers =
        |probability: f64, n: usize| draw.chance(probability).then(|| draw.numbers(n, 1.0));
    let looks = &mut problem.looks;
    looks.entropy = numbers(if normaliser.sums_to_one() { 0.35 } else { 0.0 }, rows);
    looks.log_prob = numbers(if normaliser.picks() { 0.6 } else { 0.0 }, rows);
    problem.looks.weights = numbers(0.35, problem.n_weights());
    problem.looks.key_sums = numbers(0.3, heads * problem.n_keys());
    problem.wanted = Wanted {
        key_sums: draw.chance(0.6),
        top: draw.pick(&[0, 0, 1, 3, 8]),
        entropy: normaliser.sums_to_one() && draw.chance(0.7),
        choices: normaliser.picks() && draw.chance(0.8),
        distances: draw.chance(0.5).then(|| draw.pick(&[0, 4, 70])),
    };
}
