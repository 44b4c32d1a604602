//! Where the workspace is, and how to run programs in it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The folder of the root `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    // `cargo run` names the manifest of the checkout that it runs in; the path at compile time
    // may be that of another checkout with the same target folder.
    let manifest_dir = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest_dir.parent().map(Path::to_path_buf).unwrap_or(manifest_dir)
}

/// A call of the cargo that runs this program, in the root.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    command
}

/// Runs a program that prints for the user itself.
///
/// # Errors
/// If it cannot be started or fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", line(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", line(command));
    }
    Ok(())
}

/// Runs a program and returns what it prints to standard output.
///
/// # Errors
/// If it cannot be started or fails, or prints something else than UTF-8.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {}", line(command)))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("{} ended with {}\n{}", line(command), output.status, message.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} printed bad UTF-8", line(command)))
}

/// `cargo metadata` of the workspace's own crates.
pub(crate) fn metadata() -> Result<Value> {
    let text = output(&mut cargo(["metadata", "--format-version", "1", "--no-deps"]))?;
    serde_json::from_str(&text).context("cargo metadata printed no JSON")
}

/// The command as it would be typed.
pub(crate) fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut line = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}
