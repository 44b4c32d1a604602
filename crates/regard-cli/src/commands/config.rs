//! `regard config`: every setting of a model, with its default and what it means.

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use regard::tasks::tag::{ModelKind, TagConfig};
use regard::tasks::translate::{self, TranslateConfig};

use super::settings::{self, meaning};
use crate::fault::Outcome;
use crate::output::print;

/// Print the default settings of a model, with what each one means
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Settings of a tagger, as a TOML file for `regard train tag --config`
    #[command(after_help = "\
Examples:
  regard config tag --model bilstm
  regard config tag --model transformer > settings.toml
  regard train tag --config settings.toml --train train.conllu --out runs/first")]
    Tag(TagArgs),
    /// Settings of a translator, as a TOML file for `regard train translate --config`
    #[command(after_help = "\
Examples:
  regard config translate --model luong
  regard config translate --model transformer > settings.toml
  regard train translate --config settings.toml --train a.de a.en --out runs/first")]
    Translate(TranslateArgs),
}

#[derive(Debug, Args)]
struct TagArgs {
    /// Which model
    #[arg(long, value_name = "KIND", default_value = "transformer", value_parser = PossibleValuesParser::new(ModelKind::ALL.map(ModelKind::name)))]
    model: String,
}

#[derive(Debug, Args)]
struct TranslateArgs {
    /// Which model
    #[arg(long, value_name = "KIND", default_value = "transformer", value_parser = PossibleValuesParser::new(translate::ModelKind::ALL.map(translate::ModelKind::name)))]
    model: String,
}

pub(crate) fn run(args: &ConfigArgs) -> Result<Outcome> {
    print(&match &args.task {
        Task::Tag(args) => {
            let kind = ModelKind::parse(&args.model).unwrap_or(ModelKind::Transformer);
            of_tagger(&TagConfig::defaults(kind))
        }
        Task::Translate(args) => {
            let kind = translate::ModelKind::parse(&args.model);
            let kind = kind.unwrap_or(translate::ModelKind::Transformer);
            of_translator(&TranslateConfig::defaults(kind))
        }
    })?;
    Ok(Outcome::Done)
}

fn of_tagger(config: &TagConfig) -> String {
    commented("tagger", "tag", &config.to_toml(), &settings::tag::MEANINGS)
}

fn of_translator(config: &TranslateConfig) -> String {
    commented("translator", "translate", &config.to_toml(), &settings::translate::MEANINGS)
}

/// The settings with a comment above each.
fn commented(
    what: &str,
    task: &str,
    settings: &str,
    meanings: &[(&'static str, &'static str)],
) -> String {
    let mut text = format!(
        "# Settings of a {what}. Leave out what shall stay at its default, and give the file to\n\
         # `regard train {task} --config FILE`. Flags and --set key=value override it.\n\n",
    );
    let mut section = String::new();
    for line in settings.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_string();
        } else if let Some((key, _)) = line.split_once(" = ")
            && let Some(meaning) = meaning(meanings, &section, key)
        {
            text += &format!("# {meaning}\n");
        }
        text += line;
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use regard::tasks::config::Layer;

    use super::*;

    /// The settings that a text explains.
    fn explained(text: &str) -> Vec<String> {
        let mut used = Vec::new();
        let lines: Vec<&str> = text.lines().collect();
        let mut section = "";
        for pair in lines.windows(2) {
            if let Some(name) = pair[1].strip_prefix('[') {
                section = name.trim_end_matches(']');
            } else if let Some((key, _)) = pair[1].split_once(" = ") {
                assert!(pair[0].starts_with("# "), "{section}.{key} is not explained");
                used.push(format!("{section}.{key}"));
            }
        }
        used
    }

    #[test]
    fn every_setting_is_explained_and_no_other() {
        let mut used = Vec::new();
        for kind in ModelKind::ALL {
            let defaults = TagConfig::defaults(kind);
            let text = of_tagger(&defaults);
            let layer = Layer::from_toml("settings", &text).unwrap();
            assert_eq!(TagConfig::resolve(None, &[layer]).unwrap(), defaults, "{kind}");
            used.extend(explained(&text));
        }
        for (key, _) in settings::tag::MEANINGS {
            assert!(used.iter().any(|used| used == key), "{key} does not exist");
        }
        used.clear();
        for kind in translate::ModelKind::ALL {
            let defaults = TranslateConfig::defaults(kind);
            let text = of_translator(&defaults);
            let layer = Layer::from_toml("settings", &text).unwrap();
            assert_eq!(TranslateConfig::resolve(None, &[layer]).unwrap(), defaults, "{kind}");
            used.extend(explained(&text));
        }
        for (key, _) in settings::translate::MEANINGS {
            assert!(used.iter().any(|used| used == key), "{key} does not exist");
        }
    }
}
