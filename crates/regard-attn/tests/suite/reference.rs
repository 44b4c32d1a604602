//! The reference: its gradients are those of its forward pass, for every combination of parts.

use regard_attn::normaliser::Softmax;
use regard_attn::position::{NoPosition, Rotary, RotaryLayout};
use regard_attn::scope::{Full, Lengths};
use regard_attn::score::Dot;
use regard_attn::{
    Call, Dims, Dropout, Item, Normaliser, Rows, Scope, Streaming, Upstream, Wanted, reference,
};
use regard_tensor::Key;
use regard_testkit::{Bound, assert_close, check_gradient, check_gradients_of, random_vec};

use crate::parts::{
    POSITIONS, PROBLEM, SCORES, normalisers, position, position_params, scopes, score,
};
use crate::problem::{DIMS, ITEMS, Inputs, KV_ROWS, LATER, Q_ROWS, call, dense};

/// Σ x_n u_n
fn inner(x: &[f64], u: &[f64]) -> f64 {
    x.iter().zip(u).map(|(x, u)| x * u).sum()
}

/// A gradient padded with the zeros of the unused rows at the end.
fn padded(mut gradient: Vec<f64>, rows: usize, row: usize) -> Vec<f64> {
    gradient.resize(rows * row, 0.0);
    gradient
}

/// What a loss looks at beside the contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Weights,
    KeySums,
    Entropy,
    LogProb,
}

use Look::{Entropy, KeySums, LogProb, Weights};

/// The parts of a call by name, with the numbers that it runs on.
struct Parts<'a> {
    score: &'a str,
    normaliser: &'a dyn Normaliser<f64>,
    scope: &'a dyn Scope,
    position: &'a str,
    dropout: Option<Dropout>,
    items: &'a [Item],
    looks: &'a [Look],
}

impl Parts<'_> {
    /// Hands the call of these parts, with these parameters, to `f`.
    fn with<R>(
        &self,
        score_params: &[f64],
        position_params: &[f64],
        f: impl FnOnce(&Call<'_, f64>) -> R,
    ) -> R {
        let score = score(self.score, score_params, DIMS.d_k);
        let position = position(self.position, position_params, PROBLEM);
        let call = call(&*score, self.scope, &*position, self.dropout);
        f(&Call { normaliser: self.normaliser, items: self.items, ..call })
    }

    /// Holds every gradient of the call to central differences.
    fn check(&self) {
        let looks = |at| self.looks.contains(&at);
        let Dims { n_heads, n_kv_heads, d_k, d_v } = DIMS;
        let Inputs { q, k, v, params } = Inputs::new(self.score);
        let of_position = position_params(self.position, PROBLEM);
        let wanted = Wanted {
            key_sums: looks(KeySums),
            entropy: looks(Entropy),
            choices: looks(LogProb),
            ..Wanted::default()
        };
        // The upstream gradients, which are the factors of the loss.
        let sizes = self.with(&params, &of_position, |call| {
            [
                call.n_queries() * n_heads * d_v,
                call.weight_offsets()[ITEMS.len()],
                n_heads * call.n_keys(),
                n_heads * call.n_queries(),
            ]
        });
        let d_context = random_vec(11, sizes[0]);
        let d_weights = looks(Weights).then(|| random_vec(12, sizes[1]));
        let d_key_sums = looks(KeySums).then(|| random_vec(13, sizes[2]));
        let d_entropy = looks(Entropy).then(|| random_vec(14, sizes[3]));
        let d_log_prob = looks(LogProb).then(|| random_vec(15, sizes[3]));
        let upstream = Upstream {
            weights: d_weights.as_deref(),
            key_sums: d_key_sums.as_deref(),
            entropy: d_entropy.as_deref(),
            log_prob: d_log_prob.as_deref(),
        };
        let loss = |q: &[f64], k: &[f64], v: &[f64], params: &[f64], of_position: &[f64]| {
            self.with(params, of_position, |call| {
                let (q, k) = (dense(q, n_heads, d_k), dense(k, n_kv_heads, d_k));
                let out = reference::forward(call, q, k, dense(v, n_kv_heads, d_v)).unwrap();
                let said = reference::summarise(call, q, k, wanted).unwrap();
                [
                    (&out.weights, upstream.weights),
                    (&said.key_sums, upstream.key_sums),
                    (&said.entropy, upstream.entropy),
                    (&said.log_prob, upstream.log_prob),
                ]
                .iter()
                .map(|(x, d)| d.map_or(0.0, |d| inner(x, d)))
                .fold(inner(&out.context, &d_context), |a, b| a + b)
            })
        };
        let g = self.with(&params, &of_position, |call| {
            let (q, k) = (dense(&q, n_heads, d_k), dense(&k, n_kv_heads, d_k));
            let v = dense(&v, n_kv_heads, d_v);
            reference::backward(call, q, k, v, &d_context, upstream).unwrap()
        });
        let what = |name: &str| {
            let (scope, position, looks) = (self.scope, self.position, self.looks);
            format!(
                "{name} ({} × {:?} × {scope:?} × {position}, {looks:?})",
                self.score, self.normaliser
            )
        };
        let names = ["q", "k", "v", "score's parameters", "position's parameters"].map(what);
        let mut at = [q, k, v, params, of_position];
        let mut arguments: Vec<(&str, Vec<f64>)> =
            names.iter().zip(&mut at).map(|(name, at)| (&name[..], std::mem::take(at))).collect();
        check_gradients_of(
            &mut arguments,
            |a| loss(&a[0].1, &a[1].1, &a[2].1, &a[3].1, &a[4].1),
            &[
                padded(g.dq, Q_ROWS, n_heads * d_k),
                padded(g.dk, KV_ROWS, n_kv_heads * d_k),
                padded(g.dv, KV_ROWS, n_kv_heads * d_v),
                g.dscore_params,
                g.dposition_params,
            ],
        );
    }
}

/// Without dropout, and with it.
fn dropouts() -> [Option<Dropout>; 2] {
    [None, Some(Dropout { rate: 0.3, key: Key::new(5) })]
}

#[test]
fn gradients_of_every_combination() {
    let scopes = scopes();
    // Each score meets each position, each position each scope, and each score each scope; parts
    // meet each of these in turn.
    let looks: [&[Look]; 5] =
        [&[], &[Weights], &[KeySums], &[Weights, Entropy], &[Weights, KeySums, Entropy]];
    for (n, score) in SCORES.into_iter().enumerate() {
        for (p, position) in POSITIONS.into_iter().enumerate() {
            for (s, scope) in scopes.iter().enumerate() {
                let plain = matches!(position, "none" | "rotary");
                if !plain && (n + p + s) % scopes.len() != 0 {
                    continue;
                }
                let round = n + 2 * p + s;
                Parts {
                    score,
                    normaliser: &Softmax,
                    scope: &**scope,
                    position,
                    dropout: dropouts()[round % 2],
                    items: [&ITEMS, &LATER][round / 2 % 2],
                    looks: looks[round % looks.len()],
                }
                .check();
            }
        }
    }
}

#[test]
fn gradients_of_every_position_with_every_scope_and_all_that_a_loss_can_look_at() {
    for (p, position) in POSITIONS.into_iter().enumerate() {
        for (s, scope) in scopes().iter().enumerate() {
            Parts {
                // Location has keys of its own.
                score: ["scaled_dot", "location"][(p + s) % 2],
                normaliser: &Softmax,
                scope: &**scope,
                position,
                dropout: dropouts()[(s + 1) % 2],
                items: [&LATER, &ITEMS][p % 2],
                looks: &[Weights, KeySums, Entropy],
            }
            .check();
        }
    }
}

#[test]
fn gradients_of_normalisers() {
    for normaliser in normalisers() {
        for n in [1, 2, 9, 17] {
            let (scores, upstream) = (random_vec(1, n), random_vec(2, n));
            let weights = |s: &[f64]| {
                let mut s = s.to_vec();
                normaliser.row(&mut s);
                s
            };
            let mut gradient = upstream.clone();
            normaliser.row_backward(&weights(&scores), &mut gradient);
            let loss = |s: &[f64]| inner(&weights(s), &upstream);
            check_gradient(normaliser.name(), loss, &scores, &gradient);
        }
    }
}

#[test]
fn gradients_of_calls_with_every_normaliser() {
    for (n, normaliser) in normalisers().iter().enumerate() {
        for (s, scope) in scopes().iter().enumerate() {
            let looks: &[Look] = match normaliser.streaming() {
                Streaming::Pick { .. } => &[Weights, KeySums, Entropy, LogProb],
                _ if normaliser.rows_sum_to_one() => &[Weights, KeySums, Entropy],
                _ => &[Weights, KeySums],
            };
            for position in ["none", "chain", "gaussian"] {
                Parts {
                    score: ["scaled_dot", "location", "gatv2"][(n + s) % 3],
                    normaliser: &**normaliser,
                    scope: &**scope,
                    position,
                    dropout: dropouts()[s % 2],
                    items: [&ITEMS, &LATER][s / 2 % 2],
                    looks,
                }
                .check();
            }
        }
    }
}

#[test]
fn normalised_rows() {
    let never = f64::NEG_INFINITY;
    for normaliser in normalisers() {
        for n in [0, 1, 2, 9, 17, 65] {
            let mut row: Vec<f64> = random_vec(1, n).iter().map(|s| 30.0 * s).collect();
            row.extend([never, never]);
            let lse = normaliser.row(&mut row);
            let bounded = normaliser.name() != "identity";
            assert!(!bounded || row.iter().all(|a| (0.0..=1.0).contains(a)));
            assert_eq!(row[n..], [0.0, 0.0], "{}", normaliser.name());
            if n == 0 {
                assert_eq!(lse, never);
            } else if normaliser.rows_sum_to_one() {
                assert_close(&[row.iter().sum::<f64>()], &[1.0], Bound::f64(n + 4, 1.0));
            }
        }
    }
}

#[test]
fn weights_are_those_before_dropout_and_kept_those_after() {
    let inputs = Inputs::new("dot");
    let rate = 0.4;
    let dropout = Some(Dropout { rate, key: Key::new(1) });
    let (with, without) =
        (call(&Dot, &Full, &NoPosition, dropout), call(&Dot, &Full, &NoPosition, None));
    let run =
        |c: &Call<'_, f64>| reference::forward(c, inputs.q(), inputs.k(), inputs.v()).unwrap();
    let (dropped, plain) = (run(&with), run(&without));
    assert_eq!(dropped.weights, plain.weights);
    assert_eq!(dropped.lse, plain.lse);
    assert_eq!(plain.kept, plain.weights);
    let mut lost = 0;
    for (kept, weight) in dropped.kept.iter().zip(&plain.weights) {
        assert!(*kept == 0.0 || *kept == weight * (1.0 / (1.0 - rate)));
        lost += usize::from(*kept == 0.0);
    }
    assert!(lost > 0 && lost < plain.kept.len());
    assert_eq!(run(&with), dropped);
    // Another stream drops others.
    let other = Some(Dropout { rate, key: Key::new(2) });
    assert_ne!(run(&call(&Dot, &Full, &NoPosition, other)).kept, dropped.kept);
}

#[test]
fn dropout_keeps_the_mean() {
    let dropout = Dropout { rate: 0.3, key: Key::new(3) };
    let n = 200_000;
    let factors = (0..n).map(|j| dropout.factor::<f64>(dropout.row(1, 2, j / 1000), j % 1000));
    let mean = factors.sum::<f64>() / n as f64;
    // One factor has the variance rate/(1 − rate) = 0.43; five standard errors.
    assert!((mean - 1.0).abs() < 5.0 * (0.43 / n as f64).sqrt(), "{mean}");
}

#[test]
fn a_query_with_nothing_allowed_has_zero_everything() {
    for name in SCORES {
        let inputs = Inputs::new(name);
        let score = score(name, &inputs.params, DIMS.d_k);
        let scope = Lengths { kv: &[5, 0] };
        let rotary = Rotary::new(10000.0, RotaryLayout::Half);
        let call = call(&*score, &scope, &rotary, None);
        let out = reference::forward(&call, inputs.q(), inputs.k(), inputs.v()).unwrap();
        let n_queries = call.n_queries();
        let first_of_second = call.query_offsets()[1];
        assert!(out.context[first_of_second * DIMS.n_heads * DIMS.d_v..].iter().all(|c| *c == 0.0));
        assert!(out.weights[call.weight_offsets()[1]..].iter().all(|a| *a == 0.0));
        for head in 0..DIMS.n_heads {
            let lse = &out.lse[head * n_queries..(head + 1) * n_queries];
            assert!(lse[..first_of_second].iter().all(|l| l.is_finite()));
            assert!(lse[first_of_second..].iter().all(|l| *l == f64::NEG_INFINITY));
        }
        let d_context = random_vec(1, out.context.len());
        let d_weights = random_vec(2, out.weights.len());
        let (q, k, v) = (inputs.q(), inputs.k(), inputs.v());
        let g =
            reference::backward(&call, q, k, v, &d_context, Upstream::weights(&d_weights)).unwrap();
        let item = ITEMS[1];
        let zero = |rows: &[f64], start: usize, len: usize, width: usize| {
            rows[start * width..(start + len) * width].iter().all(|x| *x == 0.0)
        };
        assert!(zero(&g.dq, item.q_start, item.q_len, DIMS.n_heads * DIMS.d_k));
        assert!(zero(&g.dk, item.kv_start, item.kv_len, DIMS.n_kv_heads * DIMS.d_k));
        assert!(zero(&g.dv, item.kv_start, item.kv_len, DIMS.n_kv_heads * DIMS.d_v));
    }
}

#[test]
fn a_batch_without_items_or_rows_is_empty() {
    let rows = Rows { data: &[][..], row_stride: 8, head_stride: 4 };
    // The starts of items without rows may lie anywhere.
    let nowhere = Item { q_start: 70, q_len: 0, kv_start: 80, kv_len: 0, q_offset: 0 };
    for items in [&[][..], &[nowhere]] {
        let call = Call { items, ..call(&Dot, &Full, &NoPosition, None) };
        let out = reference::forward(&call, rows, rows, rows).unwrap();
        assert!(out.context.is_empty() && out.lse.is_empty() && out.weights.is_empty());
        let g = reference::backward(&call, rows, rows, rows, &[], Upstream::weights(&[])).unwrap();
        assert!(g.dq.is_empty() && g.dk.is_empty() && g.dv.is_empty());
    }
    // Queries without keys.
    let lonely = Item { q_start: 0, q_len: 2, kv_start: 0, kv_len: 0, q_offset: 0 };
    let call = Call { items: &[lonely], ..call(&Dot, &Full, &NoPosition, None) };
    let q = Rows { data: &[1.0; 16][..], ..rows };
    let out = reference::forward(&call, q, rows, rows).unwrap();
    assert_eq!((out.context, out.lse), (vec![0.0; 12], vec![f64::NEG_INFINITY; 4]));
    let g = reference::backward(&call, q, rows, rows, &[1.0; 12], Upstream::NONE).unwrap();
    assert_eq!(g.dq, [0.0; 16]);
}
