//! Scores: a tile is its pairs, and each derivative is that of its formula.

use regard_attn::normaliser::{Hard, Softmax, Temperature};
use regard_attn::score::{
    Additive, Block, BlockMut, Cosine, Dot, Gat, Gatv2, HeadScale, Lowering, Scaled, ScaledDot,
    Softcap,
};
use regard_attn::{Dims, Normaliser, Score};
use regard_tensor::Real;
use regard_testkit::{Bound, assert_close, check_gradients_of, random_vec};

use crate::parts::{SCORES, n_params, score, sums_tiles_in_its_own_order};

const HEADS: usize = 3;
/// Around the eight lanes of a vector loop, and beyond two of them.
const WIDTHS: [usize; 7] = [1, 2, 7, 8, 9, 17, 31];

fn numbers<T: Real>(seed: u64, n: usize) -> Vec<T> {
    random_vec(seed, n).into_iter().map(T::from_f64).collect()
}

/// Five queries and seven keys, with unused numbers between the rows that would show.
struct Tile<T> {
    width: usize,
    q: Vec<T>,
    k: Vec<T>,
    params: Vec<T>,
}

const QUERIES: usize = 5;
const KEYS: usize = 7;
const OUT_STRIDE: usize = 11;

impl<T: Real> Tile<T> {
    fn new(name: &str, width: usize) -> Self {
        let rows = |seed, n: usize| {
            let mut rows = numbers::<T>(seed, n * (width + 2));
            rows.chunks_exact_mut(width + 2).for_each(|row| row[width..].fill(T::from_f64(1e9)));
            rows
        };
        Self {
            width,
            q: rows(1, QUERIES),
            k: rows(2, KEYS),
            params: numbers(3, n_params(name, HEADS, width)),
        }
    }

    fn q(&self) -> Block<'_, T> {
        Block { data: &self.q, rows: QUERIES, width: self.width, stride: self.width + 2 }
    }

    fn k(&self) -> Block<'_, T> {
        Block { data: &self.k, rows: KEYS, width: self.width, stride: self.width + 2 }
    }
}

fn block_mut<T>(data: &mut [T], rows: usize, width: usize) -> BlockMut<'_, T> {
    BlockMut { data, rows, width, stride: width + 2 }
}

fn tile_is_its_pairs<T: Real + Into<f64>>() {
    for name in SCORES {
        for width in WIDTHS {
            let t = Tile::<T>::new(name, width);
            let score = score(name, &t.params, width);
            let mut out = vec![T::from_f64(5.0); (QUERIES - 1) * OUT_STRIDE + KEYS];
            score.tile(1, t.q(), t.k(), &mut out, OUT_STRIDE);
            for i in 0..QUERIES {
                for j in 0..KEYS {
                    let pair = score.pair(1, t.q().row(i), t.k().row(j));
                    assert_eq!(out[i * OUT_STRIDE + j], pair, "{name}, width {width}");
                    if let Lowering::Product { scale } = score.lowering() {
                        let products = t.q().row(i).iter().zip(t.k().row(j));
                        let sum: T = products.map(|(q, k)| *q * *k).sum();
                        let bound = Bound::new(T::EPSILON.to_f64(), width + 2, width as f64);
                        assert_close(&[sum * scale], &[pair], bound);
                    }
                }
                // Nothing is written behind the row.
                let row = &out[i * OUT_STRIDE..];
                assert!(row.iter().take(OUT_STRIDE).skip(KEYS).all(|x| x.to_f64() == 5.0));
            }
        }
    }
}

#[test]
fn a_tile_is_its_pairs_to_the_last_bit() {
    tile_is_its_pairs::<f64>();
    tile_is_its_pairs::<f32>();
}

fn tile_backward_is_the_sum_of_its_pairs<T: Real + Into<f64>>() {
    for name in SCORES {
        for width in WIDTHS {
            let mut t = Tile::<T>::new(name, width);
            // A key that no query of the tile may see.
            let forbidden = 4;
            let first = forbidden * (width + 2);
            t.k[first..first + width].fill(T::NEG_INFINITY * T::ZERO);
            let score = score(name, &t.params, width);
            let mut g = numbers::<T>(9, QUERIES * OUT_STRIDE);
            g.chunks_exact_mut(OUT_STRIDE).for_each(|row| row[forbidden] = T::ZERO);

            let (mut dq, mut dk) = (t.q.clone(), numbers::<T>(7, t.k.len()));
            let mut dparams = numbers::<T>(8, t.params.len());
            let (mut dq_pairs, mut dk_pairs) = (dq.clone(), dk.clone());
            let mut dparams_pairs = dparams.clone();
            score.tile_backward(
                2,
                t.q(),
                t.k(),
                &g,
                OUT_STRIDE,
                &mut block_mut(&mut dq, QUERIES, width),
                &mut block_mut(&mut dk, KEYS, width),
                &mut dparams,
            );
            for i in 0..QUERIES {
                for j in (0..KEYS).filter(|j| *j != forbidden) {
                    let mut dq = block_mut(&mut dq_pairs, QUERIES, width);
                    let mut dk = block_mut(&mut dk_pairs, KEYS, width);
                    let g = g[i * OUT_STRIDE + j];
                    let (q, k) = (t.q().row(i), t.k().row(j));
                    score.pair_backward(2, q, k, g, dq.row(i), dk.row(j), &mut dparams_pairs);
                }
            }
            // Else sums over the pairs of products with up to `width` numbers, all of size below 2.
            let terms = 4 * (QUERIES * KEYS + width);
            let bound = if sums_tiles_in_its_own_order(name) {
                Bound::new(T::EPSILON.to_f64(), terms, (2 * QUERIES * KEYS * width) as f64)
            } else {
                Bound::EXACT
            };
            for (tile, pairs) in [(dq, dq_pairs), (dk, dk_pairs), (dparams, dparams_pairs)] {
                assert_close(&tile, &pairs, bound);
            }
        }
    }
}

#[test]
fn a_tiles_derivative_is_the_sum_of_its_pairs_and_passes_over_forbidden_ones() {
    tile_backward_is_the_sum_of_its_pairs::<f64>();
    tile_backward_is_the_sum_of_its_pairs::<f32>();
}

#[test]
fn gradients() {
    for name in SCORES {
        for width in WIDTHS {
            let n = n_params(name, HEADS, width);
            let inputs = [random_vec(1, width), random_vec(2, width), random_vec(3, n)];
            let (upstream, head) = (0.7, 1);
            // Adds to what is there.
            let before = [random_vec(4, width), random_vec(5, width), random_vec(6, n)];
            let [mut dq, mut dk, mut dparams] = before.clone();
            let [q, k, params] = inputs.clone();
            let part = score(name, &params, width);
            assert_eq!(part.n_params(), n);
            part.pair_backward(head, &q, &k, upstream, &mut dq, &mut dk, &mut dparams);
            let added: Vec<Vec<f64>> = [dq, dk, dparams]
                .iter()
                .zip(&before)
                .map(|(after, before)| after.iter().zip(before).map(|(a, b)| a - b).collect())
                .collect();
            let [q, k, params] = inputs;
            check_gradients_of(
                &mut [("q", q), ("k", k), ("params", params)],
                |a| upstream * score(name, &a[2].1, width).pair(head, &a[0].1, &a[1].1),
                &added,
            );
        }
    }
}

#[test]
fn the_additive_score_in_f32_is_within_its_functions_error() {
    for width in WIDTHS {
        let wide = Tile::<f64>::new("additive", width);
        let narrow = Tile::<f32>::new("additive", width);
        let (exact, fast) = (Additive { v: &wide.params }, Additive { v: &narrow.params });
        let magnitude: f64 = wide.params.iter().map(|v| v.abs()).sum();
        // Rounding of q, k, v and their sum, four units of tanh, and the sum over c.
        let bound = Bound::f32(8 + width, magnitude);
        for i in 0..QUERIES {
            for j in 0..KEYS {
                let s = fast.pair(0, narrow.q().row(i), narrow.k().row(j));
                let exact = exact.pair(0, wide.q().row(i), wide.k().row(j));
                assert_close(&[s], &[exact], bound);
            }
        }
    }
}

#[test]
fn names_and_formulas_are_the_catalogues() {
    let dims = Dims { n_heads: HEADS, n_kv_heads: 1, d_k: 4, d_v: 4 };
    for name in SCORES {
        let params = vec![0.5f32; n_params(name, HEADS, 4)];
        let score = score(name, &params, 4);
        assert_eq!(score.name(), name);
        let entry = regard_attn::catalogue::find(name).unwrap();
        assert_eq!(score.formula(), entry.formula);
        score.check(dims).unwrap();
    }
}

#[test]
fn gatv2_without_a_kink_is_gat() {
    for width in WIDTHS {
        let a = random_vec(1, HEADS * width);
        let halves: Vec<f64> = a.chunks(width).flat_map(|a| [a, a].concat()).collect();
        let (gat, gatv2) = (Gat { a: &halves, slope: 1.0 }, Gatv2 { a: &a, slope: 1.0 });
        let (q, k) = (random_vec(2, width), random_vec(3, width));
        let bound = Bound::f64(width + 4, 2.0 * width as f64);
        for head in 0..HEADS {
            assert_close(&[gat.pair(head, &q, &k)], &[gatv2.pair(head, &q, &k)], bound);
            let [mut dq, mut dk, mut dq2, mut dk2] = [(); 4].map(|()| vec![0.0; width]);
            let (mut da, mut da2) = (vec![0.0; 2 * a.len()], vec![0.0; a.len()]);
            gat.pair_backward(head, &q, &k, 0.5, &mut dq, &mut dk, &mut da);
            gatv2.pair_backward(head, &q, &k, 0.5, &mut dq2, &mut dk2, &mut da2);
            assert_eq!((&dq, &dk), (&dq2, &dk2));
            // a stands twice in GAT: its gradient is the sum of both.
            let (of_q, of_k) = da[head * 2 * width..(head + 1) * 2 * width].split_at(width);
            let sum: Vec<f64> = of_q.iter().zip(of_k).map(|(q, k)| q + k).collect();
            assert_close(&sum, &da2[head * width..(head + 1) * width], Bound::f64(4, 1.0));
        }
    }
}

#[test]
fn gat_ranks_keys_alike_for_every_query_and_gatv2_does_not() {
    // A look-up: query i is to find key i among four.
    let unit = |n: usize, size: f64| -> Vec<f64> {
        (0..4).map(|c| if c == n { size } else { 0.0 }).collect()
    };
    let best = |score: &dyn Score<f64>, i| {
        let row: Vec<f64> = (0..4).map(|j| score.pair(0, &unit(i, 1.0), &unit(j, -1.0))).collect();
        (0..4).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap()
    };
    let gat = Gat { a: &random_vec(1, 8), slope: 0.2 };
    assert!((1..4).all(|i| best(&gat, i) == best(&gat, 0)));
    // −Σ_c LeakyReLU(q_c + k_c) is 0 where k = −q, and −(1 − 0.2) elsewhere.
    let gatv2 = Gatv2 { a: &[-1.0; 4], slope: 0.2 };
    assert!((0..4).all(|i| best(&gatv2, i) == i));
}

#[test]
fn wrappers_take_scores_chosen_at_run_time_and_pass_their_parameters_on() {
    let (d, params) = (3, random_vec(3, HEADS * 3 + HEADS));
    let (v, factors) = params.split_at(HEADS * d);
    let inner: &dyn Score<f64> = &Additive { v };
    let capped = Softcap { inner, cap: 0.5 };
    let scaled = Scaled { inner: &capped, factor: 2.0 };
    let score = HeadScale { inner: &scaled, factors };
    assert_eq!(score.n_params(), params.len());
    score.check(Dims { n_heads: HEADS, n_kv_heads: 1, d_k: d, d_v: 1 }).unwrap();
    let (q, k) = (random_vec(1, d), random_vec(2, d));
    let s = inner.pair(2, &q, &k);
    assert_eq!(score.pair(2, &q, &k), factors[2] * (2.0 * (0.5 * (s / 0.5).tanh())));

    let [mut dq, mut dk, mut dparams] = [d, d, params.len()].map(|n| vec![0.0; n]);
    score.pair_backward(2, &q, &k, 1.0, &mut dq, &mut dk, &mut dparams);
    check_gradients_of(
        &mut [("q", q.clone()), ("k", k.clone()), ("params", params.clone())],
        |a| {
            let (v, factors) = a[2].1.split_at(HEADS * d);
            let inner = Softcap { inner: Additive { v }, cap: 0.5 };
            let score = HeadScale { inner: Scaled { inner, factor: 2.0 }, factors };
            score.pair(2, &a[0].1, &a[1].1)
        },
        &[dq, dk, dparams],
    );
}

#[test]
fn a_scaled_score_with_the_softmax_is_the_temperature() {
    let (tau, keys) = (0.3, 9);
    let q = random_vec(1, 4);
    let score = Scaled { inner: ScaledDot::new(4), factor: 1.0 / tau };
    assert_eq!(score.lowering(), Lowering::Product { scale: 0.5 / tau });
    let row = |score: &dyn Score<f64>| -> Vec<f64> {
        (0..keys).map(|j| score.pair(0, &q, &random_vec(2 + j, 4))).collect()
    };
    let (mut scaled, mut plain) = (row(&score), row(&ScaledDot::new(4)));
    Softmax.row(&mut scaled);
    Temperature::new(tau).unwrap().row(&mut plain);
    // Scores up to 2/τ.
    assert_close(&scaled, &plain, Bound::f64(32, 2.0 / tau));
}

#[test]
fn a_low_temperature_is_the_arg_max() {
    for seed in 0..50 {
        let row = random_vec(seed, 11);
        let (mut cold, mut hard) = (row.clone(), row);
        Temperature::new(1e-6).unwrap().row(&mut cold);
        Hard.row(&mut hard);
        // Runners-up lie at least 1e-4 behind: e^{−100}.
        assert_close(&cold, &hard, Bound::f64(1, 1.0));
    }
}

#[test]
fn capped_and_scaled_scores_keep_their_order() {
    let q = random_vec(1, 5);
    let inner: Vec<f64> = (0..20).map(|j| Dot.pair(0, &q, &random_vec(j, 5))).collect();
    let outer: Vec<f64> =
        (0..20).map(|j| Softcap { inner: Dot, cap: 0.5 }.pair(0, &q, &random_vec(j, 5))).collect();
    for (a, b) in inner.iter().zip(&outer) {
        assert!(b.abs() <= 0.5 && b.abs() <= a.abs());
        for (c, d) in inner.iter().zip(&outer) {
            assert_eq!(a.total_cmp(c), b.total_cmp(d));
        }
    }
    let wide = Softcap { inner: Cosine, cap: 1e6 };
    let (x, y) = (random_vec(8, 7), random_vec(9, 7));
    assert!((wide.pair(0, &x, &y) - Cosine.pair(0, &x, &y)).abs() < 1e-12);
}
