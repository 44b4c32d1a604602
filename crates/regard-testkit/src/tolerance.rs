//! Comparing numbers that were rounded on the way.

/// How far a result may be from the expected one:
///
/// ```text
/// allowed = eps · terms · scale
/// ```
///
/// - `eps`: the machine epsilon of the coarser of the two computations;
/// - `terms`: how many roundings can add up, mostly the length of the sum times a
///   small factor that the test states;
/// - `scale`: the sum of the magnitudes that were added, for a dot product
///   Σ|x_i||y_i|. Not the result itself, which may be near zero by cancellation.
///
/// A sum of n products in any order is off by at most n · eps/2 · Σ|x_i||y_i| to
/// first order (Higham, *Accuracy and Stability of Numerical Algorithms*, §3.1), so that
/// `Bound::f32(n, Σ|x||y|)` leaves a factor of two. A bound is fixed before
/// the test runs; one that has to be widened until the test passes proves nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    allowed: f64,
}

impl Bound {
    /// Not one bit may differ (but +0 equals −0).
    pub const EXACT: Self = Self { allowed: 0.0 };

    /// `eps · terms · scale`. `eps` and `scale` are finite and not negative.
    ///
    /// # Panics
    /// If the product is negative or not finite.
    #[track_caller]
    pub fn new(eps: f64, terms: usize, scale: f64) -> Self {
        let allowed = eps * terms as f64 * scale;
        assert!(
            allowed.is_finite() && allowed >= 0.0,
            "a bound must be finite and not negative: eps {eps:e}, terms {terms}, scale {scale:e}"
        );
        Self { allowed }
    }

    /// A bound for work done in f32: `f32::EPSILON · terms · scale`.
    #[track_caller]
    pub fn f32(terms: usize, scale: f64) -> Self {
        Self::new(f64::from(f32::EPSILON), terms, scale)
    }

    /// A bound for work done in f64: `f64::EPSILON · terms · scale`.
    #[track_caller]
    pub fn f64(terms: usize, scale: f64) -> Self {
        Self::new(f64::EPSILON, terms, scale)
    }

    /// The largest difference that passes.
    pub fn allowed(self) -> f64 {
        self.allowed
    }
}

/// Panics unless `actual` and `expected` have one length and every pair is within
/// `bound`. The message names the worst index, both values, their difference and
/// the difference allowed. Slices may be f32 or f64 in any combination.
///
/// An infinity equals only itself; NaN equals nothing, not even NaN.
///
/// # Panics
/// If the slices differ.
#[track_caller]
pub fn assert_close<A, E>(actual: &[A], expected: &[E], bound: Bound)
where
    A: Copy + Into<f64>,
    E: Copy + Into<f64>,
{
    assert_close_each(actual, expected, |_| bound);
}

/// [`assert_close`] with a bound of its own for every index, where the magnitudes
/// behind the entries differ.
///
/// # Panics
/// If the slices differ.
#[track_caller]
pub fn assert_close_each<A, E>(actual: &[A], expected: &[E], bound: impl Fn(usize) -> Bound)
where
    A: Copy + Into<f64>,
    E: Copy + Into<f64>,
{
    if let Err(message) = close_each(actual, expected, bound) {
        panic!("{message}");
    }
}

/// [`assert_close_each`] that hands the message back, for callers that add to it
/// which case and which array it speaks of.
///
/// # Errors
/// The message, if the slices differ.
pub fn close_each<A, E>(
    actual: &[A],
    expected: &[E],
    bound: impl Fn(usize) -> Bound,
) -> Result<(), String>
where
    A: Copy + Into<f64>,
    E: Copy + Into<f64>,
{
    if actual.len() != expected.len() {
        return Err(format!(
            "lengths differ: actual has {}, expected has {}",
            actual.len(),
            expected.len()
        ));
    }
    let mut worst: Option<(usize, f64)> = None;
    let mut off = 0;
    for (i, (&a, &e)) in actual.iter().zip(expected).enumerate() {
        let excess = excess(a.into(), e.into(), bound(i).allowed);
        if excess > 1.0 {
            off += 1;
            if worst.is_none_or(|(_, w)| excess > w) {
                worst = Some((i, excess));
            }
        }
    }
    let Some((i, excess)) = worst else {
        return Ok(());
    };
    let (a, e): (f64, f64) = (actual[i].into(), expected[i].into());
    Err(format!(
        "{off} of {} entries differ; worst at index {i}: actual {a:e}, expected {e:e}, \
         difference {:e}, allowed {:e} ({excess:.3e} times as much)",
        actual.len(),
        (a - e).abs(),
        bound(i).allowed,
    ))
}

/// The difference in units of the allowed difference; more than 1 is a failure.
pub(crate) fn excess(actual: f64, expected: f64, allowed: f64) -> f64 {
    // Covers equal infinities, whose difference is NaN, and 0 allowed of 0.
    if actual == expected {
        return 0.0;
    }
    let ratio = (actual - expected).abs() / allowed;
    if ratio.is_nan() { f64::INFINITY } else { ratio }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowed_difference_is_the_product() {
        let bound = Bound::new(1e-7, 10, 3.0);
        assert!((bound.allowed() - 3e-6).abs() < 1e-20);
        assert_eq!(Bound::f64(1, 1.0).allowed(), f64::EPSILON);
        assert_eq!(Bound::f32(0, 5.0), Bound::EXACT);
    }

    #[test]
    fn passes_inside_the_bound_and_fails_outside() {
        let bound = Bound::new(0.25, 2, 1.0);
        assert!(close_each(&[1.0, 2.0], &[1.5, 1.5], |_| bound).is_ok());
        assert!(close_each(&[1.0, 2.0], &[1.5, 1.25], |_| bound).is_err());
    }

    #[test]
    fn names_the_worst_entry_by_its_own_bound() {
        // Index 2 differs most in absolute terms, index 1 most against its bound.
        let bound = |i| Bound::new(1.0, 1, [1.0, 0.001, 10.0][i]);
        let message = close_each(&[0.0, 0.5, 20.0], &[0.0, 0.0, 0.0], bound).unwrap_err();
        assert!(message.contains("2 of 3 entries differ"), "{message}");
        assert!(message.contains("index 1: actual 5e-1, expected 0e0"), "{message}");
        assert!(message.contains("difference 5e-1, allowed 1e-3"), "{message}");
    }

    #[test]
    fn non_finite_values() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let wide = Bound::new(1.0, 1, 1e300);
        for (actual, expected, same) in [
            (inf, inf, true),
            (-inf, -inf, true),
            (inf, -inf, false),
            (inf, 1.0, false),
            (1.0, inf, false),
            (nan, 1.0, false),
            (1.0, nan, false),
            (nan, nan, false),
        ] {
            let outcome = close_each(&[actual], &[expected], |_| wide);
            assert_eq!(outcome.is_ok(), same, "{actual} against {expected}");
        }
    }

    #[test]
    fn mixed_types_and_exactness() {
        assert_close(&[0.5_f32], &[0.5_f64], Bound::EXACT);
        assert_close(&[0.0_f64], &[-0.0_f64], Bound::EXACT);
        assert_close::<f32, f32>(&[], &[], Bound::EXACT);
        assert!(close_each(&[0.1_f32], &[0.1_f64], |_| Bound::EXACT).is_err());
        assert_close(&[0.1_f32], &[0.1_f64], Bound::f32(1, 0.1));
    }

    #[test]
    #[should_panic(expected = "lengths differ: actual has 1, expected has 2")]
    fn lengths_must_agree() {
        assert_close(&[1.0], &[1.0, 2.0], Bound::EXACT);
    }

    #[test]
    #[should_panic(expected = "a bound must be finite")]
    fn a_bound_of_nan_would_pass_nothing_or_everything() {
        Bound::f64(3, f64::NAN);
    }
}
