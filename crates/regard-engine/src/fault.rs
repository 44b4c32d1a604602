//! Deliberate faults, to show that the tests would find such.
//!
//! Without the feature `faults`, which only the tests switch on, every check is a constant `false`
//! and nothing of this is left in the program.

/// A mistake of the kind that attention code is prone to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "faults"),
    allow(dead_code, unreachable_pub, reason = "named, but never injected")
)]
pub enum Fault {
    /// The softmax's gradient has the wrong sign.
    Sign,
    /// The last key that a tile of queries may see is left out.
    OffByOne,
    /// The context is not rescaled when a larger score comes.
    MissingRescale,
    /// The score's factor (1/√d_k) is left out.
    DroppedScale,
    /// Pairs that the scope forbids in a partial tile are let through.
    LeakedMask,
    /// Grouped queries use the key head of another group.
    WrongKeyHead,
    /// Backward sums values' gradients by weights from before dropout.
    DropoutNotReplayed,
    /// Queries are turned as if they began at position 0.
    OffsetIgnored,
    /// The gradient of position's bias is left out.
    LostBias,
    /// The factor of position is left out of the weights' gradient.
    LostFactor,
    /// Columns that only fill up the last lanes count as keys.
    UnfilledLanes,
    /// The sums of the last piece of a unit are left out.
    LostPiece,
    /// The temperature is left out of the gradient.
    LostTemperature,
    /// Of equal scores the last is chosen, and noise has the wrong stream.
    WrongChoice,
}

/// Every fault.
#[cfg(feature = "faults")]
pub const ALL: &[Fault] = &[
    Fault::Sign,
    Fault::OffByOne,
    Fault::MissingRescale,
    Fault::DroppedScale,
    Fault::LeakedMask,
    Fault::WrongKeyHead,
    Fault::DropoutNotReplayed,
    Fault::OffsetIgnored,
    Fault::LostBias,
    Fault::LostFactor,
    Fault::UnfilledLanes,
    Fault::LostPiece,
    Fault::LostTemperature,
    Fault::WrongChoice,
];

#[cfg(feature = "faults")]
static INJECTED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(usize::MAX);

/// Makes the whole process commit a fault from now on, or none.
#[cfg(feature = "faults")]
pub fn inject(fault: Option<Fault>) {
    let n = fault.map_or(usize::MAX, |fault| fault as usize);
    INJECTED.store(n, std::sync::atomic::Ordering::SeqCst);
}

/// Whether to commit `fault`.
#[cfg(feature = "faults")]
pub(crate) fn is(fault: Fault) -> bool {
    INJECTED.load(std::sync::atomic::Ordering::Relaxed) == fault as usize
}

/// Whether to commit `fault`: never.
#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(crate) const fn is(_: Fault) -> bool {
    false
}
