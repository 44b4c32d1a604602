//! `regard mechanisms`: the catalogue.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use regard::attn::catalogue::{Entry, Kind, Paper, Parts, Taxonomy, all, find};
use regard::report::{Align, Table};
use serde::Serialize;

use crate::fault::{Fault, Outcome};
use crate::output::{print, print_json};

/// List the mechanisms and their parts, or explain one
///
/// Every attention mechanism is put together from four kinds of part: a score (how alike a query and a
/// key are), a normaliser (how scores become weights), a scope (which keys a query may see), and a
/// position (what the order adds). The list can be narrowed to one kind, and the mechanisms to cells
/// of the taxonomy of Chaudhari et al., An Attentive Survey of Attention Models.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  regard mechanisms
  regard mechanisms luong-local-p
  regard mechanisms --sequences self --positions local
  regard mechanisms --kind score
  regard mechanisms --json | jq -r .data.name")]
pub(crate) struct MechanismsArgs {
    /// Name of one; - and _ are the same. Without it, all are listed
    #[arg(conflicts_with_all = ["kind", "sequences", "levels", "positions", "representations"])]
    name: Option<String>,

    /// List entries of one kind only
    #[arg(long, value_enum)]
    kind: Option<KindArg>,

    /// List mechanisms with this number of sequences: distinctive (one asks another), co (both
    /// ask), self
    #[arg(long, value_name = "CELL", value_parser = PossibleValuesParser::new(["distinctive", "co", "self"]))]
    sequences: Option<String>,

    /// List mechanisms with these levels of abstraction
    #[arg(long, value_name = "CELL", value_parser = PossibleValuesParser::new(["single", "multi"]))]
    levels: Option<String>,

    /// List mechanisms that attend to these positions: soft (all of the scope, also called global),
    /// hard (one of them), local (those near to a place)
    #[arg(long, value_name = "CELL", value_parser = PossibleValuesParser::new(["soft", "hard", "local"]))]
    positions: Option<String>,

    /// List mechanisms with these representations
    #[arg(long, value_name = "CELL", value_parser = PossibleValuesParser::new(["single", "multi-representational", "multi-dimensional"]))]
    representations: Option<String>,

    /// Print JSON lines, one for each entry
    #[arg(long)]
    json: bool,
}

/// [`Kind`], as an argument.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum KindArg {
    Mechanism,
    Score,
    Normaliser,
    Scope,
    Position,
}

impl From<KindArg> for Kind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Mechanism => Self::Mechanism,
            KindArg::Score => Self::Score,
            KindArg::Normaliser => Self::Normaliser,
            KindArg::Scope => Self::Scope,
            KindArg::Position => Self::Position,
        }
    }
}

pub(crate) fn run(args: &MechanismsArgs) -> Result<Outcome> {
    if let Some(name) = &args.name {
        let entry = find(name).ok_or_else(|| unknown(name))?;
        if args.json {
            print_json("mechanism", &Whole::new(entry))?;
        } else {
            print(&describe(entry))?;
        }
        return Ok(Outcome::Done);
    }
    let entries: Vec<&Entry> = all().iter().filter(|entry| args.wants(entry)).collect();
    if entries.is_empty() {
        let fault = Fault::new("nothing in the catalogue is in all these cells");
        return Err(fault.hint("ask for fewer of them; parts are in none").into());
    }
    if args.json {
        for entry in entries {
            print_json("mechanism", entry)?;
        }
    } else {
        print(&list(&entries))?;
    }
    Ok(Outcome::Done)
}

impl MechanismsArgs {
    fn wants(&self, entry: &Entry) -> bool {
        let wanted = [&self.sequences, &self.levels, &self.positions, &self.representations];
        let in_cells = |cells: Taxonomy| {
            let cells = [cells.sequences, cells.levels, cells.positions, cells.representations];
            wanted
                .iter()
                .zip(cells)
                .all(|(wanted, cell)| wanted.as_deref().is_none_or(|w| w == cell))
        };
        // A part has no cells: it is wanted where none is asked for.
        let no_cell = wanted.iter().all(|wanted| wanted.is_none());
        self.kind.is_none_or(|kind| entry.kind == kind.into())
            && entry.taxonomy.map_or(no_cell, in_cells)
    }
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

/// An entry with what others say of it.
#[derive(Debug, Serialize)]
struct Whole {
    #[serde(flatten)]
    entry: &'static Entry,
    /// The formulas of its parts, by name; empty for a part.
    part_formulas: BTreeMap<&'static str, &'static str>,
    /// The mechanisms that use it; empty for a mechanism.
    used_by: Vec<&'static str>,
}

impl Whole {
    fn new(entry: &'static Entry) -> Self {
        let parts = entry.parts.iter().flat_map(kinds).flat_map(|(_, names)| names);
        let part_formulas = parts.filter_map(|name| Some((*name, find(name)?.formula)));
        let uses = |mechanism: &&Entry| {
            mechanism.parts.iter().flat_map(kinds).any(|(_, names)| names.contains(&entry.name))
        };
        let used_by = all().iter().filter(uses).map(|mechanism| mechanism.name);
        Self { entry, part_formulas: part_formulas.collect(), used_by: used_by.collect() }
    }
}

/// The parts of a mechanism, kind by kind.
fn kinds(parts: &Parts) -> [(&'static str, &'static [&'static str]); 4] {
    [
        ("score", parts.score),
        ("normaliser", parts.normaliser),
        ("scope", parts.scope),
        ("position", parts.position),
    ]
}

const PARTS: [(Kind, &str); 4] = [
    (Kind::Score, "Scores: how alike a query and a key are"),
    (Kind::Normaliser, "Normalisers: how scores become weights"),
    (Kind::Scope, "Scopes: which keys a query may see"),
    (Kind::Position, "Positions: what the order adds"),
];

fn list(entries: &[&Entry]) -> String {
    let of = |kind| entries.iter().copied().filter(move |entry| entry.kind == kind);
    let mut text = String::new();
    for (n, entry) in of(Kind::Mechanism).enumerate() {
        if n == 0 {
            text += "Mechanisms: score × normaliser × scope × position\n\n";
        }
        text += &outline(entry);
    }
    for (kind, heading) in PARTS {
        let mut table =
            Table::new([("name", Align::Left), ("source", Align::Left), ("formula", Align::Left)]);
        for entry in of(kind) {
            let source = entry.paper.map_or_else(|| "-".into(), source);
            table.push([entry.name.to_string(), source, entry.formula.to_string()]);
        }
        if of(kind).next().is_some() {
            text += &format!("{heading}\n\n{}\n", table.to_text());
        }
    }
    text + "`regard mechanisms NAME` explains one of them.\n"
}

/// A mechanism in a few lines.
fn outline(entry: &Entry) -> String {
    let mut text = format!("{}: {}\n    {}\n", entry.name, entry.title, entry.formula);
    if let Some(parts) = entry.parts {
        let choices = kinds(&parts).map(|(_, names)| names.join("|"));
        text += &format!("    {}\n", choices.join(" × "));
    }
    let mut facts: Vec<String> = entry.paper.map(source).into_iter().collect();
    facts.extend(entry.taxonomy.map(cells));
    text + &format!("    {}\n\n", facts.join("; "))
}

fn source(paper: Paper) -> String {
    format!("{} {}", paper.author, paper.year)
}

fn cells(cells: Taxonomy) -> String {
    let Taxonomy { sequences, levels, positions, representations } = cells;
    format!(
        "sequences {sequences}, levels {levels}, positions {positions}, representations \
         {representations}"
    )
}

fn describe(entry: &'static Entry) -> String {
    let whole = Whole::new(entry);
    let mut text = format!("{}: {}\n\n", entry.name, entry.title);
    let mut line = |name: &str, value: &str| text += &format!("{name:<15} {value}\n");
    line("kind", &format!("{:?}", entry.kind).to_lowercase());
    line("formula", entry.formula);
    for (kind, names) in entry.parts.iter().flat_map(kinds) {
        for (n, name) in names.iter().enumerate() {
            let formula = whole.part_formulas.get(name).unwrap_or(&"");
            line(if n == 0 { kind } else { "  or" }, &format!("{name}: {formula}"));
        }
    }
    line("shapes", entry.shapes);
    line("cost", entry.cost);
    if let Some(paper) = entry.paper {
        line("paper", &format!("{}, {}", source(paper), paper.title));
        line("", paper.link);
    }
    if let Some(taxonomy) = entry.taxonomy {
        line("sequences", taxonomy.sequences);
        line("levels", taxonomy.levels);
        line("positions", taxonomy.positions);
        line("representations", taxonomy.representations);
    }
    if !whole.used_by.is_empty() {
        line("used by", &whole.used_by.join(", "));
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
