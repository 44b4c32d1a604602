//! Expected numbers from outside: `scripts/golden/NAME.json`, written by
//! `scripts/golden/NAME.py` with another implementation and read here without it.
//!
//! ```json
//! {
//!   "header": {"torch": "2.x", "seed": 1, "dtype": "float64", "command": "python scripts/golden/NAME.py"},
//!   "cases": [
//!     {
//!       "name": "with bias",
//!       "attrs": {"eps": 1e-5, "activation": "gelu", "causal": true, "lengths": [3, 1]},
//!       "arrays": {"x": {"shape": [2, 3], "data": [0.1, 0.2, 0.3, 0.4, 0.5, "-inf"]}}
//!     }
//!   ]
//! }
//! ```
//!
//! Arrays are flat and row-major. JSON has no infinities and no NaN: they are the strings
//! `"inf"`, `"-inf"` and `"nan"`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

/// One golden file.
#[derive(Debug)]
pub struct Golden {
    header: Map<String, Value>,
    cases: Vec<Case>,
}

/// One named case of a golden file: inputs, settings and what they must give.
#[derive(Debug)]
pub struct Case {
    /// `scripts/golden/NAME.json, case "NAME"`, for messages.
    place: String,
    name: String,
    attrs: BTreeMap<String, Value>,
    arrays: BTreeMap<String, Array>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Array {
    shape: Vec<usize>,
    data: Vec<Number>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    header: Map<String, Value>,
    cases: Vec<CaseText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseText {
    name: String,
    #[serde(default)]
    attrs: BTreeMap<String, Value>,
    arrays: BTreeMap<String, Array>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "a number, \"inf\", \"-inf\" or \"nan\"")]
enum Number {
    Finite(f64),
    Other(NotFinite),
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum NotFinite {
    #[serde(rename = "inf")]
    Infinity,
    #[serde(rename = "-inf")]
    MinusInfinity,
    #[serde(rename = "nan")]
    Nan,
}

impl Number {
    fn value(self) -> f64 {
        match self {
            Self::Finite(x) => x,
            Self::Other(NotFinite::Infinity) => f64::INFINITY,
            Self::Other(NotFinite::MinusInfinity) => f64::NEG_INFINITY,
            Self::Other(NotFinite::Nan) => f64::NAN,
        }
    }
}

impl Golden {
    /// Reads `scripts/golden/NAME.json` of the workspace.
    ///
    /// # Panics
    /// If there is no such file, or it is not as the [module](self) says.
    #[track_caller]
    pub fn load(name: &str) -> Self {
        let file = format!("scripts/golden/{name}.json");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(&file);
        match std::fs::read_to_string(path) {
            Ok(text) => Self::from_text(&file, &text),
            Err(error) => {
                panic!("{file}: {error}; write it with `python scripts/golden/{name}.py`")
            }
        }
    }

    #[track_caller]
    fn from_text(file: &str, text: &str) -> Self {
        let parsed: FileText =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        for key in ["torch", "seed", "dtype", "command"] {
            assert!(parsed.header.contains_key(key), "{file}: the header lacks {key:?}");
        }
        assert!(!parsed.cases.is_empty(), "{file}: there is no case");

        let mut cases: Vec<Case> = Vec::new();
        for CaseText { name, attrs, arrays } in parsed.cases {
            let place = format!("{file}, case {name:?}");
            assert!(
                cases.iter().all(|case| case.name != name),
                "{place}: there are two of this name"
            );
            for (key, Array { shape, data }) in &arrays {
                assert_eq!(
                    shape.iter().product::<usize>(),
                    data.len(),
                    "{place}, array {key:?}: shape {shape:?} does not fit the number of entries"
                );
            }
            cases.push(Case { place, name, attrs, arrays });
        }
        Self { header: parsed.header, cases }
    }

    /// An entry of the header, such as `dtype`, as text.
    ///
    /// # Panics
    /// If the header has no such entry.
    #[track_caller]
    pub fn header(&self, key: &str) -> String {
        match self.header.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => panic!("the header lacks {key:?}"),
        }
    }

    /// All cases, in the order of the file; at least one.
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// The case of this name.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn case(&self, name: &str) -> &Case {
        self.cases.iter().find(|case| case.name == name).unwrap_or_else(|| {
            let names: Vec<&str> = self.cases.iter().map(Case::name).collect();
            panic!("there is no case {name:?}, only {names:?}")
        })
    }
}

impl Case {
    /// What the file calls this case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An array's shape and its entries, row-major.
    ///
    /// # Panics
    /// If there is no array of this name.
    #[track_caller]
    pub fn array(&self, key: &str) -> (Vec<usize>, Vec<f64>) {
        self.optional_array(key)
            .unwrap_or_else(|| panic!("{}: there is no array {key:?}", self.place))
    }

    /// [`array`](Self::array), or `None` where this case lacks it.
    pub fn optional_array(&self, key: &str) -> Option<(Vec<usize>, Vec<f64>)> {
        let array = self.arrays.get(key)?;
        let data = array.data.iter().map(|number| number.value()).collect();
        Some((array.shape.clone(), data))
    }

    /// Whether this case has an attribute of this name.
    pub fn has_attr(&self, key: &str) -> bool {
        self.attrs.contains_key(key)
    }

    /// A number among the attributes.
    ///
    /// # Panics
    /// If there is no attribute of this name, or it is not a number.
    #[track_caller]
    pub fn scalar(&self, key: &str) -> f64 {
        self.attr(key, "a number", Value::as_f64)
    }

    /// A whole number, zero or more, among the attributes.
    ///
    /// # Panics
    /// If there is no attribute of this name, or it is something else.
    #[track_caller]
    pub fn size(&self, key: &str) -> usize {
        self.attr(key, "a whole number", as_size)
    }

    /// A list of whole numbers, zero or more, among the attributes.
    ///
    /// # Panics
    /// If there is no attribute of this name, or it is something else.
    #[track_caller]
    pub fn sizes(&self, key: &str) -> Vec<usize> {
        self.attr(key, "a list of whole numbers", |value| {
            value.as_array()?.iter().map(as_size).collect()
        })
    }

    /// A list of numbers among the attributes; lists within it are joined.
    ///
    /// # Panics
    /// If there is no attribute of this name, or it is something else.
    #[track_caller]
    pub fn numbers(&self, key: &str) -> Vec<f64> {
        self.attr(key, "a list of numbers", |value| as_numbers(value).filter(|_| value.is_array()))
    }

    /// A text among the attributes.
    ///
    /// # Panics
    /// If there is no attribute of this name, or it is not a text.
    #[track_caller]
    pub fn text(&self, key: &str) -> &str {
        self.attr(key, "a text", Value::as_str)
    }

    /// A yes or no among the attributes.
    ///
    /// # Panics
    /// If there is no attribute of this name, or it is neither.
    #[track_caller]
    pub fn flag(&self, key: &str) -> bool {
        self.attr(key, "true or false", Value::as_bool)
    }

    #[track_caller]
    fn attr<'a, T>(&'a self, key: &str, kind: &str, read: impl Fn(&'a Value) -> Option<T>) -> T {
        let Some(value) = self.attrs.get(key) else {
            panic!("{}: there is no attribute {key:?}", self.place)
        };
        read(value)
            .unwrap_or_else(|| panic!("{}, attribute {key:?}: {value} is not {kind}", self.place))
    }
}

fn as_size(value: &Value) -> Option<usize> {
    value.as_u64()?.try_into().ok()
}

fn as_numbers(value: &Value) -> Option<Vec<f64>> {
    match value {
        Value::Array(values) => {
            let lists = values.iter().map(as_numbers);
            Some(lists.collect::<Option<Vec<_>>>()?.concat())
        }
        _ => Some(vec![value.as_f64()?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tolerance::{Bound, assert_close};

    const HEADER: &str =
        r#""header": {"torch": "2.1", "seed": 3, "dtype": "float64", "command": "python x.py"}"#;

    fn golden(cases: &str) -> Golden {
        Golden::from_text("x.json", &format!("{{{HEADER}, \"cases\": [{cases}]}}"))
    }

    #[test]
    fn reads_what_is_written() {
        let golden = golden(
            r#"{"name": "a",
                "attrs": {"eps": 1e-5, "heads": 4, "lengths": [3, 0], "act": "gelu", "causal": true,
                          "targets": [2, -100], "rows": [[0, 1], [2, 3]], "none": []},
                "arrays": {"x": {"shape": [2, 2], "data": [1, 0.1, "-inf", "nan"]},
                           "empty": {"shape": [0, 7], "data": []},
                           "scalar": {"shape": [], "data": [2.5]}}},
               {"name": "b", "arrays": {}}"#,
        );
        assert_eq!(golden.header("dtype"), "float64");
        assert_eq!(golden.header("seed"), "3");
        let names: Vec<&str> = golden.cases().iter().map(Case::name).collect();
        assert_eq!(names, ["a", "b"]);

        let case = golden.case("a");
        let (shape, data) = case.array("x");
        assert_eq!(shape, [2, 2]);
        assert_eq!(data[..3], [1.0, 0.1, f64::NEG_INFINITY]);
        assert!(data[3].is_nan());
        assert_eq!(case.array("empty"), (vec![0, 7], vec![]));
        assert_eq!(case.array("scalar"), (vec![], vec![2.5]));
        assert_eq!(case.optional_array("y"), None);

        assert_eq!(case.scalar("eps"), 1e-5);
        assert_eq!(case.scalar("heads"), 4.0);
        assert_eq!(case.size("heads"), 4);
        assert_eq!(case.sizes("lengths"), [3, 0]);
        assert_eq!(case.text("act"), "gelu");
        assert!(case.flag("causal"));
        assert_eq!(case.numbers("targets"), [2.0, -100.0]);
        assert_eq!(case.numbers("rows"), [0.0, 1.0, 2.0, 3.0]);
        assert!(case.numbers("none").is_empty() && case.has_attr("none") && !case.has_attr("x"));
    }

    #[test]
    #[should_panic(expected = "there is no case \"c\", only [\"a\"]")]
    fn names_the_cases_that_there_are() {
        golden(r#"{"name": "a", "arrays": {}}"#).case("c");
    }

    #[test]
    #[should_panic(expected = "x.json, case \"a\": there is no array \"y\"")]
    fn names_a_missing_array() {
        golden(r#"{"name": "a", "arrays": {}}"#).case("a").array("y");
    }

    #[test]
    #[should_panic(expected = "x.json, case \"a\", attribute \"k\": -1 is not a whole number")]
    fn names_an_attribute_of_another_kind() {
        golden(r#"{"name": "a", "attrs": {"k": -1}, "arrays": {}}"#).case("a").size("k");
    }

    #[test]
    #[should_panic(expected = "x.json, case \"a\", array \"x\": shape [2, 3] does not fit")]
    fn shape_and_entries_must_agree() {
        golden(r#"{"name": "a", "arrays": {"x": {"shape": [2, 3], "data": [1]}}}"#);
    }

    #[test]
    #[should_panic(expected = "a number, \"inf\", \"-inf\" or \"nan\"")]
    fn other_texts_are_no_numbers() {
        golden(r#"{"name": "a", "arrays": {"x": {"shape": [1], "data": ["one"]}}}"#);
    }

    #[test]
    #[should_panic(expected = "two of this name")]
    fn names_are_unique() {
        golden(r#"{"name": "a", "arrays": {}}, {"name": "a", "arrays": {}}"#);
    }

    #[test]
    #[should_panic(expected = "x.json: there is no case")]
    fn a_file_without_cases_tests_nothing() {
        golden("");
    }

    #[test]
    #[should_panic(expected = "the header lacks \"torch\"")]
    fn the_header_says_where_the_numbers_are_from() {
        Golden::from_text("x.json", r#"{"header": {}, "cases": []}"#);
    }

    #[test]
    #[should_panic(expected = "write it with `python scripts/golden/no-such-file.py`")]
    fn a_missing_file_says_how_to_make_it() {
        Golden::load("no-such-file");
    }

    #[test]
    fn the_last_bit_survives() {
        // Shortest texts that read back to the same f64, as Python writes them.
        for (seed, scale) in [(1, 1.0), (2, 1e-9), (3, 1e12)] {
            let expected: Vec<f64> =
                crate::random_vec(seed, 300).iter().map(|x| x * scale).collect();
            let text = format!(
                r#"{{"name": "a", "arrays": {{"x": {{"shape": [300], "data": {expected:?}}}}}}}"#
            );
            assert_close(&golden(&text).case("a").array("x").1, &expected, Bound::EXACT);
        }
    }
}
