//! Shifts of phrases, as tercom looks for them.

use std::cmp::Reverse;

use super::distance::{Distance, Edit};

/// The longest phrase, in words.
const MAX_LEN: usize = 10;
/// How far a phrase may move, in words.
const MAX_MOVE: usize = 50;
/// So many shifts are tried for a segment and a reference.
const MAX_TRIED: usize = 1000;

/// The number of edits, shifts included, that turn `hypothesis` into `reference`.
pub(super) fn edits(hypothesis: &[u32], reference: &[u32]) -> u64 {
    if reference.is_empty() {
        return hypothesis.len() as u64;
    }
    let mut distance = Distance::new(reference, hypothesis);
    let mut shifts = 0;
    let mut tried = 0;
    loop {
        let best = best_shift(&mut distance, reference, &mut tried);
        match best {
            // A search that was broken off makes no shift.
            Some(best) if best.gain > 0 && tried < MAX_TRIED => {
                let mut shifted = Vec::new();
                best.apply(distance.hypothesis(), &mut shifted);
                distance.replace(&shifted);
                shifts += 1;
            }
            _ => return shifts + u64::from(distance.cost()),
        }
    }
}

/// Which words go where, and what the distance loses by it.
#[derive(Debug, Clone, Copy)]
struct Shift {
    gain: i64,
    start: usize,
    len: usize,
    /// The words are put before this one of the words as they stand.
    target: usize,
}

impl Shift {
    /// The greatest gain, then the longest phrase, then the earliest place, then the earliest target.
    fn rank(self) -> (i64, usize, Reverse<usize>, Reverse<usize>) {
        (self.gain, self.len, Reverse(self.start), Reverse(self.target))
    }

    /// The words after the shift.
    fn apply(self, words: &[u32], shifted: &mut Vec<u32>) {
        let (start, end, target) = (self.start, self.start + self.len, self.target);
        let phrase = &words[start..end];
        shifted.clear();
        if target < start {
            shifted.extend_from_slice(&words[..target]);
            shifted.extend_from_slice(phrase);
            shifted.extend_from_slice(&words[target..start]);
            shifted.extend_from_slice(&words[end..]);
        } else {
            // A target within the phrase counts from where the phrase stands: it moves on by as many words.
            let to = if target > end { target } else { (target + self.len).min(words.len()) };
            shifted.extend_from_slice(&words[..start]);
            shifted.extend_from_slice(&words[end..to]);
            shifted.extend_from_slice(phrase);
            shifted.extend_from_slice(&words[to..]);
        }
    }
}

/// The shift that gains most, which may be nothing or less; `None` where there is none to try.
fn best_shift(distance: &mut Distance<'_>, reference: &[u32], tried: &mut usize) -> Option<Shift> {
    let words = distance.hypothesis().to_vec();
    let cost = i64::from(distance.cost());
    let alignment = Alignment::of(&distance.edits());
    let mut shifted = Vec::with_capacity(words.len());
    let mut best: Option<Shift> = None;
    for start in 0..words.len() {
        let from = start.saturating_sub(MAX_MOVE);
        for in_reference in from..reference.len().min(start + MAX_MOVE + 1) {
            let same = words[start..].iter().zip(&reference[in_reference..]);
            let longest = same.take(MAX_LEN).take_while(|(a, b)| a == b).count();
            for len in 1..=longest {
                if !alignment.is_worth_a_shift(start, in_reference, len) {
                    continue;
                }
                let mut last = None;
                // Behind the word that stands for the one before the phrase in the reference, or for one of the phrase.
                for at in in_reference..=in_reference + len {
                    let target = match at.checked_sub(1) {
                        None => 0,
                        Some(before) => match alignment.behind.get(before) {
                            Some(&behind) => behind,
                            None => break,
                        },
                    };
                    if last.replace(target) == Some(target) {
                        continue;
                    }
                    let mut shift = Shift { gain: 0, start, len, target };
                    shift.apply(&words, &mut shifted);
                    shift.gain = cost - i64::from(distance.cost_of(&shifted));
                    *tried += 1;
                    if best.is_none_or(|best| shift.rank() > best.rank()) {
                        best = Some(shift);
                    }
                }
                if *tried >= MAX_TRIED {
                    return best;
                }
            }
        }
    }
    best
}

/// Which words stand for each other after the edits of the distance.
struct Alignment {
    /// For each word of the reference: how many words of the hypothesis stand before or at its place.
    behind: Vec<usize>,
    is_wrong: Vec<bool>,
    is_missed: Vec<bool>,
}

impl Alignment {
    fn of(edits: &[Edit]) -> Self {
        let (mut behind, mut is_wrong, mut is_missed) = (Vec::new(), Vec::new(), Vec::new());
        for &edit in edits {
            let is_fault = edit != Edit::Keep;
            if edit != Edit::Insert {
                is_wrong.push(is_fault);
            }
            if edit != Edit::Delete {
                behind.push(is_wrong.len());
                is_missed.push(is_fault);
            }
        }
        Alignment { behind, is_wrong, is_missed }
    }

    /// Whether a phrase of `len` words has an error both where it is and where the reference has it, and is not there already.
    fn is_worth_a_shift(&self, start: usize, in_reference: usize, len: usize) -> bool {
        let is_faulty = |faults: &[bool], at: usize| faults[at..at + len].contains(&true);
        // The word that stands for the phrase's first one is at `behind` − 1.
        let is_inside = (start + 1..start + len + 1).contains(&self.behind[in_reference]);
        is_faulty(&self.is_wrong, start) && is_faulty(&self.is_missed, in_reference) && !is_inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_put_words_where_they_say() {
        let words: Vec<u32> = (0..7).collect();
        for (start, len, target, expected) in [
            (2, 2, 0, [2, 3, 0, 1, 4, 5, 6]),
            (2, 2, 1, [0, 2, 3, 1, 4, 5, 6]),
            (2, 2, 5, [0, 1, 4, 2, 3, 5, 6]),
            (2, 2, 7, [0, 1, 4, 5, 6, 2, 3]),
            (2, 2, 2, [0, 1, 2, 3, 4, 5, 6]),
            (2, 2, 3, [0, 1, 4, 2, 3, 5, 6]),
            (2, 2, 4, [0, 1, 4, 5, 2, 3, 6]),
            (5, 2, 7, [0, 1, 2, 3, 4, 5, 6]),
        ] {
            let mut shifted = Vec::new();
            Shift { gain: 0, start, len, target }.apply(&words, &mut shifted);
            assert_eq!(shifted, expected, "{start} {len} {target}");
        }
    }

    #[test]
    fn edits_of_small_cases() {
        for (hypothesis, reference, expected) in [
            (&[][..], &[][..], 0),
            (&[], &[1, 2], 2),
            (&[1, 2, 3], &[], 3),
            (&[1, 2, 3], &[1, 2, 3], 0),
            (&[4, 5, 1, 2, 3], &[1, 2, 3, 4, 5], 1),
            (&[1, 9, 3], &[1, 2, 3], 1),
        ] {
            assert_eq!(edits(hypothesis, reference), expected, "{hypothesis:?} {reference:?}");
        }
    }

    #[test]
    fn lengths_that_differ_by_far_are_within_the_beam() {
        let long: Vec<u32> = (0..5003).collect();
        assert_eq!(edits(&[5002], &long), 5002);
        assert_eq!(edits(&long, &[5002]), 5002);
        // Each of the two words is further from the diagonal than the beam reaches, so that neither is kept.
        assert_eq!(edits(&[0, 5002], &long), 5003);
    }
}
