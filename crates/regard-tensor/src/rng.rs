//! Random numbers addressed by (seed, stream, index) instead of drawn in order.
//!
//! The number at an address never depends on what was drawn before, so any thread can make its
//! own part, a backward pass can replay a dropout mask that was never stored, and a resumed run
//! needs no saved generator state beyond the seed and the step.
//!
//! The generator mixes a 32-bit index with a 64-bit key by two keyed rounds of a xorshift-multiply
//! hash (the constants are those of Ellis' "lowbias32" and of MurmurHash3's finaliser). It is for
//! simulation, not for secrets. One key serves 2³² indices.

/// A stream of random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key(u64);

/// SplitMix64 (Steele, Lea, Flood 2014): a bijection on 64 bits that mixes well.
fn splitmix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Key {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(splitmix(seed))
    }

    /// An independent stream named by a number (a step, a layer, an item).
    #[must_use]
    pub fn child(self, n: u64) -> Self {
        Self(splitmix(self.0 ^ splitmix(n.wrapping_add(0x5851_f42d_4c95_7f2d))))
    }

    /// An independent stream named by a text (a parameter's name, a purpose).
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        // FNV-1a, 64 bits.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        self.child(hash)
    }

    /// 32 random bits at `index`.
    #[inline(always)]
    pub fn bits(self, index: u32) -> u32 {
        let (a, b) = (self.0 as u32, (self.0 >> 32) as u32);
        let mut x = index ^ a;
        x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
        x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        x = (x ^ (x >> 16)).wrapping_add(b);
        x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
        x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
        x ^ (x >> 16)
    }

    /// A number in [0, 1) at `index`, in steps of 2⁻²⁴.
    #[inline(always)]
    pub fn uniform(self, index: u32) -> f32 {
        (self.bits(index) >> 8) as f32 * (1.0 / 16_777_216.0)
    }

    /// A whole number in [0, n) at `index`; `n` ≥ 1. The bias is below n / 2³².
    pub fn below(self, index: u32, n: u32) -> u32 {
        ((u64::from(self.bits(index)) * u64::from(n)) >> 32) as u32
    }

    /// A standard normal number at `index` (Box and Muller; uses addresses 2·index and 2·index + 1).
    pub fn normal(self, index: u32) -> f64 {
        let u = (f64::from(self.bits(2 * index)) + 0.5) / 4_294_967_296.0;
        let v = f64::from(self.bits(2 * index + 1)) / 4_294_967_296.0;
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Puts a slice into random order (Fisher and Yates).
    pub fn shuffle<T>(self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u32, i as u32 + 1) as usize;
            items.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn bits_are_even_and_uncorrelated_between_neighbours_and_streams() {
        let n = 1 << 16;
        // Standard error of a mean of n coin flips is 0.5/√n ≈ 0.002; six of them.
        let slack = 6.0 * 0.5 / f64::from(n).sqrt();
        let (a, b) = (Key::new(1).child(5), Key::new(1).child(6));
        for bit in 0..32 {
            let one = |k: Key, i: u32| (k.bits(i) >> bit) & 1;
            let mean =
                |f: &dyn Fn(u32) -> u32| f64::from((0..n).map(f).sum::<u32>()) / f64::from(n);
            assert!((mean(&|i| one(a, i)) - 0.5).abs() < slack);
            assert!((mean(&|i| one(a, i) ^ one(a, i + 1)) - 0.5).abs() < slack);
            assert!((mean(&|i| one(a, i) ^ one(a, i ^ 64)) - 0.5).abs() < slack);
            assert!((mean(&|i| one(a, i) ^ one(b, i)) - 0.5).abs() < slack);
        }
    }

    #[test]
    fn normal_has_mean_zero_and_variance_one() {
        let key = Key::new(3);
        let n = 100_000;
        let xs: Vec<f64> = (0..n).map(|i| key.normal(i)).collect();
        let mean = xs.iter().sum::<f64>() / f64::from(n);
        let var = xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.02 && (var - 1.0).abs() < 0.03, "{mean} {var}");
    }

    #[test]
    fn shuffle_is_a_permutation_that_the_key_decides() {
        let mut a: Vec<u32> = (0..100).collect();
        let mut b = a.clone();
        Key::new(1).shuffle(&mut a);
        Key::new(2).shuffle(&mut b);
        assert_ne!(a, b);
        a.sort_unstable();
        assert_eq!(a, (0..100).collect::<Vec<_>>());
    }
}
