//! Small texts: rates, durations, names, words for a shell.

use std::path::Path;

/// A rate in [0, 1] in per cent with two decimals; `-` for none.
pub(crate) fn percent(rate: Option<f64>) -> String {
    match rate {
        Some(rate) if rate.is_finite() => format!("{:.2}", 100.0 * rate),
        _ => "-".into(),
    }
}

/// Seconds as `42 s`, `3 min 20 s` or `1 h 05 min`.
pub(crate) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "?".into();
    }
    let s = seconds.round() as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} min", s / 3600, s % 3600 / 60),
    }
}

/// What a figure's key means to a reader.
pub(crate) fn figure(key: &str) -> &str {
    match key {
        "accuracy" => "accuracy",
        "accuracy_unseen" => "on unseen words",
        "accuracy_ambiguous" => "on ambiguous words",
        "span_f1" => "span F1 (conlleval)",
        "span_f1_strict" => "span F1 (strict)",
        "bleu" => "BLEU",
        "chrf" => "chrF",
        other => other,
    }
}

/// A figure's value as it is written: rates in per cent, the others as they are.
pub(crate) fn number(key: &str, value: f64) -> String {
    match key {
        "loss" => format!("{value:.4}"),
        "bleu" | "chrf" | "perplexity" => format!("{value:.2}"),
        _ => percent(Some(value)),
    }
}

/// What stands behind a figure's value.
pub(crate) fn unit(key: &str) -> &'static str {
    match key {
        "loss" | "bleu" | "chrf" | "perplexity" => "",
        _ => " %",
    }
}

/// A path as one word of a shell's line.
pub(crate) fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// `1 word`, `2 words`.
pub(crate) fn count(n: u64, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_words() {
        for (seconds, text) in [
            (0.4, "0 s"),
            (59.6, "1 min 00 s"),
            (200.0, "3 min 20 s"),
            (3900.0, "1 h 05 min"),
            (f64::NAN, "?"),
            (f64::INFINITY, "?"),
        ] {
            assert_eq!(duration(seconds), text);
        }
        for (path, word) in [("a/b-1.x", "a/b-1.x"), ("a b", "'a b'"), ("it's", r"'it'\''s'")] {
            assert_eq!(shell_word(Path::new(path)), word);
        }
        assert_eq!((percent(Some(0.94651)), percent(None)), ("94.65".into(), "-".into()));
    }
}
