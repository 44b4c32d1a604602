//! What the metrics of translations share: counting, adding up, the signature.

use std::fmt;

use serde::Serialize;

use super::{MAX_REFERENCES, TranslationError};
use crate::metric::Metric;

/// A metric of translations: its settings, how it counts one segment, and how counts become a score.
pub trait TranslationMetric: Clone + PartialEq {
    /// Name, unit and direction of the score.
    const METRIC: Metric;

    /// Whole numbers that say all about a segment. The sum over segments says all about a corpus.
    type Counts: SegmentCounts;

    /// What the counts come to.
    type Score: TranslationScore;

    /// Counts one hypothesis against its references, of which there is at least one.
    fn count(&self, hypothesis: &str, references: &[&str]) -> Self::Counts;

    /// The score of summed counts.
    fn score(&self, counts: &Self::Counts) -> Self::Score;

    /// The settings as the signature names them, such as `case:mixed|eff:no|tok:13a|smooth:exp`.
    fn settings(&self) -> String;
}

/// Counts that add up.
pub trait SegmentCounts: Clone + Default {
    /// Adds other counts, `times` times.
    fn add(&mut self, other: &Self, times: u64);
}

/// A score with its parts. It displays as the line that sacreBLEU prints, with two decimals or with the precision that the format asks for.
pub trait TranslationScore: fmt::Display + Serialize {
    /// The score in per cent.
    fn points(&self) -> f64;
}

/// An accumulator of one system's translations, segment by segment.
///
/// Segments keep their own counts, so that they can be scored one by one and drawn again by
/// [`paired_bootstrap`](super::paired_bootstrap); memory grows by some 100 bytes a segment.
///
/// ```
/// use regard_metrics::translation::{Bleu, Corpus};
///
/// let mut corpus = Corpus::new(Bleu::default());
/// corpus.update("The dog bit the man.", &["The dog bit the man.", "The dog had bit the man."])?;
/// corpus.update("It wasn't surprising.", &["It was not unexpected.", "No one was surprised."])?;
/// corpus.update("The man had just bitten him.", &["The man bit him first.", "The man had bitten the dog."])?;
/// assert_eq!(
///     corpus.finish().to_string(),
///     "BLEU = 48.53 82.4/50.0/45.5/37.5 (BP = 0.943 ratio = 0.944 hyp_len = 17 ref_len = 18)"
/// );
/// assert!(corpus.signature().starts_with("nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:regard-"));
/// # Ok::<(), regard_metrics::translation::TranslationError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Corpus<M: TranslationMetric> {
    metric: M,
    segments: Vec<M::Counts>,
    /// Fewest and most references of a segment.
    references: Option<(usize, usize)>,
}

impl<M: TranslationMetric> Corpus<M> {
    /// An accumulator that has seen nothing.
    pub fn new(metric: M) -> Self {
        Corpus { metric, segments: Vec::new(), references: None }
    }

    /// Adds one segment. An empty text is a text without words.
    ///
    /// # Errors
    /// [`TranslationError::References`] without a reference, or with more than [`MAX_REFERENCES`]. The counts then stay as they were.
    pub fn update(
        &mut self,
        hypothesis: &str,
        references: &[&str],
    ) -> Result<(), TranslationError> {
        let n = references.len();
        if !(1..=MAX_REFERENCES).contains(&n) {
            let segment = self.segments.len() as u64;
            return Err(TranslationError::References { segment, references: n });
        }
        self.segments.push(self.metric.count(hypothesis, references));
        self.references = wider(self.references, Some((n, n)));
        Ok(())
    }

    /// Adds another accumulator's segments behind its own.
    ///
    /// # Errors
    /// [`TranslationError::SettingsDiffer`] where the metrics do.
    pub fn merge(&mut self, other: &Self) -> Result<(), TranslationError> {
        self.check_settings(other)?;
        self.segments.extend_from_slice(&other.segments);
        self.references = wider(self.references, other.references);
        Ok(())
    }

    /// The score of everything added so far; over nothing, that of counts which are all 0.
    pub fn finish(&self) -> M::Score {
        let mut sum = M::Counts::default();
        for counts in &self.segments {
            sum.add(counts, 1);
        }
        self.metric.score(&sum)
    }

    /// The score of each segment alone, in the order in which they were added.
    pub fn segment_scores(&self) -> impl Iterator<Item = M::Score> {
        self.segments.iter().map(|counts| self.metric.score(counts))
    }

    /// The metric with its settings.
    pub fn metric(&self) -> &M {
        &self.metric
    }

    /// How the score was made, in sacreBLEU's form: `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:regard-0.1.0`.
    ///
    /// The version is that of this crate, since it was not sacreBLEU that counted. `nrefs` is `var` where segments have
    /// different numbers of references.
    pub fn signature(&self) -> String {
        self.signature_with("")
    }

    /// The signature with `tests`, such as `bs:1000|seed:1|`, where sacreBLEU names the significance test.
    pub(crate) fn signature_with(&self, tests: &str) -> String {
        let references = match self.references {
            Some((fewest, most)) if fewest == most => most.to_string(),
            Some(_) => "var".to_owned(),
            None => "0".to_owned(),
        };
        let settings = self.metric.settings();
        let version = env!("CARGO_PKG_VERSION");
        format!("nrefs:{references}|{tests}{settings}|version:regard-{version}")
    }

    pub(crate) fn segments(&self) -> &[M::Counts] {
        &self.segments
    }

    pub(crate) fn check_settings(&self, other: &Self) -> Result<(), TranslationError> {
        if self.metric == other.metric {
            return Ok(());
        }
        Err(TranslationError::SettingsDiffer {
            settings: self.metric.settings(),
            other: other.metric.settings(),
        })
    }
}

fn wider(a: Option<(usize, usize)>, b: Option<(usize, usize)>) -> Option<(usize, usize)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}
