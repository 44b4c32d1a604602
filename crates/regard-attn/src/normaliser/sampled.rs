//! `a_j = 1` at one key, drawn with the probabilities of the softmax, else 0

use regard_tensor::{Key, Real};

use super::{Normaliser, Streaming, gumbel, pick, spread_nan};
use crate::RowAt;
use crate::call::row_stream;
use crate::catalogue::{Entry, Kind, Paper, example};

pub(crate) const ENTRY: Entry = Entry {
    name: "sampled",
    kind: Kind::Normaliser,
    title: "hard, sampled",
    formula: "a_j = 1 where s_j + g_j is largest, g_j = −ln(−ln u_j), u_j uniform in (0, 1)",
    parts: None,
    paper: Some(Paper {
        author: "Xu",
        year: 2015,
        title: "Show, Attend and Tell: Neural Image Caption Generation with Visual Attention",
        link: "https://arxiv.org/abs/1502.03044",
    }),
    taxonomy: None,
    shapes: "s [kv_len] → a [kv_len], one of them 1",
    cost: "two logarithms a key",
    mistakes: &[
        "a gradient expected through the draw: the scores learn by the score function, \
         (reward − baseline)·∂ln p(draw)/∂s",
        "the same noise at every step: give each call a key of its own",
        "the sign of the baseline, or a baseline that looks at the draw",
        "samples kept at test time, where the arg max or the expectation is meant",
    ],
    example: example!(Sampled { key: Key::new(7) }),
};

/// `a_j = 1` at a key drawn with the probability softmax(s)_j, else 0.
///
/// Hard attention in training (Xu et al. 2015, §4.1, <https://arxiv.org/abs/1502.03044>), drawn by the
/// Gumbel-max trick: the largest of s_j + g_j. The noise at (item, head, query, key) is a function
/// of the stream alone, so backward and any number of threads see the same draw. The log-sum-exp is
/// that of the softmax: ln p(draw) = s_draw − lse. Rows with nothing allowed are zero.
///
/// Derivative: zero everywhere. Scores learn through the upstream gradients of the log-probability and
/// of the entropy ([`Upstream`](crate::Upstream)).
///
/// ```
/// use regard_attn::normaliser::{Normaliser, Sampled};
/// use regard_attn::RowAt;
/// use regard_tensor::Key;
///
/// let sampled = Sampled { key: Key::new(1) };
/// let ones = (0..1000).filter(|&query| {
///     let mut row = [0.0f64, 3f64.ln()]; // probabilities 1/4 and 3/4
///     sampled.row_at(RowAt { item: 0, head: 0, query }, &mut row);
///     row[1] == 1.0
/// });
/// assert!((700..800).contains(&ones.count()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampled {
    /// The random stream of this call.
    pub key: Key,
}

impl<T: Real> Normaliser<T> for Sampled {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn rows_sum_to_one(&self) -> bool {
        true
    }

    fn streaming(&self) -> Streaming<T> {
        Streaming::Pick { noise: Some(self.key) }
    }

    fn row(&self, row: &mut [T]) -> T {
        self.row_at(RowAt { item: 0, head: 0, query: 0 }, row)
    }

    fn row_at(&self, at: RowAt, row: &mut [T]) -> T {
        if let Some(nan) = spread_nan(row) {
            return nan;
        }
        let stream = row_stream(self.key, at);
        let mut best: Option<(usize, T)> = None;
        for (j, s) in row.iter().enumerate() {
            if *s == T::NEG_INFINITY {
                continue;
            }
            let noisy = *s + T::from_f64(gumbel(stream, j));
            if best.is_none_or(|(_, top)| noisy > top) {
                best = Some((j, noisy));
            }
        }
        pick(row, best.map(|(j, _)| j))
    }

    fn row_backward(&self, _: &[T], dweights: &mut [T]) {
        dweights.fill(T::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_belongs_to_its_place() {
        let draw = |seed, item, head, query| {
            let mut row = [0.0f64; 64];
            Sampled { key: Key::new(seed) }.row_at(RowAt { item, head, query }, &mut row);
            row.iter().position(|a| *a == 1.0).unwrap()
        };
        assert_eq!(draw(3, 1, 2, 4), draw(3, 1, 2, 4));
        let others = [draw(3, 0, 2, 4), draw(3, 1, 1, 4), draw(3, 1, 2, 5), draw(4, 1, 2, 4)];
        assert!(others.iter().any(|other| *other != draw(3, 1, 2, 4)));
    }

    #[test]
    fn forbidden_keys_are_never_drawn_and_nothing_allowed_is_zero() {
        for query in 0..50 {
            let at = RowAt { item: 0, head: 0, query };
            let mut row = [f64::NEG_INFINITY, -1e3, f64::NEG_INFINITY];
            let lse = Sampled { key: Key::new(1) }.row_at(at, &mut row);
            assert_eq!((row, lse), ([0.0, 1.0, 0.0], -1e3));
            let mut row = [f64::NEG_INFINITY; 2];
            let lse = Sampled { key: Key::new(1) }.row_at(at, &mut row);
            assert_eq!((row, lse), ([0.0; 2], f64::NEG_INFINITY));
        }
    }
}
