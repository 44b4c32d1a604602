//! Small examples worked out by hand from the papers.

#![allow(clippy::approx_constant, reason = "figures as they are published")]

use regard_attn::normaliser::{Identity, Softmax};
use regard_attn::position::NoPosition;
use regard_attn::scope::{Full, PredictedCentre};
use regard_attn::score::{Cosine, Distance, Score};
use regard_attn::{At, Call, Dims, Item, Normaliser, Rows, Scope, reference};

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
        items: &[Item { q_start: 0, q_len: n, kv_start: 0, kv_len: m }],
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
    // Luong et al. 2015, local: positions 1 to 10, centre ⌊4.6⌋ = 4, D = 2: the window is 2 to 6.
    let scores = [0.3, -0.2, 0.5, 0.1, 0.9, 0.0, 0.4, -0.6, 0.2, 0.7];
    // Here positions count from 0.
    let scope = PredictedCentre { centres: &[&[3.6]], radius: 2 };
    let at = At { item: 0, head: 0, q_len: 1, kv_len: 10 };
    let mut row: Vec<f64> = (0..10)
        .map(|j| if scope.allows(at, 0, j) { scores[j] } else { f64::NEG_INFINITY })
        .collect();
    Softmax.row(&mut row);
    assert_eq!((row[0], &row[6..]), (0.0, &[0.0; 4][..]));
    same(&row[1..6], &[0.116426, 0.234452, 0.157158, 0.349762, 0.142202]);
    // The Gaussian factor is not normalised again.
    let product: Vec<f64> =
        (1..6).map(|j| row[j] * (-0.5 * ((j + 1) as f64 - 4.6).powi(2)).exp()).collect();
    same(&product, &[0.003964, 0.065186, 0.131269, 0.322871, 0.053370]);
}
