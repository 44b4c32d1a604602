//! Relative links between the documents of the repository.

use std::collections::BTreeSet;

/// The links of a Markdown file to files that are not in the repository: line number, target.
///
/// Links with a scheme (`https:`) and within a page (`#part`) are not followed; text in code
/// is no link. `file` and `files` are paths from the root of the repository, with `/`.
pub(crate) fn dead(file: &str, text: &str, files: &BTreeSet<String>) -> Vec<(usize, String)> {
    let mut dead = Vec::new();
    let mut fence: Option<&str> = None;
    for (number, line) in text.lines().enumerate() {
        if let Some(marks) = fence_marks(line) {
            match fence {
                None => fence = Some(marks),
                // A fence ends with at least as many of the marks that began it, and nothing else.
                Some(open) if marks.starts_with(open) && line.trim() == marks => fence = None,
                Some(_) => {}
            }
            continue;
        }
        if fence.is_some() {
            continue;
        }
        for target in targets(&without_code(line)) {
            if is_local(&target)
                && !resolve(file, &target).is_some_and(|path| is_there(&path, files))
            {
                dead.push((number + 1, target));
            }
        }
    }
    dead
}

/// The run of three or more backticks or tildes that a line begins with.
fn fence_marks(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|mark| "`~".contains(*mark))?;
    let end = line.find(|c| c != mark).unwrap_or(line.len());
    // Backticks that end on the line that they begin on are a code span.
    let is_span = mark == '`' && line[end..].contains('`');
    (end >= 3 && !is_span).then(|| &line[..end])
}

/// The line with each `code span` taken out.
fn without_code(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let inside = rest[start..].trim_start_matches('`');
        let marks = &rest[start..rest.len() - inside.len()];
        let Some(length) = inside.find(marks) else { break };
        kept.push_str(&rest[..start]);
        rest = &inside[length + marks.len()..];
    }
    kept + rest
}

/// What the links of a line point to: `[text](target)`, `[name]: target`, and `href` and `src` of
/// HTML.
fn targets(line: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for (at, opening) in line.match_indices("](") {
        let inside = &line[at + opening.len()..];
        let mut depth = 1;
        let end = inside.find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        targets.extend(end.map(|end| &inside[..end]));
    }
    for opening in ["href=\"", "src=\""] {
        for (at, _) in line.match_indices(opening) {
            let inside = &line[at + opening.len()..];
            targets.extend(inside.find('"').map(|end| &inside[..end]));
        }
    }
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        targets.push(target);
    }
    // After the target there may be a title: [text](target "title").
    let first_words = targets.iter().filter_map(|target| target.split_whitespace().next());
    first_words.map(|target| target.trim_matches(['<', '>']).to_owned()).collect()
}

/// Whether a target names a file of the repository.
fn is_local(target: &str) -> bool {
    let scheme = target.split_once(':').map_or("", |(scheme, _)| scheme);
    let has_scheme = !scheme.is_empty()
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c));
    !has_scheme && !target.starts_with('#')
}

/// The target's path from the root; `None` if it leads out of the repository or is absolute.
fn resolve(file: &str, target: &str) -> Option<String> {
    let target = target.split(['#', '?']).next()?;
    if target.starts_with('/') {
        return None;
    }
    let mut path: Vec<&str> = file.split('/').collect();
    path.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                path.pop()?;
            }
            _ => path.push(part),
        }
    }
    Some(path.join("/"))
}

/// Whether the path is a file, or a folder with a file in it, or the root.
fn is_there(path: &str, files: &BTreeSet<String>) -> bool {
    let folder = format!("{path}/");
    path.is_empty()
        || files.contains(path)
        || files.range(folder.clone()..).next().is_some_and(|file| file.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dead links of `docs/guide.md` with this text.
    fn dead_in(text: &str) -> Vec<(usize, String)> {
        let files = ["README.md", "docs/guide.md", "docs/decisions/0001-a.md", "docs/x(1).svg"];
        dead("docs/guide.md", text, &files.map(String::from).into())
    }

    #[test]
    fn links_that_resolve() {
        for text in [
            "[a](decisions/0001-a.md) and [b](../README.md#part)",
            "[folder](decisions/) [folder](decisions) [root](..) [self](#part) [self](guide.md?x#y)",
            "![picture](./x(1).svg \"a title\")",
            "[web](https://example.org/a.md) <mailto:a@example.org> [m](mailto:a@example.org)",
            "[a]: decisions/0001-a.md \"title\"",
            "<a href=\"../README.md\"><img src=\"x(1).svg\"></a>",
            "[angle](<../README.md>)",
            "[text in brackets] (no link) x[0](",
            "",
        ] {
            assert_eq!(dead_in(text), [], "{text}");
        }
    }

    #[test]
    fn links_that_do_not() {
        for (text, target) in [
            ("[a](missing.md)", "missing.md"),
            ("see [a](README.md)", "README.md"),
            ("[out](../../elsewhere.md)", "../../elsewhere.md"),
            ("[absolute](/README.md)", "/README.md"),
            ("[part of a name](decisions/0001)", "decisions/0001"),
            ("[a]: gone.md", "gone.md"),
            ("<img width=\"3\" src=\"gone.png\">", "gone.png"),
            ("`code` [a](gone.md) `[b](too.md)`", "gone.md"),
            ("```code``` [a](gone.md)", "gone.md"),
        ] {
            assert_eq!(dead_in(text), [(1, target.to_owned())], "{text}");
        }
    }

    #[test]
    fn code_holds_no_links() {
        let text = "```text\n[a](gone.md)\n~~~\n```\n`[b](gone.md)` ``[c](`gone.md)``\n~~~~\n```\n~~~\n[d](gone.md)\n~~~~\n[e](gone.md)\n";
        assert_eq!(dead_in(text), [(11, "gone.md".to_owned())]);
    }
}
