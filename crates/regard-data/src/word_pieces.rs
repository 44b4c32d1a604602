//! Words of raw text, and raw text again from words.
//!
//! A token that stood right behind the one before it begins with [`JOINER`], so that the text comes back
//! as it was but for the number of blanks between words:
//!
//! ```text
//! A dog's ball, red.  →  A dog ￭' ￭s ball ￭, red ￭.
//! ```
//!
//! Ideographs and kana are a token each, and need no joiner: no blank is written beside them. So is
//! `<unk>`, which the text of tokens has for an unknown one.

use crate::vocab::UNK;

/// What begins a token that is to be joined to the one before it.
pub(crate) const JOINER: char = '￭';

/// The tokens of a text.
pub(crate) fn split(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    // What stood before: nothing or a blank, an ideograph, letters that can go on, or a mark.
    let mut before = Class::Blank;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix(UNK) {
            tokens.push(UNK.to_owned());
            (before, rest) = (Class::Mark, after);
            continue;
        }
        rest = &rest[c.len_utf8()..];
        let class = Class::of(c);
        match (before, class) {
            (_, Class::Blank) => {}
            (Class::Word, Class::Word) => {
                if let Some(last) = tokens.last_mut() {
                    last.push(c);
                }
            }
            (Class::Blank | Class::Ideograph, _) | (_, Class::Ideograph) => {
                tokens.push(c.to_string());
            }
            _ => tokens.push([JOINER, c].iter().collect()),
        }
        before = class;
    }
    tokens
}

/// The text of tokens.
pub(crate) fn join<'a>(tokens: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    let mut after_ideograph = true;
    for token in tokens {
        let is_ideograph = token.chars().next().is_some_and(is_ideograph);
        // A joiner alone is a token that the text had itself.
        let joined = token.strip_prefix(JOINER).filter(|rest| !rest.is_empty());
        if joined.is_none() && !after_ideograph && !is_ideograph {
            text.push(' ');
        }
        text.push_str(joined.unwrap_or(token));
        after_ideograph = is_ideograph;
    }
    text
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Blank,
    Word,
    Ideograph,
    Mark,
}

impl Class {
    fn of(c: char) -> Self {
        match c {
            _ if c.is_whitespace() => Self::Blank,
            _ if is_ideograph(c) => Self::Ideograph,
            // Accents that stand behind their letter belong to the word.
            _ if c.is_alphanumeric() || ('\u{300}'..='\u{36f}').contains(&c) => Self::Word,
            _ => Self::Mark,
        }
    }
}

/// Characters that are written without blanks between them: ideographs and kana.
fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x323af)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn joined(tokens: &[String]) -> String {
        join(tokens.iter().map(String::as_str))
    }

    #[test]
    fn marks_are_tokens_and_know_what_they_stood_behind() {
        let tokens = split("A dog's ball, \"red\".");
        assert_eq!(tokens, ["A", "dog", "￭'", "￭s", "ball", "￭,", "\"", "￭red", "￭\"", "￭."]);
        assert_eq!(joined(&tokens), "A dog's ball, \"red\".");
        assert_eq!(split("我有 2台iPad。"), ["我", "有", "2", "台", "iPad", "￭。"]);
        assert_eq!(joined(&split("我有 2台iPad。")), "我有2台iPad。");
        assert_eq!(split("cafe\u{301}s"), ["cafe\u{301}s"]);
        for text in ["￭", "a ￭ b", "a￭b", "￭￭", ""] {
            assert_eq!(joined(&split(text)), text);
        }
    }

    #[test]
    fn an_unknown_token_that_was_written_is_one_token_again() {
        for tokens in
            [&["a", UNK, UNK, "￭."][..], &[UNK, "￭s", "ball"], &["我", UNK, "有"], &["￭<", "￭unk"]]
        {
            let text = join(tokens.iter().copied());
            let again = split(&text);
            assert_eq!(
                again.iter().filter(|t| *t == UNK).count(),
                tokens.iter().filter(|t| **t == UNK).count()
            );
            assert_eq!(joined(&again), text);
        }
        assert_eq!(split("a <unk>."), ["a", UNK, "￭."]);
    }

    proptest! {
        /// Text without ideographs comes back, but for the number of blanks.
        #[test]
        fn nothing_is_lost(text in "[a-zA-Z0-9ßé.,!?'\"() ￭$-]{0,40}") {
            let words: Vec<&str> = text.split_whitespace().collect();
            prop_assert_eq!(joined(&split(&text)), words.join(" "));
        }
    }
}
