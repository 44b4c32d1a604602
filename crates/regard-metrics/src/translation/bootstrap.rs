//! Paired bootstrap resampling: is one system better than the other, or were the segments kind to it?

use serde::Serialize;

use super::TranslationError;
use super::corpus::{Corpus, SegmentCounts, TranslationMetric, TranslationScore};

/// One system's score, and how far it scatters when the segments are drawn anew.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Resampled {
    /// The score on all segments, in per cent.
    pub score: f64,
    /// The mean over the resamples.
    pub mean: f64,
    /// Half the width of the interval that holds 95 % of the resamples: with the N scores sorted, half the distance from number ⌊N/40⌋ to its mirror image,
    /// counted from 0.
    pub half_width: f64,
}

/// What [`paired_bootstrap`] found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairedBootstrap {
    /// The system that the other is compared with.
    pub baseline: Resampled,
    /// The other system.
    pub system: Resampled,
    /// How often chance alone would make a difference as large as that of the two scores; see [`paired_bootstrap`]. In (0, 1].
    pub p_value: f64,
    /// How many times the segments were drawn.
    pub resamples: usize,
}

/// Compares two systems on the same segments (Koehn 2004, <https://aclanthology.org/W04-3250>), as sacreBLEU's `--paired-bs` does.
///
/// In each of N = `resamples` resamples as many segments as there are are drawn with replacement, the same for both systems, and d_b is the absolute difference
/// of the two scores; d is that on all segments. Then p = (1 + |{b : d_b − mean(d) > d}|) / (N + 1).
///
/// Segment k of resample b depends on (`seed`, b, k) alone, so that a result is made again on any machine. It is not the draw
/// of sacreBLEU, whose generator is another: means, widths and p agree with sacreBLEU's up to the scatter of N resamples. Counts stay whole
/// numbers, where sacreBLEU adds up float32.
///
/// Time O(N · segments).
///
/// # Errors
/// [`TranslationError::SettingsDiffer`], [`TranslationError::SegmentsDiffer`] (also where there is no segment), and [`TranslationError::Setting`] for
/// `resamples` of 0 or above a million.
///
/// ```
/// use regard_metrics::translation::{Chrf, Corpus, paired_bootstrap};
///
/// let mut baseline = Corpus::new(Chrf::default());
/// let mut system = baseline.clone();
/// for (worse, better, reference) in [("a cat", "the cat", "the cats"), ("dog", "one dog", "one dog")] {
///     baseline.update(worse, &[reference])?;
///     system.update(better, &[reference])?;
/// }
/// let result = paired_bootstrap(&baseline, &system, 1000, 12345)?;
/// assert!(result.system.score > result.baseline.score);
/// assert_eq!(result, paired_bootstrap(&baseline, &system, 1000, 12345)?);
/// # Ok::<(), regard_metrics::translation::TranslationError>(())
/// ```
pub fn paired_bootstrap<M: TranslationMetric>(
    baseline: &Corpus<M>,
    system: &Corpus<M>,
    resamples: usize,
    seed: u64,
) -> Result<PairedBootstrap, TranslationError> {
    if !(1..=MAX_RESAMPLES).contains(&resamples) {
        return Err(TranslationError::Setting {
            setting: "number of resamples",
            expected: "in 1..=1000000",
            actual: resamples as f64,
        });
    }
    let n = baseline.segments().len();
    let draw = |resample| (0..n).map(move |place| below(n, address(seed, resample, place as u64)));
    compare(baseline, system, (0..resamples as u64).map(draw))
}

/// As [`paired_bootstrap`], with segments drawn elsewhere: each resample is a list of indices.
///
/// # Errors
/// As [`paired_bootstrap`], and [`TranslationError::Segment`] for an index that is no segment's.
pub fn paired_bootstrap_of<M: TranslationMetric>(
    baseline: &Corpus<M>,
    system: &Corpus<M>,
    resamples: &[Vec<usize>],
) -> Result<PairedBootstrap, TranslationError> {
    if resamples.is_empty() {
        return Err(TranslationError::Setting {
            setting: "number of resamples",
            expected: "at least 1",
            actual: 0.0,
        });
    }
    let segments = baseline.segments().len();
    if let Some(&segment) = resamples.iter().flatten().find(|&&segment| segment >= segments) {
        return Err(TranslationError::Segment { segment, segments });
    }
    compare(baseline, system, resamples.iter().map(|drawn| drawn.iter().copied()))
}

const MAX_RESAMPLES: usize = 1_000_000;

impl<M: TranslationMetric> Corpus<M> {
    /// The [`signature`](Corpus::signature) of a score that was resampled: `nrefs:1|bs:1000|seed:12345|case:…`.
    pub fn bootstrap_signature(&self, resamples: usize, seed: u64) -> String {
        self.signature_with(&format!("bs:{resamples}|seed:{seed}|"))
    }
}

fn compare<M: TranslationMetric, D: Iterator<Item = usize>>(
    baseline: &Corpus<M>,
    system: &Corpus<M>,
    draws: impl Iterator<Item = D>,
) -> Result<PairedBootstrap, TranslationError> {
    baseline.check_settings(system)?;
    let (a, b) = (baseline.segments(), system.segments());
    if a.len() != b.len() || a.is_empty() {
        return Err(TranslationError::SegmentsDiffer { baseline: a.len(), system: b.len() });
    }
    let (mut baseline_scores, mut system_scores) = (Vec::new(), Vec::new());
    let mut times = vec![0_u64; a.len()];
    for draw in draws {
        times.fill(0);
        draw.for_each(|segment| times[segment] += 1);
        let (mut baseline_sum, mut system_sum) = (M::Counts::default(), M::Counts::default());
        // In the order of the segments, since memory is fastest read so.
        for (segment, &times) in times.iter().enumerate().filter(|(_, times)| **times > 0) {
            baseline_sum.add(&a[segment], times);
            system_sum.add(&b[segment], times);
        }
        baseline_scores.push(baseline.metric().score(&baseline_sum).points());
        system_scores.push(system.metric().score(&system_sum).points());
    }
    let (baseline_score, system_score) = (baseline.finish().points(), system.finish().points());
    let pairs = baseline_scores.iter().zip(&system_scores);
    let differences: Vec<f64> = pairs.map(|(a, b)| (a - b).abs()).collect();
    let (expected, found) = (mean(&differences), (baseline_score - system_score).abs());
    let larger = differences.iter().filter(|&&difference| difference - expected > found).count();
    let resamples = differences.len();
    Ok(PairedBootstrap {
        baseline: resampled(baseline_score, baseline_scores),
        system: resampled(system_score, system_scores),
        p_value: (larger + 1) as f64 / (resamples + 1) as f64,
        resamples,
    })
}

fn resampled(score: f64, mut scores: Vec<f64>) -> Resampled {
    scores.sort_by(f64::total_cmp);
    let lower = scores.len() / 40;
    let upper = scores.len() - lower - 1;
    Resampled { score, mean: mean(&scores), half_width: 0.5 * (scores[upper] - scores[lower]) }
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// The number at an address: the finaliser of SplitMix64 (Steele, Lea, Flood 2014, <https://doi.org/10.1145/2660193.2660195>) after each of the three parts.
fn address(seed: u64, resample: u64, place: u64) -> u64 {
    const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
    [seed, resample, place].iter().fold(0, |state: u64, &part| {
        let z = (state ^ part).wrapping_add(GAMMA);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    })
}

/// A number below `n` from one of 64 bits; each has the probability 1/n up to n/2⁶⁴.
fn below(n: usize, number: u64) -> usize {
    ((u128::from(number) * n as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translation::{Bleu, Ter};

    #[test]
    fn every_segment_is_as_likely() {
        let n = 7;
        let draws = 70_000_u64;
        for seed in [0, 1, 12345, u64::MAX] {
            let mut counts = vec![0_u64; n];
            let mut same_as_next = 0;
            for resample in 0..100 {
                for place in 0..draws / 100 {
                    let drawn = below(n, address(seed, resample, place));
                    counts[drawn] += 1;
                    let next = below(n, address(seed, resample, place + 1));
                    same_as_next += u64::from(drawn == next);
                }
            }
            // Five standard deviations of a binomial count with p = 1/7.
            let expected = draws as f64 / n as f64;
            let bound = 5.0 * (expected * 6.0 / 7.0).sqrt();
            let is_near = |count: u64| (count as f64 - expected).abs() < bound;
            assert!(counts.iter().all(|&count| is_near(count)), "{seed}: {counts:?}");
            assert!(is_near(same_as_next), "{seed}: {same_as_next}");
        }
    }

    #[test]
    fn a_system_does_not_differ_from_itself() {
        let mut corpus = Corpus::new(Ter::default());
        for (hypothesis, reference) in [("a b c", "a c b d"), ("x y", "x y"), ("u", "v w")] {
            corpus.update(hypothesis, &[reference]).unwrap();
        }
        let result = paired_bootstrap(&corpus, &corpus, 100, 1).unwrap();
        assert_eq!((result.p_value, result.baseline), (1.0 / 101.0, result.system));
        let other = paired_bootstrap(&corpus, &corpus, 100, 2).unwrap();
        assert_ne!(result.baseline.mean, other.baseline.mean);
    }

    #[test]
    fn what_cannot_be_compared() {
        let mut one = Corpus::new(Bleu::default());
        let lowercase = Corpus::new(Bleu { lowercase: true, ..Bleu::default() });
        let empty = one.clone();
        one.update("a", &["a"]).unwrap();
        for (result, message) in [
            (
                paired_bootstrap(&one, &lowercase, 10, 0),
                "counts by case:lc|eff:no|tok:13a|smooth:exp cannot be put beside counts by \
                 case:mixed|eff:no|tok:13a|smooth:exp",
            ),
            (
                paired_bootstrap(&one, &empty, 10, 0),
                "the baseline has 1 segments and the system 0; expected the same number, at least 1",
            ),
            (
                paired_bootstrap(&empty, &empty, 10, 0),
                "the baseline has 0 segments and the system 0; expected the same number, at least 1",
            ),
            (
                paired_bootstrap(&one, &one, 0, 0),
                "number of resamples must be in 1..=1000000, got 0",
            ),
            (
                paired_bootstrap_of(&one, &one, &[vec![0], vec![0, 1]]),
                "a resample names segment 2, but there are 1",
            ),
            (paired_bootstrap_of(&one, &one, &[]), "number of resamples must be at least 1, got 0"),
        ] {
            assert_eq!(result.unwrap_err().to_string(), message);
        }
    }
}
