//! Activation functions and their derivatives.

use regard_tensor::Real;

/// An element-wise non-linearity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// x
    None,
    /// max(0, x)
    Relu,
    /// x·Φ(x) = x·(1 + erf(x/√2))/2 (Hendrycks and Gimpel 2016)
    Gelu,
    /// tanh x
    Tanh,
    /// 1/(1 + e⁻ˣ)
    Sigmoid,
}

/// Φ(x) and φ(x), the normal distribution and its density.
#[inline(always)]
fn normal<T: Real>(x: T) -> (T, T) {
    let half = T::from_f64(0.5);
    let cdf = half * (T::ONE + (x * T::from_f64(std::f64::consts::FRAC_1_SQRT_2)).erf());
    let pdf = T::from_f64(0.398_942_280_401_432_7) * (-(half * x * x)).exp();
    (cdf, pdf)
}

/// x·Φ(x)
#[inline(always)]
pub(crate) fn gelu<T: Real>(x: T) -> T {
    x * normal(x).0
}

/// Φ(x) + x·φ(x)
#[inline(always)]
pub(crate) fn gelu_slope<T: Real>(x: T) -> T {
    let (cdf, pdf) = normal(x);
    cdf + x * pdf
}

/// A loop that is compiled where it stands: an iterator's `for_each` may become a function of its own, compiled for
/// the plain level.
#[inline(always)]
fn for_all<T: Real>(z: &mut [T], f: impl Fn(T) -> T) {
    for x in z {
        *x = f(*x);
    }
}

/// Applies an activation to a slice, in place.
#[inline(always)]
pub(crate) fn apply<T: Real>(activation: Activation, z: &mut [T]) {
    match activation {
        Activation::None => {}
        Activation::Relu => for_all(z, |x| x.max(T::ZERO)),
        Activation::Gelu => for_all(z, |x| gelu(x)),
        Activation::Tanh => for_all(z, T::tanh),
        Activation::Sigmoid => for_all(z, T::sigmoid),
    }
}

/// `out = g ∘ act'`. `saved` holds what [`saves_input`] says: the argument z for GELU, the result for the others (relu:
/// y > 0; tanh: 1 − y²; σ: y(1 − y)).
#[inline(always)]
pub(crate) fn slope<T: Real>(activation: Activation, g: &[T], saved: &[T], out: &mut [T]) {
    let n = out.len();
    let (g, saved) = (&g[..n], &saved[..n]);
    match activation {
        Activation::None => out.copy_from_slice(g),
        Activation::Relu => {
            for i in 0..n {
                out[i] = if saved[i] > T::ZERO { g[i] } else { T::ZERO };
            }
        }
        Activation::Gelu => {
            for i in 0..n {
                out[i] = g[i] * gelu_slope(saved[i]);
            }
        }
        Activation::Tanh => {
            for i in 0..n {
                out[i] = g[i] * (T::ONE - saved[i] * saved[i]);
            }
        }
        Activation::Sigmoid => {
            for i in 0..n {
                out[i] = g[i] * saved[i] * (T::ONE - saved[i]);
            }
        }
    }
}

/// Whether the slope is computed from the argument rather than from the result.
pub(crate) fn saves_input(activation: Activation) -> bool {
    activation == Activation::Gelu
}
