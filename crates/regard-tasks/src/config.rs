//! Typed configuration: defaults < file < `--set key=value`.
//!
//! A configuration is a TOML table. The defaults name every key there is, so an unknown key, or a
//! value of another type, is found by comparing with them, and the error names the nearest key.

use regard_nn::NnError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::TaskError;

/// What is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file is not TOML.
    #[error("{origin}: not valid TOML: {fault}")]
    Syntax {
        /// The file or flag.
        origin: String,
        /// The parser's words, with line and column.
        fault: String,
    },
    /// A key that does not exist.
    #[error("{origin}: unknown key `{key}`{}", nearest.as_ref().map_or_else(String::new, |n| format!("; did you mean `{n}`?")))]
    UnknownKey {
        /// The file or flag.
        origin: String,
        /// The key, with dots.
        key: String,
        /// The most similar key there is.
        nearest: Option<String>,
    },
    /// A key that exists, but not for the chosen model.
    #[error("{origin}: `{key}` has no meaning for model `{model}`; remove it")]
    NotForModel {
        /// The file or flag.
        origin: String,
        /// The key, with dots.
        key: String,
        /// The model.
        model: String,
    },
    /// A value of another type than the default's.
    #[error("{origin}: `{key}` must be {expected}, got {actual}")]
    Type {
        /// The file or flag.
        origin: String,
        /// The key, with dots.
        key: String,
        /// The type, or the values there are.
        expected: String,
        /// What came.
        actual: String,
    },
    /// A value out of its range.
    #[error("`{key}` must be {expected}, got {actual}")]
    Range {
        /// The key, with dots.
        key: String,
        /// The range.
        expected: String,
        /// What came.
        actual: String,
    },
    /// A value that its field refuses.
    #[error("{origin}: {fault}")]
    Value {
        /// The file or flag.
        origin: String,
        /// What is wrong, with the values there are.
        fault: String,
    },
    /// `--set` without `=`.
    #[error("--set {0}: write it as key=value, for example --set train.lr=0.001")]
    NoValue(String),
}

/// One source of settings, with the name that errors call it by.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// The file's path, or `--set`.
    pub origin: String,
    /// Its settings.
    pub table: Table,
}

impl Layer {
    /// A layer from the text of a TOML file.
    ///
    /// # Errors
    /// The text is not TOML.
    pub fn from_toml(origin: &str, text: &str) -> Result<Self, ConfigError> {
        let table = text.parse::<Table>().map_err(|e| ConfigError::Syntax {
            origin: origin.into(),
            fault: e.to_string().trim_end().into(),
        })?;
        Ok(Self { origin: origin.into(), table })
    }

    /// A layer from one `key.with.dots=value`. The value is read as TOML, and as a plain string
    /// where that fails, so that `--set model.position=rotary` needs no quotes.
    ///
    /// # Errors
    /// There is no `=`, or no key before it.
    pub fn from_assignment(text: &str) -> Result<Self, ConfigError> {
        let (key, value) = text.split_once('=').ok_or_else(|| ConfigError::NoValue(text.into()))?;
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || key.split('.').any(str::is_empty) {
            return Err(ConfigError::NoValue(text.into()));
        }
        let read = format!("x = {value}").parse::<Table>().ok().and_then(|mut t| t.remove("x"));
        let mut value = read.unwrap_or_else(|| Value::String(value.into()));
        let mut parts: Vec<&str> = key.split('.').collect();
        let first = parts.remove(0);
        for part in parts.into_iter().rev() {
            value = Value::Table(Table::from_iter([(part.to_string(), value)]));
        }
        Ok(Self {
            origin: format!("--set {text}"),
            table: Table::from_iter([(first.to_string(), value)]),
        })
    }

    /// The text at `section.key`, where there is one.
    pub fn text(&self, section: &str, key: &str) -> Option<&str> {
        self.table.get(section)?.as_table()?.get(key)?.as_str()
    }
}

/// Whether a text is a whole number that TOML has no room for.
fn is_large(value: &str) -> bool {
    let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
    digits.bytes().all(|b| b.is_ascii_digit())
        && !digits.is_empty()
        && value.parse::<i64>().is_err()
}

/// Lays `layers` over `defaults`, later ones above, and reads the result.
///
/// # Errors
/// An unknown key, a value of another type, or one that its field refuses.
pub fn resolve<C: Serialize + DeserializeOwned>(
    defaults: &C,
    layers: &[Layer],
) -> Result<C, ConfigError> {
    let mut table = to_table(defaults);
    let keys = keys(&table, "");
    for layer in layers {
        merge(&mut table, &layer.table, "", &layer.origin, &keys)?;
        // Read after each layer, so that a refused value is blamed on its source.
        read::<C>(&table, &layer.origin)?;
    }
    read(&table, "configuration")
}

/// The configuration as a TOML table.
///
/// # Panics
/// If the type cannot be written as a table: configurations are plain structs.
pub fn to_table<C: Serialize>(config: &C) -> Table {
    Table::try_from(config).expect("a configuration is a table")
}

fn read<C: DeserializeOwned>(table: &Table, origin: &str) -> Result<C, ConfigError> {
    table.clone().try_into().map_err(|e: toml::de::Error| ConfigError::Value {
        origin: origin.into(),
        fault: e
            .to_string()
            .trim_end()
            .replace('\n', " ")
            .replace("expected u64", "expected a whole number of at least 0")
            .replace("expected usize", "expected a whole number of at least 0"),
    })
}

/// What a model refuses, told by the key of the configuration that sets it: `heads` is `model.heads`, and
/// `d_model/heads` both of them.
pub(crate) fn by_key<C: Serialize>(config: &C, error: NnError) -> TaskError {
    let keys = keys(&to_table(config), "");
    let of = |name: &str| keys.iter().find(|key| key.rsplit('.').next() == Some(name)).cloned();
    match error {
        NnError::Hyper { name, expected, actual } => {
            match name.split('/').map(of).collect::<Option<Vec<_>>>() {
                Some(keys) => ConfigError::Range { key: keys.join(" / "), expected, actual }.into(),
                None => NnError::Hyper { name, expected, actual }.into(),
            }
        }
        error => error.into(),
    }
}

/// Every key of a table and of those in it, with dots.
fn keys(table: &Table, prefix: &str) -> Vec<String> {
    let with_inner = |(key, value): (&String, &Value)| {
        let full = format!("{prefix}{key}");
        let inner = value.as_table().map(|inner| keys(inner, &format!("{full}.")));
        std::iter::once(full).chain(inner.unwrap_or_default()).collect::<Vec<_>>()
    };
    table.iter().flat_map(with_inner).collect()
}

/// The name that `word` was most likely meant to be, where one is like it.
pub(crate) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|name| (strsim::damerau_levenshtein(name, word), name))
        .filter(|(distance, name)| *distance <= 2.max(name.len() / 3))
        .min()
        .map(|(_, name)| name)
}

fn merge(
    base: &mut Table,
    over: &Table,
    prefix: &str,
    origin: &str,
    keys: &[String],
) -> Result<(), ConfigError> {
    for (key, value) in over {
        let full = format!("{prefix}{key}");
        let Some(old) = base.get_mut(key) else {
            // The same name in another section, or else one like it in this section.
            let elsewhere =
                keys.iter().find(|k| k.rsplit('.').next() == Some(key.as_str())).cloned();
            let here = || nearest(key, base.keys().map(String::as_str));
            let nearest = elsewhere.or_else(|| here().map(|k| format!("{prefix}{k}")));
            return Err(ConfigError::UnknownKey { origin: origin.into(), key: full, nearest });
        };
        match (old, value) {
            (Value::Table(base), Value::Table(over)) => {
                merge(base, over, &format!("{full}."), origin, keys)?;
            }
            (old @ Value::Float(_), Value::Integer(n)) => *old = Value::Float(*n as f64),
            (old, value) if old.type_str() == value.type_str() => *old = value.clone(),
            (old, value) => {
                return Err(ConfigError::Type {
                    origin: origin.into(),
                    key: full,
                    expected: format!("{} {}", article(old.type_str()), old.type_str()),
                    actual: match value.as_str().filter(|text| is_large(text)) {
                        Some(text) => format!("{text}, which is beyond 64 bits"),
                        None => format!("{} {value}", value.type_str()),
                    },
                });
            }
        }
    }
    Ok(())
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Colour {
        Red,
        Green,
    }
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Inner {
        rate: f64,
        layers: usize,
        colour: Colour,
    }
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Outer {
        seed: u64,
        model: Inner,
    }

    fn defaults() -> Outer {
        Outer { seed: 1, model: Inner { rate: 0.5, layers: 2, colour: Colour::Red } }
    }

    fn with(sets: &[&str]) -> Result<Outer, ConfigError> {
        let layers: Vec<Layer> =
            sets.iter().map(|s| Layer::from_assignment(s)).collect::<Result<_, _>>()?;
        resolve(&defaults(), &layers)
    }

    #[test]
    fn later_layers_win() {
        let file = Layer::from_toml("a.toml", "seed = 7\n[model]\nlayers = 4").unwrap();
        let set = Layer::from_assignment("model.layers = 5").unwrap();
        let outer = resolve(&defaults(), &[file, set]).unwrap();
        assert_eq!((outer.seed, outer.model.layers, outer.model.rate), (7, 5, 0.5));
        assert_eq!(with(&["model.rate=1"]).unwrap().model.rate, 1.0);
        assert_eq!(with(&["model.colour=green"]).unwrap().model.colour, Colour::Green);
    }

    #[test]
    fn what_a_model_refuses_is_told_by_the_key_that_sets_it() {
        let told = |name| {
            let (expected, actual) = ("odd".into(), "2".into());
            by_key(&defaults(), NnError::Hyper { name, expected, actual }).to_string()
        };
        assert_eq!(told("layers"), "`model.layers` must be odd, got 2");
        assert_eq!(told("seed"), "`seed` must be odd, got 2");
        assert_eq!(told("rate/layers"), "`model.rate / model.layers` must be odd, got 2");
        // What no key sets keeps its name.
        assert_eq!(told("beam"), "`beam` must be odd, got 2");
    }

    #[test]
    fn faults_name_source_key_and_remedy() {
        for (sets, message) in [
            (&["model.layer=3"][..], "unknown key `model.layer`; did you mean `model.layers`?"),
            (&["sed=3"], "unknown key `sed`; did you mean `seed`?"),
            (&["zebra=3"], "unknown key `zebra`"),
            (&["rate=3"], "unknown key `rate`; did you mean `model.rate`?"),
            (&["model.seed=3"], "unknown key `model.seed`; did you mean `seed`?"),
            (&["model.layers=two"], "`model.layers` must be an integer, got string \"two\""),
            (&["model.layers=2.5"], "`model.layers` must be an integer, got float 2.5"),
            (
                &["model.layers=99999999999999999999"],
                "`model.layers` must be an integer, got 99999999999999999999, which is beyond 64 bits",
            ),
            (
                &["model.layers=\"1234567890123456789\""],
                "`model.layers` must be an integer, got string \"1234567890123456789\"",
            ),
            (&["model=3"], "`model` must be a table, got integer 3"),
            (&["seed"], "--set seed: write it as key=value"),
            (&["=3"], "--set =3: write it as key=value"),
            (&["model.colour=blue"], "unknown variant `blue`, expected `red` or `green`"),
            (&["model.layers=-1"], "invalid value: integer `-1`"),
        ] {
            let error = with(sets).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
            assert!(error.contains("--set"), "{error}");
        }
        let error = Layer::from_toml("a.toml", "seed = = 3").unwrap_err().to_string();
        assert!(error.starts_with("a.toml: not valid TOML") && error.contains("line 1"), "{error}");
    }
}
