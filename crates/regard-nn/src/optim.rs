//! Optimisers over one flat buffer of parameters, and gradient clipping.

use regard_tensor::kernels::elementwise::{apply, update, update3};
use regard_tensor::{Buffer, Real, parallel, simd};
use serde::{Deserialize, Serialize};

use crate::NnError;

/// Which optimiser, with its constants.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum OptimiserConfig {
    /// `m ← μ m + g + λθ;  θ ← θ − lr·m` (Polyak 1964; without momentum for μ = 0).
    Sgd {
        /// μ in [0, 1).
        momentum: f64,
        /// λ ≥ 0, added to the gradient.
        weight_decay: f64,
    },
    /// `m ← β₁m + (1−β₁)g;  v ← β₂v + (1−β₂)g²;  θ ← θ − lr·m̂/(√v̂ + ε)` with m̂, v̂ divided by
    /// 1 − βᵗ and λθ added to g (Kingma and Ba 2015, algorithm 1).
    Adam {
        /// β₁ in [0, 1).
        beta1: f64,
        /// β₂ in [0, 1).
        beta2: f64,
        /// ε > 0.
        eps: f64,
        /// λ ≥ 0, added to the gradient.
        weight_decay: f64,
    },
    /// As Adam, with decay apart from the gradient: `θ ← θ − lr·λ·θ` first (Loshchilov and
    /// Hutter 2019, algorithm 2).
    Adamw {
        /// β₁ in [0, 1).
        beta1: f64,
        /// β₂ in [0, 1).
        beta2: f64,
        /// ε > 0.
        eps: f64,
        /// λ ≥ 0.
        weight_decay: f64,
    },
}

impl OptimiserConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the constant at fault.
    pub fn check(&self) -> Result<(), NnError> {
        let bad = |name, expected: &str, actual: f64| {
            Err(NnError::Hyper { name, expected: expected.into(), actual: actual.to_string() })
        };
        let fraction = |x: f64| (0.0..1.0).contains(&x);
        let decay = match *self {
            Self::Sgd { momentum, weight_decay } => {
                if !fraction(momentum) {
                    return bad("momentum", "in [0, 1)", momentum);
                }
                weight_decay
            }
            Self::Adam { beta1, beta2, eps, weight_decay }
            | Self::Adamw { beta1, beta2, eps, weight_decay } => {
                if !fraction(beta1) {
                    return bad("beta1", "in [0, 1)", beta1);
                }
                if !fraction(beta2) {
                    return bad("beta2", "in [0, 1)", beta2);
                }
                if eps <= 0.0 {
                    return bad("eps", "above 0", eps);
                }
                // Below some 1e-45 it would be 0, and steps could be 0/0.
                if !((eps as f32) > 0.0 && (eps as f32).is_finite()) {
                    return bad("eps", "finite and above 0 in single precision", eps);
                }
                weight_decay
            }
        };
        if decay < 0.0 {
            return bad("weight_decay", "at least 0", decay);
        }
        if !(decay as f32).is_finite() {
            return bad("weight_decay", "finite", decay);
        }
        Ok(())
    }
}

/// An optimiser with its running averages.
#[derive(Debug, Clone)]
pub struct Optimiser<T: Real> {
    config: OptimiserConfig,
    first: Buffer<T>,
    second: Buffer<T>,
    steps: u64,
}

impl<T: Real> Optimiser<T> {
    /// A fresh optimiser for a flat buffer of `len` elements.
    pub fn new(config: OptimiserConfig, len: usize) -> Self {
        let two = !matches!(config, OptimiserConfig::Sgd { .. });
        let second = Buffer::zeroed(if two { len } else { 0 });
        Self { config, first: Buffer::zeroed(len), second, steps: 0 }
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The running averages, first and second; the second is empty for SGD.
    pub fn state(&self) -> (&[T], &[T]) {
        (&self.first, &self.second)
    }

    /// Puts back the running averages and the number of steps.
    ///
    /// # Panics
    /// If the lengths differ: [`crate::checkpoint`] checks them.
    pub fn restore(&mut self, first: &[T], second: &[T], steps: u64) {
        self.first.copy_from_slice(first);
        self.second.copy_from_slice(second);
        self.steps = steps;
    }

    /// One update of `params` by `grads` at learning rate `lr`.
    ///
    /// # Panics
    /// If the lengths differ from the optimiser's.
    pub fn step(&mut self, params: &mut [T], grads: &[T], lr: f64) {
        self.steps += 1;
        let real = T::from_f64;
        match self.config {
            OptimiserConfig::Sgd { momentum, weight_decay } => {
                let (mu, decay, lr) = (real(momentum), real(weight_decay), real(lr));
                let momentum = &mut self.first;
                update(momentum, grads, 2, |m, g| mu * m + g);
                update(momentum, params, 2, |m, p| m + decay * p);
                update(params, momentum, 2, |p, m| p - lr * m);
            }
            OptimiserConfig::Adam { beta1, beta2, eps, weight_decay } => {
                self.adam(params, grads, lr, (beta1, beta2, eps), weight_decay, 0.0);
            }
            OptimiserConfig::Adamw { beta1, beta2, eps, weight_decay } => {
                self.adam(params, grads, lr, (beta1, beta2, eps), 0.0, weight_decay);
            }
        }
    }

    fn adam(
        &mut self,
        params: &mut [T],
        grads: &[T],
        lr: f64,
        (beta1, beta2, eps): (f64, f64, f64),
        coupled: f64,
        decoupled: f64,
    ) {
        let real = T::from_f64;
        let t = self.steps as i32;
        let rate = real(lr / (1.0 - beta1.powi(t)));
        let root = real(1.0 / (1.0 - beta2.powi(t)).sqrt());
        let (b1, b2, eps) = (real(beta1), real(beta2), real(eps));
        let (c1, c2) = (real(1.0 - beta1), real(1.0 - beta2));
        let (coupled, keep) = (real(coupled), real(1.0 - lr * decoupled));
        let arrays = (params, &mut self.first[..], &mut self.second[..]);
        update3(arrays, grads, 20, |p, m, v, g| {
            let g = g + coupled * p;
            let m = b1 * m + c1 * g;
            let v = b2 * v + c2 * g * g;
            (p * keep - rate * m / (v.sqrt() * root + eps), m, v)
        });
    }
}

/// Elements whose squares are summed in one piece.
const CHUNK: usize = 1 << 14;

/// √Σ g², summed in f64 in a fixed order.
pub fn global_norm<T: Real>(grads: &[T]) -> f64 {
    let pieces = parallel::map(grads.len().div_ceil(CHUNK), grads.len() * 2, |i| {
        let piece = &grads[i * CHUNK..((i + 1) * CHUNK).min(grads.len())];
        simd::vectorise(
            #[inline(always)]
            move || {
                let mut lanes = [0.0f64; 8];
                let (whole, rest) = piece.as_chunks::<8>();
                for chunk in whole {
                    for l in 0..8 {
                        lanes[l] += chunk[l].to_f64() * chunk[l].to_f64();
                    }
                }
                for (lane, g) in lanes.iter_mut().zip(rest) {
                    *lane += g.to_f64() * g.to_f64();
                }
                lanes.into_iter().sum::<f64>()
            },
        )
    });
    pieces.iter().sum::<f64>().sqrt()
}

/// Scales all gradients by `min(1, max_norm/(norm + 1e-6))` (Pascanu et al. 2013) and returns the
/// norm before.
pub fn clip<T: Real>(grads: &mut [T], max_norm: f64) -> f64 {
    let norm = global_norm(grads);
    let factor = max_norm / (norm + 1e-6);
    if factor < 1.0 {
        let factor = T::from_f64(factor);
        apply(grads, 1, |g| g * factor);
    }
    norm
}
