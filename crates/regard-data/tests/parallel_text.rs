//! Parallel text as it is: counts of the published files, and tokens that lose nothing.

use regard_data::{
    LengthFilter, PairColumns, Tokeniser, TokeniserKind, TokeniserSettings, read_pair_table,
    read_parallel,
};
use regard_testkit::require_data;

fn trained(kind: TokeniserKind, size: usize, lines: &[&str]) -> Tokeniser {
    let settings = TokeniserSettings { kind, size, min_count: 1, lowercase: false };
    Tokeniser::train(lines.iter().copied(), settings).unwrap()
}

#[test]
fn multi30k() {
    let Some(dir) = require_data("multi30k-de-en") else { return };
    let read = |name: &str| {
        let path = |ending: &str| dir.join(format!("{name}.{ending}.gz"));
        read_parallel(&path("de"), &path("en")).unwrap()
    };
    let train = read("train");
    assert_eq!(train.len(), 29_000);
    assert_eq!(train[28_999].line, 29_000);
    let val = read("val");
    assert_eq!(val.len(), 1014);
    assert_eq!(read("test_2016_flickr").len(), 1000);
    assert_eq!(read("test_2017_mscoco").len(), 461);

    let lines: Vec<&str> =
        train[..2000].iter().flat_map(|p| [p.source.as_str(), p.target.as_str()]).collect();
    for (kind, size) in
        [(TokeniserKind::Bpe, 2000), (TokeniserKind::Unigram, 1000), (TokeniserKind::Char, 1000)]
    {
        let tokeniser = trained(kind, size, &lines);
        assert!(tokeniser.len() <= size, "{kind}");
        for pair in &val {
            for text in [&pair.source, &pair.target] {
                let ids = tokeniser.encode(text).unwrap();
                let back = tokeniser.decode(&ids).unwrap();
                // A character may be missing among 2000 lines.
                assert!(back == *text || kind == TokeniserKind::Char && ids.contains(&0), "{text}");
            }
        }
    }
    // Subwords are some words long: 2000 of them less than twice the words of the text.
    let bpe = trained(TokeniserKind::Bpe, 2000, &lines);
    let tokens: usize = val.iter().map(|p| bpe.encode(&p.source).unwrap().len()).sum();
    let words: usize = val.iter().map(|p| p.source.split_whitespace().count()).sum();
    assert!(words < tokens && tokens < 2 * words, "{tokens} tokens of {words} words");
}

#[test]
fn tatoeba_needs_no_blanks() {
    let Some(dir) = require_data("tatoeba-cmn-eng") else { return };
    let columns = PairColumns::parse("source=1,target=0").unwrap();
    let pairs = read_pair_table(&dir.join("cmn.txt.gz"), &columns).unwrap();
    assert_eq!(pairs.len(), 29_155);
    let lines: Vec<&str> = pairs[..4000].iter().map(|p| p.source.as_str()).collect();
    for (kind, size) in
        [(TokeniserKind::Bpe, 3000), (TokeniserKind::Word, 5000), (TokeniserKind::Char, 5000)]
    {
        let tokeniser = trained(kind, size, &lines);
        let mut tokens = 0;
        let mut chars = 0;
        for line in &lines {
            let ids = tokeniser.encode(line).unwrap();
            tokens += ids.len();
            chars += line.chars().count();
            // Words do not keep a blank beside an ideograph.
            if kind != TokeniserKind::Word {
                assert_eq!(tokeniser.decode(&ids).unwrap(), *line, "{kind}");
            }
        }
        match kind {
            TokeniserKind::Bpe => assert!(10 * tokens < 9 * chars, "{tokens} of {chars}"),
            _ => assert!(10 * tokens > 9 * chars, "{kind}: {tokens} of {chars}"),
        }
    }
    let lengths = pairs.iter().map(|p| (p.source.chars().count(), p.target.len()));
    let (kept, dropped) = LengthFilter { max_tokens: 100, max_ratio: 0.0 }.apply(lengths);
    assert_eq!(kept.len() + dropped.dropped(), 29_155);
    assert_eq!(dropped.empty, 0);
}
