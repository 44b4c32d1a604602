//! Filling a template, and making texts and data safe inside HTML.

/// `template` with each `{{name}}` replaced by its value. One pass: what a value contains is never
/// taken for a name, whatever words it holds.
///
/// # Panics
///
/// When the template asks for a name that is not given: the template is part of the program.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("a name in the template ends");
        let value = values.iter().find(|(given, _)| *given == name);
        let (_, value) = value.unwrap_or_else(|| panic!("the template asks for {name:?}"));
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    filled
}

/// `text` as HTML content or a quoted attribute.
pub(crate) fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
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

/// JSON that means the same and may stand inside a `<script>` element.
///
/// HTML ends a script at `</script` and changes its reading at `<!--`, whatever the script's
/// language. In JSON, `<`, `>` and `&` occur only inside strings, where an escape means the same.
pub(crate) fn json_in_script(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_read_as_templates() {
        let values = [("a", "{{b}}"), ("b", "{{a}}")];
        assert_eq!(fill("<{{a}} {{b}} {{a}}>", &values), "<{{b}} {{a}} {{b}}>");
    }

    #[test]
    fn json_means_the_same_after_escaping() {
        let words = vec!["</script><!-- <script>", "&amp;", "\"\\u003c\"", "\u{2028}"];
        let json = serde_json::to_string(&words).unwrap();
        let safe = json_in_script(&json);
        assert!(!safe.contains(['<', '>', '&']));
        assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), words);
    }
}
