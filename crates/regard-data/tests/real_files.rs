//! Real treebanks and entity files: the counts of their documentation, and every byte back.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use regard_data::{
    BLANK_TOKEN, DataError, Format, LabelSet, Sentence, Sentences, Vocab, WordStats, plan,
    read_path, write_lines, write_sentence,
};
use regard_testkit::require_data;

fn unpacked(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut file = File::open(path).unwrap();
    if path.extension().is_some_and(|ending| ending == "gz") {
        MultiGzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    } else {
        file.read_to_end(&mut bytes).unwrap();
    }
    bytes
}

/// Reads the file, writes its own labels into it, and expects the same bytes.
fn round_trip(path: &Path, column: &str) -> Vec<Sentence> {
    let format = Format::parse("auto", column, path).unwrap();
    let sentences = read_path(path, &format).unwrap();
    let mut out = Vec::new();
    let mut line = 1;
    for sentence in &sentences {
        assert_eq!(sentence.words.len(), sentence.labels.len());
        assert!(sentence.words.iter().all(|word| !word.is_empty()));
        assert_eq!(sentence.first_line, line);
        line += sentence.lines.len();
        write_sentence(&mut out, sentence, &format, Some(&sentence.labels)).unwrap();
    }
    assert!(out == unpacked(path), "{} with {column:?} is not as it was", path.display());
    sentences
}

fn n_words(sentences: &[Sentence]) -> usize {
    sentences.iter().map(|sentence| sentence.words.len()).sum()
}

#[test]
fn ud_english_ewt() {
    let Some(dir) = require_data("ud-english-ewt") else { return };
    for (split, n_sentences, n) in
        [("dev", 2001, 25147), ("test", 2077, 25094), ("train", 12544, 204577)]
    {
        let path = dir.join(format!("en_ewt-ud-{split}.conllu.gz"));
        let all = ["upos", "xpos", "feats", "deprel", "feats:Number", "feats:PronType"];
        let columns = if split == "train" { &all[..1] } else { &all };
        for column in columns {
            let sentences = round_trip(&path, column);
            assert_eq!((sentences.len(), n_words(&sentences)), (n_sentences, n), "{split}");
            if *column == "upos" {
                let labels = LabelSet::build(labels_of(&sentences));
                assert_eq!(labels.len(), 17, "the universal parts of speech");
            }
        }
    }
}

/// The share of words that its documentation gives for each word's most frequent tag, and of
/// words not seen in training, shows that words, labels and statistics belong together.
#[test]
fn ud_english_ewt_statistics() {
    let Some(dir) = require_data("ud-english-ewt") else { return };
    let read = |split: &str| {
        let path = dir.join(format!("en_ewt-ud-{split}.conllu.gz"));
        read_path(&path, &Format::parse("auto", "upos", &path).unwrap()).unwrap()
    };
    let (train, dev, test) = (read("train"), read("dev"), read("test"));
    let stats = WordStats::new(&train);
    assert_eq!(WordStats::from_tsv("words", &stats.to_tsv()).unwrap(), stats);
    let vocab = Vocab::build(words_of(&train), 1);
    assert_eq!(vocab.len(), stats.len() + 1);
    assert_eq!(Vocab::from_tsv("vocab", &vocab.to_tsv()).unwrap(), vocab);
    for (sentences, percent) in [(&dev, "8.3"), (&test, "9.1")] {
        let n_unseen = words_of(sentences).filter(|word| !stats.is_seen(word)).count();
        assert_eq!(words_of(sentences).filter(|word| vocab.get(word) == 0).count(), n_unseen);
        let share = 100.0 * n_unseen as f64 / n_words(sentences) as f64;
        assert_eq!(format!("{share:.1}"), percent);
    }
    assert!(stats.is_ambiguous("saw") && stats.is_ambiguous("that"));
    assert!(stats.is_seen("Baghdad") && !stats.is_ambiguous("Baghdad"));

    let lengths: Vec<usize> = train.iter().map(|sentence| sentence.words.len()).collect();
    let batches = plan(&lengths, 1500, 1, 0);
    // Nearly full: at most a twentieth more batches than the words need.
    assert!(batches.len() * 20 < n_words(&train).div_ceil(1500) * 21, "{}", batches.len());
}

#[test]
fn broad_twitter() {
    let Some(dir) = require_data("ner-broad-twitter") else { return };
    for (section, n_sentences) in
        [("a", 1000), ("b", 2000), ("e", 200), ("f", 2001), ("g", 2138), ("h", 2001)]
    {
        let sentences = round_trip(&dir.join(format!("{section}.conll")), "");
        assert_eq!(sentences.len(), n_sentences, "section {section}");
        if section == "f" {
            assert_eq!(n_words(&sentences), 35428);
            let count = |label| labels_of(&sentences).filter(|l| *l == label).count();
            assert_eq!((count("B-PER"), count("B-ORG"), count("B-LOC")), (2650, 1090, 636));
            assert!(words_of(&sentences).any(|word| word.starts_with('#')));
            assert!(words_of(&sentences).any(|word| word == BLANK_TOKEN));
        }
    }
}

#[test]
fn uner_danish() {
    let Some(dir) = require_data("ner-uner-danish-ddt") else { return };
    for (split, n_sentences, n) in
        [("train", 4383, 80378), ("dev", 564, 10332), ("test", 565, 10023)]
    {
        let path = dir.join(format!("da_ddt-ud-{split}.iob2.gz"));
        let sentences = round_trip(&path, "");
        assert_eq!((sentences.len(), n_words(&sentences)), (n_sentences, n), "{split}");
        let labels = LabelSet::build(labels_of(&sentences));
        let mut names: Vec<&str> = labels.names().collect();
        names.sort_unstable();
        assert_eq!(names, ["B-LOC", "B-ORG", "B-PER", "I-LOC", "I-ORG", "I-PER", "O"]);
        assert_eq!(labels.id("O"), Some(0));
    }
}

#[test]
fn awkward_ends_come_back() {
    let format = Format::Columns { token: 0, label: Some(1), comments: true };
    for text in [
        "a\tO",
        "a\tO\n",
        "a\tO\r\n\r\n",
        "\n\n# c\na\tO\n\n\n\n",
        "a\tO\n\n# c\n\n# at the end",
        "# c\na\tO\n# within\nb\tO\n\n\nc\tO\n \t \n",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("words");
        std::fs::write(&path, text).unwrap();
        let mut out = Vec::new();
        for sentence in read_path(&path, &format).unwrap() {
            write_sentence(&mut out, &sentence, &format, Some(&sentence.labels)).unwrap();
        }
        assert_eq!(String::from_utf8(out).unwrap(), text);

        let mut out = Vec::new();
        let mut sentences = Sentences::new(text.as_bytes(), "stream", &format).unwrap();
        for sentence in sentences.by_ref() {
            write_sentence(&mut out, &sentence.unwrap(), &format, None).unwrap();
        }
        write_lines(&mut out, sentences.tail()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}

#[test]
fn files_without_sentences() {
    let format = Format::Columns { token: 0, label: Some(-1), comments: true };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.bio");
    let message = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let error = read_path(&path, &format).unwrap_err().to_string();
        error.replace(&path.display().to_string(), "F")
    };
    assert_eq!(message(b""), "F: the file is empty; give one with at least one sentence");
    assert_eq!(
        message(b"# c\n\n"),
        "F: no sentence among 2 lines, only blank lines and comments; is the format right?"
    );
    assert!(message(&[0x1f, 0x8b, 8]).starts_with("F: damaged or cut-off gzip file after line 0;"));
    let missing = dir.path().join("missing");
    assert!(matches!(read_path(&missing, &format), Err(DataError::NotFound { .. })));
    assert!(matches!(read_path(dir.path(), &format), Err(DataError::Read { .. })));
}

#[test]
fn a_very_long_sentence() {
    let text = "word\tO\n".repeat(10_007);
    let format = Format::Columns { token: 0, label: Some(1), comments: false };
    let sentences: Vec<_> =
        Sentences::new(text.as_bytes(), "s", &format).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!((sentences.len(), n_words(&sentences)), (1, 10_007));
}

fn words_of(sentences: &[Sentence]) -> impl Iterator<Item = &str> {
    sentences.iter().flat_map(|sentence| sentence.words.iter().map(String::as_str))
}

fn labels_of(sentences: &[Sentence]) -> impl Iterator<Item = &str> {
    sentences.iter().flat_map(|sentence| sentence.labels.iter().map(String::as_str))
}
