//! `Σ_c v_c f(q_c + k_c)`: a perceptron with one hidden layer, for any activation f. What the
//! additive score and GATv2 share.

use regard_tensor::Real;
use regard_tensor::simd::{self, Kernel, Level};

use super::{Block, BlockMut};

/// The function of one hidden unit.
pub(super) trait Activation<T>: Copy {
    /// f(x); `FMA` as in [`Kernel::run`].
    fn value<const FMA: bool>(self, x: T) -> T;

    /// f(x) and f'(x)
    fn with_slope<const FMA: bool>(self, x: T) -> (T, T);
}

/// tanh x
#[derive(Debug, Clone, Copy)]
pub(super) struct Tanh;

impl<T: Real> Activation<T> for Tanh {
    #[inline(always)]
    fn value<const FMA: bool>(self, x: T) -> T {
        x.tanh_rational::<FMA>()
    }

    #[inline(always)]
    fn with_slope<const FMA: bool>(self, x: T) -> (T, T) {
        let t = x.tanh_rational::<FMA>();
        (t, T::ONE - t * t)
    }
}

/// x where x > 0, slope·x elsewhere; the derivative at 0 is the slope. A NaN stays one.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeakyRelu<T>(pub(super) T);

impl<T: Real> Activation<T> for LeakyRelu<T> {
    #[inline(always)]
    fn value<const FMA: bool>(self, x: T) -> T {
        if x > T::ZERO { x } else { self.0 * x }
    }

    #[inline(always)]
    fn with_slope<const FMA: bool>(self, x: T) -> (T, T) {
        if x > T::ZERO { (x, T::ONE) } else { (self.0 * x, self.0) }
    }
}

/// Entries of a row that are worked on together, with AVX-512; half as many below, where there are half as many
/// registers of half the size.
const LANES: usize = 16;
const HALF: usize = LANES / 2;

/// `Σ_c v_c f(q_c + k_c)`: a tile of one pair, with its bits.
pub(super) fn score<T: Real>(f: impl Activation<T>, v: &[T], q: &[T], k: &[T]) -> T {
    let mut out = [T::ZERO];
    tile(f, v, one(q), one(k), &mut out, 1);
    out[0]
}

/// A row as a block.
fn one<T>(row: &[T]) -> Block<'_, T> {
    Block { data: row, rows: 1, width: row.len(), stride: row.len() }
}

/// N partial sums, then those in order, then the rest.
#[inline(always)]
fn sum<T: Real, const FMA: bool, const N: usize>(
    f: impl Activation<T>,
    v: &[T],
    q: &[T],
    k: &[T],
) -> T {
    let d = v.len();
    let (q, k) = (&q[..d], &k[..d]);
    let mut lanes = [T::ZERO; N];
    let body = d / N * N;
    for c in (0..body).step_by(N) {
        let (v, q, k) = (&v[c..c + N], &q[c..c + N], &k[c..c + N]);
        for l in 0..N {
            lanes[l] += v[l] * f.value::<FMA>(q[l] + k[l]);
        }
    }
    let mut total = T::ZERO;
    for lane in lanes {
        total += lane;
    }
    for c in body..d {
        total += v[c] * f.value::<FMA>(q[c] + k[c]);
    }
    total
}

/// `dv_c += g f(q_c + k_c)` and `dq_c, dk_c += g v_c f'(q_c + k_c)`.
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
    let mut dq = BlockMut { data: dq, rows: 1, width: d, stride: d };
    let mut dk = BlockMut { data: dk, rows: 1, width: d, stride: d };
    tile_backward(f, v, one(q), one(k), &[g], 1, &mut dq, &mut dk, dv);
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
    if simd::level() == Level::Avx512 {
        simd::run(Tile::<_, _, LANES> { f, v, q, k, out, stride });
    } else {
        simd::run(Tile::<_, _, HALF> { f, v, q, k, out, stride });
    }
}

struct Tile<'a, T, F, const N: usize> {
    f: F,
    v: &'a [T],
    q: Block<'a, T>,
    k: Block<'a, T>,
    out: &'a mut [T],
    stride: usize,
}

impl<T: Real, F: Activation<T>, const N: usize> Kernel for Tile<'_, T, F, N> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { f, v, q, k, out, stride } = self;
        for i in 0..q.rows {
            let out = &mut out[i * stride..i * stride + k.rows];
            for (j, out) in out.iter_mut().enumerate() {
                *out = sum::<T, FMA, N>(f, v, q.row(i), k.row(j));
            }
        }
    }
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
    let n = if simd::level() == Level::Avx512 { LANES } else { HALF };
    let body = v.len() / n * n;
    for c in (0..body).step_by(n).chain(body..v.len()) {
        let (dq, dk) = (&mut *dq, &mut *dk);
        match if c < body { n } else { 1 } {
            LANES => simd::run(Columns::<_, _, LANES> { f, v, q, k, g, stride, dq, dk, dv, c }),
            HALF => simd::run(Columns::<_, _, HALF> { f, v, q, k, g, stride, dq, dk, dv, c }),
            _ => simd::run(Columns::<_, _, 1> { f, v, q, k, g, stride, dq, dk, dv, c }),
        }
    }
}

/// N columns of a tile, from column `c` on: what they add to dv and to a row of dq stays in registers.
struct Columns<'a, 'b, 'c, T, F, const N: usize> {
    f: F,
    v: &'a [T],
    q: Block<'a, T>,
    k: Block<'a, T>,
    g: &'a [T],
    stride: usize,
    dq: &'a mut BlockMut<'b, T>,
    dk: &'a mut BlockMut<'c, T>,
    dv: &'a mut [T],
    c: usize,
}

/// N entries of a row, from entry `c` on.
#[inline(always)]
fn some<T: Real, const N: usize>(row: &[T], c: usize) -> [T; N] {
    *row[c..].first_chunk().expect("a row that long")
}

impl<T: Real, F: Activation<T>, const N: usize> Kernel for Columns<'_, '_, '_, T, F, N> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { f, v, q, k, g, stride, dq, dk, dv, c } = self;
        let v: [T; N] = some(v, c);
        let mut to_v: [T; N] = some(dv, c);
        for i in 0..q.rows {
            let of_q: [T; N] = some(q.row(i), c);
            let to_q = &mut dq.row(i)[c..c + N];
            let mut sum: [T; N] = some(to_q, 0);
            for (j, g) in g[i * stride..i * stride + k.rows].iter().enumerate() {
                // Also keeps a NaN behind a mask out: a forbidden pair has g = 0.
                if *g == T::ZERO {
                    continue;
                }
                // Everything is read before anything is written, so that the compiler need not ask
                // whether the slices overlap.
                let of_k: [T; N] = some(k.row(j), c);
                let (mut by_v, mut by_sum) = ([T::ZERO; N], [T::ZERO; N]);
                for l in 0..N {
                    let (value, slope) = f.with_slope::<FMA>(of_q[l] + of_k[l]);
                    by_v[l] = *g * value;
                    by_sum[l] = *g * v[l] * slope;
                }
                let to_k = &mut dk.row(j)[c..c + N];
                let mut of_dk: [T; N] = some(to_k, 0);
                for l in 0..N {
                    of_dk[l] += by_sum[l];
                }
                to_k.copy_from_slice(&of_dk);
                for l in 0..N {
                    to_v[l] += by_v[l];
                    sum[l] += by_sum[l];
                }
            }
            to_q.copy_from_slice(&sum);
        }
        dv[c..c + N].copy_from_slice(&to_v);
    }
}
