//! Sines and cosines added to the input.

use regard_tensor::Real;

use super::Position;
use crate::AttnError;
use crate::catalogue::{Entry, Kind, VASWANI, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "sinusoidal",
    kind: Kind::Position,
    title: "sinusoidal",
    formula: "PE(p, 2i) = sin(p / 10000^{2i/d}), PE(p, 2i+1) = cos(p / 10000^{2i/d})",
    parts: None,
    paper: Some(VASWANI),
    taxonomy: None,
    shapes: "x [d_model] ← x + PE(p, ·)",
    cost: "O(d_model) a position; a table is computed once",
    mistakes: &[
        "embeddings of size 1/√d drown in it: scale them by √d first",
        "all sines before all cosines, where the weights expect them interleaved",
        "added once more in every layer",
    ],
    example: example!(Sinusoidal),
};

/// `PE(p, 2i) = sin(p / 10000^{2i/d})`, `PE(p, 2i+1) = cos(p / 10000^{2i/d})`, added to the input.
///
/// Vaswani et al. 2017, §3.5 (<https://arxiv.org/abs/1706.03762>). No parameters, no largest
/// position. For a fixed step k, PE(p + k) is a fixed rotation of PE(p): each pair (2i, 2i+1)
/// turns by k / 10000^{2i/d}. With an odd width the last sine stands alone.
///
/// ```
/// use regard_attn::position::{Position, Sinusoidal};
///
/// let mut x = [0.0f64; 4];
/// Sinusoidal.input(1, &mut x)?;
/// assert_eq!(x, [1f64.sin(), 1f64.cos(), 0.01f64.sin(), 0.01f64.cos()]);
/// # Ok::<(), regard_attn::AttnError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sinusoidal;

impl Sinusoidal {
    /// PE(p, ·) for a model of width `d`.
    ///
    /// Takes a power and a sine for every entry; who needs many keeps them.
    pub fn encoding(position: usize, d: usize) -> impl Iterator<Item = f64> {
        (0..d).map(move |c| {
            let pair = (c / 2 * 2) as f64;
            let angle = position as f64 / 10000f64.powf(pair / d as f64);
            if c % 2 == 0 { angle.sin() } else { angle.cos() }
        })
    }
}

impl<T: Real> Position<T> for Sinusoidal {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn input(&self, position: usize, x: &mut [T]) -> Result<(), AttnError> {
        let d = x.len();
        for (x, p) in x.iter_mut().zip(Self::encoding(position, d)) {
            *x += T::from_f64(p);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_to_what_is_there_at_any_width() {
        for d in [1, 2, 3, 8] {
            let mut x = vec![1.0f64; d];
            Sinusoidal.input(5, &mut x).unwrap();
            let want: Vec<f64> = Sinusoidal::encoding(5, d).map(|p| 1.0 + p).collect();
            assert_eq!(x, want);
        }
        // An odd width ends with a sine.
        let last = Sinusoidal::encoding(5, 3).last().unwrap();
        assert_eq!(last, (5.0 / 10000f64.powf(2.0 / 3.0)).sin());
    }

    #[test]
    fn every_position_has_the_same_length() {
        for p in [0, 1, 77, 1_000_000] {
            let square: f64 = Sinusoidal::encoding(p, 64).map(|x| x * x).sum();
            assert!((square - 32.0).abs() < 1e-13);
        }
    }
}
