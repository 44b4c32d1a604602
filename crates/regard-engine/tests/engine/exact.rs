//! The net: random problems, every part with every other, against the plain f64 reference within a bound that
//! was fixed before (see `support/bound.rs`).
//!
//! `cargo test` runs the problems of seeds 0 to 499. `REGARD_EXACT=10000` makes a long run of seeds 0 to 9999, which
//! prints a table; `REGARD_EXACT_SEED=n` runs the problem of one seed alone. `cargo xtask exact` sets them.
#![allow(clippy::print_stdout, reason = "the table of a long run is its result")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::draw::draw;
use crate::support::net::{Findings, check_seed};

/// Problems of the ordinary run.
const FIXED: usize = 500;

/// The number in an environment variable.
fn number(name: &str) -> Option<usize> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
}

/// Every `stride`th problem of the fixed ones.
#[track_caller]
fn fixed(first: usize, stride: usize) {
    let mut findings = Findings::default();
    for seed in (first..FIXED).step_by(stride) {
        match check_seed(seed as u64) {
            Ok(found) => findings.add(&found),
            Err(message) => panic!("{message}"),
        }
    }
    assert_eq!(findings.complaints(0), [""; 0]);
}

#[test]
fn fixed_problems_first_quarter() {
    fixed(0, 4);
}

#[test]
fn fixed_problems_second_quarter() {
    fixed(1, 4);
}

#[test]
fn fixed_problems_third_quarter() {
    fixed(2, 4);
}

#[test]
fn fixed_problems_last_quarter() {
    fixed(3, 4);
}

/// A part that is in the catalogue but not in `support/draw.rs` fails here.
#[test]
fn every_part_is_drawn_and_half_of_the_sizes_cross_tiles() {
    let mut findings = Findings::default();
    (0..FIXED).for_each(|seed| findings.draw(&draw(seed as u64)));
    assert_eq!(findings.complaints(FIXED / 25), [""; 0]);
}

/// Problems of seeds behind the fixed ones, at the level of instructions that `REGARD_SIMD` names.
#[test]
fn a_sample() {
    for seed in FIXED..FIXED + 30 {
        if let Err(message) = check_seed(seed as u64) {
            panic!("{message}");
        }
    }
}

/// [`a_sample`] at every level of instructions. A process has one level, so each gets a process of its own.
#[test]
fn every_simd_level_agrees() {
    let this = std::env::current_exe().unwrap();
    for level in ["plain", "avx2", "avx512"] {
        let mut child = std::process::Command::new(&this);
        let out =
            child.args(["--exact", "exact::a_sample"]).env("REGARD_SIMD", level).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success() && text.contains("1 passed"), "{level}: {text}");
    }
}

/// The problem of one seed, where one is asked for.
#[test]
fn one_seed() {
    if let Some(seed) = number("REGARD_EXACT_SEED") {
        println!("{}", draw(seed as u64));
        match check_seed(seed as u64) {
            Ok(findings) => println!("{}", findings.table()),
            Err(message) => panic!("{message}"),
        }
    }
}

/// As many problems as are asked for.
#[test]
fn long_run() {
    let Some(cases) = number("REGARD_EXACT") else { return };
    let (next, all) = (AtomicUsize::new(0), Mutex::new((Findings::default(), Vec::new())));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = Findings::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= cases {
                        break;
                    }
                    match check_seed(seed as u64) {
                        Ok(found) => own.add(&found),
                        Err(message) => all.lock().unwrap().1.push(message),
                    }
                }
                all.lock().unwrap().0.add(&own);
            });
        }
    });
    let (findings, failures) = all.into_inner().unwrap();
    println!("{}", findings.table());
    for message in failures.iter().take(20) {
        println!("{message}\n");
    }
    assert!(failures.is_empty(), "{} of {cases} problems failed", failures.len());
    assert_eq!(findings.complaints(cases / 20), [""; 0]);
}
