//! Runs the scripts behind the golden files again and compares.
//!
//! Each `scripts/golden/NAME.json` says in its header by which command `scripts/golden/NAME.py` wrote
//! it, beside itself. Here the scripts are copied to a folder of their own before they run, so that
//! the files of the repository stay as they are.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace;

/// Relative difference up to which two numbers count as rounded differently: sums in f64 of some
/// thousand terms, added up in another order on another machine.
const ROUNDING: f64 = 1e-12;
/// So many changes of a file are printed.
const SHOWN: usize = 10;

/// Compares the golden files of these names, or all.
///
/// # Errors
/// If a script fails, or a file says something else than the one in the repository by more than rounding.
pub(crate) fn run(python: &str, names: &[String]) -> Result<()> {
    let golden = workspace::root().join("scripts/golden");
    let copy = std::env::temp_dir().join(format!("regard-golden-{}", std::process::id()));
    fs::create_dir_all(&copy).with_context(|| format!("cannot create {}", copy.display()))?;
    let outcome = compare_all(python, names, &golden, &copy);
    fs::remove_dir_all(&copy).with_context(|| format!("cannot remove {}", copy.display()))?;
    outcome
}

fn compare_all(python: &str, names: &[String], golden: &Path, copy: &Path) -> Result<()> {
    let mut all = Vec::new();
    for entry in fs::read_dir(golden).context("cannot list scripts/golden")? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        if let Some(name) = file.strip_suffix(".json") {
            all.push(name.to_owned());
        } else if file.strip_suffix(".py").is_some() {
            fs::copy(golden.join(&file), copy.join(&file))
                .with_context(|| format!("cannot copy {file}"))?;
        }
    }
    all.sort();
    if let Some(unknown) = names.iter().find(|name| !all.contains(name)) {
        bail!("there is no golden file {unknown:?}, only {}", all.join(", "));
    }

    let mut changed = Vec::new();
    for name in all.iter().filter(|name| names.is_empty() || names.contains(name)) {
        match compare(python, name, golden, copy) {
            Ok(comparison) => {
                println!("{name}.json: {}", comparison.summary());
                if !comparison.changes.is_empty() {
                    changed.push(name.as_str());
                }
            }
            Err(error) => {
                println!("{name}.json: not compared: {error:#}");
                changed.push(name);
            }
        }
    }
    if !changed.is_empty() {
        bail!("the scripts do not give what is in the repository: {}", changed.join(", "));
    }
    Ok(())
}

fn compare(python: &str, name: &str, golden: &Path, copy: &Path) -> Result<Comparison> {
    let file = format!("{name}.json");
    let old = read(&golden.join(&file))?;
    let command = old["header"]["command"].as_str().unwrap_or_default();
    let start = format!("python scripts/golden/{name}.py");
    let Some(options) = command.strip_prefix(&start) else {
        bail!("the command in the header is {command:?} and must begin with {start:?}");
    };
    let mut script = Command::new(python);
    script.arg(copy.join(format!("{name}.py"))).args(options.split_whitespace());
    workspace::run(script.current_dir(workspace::root()))?;
    Ok(Comparison::of(&old, &read(&copy.join(&file))?))
}

fn read(path: &Path) -> Result<Value> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))
}

/// How a new golden file differs from the old one.
#[derive(Debug, Default)]
struct Comparison {
    /// Other versions in the header.
    notes: Vec<String>,
    /// More than rounding.
    changes: Vec<String>,
    /// The largest relative difference that counts as rounding.
    rounding: f64,
}

impl Comparison {
    fn of(old: &Value, new: &Value) -> Self {
        let mut headers = Self::default();
        headers.visit("header", &old["header"], &new["header"]);
        let mut rest = Self { notes: headers.changes, ..Self::default() };
        rest.visit("", &without_header(old), &without_header(new));
        rest
    }

    fn summary(&self) -> String {
        let mut lines = vec![match (self.changes.len(), self.rounding > 0.0) {
            (0, false) => "the same".to_owned(),
            (0, true) => format!("the same but for rounding, at most {:.1e}", self.rounding),
            (n, _) => format!("{n} changes"),
        }];
        lines.extend(self.notes.iter().map(|note| format!("  {note}")));
        lines.extend(self.changes.iter().take(SHOWN).map(|change| format!("  {change}")));
        if self.changes.len() > SHOWN {
            lines.push(format!("  and {} more", self.changes.len() - SHOWN));
        }
        lines.join("\n")
    }

    fn visit(&mut self, place: &str, old: &Value, new: &Value) {
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => {
                for (key, value) in old {
                    match new.get(key) {
                        Some(new) => self.visit(&join(place, key), value, new),
                        None => self.changes.push(format!("{} is gone", join(place, key))),
                    }
                }
                for key in new.keys().filter(|key| !old.contains_key(*key)) {
                    self.changes.push(format!("{} is new", join(place, key)));
                }
            }
            (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
                for (i, (old, new)) in old.iter().zip(new).enumerate() {
                    // A case is found by its name more easily than by its number.
                    let label = old["name"].as_str().map_or_else(|| i.to_string(), String::from);
                    self.visit(&format!("{place}[{label}]"), old, new);
                }
            }
            (Value::Array(old), Value::Array(new)) => {
                self.changes.push(format!("{place}: {} entries, now {}", old.len(), new.len()));
            }
            (Value::Number(a), Value::Number(b)) => {
                let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
                let difference = (a - b).abs() / a.abs().max(b.abs()).max(1.0);
                if difference <= ROUNDING {
                    self.rounding = self.rounding.max(difference);
                } else {
                    self.changes.push(format!("{place}: {a}, now {b}"));
                }
            }
            _ if old == new => {}
            _ => self.changes.push(format!("{place}: {old}, now {new}")),
        }
    }
}

fn without_header(file: &Value) -> Value {
    let mut file = file.clone();
    if let Value::Object(entries) = &mut file {
        entries.remove("header");
    }
    file
}

fn join(place: &str, key: &str) -> String {
    if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn file(version: &str, cases: &Value) -> Value {
        json!({"header": {"torch": version}, "cases": cases})
    }

    fn case(name: &str, data: &Value) -> Value {
        json!([{"name": name, "arrays": {"x": {"shape": [2], "data": data}}}])
    }

    #[test]
    fn the_same_and_rounding() {
        let old = file("1", &case("a", &json!([0.5, "-inf"])));
        let same = Comparison::of(&old, &old);
        assert_eq!(same.summary(), "the same");

        let rounded = file("2", &case("a", &json!([0.5 + 1e-15, "-inf"])));
        let comparison = Comparison::of(&old, &rounded);
        assert_eq!(
            comparison.summary(),
            "the same but for rounding, at most 1.0e-15\n  header.torch: \"1\", now \"2\""
        );
    }

    #[test]
    fn changes_are_named() {
        let old = case("a", &json!([0.5, "-inf"]));
        for (new, change) in [
            (case("a", &json!([0.25, "-inf"])), "cases[a].arrays.x.data[0]: 0.5, now 0.25"),
            (case("a", &json!([0.5, 1])), "cases[a].arrays.x.data[1]: \"-inf\", now 1"),
            (case("a", &json!([0.5])), "cases[a].arrays.x.data: 2 entries, now 1"),
            (json!([{"name": "a", "arrays": {}}]), "cases[a].arrays.x is gone"),
            (json!([]), "cases: 1 entries, now 0"),
        ] {
            let comparison = Comparison::of(&file("1", &old), &file("1", &new));
            assert_eq!(comparison.changes, [change]);
        }
    }
}
