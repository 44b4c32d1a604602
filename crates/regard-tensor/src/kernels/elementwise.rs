//! Element-wise functions on slices, vectorised and split over threads.

use crate::{Real, parallel, simd};

/// Elements of one parallel piece.
const CHUNK: usize = 1 << 14;

/// `out[i] = f(x[i])`; `cost` is a rough number of operations an element.
///
/// # Panics
/// If the lengths differ.
pub fn map<T: Real>(out: &mut [T], x: &[T], cost: usize, f: impl Fn(T) -> T + Sync + Send + Copy) {
    assert_eq!(out.len(), x.len(), "lengths agree");
    let work = out.len() * cost;
    parallel::chunks(out, CHUNK, work, |i, piece| {
        let x = &x[i * CHUNK..i * CHUNK + piece.len()];
        simd::vectorise(
            #[inline(always)]
            move || {
                for (o, x) in piece.iter_mut().zip(x) {
                    *o = f(*x);
                }
            },
        );
    });
}

/// `out[i] = f(out[i], x[i])`; `cost` is a rough number of operations an element.
///
/// # Panics
/// If the lengths differ.
pub fn update<T: Real>(
    out: &mut [T],
    x: &[T],
    cost: usize,
    f: impl Fn(T, T) -> T + Sync + Send + Copy,
) {
    assert_eq!(out.len(), x.len(), "lengths agree");
    let work = out.len() * cost;
    parallel::chunks(out, CHUNK, work, |i, piece| {
        let x = &x[i * CHUNK..i * CHUNK + piece.len()];
        simd::vectorise(
            #[inline(always)]
            move || {
                for (o, x) in piece.iter_mut().zip(x) {
                    *o = f(*o, *x);
                }
            },
        );
    });
}

/// `out[i] = f(out[i], x[i], y[i])`; `cost` is a rough number of operations an element.
///
/// # Panics
/// If the lengths differ.
pub fn update2<T: Real>(
    out: &mut [T],
    x: &[T],
    y: &[T],
    cost: usize,
    f: impl Fn(T, T, T) -> T + Sync + Send + Copy,
) {
    assert!(out.len() == x.len() && x.len() == y.len(), "lengths agree");
    let work = out.len() * cost;
    parallel::chunks(out, CHUNK, work, |i, piece| {
        let (lo, hi) = (i * CHUNK, i * CHUNK + piece.len());
        let (x, y) = (&x[lo..hi], &y[lo..hi]);
        simd::vectorise(
            #[inline(always)]
            move || {
                for ((o, x), y) in piece.iter_mut().zip(x).zip(y) {
                    *o = f(*o, *x, *y);
                }
            },
        );
    });
}

/// `out += x`
///
/// # Panics
/// If the lengths differ.
pub fn add<T: Real>(out: &mut [T], x: &[T]) {
    update(out, x, 1, |o, x| o + x);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_every_element_once() {
        for n in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5] {
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let mut y = vec![f32::NAN; n];
            map(&mut y, &x, 100, |v| v + 1.0);
            update2(&mut y, &x, &x, 100, |o, a, b| o + a - b);
            add(&mut y, &x);
            assert!(y.iter().enumerate().all(|(i, v)| *v == 2.0 * i as f32 + 1.0));
        }
    }
}
