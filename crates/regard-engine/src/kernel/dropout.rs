//! Dropout on a tile of weights, drawn again wherever it is needed.

use std::ops::Range;

use regard_attn::{At, Dropout};
use regard_tensor::{Real, simd};

/// Multiplies each entry of a tile by [`Dropout::factor`] at its (item, head, query, key).
pub(crate) fn apply<T: Real>(
    dropout: Dropout,
    at: At,
    queries: Range<usize>,
    keys: Range<usize>,
    tile: &mut [T],
    stride: usize,
) {
    // A uniform number is m / 2²⁴ with a whole m, so that u < rate means m < ⌈rate·2²⁴⌉.
    let threshold = (dropout.rate * 16_777_216.0).ceil() as u32;
    let kept = T::from_f64(1.0 / (1.0 - dropout.rate));
    for (i, query) in queries.enumerate() {
        let stream = dropout.row(at.item, at.head, query);
        let row = &mut tile[i * stride..i * stride + keys.len()];
        let first = keys.start as u32;
        simd::vectorise(
            #[inline(always)]
            move || {
                let mut key = first;
                for x in row.iter_mut() {
                    let m = stream.bits(key) >> 8;
                    *x *= if m < threshold { T::ZERO } else { kept };
                    key = key.wrapping_add(1);
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_tensor::Key;

    #[test]
    fn is_the_factor_of_every_pair() {
        let at = At { item: 3, head: 2, q_len: 90, kv_len: 90, q_offset: 0 };
        for rate in [0.0, 1e-9, 0.1, 0.5, 0.9, 0.999_999] {
            let dropout = Dropout { rate, key: Key::new(5) };
            let mut tile = vec![1.0f32; 7 * 40];
            apply(dropout, at, 60..67, 33..70, &mut tile, 40);
            for i in 0..7 {
                for j in 0..37 {
                    let stream = dropout.row(3, 2, 60 + i);
                    assert_eq!(tile[i * 40 + j], dropout.factor::<f32>(stream, 33 + j));
                }
                assert_eq!(tile[i * 40 + 37..(i + 1) * 40], [1.0; 3]);
            }
        }
    }
}
