//! The two element types: `f32`, which is what runs, and `f64`, which is what checks it.

use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use crate::simd::fma;

/// A real number type that kernels are generic over.
///
/// For `f32` the transcendental functions are branch-free polynomials that vectorise (within
/// 2 units in the last place for `exp`, 4 for `tanh` and `sigmoid`, 5e-7 absolute for `erf`);
/// for `f64` they are the standard library's, so that finite differences mean something.
pub trait Real:
    crate::buffer::Element
    + Debug
    + Display
    + Default
    + PartialOrd
    + Sum
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
{
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// −∞, the score of a forbidden pair.
    const NEG_INFINITY: Self;
    /// Distance from 1 to the next number.
    const EPSILON: Self;
    /// `"F32"` or `"F64"`, as checkpoints spell it.
    const DTYPE: &'static str;

    /// A number ≥ 0 and an index behind it, as one integer: see [`Real::ranked`].
    type Ranked: Copy + Ord + Debug + Send + Sync + 'static;
    /// The rank of nothing: below all others, equal to that of 0.
    const UNRANKED: Self::Ranked;

    /// Orders numbers with their indices, so that the largest number, of equal ones that of the first index, ranks highest; what is
    /// not above 0, NaN too, is unranked.
    fn ranked(self, index: u32) -> Self::Ranked;
    /// The number and the index of a rank; 0 and any index of what is unranked.
    fn unranked(rank: Self::Ranked) -> (Self, u32);
    /// Rounds from `f64`.
    fn from_f64(x: f64) -> Self;
    /// Widens to `f64`.
    fn to_f64(self) -> f64;
    /// Rounds from an integer.
    #[inline(always)]
    fn from_usize(n: usize) -> Self {
        Self::from_f64(n as f64)
    }
    /// Fused `self·b + c`; a library call unless the processor has it: see [`crate::simd::fma`].
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// √x
    fn sqrt(self) -> Self;
    /// ln x
    fn ln(self) -> Self;
    /// |x|
    fn abs(self) -> Self;
    /// The larger one; the other where one is NaN.
    fn max(self, other: Self) -> Self;
    /// The smaller one; the other where one is NaN.
    fn min(self, other: Self) -> Self;
    /// Whether neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// eˣ; 0 at −∞, NaN at NaN.
    fn exp(self) -> Self;
    /// eˣ for x ≤ 0, as a softmax needs it: 0 at −∞ and wherever eˣ is no normal number, NaN at NaN. For
    /// `f32` within 2 units in the last place; cheaper than [`Real::exp`], more so where [`crate::simd::fma`] is one
    /// instruction, which changes last bits.
    #[inline(always)]
    fn exp_nonpositive<const FMA: bool>(self) -> Self {
        self.exp()
    }
    /// tanh x
    fn tanh(self) -> Self;
    /// tanh x for the hidden units of a score: for `f32` a quotient of two polynomials, relative error ≤ 4e-7, ±1 from
    /// |x| = 9 on; a third of the work of [`Real::tanh`], less where [`crate::simd::fma`] is one instruction, which changes
    /// last bits.
    #[inline(always)]
    fn tanh_rational<const FMA: bool>(self) -> Self {
        self.tanh()
    }
    /// 2/√π ∫₀ˣ e^{−t²} dt
    fn erf(self) -> Self;
    /// Φ(x) and φ(x): the normal distribution function and its density.
    fn normal(self) -> (Self, Self);
    /// σ(x) = 1 / (1 + e^{−x})
    #[inline(always)]
    fn sigmoid(self) -> Self {
        Self::ONE / (Self::ONE + (-self).exp())
    }
}

/// The numbers of [`Real::exp_nonpositive`] for `f32`: x = n·ln 2 + r, e^x = 2ⁿ·P(r).
pub(crate) mod nonpositive {
    /// 1.5·2²³: adding it rounds to an integer.
    pub(crate) const ROUND: f32 = 12_582_912.0;
    /// From here on n ≥ −126, so that 2ⁿ is a normal number; below it, at −∞ too, what the steps gave is
    /// thrown away. A NaN fails the comparison and stays.
    pub(crate) const LOWEST: f32 = -87.336_5;
    /// ln 2 in two parts, of which a multiple of the first is exact.
    pub(crate) const LN_2_HIGH: f32 = 0.693_359_4;
    pub(crate) const LN_2_LOW: f32 = -2.121_944_4e-4;
    /// P, highest power first: of those that begin 1 + r, the least relative error from e^r for
    /// |r| ≤ ln 2 / 2, 3e-9.
    pub(crate) const POLYNOMIAL: [f32; 7] =
        [1.381_432e-3, 8.368_851e-3, 4.166_84e-2, 0.166_665_2, 0.499_999_94, 1.0, 1.0];
}

macro_rules! common {
    ($t:ident, $dtype:literal, $bits:ident, $ranked:ident) => {
        // The bits of numbers above 0 are in the order of the numbers.
        type Ranked = $ranked;
        const UNRANKED: $ranked = 0;

        #[inline(always)]
        fn ranked(self, index: u32) -> $ranked {
            let rank = ($ranked::from(self.to_bits()) << $bits::BITS) | $ranked::from(!index);
            if self > 0.0 { rank } else { 0 }
        }
        #[inline(always)]
        fn unranked(rank: $ranked) -> (Self, u32) {
            (Self::from_bits((rank >> $bits::BITS) as $bits), !(rank as u32))
        }
        const ZERO: Self = 0.0;
        const ONE: Self = 1.0;
        const NEG_INFINITY: Self = $t::NEG_INFINITY;
        const EPSILON: Self = $t::EPSILON;
        const DTYPE: &'static str = $dtype;

        #[inline(always)]
        fn from_f64(x: f64) -> Self {
            x as $t
        }
        #[inline(always)]
        fn to_f64(self) -> f64 {
            self as f64
        }
        #[inline(always)]
        fn mul_add(self, b: Self, c: Self) -> Self {
            $t::mul_add(self, b, c)
        }
        #[inline(always)]
        fn sqrt(self) -> Self {
            $t::sqrt(self)
        }
        #[inline(always)]
        fn ln(self) -> Self {
            $t::ln(self)
        }
        #[inline(always)]
        fn abs(self) -> Self {
            $t::abs(self)
        }
        #[inline(always)]
        fn max(self, other: Self) -> Self {
            $t::max(self, other)
        }
        #[inline(always)]
        fn min(self, other: Self) -> Self {
            $t::min(self, other)
        }
        #[inline(always)]
        fn is_finite(self) -> bool {
            $t::is_finite(self)
        }
    };
}

impl Real for f32 {
    common!(f32, "F32", u32, u64);

    /// Splits x = n·ln 2 + r, |r| ≤ ln 2 / 2, evaluates e^r as a polynomial and scales by 2ⁿ
    /// through the exponent bits (the classical Cephes scheme).
    #[inline(always)]
    #[expect(clippy::manual_clamp, reason = "min and max keep NaN out of the arithmetic")]
    fn exp(self) -> Self {
        const ROUND: f32 = 12_582_912.0; // 1.5·2²³: adding it rounds to an integer
        let x = self.min(88.722_8).max(-87.336_5);
        let t = x * std::f32::consts::LOG2_E + ROUND;
        let n = t - ROUND;
        let r = (x - n * 0.693_359_4) - n * -2.121_944_4e-4;
        let p = ((((1.987_569_2e-4 * r + 1.398_199_9e-3) * r + 8.333_452e-3) * r + 4.166_579_6e-2)
            * r
            + 1.666_666_5e-1)
            * r
            + 5e-1;
        let y = p * r * r + r + 1.0;
        // Two half steps keep the exponent in range for n = 128.
        let bits = t.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
        let half = bits >> 1;
        let s1 = f32::from_bits(((half + 127) << 23) as u32);
        let s2 = f32::from_bits(((bits - half + 127) << 23) as u32);
        let y = y * s1 * s2;
        let y = if self < -87.336_5 { 0.0 } else { y };
        let y = if self > 88.722_8 { f32::INFINITY } else { y };
        if self.is_nan() { self } else { y }
    }

    /// As [`Real::exp`], without what only positive numbers need.
    #[inline(always)]
    fn exp_nonpositive<const FMA: bool>(self) -> Self {
        use nonpositive::{LN_2_HIGH, LN_2_LOW, LOWEST, POLYNOMIAL, ROUND};
        let t = fma::<f32, FMA>(self, std::f32::consts::LOG2_E, ROUND);
        let n = t - ROUND;
        let r = fma::<f32, FMA>(n, -LN_2_HIGH, self);
        let r = fma::<f32, FMA>(n, -LN_2_LOW, r);
        let mut p = POLYNOMIAL[0];
        for c in &POLYNOMIAL[1..] {
            p = fma::<f32, FMA>(p, r, *c);
        }
        let bits = t.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127);
        let y = p * f32::from_bits(bits << 23);
        if self < LOWEST { 0.0 } else { y }
    }

    /// 1 − 2/(e^{2x} + 1) away from zero, an odd polynomial near it (Cephes).
    #[inline(always)]
    fn tanh(self) -> Self {
        let a = self.abs();
        let far = 1.0 - 2.0 / (Real::exp(2.0 * a.min(20.0)) + 1.0);
        let far = if self < 0.0 { -far } else { far };
        let z = self * self;
        let near = ((((-5.704_988_7e-3 * z + 2.063_909_6e-2) * z - 5.373_971e-2) * z
            + 1.333_144_2e-1)
            * z
            - 3.333_328e-1)
            * z
            * self
            + self;
        // A NaN fails the comparison and takes the branch that keeps it.
        if a >= 0.625 { far } else { near }
    }

    /// x·P(x²)/Q(x²), both of degree 4: relative error 2e-8 for |x| ≤ 9, before rounding. A NaN fails the comparisons.
    #[inline(always)]
    fn tanh_rational<const FMA: bool>(self) -> Self {
        const P: [f32; 4] = [1.335_480_2e-8, 2.060_919_4e-5, 3.495_595_4e-3, 0.133_810_33];
        const Q: [f32; 4] = [7.776_619e-7, 3.285_646_4e-4, 2.587_701e-2, 0.467_143_48];
        const FARTHEST: f32 = 9.0;
        let x = if self > FARTHEST { FARTHEST } else { self };
        let x = if x < -FARTHEST { -FARTHEST } else { x };
        let square = x * x;
        let (mut p, mut q) = (P[0], Q[0]);
        for c in 1..4 {
            p = fma::<f32, FMA>(p, square, P[c]);
            q = fma::<f32, FMA>(q, square, Q[c]);
        }
        let p = fma::<f32, FMA>(p, square, 1.0);
        let q = fma::<f32, FMA>(q, square, 1.0);
        let y = p * x / q;
        let y = if y > 1.0 { 1.0 } else { y };
        if y < -1.0 { -1.0 } else { y }
    }

    #[inline(always)]
    fn erf(self) -> Self {
        erf_and_bell(self).0
    }
    #[inline(always)]
    fn normal(self) -> (Self, Self) {
        let (erf, bell) = erf_and_bell(self * std::f32::consts::FRAC_1_SQRT_2);
        (0.5 * (1.0 + erf), 0.398_942_3 * bell)
    }
}

/// erf x and e^{−x²}, which it takes. Abramowitz and Stegun, 7.1.26: |error| ≤ 1.5e-7 before rounding.
#[inline(always)]
fn erf_and_bell(x: f32) -> (f32, f32) {
    let a = x.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * a);
    let p = ((((1.061_405_4 * t - 1.453_152) * t + 1.421_413_7) * t - 0.284_496_74) * t
        + 0.254_829_6)
        * t;
    let bell = Real::exp(-a * a);
    let y = 1.0 - p * bell;
    (if x < 0.0 { -y } else { y }, bell)
}

impl Real for f64 {
    common!(f64, "F64", u64, u128);

    #[inline(always)]
    fn exp(self) -> Self {
        f64::exp(self)
    }
    #[inline(always)]
    fn tanh(self) -> Self {
        f64::tanh(self)
    }
    #[inline(always)]
    fn erf(self) -> Self {
        libm::erf(self)
    }
    #[inline(always)]
    fn normal(self) -> (Self, Self) {
        let erf = Real::erf(self * std::f64::consts::FRAC_1_SQRT_2);
        (0.5 * (1.0 + erf), 0.398_942_280_401_432_7 * f64::exp(-0.5 * self * self))
    }
}

#[cfg(test)]
mod tests {
    use super::Real;

    fn ulps(actual: f32, exact: f64) -> f64 {
        let scale = (exact.abs() as f32).max(f32::MIN_POSITIVE);
        let ulp = f64::from(f32::from_bits(scale.to_bits() + 1)) - f64::from(scale);
        (f64::from(actual) - exact).abs() / ulp
    }

    #[test]
    fn ranks_order_by_number_then_by_the_first_index() {
        fn check<T: Real>() {
            let x = |x: f64| T::from_f64(x);
            let falling = [(2.0, 7), (1.0, 0), (1.0, 3), (1.0, u32::MAX - 1), (1e-30, 2)];
            let ranks = falling.map(|(n, index)| x(n).ranked(index));
            assert!(ranks.windows(2).all(|pair| pair[0] > pair[1]) && ranks[4] > T::UNRANKED);
            assert_eq!(ranks.map(T::unranked), falling.map(|(n, index)| (x(n), index)));
            for none in [0.0, -0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
                assert_eq!(x(none).ranked(3), T::UNRANKED);
            }
            assert_eq!(T::unranked(T::UNRANKED).0, T::ZERO);
        }
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn functions_stay_within_their_stated_error() {
        let (mut e, mut t, mut s, mut r, mut n) = (0.0f64, 0.0f64, 0.0f64, 0.0f64, 0.0f64);
        let (mut nonpositive, mut rational) = (0.0f64, 0.0f64);
        for i in -200_000..200_000 {
            let x = i as f32 * 4.3e-4;
            let d = f64::from(x);
            if d.exp() < f64::from(f32::MAX) {
                e = e.max(ulps(Real::exp(x), d.exp()));
            }
            if x <= 0.0 && d.exp() > f64::from(f32::MIN_POSITIVE) {
                let (plain, fused) = (x.exp_nonpositive::<false>(), x.exp_nonpositive::<true>());
                nonpositive = nonpositive.max(ulps(plain, d.exp())).max(ulps(fused, d.exp()));
            }
            t = t.max(ulps(Real::tanh(x), d.tanh()));
            for quotient in [x.tanh_rational::<false>(), x.tanh_rational::<true>()] {
                let exact = d.tanh();
                let error = (f64::from(quotient) - exact).abs();
                rational = rational.max(if exact == 0.0 { error } else { error / exact.abs() });
            }
            s = s.max(ulps(x.sigmoid(), 1.0 / (1.0 + (-d).exp())));
            r = r.max((f64::from(Real::erf(x)) - libm::erf(d)).abs());
            let ((cdf, pdf), (exact_cdf, exact_pdf)) = (x.normal(), d.normal());
            n = n.max((f64::from(cdf) - exact_cdf).abs()).max((f64::from(pdf) - exact_pdf).abs());
        }
        assert!(e <= 2.0, "exp {e}");
        assert!(nonpositive <= 2.0, "exp_nonpositive {nonpositive}");
        assert!(t <= 4.0, "tanh {t}");
        assert!(rational <= 4e-7, "tanh_rational {rational}");
        assert!(s <= 4.0, "sigmoid {s}");
        assert!(r <= 5e-7, "erf {r}");
        assert!(n <= 3e-7, "normal {n}");
    }

    #[test]
    fn special_values() {
        assert_eq!(Real::exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(Real::exp(-1000.0f32), 0.0);
        assert_eq!(Real::exp(0.0f32), 1.0);
        assert_eq!(Real::exp(f32::INFINITY), f32::INFINITY);
        assert!(Real::exp(f32::NAN).is_nan());
        for x in [f32::NEG_INFINITY, f32::MIN, -1000.0, -87.4] {
            assert_eq!((x.exp_nonpositive::<true>(), x.exp_nonpositive::<false>()), (0.0, 0.0));
        }
        assert_eq!(0.0f32.exp_nonpositive::<true>(), 1.0);
        assert!((-87.336f32).exp_nonpositive::<true>() >= f32::MIN_POSITIVE);
        assert!(f32::NAN.exp_nonpositive::<true>().is_nan());
        assert!(f32::NAN.exp_nonpositive::<false>().is_nan());
        assert!(Real::tanh(f32::NAN).is_nan());
        assert_eq!(Real::tanh(f32::INFINITY), 1.0);
        assert!(f32::NAN.tanh_rational::<true>().is_nan());
        assert!(f32::NAN.tanh_rational::<false>().is_nan());
        for x in [9.0, 1e30, f32::INFINITY] {
            assert_eq!((x.tanh_rational::<true>(), x.tanh_rational::<false>()), (1.0, 1.0));
            assert_eq!((-x).tanh_rational::<true>(), -1.0);
        }
        assert_eq!(Real::tanh(f32::NEG_INFINITY), -1.0);
        assert_eq!(f32::NEG_INFINITY.sigmoid(), 0.0);
    }
}
