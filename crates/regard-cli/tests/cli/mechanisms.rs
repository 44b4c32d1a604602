//! `regard mechanisms`: the catalogue as a list, narrowed, an entry, and JSON lines.

use std::path::Path;

use regard::attn::catalogue::{Entry, Kind, all, find};
use serde_json::Value;

use crate::support::run;

/// The names that `regard mechanisms ARGUMENTS --json` lists.
fn listed(arguments: &str) -> Vec<String> {
    let json = run(Path::new("."), &format!("mechanisms {arguments} --json")).ok();
    let name = |line: &str| -> String {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["type"], "mechanism");
        event["data"]["name"].as_str().unwrap().into()
    };
    json.lines().map(name).collect()
}

fn names(wanted: impl Fn(&Entry) -> bool) -> Vec<String> {
    all().iter().filter(|entry| wanted(entry)).map(|entry| entry.name.to_string()).collect()
}

#[test]
fn the_list_names_every_entry() {
    let list = run(Path::new("."), "mechanisms").ok();
    for entry in all() {
        if entry.kind == Kind::Mechanism {
            // Name and title, formula, parts, paper and cells.
            let (parts, paper, cells) =
                (entry.parts.unwrap(), entry.paper.unwrap(), entry.taxonomy.unwrap());
            let choices = [parts.score, parts.normaliser, parts.scope, parts.position];
            let block = format!(
                "{}: {}\n    {}\n    {}\n    {} {}; sequences {}, levels {}, positions {}, \
                 representations {}\n",
                entry.name,
                entry.title,
                entry.formula,
                choices.map(|names| names.join("|")).join(" × "),
                paper.author,
                paper.year,
                cells.sequences,
                cells.levels,
                cells.positions,
                cells.representations
            );
            assert!(list.contains(&block), "{block}{list}");
        } else {
            let is_of = |line: &str| {
                line.starts_with(&format!("{} ", entry.name)) && line.ends_with(entry.formula)
            };
            assert!(list.lines().any(is_of), "{}\n{list}", entry.name);
        }
    }
    assert_eq!(listed(""), names(|_| true));
    let json = run(Path::new("."), "mechanisms --json").ok();
    for (line, entry) in json.lines().zip(all()) {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["data"], serde_json::to_value(entry).unwrap());
    }
}

#[test]
fn the_list_can_be_narrowed() {
    for (argument, kind) in [
        ("mechanism", Kind::Mechanism),
        ("score", Kind::Score),
        ("normaliser", Kind::Normaliser),
        ("scope", Kind::Scope),
        ("position", Kind::Position),
    ] {
        let wanted = names(|entry| entry.kind == kind);
        assert!(!wanted.is_empty());
        assert_eq!(listed(&format!("--kind {argument}")), wanted);
    }
    let local = listed("--positions local");
    assert_eq!(local, names(|e| e.taxonomy.is_some_and(|cells| cells.positions == "local")));
    assert!(local.contains(&"luong_local_p".to_string()), "{local:?}");
    // Two cells at once: both must hold.
    let both = listed("--sequences self --positions local");
    assert!(!both.is_empty() && both.len() < local.len());
    assert_eq!(
        both,
        names(|e| e.taxonomy.is_some_and(|c| c.positions == "local" && c.sequences == "self"))
    );
    assert_eq!(listed("--positions hard"), ["show_attend_tell_hard"]);
    let text = run(Path::new("."), "mechanisms --positions hard").ok();
    assert!(text.starts_with("Mechanisms: score × normaliser × scope × position\n\nshow_attend"));
    assert!(!text.contains("Scores:"), "{text}");
    // A part has no cells.
    for line in [
        "mechanisms --kind score --levels single",
        "mechanisms --kind score --sequences self --json",
    ] {
        let error = run(Path::new("."), line).fails();
        assert!(
            error.contains("nothing in the catalogue is in all these cells\nhint: "),
            "{error}"
        );
    }
    // Wrong use.
    let error = run(Path::new("."), "mechanisms --positions globl").fails();
    assert!(error.contains("[possible values: soft, hard, local]"), "{error}");
    let error = run(Path::new("."), "mechanisms dot --kind score").fails();
    assert!(error.contains("cannot be used with"), "{error}");
}

#[test]
fn one_entry_is_told_whole() {
    for entry in all() {
        let name = entry.name.replace('_', "-");
        let text = run(Path::new("."), &format!("mechanisms {name}")).ok();
        let mut facts = vec![entry.title, entry.formula, entry.shapes, entry.cost, entry.example];
        facts.extend(entry.mistakes);
        facts.extend(entry.paper.map(|paper| paper.link));
        for fact in facts {
            assert!(text.contains(fact), "{fact} in {text}");
        }
        let Some(parts) = entry.parts else { continue };
        for name in
            [parts.score, parts.normaliser, parts.scope, parts.position].into_iter().flatten()
        {
            let part = format!("{name}: {}", find(name).unwrap().formula);
            assert!(text.contains(&part), "{part} in {text}");
        }
    }
}

#[test]
fn one_entry_is_told_whole_in_json() {
    let json = |name: &str| -> Value {
        let line = run(Path::new("."), &format!("mechanisms {name} --json")).ok();
        serde_json::from_str(&line).unwrap()
    };
    let event = json("bahdanau");
    assert_eq!(event["type"], "mechanism");
    assert_eq!(event["data"]["paper"]["year"], 2015);
    assert_eq!(event["data"]["taxonomy"]["sequences"], "distinctive");
    assert_eq!(event["data"]["part_formulas"]["additive"], find("additive").unwrap().formula);
    assert!(event["data"]["used_by"].as_array().unwrap().is_empty());
    let event = json("gaussian");
    assert_eq!(event["data"]["used_by"], serde_json::json!(["luong_local_p"]));
    assert!(event["data"]["part_formulas"].as_object().unwrap().is_empty());
    // A part's text names its users, too.
    let text = run(Path::new("."), "mechanisms gaussian").ok();
    assert!(text.contains("used by         luong_local_p\n"), "{text}");
}

#[test]
fn an_unknown_name_gets_the_nearest() {
    let err = run(Path::new("."), "mechanisms scaled-dott").fails();
    let expected =
        "error: there is no mechanism or part `scaled-dott`\nhint: did you mean `scaled_dot`?\n";
    assert_eq!(err, expected);
    let err = run(Path::new("."), "mechanisms bahdenau --json").fails();
    assert!(err.ends_with("hint: did you mean `bahdanau`?\n"), "{err}");
    let err = run(Path::new("."), "mechanisms zzz --json").fails();
    assert!(err.contains("hint: `regard mechanisms` lists all names"), "{err}");
}
