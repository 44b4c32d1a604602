//! Laws that hold for every attention, tested on the engine alone, mostly on random problems with all parts.

use crate::support::bound::{Precision, bounds};
use crate::support::draw::{Draw, draw, draw_parts, looks};
use crate::support::parts::{NormaliserKind, PositionKind, ScopeKind, ScoreKind};
use crate::support::{
    NORMALISERS, Outcome, Problem, ROTARY, SCORES, assert_same, assert_same_bits, at,
};
use regard_attn::scope::{Alignment, Window};
use regard_attn::{Dims, Dropout, Item};
use regard_tensor::{Key, Real};
use regard_testkit::check_gradients_of;

/// Keys and values that no query sees, queries that see nothing, and what the loss says of pairs that are
/// forbidden may hold anything: neither outputs nor gradients change by a bit.
#[test]
fn forbidden_keys_change_nothing() {
    let mut spoilt = 0;
    for seed in 0..220 {
        let problem = if seed < 200 { draw(seed) } else { sparse(seed) };
        let want = problem.engine::<f32>();
        let junk = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][seed as usize % 3];
        let mut other = problem.clone();
        spoilt += spoil(&mut other, junk);
        assert_same(&other.engine::<f32>(), &want, &format!("{problem}: {junk}"));
    }
    assert!(spoilt > 1000, "{spoilt} rows and pairs");
}

/// Puts junk into everything that is not looked at; returns how much that is.
fn spoil(problem: &mut Problem, junk: f64) -> usize {
    let d = problem.dims;
    let (q_rows, kv_rows) = (problem.q_rows(), problem.kv_rows());
    let mut seen = [vec![false; q_rows], vec![false; kv_rows]];
    let mut forbidden = Vec::new();
    problem.each_pair(|n, key, query, allowed| {
        if allowed {
            (seen[0][query], seen[1][key]) = (true, true);
        } else {
            forbidden.push(n);
        }
    });
    let [queries, keys] = seen;
    let mut n = forbidden.len();
    for (row, _) in keys.iter().enumerate().filter(|(_, seen)| !**seen) {
        for head in 0..d.n_kv_heads {
            problem.k[at(row, head, d.n_kv_heads, d.d_k)].fill(junk);
            let v = at(row, head, d.n_kv_heads, d.d_v);
            problem.v[v.start + row % d.d_v] = junk;
        }
        n += 1;
    }
    if let ScoreKind::Location { max_len, .. } = problem.score.leaf() {
        // Places that no query of any item sees.
        let mut places = vec![false; *max_len];
        for item in &problem.items {
            for j in 0..item.kv_len {
                places[j] |= keys[item.kv_start + j];
            }
        }
        let tables = problem.score.leaf().n_params(d) / d.d_k;
        for row in (0..tables).filter(|row| !places[row % max_len]) {
            problem.score_params[row * d.d_k..(row + 1) * d.d_k].fill(junk);
            n += 1;
        }
    }
    for (row, _) in queries.iter().enumerate().filter(|(_, seen)| !**seen) {
        for head in 0..d.n_heads {
            problem.q[at(row, head, d.n_heads, d.d_k)].fill(junk);
            problem.d_context[at(row, head, d.n_heads, d.d_v)].fill(junk);
        }
        n += 1;
    }
    if let Some(d_weights) = &mut problem.looks.weights {
        for n in forbidden {
            d_weights[n] = junk;
        }
    }
    let (mut query, mut key, heads) = (0, 0, d.n_heads);
    let (n_queries, n_keys) = (problem.n_queries(), problem.n_keys());
    for item in problem.items.clone() {
        for i in (0..item.q_len).filter(|i| !queries[item.q_start + i]) {
            let looks = [&mut problem.looks.entropy, &mut problem.looks.log_prob];
            for look in looks.into_iter().flatten() {
                for head in 0..heads {
                    look[head * n_queries + query + i] = junk;
                }
            }
        }
        for j in (0..item.kv_len).filter(|j| !keys[item.kv_start + j]) {
            if let Some(look) = &mut problem.looks.key_sums {
                for head in 0..heads {
                    look[head * n_keys + key + j] = junk;
                }
            }
        }
        (query, key) = (query + item.q_len, key + item.kv_len);
    }
    n
}

/// A NaN in one key and its value, somewhere among keys that some queries see: the contexts and gradients of
/// those who do not see it keep their bits.
#[test]
fn a_nan_reaches_only_who_sees_it() {
    let mut hidden = 0;
    for seed in 0..200 {
        hidden += nan_is_hidden(&draw(seed), seed);
    }
    assert!(hidden > 1000, "{hidden} queries");
    let hidden: usize = (0..20).map(|seed| nan_is_hidden(&sparse(seed), seed)).sum();
    assert!(hidden > 1000, "{hidden} queries");
}

/// Heads side by side, few and scattered keys.
fn sparse(seed: u64) -> Problem {
    let dims = Dims { n_heads: 3, n_kv_heads: 3, d_k: 4, d_v: 9 };
    let score = [ScoreKind::Gat { slope: 0.2 }, ScoreKind::ScaledDot][seed as usize % 2].clone();
    Problem::sparse(score, dims, seed)
}

/// Spoils a key and its value; returns how many queries do not see it.
fn nan_is_hidden(problem: &Problem, seed: u64) -> usize {
    let mut hidden = 0;
    let d = problem.dims;
    let kv_rows = problem.kv_rows();
    let row = Draw::new(seed + 1).below(kv_rows.max(1));
    let mut sees = vec![false; problem.q_rows()];
    let mut of_item = vec![false; problem.q_rows()];
    problem.each_pair(|_, key, query, allowed| {
        of_item[query] = true;
        sees[query] |= allowed && key == row;
    });
    if !sees.contains(&true) {
        return 0;
    }
    let mut spoilt = problem.clone();
    for head in 0..d.n_kv_heads {
        spoilt.k[at(row, head, d.n_kv_heads, d.d_k)].fill(f64::NAN);
        spoilt.v[at(row, head, d.n_kv_heads, d.d_v)].fill(f64::NAN);
    }
    let (got, want) = (spoilt.engine::<f32>(), problem.engine::<f32>());
    for query in (0..sees.len()).filter(|query| of_item[*query] && !sees[*query]) {
        for head in 0..d.n_heads {
            let what = format!("{problem}: key {row}, query {query}");
            let context = at(query, head, d.n_heads, d.d_v);
            assert_same_bits(&got.context[context.clone()], &want.context[context], &what);
            let dq = at(query, head, d.n_heads, d.d_k);
            assert_same_bits(&got.dq[dq.clone()], &want.dq[dq], &what);
        }
        hidden += 1;
    }
    hidden
}

/// With the chosen scores, also the other way round: who sees a NaN becomes one.
#[test]
fn a_nan_that_is_seen_shows() {
    for score in SCORES {
        for normaliser in NORMALISERS {
            let mut problem = Problem::new(score.clone(), 1, 1, Problem::packed(&[(70, 70)]));
            problem.normaliser = normaliser;
            problem.scope = ScopeKind::Causal(Alignment::Square);
            let want = problem.engine::<f64>();
            let d = problem.dims;

            let mut spoilt = problem.clone();
            spoilt.v[at(33, 0, 1, d.d_v)][1] = f64::NAN;
            let got = spoilt.engine::<f64>();
            for i in 0..70 {
                let (got, want) = (&got.context[i * 3..i * 3 + 3], &want.context[i * 3..i * 3 + 3]);
                assert_eq!(got[1].is_nan(), i >= 33);
                assert!((got[0], got[2]) == (want[0], want[2]) || i >= 33);
                assert!((got[0] - want[0]).abs() + (got[2] - want[2]).abs() < 1e-14);
            }
            // No query before key 33 sees it, so their gradients are what they were; and keys
            // receive NaN only from the queries that do.
            let seen = at(33, 0, 1, d.d_k).start;
            assert_eq!(got.dq[..seen], want.dq[..seen]);
            assert!(got.dq[seen..].iter().all(|x| x.is_nan()));

            let mut spoilt = problem.clone();
            spoilt.k[at(33, 0, 1, d.d_k)][2] = f64::NAN;
            let got = spoilt.engine::<f64>();
            assert_eq!(got.context[..33 * d.d_v], want.context[..33 * d.d_v]);
            assert_eq!(got.dq[..seen], want.dq[..seen]);
            assert!(got.context[33 * d.d_v..].iter().all(|x| x.is_nan()));

            let mut spoilt = problem.clone();
            spoilt.q[at(33, 0, 1, d.d_k)][2] = f64::NAN;
            let got = spoilt.engine::<f64>();
            for i in (0..70).filter(|i| *i != 33) {
                let row = at(i, 0, 1, d.d_v);
                assert_eq!(got.context[row.clone()], want.context[row]);
                let row = at(i, 0, 1, d.d_k);
                assert_eq!(got.dq[row.clone()], want.dq[row]);
            }
            // Keys behind query 33 are not seen by it.
            let behind = at(34, 0, 1, d.d_k).start;
            assert_eq!(got.dk[behind..], want.dk[behind..]);
            assert_eq!(got.dv[34 * d.d_v..], want.dv[34 * d.d_v..]);
        }
    }
}

/// Zero contexts, weights, summaries and gradients, and a log-sum-exp of −∞.
#[test]
fn nothing_allowed_gives_zeros() {
    for seed in 0..120 {
        let mut problem = draw(seed);
        let (scope, nothing) = (problem.scope.clone(), ScopeKind::Or(Vec::new()));
        problem.scope = match seed % 3 {
            0 => ScopeKind::And(vec![scope, nothing]),
            1 => ScopeKind::And(vec![scope, ScopeKind::WithoutHints(Box::new(nothing))]),
            _ => ScopeKind::Lengths(vec![0; problem.items.len()]),
        };
        let got = problem.engine::<f32>();
        for (name, values) in got.arrays() {
            let want = if name == "lse" { f64::NEG_INFINITY } else { 0.0 };
            assert!(values.iter().all(|x| *x == want), "{problem}: {name}");
        }
        assert!(got.summary.top.iter().all(|top| top.weight == 0.0 && top.key == usize::MAX));
        assert!(got.summary.chosen.iter().all(|key| *key == usize::MAX));
    }
}

/// Rows sum to one where the normaliser says so and no position's factor comes in, and forbidden pairs have weight 0.
///
/// Each weight of n has a few roundings of its own and those that all share: of a sum of n terms, or of τ, which
/// is off by ε(n/4 + 2), entmax's by some more (see `support/bound/weighing.rs`) and passed on by at most 2Σ√a ≤ 2√n.
#[test]
fn rows_sum_to_one() {
    fn check<T: Real>(problem: &Problem) -> usize {
        let got = problem.engine::<T>();
        let (mut rows, mut row) = (0, (0.0, 0, 0));
        let (mut sums, mut last) = (Vec::new(), None);
        problem.each_pair(|n, _, query, allowed| {
            if last != Some(query) {
                sums.push(std::mem::take(&mut row));
                last = Some(query);
            }
            let weight = got.weights[n];
            assert!(allowed || weight == 0.0, "{problem}: weight {n}");
            row = (row.0 + weight, row.1 + usize::from(allowed), row.2 + 1);
        });
        sums.push(row);
        for (sum, allowed, _) in sums {
            let n = allowed as f64;
            let of_tau = match problem.normaliser {
                NormaliserKind::Sparsemax => n * (n / 4.0 + 4.0),
                NormaliserKind::Entmax15 => n.sqrt() * (2.0 * n + 8.0),
                _ => 0.0,
            };
            let bound = T::EPSILON.to_f64() * (2.0 * (n + 4.0) + of_tau);
            let want = if allowed > 0 { 1.0 } else { 0.0 };
            assert!((sum - want).abs() <= bound, "{problem}: {sum} of {allowed} keys");
            rows += usize::from(allowed > 0);
        }
        rows
    }
    let mut rows = 0;
    for seed in 0..200 {
        let problem = draw(seed);
        // Queries of one row index follow each other, so that a change of it ends a row.
        let one_head = problem.items.iter().all(|item| item.q_len > 1);
        let members = problem.position.members(problem.dims, &problem.items);
        let plain = members
            .iter()
            .all(|(one, _)| !matches!(one, PositionKind::Gaussian | PositionKind::DenseBias(_)));
        if problem.normaliser.sums_to_one() && plain && one_head {
            rows += check::<f32>(&problem) + check::<f64>(&problem);
        }
    }
    assert!(rows > 10_000, "{rows} rows");
}

/// Within what rounding may do to either.
#[track_caller]
fn assert_near(got: &[f64], want: &[f64], bounds: &[f64], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for n in 0..got.len() {
        let near = got[n] == want[n] || (got[n] - want[n]).abs() <= bounds[n];
        assert!(near, "{what}: entry {n} is {:e} and not {:e} ± {:e}", got[n], want[n], bounds[n]);
    }
}

/// Without an order in scope and position, the order of keys and values means nothing.
#[test]
fn permuted_keys_change_nothing_beyond_rounding() {
    let mut problems = 0;
    for seed in 0..200 {
        let mut problem = draw_parts(seed, Problem::packed(&[(70, 131), (9, 5)]));
        problem.set_position(PositionKind::None);
        let names = problem.score.names(problem.dims);
        if names.contains(&"location") || matches!(problem.normaliser, NormaliserKind::Sampled(_)) {
            continue;
        }
        looks(&mut Draw::new(seed), &mut problem);
        (problem.looks.weights, problem.looks.key_sums) = (None, None);
        let mut other = problem.clone();
        let d = problem.dims;
        // row → the row that it came from.
        let mut order: Vec<usize> = (0..136).collect();
        Key::new(seed).shuffle(&mut order[..131]);
        Key::new(seed).shuffle(&mut order[131..]);
        let permute = |array: &[f64], width: usize| -> Vec<f64> {
            order.iter().flat_map(|row| array[row * width..(row + 1) * width].to_vec()).collect()
        };
        let (k_width, v_width) = (d.n_kv_heads * d.d_k, d.n_kv_heads * d.d_v);
        (other.k, other.v) = (permute(&problem.k, k_width), permute(&problem.v, v_width));
        let (got, want) = (other.engine::<f64>(), problem.engine::<f64>());
        let allowed = bounds(&problem, Precision::of::<f64>());
        let twice = |bounds: &[f64]| bounds.iter().map(|x| 2.0 * x).collect::<Vec<_>>();
        let near = |name: &str, got: &[f64], want: &[f64], bounds: &[f64]| {
            assert_near(got, want, &twice(bounds), &format!("{problem}: {name}"));
        };
        near("context", &got.context, &want.context, &allowed.context);
        near("lse", &got.lse, &want.lse, &allowed.lse);
        near("dq", &got.dq, &want.dq, &allowed.dq);
        near("dk", &got.dk, &permute(&want.dk, k_width), &permute(&allowed.dk, k_width));
        near("dv", &got.dv, &permute(&want.dv, v_width), &permute(&allowed.dv, v_width));
        near("parameters", &got.dscore_params, &want.dscore_params, &allowed.dscore_params);
        near("entropy", &got.summary.entropy, &want.summary.entropy, &allowed.entropy);
        problems += 1;
    }
    assert!(problems > 100, "{problems} problems");
}

/// Whether a row's sums may depend on how long the row is.
fn takes_whole_rows(problem: &Problem) -> bool {
    match problem.normaliser {
        NormaliserKind::Temperature(tau) => !(1e-6..=1e6).contains(&tau),
        NormaliserKind::WholeSoftmax => true,
        _ => false,
    }
}

/// With a causal scope, later tokens change nothing before them: not one bit, or for normalisers
/// that get rows of the tile's length nothing beyond rounding.
#[test]
fn a_causal_prefix_is_the_shorter_sequence() {
    for seed in 0..80 {
        let mut problem = draw_parts(seed, Problem::packed(&[(150, 150)]));
        problem.scope = match seed % 3 {
            0 => ScopeKind::Causal(Alignment::TopLeft),
            1 => ScopeKind::WithoutHints(Box::new(ScopeKind::Causal(Alignment::TopLeft))),
            _ => ScopeKind::And(vec![
                ScopeKind::Causal(Alignment::TopLeft),
                ScopeKind::Window(Window { left: 50, right: 4 }),
            ]),
        };
        if seed % 4 == 0 {
            problem.dropout = Some(Dropout { rate: 0.3, key: Key::new(seed) });
        }
        let long = problem.engine::<f32>();
        let allowed = bounds(&problem, Precision::of::<f32>());
        for len in [1, 16, 63, 64, 65, 100] {
            let short = problem.part(0, len, len).engine::<f32>();
            let n = short.context.len();
            let what = format!("{problem}: the first {len}");
            if takes_whole_rows(&problem) {
                let twice: Vec<f64> = allowed.context[..n].iter().map(|x| 2.0 * x).collect();
                assert_near(&long.context[..n], &short.context, &twice, &what);
                continue;
            }
            assert_same_bits(&long.context[..n], &short.context, &what);
            for head in 0..problem.dims.n_heads {
                assert_same_bits(
                    &long.lse[head * 150..][..len],
                    &short.lse[head * len..][..len],
                    &what,
                );
            }
        }
    }
}

/// One new query, or some, against a cache of all keys is the last row, or rows, of the full pass, up to rounding, for
/// every score, normaliser and position. (What is random is addressed by the query's index, so it is left out.)
#[test]
fn a_cached_step_is_the_full_pass() {
    for seed in 0..100 {
        let mut problem = draw_parts(seed, Problem::packed(&[(150, 150)]));
        if matches!(problem.normaliser, NormaliserKind::Sampled(_)) {
            continue;
        }
        problem.scope = ScopeKind::Causal(Alignment::TopLeft);
        let full = problem.engine::<f64>();
        let allowed = bounds(&problem, Precision::of::<f64>());
        for (steps, kv_len) in [(1, 150), (5, 150), (70, 150), (1, 65), (3, 20)] {
            let first = kv_len - steps;
            let mut step = problem.part(first, steps, kv_len);
            for alignment in [Alignment::TopLeft, Alignment::BottomRight] {
                step.scope = ScopeKind::Causal(alignment);
                let got = step.engine::<f64>();
                let width = problem.dims.n_heads * problem.dims.d_v;
                let rows = first * width..kv_len * width;
                let what = format!("{problem}: {steps} steps up to {kv_len}, {alignment:?}");
                let twice: Vec<f64> =
                    allowed.context[rows.clone()].iter().map(|x| 2.0 * x).collect();
                assert_near(&got.context, &full.context[rows], &twice, &what);
            }
        }
    }
}

/// What stands between items is left alone.
#[test]
fn rows_of_no_item_are_not_written() {
    let items = vec![
        Item { q_start: 2, q_len: 3, kv_start: 1, kv_len: 4, q_offset: 0 },
        Item { q_start: 7, q_len: 1, kv_start: 6, kv_len: 2, q_offset: 0 },
    ];
    let problem = Problem::new(ScoreKind::Additive, 1, 1, items);
    // `engine` holds that contexts of no item are not written at all.
    let got = problem.engine::<f32>();
    let written = |x: &[f64], width| x.chunks(width).map(|r| r[0] != 0.0).collect::<Vec<_>>();
    let queries = [false, false, true, true, true, false, false, true];
    assert_eq!(written(&got.context, problem.dims.d_v), queries);
    assert_eq!(written(&got.dq, problem.dims.d_k), queries);
    let keys = [false, true, true, true, true, false, true, true];
    assert_eq!(written(&got.dv, problem.dims.d_v), keys);
}

/// Backward is the derivative of forward, with the same weights dropped in both.
#[test]
fn backward_is_the_derivative_with_dropout_on() {
    for score in SCORES {
        for normaliser in NORMALISERS {
            let dims = Dims { n_heads: 2, n_kv_heads: 1, d_k: 4, d_v: 3 };
            let items = Problem::packed(&[(5, 7), (3, 3)]);
            let mut problem = Problem::with_dims(score.clone(), dims, items);
            problem.normaliser = normaliser;
            problem.set_position(ROTARY);
            problem.dropout = Some(Dropout { rate: 0.4, key: Key::new(9) });
            problem.scope = ScopeKind::Window(Window { left: 3, right: 1 });
            problem.watch_weights();
            let got = problem.engine::<f64>();
            // About a third of the weights are dropped, or the test tests little.
            let loss = |q: &[f64], k: &[f64], v: &[f64], params: &[f64]| {
                let mut moved = problem.clone();
                moved.q.copy_from_slice(q);
                moved.k.copy_from_slice(k);
                moved.v.copy_from_slice(v);
                moved.score_params.copy_from_slice(params);
                let out = moved.engine::<f64>();
                let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                dot(&out.context, &problem.d_context)
                    + dot(&out.weights, problem.looks.weights.as_ref().unwrap())
            };
            check_gradients_of(
                &mut [
                    ("q", problem.q.clone()),
                    ("k", problem.k.clone()),
                    ("v", problem.v.clone()),
                    ("params", problem.score_params.clone()),
                ],
                |x| loss(&x[0].1, &x[1].1, &x[2].1, &x[3].1),
                &[got.dq, got.dk, got.dv, got.dscore_params],
            );
        }
    }
}

/// Of equal scores `hard` takes the first, wherever the tiles lie.
#[test]
fn of_equal_scores_the_first_is_chosen() {
    for first in [0, 5, 63, 64, 100] {
        let mut problem = Problem::new(ScoreKind::Dot, 1, 1, Problem::packed(&[(3, 150)]));
        problem.normaliser = NormaliserKind::Hard;
        problem.wanted.choices = true;
        let d = problem.dims;
        // The first query's direction, from key `first` on; before it, its opposite.
        for (j, key) in problem.k.chunks_exact_mut(d.d_k).enumerate() {
            let sign = if j < first { -1.0 } else { 1.0 };
            key.iter_mut().zip(&problem.q).for_each(|(k, q)| *k = sign * q);
        }
        let got = problem.engine::<f32>();
        assert_eq!(got.summary.chosen[0], first);
        assert_eq!(got.weights[first], 1.0);
        assert_eq!(got.context[..d.d_v], problem.v[at(first, 0, 1, d.d_v)]);
    }
}

/// Sampled keys come as often as the softmax says.
///
/// With n draws a count has the standard deviation √(n p (1 − p)); of 2·100 counts none may be off by more
/// than five, which happens by chance once in ten thousand such tests.
#[test]
fn sampled_frequencies_agree_with_the_weights() {
    let n = 20_000;
    let mut problem = Problem::new(ScoreKind::ScaledDot, 2, 1, Problem::packed(&[(n, 100)]));
    let d = problem.dims;
    let query: Vec<f64> = problem.q[..2 * d.d_k].iter().map(|q| 4.0 * q).collect();
    problem.q.chunks_exact_mut(2 * d.d_k).for_each(|row| row.copy_from_slice(&query));
    let weights = problem.part(0, 1, 100).engine::<f32>().weights;

    problem.normaliser = NormaliserKind::Sampled(Key::new(11));
    let mut counts = [[0.0f64; 100]; 2];
    problem.wanted.choices = true;
    let chosen = problem.engine::<f32>().summary.chosen;
    for (row, key) in chosen.into_iter().enumerate() {
        counts[row / n][key] += 1.0;
    }
    for (count, p) in counts.iter().flatten().zip(weights) {
        let deviation = (n as f64 * p * (1.0 - p)).sqrt();
        assert!((count - n as f64 * p).abs() <= 5.0 * deviation + 1.0, "{count} of {n} at {p}");
    }
}

/// The summaries say what the whole weights say.
#[test]
fn summaries_are_those_of_the_whole_weights() {
    fn sums(problem: &Problem, got: &Outcome) -> Vec<f64> {
        let (mut sums, mut n) = (vec![0.0; got.summary.key_sums.len()], 0);
        for (index, item) in problem.items.iter().enumerate() {
            for head in 0..problem.dims.n_heads {
                for _ in 0..item.q_len {
                    for j in 0..item.kv_len {
                        sums[head * problem.n_keys() + problem.starts(index).1 + j] +=
                            got.weights[n];
                        n += 1;
                    }
                }
            }
        }
        sums
    }
    for seed in 0..60 {
        let mut problem = draw(seed);
        problem.wanted.key_sums = true;
        problem.wanted.distances = Some(7);
        let got = problem.engine::<f64>();
        let allowed = bounds(&problem, Precision::of::<f64>());
        let want = sums(&problem, &got);
        let twice: Vec<f64> = allowed.key_sums.iter().map(|x| 2.0 * x).collect();
        assert_near(&got.summary.key_sums, &want, &twice, &problem.to_string());
        // Every weight lies in one bin of the distances.
        let all: f64 = got.summary.distances.iter().sum::<f64>() * problem.n_queries() as f64;
        let size: f64 = want.iter().map(|x| x.abs()).sum::<f64>()
            + got.weights.iter().map(|x| x.abs()).sum::<f64>();
        let off = 2.0 * problem.n_queries() as f64 * allowed.distances.iter().sum::<f64>();
        let terms = (got.weights.len() + want.len()) as f64;
        assert!(
            (all - want.iter().sum::<f64>()).abs() <= off + f64::EPSILON * terms * size,
            "{problem}: {all}"
        );
    }
}
