//! Small examples worked out by hand from the papers.

#![allow(clippy::approx_constant, reason = "figures as they are published")]

use regard_attn::normaliser::{Identity, Softmax};
use regard_attn::position::{Gaussian, NoPosition, Position};
use regard_attn::scope::{Full, PredictedCentre};
use regard_attn::score::{Cosine, Distance, Dot, Score};
use regard_attn::{Call, Dims, Item, Normaliser, Rows, Wanted, reference};

/// Figures with six decimals.
fn same(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 6e-7), "{got:?} against {want:?}");
}

fn by_rows(matrix: &[f64], columns: usize) -> Vec<f64> {
    matrix.chunks(columns).map(|row| row.iter().sum()).collect()
}

fn by_columns(matrix: &[f64], columns: usize) -> Vec<f64> {
    (0..columns).map(|c| matrix.iter().skip(c).step_by(columns).sum()).collect()
}

/// All scores of x with y, `[len x, len y]`, as the weights of a call without normaliser.
fn matrix(score: &dyn Score<f64>, x: &[f64], y: &[f64]) -> Vec<f64> {
    let (n, m) = (x.len() / 2, y.len() / 2);
    let call = Call {
        score,
        normaliser: &Identity,
        scope: &Full,
        position: &NoPosition,
        dropout: None,
        dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: 2, d_v: 2 },
        items: &[Item { q_start: 0, q_len: n, kv_start: 0, kv_len: m, q_offset: 0 }],
    };
    let rows = |data| Rows { data, row_stride: 2, head_stride: 2 };
    reference::forward(&call, rows(x), rows(y), rows(y)).unwrap().weights
}

#[test]
fn abcnn_match() {
    // Yin et al. 2016: words (1,0), (0,1), (1,1) against (1,1), (0,0).
    let a = matrix(&Distance, &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], &[1.0, 1.0, 0.0, 0.0]);
    same(&a, &[0.5, 0.5, 0.5, 0.5, 1.0, 0.414214]);
    same(&by_rows(&a, 2), &[1.0, 1.0, 1.414214]);
    same(&by_columns(&a, 2), &[2.0, 1.414214]);
}

#[test]
fn attention_of_multi_perspective_cnns() {
    // He et al. 2016: cosines, summed over the other sentence, then a softmax over the own.
    let d = matrix(&Cosine, &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], &[1.0, 1.0, 2.0, 0.0]);
    same(&d, &[0.707107, 1.0, 0.707107, 0.0, 1.0, 0.707107]);
    let (mut of_a, mut of_b) = (by_rows(&d, 2), by_columns(&d, 2));
    Softmax.row(&mut of_a);
    Softmax.row(&mut of_b);
    same(&of_a, &[0.422319, 0.155362, 0.422319]);
    same(&of_b, &[0.669762, 0.330238]);
}

#[test]
fn luong_softmax_over_the_window_alone() {
    // Luong et al. 2015, local: positions 1 to 10, centre p = 4.6 and so ⌊p⌋ = 4, D = 2: the window
    // is 2 to 6.
    let scores = [0.3, -0.2, 0.5, 0.1, 0.9, 0.0, 0.4, -0.6, 0.2, 0.7];
    // Here positions count from 0; σ = D/2.
    let scope = PredictedCentre { centres: &[&[3.6]], radius: 2 };
    let gaussian = Gaussian::new(&[3.6, 1.0], &[1]);
    let weights = |position: &dyn Position<f64>| {
        let call = Call {
            score: &Dot,
            normaliser: &Softmax,
            scope: &scope,
            position,
            dropout: None,
            dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: 1, d_v: 1 },
            items: &[Item { q_start: 0, q_len: 1, kv_start: 0, kv_len: 10, q_offset: 0 }],
        };
        let rows = |data| Rows { data, row_stride: 1, head_stride: 1 };
        let out = reference::forward(&call, rows(&[1.0]), rows(&scores), rows(&[1.0; 10]));
        let out = out.unwrap();
        // With values of one the context is the sum of the weights.
        (out.weights, out.context[0])
    };
    let (plain, sum) = weights(&NoPosition);
    assert_eq!((plain[0], &plain[6..]), (0.0, &[0.0; 4][..]));
    same(&plain[1..6], &[0.116426, 0.234452, 0.157158, 0.349762, 0.142202]);
    same(&[sum], &[1.0]);
    // The Gaussian takes the centre itself, and the weights are not normalised again.
    let (local, sum) = weights(&gaussian);
    assert_eq!((local[0], &local[6..]), (0.0, &[0.0; 4][..]));
    same(&local[1..6], &[0.003964, 0.065186, 0.131269, 0.322871, 0.053370]);
    same(&[sum], &[0.576661]);
}

#[test]
fn how_much_each_place_was_looked_at() {
    // Xu et al. 2015, doubly stochastic: two words over three places; Σ_i (1 − Σ_t α_ti)² = 0.68,
    // its mean 0.226667.
    let alpha = [0.7, 0.2, 0.1, 0.1, 0.8, 0.1];
    let call = Call {
        score: &Dot,
        normaliser: &Identity,
        scope: &Full,
        position: &NoPosition,
        dropout: None,
        dims: Dims { n_heads: 1, n_kv_heads: 1, d_k: 3, d_v: 1 },
        items: &[Item { q_start: 0, q_len: 2, kv_start: 0, kv_len: 3, q_offset: 0 }],
    };
    let unit = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    let rows = |data| Rows { data, row_stride: 3, head_stride: 3 };
    let wanted = Wanted { key_sums: true, ..Wanted::default() };
    let said = reference::summarise(&call, rows(&alpha), rows(&unit), wanted).unwrap();
    same(&said.key_sums, &[0.8, 1.0, 0.2]);
    let missing: f64 = said.key_sums.iter().map(|sum| (1.0 - sum).powi(2)).sum();
    same(&[missing, missing / 3.0], &[0.68, 0.226667]);
}
