//! `regard mechanisms`: the catalogue as a table, an entry, and JSON lines.

use std::path::Path;

use regard::attn::catalogue::all;

use crate::support::run;

#[test]
fn the_list_names_every_entry() {
    let list = run(Path::new("."), "mechanisms").ok();
    for entry in all() {
        let line = list.lines().find(|line| line.split_whitespace().next() == Some(entry.name));
        assert!(line.is_some_and(|line| line.ends_with(entry.formula)), "{}\n{list}", entry.name);
    }
    let json = run(Path::new("."), "mechanisms --json").ok();
    assert_eq!(json.lines().count(), all().len());
    for (line, entry) in json.lines().zip(all()) {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["type"], "mechanism");
        assert_eq!(event["data"]["name"], entry.name);
        assert_eq!(event["data"]["formula"], entry.formula);
    }
}

#[test]
fn one_entry_is_told_whole() {
    for entry in all() {
        let name = entry.name.replace('_', "-");
        let text = run(Path::new("."), &format!("mechanisms {name}")).ok();
        let mut parts = vec![entry.title, entry.formula, entry.shapes, entry.cost, entry.example];
        parts.extend(entry.mistakes);
        parts.extend(entry.paper.map(|paper| paper.link));
        for part in parts {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}

#[test]
fn an_unknown_name_gets_the_nearest() {
    let err = run(Path::new("."), "mechanisms scaled-dott").fails();
    let expected =
        "error: there is no mechanism or part `scaled-dott`\nhint: did you mean `scaled_dot`?\n";
    assert_eq!(err, expected);
    let err = run(Path::new("."), "mechanisms zzz --json").fails();
    assert!(err.contains("hint: `regard mechanisms` lists all names"), "{err}");
}
