//! Lengths at which tiled loops break: nothing, one, primes that divide no tile,
//! and both neighbours of each power of two that serves as a tile or vector width.

use proptest::sample::select;
use proptest::strategy::Strategy;

/// The sizes, ascending, so that a failing case shrinks to the smallest.
pub const EDGE_SIZES: [usize; 20] =
    [0, 1, 2, 3, 5, 7, 11, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129];

/// One of [`EDGE_SIZES`].
pub fn edge_sizes() -> impl Strategy<Value = usize> {
    select(EDGE_SIZES.as_slice())
}

/// One of [`EDGE_SIZES`] from `least` to `most`, both included.
///
/// # Panics
/// If there is none.
pub fn edge_sizes_within(least: usize, most: usize) -> impl Strategy<Value = usize> {
    let chosen: Vec<usize> =
        EDGE_SIZES.into_iter().filter(|size| (least..=most).contains(size)).collect();
    assert!(!chosen.is_empty(), "there is no edge size from {least} to {most}");
    select(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ascending_without_doubles() {
        assert!(EDGE_SIZES.windows(2).all(|pair| pair[0] < pair[1]));
    }

    proptest! {
        #[test]
        fn only_listed_sizes_in_range(any in edge_sizes(), some in edge_sizes_within(1, 17)) {
            prop_assert!(EDGE_SIZES.contains(&any));
            prop_assert!(EDGE_SIZES.contains(&some) && (1..=17).contains(&some));
        }
    }

    #[test]
    #[should_panic(expected = "no edge size from 18 to 30")]
    fn an_empty_range_is_refused() {
        let _ = edge_sizes_within(18, 30);
    }
}
