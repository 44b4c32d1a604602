//! The net holds: each deliberate fault of the engine is caught by one of the fixed problems of `engine/exact.rs`, and
//! without a fault the same problems pass.
//!
//! Needs the feature `faults`: `cargo xtask exact --faults`.
#![allow(clippy::print_stdout, reason = "which problem caught which fault is the result")]

#[path = "engine/support/mod.rs"]
mod support;

use regard_engine::fault::{self, Fault};
use support::net::check_seed;

/// As many as `engine/exact.rs` has.
const FIXED: u64 = 500;

/// The first problem that catches a fault, and what it says.
fn caught(fault: Fault) -> Option<(u64, String)> {
    fault::inject(Some(fault));
    let first = (0..FIXED).find_map(|seed| check_seed(seed).err().map(|message| (seed, message)));
    fault::inject(None);
    first
}

// One test, as a fault holds for the whole process.
#[test]
fn every_fault_is_caught() {
    assert!(fault::ALL.len() >= 10, "{} faults", fault::ALL.len());
    let mut missed = Vec::new();
    let mut seeds = Vec::new();
    for &fault in fault::ALL {
        let name = format!("{fault:?}");
        match caught(fault) {
            None => missed.push(name),
            Some((seed, message)) => {
                // The line behind the one that describes the problem.
                let what = message.lines().nth(1).unwrap_or_default();
                println!("{name:<20} caught by problem {seed:>3}: {what}");
                seeds.push(seed);
            }
        }
    }
    assert_eq!(missed, [""; 0], "of {FIXED} problems none noticed these faults");
    for seed in seeds {
        if let Err(message) = check_seed(seed) {
            panic!("without a fault: {message}");
        }
    }
}
