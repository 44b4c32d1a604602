//! Plain text: one sentence a line, its words between white space. A blank line is no sentence.

use crate::sentence::Row;

pub(crate) fn read(text: &str) -> Row {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() { Row::Other } else { Row::Whole(words) }
}

#[cfg(test)]
mod tests {
    use crate::{Format, Sentences, write_lines, write_sentence};

    #[test]
    fn a_line_is_a_sentence_and_labels_make_columns_of_it() {
        let text = "I  saw\ta\u{3000}saw .\n\nYes";
        let mut out = Vec::new();
        let mut sentences = Sentences::new(text.as_bytes(), "f", &Format::Text).unwrap();
        let mut words = Vec::new();
        for sentence in sentences.by_ref() {
            let sentence = sentence.unwrap();
            assert!(sentence.labels.is_empty());
            let labels: Vec<String> = sentence.words.iter().map(|w| w.to_uppercase()).collect();
            write_sentence(&mut out, &sentence, &Format::Text, Some(&labels)).unwrap();
            words.push(sentence.words);
        }
        write_lines(&mut out, sentences.tail()).unwrap();
        assert_eq!(words, [vec!["I", "saw", "a", "saw", "."], vec!["Yes"]]);
        let expected = "I\tI\nsaw\tSAW\na\tA\nsaw\tSAW\n.\t.\n\n\nYes\tYES\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
