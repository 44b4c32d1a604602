//! The way to the data sets, which are read in place and are not part of the
//! repository.

use std::env;
use std::path::{Path, PathBuf};

/// The folder of the data sets: the environment variable `REGARD_DATA`, else
/// `../shared/data` beside the workspace. `None` if that is no folder.
pub fn data_dir() -> Option<PathBuf> {
    Some(configured_dir()).filter(|dir| dir.is_dir())
}

/// The folder of one data set, such as `"ud-english-ewt"`.
///
/// A test that needs it begins with
///
/// ```no_run
/// let Some(dir) = regard_testkit::require_data("ud-english-ewt") else {
///     return;
/// };
/// ```
///
/// Where the data is missing, the answer is `None`, and a line on standard error says that
/// the test skips.
///
/// # Panics
/// If the data is missing and the environment says `CI=true`: there, a test that
/// silently skips would look like one that passes.
#[track_caller]
pub fn require_data(name: &str) -> Option<PathBuf> {
    let is_ci = env::var_os("CI").is_some_and(|value| value == "true");
    match locate(&configured_dir(), name) {
        Ok(dir) => Some(dir),
        Err(message) if is_ci => panic!("{message}"),
        Err(message) => {
            #[allow(
                clippy::print_stderr,
                reason = "a skipped test must say so, and the test runner shows no other channel"
            )]
            {
                eprintln!("skipped: {message}");
            }
            None
        }
    }
}

fn configured_dir() -> PathBuf {
    env::var_os("REGARD_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    )
}

fn locate(root: &Path, name: &str) -> Result<PathBuf, String> {
    let dir = root.join(name);
    if dir.is_dir() {
        return Ok(dir);
    }
    Err(format!(
        "data set {name} is not in {}; set REGARD_DATA to the folder that holds it",
        root.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_folder_and_names_a_missing_one() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(locate(root, "src"), Ok(root.join("src")));
        let message = locate(root, "no-such-set").unwrap_err();
        assert!(message.starts_with("data set no-such-set is not in "));
        assert!(message.contains("REGARD_DATA"));
        // A file is not a data set.
        assert!(locate(root, "Cargo.toml").is_err());
    }
}
