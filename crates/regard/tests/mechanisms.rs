//! Every mechanism of the catalogue, with every choice of parts that its entry names, by the engine
//! and by the reference. An entry is enrolled by being in the catalogue; one that names a part which
//! is not built here fails.

use regard::attn::catalogue::{Kind, all};
use regard::attn::normaliser::{
    Entmax15, Hard, Identity, Normaliser, Sampled, Sigmoid, Softmax, Sparsemax,
};
use regard::attn::position::{
    Alibi, Chain, DenseBias, Gaussian, Grid, Learned, NoPosition, Position, Quadratic, Relative2d,
    RelativeBias, Rotary, RotaryLayout, Shaw, Sinusoidal,
};
use regard::attn::scope::{
    And, Blocks, Causal, Csr, Documents, Full, Graph, Lengths, Or, PredictedCentre, Scope,
    SelfLoops, Window, Window2d,
};
use regard::attn::score::{
    Additive, Cosine, Dot, Gat, Gatv2, General, HeadScale, Location, ScaledDot, Score, Softcap,
};
use regard::attn::{Call, Dims, Item};
use regard::tensor::Key;
use regard_testkit::random_vec;

mod support;

use support::{Inputs, Magnitudes, assert_near, by_engine, by_reference};

const DIMS: Dims = Dims { n_heads: 2, n_kv_heads: 1, d_k: 4, d_v: 3 };

/// Beyond a tile's edge, and the pixels of a picture of ten rows.
const LEN: usize = 70;
const WIDTH: usize = 7;

const ITEMS: [Item; 1] = [Item { q_start: 0, q_len: LEN, kv_start: 0, kv_len: LEN, q_offset: 0 }];

/// Numbers for the parameters of all parts, within ±1.
struct Numbers {
    any: Vec<f64>,
    /// A centre for each query, and σ.
    centres: Vec<f64>,
    /// Every node hears the nodes 1, 5 and 9 further on.
    offsets: Vec<usize>,
    columns: Vec<usize>,
}

impl Numbers {
    fn new() -> Self {
        let mut centres: Vec<f64> =
            random_vec(6, LEN).iter().map(|x| (x + 1.0) * 0.5 * LEN as f64).collect();
        centres.push(2.5);
        let row = |i: usize| {
            let mut row = [1, 5, 9].map(|step| (i + step) % LEN);
            row.sort_unstable();
            row
        };
        let (offsets, columns) =
            ((0..=LEN).map(|i| 3 * i).collect(), (0..LEN).flat_map(row).collect());
        Self { any: random_vec(5, LEN * DIMS.d_k), centres, offsets, columns }
    }

    fn first(&self, n: usize) -> &[f64] {
        &self.any[..n]
    }

    fn score(&self, name: &str) -> Box<dyn Score<f64> + '_> {
        let Dims { n_heads, d_k, .. } = DIMS;
        match name {
            "dot" => Box::new(Dot),
            "scaled_dot" => Box::new(ScaledDot::new(d_k)),
            "additive" => Box::new(Additive { v: self.first(n_heads * d_k) }),
            "general" => Box::new(General { w: self.first(n_heads * d_k * d_k) }),
            "location" => Box::new(Location { table: self.first(LEN * d_k), max_len: LEN, d_k }),
            "gat" => Box::new(Gat { a: self.first(n_heads * 2 * d_k), slope: 0.2 }),
            "gatv2" => Box::new(Gatv2 { a: self.first(n_heads * d_k), slope: 0.2 }),
            "softcap" => Box::new(Softcap { inner: ScaledDot::new(d_k), cap: 1.0 }),
            "head_scale" => Box::new(HeadScale { inner: Cosine, factors: self.first(n_heads) }),
            _ => panic!("a mechanism names the score {name}, which is not built here"),
        }
    }

    fn position(&self, name: &str) -> Box<dyn Position<f64> + '_> {
        let Dims { n_heads, d_k, d_v, .. } = DIMS;
        let grid = Grid::same(WIDTH);
        match name {
            "none" => Box::new(NoPosition),
            "sinusoidal" => Box::new(Sinusoidal),
            "learned" => Box::new(Learned { table: self.first(LEN * d_k), max_len: LEN, d: d_k }),
            "rotary" => Box::new(Rotary::new(10000.0, RotaryLayout::Interleaved)),
            "relative_bias" => Box::new(RelativeBias {
                table: self.first(8 * n_heads),
                n_buckets: 8,
                max_distance: 30,
                bidirectional: true,
            }),
            "alibi" => Box::new(Alibi::with_slopes(vec![0.05; n_heads])),
            "shaw" => Box::new(Shaw {
                keys: self.first(9 * d_k),
                values: self.first(9 * d_v),
                radius: 4,
                scale: 0.5,
            }),
            "relative_2d" => Box::new(Relative2d {
                rows: self.first(7 * d_k / 2),
                columns: self.first(7 * d_k / 2),
                radius: 3,
                grid,
                scale: 1.0,
            }),
            "quadratic" => Box::new(Quadratic { params: &[0.3, -1.0, 1.0, 0.2, 0.0, 1.0], grid }),
            "gaussian" => Box::new(Gaussian::new(&self.centres, &[LEN])),
            "dense_bias" => Box::new(DenseBias { data: &[-4.0], sizes: [1, 1, 1, 1] }),
            "chain" => {
                Box::new(Chain(&[&DenseBias { data: &[-4.0], sizes: [1, 1, 1, 1] }, &NoPosition]))
            }
            _ => panic!("a mechanism names the position {name}, which is not built here"),
        }
    }

    fn with_scope<R>(&self, name: &str, f: impl FnOnce(&dyn Scope) -> R) -> R {
        let documents = Documents::from_lengths(&[&[30, 40]]);
        let window = Window { left: 5, right: 2 };
        match name {
            "full" => f(&Full),
            "lengths" => f(&Lengths { kv: &[LEN - 3] }),
            "causal" => f(&Causal::square()),
            "window" => f(&window),
            "window_2d" => f(&Window2d { width: WIDTH, radius: 2 }),
            "blocks" => f(&Blocks { size: 16 }),
            "documents" => f(&documents),
            "and" => f(&And(&[&documents, &Causal::square()])),
            "or" => f(&Or(&[&window, &Lengths { kv: &[2] }])),
            "predicted_centre" => {
                f(&PredictedCentre { centres: &[&self.centres[..LEN]], radius: 5 })
            }
            "graph" => {
                let graph = Csr { offsets: &self.offsets, columns: &self.columns };
                f(&Graph { graphs: &[graph], self_loops: SelfLoops::Added })
            }
            _ => panic!("a mechanism names the scope {name}, which is not built here"),
        }
    }
}

fn normaliser(name: &str) -> Box<dyn Normaliser<f64>> {
    match name {
        "softmax" => Box::new(Softmax),
        "sparsemax" => Box::new(Sparsemax),
        "entmax15" => Box::new(Entmax15),
        "sigmoid" => Box::new(Sigmoid),
        "identity" => Box::new(Identity),
        "hard" => Box::new(Hard),
        "sampled" => Box::new(Sampled { key: Key::new(3) }),
        _ => panic!("a mechanism names the normaliser {name}, which is not built here"),
    }
}

/// Inputs and parameters are within ±1 and d_k = 4. The largest sum behind a score is that of general,
/// d_k² = 16; the largest bias is quadratic's, 0.3·(‖δ‖² + 2·|Δ·δ|) ≤ 0.3·147 on 10 × 7 pixels, and
/// its slopes by a parameter are at most 147. A cosine's slope by a row is 1/norm, at most 5 (asserted
/// below). Where ∂L/∂s is not weighed by a (identity, sparsemax, entmax), a row adds up to 70
/// gradients where a softmax has the weight of one: 80 = by_row · steepness covers that, too.
const MAGNITUDES: Magnitudes =
    Magnitudes { score: 16.0 + 45.0, by_row: 5.0 * 4.0, by_param: 147.0, steepness: 4.0 };

#[test]
fn every_mechanism_runs_as_the_reference_says() {
    let numbers = Numbers::new();
    let mut combinations = 0;
    for entry in all().iter().filter(|entry| entry.kind == Kind::Mechanism) {
        let parts = entry.parts.unwrap();
        for score in parts.score {
            for weighs in parts.normaliser {
                for scope in parts.scope {
                    for position in parts.position {
                        let (score, normaliser) = (numbers.score(score), normaliser(weighs));
                        let position = numbers.position(position);
                        numbers.with_scope(scope, |scope| {
                            let call = Call {
                                score: &*score,
                                normaliser: &*normaliser,
                                scope,
                                position: &*position,
                                dropout: None,
                                dims: DIMS,
                                items: &ITEMS,
                            };
                            let x = Inputs::new(&call);
                            let norm = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
                            let mut rows = x.q.chunks(DIMS.d_k).chain(x.k.chunks(DIMS.d_k));
                            assert!(rows.all(|row| norm(row) > 0.2));
                            let (got, want) = (by_engine(&call, &x), by_reference(&call, &x));
                            assert_near(&call, &got, &want, MAGNITUDES);
                            assert!(want.context.iter().any(|c| *c != 0.0), "{}", entry.name);
                        });
                        combinations += 1;
                    }
                }
            }
        }
    }
    assert!(combinations > 100, "{combinations}");
}
