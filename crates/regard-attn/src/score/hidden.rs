//! `Σ_c v_c f(q_c + k_c)`: a perceptron with one hidden layer, for any activation f. What the
//! additive score and GATv2 share.

use regard_tensor::{Real, simd};

use super::{Block, BlockMut};

/// The function of one hidden unit.
pub(super) trait Activation<T>: Copy {
    /// f(x)
    fn value(self, x: T) -> T;

    /// f(x) and f'(x)
    fn with_slope(self, x: T) -> (T, T);
}

/// tanh x
#[derive(Debug, Clone, Copy)]
pub(super) struct Tanh;

impl<T: Real> Activation<T> for Tanh {
    #[inline(always)]
    fn value(self, x: T) -> T {
        x.tanh()
    }

    #[inline(always)]
    fn with_slope(self, x: T) -> (T, T) {
        let t = x.tanh();
        (t, T::ONE - t * t)
    }
}

/// x where x > 0, slope·x elsewhere; the derivative at 0 is the slope. A NaN stays one.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeakyRelu<T>(pub(super) T);

impl<T: Real> Activation<T> for LeakyRelu<T> {
    #[inline(always)]
    fn value(self, x: T) -> T {
        if x > T::ZERO { x } else { self.0 * x }
    }

    #[inline(always)]
    fn with_slope(self, x: T) -> (T, T) {
        if x > T::ZERO { (x, T::ONE) } else { (self.0 * x, self.0) }
    }
}

/// Entries of a row that are worked on together.
const LANES: usize = 8;

/// `Σ_c v_c f(q_c + k_c)`: eight partial sums, then those in order, then the rest.
#[inline(always)]
pub(super) fn score<T: Real>(f: impl Activation<T>, v: &[T], q: &[T], k: &[T]) -> T {
    let d = v.len();
    let (q, k) = (&q[..d], &k[..d]);
    let mut lanes = [T::ZERO; LANES];
    let body = d / LANES * LANES;
    for c in (0..body).step_by(LANES) {
        let (v, q, k) = (&v[c..c + LANES], &q[c..c + LANES], &k[c..c + LANES]);
        for l in 0..LANES {
            lanes[l] += v[l] * f.value(q[l] + k[l]);
        }
    }
    let mut total = T::ZERO;
    for lane in lanes {
        total += lane;
    }
    for c in body..d {
        total += v[c] * f.value(q[c] + k[c]);
    }
    total
}

/// `dv_c += g f(q_c + k_c)` and `dq_c, dk_c += g v_c f'(q_c + k_c)`.
#[inline(always)]
pub(super) fn backward<T: Real>(
    f: impl Activation<T>,
    v: &[T],
    q: &[T],
    k: &[T],
    g: T,
    dq: &mut [T],
    dk: &mut [T],
    dv: &mut [T],
) {
    let d = v.len();
    let (q, k) = (&q[..d], &k[..d]);
    let (dq, dk, dv) = (&mut dq[..d], &mut dk[..d], &mut dv[..d]);
    let body = d / LANES * LANES;
    for c in (0..body).step_by(LANES) {
        // Everything is read before anything is written, so that the compiler need not ask
        // whether the slices overlap.
        let (mut by_v, mut by_sum) = ([T::ZERO; LANES], [T::ZERO; LANES]);
        {
            let (v, q, k) = (&v[c..c + LANES], &q[c..c + LANES], &k[c..c + LANES]);
            for l in 0..LANES {
                let (value, slope) = f.with_slope(q[l] + k[l]);
                by_v[l] = g * value;
                by_sum[l] = g * v[l] * slope;
            }
        }
        for (out, add) in [(&mut *dv, &by_v), (&mut *dq, &by_sum), (&mut *dk, &by_sum)] {
            let out = &mut out[c..c + LANES];
            for l in 0..LANES {
                out[l] += add[l];
            }
        }
    }
    for c in body..d {
        let (value, slope) = f.with_slope(q[c] + k[c]);
        let by_sum = g * v[c] * slope;
        dv[c] += g * value;
        dq[c] += by_sum;
        dk[c] += by_sum;
    }
}

/// [`score`] of every pair of a tile.
pub(super) fn tile<T: Real>(
    f: impl Activation<T>,
    v: &[T],
    q: Block<'_, T>,
    k: Block<'_, T>,
    out: &mut [T],
    stride: usize,
) {
    simd::vectorise(
        #[inline(always)]
        || {
            for i in 0..q.rows {
                let out = &mut out[i * stride..i * stride + k.rows];
                for (j, out) in out.iter_mut().enumerate() {
                    *out = score(f, v, q.row(i), k.row(j));
                }
            }
        },
    );
}

/// [`backward`] of every pair of a tile.
pub(super) fn tile_backward<T: Real>(
    f: impl Activation<T>,
    v: &[T],
    q: Block<'_, T>,
    k: Block<'_, T>,
    g: &[T],
    stride: usize,
    dq: &mut BlockMut<'_, T>,
    dk: &mut BlockMut<'_, T>,
    dv: &mut [T],
) {
    simd::vectorise(
        #[inline(always)]
        || {
            for i in 0..q.rows {
                for j in 0..k.rows {
                    let g = g[i * stride + j];
                    // Also keeps a NaN behind a mask out: a forbidden pair has g = 0.
                    if g != T::ZERO {
                        backward(f, v, q.row(i), k.row(j), g, dq.row(i), dk.row(j), dv);
                    }
                }
            }
        },
    );
}
