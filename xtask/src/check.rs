//! All that must hold before a commit, cheapest first.

use std::time::Instant;

use anyhow::{Result, anyhow, bail};

use crate::workspace::{cargo, output, run as call};
use crate::{cli_reference, layers, texts};

/// One thing that must hold.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    run: fn() -> Result<()>,
    remedy: &'static str,
}

/// Whether `docs/cli.md` must be up to date. It is compared with the release binary.
const CLI_REFERENCE_IS_CHECKED: bool = true;

/// In the order of their cost.
const STEPS: &[Step] = &[
    Step { name: "fmt", run: fmt, remedy: "run `cargo fmt --all`" },
    Step { name: "texts", run: texts::run, remedy: "edit the lines named above" },
    Step {
        name: "layers",
        run: layers::run,
        remedy: "take the dependency out, or, if the design has changed, change the table in \
                 xtask/src/layers.rs and in CONTRIBUTING.md",
    },
    Step {
        name: "deny",
        run: deny,
        remedy: "choose another dependency, or give the reason for this one in deny.toml and docs/decisions/",
    },
    Step {
        name: "clippy",
        run: clippy,
        remedy: "mend what clippy names; `#[allow(…, reason = \"…\")]` only where it is wrong",
    },
    Step {
        name: "docs",
        run: docs,
        remedy: "mend the doc comments named above; `cargo doc --workspace --no-deps --open` shows them",
    },
    Step {
        name: "cli-reference",
        run: cli_reference::check,
        remedy: "run `cargo xtask cli-reference`",
    },
    Step {
        name: "tests",
        run: tests,
        remedy: "`cargo test --release -p CRATE NAME` runs the failing test alone",
    },
    Step {
        name: "faults",
        run: faults,
        remedy: "a deliberate fault went unseen: the tests of regard-engine have a hole",
    },
];

/// The steps that run where nothing else is asked for.
pub(crate) fn steps() -> impl Iterator<Item = &'static Step> {
    STEPS.iter().filter(|step| step.name != "cli-reference" || CLI_REFERENCE_IS_CHECKED)
}

/// Runs the steps, all or `only` some, without those to `skip`. Prints the name and the time of each.
///
/// # Errors
/// At the first step that fails; with its remedy.
pub(crate) fn run(only: &[String], skip: &[String]) -> Result<()> {
    let mut times = Vec::new();
    for step in steps() {
        let is_wanted = only.is_empty() || only.iter().any(|name| name == step.name);
        let is_skipped = skip.iter().any(|name| name == step.name);
        if !is_wanted || is_skipped {
            continue;
        }
        println!("== {}", step.name);
        let start = Instant::now();
        let outcome = (step.run)();
        let seconds = start.elapsed().as_secs_f64();
        if let Err(error) = outcome {
            return Err(anyhow!(
                "{error:#}\n\ncheck failed at {} after {seconds:.1} s\nremedy: {}",
                step.name,
                step.remedy
            ));
        }
        println!("== {}: ok, {seconds:.1} s\n", step.name);
        times.push(format!("{} {seconds:.1} s", step.name));
    }
    if times.is_empty() {
        bail!("no step is left to run");
    }
    println!("check passed: {}", times.join(", "));
    Ok(())
}

fn fmt() -> Result<()> {
    call(&mut cargo(["fmt", "--all", "--", "--check"]))
}

fn clippy() -> Result<()> {
    // With the profile of the tests, so that both share the build scripts and the macros.
    call(&mut cargo([
        "clippy",
        "--workspace",
        "--all-targets",
        "--release",
        "--",
        "-D",
        "warnings",
    ]))
}

fn docs() -> Result<()> {
    call(cargo(["doc", "--workspace", "--no-deps", "--release"]).env("RUSTDOCFLAGS", "-D warnings"))
}

fn tests() -> Result<()> {
    call(&mut cargo(["test", "--workspace", "--release"]))
}

/// The engine's tests must find deliberate faults.
fn faults() -> Result<()> {
    crate::exact::run(crate::exact::Exact::Faults)
}

/// Licences, bans and sources. Advisories need the network and change under a commit's feet:
/// they are for a person to ask, with `cargo deny check`.
fn deny() -> Result<()> {
    if output(&mut cargo(["deny", "--version"])).is_err() {
        println!("skipped: cargo-deny is not installed");
        return Ok(());
    }
    call(&mut cargo(["deny", "check", "bans", "licenses", "sources"]))
}
