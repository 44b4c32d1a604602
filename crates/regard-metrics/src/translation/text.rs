//! Characters and blanks as Python sees them, and the rewriting rules that the tokenisers share.

use super::unicode::{NUMBERS, PUNCTUATION, SYMBOLS};

/// Python's `str.isspace` of one character: white space, and the four separators U+001C to U+001F.
pub(crate) fn is_blank(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The pieces between blanks, none of them empty: Python's `text.split()`.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_blank).filter(|word| !word.is_empty())
}

/// The text without the blanks at its end: Python's `text.rstrip()`.
///
/// sacreBLEU's command line reads every line so. For BLEU and TER it makes no difference; chrF that counts blanks would
/// count those at the end too.
///
/// ```
/// assert_eq!(regard_metrics::translation::trim_end(" a b\u{a0}\u{1f}\t"), " a b");
/// ```
pub fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_blank)
}

fn has_category(boundaries: &[u32], c: char) -> bool {
    boundaries.partition_point(|&boundary| boundary <= c as u32) % 2 == 1
}

/// General category P.
pub(crate) fn is_punctuation(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_punctuation() && !is_symbol(c);
    }
    has_category(&PUNCTUATION, c)
}

/// General category S.
pub(crate) fn is_symbol(c: char) -> bool {
    if c.is_ascii() { "$+<=>^`|~".contains(c) } else { has_category(&SYMBOLS, c) }
}

/// General category N.
pub(crate) fn is_number(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { has_category(&NUMBERS, c) }
}

/// A blank before and after every character that `is_apart`.
pub(crate) fn space_out(text: &str, is_apart: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    for c in text.chars() {
        if is_apart(c) {
            out.push(' ');
            out.push(c);
            out.push(' ');
        } else {
            out.push(c);
        }
    }
    out
}

/// Which one of two neighbours gets a blank before and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Apart {
    /// `ab` becomes ` a b`.
    First,
    /// `ab` becomes `a b `.
    Second,
}

/// Puts one of two neighbours apart wherever `is_pair` holds, from the left and without overlap, as a regular expression
/// over two characters is replaced: after a pair the search goes on behind it.
pub(crate) fn space_pairs(
    text: &str,
    apart: Apart,
    is_pair: impl Fn(char, char) -> bool,
) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let mut chars = text.chars();
    let mut current = chars.next();
    while let Some(first) = current {
        current = chars.next();
        let Some(second) = current.filter(|&second| is_pair(first, second)) else {
            out.push(first);
            continue;
        };
        if apart == Apart::First {
            out.push(' ');
        }
        out.extend([first, ' ', second]);
        if apart == Apart::Second {
            out.push(' ');
        }
        current = chars.next();
    }
    out
}

/// The four characters that SGML writes as entities, in the order in which mteval and tercom put them back:
/// `&amp;lt;` ends as `<`.
pub(crate) fn without_entities(text: String) -> String {
    if !text.contains('&') {
        return text;
    }
    let entities = [("&quot;", "\""), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")];
    entities.iter().fold(text, |text, (entity, plain)| text.replace(entity, plain))
}

/// ASCII punctuation but for the apostrophe, comma, hyphen and full stop, which need their neighbours to decide.
pub(crate) fn is_western_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() && !matches!(c, '\'' | ',' | '-' | '.')
}

/// Full stop and comma apart from everything but digits, and a hyphen apart from a digit before it: the last rules of both
/// mteval-v13a and tercom.
pub(crate) fn space_numbers(text: &str) -> String {
    let is_point = |c: char| matches!(c, '.' | ',');
    let is_digit = |c: char| c.is_ascii_digit();
    let text = space_pairs(text, Apart::Second, |a, b| is_point(b) && !is_digit(a));
    let text = space_pairs(&text, Apart::First, |a, b| is_point(a) && !is_digit(b));
    space_pairs(&text, Apart::Second, |a, b| b == '-' && is_digit(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_shortcuts_agree_with_the_tables() {
        for c in (0..128).map(char::from) {
            for (shortcut, table) in [
                (is_punctuation(c), &PUNCTUATION[..]),
                (is_symbol(c), &SYMBOLS[..]),
                (is_number(c), &NUMBERS[..]),
            ] {
                assert_eq!(shortcut, has_category(table, c), "{c:?}");
            }
        }
        for table in [&PUNCTUATION[..], &SYMBOLS[..], &NUMBERS[..]] {
            assert!(table.is_sorted_by(|a, b| a < b) && table.len() % 2 == 0);
        }
    }

    /// `scripts/golden/translation.py` counts the code points of each category and adds them up.
    #[test]
    fn categories_are_those_of_python() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/golden/translation.json");
        let golden = std::fs::read_to_string(path).unwrap();
        let golden: serde_json::Value = serde_json::from_str(&golden).unwrap();
        let count = |name: &str, is_member: fn(char) -> bool| {
            let codes = || ('\0'..=char::MAX).filter(|&c| is_member(c)).map(u64::from);
            let found = [codes().count() as u64, codes().sum()];
            assert_eq!(serde_json::json!(found), golden["categories"][name], "{name}");
        };
        count("P", is_punctuation);
        count("S", is_symbol);
        count("N", is_number);
    }

    #[test]
    fn pairs_do_not_overlap() {
        let dots = |a: char, b: char| a == '.' && b == '.';
        for (text, first, second) in [
            ("", "", ""),
            (".", ".", "."),
            ("..", " . .", ". . "),
            ("...", " . ..", ". . ."),
            ("....", " . . . .", ". . . . "),
            ("a..b", "a . .b", "a. . b"),
        ] {
            assert_eq!(space_pairs(text, Apart::First, dots), first, "{text}");
            assert_eq!(space_pairs(text, Apart::Second, dots), second, "{text}");
        }
    }

    #[test]
    fn blanks_are_those_of_python() {
        let text = "\u{1c}a\u{85}b\u{3000}\u{2028}c\u{200b}d\u{feff}\u{1f}";
        assert_eq!(words(text).collect::<Vec<_>>(), ["a", "b", "c\u{200b}d\u{feff}"]);
        assert_eq!(trim_end(text), &text[..text.len() - 1]);
    }
}
