//! `regard score`: files against files.

use std::fs;

use crate::support::run;

#[test]
fn the_reports_of_the_programs_followed() {
    let folder = tempfile::tempdir().unwrap();
    // "I-LOC" after "O" is a span to conlleval and none to strict IOB2.
    let gold = "U.N.\tB-ORG\nofficial\tO\nEkeus\tB-PER\nin\tO\nBaghdad\tB-LOC\n\n";
    let predicted = gold.replace("B-LOC", "I-LOC").replace("Ekeus\tB-PER", "Ekeus\tB-ORG");
    fs::write(folder.path().join("gold.bio"), gold).unwrap();
    fs::write(folder.path().join("predicted.bio"), predicted).unwrap();
    let conlleval = "\
processed 5 tokens with 3 phrases; found: 3 phrases; correct: 2.
accuracy:  60.00%; precision:  66.67%; recall:  66.67%; FB1:  66.67
              LOC: precision: 100.00%; recall: 100.00%; FB1: 100.00  1
              ORG: precision:  50.00%; recall: 100.00%; FB1:  66.67  2
              PER: precision:   0.00%; recall:   0.00%; FB1:   0.00  0
";
    let line = "score spans {}/gold.bio {}/predicted.bio";
    assert_eq!(run(folder.path(), line).ok(), conlleval);
    let strict = run(folder.path(), &format!("{line} --mode strict")).ok();
    let micro = strict.lines().find(|line| line.contains("micro avg")).unwrap();
    let micro: Vec<&str> = micro.split_whitespace().collect();
    assert_eq!(micro, ["micro", "avg", "0.5000", "0.3333", "0.4000", "3"]);
    let json = run(folder.path(), &format!("{line} --json")).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["type"], "span-scores");
    assert_eq!(json["data"]["spans"]["correct"], 2);

    let tags = run(folder.path(), "score tags {}/gold.bio {}/predicted.bio").ok();
    let all: Vec<&str> = tags.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(all, ["all", "5", "3", "60.00"]);
}

#[test]
fn files_that_do_not_match_are_refused_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("gold.bio", "a\tB-X\nb\tO\n\nc\tO\n"),
        ("word.bio", "a\tB-X\nB\tO\n\nc\tO\n"),
        ("short.bio", "a\tB-X\n\nc\tO\n"),
        ("few.bio", "a\tB-X\nb\tO\n"),
        ("tag.bio", "a\tB-X\nb\tQ-X\n\nc\tO\n"),
        ("columns.bio", "a\tB-X\nb\n\nc\tO\n"),
        ("pos.bio", "a\tDET\nb\tNOUN\n\nc\tVERB\n"),
        ("plain.txt", "a b\n"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    for (gold, predicted, messages) in [
        (
            "gold.bio",
            "word.bio",
            &["word.bio, sentence 1", "word \"B\" where the gold file has \"b\""][..],
        ),
        ("gold.bio", "short.bio", &["short.bio, sentence 1", "1 words, the gold file has 2"]),
        ("gold.bio", "few.bio", &["few.bio", "1 sentences, the gold file has 2"]),
        ("gold.bio", "tag.bio", &["predicted sequence 1", "token 2: `Q-X` is not a span tag"]),
        ("gold.bio", "columns.bio", &["columns.bio, line 2", "1 columns, expected 2"]),
        ("gold.bio", "none.bio", &["none.bio: no such file"]),
        (
            "pos.bio",
            "pos.bio",
            &["pos.bio: the labels name no spans", "hint: spans are labels such as"],
        ),
        ("plain.txt", "plain.txt", &["plain.txt: no labels in this format"]),
    ] {
        let err = run(folder.path(), &format!("score spans {{}}/{gold} {{}}/{predicted}")).fails();
        for message in messages {
            assert!(err.contains(message), "{gold} {predicted}: {err}");
        }
    }
}
