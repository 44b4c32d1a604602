//! What can be wrong with translations and the settings of their metrics.

use super::MAX_REFERENCES;

/// A segment or a setting that cannot be served.
///
/// `segment` counts from 0 in the fields and from 1 in the messages; it is the number of segments that the accumulator had taken before.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TranslationError {
    /// A segment has no reference, or more than can be counted.
    #[error("segment {}: {references} references, expected 1 to {MAX_REFERENCES}", .segment + 1)]
    References {
        /// The segment's index.
        segment: u64,
        /// How many references it has.
        references: usize,
    },
    /// A setting is outside its range.
    #[error("{setting} must be {expected}, got {actual}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        actual: f64,
    },
    /// Counts by different settings cannot be added or compared.
    #[error("counts by {other} cannot be put beside counts by {settings}")]
    SettingsDiffer {
        /// Settings of the one.
        settings: String,
        /// Settings of the other.
        other: String,
    },
    /// Two systems that are to be compared did not translate the same segments.
    #[error(
        "the baseline has {baseline} segments and the system {system}; expected the same number, at least 1"
    )]
    SegmentsDiffer {
        /// Segments of the baseline.
        baseline: usize,
        /// Segments of the system.
        system: usize,
    },
    /// A resample names a segment that is not there.
    #[error("a resample names segment {}, but there are {segments}", .segment + 1)]
    Segment {
        /// The index.
        segment: usize,
        /// How many segments there are.
        segments: usize,
    },
}
