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

/// Applies an activation to a slice, in place.
#[inline(always)]
pub(crate) fn apply<T: Real>(activation: Activation, z: &mut [T]) {
    match activation {
        Activation::None => {}
        Activation::Relu => z.iter_mut().for_each(|x| *x = x.max(T::ZERO)),
        Activation::Gelu => z.iter_mut().for_each(|x| *x = gelu(*x)),
        Activation::Tanh => z.iter_mut().for_each(|x| *x = x.tanh()),
        Activation::Sigmoid => z.iter_mut().for_each(|x| *x = x.sigmoid()),
    }
}

/// Multiplies `g` by the activation's slope. `saved` holds what [`saves_input`] says: the
/// argument z for GELU, the result for the others (relu: y > 0; tanh: 1 − y²; σ: y(1 − y)).
#[inline(always)]
pub(crate) fn slope<T: Real>(activation: Activation, g: &mut [T], saved: &[T]) {
    let pairs = g.iter_mut().zip(saved);
    match activation {
        Activation::None => {}
        Activation::Relu => pairs.for_each(|(g, y)| *g = if *y > T::ZERO { *g } else { T::ZERO }),
        Activation::Gelu => pairs.for_each(|(g, z)| *g *= gelu_slope(*z)),
        Activation::Tanh => pairs.for_each(|(g, y)| *g *= T::ONE - *y * *y),
        Activation::Sigmoid => pairs.for_each(|(g, y)| *g *= *y * (T::ONE - *y)),
    }
}

/// Whether the slope is computed from the argument rather than from the result.
pub(crate) fn saves_input(activation: Activation) -> bool {
    activation == Activation::Gelu
}
