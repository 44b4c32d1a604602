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

/// `x[i] = f(x[i])`; `cost` is a rough number of operations an element.
pub fn apply<T: Real>(x: &mut [T], cost: usize, f: impl Fn(T) -> T + Sync + Send + Copy) {
    let work = x.len() * cost;
    parallel::chunks(x, CHUNK, work, |_, piece| {
        simd::vectorise(
            #[inline(always)]
            move || {
                for x in piece {
                    *x = f(*x);
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

/// `(a[i], b[i], c[i]) = f(a[i], b[i], c[i], x[i])` in one pass; `cost` is a rough number of operations an
/// element.
///
/// # Panics
/// If the lengths differ.
pub fn update3<T: Real>(
    (a, b, c): (&mut [T], &mut [T], &mut [T]),
    x: &[T],
    cost: usize,
    f: impl Fn(T, T, T, T) -> (T, T, T) + Sync + Send + Copy,
) {
    let n = x.len();
    assert!(a.len() == n && b.len() == n && c.len() == n, "lengths agree");
    parallel::chunks3((a, b, c), [CHUNK; 3], n * cost, |i, (a, b, c)| {
        let x = &x[i * CHUNK..i * CHUNK + a.len()];
        simd::vectorise(
            #[inline(always)]
            move || {
                for ((a, b), (c, x)) in a.iter_mut().zip(b).zip(c.iter_mut().zip(x)) {
                    (*a, *b, *c) = f(*a, *b, *c, *x);
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
            map(&mut y, &x, 100, |v| v + 3.0);
            apply(&mut y, 100, |v| v - 2.0);
            add(&mut y, &x);
            let (mut a, mut b) = (x.clone(), vec![0.0; n]);
            update3((&mut a, &mut b, &mut y), &x, 100, |a, b, y, x| (a + b, x - 1.0, y));
            assert_eq!(a, x);
            assert!(b.iter().enumerate().all(|(i, v)| *v == i as f32 - 1.0));
            assert!(y.iter().enumerate().all(|(i, v)| *v == 2.0 * i as f32 + 1.0));
        }
    }
}
