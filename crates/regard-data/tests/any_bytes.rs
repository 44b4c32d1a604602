//! Whatever the bytes: no panic, and what is read can be given back.

use proptest::prelude::*;
use regard_data::{
    ConllUColumn, Format, LabelSet, Sentences, Vocab, WordStats, write_lines, write_sentence,
};

fn formats() -> impl Strategy<Value = Format> {
    let column = -4i32..5;
    prop_oneof![
        Just(Format::Text),
        Just(Format::ConllU { label: ConllUColumn::Upos }),
        Just(Format::ConllU { label: ConllUColumn::Feature("N".into()) }),
        (column.clone(), prop::option::of(column), any::<bool>())
            .prop_map(|(token, label, comments)| Format::Columns { token, label, comments }),
    ]
}

/// Bytes of any value, and texts of the pieces that the formats are made of.
fn files() -> impl Strategy<Value = Vec<u8>> {
    let cell = prop::sample::select(vec![
        "1",
        "2",
        "3",
        "1-2",
        "2.1",
        "_",
        "a",
        "N=1",
        "A=1|N=2",
        "é",
        "#",
        "",
        " ",
        "x y",
        "-DOCSTART-",
    ]);
    let separator = prop::sample::select(vec!["\t", "\t", " ", "  "]);
    let end = prop::sample::select(vec!["\n", "\n", "\n\n", "\r\n", "\r", "\n \n"]);
    let columns = prop_oneof![Just(1usize), Just(2), Just(3), Just(10)];
    let text = (columns, separator).prop_flat_map(move |(n, separator)| {
        let line = (prop::collection::vec(cell.clone(), n), end.clone())
            .prop_map(move |(cells, end)| cells.join(separator) + end);
        prop::collection::vec(line, 0..6).prop_map(|lines| lines.concat().into_bytes())
    });
    let junk = prop::collection::vec(any::<u8>(), 0..200);
    let gzip = junk.clone().prop_map(|bytes| [&[0x1f, 0x8b, 8, 0], bytes.as_slice()].concat());
    prop_oneof![1 => junk, 1 => gzip, 6 => text]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn readers(bytes in files(), format in formats(), wants_labels: bool) {
        let mut sentences = Sentences::new(bytes.as_slice(), "bytes", &format).unwrap();
        if !wants_labels {
            sentences = sentences.unlabelled();
        }
        let (mut copy, mut relabelled) = (Vec::new(), Vec::new());
        let mut words = Vec::new();
        let mut is_whole = true;
        for sentence in sentences.by_ref() {
            match sentence {
                Ok(sentence) => {
                    prop_assert!(is_whole, "nothing follows an error");
                    prop_assert!(!sentence.words.is_empty());
                    let n_labels = sentence.labels.len();
                    let is_labelled = wants_labels && format.has_labels();
                    prop_assert_eq!(n_labels, if is_labelled { sentence.words.len() } else { 0 });
                    write_sentence(&mut copy, &sentence, &format, None).unwrap();
                    // A label can be written wherever a word was read.
                    let labels = vec!["L".to_owned(); sentence.words.len()];
                    write_sentence(&mut relabelled, &sentence, &format, Some(&labels)).unwrap();
                    words.push(sentence.words);
                }
                Err(error) => {
                    prop_assert!(error.to_string().contains("bytes"), "{}", error);
                    is_whole = false;
                }
            }
        }
        if !is_whole {
            return Ok(());
        }
        write_lines(&mut copy, sentences.tail()).unwrap();
        let original = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        // A random gzip file that unpacks is not to be expected.
        prop_assert_eq!(&copy, original);

        // The labels that were written are read again, beside the same words.
        let again = match format {
            Format::Columns { token, label, comments } if token >= 0 => {
                Format::Columns { token, label: label.or(Some(-1)), comments }
            }
            Format::ConllU { .. } => format,
            _ => return Ok(()),
        };
        if words.is_empty() {
            return Ok(());
        }
        let sentences: Result<Vec<_>, _> =
            Sentences::new(relabelled.as_slice(), "bytes", &again).unwrap().collect();
        let sentences = sentences.unwrap();
        prop_assert_eq!(sentences.len(), words.len());
        for (sentence, words) in sentences.iter().zip(&words) {
            prop_assert_eq!(&sentence.words, words);
            prop_assert!(sentence.labels.iter().all(|label| label == "L"));
        }
    }

    #[test]
    fn saved_vocabularies(text in "[<unk>\t\n\\\\1a]{0,40}|<unk>\t0\n([ab\\\\t]{1,3}\t[0-9]{1,3}\n){0,4}") {
        if let Ok(vocab) = Vocab::from_tsv("v", &text) {
            prop_assert_eq!(Vocab::from_tsv("v", &vocab.to_tsv()).unwrap(), vocab);
        }
        if let Ok(labels) = LabelSet::from_tsv("v", &text) {
            prop_assert_eq!(LabelSet::from_tsv("v", &labels.to_tsv()).unwrap(), labels);
        }
        let _ = WordStats::from_tsv("v", &text);
    }

    #[test]
    fn any_words_make_a_vocabulary(words in prop::collection::vec(".{0,4}|[\t\n\r\\\\]{1,3}", 0..30), min_count in 0u64..4) {
        let vocab = Vocab::build(words.iter().map(String::as_str), min_count);
        prop_assert_eq!(&Vocab::from_tsv("v", &vocab.to_tsv()).unwrap(), &vocab);
        for (i, word) in words.iter().enumerate() {
            let id = vocab.get(word);
            let n = words.iter().filter(|other| *other == word).count() as u64;
            prop_assert_eq!(id != 0, n >= min_count, "word {}", i);
            if id != 0 {
                prop_assert_eq!((vocab.name(id), vocab.count(id)), (word.as_str(), n));
            }
        }
    }
}
