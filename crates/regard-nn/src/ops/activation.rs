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
        Activation::Gelu => for_all(z, |x| x * x.normal().0),
        Activation::Tanh => for_all(z, T::tanh),
        Activation::Sigmoid => for_all(z, T::sigmoid),
    }
}

/// As [`apply`]; leaves in `saved` what [`slope`] needs: Φ(z) + z·φ(z), the slope itself, for GELU, which costs
/// no more beside the value; the result for the others.
#[inline(always)]
pub(crate) fn apply_saving<T: Real>(activation: Activation, z: &mut [T], saved: &mut [T]) {
    if activation == Activation::Gelu {
        let n = z.len();
        let saved = &mut saved[..n];
        for i in 0..n {
            let (cdf, pdf) = z[i].normal();
            saved[i] = cdf + z[i] * pdf;
            z[i] *= cdf;
        }
    } else {
        apply(activation, z);
        saved.copy_from_slice(z);
    }
}

/// `out = g ∘ act'`, of what [`apply_saving`] left (relu: y > 0; tanh: 1 − y²; σ: y(1 − y)).
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
                out[i] = g[i] * saved[i];
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

/// Whether [`slope`] needs more than the result.
pub(crate) fn needs_more(activation: Activation) -> bool {
    activation == Activation::Gelu
}
