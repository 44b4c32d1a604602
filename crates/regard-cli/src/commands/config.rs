//! `regard config`: every setting of a model, with its default and what it means.

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use regard::tasks::tag::{ModelKind, TagConfig};

use super::settings::meaning;
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
}

#[derive(Debug, Args)]
struct TagArgs {
    /// Which model
    #[arg(long, value_name = "KIND", default_value = "transformer", value_parser = PossibleValuesParser::new(ModelKind::ALL.map(ModelKind::name)))]
    model: String,
}

pub(crate) fn run(args: &ConfigArgs) -> Result<Outcome> {
    let Task::Tag(args) = &args.task;
    let kind = ModelKind::parse(&args.model).unwrap_or(ModelKind::Transformer);
    print(&commented(&TagConfig::defaults(kind)))?;
    Ok(Outcome::Done)
}

/// The settings as TOML with a comment above each.
fn commented(config: &TagConfig) -> String {
    let mut text = String::from(
        "# Settings of a tagger. Leave out what shall stay at its default, and give the file to\n\
         # `regard train tag --config FILE`. Flags and --set key=value override it.\n\n",
    );
    let mut section = String::new();
    for line in config.to_toml().lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_string();
        } else if let Some((key, _)) = line.split_once(" = ")
            && let Some(meaning) = meaning(&section, key)
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
    use crate::commands::settings::MEANINGS;

    #[test]
    fn every_setting_is_explained_and_no_other() {
        let mut used = Vec::new();
        for kind in ModelKind::ALL {
            let defaults = TagConfig::defaults(kind);
            let text = commented(&defaults);
            let layer = Layer::from_toml("settings", &text).unwrap();
            assert_eq!(TagConfig::resolve(None, &[layer]).unwrap(), defaults, "{kind}");
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
        }
        for (key, _) in MEANINGS {
            assert!(used.iter().any(|used| used == key), "{key} does not exist");
        }
    }
}
