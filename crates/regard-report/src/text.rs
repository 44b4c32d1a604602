//! Words of any script, put safely into terminals and XML.

/// Columns that `text` takes in a terminal, by the usual rule: 0 for marks that join the letter
/// before, 2 for East Asian wide letters and emoji, 1 for the rest. An estimate: terminals differ.
pub(crate) fn display_width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(c: char) -> usize {
    match c as u32 {
        // Combining marks, zero-width characters, variation selectors, skin tones.
        0x0300..=0x036F
        | 0x0591..=0x05BD
        | 0x064B..=0x065F
        | 0x0E34..=0x0E3A
        | 0x200B..=0x200F
        | 0x20D0..=0x20F0
        | 0xFE00..=0xFE0F
        | 0x1F3FB..=0x1F3FF => 0,
        // Hangul Jamo, CJK, kana, Hangul syllables, full-width forms, emoji.
        0x1100..=0x115F
        | 0x2E80..=0x303E
        | 0x3041..=0xA4CF
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6
        | 0x1F300..=0x1F64F
        | 0x1F680..=0x1F6FF
        | 0x1F900..=0x1F9FF
        | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

/// `text` in one line that a terminal shows as it is: control characters, which could move the
/// cursor or change colours, and marks that reorder text become U+FFFD.
pub(crate) fn terminal_safe(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => '\u{FFFD}',
            c if c.is_control() => '\u{FFFD}',
            c => c,
        })
        .collect()
}

/// `text` cut to at most `width` columns, the last being `…` where something was cut off.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.into();
    }
    let mut short = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += char_width(c);
        if used >= width {
            break;
        }
        short.push(c);
    }
    if width > 0 {
        short.push('…');
    }
    short
}

/// `text` padded with spaces at its end to `width` columns.
pub(crate) fn pad_end(text: &str, width: usize) -> String {
    let spaces = width.saturating_sub(display_width(text));
    format!("{text}{}", " ".repeat(spaces))
}

/// `text` padded with spaces at its start to `width` columns.
pub(crate) fn pad_start(text: &str, width: usize) -> String {
    let spaces = width.saturating_sub(display_width(text));
    format!("{}{text}", " ".repeat(spaces))
}

/// `text` in one line without the characters that XML 1.0 cannot hold, which become U+FFFD.
pub(crate) fn xml_safe(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' | '\n' | '\r' => ' ',
            '\u{0}'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}' => '\u{FFFD}',
            c => c,
        })
        .collect()
}

/// [`xml_safe`] text for XML content and attributes.
pub(crate) fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in xml_safe(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_of_scripts() {
        for (text, width) in
            [("", 0), ("word", 4), ("é", 1), ("e\u{301}", 1), ("我看见", 6), ("👍🏽", 2), ("שלום", 4)]
        {
            assert_eq!(display_width(text), width, "{text}");
        }
    }

    #[test]
    fn shortening_never_exceeds_the_width() {
        for text in ["", "a", "incomprehensible", "我看见我看见", "a我b看c", "👍👍👍"]
        {
            for width in 0..12 {
                let short = shorten(text, width);
                assert!(display_width(&short) <= width, "{text} {width}");
                assert_eq!(short == text, display_width(text) <= width);
            }
        }
        assert_eq!(shorten("abcdef", 4), "abc…");
    }

    #[test]
    fn nothing_hostile_reaches_a_terminal_or_xml() {
        assert_eq!(terminal_safe("\u{1b}[31mred\n\u{202e}x"), "�[31mred��x");
        assert_eq!(
            escape_xml("<a href=\"x\">'&'\u{0}</a>"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;�&lt;/a&gt;"
        );
    }
}
