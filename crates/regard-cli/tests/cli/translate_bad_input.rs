//! Whatever parallel text, flags and folders of translators hold: a clear error, or a defined behaviour.

use std::fs;
use std::path::Path;

use crate::support::{Done, data, regard, run, run_from_file, run_with_input, train, words};
use crate::translate_support::{SMALL, parallel, sizes, train_translator};

/// Trains on the given flags; the error is looked for.
#[track_caller]
fn training_fails(folder: &Path, flags: &str, messages: &[&str]) {
    let err = run(folder, &format!("train translate --out {{}}/new-run {flags}")).fails();
    assert!(err.starts_with("error: "), "{err}");
    for message in messages {
        assert!(err.contains(message), "{message} in {err}");
    }
    assert!(!folder.join("new-run/config.toml").exists(), "a run was begun: {flags}");
}

#[test]
fn parallel_files() {
    let folder = parallel();
    let path = |name: &str| folder.path().join(name);
    let good = fs::read_to_string(path("train.en")).unwrap();
    fs::write(path("short.en"), good.lines().take(59).collect::<Vec<_>>().join("\n")).unwrap();
    fs::write(path("empty.en"), "").unwrap();
    fs::write(path("blank.en"), "\n".repeat(60)).unwrap();
    fs::write(path("bytes.en"), [good.as_bytes(), b"caf\xe9\n"].concat()).unwrap();
    fs::write(path("cut.gz"), [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1]).unwrap();
    fs::write(path("a.tsv"), "a\tb\nc\n").unwrap();
    for (target, messages) in [
        ("short.en", &["train.de has 60 lines, but ", "short.en has 59;", "line N of one"][..]),
        ("empty.en", &["empty.en: the file is empty"]),
        (
            "blank.en",
            &["no pair is left to train on", "60 of 60 pairs are left out: 60 with an empty"],
        ),
        ("bytes.en", &["bytes.en, line 61: not UTF-8", "iconv"]),
        ("cut.gz", &["damaged or cut-off gzip file"]),
        ("none.en", &["none.en: no such file"]),
    ] {
        training_fails(folder.path(), &format!("--train {{}}/train.de {{}}/{target}"), messages);
    }
    let dev = "--train {}/train.de {}/train.en --dev {}/train.de {}/short.en";
    training_fails(folder.path(), dev, &["short.en has 59"]);
    for (flags, messages) in [
        ("--train {}/a.tsv", &["a.tsv, line 2: 1 columns, expected 2", "--columns"][..]),
        ("--train {}/a.tsv --columns source=en", &["no column \"en\" among a, b"]),
        ("--train {}/a.tsv --columns quelle=0", &["columns \"quelle=0\""]),
        ("--train {}/train.de {}/train.en --columns source=1,target=0", &["are for one table"]),
        ("", &["there is no file to train on", "hint: name one with --train SOURCE TARGET"]),
        ("--train {}/train.de {}/train.en --set model.head=3", &["did you mean `model.heads`?"]),
        (
            "--train {}/train.de {}/train.en --set model.d_model=30 --set model.heads=4",
            &["`model.heads` must be a divisor of d_model = 30, got 4", "hint: `regard config"],
        ),
    ] {
        training_fails(folder.path(), flags, messages);
    }
}

#[test]
fn an_empty_side_and_a_line_of_5000_tokens_are_left_out_and_counted() {
    let folder = parallel();
    let path = |name: &str| folder.path().join(name);
    for (ending, empty, long) in [("de", "", "Hund"), ("en", "nothing", "dog")] {
        let good = fs::read_to_string(path(&format!("train.{ending}"))).unwrap();
        let long = vec![long; 5000].join(" ");
        fs::write(path(&format!("odd.{ending}")), format!("{good}{empty}\n{long}\n")).unwrap();
    }
    let line = format!(
        "train translate --model seq2seq --train {{}}/odd.de {{}}/odd.en --out {{}}/run --epochs 1 {SMALL} {}",
        sizes("seq2seq")
    );
    let done = run(folder.path(), &line);
    let note = "2 of 62 pairs are left out: 1 with an empty side, 1 with a side of more than 128 \
        tokens (the longest has 5000)";
    assert!(done.err.contains(note), "{}", done.err);
    done.ok();
    // They are translated and measured all the same; an empty line stays empty.
    let out = run(folder.path(), "predict {}/run {}/odd.de --beam 1").ok();
    assert_eq!(out.lines().count(), 62);
    assert_eq!(out.lines().nth(60), Some(""));
    let out = run(folder.path(), "evaluate {}/run {}/odd.de {}/odd.en --beam 1").ok();
    assert!(out.contains("of 62 lines"), "{out}");
}

#[test]
fn beams_and_penalties_out_of_range() {
    let folder = parallel();
    train_translator(folder.path(), "seq2seq", 1, "run", "");
    for (flags, message) in [
        ("--beam 0", "--beam <N>': a whole number of at least 1 is needed"),
        ("--beam 100000", "`beam` must be at most the "),
        ("--n-best 0", "--n-best <N>': a whole number of at least 1 is needed"),
        ("--coverage-penalty 0.2", "`coverage_penalty` must be 0 for a model without attention"),
        ("--coverage-penalty -1", "`coverage_penalty` must be finite and at least 0"),
        ("--beam -1", "--beam <N>': a whole number of at least 1 is needed"),
        ("--max-length -1", "-1 is not in 1..=100000"),
        ("--chunk-lines -7", "a whole number of at least 1 is needed"),
        ("--length-penalty wu:1", "is none of gnmt:A"),
        ("--alignments {}/x", "model `seq2seq` has no attention"),
        ("--max-length 0", "0 is not in 1.."),
        ("--max-length 4000000000", "is not in 1..=100000"),
        ("--min-length 1001", "1001 is not in 0..=1000"),
        ("--min-length 9 --max-length 3", "--min-length 9 is above --max-length 3"),
        ("--alignments -", "a file is needed here, not a stream"),
        ("--labels", "unexpected argument '--labels'"),
        ("--format text", "--format has no meaning for a translator"),
    ] {
        let done =
            run_with_input(folder.path(), &format!("predict {{}}/run {flags}"), b"der Hund\n");
        let err = done.fails();
        assert!(err.contains(message), "{flags}: {err}");
    }
    let input = fs::read(folder.path().join("dev.de")).unwrap();
    for flags in ["{}/dev.de -o {}/dev.de", "{}/train.de --given {}/dev.de -o {}/./dev.de"] {
        let err = run(folder.path(), &format!("predict {{}}/run {flags}")).fails();
        assert!(err.contains("--output names the input"), "{flags}: {err}");
    }
    assert_eq!(fs::read(folder.path().join("dev.de")).unwrap(), input);
    let model = folder.path().join("run/model.safetensors");
    let before = fs::read(&model).unwrap();
    for flags in [
        "predict {}/run {}/dev.de -o {}/run/model.safetensors",
        "predict {}/run {}/dev.de -o {}/run/../run/config.toml",
        "look {}/run --source Hund --out {}/run/last.safetensors",
        "look {}/run --source Hund --csv {}/run/metrics.jsonl",
    ] {
        let err = run(folder.path(), flags).fails();
        assert!(err.contains("names the run's own"), "{flags}: {err}");
    }
    assert_eq!(fs::read(&model).unwrap(), before);
    fs::remove_file(&model).unwrap();
    let err = run(folder.path(), "train translate --resume --out {}/run").fails();
    assert!(err.contains("model.safetensors is missing"), "{err}");
    fs::write(&model, before).unwrap();
    let err = run(folder.path(), "evaluate {}/run {}/dev.de {}/dev.en --beam 0").fails();
    assert!(err.contains("a whole number of at least 1 is needed"), "{err}");
    let err = run(folder.path(), "evaluate {}/run {}/dev.de {}/train.en").fails();
    assert!(err.contains("dev.de has 12 lines, but "), "{err}");
    let err = run(folder.path(), "evaluate {}/run {}/dev.de {}/dev.en --labels").fails();
    assert!(err.contains("--labels has no meaning for a translator"), "{err}");
}

#[test]
fn text_that_the_model_knows_nothing_of() {
    let folder = parallel();
    train_translator(folder.path(), "seq2seq", 1, "run", "");
    // Only unknown words, characters never seen, white space, nothing.
    let input = "Zeppelin Quark Quark\n\u{1F600} Ж\n \t \n\n";
    let out = run_with_input(folder.path(), "predict {}/run", input.as_bytes()).ok();
    assert_eq!(out.lines().count(), 4);
    assert_eq!(out.lines().skip(2).collect::<Vec<_>>(), ["", ""]);
    let err = run_with_input(folder.path(), "predict {}/run", b"gut\nf\xfcr\n").fails();
    assert!(err.contains("standard input, line 2: not UTF-8"), "{err}");
    let err = run(folder.path(), "predict {}/run --given {}/dev.en").fails();
    assert!(err.contains("--given needs the file of the sources"), "{err}");
}

#[test]
fn a_result_that_would_take_the_place_of_what_is_read() {
    let folder = parallel();
    train_translator(folder.path(), "bahdanau", 1, "run", "");
    let path = |name: &str| folder.path().join(name);
    let files = || ["dev.de", "dev.en"].map(|name| fs::read(path(name)).unwrap());
    let before = files();
    // By redirection, under another name, and as the reference that is measured on.
    for (line, message) in [
        ("predict {}/run -o {}/dev.de", "--output names the input"),
        ("predict {}/run - -o {}/run/../dev.de", "--output names the input"),
        ("predict {}/run --alignments {}/dev.de", "--alignments names the input"),
        ("evaluate {}/run {}/dev.de {}/dev.en --output {}/dev.en", "--output names the input"),
        ("evaluate {}/run {}/dev.de {}/dev.en --output {}/run/config.toml", "the run's own config"),
        ("predict {}/run -o {}/new --alignments {}/run/../new", "--output and --alignments both"),
    ] {
        let err = run_from_file(folder.path(), line, "dev.de").fails();
        assert!(err.contains(message), "{line}: {err}");
    }
    assert_eq!(files(), before);
    // Another file of the same contents is no input.
    fs::copy(path("dev.de"), path("copy.de")).unwrap();
    run_from_file(folder.path(), "predict {}/run -o {}/copy.de", "dev.de").ok();
}

#[test]
fn a_vocabulary_of_special_tokens_alone() {
    let folder = parallel();
    let flags = "--train {}/train.de {}/train.en --tokens word --set data.min_count=1000";
    for flags in [flags.to_owned(), format!("{flags} --set data.shared_vocab=false --model luong")]
    {
        training_fails(
            folder.path(),
            &flags,
            &["the vocabulary of the source has no token", "lower data.min_count (now 1000)"],
        );
    }
}

#[test]
fn a_development_loss_that_is_no_number_is_never_the_best() {
    let folder = parallel();
    // One step, so that no training loss tells it.
    let line = format!(
        "train translate --model transformer --train {{}}/train.de {{}}/train.en --dev {{}}/dev.de {{}}/dev.en \
         --out {{}}/run --epochs 1 {SMALL} {} --set train.lr=1e38 --set train.warmup=0 \
         --set train.batch_tokens=100000",
        sizes("transformer")
    );
    let done = run(folder.path(), &line);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(!done.err.contains("best so far"), "{}", done.err);
    for message in ["development file became NaN at step 1;", "train into another folder or delete"]
    {
        assert!(done.err.contains(message), "{message} in {}", done.err);
    }
    assert!(!folder.path().join("run/model.safetensors").exists());
}

#[test]
fn weights_that_ran_away_in_the_only_step_are_told_without_a_development_file() {
    let folder = parallel();
    for (i, model) in ["transformer", "bahdanau"].into_iter().enumerate() {
        let line = format!(
            "train translate --model {model} --train {{}}/train.de {{}}/train.en --out {{}}/run{i} --epochs 1 \
             {SMALL} {} --set train.lr=1e20 --set train.warmup=0 --set train.batch_tokens=100000",
            sizes(model)
        );
        let done = run(folder.path(), &line);
        assert_eq!(done.code, Some(2), "{done:?}");
        let message = "train into another folder or delete";
        assert!(done.err.contains(message), "{message} in {}", done.err);
    }
}

#[test]
fn a_line_that_would_take_hours() {
    let folder = parallel();
    let write = |name: &str, lines: usize, last: &str| {
        fs::write(folder.path().join(name), "der Hund\n".repeat(lines) + last + "\n").unwrap();
    };
    write("short.de", 12, "das");
    write("long.de", 12, &"das ".repeat(10_001));
    write("dev.long", 11, &"das ".repeat(10_001));
    train_translator(folder.path(), "seq2seq", 1, "run", "");
    let told =
        "error: line 13: 10001 tokens, more than the 10000 that a translator takes: \"das das";
    for line in [
        "predict {}/run {}/long.de --chunk-lines 13",
        "predict {}/run {}/short.de --given {}/long.de",
        "evaluate {}/run {}/long.de {}/short.de",
    ] {
        let err = run(folder.path(), line).fails();
        assert!(err.contains(told) && err.contains("cut it into sentences"), "{line}: {err}");
    }
    let done = run(folder.path(), "predict {}/run {}/long.de --chunk-lines 5");
    assert_eq!((done.code, done.out.lines().count()), (Some(2), 10), "{done:?}");
    assert!(done.err.contains(told), "{}", done.err);
    let flags = "--train {}/train.de {}/train.en --dev {}/dev.de {}/dev.long --tokens word";
    training_fails(folder.path(), flags, &["line 12: 10001 tokens, more than the 10000"]);
    // In training it is left out.
    fs::write(folder.path().join("short.en"), "the dog\n".repeat(13)).unwrap();
    let line = format!(
        "train translate --model seq2seq --train {{}}/long.de {{}}/short.en --out {{}}/new --epochs 1 {SMALL} {}",
        sizes("seq2seq")
    );
    let done = run(folder.path(), &line);
    assert!(done.err.contains("1 with a side of more than 128 tokens"), "{}", done.err);
    done.ok();
}

#[test]
fn development_pairs_without_a_loss_to_choose_by() {
    let folder = parallel();
    fs::write(folder.path().join("blank.en"), "\n".repeat(12)).unwrap();
    let flags = "--train {}/train.de {}/train.en --dev {}/dev.de {}/blank.en --tokens word";
    let by_loss = format!("{flags} --set train.select=loss");
    training_fails(folder.path(), &by_loss, &["blank.en: every pair has an empty side"]);
}

#[test]
fn subwords_leave_no_unknown_word_to_replace() {
    let folder = parallel();
    let more = "--set data.tokens=bpe --set data.vocab_size=300";
    train_translator(folder.path(), "bahdanau", 1, "run", more);
    for line in ["predict {}/run {}/dev.de", "evaluate {}/run {}/dev.de {}/dev.en"] {
        let err = run(folder.path(), &format!("{line} --replace-unknown")).fails();
        assert!(err.contains("tokens of kind `bpe` spell every word"), "{line}: {err}");
        assert!(err.contains("train a model with --tokens word or char"), "{line}: {err}");
    }
}

#[test]
fn weights_that_are_no_numbers_are_not_kept() {
    let folder = parallel();
    // One step, after which no loss or gradient tells it.
    let line = format!(
        "train translate --model seq2seq --train {{}}/train.de {{}}/train.en --out {{}}/run --epochs 1 {SMALL} {} \
         --set train.lr=3e38 --set train.weight_decay=1e6 --set train.warmup=0 --set train.batch_tokens=100000",
        sizes("seq2seq")
    );
    let done = run(folder.path(), &line);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(
        done.err.contains("a weight became ") && done.err.contains("at step 1"),
        "{}",
        done.err
    );
    assert!(done.err.contains("lower the learning rate"), "{}", done.err);
    assert!(!folder.path().join("run/model.safetensors").exists());
}

#[test]
fn a_prediction_does_not_feed_on_itself() {
    let folder = parallel();
    train_translator(folder.path(), "seq2seq", 1, "run", "");
    let path = folder.path().join("dev.de");
    let before = fs::read(&path).unwrap();
    for line in ["predict {}/run", "predict {}/run {}/dev.de"] {
        let open = |append| fs::OpenOptions::new().read(true).append(append).open(&path).unwrap();
        let mut command = regard(words(folder.path(), line));
        let err =
            Done::from(command.stdin(open(false)).stdout(open(true)).output().unwrap()).fails();
        assert!(err.contains("standard output goes to the file that is read"), "{err}");
        assert!(err.contains("--output FILE"), "{err}");
    }
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_damaged_tokenizer_json_has_a_remedy() {
    let folder = parallel();
    let more = "--set data.tokens=bpe --set data.vocab_size=300";
    let run_folder = train_translator(folder.path(), "seq2seq", 1, "run", more);
    let tokens = run_folder.join("tokenizer.json");
    let whole = fs::read_to_string(&tokens).unwrap();
    for text in [&whole[..whole.len() / 2], "{}", &whole.replace("</s>", "<z>")] {
        fs::write(&tokens, text).unwrap();
        let err = run(folder.path(), "predict {}/run {}/dev.de").fails();
        assert!(err.starts_with("error: ") && err.contains("run/tokenizer.json: "), "{err}");
        assert!(err.contains("hint: copy the run folder again, or train anew"), "{err}");
    }
}

#[test]
fn a_source_longer_than_the_location_score_knows() {
    let folder = parallel();
    let more = "--set model.score=location --set model.max_source=20 --set data.max_tokens=20";
    train_translator(folder.path(), "luong", 1, "run", more);
    let line = "der Hund ".repeat(11);
    let err = run_with_input(folder.path(), "predict {}/run", line.as_bytes()).fails();
    assert!(err.contains("20") && err.contains("22"), "{err}");
}

#[test]
fn folders_and_what_was_changed_in_them() {
    let folder = parallel();
    let path = |name: &str| folder.path().join(name);
    let run_folder = train_translator(folder.path(), "seq2seq", 1, "run", "");
    let weights = fs::read(run_folder.join("model.safetensors")).unwrap();

    // Another run is not written over.
    let line = "train translate --train {}/train.de {}/train.en --out {}/run";
    let err = run(folder.path(), line).fails();
    assert!(err.contains("already holds a run; go on with it by --resume"), "{err}");
    let err = run(folder.path(), "train tag --resume --out {}/run").fails();
    assert!(err.contains("the run is for task `translate`, not `tag`"), "{err}");

    // A vocabulary that is not the checkpoint's.
    let tokens = fs::read_to_string(run_folder.join("tokens.tsv")).unwrap();
    let swapped = tokens.replace("Hund\t", "Hand\t");
    assert_ne!(swapped, tokens);
    fs::write(run_folder.join("tokens.tsv"), &swapped).unwrap();
    for line in [
        "predict {}/run {}/dev.de",
        "evaluate {}/run {}/dev.de {}/dev.en",
        "train translate --resume --out {}/run",
    ] {
        let err = run(folder.path(), line).fails();
        assert!(err.contains("settings or vocabularies are not those that"), "{line}: {err}");
    }
    fs::write(run_folder.join("tokens.tsv"), tokens.lines().take(9).collect::<Vec<_>>().join("\n"))
        .unwrap();
    let err = run(folder.path(), "predict {}/run {}/dev.de").fails();
    assert!(err.contains("model.safetensors"), "{err}");
    fs::write(run_folder.join("tokens.tsv"), "<unk>\t0\nHund\t3\n").unwrap();
    let err = run(folder.path(), "predict {}/run {}/dev.de").fails();
    assert!(err.contains("tokens.tsv: token 1 is Hund, expected <s>"), "{err}");
    fs::remove_file(run_folder.join("tokens.tsv")).unwrap();
    let err = run(folder.path(), "predict {}/run {}/dev.de").fails();
    assert!(err.contains("tokens.tsv is missing"), "{err}");
    fs::write(run_folder.join("tokens.tsv"), &tokens).unwrap();
    run(folder.path(), "predict {}/run {}/dev.de").ok();

    // Data that changed since.
    let train = fs::read_to_string(path("train.en")).unwrap();
    fs::write(path("train.en"), train.replacen("dog", "cat", 1)).unwrap();
    let err = run(folder.path(), "train translate --resume --out {}/run").fails();
    assert!(err.contains("train.en has changed since the run began"), "{err}");
    fs::write(path("train.en"), train).unwrap();
    run(folder.path(), "train translate --resume --out {}/run").ok();
    assert_eq!(fs::read(run_folder.join("model.safetensors")).unwrap(), weights);
}

#[test]
fn flags_of_the_other_task() {
    let folder = data();
    train(folder.path(), "fc", 1, "tagger");
    for (line, message) in [
        ("evaluate {}/tagger {}/dev.conllu --beam 2", "--beam has no meaning for a tagger"),
        ("evaluate {}/tagger {}/dev.conllu {}/dev.conllu", "measured on one file, not two"),
        ("predict {}/tagger {}/dev.conllu --n-best 2", "--n-best has no meaning for a tagger"),
        ("look {}/tagger --source x", "--source has no meaning for a tagger"),
        ("look {}/tagger", "required arguments"),
        ("train translate --resume --out {}/tagger", "for task `tag`, not `translate`"),
    ] {
        let err = run(folder.path(), line).fails();
        assert!(err.contains(message), "{line}: {err}");
    }
}

#[test]
fn what_cannot_be_looked_at() {
    let folder = parallel();
    train_translator(folder.path(), "seq2seq", 1, "seq2seq", "");
    train_translator(folder.path(), "bahdanau", 1, "run", "");
    let long = "der ".repeat(301);
    for (run_name, arguments, message) in [
        ("seq2seq", &["--source", "der"][..], "model `seq2seq` has no attention"),
        ("run", &[], "required arguments"),
        ("run", &["--source", " "], "there is no word to look at"),
        (
            "run",
            &["--source", "der", "--target", ""],
            "no word in the target; give a translation, or",
        ),
        ("run", &["--source", &long], "the source has 301 tokens; look shows 300"),
        ("run", &["--source", "der", "--target", "a", "--layer", "1"], "there is no layer 1"),
        (
            "run",
            &["--source", "der", "--target", "a", "--attention", "encoder-self"],
            "model `bahdanau` has no encoder-self attention; it has cross",
        ),
        ("run", &["--text", "der"], "--text has no meaning for a translator"),
        ("run", &["--source", "der", "--replace-unknown"], "has no meaning for look"),
    ] {
        let line = format!("look {{}}/{run_name} --out {{}}/no.html");
        let mut all = crate::support::words(folder.path(), &line);
        all.extend(arguments.iter().map(|a| (*a).to_owned()));
        let output = crate::support::regard(all).output().unwrap();
        let err = crate::support::Done::from(output).fails();
        assert!(err.contains(message), "{arguments:?}: {err}");
        assert!(!folder.path().join("no.html").exists());
    }
}

#[test]
fn minutes_are_a_number() {
    let folder = parallel();
    for minutes in ["nan", "inf", "x", "-1"] {
        for line in [
            "train translate --train {}/train.de {}/train.en --out {}/new-run",
            "demo reversal --data {}/strings",
        ] {
            let err = run(folder.path(), &format!("{line} --minutes {minutes}")).fails();
            assert!(err.contains("a number of minutes is needed"), "{line}: {err}");
        }
    }
}

#[test]
fn strings_of_the_reversal_are_not_written_over() {
    let folder = parallel();
    let line = "demo reversal --data {}/strings --strings 20";
    run(folder.path(), line).ok();
    let first = fs::read(folder.path().join("strings/train.src")).unwrap();
    let err = run(folder.path(), &format!("{line} --seed 2")).fails();
    assert!(err.contains("holds strings already") && err.contains("hint:"), "{err}");
    assert_eq!(fs::read(folder.path().join("strings/train.src")).unwrap(), first);
}
