//! Positions: the law of rotation, the law of differences, and derivatives.

use proptest::prelude::*;
use regard_attn::position::{Learned, Position, Rotary, RotaryLayout, Sinusoidal};
use regard_testkit::{Bound, assert_close, check_gradient, random_vec};

use crate::parts::positions;

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
