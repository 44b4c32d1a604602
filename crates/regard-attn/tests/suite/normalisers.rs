//! Sparse normalisers against the definition, and how all of them meet odd rows.

use proptest::prelude::*;
use regard_attn::Normaliser;
use regard_attn::normaliser::{Entmax15, Hard, Softmax, Sparsemax};
use regard_testkit::{Bound, assert_close, random_vec};

use crate::parts::normalisers;

const NEVER: f64 = f64::NEG_INFINITY;

/// The weights `((z_j − τ)₊)^power` with sum one, by bisection of τ: the definition itself.
fn bisected(z: &[f64], power: i32) -> Vec<f64> {
    let top = z.iter().copied().fold(NEVER, f64::max);
    let weights =
        |tau: f64| -> Vec<f64> { z.iter().map(|z| (z - top - tau).max(0.0).powi(power)).collect() };
    // τ = −1 gives the largest key alone one; τ = 0 gives nothing.
    let (mut low, mut high) = (-1.0, 0.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if weights(middle).iter().sum::<f64>() >= 1.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    weights(low)
}

fn check_sparse(scores: &[f64]) {
    let n = scores.len();
    let halves: Vec<f64> = scores.iter().map(|s| 0.5 * s).collect();
    for (normaliser, want) in [
        (&Sparsemax as &dyn Normaliser<f64>, bisected(scores, 1)),
        (&Entmax15, bisected(&halves, 2)),
    ] {
        let mut got = scores.to_vec();
        assert_eq!(normaliser.row(&mut got), 0.0);
        // z up to 1 in size; τ is off by the roundings of n terms, a weight by twice that.
        assert_close(&got, &want, Bound::f64(4 * n + 16, 1.0));
        assert_close(&[got.iter().sum::<f64>()], &[1.0], Bound::f64(4 * n + 16, 1.0));
        // Falling scores have falling weights, and what has none lies below all that have one.
        for i in 0..n {
            for j in 0..n {
                assert!(scores[i] < scores[j] || got[i] >= got[j]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn sparse_weights_are_those_of_the_definition(
        n in 1usize..40,
        seed in 0u64..1_000_000,
        size in 0.0..6.0f64,
        shift in -100.0..100.0f64,
        steps in prop::option::of(1u8..5),
    ) {
        let scores: Vec<f64> = random_vec(seed, n)
            .into_iter()
            // Ties, where there are steps.
            .map(|s| steps.map_or(s, |steps| (s * f64::from(steps)).round()))
            .map(|s| shift + size * s)
            .collect();
        check_sparse(&scores);
    }
}

#[test]
fn f32_is_f64_within_its_rounding() {
    for seed in 0..20 {
        let wide = random_vec(seed, 33);
        let narrow: Vec<f32> = wide.iter().map(|s| *s as f32).collect();
        for (exact, fast) in [
            (&Sparsemax as &dyn Normaliser<f64>, &Sparsemax as &dyn Normaliser<f32>),
            (&Entmax15, &Entmax15),
        ] {
            let (mut want, mut got) = (wide.clone(), narrow.clone());
            exact.row(&mut want);
            fast.row(&mut got);
            assert_close(&got, &want, Bound::f32(4 * 33 + 16, 1.0));
        }
    }
}

#[test]
fn sparse_weights_do_not_change_when_all_scores_move_together() {
    for normaliser in [&Sparsemax as &dyn Normaliser<f64>, &Entmax15, &Hard] {
        // Multiples of 1/8 move without rounding.
        let scores: Vec<f64> = random_vec(3, 12).iter().map(|s| (s * 16.0).round() / 8.0).collect();
        let (mut here, mut there) = (scores.clone(), scores.iter().map(|s| s + 1024.0).collect());
        normaliser.row(&mut here);
        normaliser.row(&mut there as &mut Vec<f64>);
        assert_eq!(here, there);
        // So their derivative along (1, …, 1) is zero.
        let mut gradient = random_vec(4, 12);
        normaliser.row_backward(&here, &mut gradient);
        assert!(gradient.iter().sum::<f64>().abs() < 1e-14);
    }
}

#[test]
fn sparser_from_the_softmax_to_entmax_to_sparsemax() {
    let scores = random_vec(5, 30).iter().map(|s| 3.0 * s).collect::<Vec<_>>();
    let positive = |normaliser: &dyn Normaliser<f64>| {
        let mut row = scores.clone();
        normaliser.row(&mut row);
        row.iter().filter(|a| **a > 0.0).count()
    };
    let counts = [positive(&Softmax), positive(&Entmax15), positive(&Sparsemax), positive(&Hard)];
    assert!(counts[0] == 30 && counts.is_sorted_by(|a, b| a > b) && counts[3] == 1, "{counts:?}");
}

#[test]
fn a_nan_shows_in_every_weight_but_not_behind_the_mask() {
    for normaliser in normalisers() {
        let mut row = [1.0, NEVER, f64::NAN, 0.5];
        normaliser.row(&mut row);
        assert_eq!(row[1], 0.0, "{normaliser:?}");
        assert!(row[2].is_nan(), "{normaliser:?}");
        let alone = matches!(normaliser.name(), "sigmoid" | "identity");
        assert!(alone || (row[0].is_nan() && row[3].is_nan()), "{normaliser:?}");
    }
}

#[test]
fn an_infinite_score_is_no_number_to_a_sparse_normaliser() {
    for normaliser in [&Sparsemax as &dyn Normaliser<f64>, &Entmax15] {
        let mut row = [1.0, f64::INFINITY, NEVER];
        assert!(normaliser.row(&mut row).is_nan());
        assert!(row[0].is_nan() && row[1].is_nan() && row[2] == 0.0);
    }
    let mut row = [1.0, f64::INFINITY, NEVER];
    Hard.row(&mut row);
    assert_eq!(row, [0.0, 1.0, 0.0]);
}

#[test]
fn keys_without_weight_get_no_gradient_and_give_none() {
    for normaliser in normalisers().iter().filter(|n| n.name() != "identity") {
        let mut row = [0.3, NEVER, -0.2, 9.0];
        normaliser.row(&mut row);
        let (mut with_nan, mut without) = ([1.0, f64::NAN, 2.0, 3.0], [1.0, 0.0, 2.0, 3.0]);
        normaliser.row_backward(&row, &mut with_nan);
        normaliser.row_backward(&row, &mut without);
        assert_eq!(with_nan, without, "{normaliser:?}");
        assert_eq!(with_nan[1], 0.0);
    }
}
