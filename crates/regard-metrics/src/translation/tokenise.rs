//! How BLEU divides a line into tokens.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::text::{
    Apart, is_blank, is_number, is_punctuation, is_symbol, is_western_punctuation, space_numbers,
    space_out, space_pairs, without_entities, words,
};
use crate::error::MetricsError;

/// By which rules BLEU divides a line into tokens, named as sacreBLEU 2.6.0 names them. The score depends on them, so
/// that two BLEU scores can be compared only where this is the same.
///
/// | name | rules |
/// |---|---|
/// | `13a` | those of mteval-v13a.pl, which WMT used: ASCII punctuation apart, but for `.` and `,` between digits |
/// | `intl` | those of mteval-v14.pl: all punctuation of Unicode apart unless between digits, all symbols apart |
/// | `zh` | Chinese characters apart, the rest as in `13a` |
/// | `char` | every character but blanks is a token |
/// | `none` | the line is tokenised already: tokens are what stands between blanks |
///
/// ```
/// use regard_metrics::translation::Tokenisation;
///
/// let tokenisation: Tokenisation = "13a".parse()?;
/// assert_eq!(tokenisation.tokenise("He paid 1,234.5 -- twice."), "He paid 1,234.5 -- twice .");
/// assert_eq!(Tokenisation::Zh.tokenise("我有3.5元。"), "我 有 3.5 元 。");
/// # Ok::<(), regard_metrics::MetricsError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tokenisation {
    /// `13a`.
    #[default]
    V13a,
    /// `intl`.
    Intl,
    /// `zh`.
    Zh,
    /// `char`.
    Char,
    /// `none`.
    None,
}

impl Tokenisation {
    /// All of them, the usual one first.
    pub const ALL: [Tokenisation; 5] = [
        Tokenisation::V13a,
        Tokenisation::Intl,
        Tokenisation::Zh,
        Tokenisation::Char,
        Tokenisation::None,
    ];

    /// The name in signatures and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Tokenisation::V13a => "13a",
            Tokenisation::Intl => "intl",
            Tokenisation::Zh => "zh",
            Tokenisation::Char => "char",
            Tokenisation::None => "none",
        }
    }

    /// The tokens of a line, joined by single blanks. Time and memory are linear in the line.
    pub fn tokenise(self, line: &str) -> String {
        let spaced = self.spaced(line);
        let mut out = String::with_capacity(spaced.len());
        for word in words(&spaced) {
            if !out.is_empty() {
                out.push(' ');
            }
            out.push_str(word);
        }
        out
    }

    /// The line with blanks between its tokens: `words` of it are the tokens.
    pub(crate) fn spaced(self, line: &str) -> Cow<'_, str> {
        match self {
            Tokenisation::V13a => v13a(line).into(),
            Tokenisation::Intl => intl(line).into(),
            Tokenisation::Zh => zh(line).into(),
            Tokenisation::Char => space_out(line, |_| true).into(),
            Tokenisation::None => line.into(),
        }
    }
}

impl fmt::Display for Tokenisation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Tokenisation {
    type Err = MetricsError;

    /// # Errors
    /// [`MetricsError::UnknownName`] for a name that is not in the table.
    fn from_str(name: &str) -> Result<Self, MetricsError> {
        Tokenisation::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| {
            MetricsError::UnknownName {
                what: "tokenisation",
                name: name.to_owned(),
                known: "13a, intl, zh, char, none",
            }
        })
    }
}

fn western(text: &str) -> String {
    space_numbers(&space_out(text, is_western_punctuation))
}

/// The blanks around the line let its first and last character have neighbours: a full stop after a number at the end is apart.
fn v13a(line: &str) -> String {
    let line = line.replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    western(&format!(" {} ", without_entities(line)))
}

/// Without blanks around the line: a full stop after a number at the very end stays with it, as in mteval-v14.pl.
fn intl(line: &str) -> String {
    let line = space_pairs(line, Apart::Second, |a, b| is_punctuation(b) && !is_number(a));
    let line = space_pairs(&line, Apart::First, |a, b| is_punctuation(a) && !is_number(b));
    space_out(&line, is_symbol)
}

fn zh(line: &str) -> String {
    western(&space_out(line.trim_matches(is_blank), is_chinese))
}

/// What sacreBLEU's tokeniser `zh` takes for a Chinese character.
///
/// Its table means CJK extension B by `\u20000` to `\u2a6d6`, and the supplement by `\u2f800` to `\u2fa1d`; Python reads each as a
/// character of four digits and a fifth character. As strings are compared, the first takes in everything from U+2001 to U+2A6D (general
/// punctuation, arrows, mathematics), the second U+2F81 to U+2FA1, and the ideographs beyond U+FFFF are not in. Scores must agree, so
/// this is kept.
fn is_chinese(c: char) -> bool {
    matches!(c,
        '\u{2001}'..='\u{2a6d}'
        | '\u{2e80}'..='\u{2fdf}'
        | '\u{2ff0}'..='\u{2fff}'
        | '\u{3000}'..='\u{303f}'
        | '\u{3100}'..='\u{312f}'
        | '\u{31a0}'..='\u{31bf}'
        | '\u{31c0}'..='\u{31ef}'
        | '\u{3200}'..='\u{33ff}'
        | '\u{3400}'..='\u{4db5}'
        | '\u{4e00}'..='\u{9fbb}'
        | '\u{f900}'..='\u{fa2d}'
        | '\u{fa30}'..='\u{fa6a}'
        | '\u{fa70}'..='\u{fad9}'
        | '\u{fe10}'..='\u{fe1f}'
        | '\u{fe30}'..='\u{fe4f}'
        | '\u{ff00}'..='\u{ffef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_decide_about_points_and_hyphens() {
        for (line, tokens) in [
            ("", ""),
            (".", "."),
            ("3.", "3 ."),
            (".5", ". 5"),
            ("a.b", "a . b"),
            ("1,000,000.00", "1,000,000.00"),
            ("1990-95", "1990 - 95"),
            ("well-known", "well-known"),
            ("don't", "don't"),
            ("&amp;lt;&quot;", "< \""),
            ("a<skipped>b", "ab"),
            ("hyphen-\nated\nline", "hyphenated line"),
        ] {
            assert_eq!(Tokenisation::V13a.tokenise(line), tokens, "{line}");
        }
        assert_eq!(Tokenisation::Intl.tokenise("„3.“ 3,5€ 10."), "„3 . “ 3,5 € 10.");
    }

    #[test]
    fn names_read_back() {
        for tokenisation in Tokenisation::ALL {
            assert_eq!(tokenisation.name().parse::<Tokenisation>().unwrap(), tokenisation);
        }
        let error = "moses".parse::<Tokenisation>().unwrap_err().to_string();
        assert_eq!(error, "unknown tokenisation `moses`; known: 13a, intl, zh, char, none");
    }
}
