//! Learning rates by step.

use serde::{Deserialize, Serialize};

/// How the learning rate runs, as a factor on the configured peak. Steps count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Schedule {
    /// 1
    Constant,
    /// step/warmup up to `warmup`, then √(warmup/step): the Transformer's schedule (Vaswani et al.
    /// 2017, eq. 3), whose peak d^{-½}·warmup^{-½} is here the configured rate.
    InverseSqrt {
        /// Steps of linear growth.
        warmup: u64,
    },
    /// step/warmup up to `warmup`, then half a cosine down to `floor` at `total`
    /// (Loshchilov and Hutter 2017), then `floor`.
    Cosine {
        /// Steps of linear growth.
        warmup: u64,
        /// Step at which the floor is reached; 0 stands for the planned end of training.
        total: u64,
        /// Factor at the end, in [0, 1].
        floor: f64,
    },
}

impl Schedule {
    /// The factor at `step`, counted from 1.
    ///
    /// ```
    /// use regard_nn::schedule::Schedule;
    /// // Noam, d 512, 4000 steps of warm-up: rate d^-½·min(step^-½, step·warmup^-1.5).
    /// let peak = 512f64.powf(-0.5) * 4000f64.powf(-0.5);
    /// let noam = Schedule::InverseSqrt { warmup: 4000 };
    /// assert!((peak * noam.factor(4000) - 6.987712e-4).abs() < 1e-10);
    /// assert!((peak * noam.factor(100_000) - 1.397542e-4).abs() < 1e-10);
    /// ```
    pub fn factor(&self, step: u64) -> f64 {
        let step = step.max(1) as f64;
        match *self {
            Self::Constant => 1.0,
            Self::InverseSqrt { warmup } => {
                let warmup = warmup.max(1) as f64;
                (step / warmup).min((warmup / step).sqrt())
            }
            Self::Cosine { warmup, total, floor } => {
                let (warmup, total) = (warmup as f64, total as f64);
                if step < warmup {
                    return step / warmup;
                }
                let done = ((step - warmup) / (total - warmup).max(1.0)).min(1.0);
                floor + (1.0 - floor) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
            }
        }
    }
}
