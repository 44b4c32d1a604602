//! Chosen problems, engine against reference in both precisions; random ones are in `exact.rs`.

use crate::support::net::check;
use crate::support::parts::{NormaliserKind, PositionKind, ScopeKind, ScoreKind};
use crate::support::{GradLayout, Layout, NORMALISERS, Problem, ROTARY, SCORES};
use regard_attn::scope::{Alignment, Window};
use regard_attn::{Dims, Dropout};
use regard_tensor::Key;

#[track_caller]
fn agrees(problem: &Problem) {
    if let Err(message) = check(problem) {
        panic!("{problem}\n{message}");
    }
}

/// Every score × normaliser × scope, with and without the rest, at lengths on both sides of tiles.
#[test]
fn every_combination_of_parts() {
    let window = ScopeKind::Window(Window { left: 9, right: 3 });
    let scopes = [
        ScopeKind::Full,
        ScopeKind::Lengths(vec![17, 0, 40]),
        ScopeKind::Causal(Alignment::BottomRight),
        window.clone(),
        ScopeKind::WithoutHints(Box::new(ScopeKind::And(vec![
            ScopeKind::Lengths(vec![17, 3, 66]),
            ScopeKind::Causal(Alignment::TopLeft),
            window,
        ]))),
    ];
    for score in SCORES {
        for normaliser in NORMALISERS {
            for scope in &scopes {
                for rest in [false, true] {
                    let items = Problem::packed(&[(65, 17), (1, 3), (13, 67)]);
                    let dims = Dims { n_heads: 2, n_kv_heads: 1, d_k: 6, d_v: 5 };
                    let mut problem = Problem::with_dims(score.clone(), dims, items);
                    problem.normaliser = normaliser;
                    problem.scope = scope.clone();
                    if rest {
                        problem.set_position(ROTARY);
                        problem.dropout = Some(Dropout { rate: 0.3, key: Key::new(8) });
                        problem.watch_weights();
                    }
                    agrees(&problem);
                }
            }
        }
    }
}

/// Several tiles of queries and of keys.
#[test]
fn long_rows() {
    for scope in [
        ScopeKind::Full,
        ScopeKind::Causal(Alignment::Square),
        ScopeKind::Window(Window { left: 70, right: 20 }),
    ] {
        let items = Problem::packed(&[(257, 257)]);
        let mut problem = Problem::new(ScoreKind::ScaledDot, 1, 1, items);
        problem.scope = scope;
        agrees(&problem);
    }
}

/// Heads side by side (one, three, four, six) where keys are few and scattered, with scores that are made of two numbers
/// and others, widths on both sides of eight, whatever the loss looks at, in every layout.
#[test]
fn sparse_graphs() {
    let scores = [
        ScoreKind::Gat { slope: 0.2 },
        ScoreKind::Gat { slope: -0.5 },
        ScoreKind::ScaledDot,
        ScoreKind::Gatv2 { slope: 0.2 },
    ];
    for (score, seed) in scores.into_iter().zip(0..) {
        for (n_heads, d_k, d_v) in [(1, 3, 7), (3, 8, 8), (4, 9, 36), (6, 16, 19)] {
            for variant in 0..6 {
                let dims = Dims { n_heads, n_kv_heads: n_heads, d_k, d_v };
                let mut problem = Problem::sparse(score.clone(), dims, 10 * seed + variant);
                match variant {
                    1 => problem.dropout = Some(Dropout { rate: 0.4, key: Key::new(5) }),
                    2 => problem.normaliser = NormaliserKind::Temperature(0.7),
                    3 => {
                        problem.layouts = [Layout { heads_first: true, gap: 3 }; 4];
                        problem.add_gradients = false;
                        problem.watch_weights();
                    }
                    4 => {
                        problem.grad_layout = GradLayout::KeyValue;
                        let causal = ScopeKind::Causal(Alignment::BottomRight);
                        problem.scope = ScopeKind::And(vec![problem.scope, causal]);
                    }
                    5 => {
                        problem.layouts = [Layout { heads_first: false, gap: 2 }; 4];
                        problem.add_gradients = false;
                        problem.normaliser = NormaliserKind::Sparsemax;
                    }
                    _ => {}
                }
                agrees(&problem);
            }
        }
    }
}

/// Rows of one weight, of some and of most keys beside each other: products over the weights that are not 0, and whole ones.
#[test]
fn sparse_weights() {
    for normaliser in [NormaliserKind::Sparsemax, NormaliserKind::Entmax15] {
        for (d_k, d_v, n_heads) in [(20, 70, 2), (64, 16, 1)] {
            for variant in 0..4 {
                let dims = Dims { n_heads, n_kv_heads: 1, d_k, d_v };
                let items = Problem::packed(&[(70, 300), (3, 130)]);
                let mut problem = Problem::with_dims(ScoreKind::ScaledDot, dims, items);
                problem.normaliser = normaliser;
                let sizes = [30.0, 3.0, 0.5, 0.01];
                for (n, q) in problem.q.chunks_exact_mut(d_k).enumerate() {
                    for q in q {
                        *q = f64::from((*q * sizes[n / 3 % 4]) as f32);
                    }
                }
                match variant {
                    1 => problem.dropout = Some(Dropout { rate: 0.3, key: Key::new(2) }),
                    2 => {
                        problem.scope = ScopeKind::Causal(Alignment::BottomRight);
                        problem.watch_weights();
                    }
                    3 => problem.set_position(ROTARY),
                    _ => {}
                }
                agrees(&problem);
            }
        }
    }
}

/// Scores of several hundred: without the running maximum, exp would overflow.
#[test]
fn large_scores() {
    let mut problem = Problem::new(ScoreKind::Dot, 1, 1, Problem::packed(&[(13, 131)]));
    problem.q.iter_mut().for_each(|q| *q *= 256.0);
    agrees(&problem);
}

/// A bias of −∞ is as good as a scope, for whole rows too.
#[test]
fn a_bias_may_forbid() {
    for normaliser in NORMALISERS {
        if normaliser == NormaliserKind::Quarter {
            continue; // Takes a weight of 0 for a forbidden pair, but cannot tell the caller.
        }
        let mut problem = Problem::new(ScoreKind::Dot, 1, 1, Problem::packed(&[(5, 70), (2, 3)]));
        problem.normaliser = normaliser;
        problem.set_position(PositionKind::DenseBias([1, 1, 5, 70]));
        for (n, b) in problem.position_params.iter_mut().enumerate() {
            let (query, key) = (n / 70, n % 70);
            if query == 1 || key % 3 == 0 || (query == 0 && key < 3) {
                *b = f64::NEG_INFINITY;
            }
        }
        agrees(&problem);
    }
}
