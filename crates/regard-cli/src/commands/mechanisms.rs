//! `regard mechanisms`: the catalogue.

use anyhow::Result;
use clap::Args;
use regard::attn::catalogue::{Entry, Kind, all, find};
use regard::report::{Align, Table};

use crate::fault::{Fault, Outcome};
use crate::output::{print, print_json};

/// List the mechanisms and their parts, or explain one
///
/// Every attention mechanism is put together from four kinds of part: a score (how alike a query and a
/// key are), a normaliser (how scores become weights), a scope (which keys a query may see), and a
/// position (what the order adds).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  regard mechanisms
  regard mechanisms multi-head-self-attention
  regard mechanisms --json | jq -r .data.name")]
pub(crate) struct MechanismsArgs {
    /// Name of one; - and _ are the same. Without it, all are listed
    name: Option<String>,

    /// Print JSON lines, one for each entry
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &MechanismsArgs) -> Result<Outcome> {
    let entries: Vec<&Entry> = match &args.name {
        None => all().iter().collect(),
        Some(name) => vec![find(name).ok_or_else(|| unknown(name))?],
    };
    if args.json {
        for entry in entries {
            print_json("mechanism", entry)?;
        }
    } else if args.name.is_some() {
        print(&entries.iter().map(|entry| describe(entry)).collect::<String>())?;
    } else {
        print(&list(&entries))?;
    }
    Ok(Outcome::Done)
}

fn unknown(name: &str) -> Fault {
    let wanted = name.replace('-', "_").to_lowercase();
    let likeness = |entry: &&Entry| strsim::jaro_winkler(&wanted, entry.name);
    let nearest = all()
        .iter()
        .filter(|entry| likeness(entry) > 0.7)
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let fault = Fault::new(format!("there is no mechanism or part `{name}`"));
    match nearest {
        Some(entry) => fault.hint(format!("did you mean `{}`?", entry.name)),
        None => fault.hint("`regard mechanisms` lists all names"),
    }
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::Mechanism, "Mechanisms"),
    (Kind::Score, "Scores: how alike a query and a key are"),
    (Kind::Normaliser, "Normalisers: how scores become weights"),
    (Kind::Scope, "Scopes: which keys a query may see"),
    (Kind::Position, "Positions: what the order adds"),
];

fn list(entries: &[&Entry]) -> String {
    let mut text = String::new();
    for (kind, heading) in KINDS {
        let mut table =
            Table::new([("name", Align::Left), ("source", Align::Left), ("formula", Align::Left)]);
        for entry in entries.iter().filter(|entry| entry.kind == kind) {
            let paper =
                entry.paper.map_or_else(|| "-".into(), |p| format!("{} {}", p.author, p.year));
            table.push([entry.name.to_string(), paper, entry.formula.to_string()]);
        }
        text += &format!("{heading}\n\n{}\n", table.to_text());
    }
    text + "`regard mechanisms NAME` explains one of them.\n"
}

fn describe(entry: &Entry) -> String {
    let mut text = format!("{}: {}\n\n", entry.name, entry.title);
    let mut line = |name: &str, value: &str| text += &format!("{name:<12} {value}\n");
    line("kind", &format!("{:?}", entry.kind).to_lowercase());
    line("formula", entry.formula);
    if let Some(parts) = entry.parts {
        for (name, choices) in [
            ("score", parts.score),
            ("normaliser", parts.normaliser),
            ("scope", parts.scope),
            ("position", parts.position),
        ] {
            line(name, &choices.join(" or "));
        }
    }
    line("shapes", entry.shapes);
    line("cost", entry.cost);
    if let Some(paper) = entry.paper {
        line("paper", &format!("{} {}, {}", paper.author, paper.year, paper.title));
        line("", paper.link);
    }
    if let Some(taxonomy) = entry.taxonomy {
        line("sequences", taxonomy.sequences);
        line("levels", taxonomy.levels);
        line("positions", taxonomy.positions);
        line("represents", taxonomy.representations);
    }
    line("in Rust", entry.example);
    if !entry.mistakes.is_empty() {
        text += "\nOften done wrong:\n";
        for mistake in entry.mistakes {
            text += &format!("- {mistake}\n");
        }
    }
    text
}
