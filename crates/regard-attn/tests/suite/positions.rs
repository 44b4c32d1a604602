//! Positions: a tile is its pairs, the law of rotation, the law of differences, and derivatives.

use proptest::prelude::*;
use regard_attn::position::{Chain, Learned, Position, Rotary, RotaryLayout, Sinusoidal};
use regard_attn::score::{Block, BlockMut};
use regard_attn::{At, Dims, Item, TileAt};
use regard_tensor::{Key, Real};
use regard_testkit::{Bound, assert_close, check_gradient, check_gradients_of, random_vec};

use crate::parts::{Fit, POSITIONS, n_position_params, position, position_params, positions};

const LAYOUTS: [RotaryLayout; 2] = [RotaryLayout::Interleaved, RotaryLayout::Half];

#[test]
fn sinusoidal_gives_the_known_table() {
    let table = [
        [0.0, 1.0, 0.0, 1.0],
        [0.841471, 0.540302, 0.01, 0.99995],
        [0.909297, -0.416147, 0.019999, 0.9998],
        [0.14112, -0.989992, 0.029996, 0.99955],
    ];
    for (p, row) in table.iter().enumerate() {
        let mut x = [0.0f64; 4];
        Sinusoidal.input(p, &mut x).unwrap();
        // Six digits are given.
        assert_close(&x, row, Bound::new(0.5e-6, 1, 1.0));
    }
}

/// What a rotation by angles up to `angle` may be off: the angle's own rounding, and a few more.
fn turn_bound(angle: usize) -> Bound {
    Bound::f64(4 * angle + 8, 2.0)
}

proptest! {
    /// PE(p + k) = R_k PE(p), with one R_k for all p.
    #[test]
    fn a_step_is_a_rotation(p in 0usize..5000, k in 0usize..500, half in 1usize..17) {
        let d = 2 * half;
        let (before, after): (Vec<f64>, Vec<f64>) =
            (Sinusoidal::encoding(p, d).collect(), Sinusoidal::encoding(p + k, d).collect());
        for i in 0..half {
            let (sin, cos) = (k as f64 / 10000f64.powf(2.0 * i as f64 / d as f64)).sin_cos();
            let (s, c) = (before[2 * i], before[2 * i + 1]);
            let turned = [s * cos + c * sin, c * cos - s * sin];
            assert_close(&after[2 * i..2 * i + 2], &turned, turn_bound(p + k));
        }
    }

    #[test]
    fn rotary_scores_depend_on_the_difference_alone(
        p in 0usize..1000, step in 0usize..100, shift in 0usize..1000, half in 1usize..9,
    ) {
        let d = 2 * half;
        let (q, k) = (random_vec(1, d), random_vec(2, d));
        for layout in LAYOUTS {
            let rotary = Rotary::new(10000.0, layout);
            let product = |p: usize| -> f64 {
                let (mut q, mut k) = (q.clone(), k.clone());
                rotary.turn(p + step, &mut q);
                rotary.turn(p, &mut k);
                q.iter().zip(&k).map(|(q, k)| q * k).sum()
            };
            let bound = Bound::f64((4 * (p + step + shift) + 8) * 4, d as f64);
            assert_close(&[product(p)], &[product(p + shift)], bound);
        }
    }

    #[test]
    fn turning_back_undoes_a_turn(p in 0usize..100_000, half in 0usize..9) {
        let row = random_vec(3, 2 * half);
        for layout in LAYOUTS {
            let rotary = Rotary::new(10000.0, layout);
            let mut turned = row.clone();
            rotary.turn(p, &mut turned);
            let length = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>();
            assert_close(&[length(&turned)], &[length(&row)], Bound::f64(16, length(&row)));
            rotary.turn_backward(p, &mut turned);
            assert_close(&turned, &row, Bound::f64(8, 2.0));
        }
    }
}

#[test]
fn f32_keeps_its_digits_at_late_positions() {
    // Angles in f32 would be off by position · 2⁻²⁴ = 6e-3 here.
    let p = 100_003;
    for layout in LAYOUTS {
        let rotary = Rotary::new(10000.0, layout);
        let (mut wide, mut narrow) = ([1.0f64, 0.5, -0.5, 0.25], [1.0f32, 0.5, -0.5, 0.25]);
        rotary.turn(p, &mut wide);
        rotary.turn(p, &mut narrow);
        assert_close(&narrow, &wide, Bound::f32(4, 2.0));
    }
    let (mut wide, mut narrow) = ([0.0f64; 6], [0.0f32; 6]);
    Sinusoidal.input(p, &mut wide).unwrap();
    Sinusoidal.input(p, &mut narrow).unwrap();
    assert_close(&narrow, &wide, Bound::f32(1, 1.0));
}

#[test]
fn gradients_of_turns() {
    let (row, upstream) = (random_vec(1, 6), random_vec(2, 6));
    for position in positions() {
        let turned = |x: &[f64]| {
            let mut x = x.to_vec();
            position.turn(3, &mut x);
            x
        };
        let mut gradient = upstream.clone();
        position.turn_backward(3, &mut gradient);
        let loss = |x: &[f64]| turned(x).iter().zip(&upstream).map(|(y, u)| y * u).sum();
        check_gradient(position.name(), loss, &row, &gradient);
        assert_eq!(position.turns(), turned(&row) != row);
    }
}

#[test]
fn gradients_of_a_learned_table() {
    let (max_len, d) = (3, 4);
    let table = random_vec(1, max_len * d);
    // Position 2 is used twice, position 1 never.
    let uses = [0, 2, 2];
    let upstream = random_vec(2, uses.len() * d);
    let loss = |table: &[f64]| {
        let learned = Learned { table, max_len, d };
        let mut total = 0.0;
        for (p, upstream) in uses.iter().zip(upstream.chunks_exact(d)) {
            let mut x = vec![0.5; d];
            learned.input(*p, &mut x).unwrap();
            total += x.iter().zip(upstream).map(|(x, u)| x * u).sum::<f64>();
        }
        total
    };
    let learned = Learned { table: &table, max_len, d };
    let mut gradient = vec![0.0; Position::<f64>::n_params(&learned)];
    for (p, upstream) in uses.iter().zip(upstream.chunks_exact(d)) {
        learned.input_backward(*p, upstream, &mut gradient);
    }
    check_gradient("table", loss, &table, &gradient);
    assert_eq!(gradient[d..2 * d], [0.0; 4]);
}

#[test]
fn gradients_of_the_inputs_of_a_chain() {
    let (max_len, d) = (3, 4);
    let tables = random_vec(1, 2 * max_len * d);
    let upstream = random_vec(2, d);
    let added = |tables: &[f64]| {
        let (first, second) = tables.split_at(max_len * d);
        let [first, second] = [first, second].map(|table| Learned { table, max_len, d });
        let mut x = vec![0.5; d];
        Chain(&[&first, &Sinusoidal, &second]).input(1, &mut x).unwrap();
        x
    };
    let (first, second) = tables.split_at(max_len * d);
    let [first, second] = [first, second].map(|table| Learned { table, max_len, d });
    let links: [&dyn Position<f64>; 3] = [&first, &Sinusoidal, &second];
    let chain = Chain(&links);
    let mut gradient = vec![0.0; chain.n_params()];
    chain.input_backward(1, &upstream, &mut gradient);
    let loss = |tables: &[f64]| added(tables).iter().zip(&upstream).map(|(x, u)| x * u).sum();
    check_gradient("tables", loss, &tables, &gradient);
    // One link that cannot serve is enough.
    assert!(chain.input(3, &mut vec![0.0; d]).is_err());
    let short = Learned { table: &tables, max_len, d };
    let dims = Dims { n_heads: 1, n_kv_heads: 1, d_k: 4, d_v: 1 };
    assert!(Chain(&[&first, &short]).check(dims, &[]).is_err());
}

/// A position by its pairs alone: every tile is the loop over them.
#[derive(Debug)]
struct ByPairs<'a, T>(&'a dyn Position<T>);

impl<T: Real> Position<T> for ByPairs<'_, T> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn bias(&self, at: At, query: usize, key: usize, q: &[T]) -> T {
        self.0.bias(at, query, key, q)
    }

    fn bias_backward(
        &self,
        at: At,
        query: usize,
        key: usize,
        q: &[T],
        g: T,
        dq: &mut [T],
        dparams: &mut [T],
    ) {
        self.0.bias_backward(at, query, key, q, g, dq, dparams);
    }

    fn weight(&self, at: At, query: usize, key: usize) -> T {
        self.0.weight(at, query, key)
    }

    fn weight_backward(&self, at: At, query: usize, key: usize, g: T, dparams: &mut [T]) {
        self.0.weight_backward(at, query, key, g, dparams);
    }

    fn add_value(&self, at: At, query: usize, key: usize, a: T, context: &mut [T]) {
        self.0.add_value(at, query, key, a, context);
    }

    fn value_dot(&self, at: At, query: usize, key: usize, dc: &[T]) -> T {
        self.0.value_dot(at, query, key, dc)
    }

    fn value_backward(&self, at: At, query: usize, key: usize, a: T, dc: &[T], dparams: &mut [T]) {
        self.0.value_backward(at, query, key, a, dc, dparams);
    }
}

/// Sizes around the eight lanes of a vector loop.
const FIT: Fit<'static> = Fit {
    dims: Dims { n_heads: 3, n_kv_heads: 1, d_k: 18, d_v: 9 },
    q_lens: &[5, 13],
    kv_lens: &[3, 17],
};

/// Numbers between the rows, which no tile may read or change.
const FILLER: f64 = 1e9;

fn numbers<T: Real>(seed: u64, n: usize) -> Vec<T> {
    random_vec(seed, n).into_iter().map(T::from_f64).collect()
}

/// Rows with two fillers behind each.
fn rows<T: Real>(seed: u64, n: usize, width: usize) -> Vec<T> {
    let mut rows = numbers::<T>(seed, n * (width + 2));
    rows.chunks_exact_mut(width + 2).for_each(|row| row[width..].fill(T::from_f64(FILLER)));
    rows
}

fn block<T>(data: &[T], rows: usize, width: usize) -> Block<'_, T> {
    Block { data, rows, width, stride: width + 2 }
}

fn block_mut<T>(data: &mut [T], rows: usize, width: usize) -> BlockMut<'_, T> {
    BlockMut { data, rows, width, stride: width + 2 }
}

/// What each hook makes of a tile.
struct Tiles<T> {
    bias: Vec<T>,
    weight: Vec<T>,
    value: Vec<T>,
    value_dot: Vec<T>,
    dq: Vec<T>,
    dparams: [Vec<T>; 3],
}

/// Runs every hook over a tile. A fifth of the pairs and all of row `unseen` have no gradient and
/// no weight; there the query and the gradient of the context are NaN.
fn run<T: Real>(part: &dyn Position<T>, tile: &TileAt, n_params: usize, unseen: usize) -> Tiles<T> {
    let Dims { d_k, d_v, .. } = FIT.dims;
    let (n, m) = (tile.queries.len(), tile.keys.len());
    let nan = T::NEG_INFINITY * T::ZERO;
    let mut q = rows::<T>(1, n, d_k);
    let mut dc = rows::<T>(2, n, d_v);
    let mut pairs = rows::<T>(3, n, m);
    for (i, row) in pairs.chunks_exact_mut(m + 2).enumerate() {
        for (j, g) in row[..m].iter_mut().enumerate() {
            if i == unseen || (i + j) % 5 == 2 {
                *g = T::ZERO;
            }
        }
    }
    let clean = q.clone();
    let clean_dc = dc.clone();
    if unseen < n {
        q[unseen * (d_k + 2)..][..d_k].fill(nan);
        dc[unseen * (d_v + 2)..][..d_v].fill(nan);
    }
    let [mut bias, mut weight, mut value_dot] = [4, 5, 6].map(|seed| rows::<T>(seed, n, m));
    let (mut value, mut dq) = (rows::<T>(7, n, d_v), rows::<T>(8, n, d_k));
    let mut dparams = [9, 10, 11].map(|seed| numbers::<T>(seed, n_params));
    let stride = m + 2;
    part.bias_tile(tile, block(&clean, n, d_k), &mut bias, stride);
    part.weight_tile(tile, &mut weight, stride);
    part.value_tile(tile, &pairs, stride, &mut block_mut(&mut value, n, d_v));
    part.value_dot_tile(tile, block(&clean_dc, n, d_v), &mut value_dot, stride);
    let [of_bias, of_weight, of_value] = &mut dparams;
    let q = block(&q, n, d_k);
    part.bias_tile_backward(tile, q, &pairs, stride, &mut block_mut(&mut dq, n, d_k), of_bias);
    part.weight_tile_backward(tile, &pairs, stride, of_weight);
    part.value_tile_backward(tile, &pairs, stride, block(&dc, n, d_v), of_value);
    Tiles { bias, weight, value, value_dot, dq, dparams }
}

fn tiles_are_their_pairs<T: Real + Into<f64>>() {
    let draw = Key::new(17);
    for (p, name) in POSITIONS.iter().enumerate() {
        let params: Vec<T> = position_params(name, FIT).into_iter().map(T::from_f64).collect();
        let part = position(name, &params, FIT);
        assert_eq!(part.n_params(), n_position_params(name, FIT));
        for round in 0..40u32 {
            let below = |what: u32, n: usize| {
                draw.child(p as u64).below(8 * round + what, n as u32) as usize
            };
            let item = below(0, 2);
            let (q_len, kv_len) = (FIT.q_lens[item], FIT.kv_lens[item]);
            let q_offset = if round % 3 == 0 { 0 } else { below(1, 25) };
            let at = At { item, head: below(2, 3), q_len, kv_len, q_offset };
            // Any span, empty ones too.
            let span = |what, len: usize| {
                let start = below(what, len + 1);
                start..start + below(what + 1, len + 1 - start)
            };
            let tile = if round == 1 {
                TileAt { at, queries: 0..q_len, keys: 0..kv_len }
            } else {
                TileAt { at, queries: span(3, q_len), keys: span(5, kv_len) }
            };
            let unseen = below(7, q_len);
            let got = run(&*part, &tile, params.len(), unseen);
            let want = run(&ByPairs(&*part), &tile, params.len(), unseen);
            let what = format!("{name}, {tile:?}");

            // One product or one factor a pair, and its sum with what is there. A chain sums its
            // biases in another order: up to five of them, each up to `largest`.
            let (pairs, width) = (tile.queries.len() * tile.keys.len(), FIT.dims.d_k);
            let eps = T::EPSILON.to_f64();
            // Products of up to `width` numbers below 1, or distances up to 42 squared times 0.9.
            let largest = if name.starts_with("quadratic") { 4000.0 } else { width as f64 };
            let chain = name.starts_with("chain");
            let a_pair = if chain { Bound::new(eps, 16, 5.0 * largest) } else { Bound::EXACT };
            let same = |got: &[T], want: &[T], bound| {
                if let Err(message) = regard_testkit::close_each(got, want, |_| bound) {
                    panic!("{what}: {message}");
                }
            };
            same(&got.bias, &want.bias, a_pair);
            same(&got.weight, &want.weight, a_pair);
            same(&got.value_dot, &want.value_dot, a_pair);
            // Sums over the pairs of a row or of the tile, in any order.
            let sum = Bound::new(eps, 4 * (pairs + width), largest * (pairs + 1) as f64);
            same(&got.value, &want.value, sum);
            same(&got.dq, &want.dq, sum);
            for (got, want) in got.dparams.iter().zip(&want.dparams) {
                same(got, want, sum);
            }
        }
    }
}

#[test]
fn tiles_are_their_pairs_and_pass_over_what_has_no_weight() {
    tiles_are_their_pairs::<f64>();
    tiles_are_their_pairs::<f32>();
}

#[test]
fn hooks_that_are_said_to_do_nothing_do_nothing() {
    let at = At { item: 1, head: 1, q_len: 13, kv_len: 17, q_offset: 3 };
    let tile = TileAt { at, queries: 0..13, keys: 0..17 };
    for name in POSITIONS {
        let params = position_params(name, FIT);
        let part = position(name, &params, FIT);
        let tiles = run(&*part, &tile, params.len(), 4);
        let idle = run::<f64>(&ByPairs(&regard_attn::position::NoPosition), &tile, params.len(), 4);
        assert_eq!(part.biases(), tiles.bias != idle.bias, "{name}");
        assert_eq!(part.weighs(), tiles.weight != idle.weight, "{name}");
        assert_eq!(part.has_values(), tiles.value != idle.value, "{name}");
        assert_eq!(part.has_values(), tiles.value_dot != idle.value_dot, "{name}");
    }
}

#[test]
fn gradients_of_pairs() {
    let Dims { d_k, d_v, .. } = FIT.dims;
    let at = At { item: 1, head: 1, q_len: 13, kv_len: 17, q_offset: 2 };
    for name in POSITIONS {
        let params = position_params(name, FIT);
        let (q, dc) = (random_vec(21, d_k), random_vec(22, d_v));
        for (query, key) in [(0, 0), (1, 3), (5, 4), (12, 16), (3, 15)] {
            // 0.7·bias + 0.4·weight + 0.9·value·dc
            let f = |params: &[f64], q: &[f64]| {
                let part = position(name, params, FIT);
                let mut context = vec![0.0; d_v];
                part.add_value(at, query, key, 0.9, &mut context);
                let value: f64 = context.iter().zip(&dc).map(|(c, dc)| c * dc).sum();
                assert_close(
                    &[value],
                    &[0.9 * part.value_dot(at, query, key, &dc)],
                    Bound::f64(40, 20.0),
                );
                0.7 * part.bias(at, query, key, q) + 0.4 * part.weight(at, query, key) + value
            };
            let part = position(name, &params, FIT);
            let (mut dq, mut dparams) = (vec![0.0; d_k], vec![0.0; params.len()]);
            part.bias_backward(at, query, key, &q, 0.7, &mut dq, &mut dparams);
            part.weight_backward(at, query, key, 0.4, &mut dparams);
            part.value_backward(at, query, key, 0.9, &dc, &mut dparams);
            check_gradients_of(
                &mut [("params", params.clone()), ("q", q.clone())],
                |a| f(&a[0].1, &a[1].1),
                &[dparams, dq],
            );
        }
    }
}

#[test]
fn every_position_serves_the_sizes_it_was_made_for() {
    let items: Vec<Item> = FIT
        .q_lens
        .iter()
        .zip(FIT.kv_lens)
        .map(|(&q_len, &kv_len)| Item { q_start: 0, q_len, kv_start: 0, kv_len, q_offset: 0 })
        .collect();
    for name in POSITIONS {
        let params = position_params(name, FIT);
        let part = position(name, &params, FIT);
        part.check(FIT.dims, &items).unwrap();
        assert_eq!(part.name(), name.split(':').next().unwrap());
    }
}
