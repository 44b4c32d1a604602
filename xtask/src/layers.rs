//! Which crate of the workspace may depend on which.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace;

/// The crate that only tests may use.
const TESTKIT: &str = "regard-testkit";

/// Each crate with those that it may depend on. CONTRIBUTING.md shows the same table.
const TABLE: &[(&str, &[&str])] = &[
    ("regard-tensor", &[]),
    ("regard-metrics", &[]),
    ("regard-report", &[]),
    (TESTKIT, &[]),
    ("xtask", &[]),
    ("regard-attn", &["regard-tensor"]),
    ("regard-data", &["regard-tensor"]),
    ("regard-engine", &["regard-tensor", "regard-attn"]),
    ("regard-nn", &["regard-tensor", "regard-attn", "regard-engine"]),
    (
        "regard-tasks",
        &[
            "regard-tensor",
            "regard-attn",
            "regard-engine",
            "regard-nn",
            "regard-data",
            "regard-metrics",
            "regard-report",
        ],
    ),
    ("regard-viewer", &["regard-report"]),
    (
        "regard",
        &[
            "regard-tensor",
            "regard-attn",
            "regard-engine",
            "regard-nn",
            "regard-data",
            "regard-metrics",
            "regard-report",
            "regard-tasks",
            "regard-viewer",
        ],
    ),
    ("regard-cli", &["regard"]),
];

/// One crate's dependency on another crate of the workspace.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Part of what is built: a normal or a build dependency.
    Built,
    /// For tests, examples and benches only.
    Dev,
}

struct Crate {
    name: String,
    dependencies: Vec<(String, Kind)>,
}

/// # Errors
/// Every breach of the table.
pub(crate) fn run() -> Result<()> {
    let crates = read(&workspace::metadata()?)?;
    let breaches = breaches(&crates, TABLE);
    if !breaches.is_empty() {
        bail!("the layers are broken:\n  {}", breaches.join("\n  "));
    }
    println!("{} crates keep to the layers", crates.len());
    Ok(())
}

/// The crates of the workspace, from `cargo metadata`. Only dependencies by path are kept.
fn read(metadata: &Value) -> Result<Vec<Crate>> {
    let list = |value: &Value, key: &str| -> Result<Vec<Value>> {
        let list = value[key].as_array().with_context(|| format!("cargo metadata lacks {key}"))?;
        Ok(list.clone())
    };
    let text = |value: &Value, key: &str| -> Result<String> {
        let text = value[key].as_str().with_context(|| format!("cargo metadata lacks {key}"))?;
        Ok(text.to_owned())
    };
    let mut crates = Vec::new();
    for package in list(metadata, "packages")? {
        let mut dependencies = Vec::new();
        for dependency in list(&package, "dependencies")? {
            if dependency["path"].is_string() {
                let kind = if dependency["kind"] == "dev" { Kind::Dev } else { Kind::Built };
                dependencies.push((text(&dependency, "name")?, kind));
            }
        }
        crates.push(Crate { name: text(&package, "name")?, dependencies });
    }
    Ok(crates)
}

/// A sentence for each breach.
///
/// - A crate builds on nothing that its row does not name.
/// - The test kit is a dev-dependency, and needs no crate of the workspace itself.
/// - Each crate has a row, and each row a crate.
///
/// Dev-dependencies are free otherwise: a test may compare with a layer above.
fn breaches(crates: &[Crate], table: &[(&str, &[&str])]) -> Vec<String> {
    let mut breaches = Vec::new();
    for Crate { name, dependencies } in crates {
        let Some((_, allowed)) = table.iter().find(|(row, _)| row == name) else {
            breaches.push(format!("{name} has no row in the table"));
            continue;
        };
        for (dependency, kind) in dependencies {
            if dependency == TESTKIT && *kind == Kind::Built {
                breaches.push(format!("{name} may have {TESTKIT} as a dev-dependency only"));
            } else if name == TESTKIT {
                breaches.push(format!("{TESTKIT} may not depend on {dependency}"));
            } else if *kind == Kind::Built && !allowed.contains(&dependency.as_str()) {
                breaches.push(format!("{name} may not depend on {dependency}"));
            }
        }
    }
    for (row, _) in table {
        if !crates.iter().any(|member| member.name == *row) {
            breaches.push(format!("{row} has a row in the table, but there is no such crate"));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &[(&str, &[&str])] = &[("low", &[]), ("high", &["low"]), (TESTKIT, &[])];

    /// The breaches of the small table: `high` has these dependencies beside those that are right.
    fn small(extra: &[(&str, &str, Kind)]) -> Vec<String> {
        let mut crates: Vec<Crate> = ["low", "high", TESTKIT]
            .map(|name| Crate { name: name.to_owned(), dependencies: Vec::new() })
            .into();
        let right = [("high", "low", Kind::Built), ("high", TESTKIT, Kind::Dev)];
        for (from, to, kind) in right.iter().chain(extra) {
            let member = crates.iter_mut().find(|member| member.name == *from).unwrap();
            member.dependencies.push(((*to).to_owned(), *kind));
        }
        breaches(&crates, SMALL)
    }

    #[test]
    fn what_the_table_allows_passes() {
        assert_eq!(small(&[]), [""; 0]);
        // A test of the lower layer may use the upper one.
        assert_eq!(small(&[("low", "high", Kind::Dev)]), [""; 0]);
    }

    #[test]
    fn each_breach_is_named() {
        for (extra, message) in [
            (("low", "high", Kind::Built), "low may not depend on high"),
            (("low", TESTKIT, Kind::Built), "low may have regard-testkit as a dev-dependency only"),
            ((TESTKIT, "low", Kind::Built), "regard-testkit may not depend on low"),
            ((TESTKIT, "low", Kind::Dev), "regard-testkit may not depend on low"),
        ] {
            assert_eq!(small(&[extra]), [message]);
        }
    }

    #[test]
    fn crates_and_rows_belong_together() {
        let newcomer = Crate { name: "new".to_owned(), dependencies: Vec::new() };
        assert_eq!(
            breaches(&[newcomer], &[("old", &[])]),
            [
                "new has no row in the table",
                "old has a row in the table, but there is no such crate"
            ]
        );
    }

    #[test]
    fn a_row_names_only_rows_above_it() {
        // So that the table cannot allow a circle.
        for (at, (name, allowed)) in TABLE.iter().enumerate() {
            for dependency in *allowed {
                let found = TABLE[..at].iter().any(|(row, _)| row == dependency);
                assert!(found, "{name} may depend on {dependency}, which has no row above it");
            }
        }
    }

    #[test]
    fn reads_what_cargo_prints() {
        let metadata = serde_json::json!({"packages": [{
            "name": "high",
            "dependencies": [
                {"name": "low", "kind": null, "path": "somewhere/low"},
                {"name": "maker", "kind": "build", "path": "somewhere/maker"},
                {"name": TESTKIT, "kind": "dev", "path": "somewhere/kit"},
                {"name": "serde", "kind": null},
            ],
        }]});
        let crates = read(&metadata).unwrap();
        assert_eq!(crates[0].name, "high");
        assert_eq!(
            crates[0].dependencies,
            [
                ("low".to_owned(), Kind::Built),
                ("maker".to_owned(), Kind::Built),
                (TESTKIT.to_owned(), Kind::Dev),
            ]
        );
        assert!(read(&serde_json::json!({})).is_err());
    }

    #[test]
    fn the_workspace_keeps_to_the_table() {
        run().unwrap();
    }
}
