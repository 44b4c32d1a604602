//! `regard demo`: what context is worth, in under a minute and without any file.

mod reversal;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use regard::report::terminal_heatmap;
use regard::tasks::demo::{DemoObserver, DemoRow, demo};
use serde_json::json;

use crate::args::{at_least, named_file};
use crate::fault::{Fault, Outcome};
use crate::output::{print, print_json, save, tell, terminal_width, writable};
use crate::text::percent;

/// Train small models in a minute and see what context is worth, or what attention is
///
/// Needs no file. `context`: a small grammar makes sentences full of words whose class only context tells
/// (I saw a saw). Four models learn them: each word alone, each word with its neighbours, a BiLSTM, and
/// self-attention. The table compares them; the heat map and the page show where self-attention
/// looked.
///
/// `reversal` takes some minutes: seq2seq, which carries a string in one vector, bahdanau and
/// transformer learn to write strings of 1 to 25 digits from their end. The table and the picture tell
/// the exact answers to unseen strings by length, up to 80.
///
/// Every number comes from this run, and --seed changes them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  regard demo
  regard demo --seed 7 --out seed-7.html
  regard demo reversal --out reversal.svg
  Only write the strings, to train a model of your own:
    regard demo reversal --data strings
    regard train translate --tokens char --train strings/train.src strings/train.tgt --out runs/own")]
pub(crate) struct DemoArgs {
    /// What to show: context or reversal
    #[arg(value_name = "WHAT", default_value = "context", hide_possible_values = true, value_parser = PossibleValuesParser::new(["context", "reversal"]))]
    what: String,

    /// Seed of the sentences and the models
    #[arg(long, value_name = "N", default_value = "1", value_parser = at_least::<u64>(0))]
    seed: u64,

    /// Page to write, or with reversal the picture [default: demo.html or reversal.svg]
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    out: Option<PathBuf>,

    #[command(flatten, next_help_heading = "Reversal")]
    reversal: reversal::ReversalArgs,

    /// Print JSON lines instead of text, one for each model
    #[arg(long, help_heading = "Options")]
    json: bool,
}

struct Told;

impl DemoObserver for Told {
    fn model(&mut self, name: &str) {
        tell(&format!("training {name} …"));
    }

    fn trained(&mut self, row: &DemoRow) {
        tell(&format!(
            "  {} % of all words right, {} % of the ambiguous ones, {:.1} s",
            percent(Some(row.accuracy)),
            percent(Some(row.ambiguous)),
            row.seconds
        ));
    }
}

pub(crate) fn run(args: &DemoArgs) -> Result<Outcome> {
    if args.what == "reversal" {
        return reversal::run(args);
    }
    if let Some(flag) = args.reversal.given() {
        return Err(Fault::new(format!("{flag} is for `regard demo reversal`")).into());
    }
    let out = args.out.as_deref().unwrap_or(Path::new("demo.html"));
    writable(out)?;
    let result = demo(args.seed, &mut Told)?;
    let title = format!("Regard: what context is worth (seed {})", args.seed);
    let page = regard::viewer::demo_page(&title, &result.table, &result.looks, &result.intro)?;
    if args.json {
        for row in &result.rows {
            print_json("demo-model", row)?;
        }
        print_json("demo", &json!({"seed": args.seed, "page": out.display().to_string()}))?;
    } else {
        let mut text = format!(
            "{}\n\nSome of the sentences, with the class of every word:\n\n{}\n\n{}",
            wrapped(&result.intro, terminal_width()),
            result.corpus.trim_end(),
            result.table.to_text()
        );
        if let Some(look) = result.looks.first() {
            text += &format!("\nWhere self-attention looked in `{}`:\n\n", look.tokens.join(" "));
            for layer in 0..look.model.n_layers {
                text += &terminal_heatmap(look, layer, 0, terminal_width())?;
                text.push('\n');
            }
        }
        print(&text)?;
    }
    save(out, page.as_bytes(), "open it in a browser")?;
    Ok(Outcome::Done)
}

/// The words of a text in lines of at most `width` letters.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > width {
            lines.push(word.into());
        } else if let Some(last) = lines.last_mut() {
            if line > 0 {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_break_at_blanks() {
        assert_eq!(wrapped("one two  three\nfour", 9), "one two\nthree\nfour");
        assert_eq!(wrapped("immeasurable", 4), "immeasurable");
        assert_eq!(wrapped("", 4), "");
    }
}
