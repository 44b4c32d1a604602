//! Ctrl-C: a training saves and stops, and a half-written output is removed.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Exit code of a command that was interrupted: 128 + SIGINT, as shells count.
pub(crate) const INTERRUPTED: u8 = 130;

/// Set by the first Ctrl-C (or SIGTERM, SIGHUP) of a training.
pub(crate) static STOP: AtomicBool = AtomicBool::new(false);

/// Signals that come within this of the first are one request: `timeout` sends one to the process and one to its group.
const ONE_REQUEST: Duration = Duration::from_millis(500);

/// Makes the first signal set [`STOP`], and a second one, unless it comes at once, end the process.
pub(crate) fn stop_on_signal() {
    let mut first: Option<Instant> = None;
    handle(move || {
        STOP.store(true, Ordering::Relaxed);
        if first.get_or_insert_with(Instant::now).elapsed() > ONE_REQUEST {
            end();
        }
    });
}

/// Makes a signal remove a temporary file before it ends the process.
pub(crate) fn remove_on_signal(file: PathBuf) {
    handle(move || {
        let _ = fs::remove_file(&file);
        end();
    });
}

#[expect(clippy::exit, reason = "the user asked for an end in the middle of work")]
fn end() {
    std::process::exit(i32::from(INTERRUPTED));
}

fn handle(action: impl FnMut() + Send + 'static) {
    // Installing the handler would undo `nohup`, and a closed terminal would stop the run.
    if !hangup_is_ignored() {
        // Without a handler a signal ends the process as usual; the last checkpoint stays.
        let _ = ctrlc::set_handler(action);
    }
}

/// Whether the process was started to outlive its terminal, as far as Linux tells.
fn hangup_is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // Bit 0 is signal 1, SIGHUP.
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|m| m & 1 == 1)
}
