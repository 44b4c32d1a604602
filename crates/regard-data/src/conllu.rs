//! CoNLL-U (Universal Dependencies): ten tab-separated columns a word, a blank line after each sentence, `#`
//! comments. Lines of multiword tokens (`1-2`) and of empty nodes (`3.1`) are kept as lines
//! but are not words. See <https://universaldependencies.org/format.html>.

use std::fmt;

use crate::error::{DataError, Place, nearest};
use crate::sentence::{Row, Separator, is_blank};

const N_COLUMNS: usize = 10;
const FORM: usize = 1;
const FEATS: usize = 5;

/// The column of a CoNLL-U file that is the label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConllUColumn {
    /// The lemma.
    Lemma,
    /// The universal part of speech.
    Upos,
    /// The language's own part of speech.
    Xpos,
    /// All morphological features, as one label.
    Feats,
    /// The id of the head.
    Head,
    /// The relation to the head.
    Deprel,
    /// The enhanced graph.
    Deps,
    /// Anything else.
    Misc,
    /// The value of one feature of FEATS, such as `Number`; `_` where a word lacks it.
    Feature(String),
}

/// Names and positions in the line.
const COLUMNS: [(&str, ConllUColumn, usize); 8] = [
    ("lemma", ConllUColumn::Lemma, 2),
    ("upos", ConllUColumn::Upos, 3),
    ("xpos", ConllUColumn::Xpos, 4),
    ("feats", ConllUColumn::Feats, FEATS),
    ("head", ConllUColumn::Head, 6),
    ("deprel", ConllUColumn::Deprel, 7),
    ("deps", ConllUColumn::Deps, 8),
    ("misc", ConllUColumn::Misc, 9),
];

impl ConllUColumn {
    /// From a name in any case, or `feats:NAME` (the feature's name as it stands in the file);
    /// empty: UPOS.
    pub(crate) fn parse(name: &str) -> Result<Self, DataError> {
        let lower = name.to_lowercase();
        if lower.is_empty() {
            return Ok(Self::Upos);
        }
        if let Some((_, column, _)) = COLUMNS.into_iter().find(|(known, ..)| *known == lower) {
            return Ok(column);
        }
        let is_feature = |name: &&str| !name.is_empty() && !name.contains(['=', '|', '\t', ' ']);
        if let Some(("feats", _)) = lower.split_once(':')
            && let Some(feature) = name.get("feats:".len()..).filter(is_feature)
        {
            return Ok(Self::Feature(feature.to_owned()));
        }
        Err(DataError::UnknownColumn {
            column: name.to_owned(),
            format: "conllu",
            nearest: nearest(name, &COLUMNS.map(|(known, ..)| known)),
            choices: "one of lemma, upos, xpos, feats, head, deprel, deps, misc, or a feature as in \
                      feats:Number",
        })
    }

    fn position(&self) -> usize {
        COLUMNS
            .iter()
            .find(|(_, column, _)| column == self)
            .map_or(FEATS, |(_, _, position)| *position)
    }
}

impl fmt::Display for ConllUColumn {
    /// The name that gives this column in [`Format::parse`](crate::Format::parse).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Feature(name) = self {
            return write!(f, "feats:{name}");
        }
        let known = COLUMNS.iter().find(|(_, column, _)| column == self);
        f.write_str(known.map_or("", |(name, ..)| name))
    }
}

/// Reads line after line; knows the last id of the current sentence.
#[derive(Debug, Default)]
pub(crate) struct ConllURows {
    last_id: u64,
}

impl ConllURows {
    pub(crate) fn read(
        &mut self,
        place: Place,
        column: &ConllUColumn,
        wants_label: bool,
    ) -> Result<Row, DataError> {
        if is_blank(place.text) {
            self.last_id = 0;
            return Ok(Row::Blank);
        }
        if place.text.starts_with('#') {
            return Ok(Row::Other);
        }
        let mut cells = [""; N_COLUMNS];
        let mut n_cells = 0;
        for cell in place.text.split('\t') {
            if let Some(slot) = cells.get_mut(n_cells) {
                *slot = cell;
            }
            n_cells += 1;
        }
        if n_cells != N_COLUMNS {
            return Err(place.wrong_columns(
                n_cells,
                N_COLUMNS,
                "CoNLL-U has ten columns separated by tabs; for other files choose the format columns",
            ));
        }
        if cells[0].split_once(['-', '.']).is_some_and(|(a, b)| is_number(a) && is_number(b)) {
            return Ok(Row::Other);
        }
        let id = Some(cells[0]).filter(|id| is_number(id)).and_then(|id| id.parse().ok());
        match id {
            Some(id) if id > self.last_id => self.last_id = id,
            _ => return Err(place.bad_id(cells[0], self.last_id)),
        }
        if is_blank(cells[FORM]) {
            return Err(place.empty_cell("token"));
        }
        let mut label = cells[column.position()];
        if let ConllUColumn::Feature(name) = column {
            // Checked whether a label is wanted or not: one will be written here.
            label = feature(label, name).map_err(|part| place.bad_feature(part))?;
        }
        if wants_label && is_blank(label) {
            return Err(place.empty_cell("label"));
        }
        Ok(Row::Word {
            word: cells[FORM].to_owned(),
            label: wants_label.then(|| label.to_owned()),
            separator: Separator::Tab,
        })
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The value of a feature in `A=1|B=2`, `_` where it is not there; the first part that is
/// not `Name=Value` is the error.
fn feature<'a>(feats: &'a str, name: &str) -> Result<&'a str, &'a str> {
    if feats == "_" {
        return Ok("_");
    }
    let mut found = "_";
    for part in feats.split('|') {
        match part.split_once('=') {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => {
                if key == name {
                    found = value;
                }
            }
            _ => return Err(part),
        }
    }
    Ok(found)
}

/// `feats` with the feature set to `value`, or taken out where `value` is `_`. A new one goes where the
/// order (by name, whatever the case) has its place.
fn set_feature(feats: &str, name: &str, value: &str) -> String {
    let key = |part: &str| part.split('=').next().unwrap_or(part).to_owned();
    let mut parts: Vec<String> =
        feats.split('|').filter(|part| *part != "_").map(str::to_owned).collect();
    let present = parts.iter().position(|part| key(part) == name);
    match (present, value) {
        (Some(at), "_") => {
            parts.remove(at);
        }
        (Some(at), _) => parts[at] = format!("{name}={value}"),
        (None, "_") => {}
        (None, _) => {
            let lower = name.to_lowercase();
            let at = parts.iter().position(|part| key(part).to_lowercase() > lower);
            parts.insert(at.unwrap_or(parts.len()), format!("{name}={value}"));
        }
    }
    if parts.is_empty() { "_".to_owned() } else { parts.join("|") }
}

/// The line with the label in its column.
pub(crate) fn fill(place: Place, column: &ConllUColumn, label: &str) -> Result<String, DataError> {
    let mut cells: Vec<&str> = place.text.split('\t').collect();
    if cells.len() != N_COLUMNS {
        let remedy = "write a sentence in the format that it was read in";
        return Err(place.wrong_columns(cells.len(), N_COLUMNS, remedy));
    }
    let position = column.position();
    let feats;
    cells[position] = match column {
        ConllUColumn::Feature(name) => {
            feats = set_feature(cells[position], name, label);
            &feats
        }
        _ => label,
    };
    Ok(cells.join("\t"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Sentence, Sentences, write_sentence};

    const TEXT: &str = "# text = vámonos al mar\n\
        1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_\n\
        1\tvamos\tir\tVERB\t_\tMood=Imp|Number=Plur\t0\troot\t_\t_\n\
        2\tnos\tnosotros\tPRON\t_\tCase=Acc|Number=Plur\t1\tobj\t_\t_\n\
        2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\
        3\tal mar\tmar\tNOUN\t_\t_\t1\tobl\t_\t_\n\n";

    fn read(text: &str, column: &str) -> Result<Vec<Sentence>, DataError> {
        let format = Format::ConllU { label: ConllUColumn::parse(column)? };
        Sentences::new(text.as_bytes(), "f", &format)?.collect()
    }

    #[test]
    fn any_column_is_the_label() {
        for (column, labels) in [
            ("", ["VERB", "PRON", "NOUN"]),
            ("LEMMA", ["ir", "nosotros", "mar"]),
            ("feats", ["Mood=Imp|Number=Plur", "Case=Acc|Number=Plur", "_"]),
            ("head", ["0", "1", "1"]),
            ("deprel", ["root", "obj", "obl"]),
            ("feats:Number", ["Plur", "Plur", "_"]),
            ("feats:Case", ["_", "Acc", "_"]),
        ] {
            let sentences = read(TEXT, column).unwrap();
            assert_eq!(sentences.len(), 1);
            assert_eq!(sentences[0].words, ["vamos", "nos", "al mar"]);
            assert_eq!(sentences[0].labels, labels, "{column}");
            assert_eq!(sentences[0].lines.len(), 7);
        }
    }

    #[test]
    fn a_label_changes_its_column_alone() {
        let format = Format::ConllU { label: ConllUColumn::Feature("Gender".into()) };
        let sentence = &read(TEXT, "feats:Gender").unwrap()[0];
        let mut out = Vec::new();
        let labels = ["_", "Masc", "Masc"].map(str::to_owned);
        write_sentence(&mut out, sentence, &format, Some(&labels)).unwrap();
        let expected = TEXT
            .replace("Case=Acc|Number", "Case=Acc|Gender=Masc|Number")
            .replace("NOUN\t_\t_", "NOUN\t_\tGender=Masc");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn features_stay_sorted_whatever_the_case() {
        for (feats, value, expected) in [
            ("_", "x", "n=x"),
            ("_", "_", "_"),
            ("n=y", "x", "n=x"),
            ("n=y", "_", "_"),
            ("A=1|Z=2", "x", "A=1|n=x|Z=2"),
            ("A=1|n=y|Z=2", "_", "A=1|Z=2"),
            ("A=1", "x", "A=1|n=x"),
            ("o=1", "x", "n=x|o=1"),
        ] {
            assert_eq!(set_feature(feats, "n", value), expected);
            assert_eq!(feature(expected, "n"), Ok(value));
        }
    }

    #[test]
    fn broken_lines_are_named() {
        let line = "1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n";
        for (text, message) in [
            (line.replace("\troot", ""), "f, line 2: 9 columns, expected 10: \"1\\ta"),
            (line.replace('\n', "\t\n"), "f, line 2: 11 columns"),
            (line.replace('1', "x"), "\"x\" is no word id that may follow 0"),
            (line.replace('1', ""), "\"\" is no word id"),
            (line.replace('1', "1-"), "\"1-\" is no word id"),
            (line.replace('1', "99999999999999999999"), "is no word id"),
            (format!("{line}{line}"), "f, line 3: \"1\" is no word id that may follow 1"),
            (line.replace("\ta\ta", "\t\ta"), "the token is empty"),
        ] {
            let error = read(&format!("# c\n{text}\n"), "").unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let error = read(&line.replace("_\t_\t0", "_\tA=1|B\t0"), "feats:A").unwrap_err();
        assert!(error.to_string().contains("\"B\" is not Name=Value"), "{error}");
        let error = read(&line.replace('X', ""), "").unwrap_err();
        assert!(error.to_string().contains("the label is empty"), "{error}");
        assert!(read(&line.replace('X', ""), "head").is_ok());
    }
}
