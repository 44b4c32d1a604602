//! Which pairs are left out of training, and how many of them for which reason.

use std::fmt;

/// Pairs with an empty side, or with a side of more than `max_tokens` tokens, or one more than
/// `max_ratio` times as long as the other, are no use to a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthFilter {
    /// Tokens of either side, at most.
    pub max_tokens: usize,
    /// Length of the longer side over that of the shorter, at most; 0 for no such limit.
    pub max_ratio: f64,
}

/// What a [`LengthFilter`] did. It displays as a sentence without a full stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Filtered {
    /// The filter.
    pub filter: LengthFilter,
    /// Pairs in all.
    pub total: usize,
    /// Pairs with an empty side.
    pub empty: usize,
    /// Pairs with a side that is too long, and the longest side there was.
    pub long: usize,
    /// Tokens of the longest side of all.
    pub longest: usize,
    /// Pairs of sides whose lengths differ too much.
    pub uneven: usize,
}

impl LengthFilter {
    /// The indices of the pairs that are kept, in order, from the lengths of both sides; and what was
    /// dropped. A pair counts for the first reason of empty, long, uneven.
    ///
    /// ```
    /// use regard_data::LengthFilter;
    ///
    /// let filter = LengthFilter { max_tokens: 50, max_ratio: 3.0 };
    /// let (kept, dropped) = filter.apply([(4, 5), (0, 3), (60, 40), (2, 9)]);
    /// assert_eq!(kept, [0]);
    /// assert_eq!(
    ///     dropped.to_string(),
    ///     "3 of 4 pairs are left out: 1 with an empty side, 1 with a side of more than 50 tokens \
    ///      (the longest has 60), 1 with one side more than 3 times as long as the other"
    /// );
    /// ```
    pub fn apply(
        self,
        lengths: impl IntoIterator<Item = (usize, usize)>,
    ) -> (Vec<usize>, Filtered) {
        let mut done =
            Filtered { filter: self, total: 0, empty: 0, long: 0, longest: 0, uneven: 0 };
        let mut kept = Vec::new();
        for (i, (a, b)) in lengths.into_iter().enumerate() {
            let (short, long) = (a.min(b), a.max(b));
            done.total += 1;
            done.longest = done.longest.max(long);
            if short == 0 {
                done.empty += 1;
            } else if long > self.max_tokens {
                done.long += 1;
            } else if self.max_ratio > 0.0 && long as f64 > self.max_ratio * short as f64 {
                done.uneven += 1;
            } else {
                kept.push(i);
            }
        }
        (kept, done)
    }
}

impl Filtered {
    /// Pairs left out.
    pub fn dropped(&self) -> usize {
        self.empty + self.long + self.uneven
    }
}

impl fmt::Display for Filtered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LengthFilter { max_tokens, max_ratio } = self.filter;
        let mut reasons = Vec::new();
        if self.empty > 0 {
            reasons.push(format!("{} with an empty side", self.empty));
        }
        if self.long > 0 {
            let longest = self.longest;
            reasons.push(format!(
                "{} with a side of more than {max_tokens} tokens (the longest has {longest})",
                self.long
            ));
        }
        if self.uneven > 0 {
            reasons.push(format!(
                "{} with one side more than {max_ratio} times as long as the other",
                self.uneven
            ));
        }
        if reasons.is_empty() {
            return write!(f, "all {} pairs are kept", self.total);
        }
        write!(f, "{} of {} pairs are left out: {}", self.dropped(), self.total, reasons.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive_and_every_pair_has_one_reason() {
        let filter = LengthFilter { max_tokens: 7, max_ratio: 2.0 };
        let lengths = [(7, 7), (8, 7), (3, 6), (3, 7), (0, 0), (0, 9), (1, 1)];
        let (kept, done) = filter.apply(lengths);
        assert_eq!(kept, [0, 2, 6]);
        assert_eq!((done.total, done.empty, done.long, done.uneven), (7, 2, 1, 1));
        assert_eq!((done.dropped(), done.longest), (4, 9));
        let all = LengthFilter { max_tokens: usize::MAX, max_ratio: 0.0 }.apply([(1, 5000)]);
        assert_eq!(all.1.to_string(), "all 1 pairs are kept");
    }
}
