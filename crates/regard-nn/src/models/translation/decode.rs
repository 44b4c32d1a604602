//! Greedy and beam search over a [`Translator`].
//!
//! ```text
//! candidates   every live prefix with every next token; the `beam` likeliest of a source go on
//! finished     a candidate that ends among these leaves the beam; the source is done once `beam` have
//! score        log p(y)/lp(y) + β Σ_j ln min(Σ_i a_ij, 1)
//! lp           none 1 · GNMT ((5 + |y|)/6)^α · average |y|^α        |y| with the end counted
//! ```
//!
//! Length and coverage penalty: Wu et al. 2016, eq. 14 (<https://arxiv.org/abs/1609.08144>). Prefixes of
//! the same step have the same length, so they compare by log p alone; the score ranks what has
//! ended. A prefix of `max_length` tokens can only end, and says that it was cut.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use rayon::prelude::*;
use regard_tensor::kernels::reduce;
use regard_tensor::{Real, Tensor, parallel, simd};
use serde::{Deserialize, Serialize};

use super::{BEGIN, END, PairBatch, Sequences, Translator};
use crate::{NnError, Params};

/// What divides a log-probability, so that long outputs are not at a disadvantage.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LengthPenalty {
    /// 1
    #[default]
    None,
    /// ((5 + |y|)/6)^α
    Gnmt(f64),
    /// |y|^α
    Average(f64),
}

impl LengthPenalty {
    /// The divisor for an output of `len` tokens, its end counted.
    pub fn of(self, len: usize) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Gnmt(alpha) => ((5.0 + len as f64) / 6.0).powf(alpha),
            Self::Average(alpha) => (len as f64).powf(alpha),
        }
    }
}

/// How to search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecodeConfig {
    /// Prefixes that go on at each step; 1 is greedy search.
    pub beam: usize,
    /// Outputs given for each source, at most `beam`.
    pub n_best: usize,
    /// Most tokens of an output, its end not counted.
    pub max_length: usize,
    /// Fewest tokens of an output, its end not counted.
    pub min_length: usize,
    /// The length penalty.
    pub length_penalty: LengthPenalty,
    /// β of the coverage penalty; above 0 for models with attention alone.
    pub coverage_penalty: f64,
    /// Length of the runs of tokens that may not come twice in an output; 0 allows all.
    pub no_repeat: usize,
    /// Whether outputs come with their attention.
    pub attention: bool,
}

impl Default for DecodeConfig {
    /// Greedy search for up to 200 tokens.
    fn default() -> Self {
        Self {
            beam: 1,
            n_best: 1,
            max_length: 200,
            min_length: 0,
            length_penalty: LengthPenalty::None,
            coverage_penalty: 0.0,
            no_repeat: 0,
            attention: false,
        }
    }
}

impl DecodeConfig {
    /// Checks the options for a vocabulary of this size.
    ///
    /// # Errors
    /// Names the option at fault.
    pub fn check(&self, vocab: usize) -> Result<(), NnError> {
        let fail =
            |name, expected: String, actual: String| Err(NnError::Hyper { name, expected, actual });
        if self.beam > vocab {
            let expected = format!("at most the {vocab} tokens of the vocabulary");
            return fail("beam", expected, self.beam.to_string());
        }
        self.check_unbounded()
    }

    fn check_unbounded(&self) -> Result<(), NnError> {
        let fail =
            |name, expected: String, actual: String| Err(NnError::Hyper { name, expected, actual });
        if self.beam == 0 {
            return fail("beam", "at least 1".into(), "0".into());
        }
        if self.n_best == 0 || self.n_best > self.beam {
            let expected = format!("1 to the beam of {}", self.beam);
            return fail("n_best", expected, self.n_best.to_string());
        }
        if self.max_length == 0 {
            return fail("max_length", "at least 1".into(), "0".into());
        }
        if self.min_length > self.max_length {
            let expected = format!("at most max_length = {}", self.max_length);
            return fail("min_length", expected, self.min_length.to_string());
        }
        if let LengthPenalty::Gnmt(alpha) | LengthPenalty::Average(alpha) = self.length_penalty
            && !alpha.is_finite()
        {
            return fail("length_penalty", "finite".into(), alpha.to_string());
        }
        if !(self.coverage_penalty.is_finite() && self.coverage_penalty >= 0.0) {
            let actual = self.coverage_penalty.to_string();
            return fail("coverage_penalty", "finite and at least 0".into(), actual);
        }
        Ok(())
    }

    fn wants_attention(&self) -> bool {
        self.attention || self.coverage_penalty > 0.0
    }
}

/// One output.
#[derive(Debug, Clone, PartialEq)]
pub struct Hypothesis {
    /// Its tokens, without the end.
    pub tokens: Vec<u32>,
    /// Σ ln p(token), the end's counted.
    pub log_prob: f64,
    /// What outputs of a source are ranked by.
    pub score: f64,
    /// Whether it ended by itself rather than at the longest length.
    pub finished: bool,
    /// The weights over the source as each token was written, the end last; empty unless asked for.
    pub attention: Vec<Vec<f32>>,
}

/// The best outputs of every source, best first.
///
/// # Errors
/// An option out of range, a beam of 0 or wider than the vocabulary, an empty source, an id
/// outside the vocabulary, attention or a coverage penalty for a model that has no attention.
pub fn translate<T: Real>(
    model: &Translator,
    params: &Params<T>,
    source: &Sequences,
    config: &DecodeConfig,
) -> Result<Vec<Vec<Hypothesis>>, NnError> {
    config.check(model.config().target_vocab)?;
    search(model, params, source, config)
}

/// The log-probability of every token of given targets and of their ends.
///
/// # Errors
/// As [`Translator::log_probs`].
pub fn score_targets<T: Real>(
    model: &Translator,
    params: &Params<T>,
    batch: &PairBatch,
) -> Result<Vec<Vec<f64>>, NnError> {
    model.log_probs(params, batch)
}

/// As [`translate`], with a beam of any width: one that holds every prefix searches exhaustively.
///
/// # Errors
/// As [`translate`], but for the beam's upper limit.
pub fn search<T: Real>(
    model: &Translator,
    params: &Params<T>,
    source: &Sequences,
    config: &DecodeConfig,
) -> Result<Vec<Vec<Hypothesis>>, NnError> {
    config.check_unbounded()?;
    let mut decoding = model.start(params, source)?;
    decoding.keep_attention(config.wants_attention());
    let mut searches: Vec<Search> =
        source.items.lengths().iter().map(|_| Search::new(config)).collect();
    loop {
        let previous: Vec<u32> =
            searches.iter().flat_map(|search| &search.live).map(Prefix::last).collect();
        if previous.is_empty() {
            break;
        }
        let log_p = decoding.step(&previous)?;
        if config.wants_attention() && decoding.attention().is_none() {
            let (name, expected, actual) = if config.attention {
                ("attention", "off", "on".into())
            } else {
                ("coverage_penalty", "0", config.coverage_penalty.to_string())
            };
            let expected = format!("{expected} for a model without attention");
            return Err(NnError::Hyper { name, expected, actual });
        }
        let mut rows = 0;
        let mut going = Vec::with_capacity(searches.len());
        for search in searches.iter_mut().filter(|search| !search.live.is_empty()) {
            let first = rows;
            rows += search.live.len();
            going.push((first, search));
        }
        // The rows of each source that go on.
        let advance = |(first, search): (usize, &mut Search<'_>)| -> Vec<usize> {
            let parents = search.advance(&log_p, decoding.attention(), first);
            parents.into_iter().map(|parent| first + parent).collect()
        };
        let kept: Vec<Vec<usize>> = if log_p.len() < parallel::SMALL {
            going.into_iter().map(advance).collect()
        } else {
            let _call = regard_tensor::parallel::call();
            going.into_par_iter().map(advance).collect()
        };
        decoding.select(&kept.concat())?;
    }
    Ok(searches.into_iter().map(Search::best).collect())
}

/// A half-written output.
#[derive(Debug, Clone, Default)]
struct Prefix {
    tokens: Vec<u32>,
    log_prob: f64,
    attention: Vec<Vec<f32>>,
}

impl Prefix {
    fn last(&self) -> u32 {
        self.tokens.last().copied().unwrap_or(BEGIN)
    }

    /// Whether `token` would end a run of `n` tokens that stands in the prefix already.
    fn repeats(&self, token: u32, n: usize) -> bool {
        if n == 0 || self.tokens.len() < n {
            return false;
        }
        let tail = &self.tokens[self.tokens.len() + 1 - n..];
        self.tokens.windows(n).any(|run| run[..n - 1] == *tail && run[n - 1] == token)
    }
}

/// A live prefix with its next token. The greater one is the better one: the likelier, then the earlier
/// prefix, then the smaller token.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    log_prob: f64,
    parent: usize,
    token: u32,
}

impl Eq for Candidate {}
impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let likelier = self.log_prob.total_cmp(&other.log_prob);
        likelier.then((other.parent, other.token).cmp(&(self.parent, self.token)))
    }
}

/// The search for one source.
struct Search<'c> {
    config: &'c DecodeConfig,
    live: Vec<Prefix>,
    finished: Vec<Hypothesis>,
}

impl<'c> Search<'c> {
    fn new(config: &'c DecodeConfig) -> Self {
        Self { config, live: vec![Prefix::default()], finished: Vec::new() }
    }

    /// Takes one step; returns the parent of each prefix that goes on, none once the search is done. The rows
    /// of the live prefixes begin at `first`.
    fn advance<T: Real>(
        &mut self,
        log_p: &Tensor<T>,
        attention: Option<&[Vec<T>]>,
        first: usize,
    ) -> Vec<usize> {
        let full = self.live[0].tokens.len() == self.config.max_length;
        let attention: Vec<Vec<f32>> = match attention {
            Some(all) => all[first..first + self.live.len()]
                .iter()
                .map(|row| row.iter().map(|a| a.to_f64() as f32).collect())
                .collect(),
            None => vec![Vec::new(); self.live.len()],
        };
        let chosen = self.candidates(log_p, first, full);
        let before = std::mem::take(&mut self.live);
        if chosen.is_empty() {
            // Nothing may follow: what stands is all there is.
            for prefix in before {
                self.finish(prefix, false);
            }
            return Vec::new();
        }
        let (mut parents, mut live) = (Vec::new(), Vec::new());
        for Candidate { log_prob, parent, token } in chosen {
            let mut prefix = before[parent].clone();
            prefix.log_prob = log_prob;
            prefix.attention.push(attention[parent].clone());
            if token == END {
                self.finish(prefix, !full);
            } else {
                prefix.tokens.push(token);
                live.push(prefix);
                parents.push(parent);
            }
        }
        if self.finished.len() >= self.config.beam {
            return Vec::new();
        }
        self.live = live;
        parents
    }

    /// The likeliest candidates, best first: `beam` of them, or every end where nothing else may follow.
    fn candidates<T: Real>(&self, log_p: &Tensor<T>, first: usize, full: bool) -> Vec<Candidate> {
        let config = self.config;
        let mut best = BinaryHeap::with_capacity(config.beam.min(1 << 12) + 1);
        let beaten = |best: &BinaryHeap<Reverse<Candidate>>, candidate: Candidate| {
            let full = best.len() == config.beam;
            full && best.peek().is_some_and(|Reverse(worst)| candidate < *worst)
        };
        let mut tops = vec![T::ZERO; log_p.cols().div_ceil(BLOCK)];
        for (parent, prefix) in self.live.iter().enumerate() {
            let row = log_p.row(first + parent);
            let ends = prefix.tokens.len() >= config.min_length;
            largest(row, &mut tops);
            for ((block, row), top) in row.chunks(BLOCK).enumerate().zip(&tops) {
                let candidate = |p: T, token: u32| {
                    let log_prob = prefix.log_prob + p.to_f64();
                    Candidate { log_prob, parent, token }
                };
                // None of the block is better than its largest number at its first token.
                let token = (block * BLOCK) as u32;
                if beaten(&best, candidate(*top, token)) {
                    continue;
                }
                for (token, p) in (token..).zip(row) {
                    let candidate = candidate(*p, token);
                    let never = candidate.log_prob == f64::NEG_INFINITY || token == BEGIN;
                    if never || beaten(&best, candidate) {
                        continue;
                    }
                    let allowed = if token == END {
                        ends
                    } else {
                        !full && !prefix.repeats(token, config.no_repeat)
                    };
                    if allowed {
                        best.push(Reverse(candidate));
                        if best.len() > config.beam {
                            best.pop();
                        }
                    }
                }
            }
        }
        best.into_sorted_vec().into_iter().map(|Reverse(candidate)| candidate).collect()
    }

    fn finish(&mut self, prefix: Prefix, finished: bool) {
        let Prefix { tokens, log_prob, attention } = prefix;
        let mut score = log_prob / self.config.length_penalty.of(tokens.len() + 1);
        if self.config.coverage_penalty > 0.0 {
            score += self.config.coverage_penalty * coverage(&attention);
        }
        let attention = if self.config.attention { attention } else { Vec::new() };
        self.finished.push(Hypothesis { tokens, log_prob, score, finished, attention });
    }

    fn best(mut self) -> Vec<Hypothesis> {
        self.finished.sort_by(|a, b| b.score.total_cmp(&a.score));
        self.finished.truncate(self.config.n_best);
        self.finished
    }
}

/// Tokens that are passed over together where the likeliest of them comes too late.
const BLOCK: usize = 64;

/// The largest number of each block of a row.
fn largest<T: Real>(row: &[T], tops: &mut [T]) {
    simd::vectorise(
        #[inline(always)]
        move || {
            for (top, block) in tops.iter_mut().zip(row.chunks(BLOCK)) {
                *top = reduce::max(block);
            }
        },
    );
}

/// Σ_j ln min(Σ_i a_ij, 1); a source token that nothing looked at counts as 1e-10.
fn coverage(attention: &[Vec<f32>]) -> f64 {
    let keys = attention.first().map_or(0, Vec::len);
    let seen = |j: usize| attention.iter().map(|row| f64::from(row[j])).sum::<f64>();
    (0..keys).map(|j| seen(j).clamp(1e-10, 1.0).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn penalties_are_those_of_the_formulas() {
        assert_eq!(LengthPenalty::None.of(7), 1.0);
        assert!((LengthPenalty::Gnmt(0.6).of(7) - 2f64.powf(0.6)).abs() < 1e-15);
        assert!((LengthPenalty::Average(1.0).of(7) - 7.0).abs() < 1e-15);
        // Two source tokens; the first was looked at enough, the second half.
        let attention = vec![vec![0.75, 0.25], vec![0.75, 0.25]];
        assert!((coverage(&attention) - 0.5f64.ln()).abs() < 1e-7);
    }

    #[test]
    fn runs_that_stand_already_are_found() {
        let prefix = Prefix { tokens: vec![5, 6, 7, 5, 6], ..Prefix::default() };
        assert!(prefix.repeats(7, 3) && prefix.repeats(7, 2) && prefix.repeats(7, 1));
        assert!(!prefix.repeats(8, 3) && !prefix.repeats(5, 2) && prefix.repeats(5, 1));
        assert!(!prefix.repeats(7, 0) && !prefix.repeats(7, 6));
    }
}
