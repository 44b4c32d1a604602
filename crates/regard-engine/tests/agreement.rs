//! The engine computes what the reference computes, in both precisions, within the stated bound.

mod support;

use proptest::prelude::*;
use regard_attn::scope::{Alignment, Window};
use regard_attn::{Dims, Dropout};
use regard_tensor::{Key, Real};
use regard_testkit::{Bound, close_each};
use support::bound::{Bounds, bounds};
use support::strategy::problems;
use support::{Allowed, Kind, Outcome, Problem, Weighing};

/// Compares everything, and says which array is off.
fn compare(got: &Outcome, want: &Outcome, bounds: &Bounds) -> Result<(), String> {
    let bounds = [
        &bounds.context,
        &bounds.lse,
        &bounds.weights,
        &bounds.dq,
        &bounds.dk,
        &bounds.dv,
        &bounds.dparams,
    ];
    for (((name, got), (_, want)), bounds) in got.arrays().iter().zip(want.arrays()).zip(bounds) {
        close_each(got, want, |i| Bound::new(1.0, 1, bounds[i]))
            .map_err(|message| format!("{name}: {message}"))?;
    }
    Ok(())
}

fn agrees<T: Real>(problem: &Problem) -> Result<(), String> {
    let (want, reference) = problem.reference();
    let bounds = bounds(problem, &reference, T::EPSILON.to_f64());
    compare(&problem.engine::<T>(), &want, &bounds).map_err(|m| format!("{}: {m}", T::DTYPE))
}

fn agrees_in_both(problem: &Problem) -> Result<(), String> {
    agrees::<f64>(problem)?;
    agrees::<f32>(problem)
}

/// Every score × normaliser × scope, with and without the rest, at lengths on both sides of tiles.
#[test]
fn every_combination_of_parts() {
    let window = Window { left: 9, right: 3 };
    let none = Allowed::default();
    let scopes = [
        none.clone(),
        Allowed { lengths: Some(vec![17, 0, 40]), ..none.clone() },
        Allowed { causal: Some(Alignment::BottomRight), ..none.clone() },
        Allowed { window: Some(window), ..none.clone() },
        Allowed {
            lengths: Some(vec![17, 3, 66]),
            causal: Some(Alignment::TopLeft),
            window: Some(window),
            without_hints: true,
        },
    ];
    for kind in [Kind::Dot, Kind::ScaledDot, Kind::Additive] {
        for normaliser in [Weighing::Softmax, Weighing::WholeSoftmax, Weighing::Quarter] {
            for (n, allowed) in scopes.iter().enumerate() {
                for rest in [false, true] {
                    let items = Problem::packed(&[(65, 17), (1, 3), (13, 67)]);
                    let dims = Dims { n_heads: 2, n_kv_heads: 1, d_k: 6, d_v: 5 };
                    let mut problem = Problem::with_dims(kind, dims, items);
                    problem.normaliser = normaliser;
                    problem.allowed = allowed.clone();
                    if rest {
                        problem.rotary = true;
                        problem.dropout = Some(Dropout { rate: 0.3, key: Key::new(8) });
                        problem.watch_weights();
                    }
                    if let Err(message) = agrees_in_both(&problem) {
                        panic!("{kind:?} {normaliser:?} scope {n} rest {rest}: {message}");
                    }
                }
            }
        }
    }
}

/// Several tiles of queries and of keys.
#[test]
fn long_rows() {
    for allowed in [
        Allowed::default(),
        Allowed { causal: Some(Alignment::Square), ..Allowed::default() },
        Allowed { window: Some(Window { left: 70, right: 20 }), ..Allowed::default() },
    ] {
        let mut problem = Problem::new(Kind::ScaledDot, 1, 1, Problem::packed(&[(257, 257)]));
        problem.allowed = allowed;
        agrees_in_both(&problem).unwrap();
    }
}

/// Scores of several hundred: without the running maximum, exp would overflow.
#[test]
fn large_scores() {
    let mut problem = Problem::new(Kind::Dot, 1, 1, Problem::packed(&[(13, 131)]));
    problem.q.iter_mut().for_each(|q| *q *= 256.0);
    agrees_in_both(&problem).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_problem(problem in problems()) {
        if let Err(message) = agrees_in_both(&problem) {
            prop_assert!(false, "{}", message);
        }
    }
}
