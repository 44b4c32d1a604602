//! What must hold for the files that a clone contains: no path of somebody's machine, no dead
//! link between documents.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{links, workspace};

/// Folders that exist on one machine only. In pieces, since this file is searched as well.
const MACHINE_FOLDERS: [&str; 4] =
    [concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/"), concat!("/", "Users/")];

/// # Errors
/// Every line with a machine path and every dead link.
pub(crate) fn run() -> Result<()> {
    let files = files()?;
    let mut problems = Vec::new();
    for file in &files {
        let bytes = fs::read(workspace::root().join(file))
            .with_context(|| format!("cannot read {file}"))?;
        // What is not text holds no sentence: pictures, archives.
        let Ok(text) = String::from_utf8(bytes) else { continue };
        for (number, line) in text.lines().enumerate() {
            if let Some(path) = machine_path(line) {
                problems.push(format!("{file}:{}: path of one machine: {path}", number + 1));
            }
        }
        if Path::new(file).extension().is_some_and(|extension| extension == "md") {
            for (number, target) in links::dead(file, &text, &files) {
                problems.push(format!("{file}:{number}: dead link: {target}"));
            }
        }
    }
    if !problems.is_empty() {
        bail!("{} problems in texts:\n  {}", problems.len(), problems.join("\n  "));
    }
    println!("{} files: no machine paths, no dead links", files.len());
    Ok(())
}

/// What a clone will contain: files that git tracks, and new ones that it does not ignore.
fn files() -> Result<BTreeSet<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(workspace::root());
    let root = workspace::root();
    let names = workspace::output(&mut git)?;
    let names = names.split('\0').filter(|name| !name.is_empty());
    // A file that was deleted but not yet committed is still listed.
    Ok(names.filter(|name| root.join(name).is_file()).map(String::from).collect())
}

/// The first path into a machine folder, up to the next space or quote.
///
/// Only where a path begins: `../work/` and `https://host/work/` name no machine.
fn machine_path(line: &str) -> Option<&str> {
    let starts = MACHINE_FOLDERS.iter().flat_map(|folder| line.match_indices(folder));
    let start = starts.map(|(at, _)| at).filter(|&at| begins_a_path(&line[..at])).min()?;
    let end = line[start..].find([' ', '\t', '"', '\'', '`', ')', '<', '>', ',']);
    Some(&line[start..end.map_or(line.len(), |length| start + length)])
}

fn begins_a_path(before: &str) -> bool {
    !before.ends_with(|c: char| c.is_alphanumeric() || ".-_~}".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_paths_of_a_machine() {
        let [first, second, third, fourth] = MACHINE_FOLDERS;
        for (line, found) in [
            (format!("cd {first}main && ls"), Some(format!("{first}main"))),
            (format!("\"{second}.cargo\""), Some(format!("{second}.cargo"))),
            (format!("out={third}me/x.json,y"), Some(format!("{third}me/x.json"))),
            (format!("file://{fourth}me"), Some(format!("{fourth}me"))),
            (format!("(`{second}`)"), Some(second.to_owned())),
            (format!("..{first}main"), None),
            (format!("https://example.org{first}1"), None),
            (format!("the net{first}shape"), None),
            (format!("${{TOP}}{third}x"), None),
            ("nothing here: work/, root/".to_owned(), None),
        ] {
            assert_eq!(machine_path(&line), found.as_deref(), "{line}");
        }
    }

    #[test]
    fn the_second_place_counts_where_the_first_is_no_path() {
        let [first, second, ..] = MACHINE_FOLDERS;
        let line = format!("..{first}a {second}b");
        assert_eq!(machine_path(&line), Some(format!("{second}b").as_str()));
    }
}
