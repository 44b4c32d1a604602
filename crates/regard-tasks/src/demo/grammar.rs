//! A grammar of short English sentences in which many words have several classes.
//!
//! Three kinds of ambiguity: a neighbour tells (the *saw*, I *saw* it), a neighbour of the
//! neighbour tells (the *light* lamp, the *light* fades), and a word far away tells (*yesterday* …
//! they cut it, *every day* … they cut it).

use regard_data::Sentence;
use regard_tensor::Key;

const PRONOUNS: [&str; 4] = ["I", "you", "we", "they"];
const DETERMINERS: [&str; 4] = ["the", "a", "this", "every"];
const ADJECTIVES: [&str; 6] = ["old", "green", "small", "light", "cold", "fast"];
const NOUNS: [&str; 10] =
    ["cook", "garden", "river", "lamp", "friend", "saw", "light", "cut", "cold", "fast"];
const PREPOSITIONS: [&str; 5] = ["in", "near", "behind", "with", "under"];
/// Past only; one of them is a noun too.
const PAST: [&str; 4] = ["saw", "found", "took", "left"];
/// Present only; two of them are nouns too.
const PRESENT: [&str; 4] = ["see", "find", "cook", "light"];
/// Past and present look alike; one is a noun too.
const EITHER: [&str; 5] = ["cut", "put", "hit", "shut", "read"];
const THEN: [&str; 3] = ["yesterday", "once", "then"];
const NOW: [&str; 3] = ["today", "often", "now"];

/// Draws from a stream of random numbers, one index after another.
struct Draw {
    key: Key,
    next: u32,
}

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.next += 1;
        self.key.below(self.next, n as u32) as usize
    }
    fn one(&mut self, words: &[&'static str]) -> &'static str {
        words[self.below(words.len())]
    }
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

type Tagged = Vec<(&'static str, &'static str)>;

fn noun_phrase(draw: &mut Draw, out: &mut Tagged, depth: usize) {
    if depth == 0 && draw.chance(35) {
        out.push((draw.one(&PRONOUNS), "PRON"));
        return;
    }
    out.push((draw.one(&DETERMINERS), "DET"));
    for _ in 0..2 {
        if draw.chance(30) {
            out.push((draw.one(&ADJECTIVES), "ADJ"));
        }
    }
    out.push((draw.one(&NOUNS), "NOUN"));
    if depth < 2 && draw.chance(30) {
        out.push((draw.one(&PREPOSITIONS), "ADP"));
        noun_phrase(draw, out, depth + 1);
    }
}

fn sentence(draw: &mut Draw) -> Tagged {
    let mut out = Vec::new();
    let past = draw.chance(50);
    let tag = if past { "PAST" } else { "PRES" };
    let time = if past { draw.one(&THEN) } else { draw.one(&NOW) };
    let unclear = draw.chance(60);
    let first = draw.chance(50);
    // The time is named where only it can tell, and often elsewhere.
    let named = unclear || draw.chance(50);
    if named && first {
        out.push((time, "ADV"));
    }
    noun_phrase(draw, &mut out, 0);
    let verbs: &[&str] = match (unclear, past) {
        (true, _) => &EITHER,
        (false, true) => &PAST,
        (false, false) => &PRESENT,
    };
    out.push((draw.one(verbs), tag));
    noun_phrase(draw, &mut out, 1);
    if named && !first {
        out.push((time, "ADV"));
    }
    out.push((".", "PUNCT"));
    out
}

fn to_sentence(tagged: &[(&str, &str)]) -> Sentence {
    Sentence {
        words: tagged.iter().map(|(word, _)| (*word).to_string()).collect(),
        labels: tagged.iter().map(|(_, label)| (*label).to_string()).collect(),
        ..Sentence::default()
    }
}

/// `n` sentences of a seed.
pub(super) fn corpus(seed: u64, n: usize) -> Vec<Sentence> {
    let key = Key::new(seed).named("demo");
    (0..n)
        .map(|i| to_sentence(&sentence(&mut Draw { key: key.child(i as u64), next: 0 })))
        .collect()
}

/// Sentences to look into.
pub(super) fn examples() -> Vec<Sentence> {
    [
        &[("I", "PRON"), ("saw", "PAST"), ("a", "DET"), ("saw", "NOUN"), (".", "PUNCT")][..],
        &[
            ("yesterday", "ADV"),
            ("the", "DET"),
            ("old", "ADJ"),
            ("cook", "NOUN"),
            ("near", "ADP"),
            ("the", "DET"),
            ("river", "NOUN"),
            ("cut", "PAST"),
            ("the", "DET"),
            ("light", "ADJ"),
            ("lamp", "NOUN"),
            (".", "PUNCT"),
        ],
        &[
            ("the", "DET"),
            ("friend", "NOUN"),
            ("in", "ADP"),
            ("this", "DET"),
            ("cold", "ADJ"),
            ("garden", "NOUN"),
            ("hit", "PRES"),
            ("the", "DET"),
            ("light", "NOUN"),
            ("today", "ADV"),
            (".", "PUNCT"),
        ],
    ]
    .map(to_sentence)
    .into()
}
