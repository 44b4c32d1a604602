//! Whatever a file, a flag or a folder holds: a clear error with its place and a remedy, or a defined
//! behaviour, and nothing saved is lost.

use std::fs;
use std::path::Path;

use crate::support::{Done, TINY, corpus, data, regard, run, run_with_input, train, widths};
use crate::translate_support::{parallel, train_translator};

/// Trains on `{}/FILE`; the error is looked for.
#[track_caller]
fn training_fails(folder: &Path, flags: &str, messages: &[&str]) {
    let err = run(folder, &format!("train tag --out {{}}/new-run {flags}")).fails();
    assert!(err.starts_with("error: "), "{err}");
    for message in messages {
        assert!(err.contains(message), "{message} in {err}");
    }
    assert!(!folder.join("new-run/config.toml").exists(), "a run was begun: {flags}");
}

#[test]
fn data_files() {
    let folder = data();
    let good = fs::read_to_string(folder.path().join("dev.conllu")).unwrap();
    let lines = good.lines().count();
    let files: [(&str, Vec<u8>); 9] = [
        ("columns.conllu", format!("{good}1\ttoo\tfew\n").into_bytes()),
        ("bytes.conllu", [good.as_bytes(), b"1\tcaf\xe9\t_\tNOUN\t_\t_\t_\t_\t_\t_\n"].concat()),
        ("empty.conllu", Vec::new()),
        ("comments.conllu", b"# nothing\n\n".to_vec()),
        ("ids.conllu", b"x\ta\ta\tX\t_\t_\t_\t_\t_\t_\n".to_vec()),
        ("cut.conllu.gz", vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1]),
        ("ragged.bio", b"a\tO\nb\n\n".to_vec()),
        ("plain.txt", b"no labels here\n".to_vec()),
        ("data.xyz", b"a\tO\n".to_vec()),
    ];
    for (name, bytes) in &files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let place = format!("columns.conllu, line {}", lines + 1);
    let byte = format!("byte {}", good.len() + 5);
    for (name, messages) in [
        ("columns.conllu", &[place.as_str(), "3 columns, expected 10", "too\\tfew"][..]),
        ("bytes.conllu", &["not UTF-8", &byte, "iconv"]),
        ("empty.conllu", &["empty.conllu: the file is empty"]),
        ("comments.conllu", &["no sentence among 2 lines"]),
        ("ids.conllu", &["ids.conllu, line 1", "\"x\" is no word id"]),
        ("cut.conllu.gz", &["damaged or cut-off gzip file", "gzip -t"]),
        ("ragged.bio", &["ragged.bio, line 2", "1 columns, expected 2"]),
        ("plain.txt", &["plain.txt: no labels in this format"]),
        ("data.xyz", &["the name does not tell the format", "hint: name the format with --format"]),
        ("none.conllu", &["none.conllu: no such file"]),
        ("none", &["none: no such file"]),
        ("", &["cannot be read"]),
    ] {
        let format = if name.is_empty() { "--format conllu" } else { "" };
        training_fails(
            folder.path(),
            &format!("--model fc --train {{}}/{name} {format}"),
            messages,
        );
        let flags = format!("--model fc --train {{}}/train.conllu --dev {{}}/{name}");
        // Without an ending to tell it, --format is meant for both files.
        if !name.is_empty() {
            training_fails(folder.path(), &flags, messages);
        }
    }
    training_fails(
        folder.path(),
        "--model fc",
        &["there is no file to train on", "hint: name one with --train"],
    );
    let flags = "--model fc --train {}/train.conllu --column upoz";
    training_fails(
        folder.path(),
        flags,
        &["unknown column \"upoz\"", "did you mean upos?", "hint: "],
    );
    let flags = "--model fc --train {}/train.bio --column label=7";
    training_fails(folder.path(), flags, &["train.bio, line 1", "no label in column 7 of 3"]);
    let flags = "--model fc --train {}/train.bio --column label=none";
    training_fails(folder.path(), flags, &["train.bio: no labels in this format"]);
    let flags = "--model fc --train {}/train.conllu --format conlu";
    training_fails(folder.path(), flags, &["unknown format \"conlu\", did you mean conllu?"]);
}

#[test]
fn settings() {
    let folder = data();
    for (name, text) in [
        ("type.toml", "[train]\nlr = \"fast\"\n"),
        ("key.toml", "[model]\nhiden = 3\n"),
        ("section.toml", "[modle]\nhidden = 3\n"),
        ("syntax.toml", "[model\nhidden = 3\n"),
        ("kind.toml", "[model]\nkind = \"bilstn\"\n"),
        ("other.toml", "[model]\nkind = \"fc\"\nheads = 2\n"),
        ("bytes.toml", "x"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    fs::write(folder.path().join("bytes.toml"), b"a = \"\xff\"\n").unwrap();
    let hint = "hint: `regard config tag --model KIND` prints every setting";
    let train = "--train {}/train.conllu";
    for (flags, messages) in [
        (
            "--config {}/type.toml",
            &["type.toml: `train.lr` must be a float, got string \"fast\"", hint][..],
        ),
        (
            "--config {}/key.toml --model fc",
            &["key.toml: unknown key `model.hiden`; did you mean `model.hidden`?", hint],
        ),
        ("--config {}/section.toml", &["unknown key `modle`; did you mean `model`?"]),
        ("--config {}/syntax.toml", &["syntax.toml: not valid TOML", "line 1"]),
        ("--config {}/kind.toml", &["`model.kind` must be one of fc, window", "\"bilstn\""]),
        ("--config {}/other.toml", &["`model.heads` has no meaning for model `fc`"]),
        ("--config {}/bytes.toml", &["bytes.toml", "UTF-8"]),
        ("--config {}/none.toml", &["none.toml", "No such file"]),
        (
            "--set model.layer=2",
            &["--set model.layer=2: unknown key", "did you mean `model.layers`?"],
        ),
        ("--set model.layers=two", &["`model.layers` must be an integer, got string \"two\""]),
        ("--set model.layers", &["write it as key=value"]),
        ("--set model.layers=0", &["`model.layers` must be in 1..=256, got 0"]),
        ("--set model.dropout=1.5", &["`model.dropout` must be in [0, 1), got 1.5"]),
        ("--set model.position=left", &["unknown variant `left`"]),
        ("--set train.lr=nan", &["`train.lr` must be finite and above 0"]),
        ("--set model.heads=3", &["`model.heads` must be a divisor of d_model = 128, got 3"]),
        ("--model fc --set model.heads=3", &["`model.heads` has no meaning for model `fc`"]),
    ] {
        training_fails(folder.path(), &format!("{train} {flags}"), messages);
    }
}

#[test]
fn labels_and_words_that_training_never_saw() {
    let folder = data();
    train(folder.path(), "fc", 2, "run");
    let dev = fs::read_to_string(folder.path().join("dev.conllu")).unwrap();
    let odd = dev.replace("\tPUNCT\t", "\tSYM\t").replace("\ttree\t", "\t树\t");
    fs::write(folder.path().join("odd.conllu"), odd).unwrap();
    let done = run(folder.path(), "evaluate {}/run {}/odd.conllu --labels");
    assert!(
        done.err.contains("labels that training never saw") && done.err.contains(": SYM\n"),
        "{done:?}"
    );
    assert!(done.ok().contains("\nSYM "));
    // In a development file they count as wrong, and the run says so.
    let line = format!(
        "train tag --model fc --train {{}}/train.conllu --dev {{}}/odd.conllu --out {{}}/b --epochs 2 {TINY} {}",
        widths("fc")
    );
    let done = run(folder.path(), &line);
    assert!(done.err.contains("note: the development file has labels"), "{done:?}");
    done.ok();
}

#[test]
fn a_sentence_of_ten_thousand_words() {
    let folder = data();
    let words: Vec<(&str, &str)> = corpus(2000, 5).concat().into_iter().take(10_000).collect();
    fs::write(folder.path().join("long.conllu"), crate::support::conllu(&[words])).unwrap();
    for kind in ["window", "bilstm"] {
        let line = format!(
            "train tag --model {kind} --train {{}}/long.conllu --dev {{}}/dev.conllu --out {{}}/{kind} --epochs 1 \
             {TINY} {}",
            widths(kind)
        );
        run(folder.path(), &line).ok();
        let line = format!("predict {{}}/{kind} {{}}/long.conllu");
        assert_eq!(run(folder.path(), &line).ok().lines().count(), 10_002);
    }
    train(folder.path(), "transformer", 1, "transformer");
    // A hundred million pairs of words take a minute without optimisation.
    if !cfg!(debug_assertions) {
        let line = "predict {}/transformer {}/long.conllu";
        assert_eq!(run(folder.path(), line).ok().lines().count(), 10_002);
    }
    let err = run(folder.path(), "look {}/transformer --file {}/long.conllu").fails();
    assert!(err.contains("10000 words; look shows 300 at most"), "{err}");
}

#[test]
fn run_folders_that_are_none_or_damaged() {
    let folder = data();
    let good = train(folder.path(), "fc", 1, "good");
    let other = train(folder.path(), "window", 1, "other");
    let copy = |name: &str| {
        let to = folder.path().join(name);
        fs::create_dir(&to).unwrap();
        for entry in fs::read_dir(&good).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
        to
    };
    let whole = fs::read(good.join("model.safetensors")).unwrap();
    let config = fs::read_to_string(good.join("config.toml")).unwrap();

    fs::remove_file(copy("missing").join("model.safetensors")).unwrap();
    fs::write(copy("truncated").join("model.safetensors"), &whole[..whole.len() / 2]).unwrap();
    fs::write(copy("empty").join("model.safetensors"), b"").unwrap();
    fs::write(copy("foreign").join("model.safetensors"), "PK\u{3}\u{4} not ours").unwrap();
    fs::copy(other.join("model.safetensors"), copy("mixed").join("model.safetensors")).unwrap();
    fs::copy(good.join("last.safetensors"), copy("last").join("model.safetensors")).unwrap();
    let mut nan = whole.clone();
    let end = nan.len() - 4;
    nan[end..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(copy("nan").join("model.safetensors"), nan).unwrap();
    let wrong = config.replace("layers = 1", "layers = \"one\"");
    fs::write(copy("type").join("config.toml"), wrong).unwrap();
    let wrong = config.replace("task = \"tag\"", "task = \"paint\"");
    fs::write(copy("task").join("config.toml"), wrong).unwrap();
    fs::write(copy("settings").join("config.toml"), "[model]\nkind = \"fc\"\n").unwrap();
    let wrong = config.replace("lowercase = true", "lowercase = false");
    fs::write(copy("edited").join("config.toml"), wrong).unwrap();
    let labels = fs::read_to_string(good.join("labels.tsv")).unwrap();
    let reversed: Vec<&str> = labels.lines().rev().collect();
    fs::write(copy("reversed").join("labels.tsv"), reversed.join("\n") + "\n").unwrap();
    fs::remove_file(copy("no-labels").join("labels.tsv")).unwrap();
    fs::write(copy("labels").join("labels.tsv"), "NOUN\t1\n").unwrap();
    fs::write(copy("words").join("words.tsv"), "<unk>\tmany\n").unwrap();
    fs::create_dir(folder.path().join("nothing")).unwrap();

    for (name, messages) in [
        ("none", &["no such folder", "hint: a run folder is what"][..]),
        ("nothing", &["nothing holds no run (config.toml is missing)"]),
        ("train.conllu", &["no such folder"]),
        ("missing", &["missing: model.safetensors is missing"]),
        ("truncated", &["truncated/model.safetensors", "not a whole safetensors file", "hint: "]),
        ("empty", &["empty/model.safetensors", "not a whole safetensors file"]),
        ("foreign", &["foreign/model.safetensors", "not a whole safetensors file"]),
        ("mixed", &["mixed/model.safetensors: tensor `encoder", "the model needs"]),
        ("last", &["last/model.safetensors", "another configuration"]),
        ("nan", &["nan/model.safetensors", "not finite"]),
        ("type", &["type/config.toml: `model.layers` must be an integer, got string \"one\""]),
        ("task", &["task/config.toml", "the run is for task `paint`, not `tag`"]),
        ("settings", &["settings/config.toml", "the section [run] is missing"]),
        ("edited", &["edited: settings or vocabularies are not those that model.safetensors"]),
        ("reversed", &["reversed"]),
        ("no-labels", &["labels.tsv is missing"]),
        ("labels", &["labels"]),
        ("words", &["words.tsv, line 1", "\"many\" is no count"]),
    ] {
        for command in [
            "evaluate {}/RUN {}/dev.conllu",
            "predict {}/RUN {}/dev.conllu",
            "look {}/RUN --text the",
        ] {
            let err = run(folder.path(), &command.replace("RUN", name)).fails();
            for message in messages {
                assert!(err.contains(message), "{command} {name}: {err}");
            }
        }
    }

    fs::write(copy("half").join("last.safetensors"), &whole[..100]).unwrap();
    let err = run(folder.path(), "train tag --resume --out {}/half").fails();
    assert!(err.contains("half/last.safetensors") && err.contains("hint: without "), "{err}");
    let err = run(folder.path(), "train tag --resume --out {}/none").fails();
    assert!(err.contains("no such folder"), "{err}");
    let torn = copy("torn").join("metrics.jsonl");
    fs::write(&torn, "{\"type\":\"step\"}\n{}\n").unwrap();
    let err = run(folder.path(), "train tag --resume --out {}/torn").fails();
    assert!(err.contains("torn/metrics.jsonl:1"), "{err}");
}

#[test]
fn damage_in_a_run_folder_is_told_with_its_file_and_a_remedy() {
    let folder = data();
    let path = train(folder.path(), "fc", 1, "run");
    let again = "hint: copy the run folder again, or train anew";
    for (file, text, line, messages) in [
        ("labels.tsv", "", "predict {}/run {}/dev.conllu", ["there is no label", again]),
        ("config.toml", "[model]\n", "predict {}/run {}/dev.conllu", ["[run] is missing", again]),
        (
            "metrics.jsonl",
            "{}\n{}\n",
            "train tag --resume --out {}/run",
            ["metrics.jsonl:1", "hint: remove this line, or the whole file"],
        ),
    ] {
        let whole = fs::read(path.join(file)).unwrap();
        fs::write(path.join(file), text).unwrap();
        let err = run(folder.path(), line).fails();
        assert!(err.contains(&format!("run/{file}:")), "{err}");
        for message in messages {
            assert!(err.contains(message), "{message} in {err}");
        }
        fs::write(path.join(file), whole).unwrap();
    }
    fs::remove_file(path.join("metrics.jsonl")).unwrap();
    run(folder.path(), "train tag --resume --out {}/run").ok();
    let err = run(folder.path(), "train translate --resume --out {}/run").fails();
    assert!(err.contains("hint: go on with it by `regard train tag --resume`"), "{err}");
}

#[test]
fn changed_words_of_the_training_are_told_where_the_run_has_their_hash() {
    let folder = data();
    let path = train(folder.path(), "fc", 1, "run");
    let (seen, config) = (path.join("seen.tsv"), path.join("config.toml"));
    let whole = fs::read_to_string(&seen).unwrap();
    let lines = || whole.lines();
    let cut: Vec<&str> = lines().skip(1).collect();
    let commands = ["evaluate {}/run {}/dev.conllu", "train tag --resume --out {}/run"];
    for text in [String::new(), cut.join("\n") + "\n", whole.replace("saw\t2", "saw\t1")] {
        assert_ne!(text, whole);
        fs::write(&seen, &text).unwrap();
        for command in commands {
            let err = run(folder.path(), command).fails();
            assert!(
                err.contains("run/seen.tsv: the words are not those that the training saw"),
                "{err}"
            );
            assert!(err.contains("hint: copy the run folder again"), "{err}");
        }
    }
    // Other line ends are no damage, and a run of before has no hash.
    fs::write(&seen, whole.replace('\n', "\r\n")).unwrap();
    run(folder.path(), commands[0]).ok();
    let old: Vec<String> = fs::read_to_string(&config)
        .unwrap()
        .lines()
        .filter(|line| !line.starts_with("seen_sha256"))
        .map(str::to_owned)
        .collect();
    fs::write(&config, old.join("\n") + "\n").unwrap();
    fs::write(&seen, cut.join("\n") + "\n").unwrap();
    for command in commands {
        run(folder.path(), command).ok();
    }
}

#[test]
fn blank_lines_alone_come_back_from_a_tagger() {
    let folder = data();
    train(folder.path(), "fc", 1, "run");
    for (flags, text) in [
        ("--format text", "\n"),
        ("--format text", " \n\n\t\r\n "),
        ("--format columns --column token=0,label=none", "\n \n\n"),
        ("", "\n\n"),
        ("", "# a comment\n\n"),
    ] {
        let line = format!("predict {{}}/run {flags}");
        let done = run_with_input(folder.path(), &line, text.as_bytes());
        assert!(done.err.contains("standard input has no sentence"), "{done:?}");
        assert_eq!(done.ok(), text, "{flags}");
    }
    // A file of the data is not taken for what an interrupted start left; a refused training leaves nothing.
    fs::create_dir(folder.path().join("own")).unwrap();
    let words = folder.path().join("own/words.tsv");
    fs::copy(folder.path().join("train.bio"), &words).unwrap();
    let line = "train tag --train {}/own/words.tsv --out {}/own";
    let err = run(folder.path(), line).fails();
    assert!(err.contains("is not empty and holds no run"), "{err}");
    assert_eq!(fs::read(&words).unwrap(), fs::read(folder.path().join("train.bio")).unwrap());
    let line = "train tag --train {}/train.conllu --out {}/refused --set model.heads=3";
    let err = run(folder.path(), line).fails();
    assert!(err.contains("`model.heads` must be a divisor"), "{err}");
    assert!(!folder.path().join("refused").exists());
    let line = "bench train --treebank {}/train.conllu --save {}/train.conllu";
    let err = run(folder.path(), line).fails();
    assert!(err.contains("--save names the input"), "{err}");
    let err = run(folder.path(), "bench train --case small --save {}/run/words.tsv").fails();
    assert!(err.contains("--save names the run's own words.tsv"), "{err}");
    // By its name alone, from within the folder.
    let mut command = regard(["bench", "train", "--case", "small", "--save", "words.tsv"]);
    let err = Done::from(command.current_dir(folder.path().join("run")).output().unwrap()).fails();
    assert!(err.contains("--save names the run's own words.tsv"), "{err}");
    let err = run(folder.path(), "predict {}/run {}/none").fails();
    assert!(err.contains("none: no such file"), "{err}");
    let err = run(folder.path(), "train tag --train {}/train.conllu --out {}/dev.conllu").fails();
    assert!(err.contains("dev.conllu is a file; choose an empty or a new folder"), "{err}");
    fs::write(folder.path().join("blank.txt"), "\n\n").unwrap();
    let done = run(folder.path(), "predict {}/run {}/blank.txt -o {}/out");
    assert!(done.err.contains("(0 sentences, 0 words)"), "{done:?}");
    assert_eq!(fs::read_to_string(folder.path().join("out")).unwrap(), "\n\n");
    // Nothing can be measured there.
    let err = run(folder.path(), "evaluate {}/run {}/blank.txt --format conllu").fails();
    assert!(err.contains("no sentence among 2 lines"), "{err}");
}

#[test]
fn data_that_changed_since_the_run_began() {
    let folder = data();
    train(folder.path(), "fc", 1, "run");
    let path = folder.path().join("train.conllu");
    let old = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{old}# changed\n")).unwrap();
    let err = run(folder.path(), "train tag --resume --out {}/run").fails();
    assert!(err.contains("train.conllu has changed since the run began"), "{err}");
    fs::remove_file(&path).unwrap();
    let err = run(folder.path(), "train tag --resume --out {}/run").fails();
    assert!(err.contains("train.conllu"), "{err}");
    fs::write(&path, old).unwrap();
    run(folder.path(), "train tag --resume --out {}/run").ok();
}

#[test]
fn standard_input_that_is_no_data() {
    let folder = data();
    train(folder.path(), "fc", 1, "run");
    for (input, message) in [
        (&b"\xff\xfe\x00"[..], "standard input, line 1: not UTF-8"),
        (b"the dog\n", "standard input, line 1: 1 columns, expected 10"),
    ] {
        let err = run_with_input(folder.path(), "predict {}/run", input).fails();
        assert!(err.contains(message), "{err}");
    }
}

#[test]
fn an_unknown_key_in_a_config_of_ones_own_or_of_a_run() {
    let folder = data();
    let path = train(folder.path(), "fc", 1, "run").join("config.toml");
    let config = fs::read_to_string(&path).unwrap();
    for (text, message) in [
        (config.replace("[train]\n", "[train]\nepoch = 3\n"), "did you mean `train.epochs`?"),
        (
            config.replace("[model]\n", "[model]\nlr = 0.1\n"),
            "`model.lr`; did you mean `train.lr`?",
        ),
        (config.replace("[model]\n", "[modle]\nhidden = 3\n[model]\n"), "did you mean `model`?"),
        (config.replace("[run]\n", "[run]\nauthor = \"me\"\n"), "unknown field `author`"),
    ] {
        assert_ne!(text, config);
        fs::write(&path, text).unwrap();
        for line in ["predict {}/run {}/dev.conllu", "train tag --resume --out {}/run"] {
            let err = run(folder.path(), line).fails();
            assert!(err.contains("run/config.toml: ") && err.contains(message), "{line}: {err}");
        }
    }
}

#[test]
fn nothing_on_standard_input_is_nothing_on_standard_output() {
    let folder = data();
    train(folder.path(), "fc", 1, "tagger");
    let parallel = parallel();
    train_translator(parallel.path(), "seq2seq", 1, "translator", "");
    for (folder, line) in [
        (&folder, "predict {}/tagger"),
        (&folder, "predict {}/tagger --format text"),
        (&parallel, "predict {}/translator --scores"),
    ] {
        assert_eq!(run_with_input(folder.path(), line, b"").ok(), "");
        let done = run_with_input(folder.path(), &format!("{line} -o {{}}/empty"), b"");
        assert!(done.err.contains("wrote ") && done.err.contains("(0 "), "{}", done.err);
        assert_eq!(fs::read(folder.path().join("empty")).unwrap(), b"");
    }
}

#[test]
fn a_stream_where_a_file_is_needed() {
    let folder = parallel();
    train_translator(folder.path(), "seq2seq", 1, "run", "");
    for line in [
        "predict {}/run {}/dev.de --given -",
        "evaluate {}/run {}/dev.de -",
        "evaluate {}/run {}/dev.de {}/dev.en --output -",
        "look {}/run --source der --out -",
        "look {}/run --file -",
        "score tags - {}/dev.conllu",
        "score bleu --ref - --hyp {}/dev.en",
        "train tag --train - --out {}/new",
        "train translate --train - {}/train.en --out {}/new",
        "demo --out -",
    ] {
        let err = run_with_input(folder.path(), line, b"x\n").fails();
        assert!(
            err.contains("invalid value '-'") && err.contains("a file is needed"),
            "{line}: {err}"
        );
    }
    let line = "score bleu --ref {}/dev.en --hyp - --hyp - --paired-bootstrap";
    let err = run_with_input(folder.path(), line, b"x\n").fails();
    assert!(err.contains("--hyp names standard input twice"), "{err}");
}

#[test]
fn a_training_that_ran_away_says_what_to_do_with_its_folder() {
    let folder = data();
    let line = format!(
        "train tag --model fc --train {{}}/train.conllu --dev {{}}/dev.conllu --out {{}}/run --epochs 20 \
         {TINY} --set train.lr=1e30 --set train.warmup=0 {}",
        widths("fc")
    );
    let done = run(folder.path(), &line);
    assert_eq!(done.code, Some(2), "{done:?}");
    for message in
        ["; lower the learning rate", "train into another folder or delete ", "/run first"]
    {
        assert!(done.err.contains(message), "{message} in {}", done.err);
    }
    let err = run(folder.path(), &line).fails();
    assert!(err.contains("already holds a run") && err.contains("or delete this one"), "{err}");
}

#[test]
fn a_training_that_came_to_nothing_is_finished_with_a_note() {
    let folder = data();
    for (lr, message) in [
        ("1000", " at the end, and that of guessing 1."),
        ("1e-12", "no epoch was better on the development file than the first one"),
    ] {
        let line = format!(
            "train tag --model fc --train {{}}/train.conllu --dev {{}}/dev.conllu --out {{}}/run-{lr} \
             --epochs 3 {TINY} --set train.lr={lr} {}",
            widths("fc")
        );
        let done = run(folder.path(), &line);
        assert!(done.err.contains("note: ") && done.err.contains(message), "{}", done.err);
        assert!(done.err.contains("train again into another folder, with "), "{}", done.err);
        assert!(done.ok().starts_with("fc: finished after "));
    }
}

#[test]
fn damaged_best_weights_are_told_before_a_training_goes_on() {
    let folder = data();
    let run_folder = train(folder.path(), "fc", 1, "run");
    let model = run_folder.join("model.safetensors");
    let whole = fs::read(&model).unwrap();
    let other = train(folder.path(), "window", 1, "other").join("model.safetensors");
    for bytes in [&whole[..whole.len() / 2], b"", &[0; 500], &fs::read(other).unwrap()] {
        fs::write(&model, bytes).unwrap();
        let err = run(folder.path(), "train tag --resume --out {}/run").fails();
        assert!(err.contains("run/model.safetensors"), "{err}");
        assert!(err.contains("hint: copy the run folder again, or train anew"), "{err}");
    }
    fs::write(&model, whole).unwrap();
    run(folder.path(), "train tag --resume --out {}/run").ok();
}

#[test]
fn labels_that_no_training_can_come_to_anything_with() {
    let folder = data();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    file("one.bio", "a\tX\nb\tX\n\nc\tX\n");
    let err = run(folder.path(), "train tag --model fc --train {}/one.bio --out {}/r1").fails();
    assert!(err.contains("every word has the label `X`"), "{err}");
    file("spans.bio", "foo\tO\nAnna\tB-PER\nis\tO\n");
    file("words.bio", "foo\tNOUN\nis\tVERB\n");
    let line = "train tag --model fc --train {}/words.bio --dev {}/spans.bio --out {}/r2";
    let err = run(folder.path(), line).fails();
    assert!(err.contains("none of its labels (B-PER, O) is in"), "{err}");
    assert!(!folder.path().join("r2").exists(), "a refused training leaves no folder");
}

#[test]
fn a_model_that_predicts_no_span_where_the_file_has_spans_is_scored_by_words() {
    let folder = data();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    file("mixed.bio", "foo\tWEIRD\nAnna\tB-PER\nis\tO\n");
    file("spans.bio", "foo\tO\nAnna\tB-PER\nis\tO\n");
    let line = "train tag --model fc --train {}/mixed.bio --dev {}/spans.bio --out {}/run --epochs 6 \
                --set train.lr=0.02 --set train.batch_tokens=10";
    run(folder.path(), line).ok();
    run(folder.path(), "evaluate {}/run {}/spans.bio").ok();
}
