//! Hard attention: draws have the right probabilities, and learning by them goes the right way.

use regard_attn::normaliser::{Hard, Sampled, Softmax, Temperature};
use regard_attn::position::NoPosition;
use regard_attn::reference::{backward, forward, summarise};
use regard_attn::scope::{Full, Lengths};
use regard_attn::score::Dot;
use regard_attn::{Call, Dims, Item, Normaliser, Rows, Scope, Upstream, Wanted};
use regard_tensor::Key;
use regard_testkit::{Bound, assert_close, check_gradient, random_vec};

use crate::parts::scopes;
use crate::problem::{self, ITEMS, Inputs};

/// Width of queries, keys and values.
const WIDTH: usize = 2;
const DIMS: Dims = Dims { n_heads: 1, n_kv_heads: 1, d_k: WIDTH, d_v: WIDTH };

fn rows(data: &[f64]) -> Rows<'_, f64> {
    Rows { data, row_stride: WIDTH, head_stride: WIDTH }
}

fn call<'a>(
    normaliser: &'a dyn Normaliser<f64>,
    scope: &'a dyn Scope,
    items: &'a [Item],
) -> Call<'a, f64> {
    Call { score: &Dot, normaliser, scope, position: &NoPosition, dropout: None, dims: DIMS, items }
}

const CHOICES: Wanted =
    Wanted { choices: true, key_sums: false, top: 0, entropy: false, distances: None };

/// Σ (observed − expected)² / expected
fn chi_square(observed: &[usize], expected: &[f64]) -> f64 {
    observed.iter().zip(expected).map(|(o, e)| (*o as f64 - e).powi(2) / e).sum()
}

#[test]
fn keys_are_drawn_as_often_as_their_weights_say_and_rows_do_not_know_of_each_other() {
    const KEYS: usize = 5;
    let n = 20_000;
    // One query many times over; the last of six keys is forbidden, by far the best and NaN as a
    // value.
    let q: Vec<f64> = [1.0, -0.5].repeat(n);
    let k = [0.3, 0.1, -1.0, 0.4, 1.2, 0.0, 0.0, 0.9, -0.2, -0.3, 90.0, 0.0];
    let items = [Item { q_start: 0, q_len: n, kv_start: 0, kv_len: KEYS + 1, q_offset: 0 }];
    let lengths = Lengths { kv: &[KEYS] };
    let one = [Item { q_len: 1, ..items[0] }];
    let soft = forward(&call(&Softmax, &lengths, &one), rows(&q), rows(&k), rows(&k)).unwrap();
    let weights = &soft.weights[..KEYS];

    for seed in 0..4 {
        let sampled = Sampled { key: Key::new(seed) };
        let call = call(&sampled, &lengths, &items);
        let said = summarise(&call, rows(&q), rows(&k), CHOICES).unwrap();
        let mut counts = [0usize; KEYS];
        let mut pairs = [0usize; KEYS * KEYS];
        for (i, chosen) in said.chosen.iter().enumerate() {
            counts[*chosen] += 1;
            assert_close(&[said.log_prob[i]], &[weights[*chosen].ln()], Bound::f64(32, 4.0));
            if i % 2 == 1 {
                pairs[said.chosen[i - 1] * KEYS + chosen] += 1;
            }
        }
        // 4 degrees of freedom: above 33.4 once in a million.
        let expected: Vec<f64> = weights.iter().map(|p| p * n as f64).collect();
        let value = chi_square(&counts, &expected);
        assert!(value < 33.4, "seed {seed}: {counts:?} for {expected:?}, χ² = {value}");
        // Neighbours in pairs, 24 degrees of freedom: above 75.9 less than once in a million.
        let expected: Vec<f64> = weights
            .iter()
            .flat_map(|p| weights.iter().map(move |other| p * other * (n / 2) as f64))
            .collect();
        let value = chi_square(&pairs, &expected);
        assert!(value < 75.9, "seed {seed}: χ² of pairs = {value}");

        // The context is the value that was drawn.
        let out = forward(&call, rows(&q), rows(&k), rows(&k)).unwrap();
        for (context, chosen) in out.context.chunks_exact(WIDTH).zip(&said.chosen) {
            assert_eq!(*context, k[chosen * WIDTH..(chosen + 1) * WIDTH]);
        }
    }
}

#[test]
fn a_lower_temperature_comes_nearer_to_hard_attention() {
    let inputs = Inputs::new("dot");
    for scope in scopes() {
        let at = |normaliser: &dyn Normaliser<f64>| {
            let call = Call { normaliser, ..problem::call(&Dot, &*scope, &NoPosition, None) };
            forward(&call, inputs.q(), inputs.k(), inputs.v()).unwrap()
        };
        let hard = at(&Hard);
        // The smallest gap between the best score and the next, over all rows.
        let scores = at(&regard_attn::normaliser::Identity).weights;
        let (mut rest, mut gap) = (&scores[..], f64::INFINITY);
        let allowed = at(&Softmax).weights;
        let mut weights = &allowed[..];
        for item in ITEMS {
            for _ in 0..problem::DIMS.n_heads * item.q_len {
                let mut row: Vec<f64> =
                    (0..item.kv_len).filter(|j| weights[*j] > 0.0).map(|j| rest[j]).collect();
                row.sort_by(|a, b| b.total_cmp(a));
                if row.len() > 1 {
                    gap = gap.min(row[0] - row[1]);
                }
                (rest, weights) = (&rest[item.kv_len..], &weights[item.kv_len..]);
            }
        }
        assert!(gap > 1e-4, "{gap}");
        let mut last = f64::INFINITY;
        for tau in [1.0, 0.1, 0.01, 0.001, 1e-6] {
            let soft = at(&Temperature::new(tau).unwrap());
            let far = soft.weights.iter().zip(&hard.weights).map(|(a, b)| (a - b).abs());
            let far = far.fold(0.0, f64::max);
            // The best of n keys lacks at most (n − 1)·e^{−gap/τ}.
            assert!(far <= 4.0 * (-gap / tau).exp() + 8.0 * f64::EPSILON, "{tau}: {far}");
            assert!(far <= last);
            last = far;
            // Values below one: contexts are off by no more than all weights together.
            assert_close(&soft.context, &hard.context, Bound::new(2.0 * far, 5, 1.0));
        }
        assert!(last <= 8.0 * f64::EPSILON);
    }
}

/// Two queries over three keys: nine pairs of draws, each with a reward.
struct Game {
    q: Vec<f64>,
    k: Vec<f64>,
    rewards: Vec<f64>,
}

const QUERIES: usize = 2;
const KEYS: usize = 3;
const GAME: [Item; 1] =
    [Item { q_start: 0, q_len: QUERIES, kv_start: 0, kv_len: KEYS, q_offset: 0 }];

impl Game {
    fn new() -> Self {
        Self {
            q: random_vec(1, QUERIES * WIDTH),
            k: random_vec(2, KEYS * WIDTH),
            // Far from zero, so that a baseline has something to take off.
            rewards: random_vec(3, KEYS * KEYS).iter().map(|r| 4.0 + r).collect(),
        }
    }

    /// Probability of each pair of draws, as the softmax says.
    fn chances(q: &[f64], k: &[f64]) -> Vec<f64> {
        let out = forward(&call(&Softmax, &Full, &GAME), rows(q), rows(k), rows(k)).unwrap();
        let (first, second) = out.weights.split_at(KEYS);
        first.iter().flat_map(|a| second.iter().map(move |b| a * b)).collect()
    }

    fn expected_reward(&self, q: &[f64], k: &[f64]) -> f64 {
        Self::chances(q, k).iter().zip(&self.rewards).map(|(p, r)| p * r).sum()
    }

    /// The pair that this stream draws.
    fn draw(&self, stream: u64) -> usize {
        let sampled = Sampled { key: Key::new(stream) };
        let call = call(&sampled, &Full, &GAME);
        let said = summarise(&call, rows(&self.q), rows(&self.k), CHOICES).unwrap();
        said.chosen[0] * KEYS + said.chosen[1]
    }

    /// The score-function gradient by queries and then keys, after this draw:
    /// (reward − baseline)·∂ln p(draw).
    fn estimate(&self, stream: u64, baseline: f64) -> Vec<f64> {
        let sampled = Sampled { key: Key::new(stream) };
        let call = call(&sampled, &Full, &GAME);
        let advantage = [self.rewards[self.draw(stream)] - baseline; QUERIES];
        let upstream = Upstream { log_prob: Some(&advantage), ..Upstream::NONE };
        let (q, k) = (rows(&self.q), rows(&self.k));
        let g = backward(&call, q, k, k, &[0.0; QUERIES * WIDTH], upstream).unwrap();
        [g.dq, g.dk].concat()
    }

    /// The gradient of the expected reward, exactly: through the weights of the softmax.
    fn gradient(&self) -> Vec<f64> {
        let chances = Self::chances(&self.q, &self.k);
        let (q, k) = (rows(&self.q), rows(&self.k));
        let call = call(&Softmax, &Full, &GAME);
        let out = forward(&call, q, k, k).unwrap();
        // ∂E/∂a_1j = Σ_l a_2l R_jl, and the same for the second.
        let mut d_weights = vec![0.0; QUERIES * KEYS];
        for (pair, (chance, reward)) in chances.iter().zip(&self.rewards).enumerate() {
            let (j, l) = (pair / KEYS, KEYS + pair % KEYS);
            d_weights[j] += chance / out.weights[j] * reward;
            d_weights[l] += chance / out.weights[l] * reward;
        }
        let upstream = Upstream::weights(&d_weights);
        let g = backward(&call, q, k, k, &[0.0; QUERIES * WIDTH], upstream).unwrap();
        [g.dq, g.dk].concat()
    }

    /// A stream for each of the nine pairs.
    fn streams(&self) -> Vec<u64> {
        let of = |pair| (0..10_000).find(|stream| self.draw(*stream) == pair).unwrap();
        (0..KEYS * KEYS).map(of).collect()
    }
}

fn added(total: &mut [f64], factor: f64, x: &[f64]) {
    for (total, x) in total.iter_mut().zip(x) {
        *total += factor * x;
    }
}

fn squared(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum()
}

#[test]
fn the_exact_gradient_is_that_of_the_expected_reward() {
    let game = Game::new();
    let (q_len, at) = (game.q.len(), [game.q.clone(), game.k.clone()].concat());
    let expected = |x: &[f64]| {
        let (q, k) = x.split_at(q_len);
        game.expected_reward(q, k)
    };
    check_gradient("expected reward", expected, &at, &game.gradient());
}

#[test]
fn over_all_draws_the_score_function_gives_the_exact_gradient_with_any_baseline() {
    let game = Game::new();
    let (chances, exact) = (Game::chances(&game.q, &game.k), game.gradient());
    let mean = game.expected_reward(&game.q, &game.k);
    let streams = game.streams();
    // Nothing taken off, a moving average on its way, its limit, and something absurd.
    let mut spreads = Vec::new();
    for baseline in [0.0, 0.1 * 4.0, 0.9 * mean, mean, -50.0] {
        let mut average = vec![0.0; exact.len()];
        let mut second_moment = 0.0;
        for (pair, stream) in streams.iter().enumerate() {
            let estimate = game.estimate(*stream, baseline);
            added(&mut average, chances[pair], &estimate);
            second_moment += chances[pair] * squared(&estimate);
        }
        // Nine terms of a reward up to 55 and a gradient of a logarithm up to 2, with their
        // roundings.
        assert_close(&average, &exact, Bound::f64(9 * 64, 55.0 * 2.0));
        spreads.push(second_moment - squared(&exact));
    }
    // The nearer the baseline to the mean reward, the lower the variance.
    assert!(spreads[0] > spreads[1] && spreads[1] > spreads[2] && spreads[2] > spreads[3]);
    assert!(spreads[3] < 0.1 * spreads[0] && spreads[4] > 10.0 * spreads[0], "{spreads:?}");
}

#[test]
fn a_moving_average_as_baseline_is_unbiased_and_steadier() {
    let game = Game::new();
    let exact = game.gradient();
    let n = 20_000u64;
    // Mean and variance of each entry.
    let run = |rate: f64| {
        let mut baseline = 0.0;
        let (mut sum, mut squares) = (vec![0.0; exact.len()], vec![0.0; exact.len()]);
        for stream in 0..n {
            let estimate = game.estimate(stream, baseline);
            added(&mut sum, 1.0 / n as f64, &estimate);
            let square: Vec<f64> = estimate.iter().map(|x| x * x).collect();
            added(&mut squares, 1.0 / n as f64, &square);
            // It moves after it was used: it must not know of the draw that it is taken off from.
            baseline += rate * (game.rewards[game.draw(stream)] - baseline);
        }
        let variance: Vec<f64> = squares.iter().zip(&sum).map(|(s, m)| s - m * m).collect();
        (sum, variance)
    };
    let ((plain, plain_variance), (moving, variance)) = (run(0.0), run(0.1));
    for c in 0..exact.len() {
        // Five standard errors; estimates of unlike draws hang together by the baseline alone, and
        // their errors do not add up: the expectation of each, given what was before, is exact.
        for (mean, variance) in [(plain[c], plain_variance[c]), (moving[c], variance[c])] {
            let error = (variance / n as f64).sqrt();
            assert!((mean - exact[c]).abs() < 5.0 * error, "entry {c}: {mean} for {}", exact[c]);
        }
        assert!(variance[c] < 0.2 * plain_variance[c], "entry {c}");
    }
}
