//! `regard look` at a translator.

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use regard::report::{AlignmentKind, alignment_csv, alignment_svg, terminal_alignment};
use regard::tasks::translate::{LoadedTranslator, look};

use super::LookArgs;
use crate::commands::search_args::SearchArgs;
use crate::fault::Fault;
use crate::output::{print, save, terminal_width};

/// Most tokens of a side that are shown: the page grows with their product.
const MAX_TOKENS: usize = 300;

#[derive(Debug, Args)]
pub(super) struct TranslateArgs {
    /// Text to translate and look at
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,

    /// Translation to look at, in place of the model's own
    #[arg(long, value_name = "TEXT")]
    target: Option<String>,

    /// Attention of the heat map: cross, encoder-self or decoder-self [default: cross]
    #[arg(long, value_name = "KIND", hide_possible_values = true, value_parser = PossibleValuesParser::new(AlignmentKind::ALL.map(AlignmentKind::name)))]
    attention: Option<String>,

    #[command(flatten)]
    search: SearchArgs,
}

impl TranslateArgs {
    /// The first flag that is given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let own = [
            (self.source.is_some(), "--source"),
            (self.target.is_some(), "--target"),
            (self.attention.is_some(), "--attention"),
        ];
        let own = own.into_iter().find_map(|(given, flag)| given.then_some(flag));
        own.or_else(|| self.search.given())
    }
}

pub(super) fn run(all: &LookArgs) -> Result<()> {
    let args = &all.translate;
    let Some(source) = &args.source else {
        let fault = Fault::new("there is no text to look at");
        return Err(fault.hint("give one with --source 'TEXT'").into());
    };
    let model = LoadedTranslator::load(&all.run)?;
    for (side, tokeniser, text) in [
        ("source", model.lexicon.source(), Some(source)),
        ("target", model.lexicon.target(), args.target.as_ref()),
    ] {
        let n = text.map_or(Ok(0), |text| tokeniser.encode(text).map(|ids| ids.len()))?;
        if n > MAX_TOKENS {
            let fault = Fault::new(format!("the {side} has {n} tokens; look shows {MAX_TOKENS}"));
            return Err(fault.hint("choose a shorter text, or a part of this one").into());
        }
    }
    let options = args.search.options(&model)?;
    if options.replace_unknown {
        let fault = Fault::new("--replace-unknown has no meaning for look, which shows the tokens");
        return Err(fault.hint("`regard predict RUN --replace-unknown` writes the text").into());
    }
    let report = look(&model, source, args.target.as_deref(), &options)?;
    let named = args.attention.as_deref();
    let kind = AlignmentKind::ALL.into_iter().find(|kind| Some(kind.name()) == named);
    let kind = kind.unwrap_or(AlignmentKind::Cross);
    // First what can fail on the user's choice of a head, before anything is written.
    let heat_map = terminal_alignment(&report, kind, all.layer, all.head, terminal_width())?;
    print(&format!("{}\n\n{heat_map}", report.target_text))?;

    save(&all.out, regard::viewer::alignment_page(&report)?.as_bytes(), "open it in a browser")?;
    if let Some(path) = &all.svg {
        let svg = alignment_svg(&report, kind, all.layer, all.head)?;
        save(path, svg.as_bytes(), "heat map")?;
    }
    if let Some(path) = &all.csv {
        save(path, alignment_csv(&report)?.as_bytes(), "weights of all heads")?;
    }
    if let Some(path) = &all.json {
        save(path, &serde_json::to_vec(&report)?, "the whole report")?;
    }
    Ok(())
}
