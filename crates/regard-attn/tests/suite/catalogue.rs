//! The catalogue: complete, consistent, and fit to be printed.

use std::collections::BTreeSet;

use regard_attn::catalogue::{Entry, Kind, all, find};

use crate::parts::{SCORES, normalisers, positions, scopes};

fn names(kind: Kind) -> BTreeSet<&'static str> {
    all().iter().filter(|entry| entry.kind == kind).map(|entry| entry.name).collect()
}

#[test]
fn every_part_is_enrolled_in_the_tests() {
    assert_eq!(names(Kind::Score), SCORES.into());
    assert_eq!(names(Kind::Normaliser), normalisers().iter().map(|part| part.name()).collect());
    assert_eq!(names(Kind::Scope), scopes().iter().map(|part| part.name()).collect());
    assert_eq!(names(Kind::Position), positions().iter().map(|part| part.name()).collect());
}

#[test]
fn names_are_unique_and_found_in_either_spelling() {
    let names: BTreeSet<&str> = all().iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), all().len());
    for entry in all() {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        assert!(entry.name.bytes().all(plain));
        assert_eq!(find(entry.name), Some(entry));
        assert_eq!(find(&entry.name.replace('_', "-")), Some(entry));
    }
    assert_eq!(find("scaleddot"), None);
}

#[test]
fn a_mechanism_names_parts_of_the_right_kind_and_its_cells() {
    for entry in all().iter().filter(|entry| entry.kind == Kind::Mechanism) {
        let parts = entry.parts.unwrap();
        for (kind, names) in [
            (Kind::Score, parts.score),
            (Kind::Normaliser, parts.normaliser),
            (Kind::Scope, parts.scope),
            (Kind::Position, parts.position),
        ] {
            assert!(!names.is_empty(), "{}", entry.name);
            assert!(names.iter().all(|name| find(name).unwrap().kind == kind), "{}", entry.name);
        }
        let cells = entry.taxonomy.unwrap();
        for (cell, allowed) in [
            (cells.sequences, &["distinctive", "co", "self"][..]),
            (cells.levels, &["single", "multi"]),
            (cells.positions, &["soft", "hard", "local"]),
            (cells.representations, &["single", "multi-representational", "multi-dimensional"]),
        ] {
            assert!(allowed.contains(&cell), "{}: {cell}", entry.name);
        }
        assert!(entry.paper.is_some(), "{}", entry.name);
    }
    for part in all().iter().filter(|entry| entry.kind != Kind::Mechanism) {
        assert!(part.parts.is_none() && part.taxonomy.is_none(), "{}", part.name);
    }
}

#[test]
fn every_entry_can_be_printed() {
    for entry in all() {
        let Entry { title, formula, shapes, cost, mistakes, example, .. } = *entry;
        let texts = [title, formula, shapes, cost, example];
        for text in texts.iter().chain(mistakes) {
            assert!(!text.is_empty() && text.trim() == *text, "{}: {text:?}", entry.name);
            assert!(!text.contains("  "), "{}: {text:?}", entry.name);
        }
        assert!(!mistakes.is_empty(), "{}", entry.name);
        if let Some(paper) = entry.paper {
            assert!(paper.link.starts_with("https://") && (1900..2100).contains(&paper.year));
        }
    }
}

#[test]
fn entries_serialise() {
    let json = serde_json::to_value(find("truncated-self-attention").unwrap()).unwrap();
    assert_eq!(json["kind"], "mechanism");
    assert_eq!(json["parts"]["scope"][0], "window");
    assert_eq!(json["paper"]["year"], 2019);
    assert_eq!(json["taxonomy"]["positions"], "local");
    assert!(json["example"].as_str().unwrap().contains("Window { left: 32, right: 4 }"));
    let json = serde_json::to_value(find("lengths").unwrap()).unwrap();
    assert!(json["paper"].is_null() && json["taxonomy"].is_null());
}
