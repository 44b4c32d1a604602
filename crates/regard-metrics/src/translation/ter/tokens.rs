//! tercom's words.

use super::Ter;
use crate::translation::text::{
    is_western_punctuation, space_numbers, space_out, without_entities, words,
};

/// The line with blanks between its words: case, then normalisation, then punctuation removed.
pub(super) fn spaced(ter: Ter, line: &str) -> String {
    let mut text = if ter.case_sensitive { line.to_owned() } else { line.to_lowercase() };
    if ter.normalized {
        text = normalized(&text);
        if ter.asian_support {
            text = space_out(&text, |c| is_asian(c) || is_asian_punctuation(c));
        }
    }
    if ter.no_punct {
        let is_removed = |c| is_mark(c) || ter.asian_support && is_asian_punctuation(c);
        text.retain(|c| !is_removed(c));
    }
    text
}

/// As [`spaced`] for a reference, which sacreBLEU normalises twice. Once is not always enough: the possessive of `Anna's\u{a0}hat` is parted only
/// when the first time has made the blank behind it a plain one. Hypotheses are normalised once.
pub(super) fn spaced_reference(ter: Ter, line: &str) -> String {
    let once = spaced(ter, line);
    if !ter.normalized {
        return once;
    }
    spaced(ter, &words(&once).collect::<Vec<_>>().join(" "))
}

fn normalized(text: &str) -> String {
    let text = text.replace("\n-", "").replace('\n', " ");
    let text = format!(" {} ", without_entities(text));
    // The blank at the end lets every possessive be followed by one.
    let text = space_out(&text, is_western_punctuation).replace("'s ", " 's ");
    space_numbers(&text)
}

/// What `no_punct` removes.
fn is_mark(c: char) -> bool {
    matches!(c, '.' | ',' | '?' | ':' | ';' | '!' | '"' | '(' | ')')
}

/// Ideographs, their strokes, radicals and compatibility forms.
///
/// tercom's rules for runs of hiragana and katakana are not here: as sacreBLEU writes them, they ask for the beginning of the text before and its end after the
/// run, where normalisation has put blanks.
fn is_asian(c: char) -> bool {
    matches!(c,
        '\u{2e80}'..='\u{2eff}'
        | '\u{31c0}'..='\u{31ef}'
        | '\u{3200}'..='\u{3f22}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe4f}')
}

/// Punctuation of Chinese and Japanese, full-width forms among it.
fn is_asian_punctuation(c: char) -> bool {
    matches!(c,
        '\u{3001}' | '\u{3002}'
        | '\u{3008}'..='\u{3011}'
        | '\u{3014}'..='\u{301f}'
        | '\u{30fb}'
        | '\u{ff01}' | '\u{ff02}' | '\u{ff08}' | '\u{ff09}' | '\u{ff0c}' | '\u{ff0e}'
        | '\u{ff1a}' | '\u{ff1b}' | '\u{ff1f}'
        | '\u{ff61}'..='\u{ff65}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_changes_its_own_part() {
        let line = "Peter's “book”, p. 3.5 &amp; 我们（好）。";
        let plain = Ter::default();
        let normalized = Ter { normalized: true, ..plain };
        let asian = Ter { asian_support: true, ..normalized };
        for (ter, tokens) in [
            (plain, "peter's “book”, p. 3.5 &amp; 我们（好）。"),
            (Ter { case_sensitive: true, ..plain }, "Peter's “book”, p. 3.5 &amp; 我们（好）。"),
            (Ter { asian_support: true, ..plain }, "peter's “book”, p. 3.5 &amp; 我们（好）。"),
            (normalized, "peter 's “book” , p . 3.5 & 我们（好）。"),
            (asian, "peter 's “book” , p . 3.5 & 我 们 （ 好 ） 。"),
            (Ter { no_punct: true, ..plain }, "peter's “book” p 35 &amp 我们（好）。"),
            (Ter { no_punct: true, ..asian }, "peter 's “book” p 35 & 我 们 好"),
        ] {
            let spaced = spaced(ter, line);
            assert_eq!(words(&spaced).collect::<Vec<_>>().join(" "), tokens, "{ter:?}");
        }
        let line = "Anna's\u{a0}hat";
        let once = super::spaced(normalized, line);
        assert_eq!(words(&once).collect::<Vec<_>>(), ["anna's", "hat"]);
        let twice = spaced_reference(normalized, line);
        assert_eq!(words(&twice).collect::<Vec<_>>(), ["anna", "'s", "hat"]);
    }
}
