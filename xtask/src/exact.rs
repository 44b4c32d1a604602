//! The engine's long comparison with the plain reference.

use anyhow::Result;

use crate::workspace::{cargo, run as call};

/// Problems of a long run where nothing else is asked for.
pub(crate) const CASES: u64 = 10_000;

/// What to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exact {
    /// The problems of seeds 0 to so many.
    Cases(u64),
    /// The problem of one seed.
    Seed(u64),
    /// The fixed problems, with each deliberate fault in turn.
    Faults,
}

/// # Errors
/// A problem that is off by more than its bound, a part that is hardly drawn, a fault that is not caught.
pub(crate) fn run(what: Exact) -> Result<()> {
    let test = ["test", "--release", "--package", "regard-engine"];
    let mut command = cargo(test);
    match what {
        Exact::Cases(cases) => {
            command.env("REGARD_EXACT", cases.to_string());
            command.args(["--test", "engine", "--", "--exact", "exact::long_run", "--nocapture"]);
        }
        Exact::Seed(seed) => {
            command.env("REGARD_EXACT_SEED", seed.to_string());
            command.args(["--test", "engine", "--", "--exact", "exact::one_seed", "--nocapture"]);
        }
        Exact::Faults => {
            command.args(["--features", "faults", "--test", "faults", "--", "--nocapture"]);
        }
    }
    call(&mut command)
}
