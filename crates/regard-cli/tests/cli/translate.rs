//! Translators from files to translations: train, evaluate, predict, look.

use std::fs;

use regard::report::{AlignmentReport, RunSummary, StopReason};

use crate::support::{arrays, regard, run, run_with_input, words};
use crate::translate_support::{SMALL, pairs, parallel, sizes, train_translator};

const KINDS: [&str; 5] = ["seq2seq", "cho2014", "bahdanau", "luong", "transformer"];

#[test]
fn every_model_trains_translates_and_is_measured() {
    let folder = parallel();
    for kind in KINDS {
        let run_folder = train_translator(folder.path(), kind, 2, kind, "");
        let mut names: Vec<String> = fs::read_dir(&run_folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let expected = [
            "config.toml",
            "curve.svg",
            "last.safetensors",
            "metrics.jsonl",
            "model.safetensors",
            "tokens.tsv",
        ];
        assert_eq!(names, expected);

        let line = format!("evaluate {{}}/{kind} {{}}/dev.de {{}}/dev.en");
        let out = run(folder.path(), &line).ok();
        assert!(out.starts_with("BLEU = "), "{out}");
        assert!(out.contains("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:"), "{out}");
        assert!(out.contains("\nchrF2 = ") && out.contains("\nperplexity = "), "{out}");
        assert!(out.contains("exactly the reference: "), "{out}");

        let line = format!("predict {{}}/{kind} {{}}/dev.de");
        assert_eq!(run(folder.path(), &line).ok().lines().count(), 12);
    }
}

#[test]
fn a_transformer_and_bahdanau_learn_a_word_for_word_language() {
    let folder = parallel();
    for kind in ["transformer", "bahdanau"] {
        train_translator(folder.path(), kind, 30, kind, "");
        let line = format!("evaluate {{}}/{kind} {{}}/dev.de {{}}/dev.en --json");
        let out = run(folder.path(), &line).ok();
        let scores: serde_json::Value = serde_json::from_str(&out).unwrap();
        let bleu = scores["data"]["figures"]["bleu"].as_f64().unwrap();
        assert!(bleu > 60.0, "{kind}: {out}");
        // The same number as `score` gives for the written translations.
        let line = format!(
            "evaluate {{}}/{kind} {{}}/dev.de {{}}/dev.en --output {{}}/{kind}.en --min-bleu 100.5"
        );
        let done = run(folder.path(), &line);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.err.contains("below --min-bleu 100.5"), "{}", done.err);
        let line = format!("score bleu --ref {{}}/dev.en --hyp {{}}/{kind}.en");
        let score = run(folder.path(), &line).ok();
        assert_eq!(score.lines().next(), done.out.lines().next(), "{score}\n{}", done.out);
    }
}

#[test]
fn predictions_do_not_depend_on_company_threads_or_chunks() {
    let folder = parallel();
    train_translator(folder.path(), "transformer", 6, "run", "");
    let input = fs::read(folder.path().join("dev.de")).unwrap();
    let all = run(folder.path(), "predict {}/run {}/dev.de").ok();
    for line in ["predict {}/run --chunk-lines 1", "predict {}/run --chunk-lines 5 --threads 1"] {
        assert_eq!(run_with_input(folder.path(), line, &input).ok(), all, "{line}");
    }
    run(folder.path(), "predict {}/run {}/dev.de -o {}/out.en").ok();
    assert_eq!(fs::read_to_string(folder.path().join("out.en")).unwrap(), all);
}

#[test]
fn n_best_scores_json_and_alignments() {
    let folder = parallel();
    train_translator(folder.path(), "bahdanau", 6, "run", "");
    let input = "der Hund hat ein Ball.\n\nein Mann sieht der Baum.\n".as_bytes();
    let with = |line: &str| run_with_input(folder.path(), line, input).ok();

    let plain = with("predict {}/run");
    let best: Vec<&str> = plain.lines().collect();
    assert_eq!((best.len(), best[1]), (3, ""));

    let lines = with("predict {}/run --n-best 3");
    let rows: Vec<Vec<&str>> = lines.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 7, "{lines}");
    assert_eq!((rows[0][0], rows[0][1], rows[0][3]), ("1", "1", best[0]));
    assert_eq!((rows[3][0], rows[3][3]), ("2", ""));
    let score = |row: &[&str]| row[2].parse::<f64>().unwrap();
    assert!(score(&rows[0]) >= score(&rows[1]) && score(&rows[1]) >= score(&rows[2]));

    let scored = with("predict {}/run --scores");
    let (log_prob, text) = scored.lines().next().unwrap().split_once('\t').unwrap();
    assert!(log_prob.parse::<f64>().unwrap() < 0.0);
    assert_eq!(text, best[0]);

    let json = with("predict {}/run --json --alignments {}/a.align");
    let aligned = fs::read_to_string(folder.path().join("a.align")).unwrap();
    for (i, line) in json.lines().enumerate() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["type"], "translation");
        let data = &event["data"];
        assert_eq!(data["line"], i + 1);
        let found = &data["translations"][0];
        assert_eq!(found["text"], best[i]);
        let alignment = found["alignment"].as_array().unwrap();
        assert_eq!(alignment.len(), found["tokens"].as_array().unwrap().len());
        let n_source = data["source_tokens"].as_array().unwrap().len() as u64;
        let pairs: Vec<String> = alignment
            .iter()
            .enumerate()
            .map(|(t, s)| {
                assert!(s.as_u64().unwrap() < n_source);
                format!("{s}-{t}")
            })
            .collect();
        assert_eq!(aligned.lines().nth(i), Some(pairs.join(" ").as_str()));
    }

    // What the model wrote itself is as likely as it said.
    fs::write(folder.path().join("in.de"), input).unwrap();
    fs::write(folder.path().join("out.en"), &plain).unwrap();
    let done = run(folder.path(), "predict {}/run {}/in.de --given {}/out.en");
    assert!(done.err.contains("line 2 has an empty side"), "{}", done.err);
    let forced = done.ok();
    let forced = forced.lines().next().unwrap().split('\t').next().unwrap();
    let difference = forced.parse::<f64>().unwrap() - log_prob.parse::<f64>().unwrap();
    assert!(difference.abs() < 2e-3, "{forced} {log_prob}");
}

#[test]
fn scores_and_given_agree_where_the_model_wrote_unknown_words() {
    let folder = parallel();
    let more = "--set data.min_count=40 --set data.shared_vocab=false --set model.tie=none";
    train_translator(folder.path(), "transformer", 4, "run", more);
    let scored = run(folder.path(), "predict {}/run {}/dev.de --scores").ok();
    let rows: Vec<(&str, &str)> = scored.lines().map(|l| l.split_once('\t').unwrap()).collect();
    let texts: Vec<&str> = rows.iter().map(|row| row.1).collect();
    assert!(texts.iter().any(|text| text.contains("<unk>")), "{scored}");
    fs::write(folder.path().join("out.en"), texts.join("\n") + "\n").unwrap();
    let forced = run(folder.path(), "predict {}/run {}/dev.de --given {}/out.en").ok();
    for (row, forced) in rows.iter().zip(forced.lines()) {
        let forced: f64 = forced.split('\t').next().unwrap().parse().unwrap();
        assert!((forced - row.0.parse::<f64>().unwrap()).abs() < 2e-3, "{row:?} {forced}");
    }
}

#[test]
fn blanks_at_the_end_of_a_given_translation_are_characters_of_it() {
    let folder = parallel();
    train_translator(folder.path(), "seq2seq", 1, "run", "--set data.tokens=char");
    fs::write(folder.path().join("in.de"), "der Hund\n".repeat(3)).unwrap();
    fs::write(folder.path().join("out.en"), "a dog\na dog  \n a dog\n").unwrap();
    let forced = run(folder.path(), "predict {}/run {}/in.de --given {}/out.en").ok();
    let tokens: Vec<&str> = forced.lines().map(|l| l.split('\t').nth(1).unwrap()).collect();
    assert_eq!(tokens, ["6", "8", "7"], "{forced}");
}

#[test]
fn the_fewest_tokens_are_kept_where_the_source_is_short() {
    let folder = parallel();
    train_translator(folder.path(), "seq2seq", 1, "run", "");
    let line = "predict {}/run --min-length 90 --beam 2 --json";
    let out = run_with_input(folder.path(), line, b"Hund\n").ok();
    let line: serde_json::Value = serde_json::from_str(&out).unwrap();
    let n = line["data"]["translations"][0]["tokens"].as_array().unwrap().len();
    assert!((90..=192).contains(&n), "{n}");
}

#[test]
fn look_shows_every_attention() {
    let folder = parallel();
    for (kind, more, heads) in [
        ("transformer", "", 6),
        ("bahdanau", "", 1),
        ("luong", "--set model.scope=local-p --set model.radius=2", 1),
    ] {
        train_translator(folder.path(), kind, 2, kind, more);
        let line = format!(
            "look {{}}/{kind} --out {{}}/look.html --svg {{}}/a.svg --csv {{}}/a.csv --json {{}}/a.json --target"
        );
        let mut arguments = words(folder.path(), &line);
        arguments.extend(["the dog.", "--source", "der rote Hund."].map(Into::into));
        let output = regard(arguments).output().unwrap();
        let (out, err) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success(), "{err}");
        assert!(out.starts_with("the dog.\n\ncross attention, layer 0, head 0"), "{out}");
        let json = fs::read_to_string(folder.path().join("a.json")).unwrap();
        let report: AlignmentReport = serde_json::from_str(&json).unwrap();
        report.validate().unwrap();
        assert_eq!(report.source, ["der", "rote", "Hund", "￭."]);
        assert_eq!(report.target, ["the", "dog", "￭."]);
        assert_eq!(report.heads.len(), heads, "{kind}");
        let page = fs::read_to_string(folder.path().join("look.html")).unwrap();
        assert_eq!(page.matches("<details ").count(), heads);
        let svg = fs::read_to_string(folder.path().join("a.svg")).unwrap();
        let local = kind == "luong";
        assert_eq!(svg.matches("class=\"centre\"").count(), if local { 4 } else { 0 });
        assert_eq!(report.heads.iter().any(|head| head.centres.is_some()), local);
    }
    // The model's own translation, and a head that is not there.
    let mut arguments = words(folder.path(), "look {}/transformer --out {}/own.html --source");
    arguments.push("ein Mann hat der Ball.".into());
    let output = regard(&arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    arguments.extend(["--head".into(), "2".into()]);
    let output = regard(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        String::from_utf8(output.stderr).unwrap().contains("there is no layer 0 with a head 2")
    );
}

#[test]
fn subwords_tables_lower_case_and_separate_vocabularies() {
    let folder = parallel();
    let table: Vec<String> =
        pairs(40, 3).iter().map(|(de, en)| format!("{en}\t{de}\tCC-BY")).collect();
    let table = table.join("\n");
    fs::write(folder.path().join("a.tsv"), table).unwrap();
    let sizes = sizes("seq2seq");
    for (name, flags, files) in [
        ("bpe", "--tokens bpe --set data.vocab_size=300", &["tokenizer.json"][..]),
        (
            "unigram",
            "--tokens unigram --set data.vocab_size=300 --set data.shared_vocab=false",
            &["source.tokenizer.json", "target.tokenizer.json"],
        ),
        ("char", "--tokens char --set data.min_count=1 --lowercase", &["tokens.tsv"]),
    ] {
        let line = format!(
            "train translate --model seq2seq --train {{}}/a.tsv --dev {{}}/a.tsv --columns source=1,target=0 \
             --out {{}}/{name} --epochs 1 --json {flags} {sizes}"
        );
        let done = run(folder.path(), &line);
        let out = done.ok();
        assert!(out.contains("vocabulary: ") && out.contains("all 40 pairs are kept"), "{out}");
        let samples = out.lines().filter(|line| line.starts_with("{\"type\":\"sample\"")).count();
        assert_eq!(samples, 2, "{out}");
        for file in files {
            assert!(folder.path().join(name).join(file).is_file(), "{file}");
        }
        let out = run(folder.path(), &format!("evaluate {{}}/{name} {{}}/a.tsv")).ok();
        assert_eq!(out.contains("case:lc"), name == "char", "{out}");
        // Characters that were never seen are no fault.
        let line = format!("predict {{}}/{name} --chunk-lines 1");
        run_with_input(folder.path(), &line, "Ж 😀 你好\n".as_bytes()).ok();
    }
}

#[test]
fn unknown_words_are_replaced_by_what_was_looked_at() {
    let folder = parallel();
    // A vocabulary of the most frequent words alone: the rarer ones are unknown on both sides.
    let more = "--set data.min_count=40 --set data.shared_vocab=false --set model.tie=none";
    train_translator(folder.path(), "transformer", 8, "run", more);
    let input = "der Hund sieht der Zeppelin.\nZeppelin Zeppelin\n".as_bytes();
    let plain = run_with_input(folder.path(), "predict {}/run", input).ok();
    assert_eq!(plain.lines().count(), 2);
    let replaced = run_with_input(folder.path(), "predict {}/run --replace-unknown", input).ok();
    assert!(plain.contains("<unk>"), "{plain}");
    assert!(!replaced.contains("<unk>"), "{replaced}");

    train_translator(folder.path(), "seq2seq", 1, "s", "");
    let err = run_with_input(folder.path(), "predict {}/s --replace-unknown", input).fails();
    assert!(err.contains("model `seq2seq` has no attention"), "{err}");
}

#[test]
fn the_clock_ends_a_training_with_its_last_weights_scored() {
    let folder = parallel();
    let line = format!(
        "train translate --model seq2seq --train {{}}/train.de {{}}/train.en --dev {{}}/dev.de {{}}/dev.en \
         --out {{}}/run --epochs 1000000 --minutes 0.01 --json {SMALL} {}",
        sizes("seq2seq")
    );
    let out = run(folder.path(), &line).ok();
    let last: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let summary: RunSummary = serde_json::from_value(last["data"].clone()).unwrap();
    assert_eq!(summary.stop, StopReason::TimeLimit);
    assert!(summary.best_value.is_finite() && summary.metrics.contains_key("bleu"), "{out}");
    // It is at its end: resuming does nothing.
    let before = fs::read(folder.path().join("run/last.safetensors")).unwrap();
    let out = run(folder.path(), "train translate --resume --out {}/run").ok();
    assert!(out.contains("stopped at the time limit"), "{out}");
    assert_eq!(fs::read(folder.path().join("run/last.safetensors")).unwrap(), before);
}

#[test]
fn two_batches_accumulated_are_one_batch() {
    let folder = parallel();
    // Without clipping and dropout a step is a function of the mean gradient alone. The whole file is
    // one batch, or two halves.
    let sets = "--set train.clip=0 --set train.epochs=1 --set train.optimiser=sgd --set train.lr=0.5 \
        --set train.momentum=0";
    let one = train_translator(
        folder.path(),
        "seq2seq",
        1,
        "one",
        &format!("{sets} --set train.batch_tokens=100000"),
    );
    let two = train_translator(
        folder.path(),
        "seq2seq",
        1,
        "two",
        &format!("{sets} --set train.batch_tokens=700 --set train.accumulate=100"),
    );
    let weights = |run: &std::path::Path| arrays(&run.join("last.safetensors"));
    let mut largest = 0f32;
    for ((name, _, a), (_, _, b)) in weights(&one).into_iter().zip(weights(&two)) {
        for (a, b) in a.into_iter().zip(b) {
            let difference = (f32::from_bits(a) - f32::from_bits(b)).abs();
            assert!(difference < 1e-4, "{name}: {difference}");
            largest = largest.max(f32::from_bits(a).abs());
        }
    }
    assert!(largest > 0.1);
}

#[test]
fn a_few_hundred_lines_of_multi30k() {
    let Some(data) = regard_testkit::require_data("multi30k-de-en") else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, from, n) in [("train", "train", 300), ("dev", "val", 40)] {
        for ending in ["de", "en"] {
            let path = data.join(format!("{from}.{ending}.gz"));
            let lines = regard::data::read_segments(&path).unwrap();
            let path = folder.path().join(format!("{name}.{ending}"));
            fs::write(path, lines[..n].join("\n") + "\n").unwrap();
        }
    }
    let line = format!(
        "train translate --model transformer --train {{}}/train.de {{}}/train.en --dev {{}}/dev.de {{}}/dev.en \
         --out {{}}/run --epochs 3 --set data.vocab_size=500 --set train.batch_tokens=1000 --json {}",
        sizes("transformer")
    );
    let out = run(folder.path(), &line).ok();
    let losses: Vec<f64> = out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|event| event["type"] == "eval")
        .map(|event| event["data"]["metrics"]["loss"].as_f64().unwrap())
        .collect();
    assert_eq!(losses.len(), 3);
    assert!(losses[2] < losses[0], "{losses:?}");
    assert!(out.contains("300 pairs"), "{out}");
}
