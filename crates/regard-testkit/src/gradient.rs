//! Is this gradient the derivative of that function? Central differences in f64.
//!
//! For a step h along a direction u, with D the derivative along u,
//!
//! ```text
//! (f(x + h·u) − f(x − h·u)) / 2h  =  D  +  h²/6 · f'''  +  rounding / h
//! ```
//!
//! where the rounding of f is a few eps · |f|. Both errors are of the order eps^(2/3)
//! at h = eps^(1/3) ≈ 6.1e-6, where their sum is smallest. Hence the tolerance
//!
//! ```text
//! |difference| ≤ 1000 · eps^(2/3) · (max(1, |f|) + |D|)  ≈  3.7e-8 · (max(1, |f|) + |D|)
//! ```
//!
//! The factor leaves room for a thousand roundings in f or a third derivative of
//! some thousands. A wrong formula is off by far more, provided that the test keeps
//! inputs, f and its gradients at the order of one, and inputs away from kinks (by
//! more than h).

use crate::random::random_vec;
use crate::tolerance::excess;

/// Up to this many entries an argument is also checked entry by entry.
const ALL_ENTRIES_UP_TO: usize = 400;
/// Roundings and third derivatives that the tolerance leaves room for.
const ROOM: f64 = 1000.0;
const SEED: u64 = 0x5EED;

/// Panics unless `analytic` is the gradient of `f` at `at`.
///
/// First along one random direction, which sees every entry at the price of two
/// calls of `f`; then, up to 400 entries, each entry by itself (two calls
/// each). See the [module](self) for the tolerance. `name` is for the message.
///
/// # Panics
/// If the gradient is wrong, has another length than `at`, or `f` is not finite.
#[track_caller]
pub fn check_gradient(name: &str, mut f: impl FnMut(&[f64]) -> f64, at: &[f64], analytic: &[f64]) {
    check_gradients_of(
        &mut [(name, at.to_vec())],
        |arguments| f(&arguments[0].1),
        &[analytic.to_vec()],
    );
}

/// [`check_gradient`] for a function of several named arguments: `gradients[k]` is
/// the gradient of `f` with respect to `arguments[k]`, the others held fixed.
///
/// The arguments are moved in place and are as before afterwards.
///
/// ```
/// use regard_testkit::check_gradients_of;
///
/// // f(x, y) = x₀ y₀ + x₁ y₁; its gradients are y and x.
/// let (x, y) = (vec![1.0, -2.0], vec![0.5, 3.0]);
/// check_gradients_of(
///     &mut [("x", x.clone()), ("y", y.clone())],
///     |a| a[0].1.iter().zip(&a[1].1).map(|(x, y)| x * y).sum(),
///     &[y, x],
/// );
/// ```
///
/// # Panics
/// If a gradient is wrong or has another length than its argument, or `f` is not finite.
#[track_caller]
pub fn check_gradients_of(
    arguments: &mut [(&str, Vec<f64>)],
    mut f: impl FnMut(&[(&str, Vec<f64>)]) -> f64,
    gradients: &[Vec<f64>],
) {
    assert_eq!(arguments.len(), gradients.len(), "there must be one gradient for each argument");
    for (which, gradient) in gradients.iter().enumerate() {
        let (name, n) = (arguments[which].0, arguments[which].1.len());
        assert_eq!(
            gradient.len(),
            n,
            "gradient of {name}: it has another length than its argument"
        );

        let direction = unit_direction(SEED + which as u64, n);
        let overall = slope(arguments, which, &direction, gradient, &mut f);

        let mut off = 0;
        let mut worst: Option<(usize, Slope)> = None;
        if n <= ALL_ENTRIES_UP_TO {
            for i in 0..n {
                let entry = slope(arguments, which, &[(i, 1.0)], gradient, &mut f);
                off += usize::from(!entry.agrees());
                if worst.as_ref().is_none_or(|(_, w)| entry.excess() > w.excess()) {
                    worst = Some((i, entry));
                }
            }
        }
        match worst {
            Some((i, entry)) if !entry.agrees() => {
                panic!(
                    "gradient of {name}: {off} of {n} entries are wrong, worst is entry {i}: {entry}"
                )
            }
            _ => assert!(
                overall.agrees(),
                "gradient of {name} is wrong along a random direction: {overall}"
            ),
        }
    }
}

/// One derivative, twice.
struct Slope {
    analytic: f64,
    numeric: f64,
    allowed: f64,
}

impl Slope {
    fn excess(&self) -> f64 {
        excess(self.analytic, self.numeric, self.allowed)
    }

    fn agrees(&self) -> bool {
        self.excess() <= 1.0
    }
}

impl std::fmt::Display for Slope {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "analytic {:e}, central difference {:e}, difference {:e}, allowed {:e}",
            self.analytic,
            self.numeric,
            (self.analytic - self.numeric).abs(),
            self.allowed
        )
    }
}

/// The derivative of `f` as entry i of argument `which` moves by `u` for each
/// (i, u) of `direction`.
fn slope(
    arguments: &mut [(&str, Vec<f64>)],
    which: usize,
    direction: &[(usize, f64)],
    gradient: &[f64],
    f: &mut impl FnMut(&[(&str, Vec<f64>)]) -> f64,
) -> Slope {
    let h = f64::EPSILON.cbrt();
    let start: Vec<f64> = direction.iter().map(|&(i, _)| arguments[which].1[i]).collect();
    let mut f_moved_by = |h: f64| {
        for (&(i, u), x) in direction.iter().zip(&start) {
            arguments[which].1[i] = x + h * u;
        }
        f(arguments)
    };
    let up = f_moved_by(h);
    let down = f_moved_by(-h);

    // x + h·u is itself rounded, so each derivative is multiplied by the way that its entry
    // really went; otherwise this rounding, divided by h, would count as an error.
    let mut change = 0.0;
    for (&(i, u), x) in direction.iter().zip(&start) {
        arguments[which].1[i] = *x;
        change += gradient[i] * ((x + h * u) - (x - h * u));
    }
    let analytic = change / (2.0 * h);
    let size = up.abs().max(down.abs()).max(1.0) + analytic.abs();
    Slope { analytic, numeric: (up - down) / (2.0 * h), allowed: ROOM * h * h * size }
}

/// Every index with its part of a random direction of length one.
fn unit_direction(seed: u64, n: usize) -> Vec<(usize, f64)> {
    let direction = random_vec(seed, n);
    let length = direction.iter().map(|u| u * u).sum::<f64>().sqrt();
    direction.iter().map(|u| u / length).enumerate().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// f(x) = Σ sin(x_i) x_{i+1}, cyclic, and its gradient.
    fn wave(x: &[f64]) -> f64 {
        let n = x.len();
        (0..n).map(|i| x[i].sin() * x[(i + 1) % n]).sum()
    }

    fn wave_gradient(x: &[f64]) -> Vec<f64> {
        let n = x.len();
        (0..n).map(|i| x[i].cos() * x[(i + 1) % n] + x[(i + n - 1) % n].sin()).collect()
    }

    /// The panic message of a check that must fail.
    fn failure(x: &[f64], gradient: &[f64]) -> String {
        let panic = catch_unwind(AssertUnwindSafe(|| check_gradient("x", wave, x, gradient)))
            .expect_err("a wrong gradient passed");
        *panic.downcast::<String>().unwrap()
    }

    #[test]
    fn right_gradients_pass_at_any_size() {
        for n in [0, 1, 2, 13, 400, 401, 5000] {
            let x = random_vec(n as u64, n);
            check_gradient("x", wave, &x, &wave_gradient(&x));
        }
    }

    #[test]
    fn wrong_gradients_fail() {
        // 401 and 5000 entries are above the limit: only the direction can tell.
        for n in [2, 13, 400, 401, 5000] {
            let x = random_vec(n as u64, n);
            let right = wave_gradient(&x);
            let wrong = |change: &dyn Fn(usize, f64) -> f64| -> Vec<f64> {
                let entries = right.iter().enumerate();
                entries.map(|(i, &g)| change(i, g)).collect()
            };
            failure(&x, &wrong(&|_, g| -g));
            failure(&x, &wrong(&|_, g| g * 1.001));
            failure(&x, &wrong(&|i, g| if i == n / 2 { 0.0 } else { g }));
            failure(&x, &wrong(&|i, g| if i == n / 2 { f64::NAN } else { g }));
            // Two entries exchanged: the sum of the gradient stays right.
            failure(&x, &wrong(&|i, g| if i < 2 { right[1 - i] } else { g }));
        }
    }

    #[test]
    fn the_message_names_the_worst_entry() {
        let x = random_vec(9, 13);
        let mut gradient = wave_gradient(&x);
        gradient[4] += 0.5;
        gradient[7] += 0.25;
        let message = failure(&x, &gradient);
        assert!(
            message.starts_with("gradient of x: 2 of 13 entries are wrong, worst is entry 4: "),
            "{message}"
        );
        assert!(message.contains("central difference"), "{message}");
    }

    #[test]
    fn a_function_that_is_not_finite_fails() {
        let nan = |_: &[f64]| f64::NAN;
        let check = || check_gradient("x", nan, &[1.0], &[0.0]);
        assert!(catch_unwind(check).is_err());
    }

    #[test]
    fn the_wrong_one_of_several_is_named_and_arguments_come_back() {
        let (x, y) = (random_vec(1, 5), random_vec(2, 5));
        let mut arguments = [("x", x.clone()), ("y", y.clone())];
        let f = |a: &[(&str, Vec<f64>)]| a[0].1.iter().zip(&a[1].1).map(|(x, y)| x * y).sum();
        check_gradients_of(&mut arguments, f, &[y.clone(), x.clone()]);
        assert_eq!(arguments, [("x", x.clone()), ("y", y.clone())]);

        let swapped = [y.clone(), y];
        let panic = catch_unwind(AssertUnwindSafe(|| {
            check_gradients_of(&mut arguments, f, &swapped);
        }))
        .unwrap_err();
        let message = panic.downcast::<String>().unwrap();
        assert!(message.starts_with("gradient of y: "), "{message}");
    }

    #[test]
    #[should_panic(expected = "gradient of x: it has another length")]
    fn a_gradient_that_is_too_short_fails() {
        check_gradient("x", wave, &[1.0, 2.0], &[1.0]);
    }
}
