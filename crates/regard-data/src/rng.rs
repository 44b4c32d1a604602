//! A small counter-based generator, for the order of the data alone.

/// SplitMix64 (Steele, Lea, Flood 2014, <https://doi.org/10.1145/2660193.2660195>):
/// the k-th number is mix(start + (k + 1)·γ) with γ = 0x9E3779B97F4A7C15, so that a
/// number depends on its place alone and a sequence can be made again from its seed.
///
/// ```
/// let mut rng = regard_data::SplitMix64::new(0, 0);
/// assert_eq!(rng.next_u64(), 0xE220A8397B1DCDAF);
/// assert!(rng.below(7) < 7);
/// ```
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

impl SplitMix64 {
    /// The sequence number `stream` of `seed`. Stream 0 is the published generator, started
    /// at `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        // Mixed, since seeds that differ by a multiple of γ walk through the same numbers.
        let offset = if stream == 0 { 0 } else { mix(stream.wrapping_mul(GAMMA)) };
        Self { state: seed ^ offset }
    }

    /// The next number, uniform over all 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// A number in `0..n`. Each has the probability 1/n up to n/2⁶⁴.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "there is no number below 0");
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Puts `items` in random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}

fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_published_generator() {
        // The first numbers of the seed 1234567, as other implementations print them.
        let mut rng = SplitMix64::new(1234567, 0);
        let numbers: Vec<u64> = (0..5).map(|_| rng.next_u64()).collect();
        assert_eq!(
            numbers,
            [
                6457827717110365317,
                3203168211198807973,
                9817491932198370423,
                4593380528125082431,
                16408922859458223821
            ]
        );
    }

    #[test]
    fn every_order_is_as_likely() {
        let mut counts = std::collections::BTreeMap::new();
        let mut rng = SplitMix64::new(3, 5);
        let n_tries = 60_000;
        for _ in 0..n_tries {
            let mut items = [0, 1, 2];
            rng.shuffle(&mut items);
            *counts.entry(items).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        // Five standard deviations of a binomial count with p = 1/6.
        let expected = f64::from(n_tries) / 6.0;
        let bound = 5.0 * (expected * 5.0 / 6.0).sqrt();
        assert!(counts.values().all(|n| (f64::from(*n) - expected).abs() < bound), "{counts:?}");
    }
}
