//! `regard score bleu`, `chrf` and `ter`: translations against references.

use std::io;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use regard::metrics::translation::{
    Bleu, Chrf, Corpus, Resampled, Smoothing, Ter, Tokenisation, TranslationMetric,
    paired_bootstrap,
};
use regard::report::{Align, Table};
use regard::tasks::score::translation::{SegmentFile, score_translations};
use serde_json::{Value, json};

use crate::args::{at_least, file, named_file};
use crate::fault::Fault;
use crate::output::{print, print_json, tell};

/// So many lines that end in a full stop after a blank are no accident any more.
const TOKENISED_LINES: usize = 100;

/// BLEU of translations, with sacreBLEU's numbers
///
/// The printed lines are those of sacreBLEU 2.6 to the last digit, and the signature is its own but
/// for the version, which says that Regard counted. Files have one segment a line, as people write it:
/// words are told apart here, by --tokenize.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "`--help` shows more, with examples.",
    after_long_help = "\
Examples:
  regard score bleu --ref test.en --hyp output.en
  regard score bleu --ref test.1.en --ref test.2.en --hyp output.en.gz --lowercase
  regard score bleu --ref test.zh --hyp output.zh --tokenize zh
  Each sentence alone, best first:
    regard score bleu --ref test.en --hyp output.en --sentence | sort -k 3 -rn
  Is new.en better than old.en?
    regard score bleu --ref test.en --hyp old.en --hyp new.en --paired-bootstrap"
)]
pub(super) struct BleuArgs {
    #[command(flatten)]
    files: TranslationArgs,

    /// How a line becomes words: 13a (mteval, for most languages), intl (all punctuation and symbols
    /// of Unicode apart), zh (Chinese characters apart), char, or none (tokenised already)
    #[arg(
        long, value_name = "NAME", default_value = "13a", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(Tokenisation::ALL.map(Tokenisation::name))
    )]
    tokenize: String,

    /// Take upper and lower case for the same
    #[arg(long)]
    lowercase: bool,

    /// What to do where no n-gram of a length matches: exp (halve again and again), floor (a small
    /// number matches), add-k (everywhere, k n-grams of each length above 1 more match) or none
    #[arg(
        long, value_name = "NAME", default_value = "exp", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(Smoothing::NAMES)
    )]
    smooth: String,

    /// The number of --smooth floor (0.1 unless set) or of add-k (1 unless set)
    #[arg(long, value_name = "X")]
    smooth_value: Option<f64>,
}

/// chrF and chrF++ of translations, with sacreBLEU's numbers
///
/// The printed lines are those of sacreBLEU 2.6 to the last digit, and the signature is its own but
/// for the version, which says that Regard counted. Files have one segment a line.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "`--help` shows more, with examples.",
    after_long_help = "\
Examples:
  regard score chrf --ref test.en --hyp output.en
  chrF++:
    regard score chrf --ref test.en --hyp output.en --word-order 2
  Is new.en better than old.en?
    regard score chrf --ref test.en --hyp old.en --hyp new.en --paired-bootstrap"
)]
pub(super) struct ChrfArgs {
    #[command(flatten)]
    files: TranslationArgs,

    /// Longest n-gram of characters, 1 to 16
    #[arg(long, value_name = "N", default_value = "6", value_parser = at_least::<usize>(0))]
    char_order: usize,

    /// Longest n-gram of words, 0 to 16; chrF++ is 2
    #[arg(long, value_name = "N", default_value = "0", value_parser = at_least::<usize>(0))]
    word_order: usize,

    /// How many times as much recall counts as precision, 1 to 1000
    #[arg(long, value_name = "N", default_value = "2", value_parser = at_least::<u32>(0))]
    beta: u32,

    /// Count blanks as characters
    #[arg(long)]
    whitespace: bool,

    /// Take upper and lower case for the same
    #[arg(long)]
    lowercase: bool,
}

/// Translation edit rate, with sacreBLEU's numbers
///
/// Edits, shifts of whole phrases among them, for each word of the references; less is better. The
/// printed lines are those of sacreBLEU 2.6 to the last digit, and the signature is its own but for the
/// version, which says that Regard counted. Files have one segment a line.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "`--help` shows more, with examples.",
    after_long_help = "\
Examples:
  regard score ter --ref test.en --hyp output.en
  regard score ter --ref test.zh --hyp output.zh --normalized --asian-support
  Is new.en better than old.en?
    regard score ter --ref test.en --hyp old.en --hyp new.en --paired-bootstrap"
)]
#[allow(clippy::struct_excessive_bools, reason = "four switches of tercom, each on its own")]
pub(super) struct TerArgs {
    #[command(flatten)]
    files: TranslationArgs,

    /// Part punctuation from words, and read SGML entities such as &amp;
    #[arg(long)]
    normalized: bool,

    /// Remove punctuation
    #[arg(long)]
    no_punct: bool,

    /// With --normalized: every Chinese or Japanese ideograph is a word; with --no-punct: remove their
    /// punctuation too
    #[arg(long)]
    asian_support: bool,

    /// Take upper and lower case for different
    #[arg(long)]
    case_sensitive: bool,
}

#[derive(Debug, Args)]
struct TranslationArgs {
    /// File of references, one segment a line, plain or .gz; again for further references
    #[arg(long = "ref", value_name = "FILE", required = true, value_parser = named_file())]
    references: Vec<PathBuf>,

    /// File of translations, line by line those of the references; - for standard input, once
    #[arg(long = "hyp", value_name = "FILE", required = true)]
    translations: Vec<PathBuf>,

    /// Print a score for each segment instead of one for all; BLEU then leaves out what the segment is
    /// too short for
    #[arg(long, conflicts_with = "paired_bootstrap")]
    sentence: bool,

    /// Compare systems: each --hyp after the first with the first
    ///
    /// The segments are drawn again and again, with replacement, and both systems scored on what was
    /// drawn. Printed are the score, the mean and 95 % of the resamples, and p: how often chance alone
    /// would make as large a difference as that of the scores.
    #[arg(long)]
    paired_bootstrap: bool,

    /// How many times the segments are drawn
    #[arg(
        long, value_name = "N", default_value = "1000", requires = "paired_bootstrap",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    resamples: u32,

    /// Seed of the draw: the same seed draws the same segments, though not those that sacreBLEU draws
    #[arg(long, value_name = "N", default_value = "12345", value_parser = at_least::<u64>(0), requires = "paired_bootstrap")]
    seed: u64,

    /// Print JSON lines instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn bleu(args: &BleuArgs) -> Result<()> {
    let mut smoothing: Smoothing = args.smooth.parse()?;
    if let Some(value) = args.smooth_value {
        smoothing = smoothing
            .with_value(value)
            .with_context(|| format!("--smooth-value {value} with --smooth {}", args.smooth))?;
    }
    let metric = Bleu {
        tokenisation: args.tokenize.parse()?,
        lowercase: args.lowercase,
        smoothing,
        effective_order: args.files.sentence,
    };
    let systems = systems(&args.files)?;
    if metric.tokenisation != Tokenisation::None {
        systems.iter().for_each(note_tokenised);
    }
    report(&metric, &systems, &args.files)
}

pub(super) fn chrf(args: &ChrfArgs) -> Result<()> {
    let mut metric = Chrf::default().with_orders(args.char_order, args.word_order, args.beta)?;
    metric.lowercase = args.lowercase;
    metric.whitespace = args.whitespace;
    report(&metric, &systems(&args.files)?, &args.files)
}

pub(super) fn ter(args: &TerArgs) -> Result<()> {
    let metric = Ter {
        normalized: args.normalized,
        no_punct: args.no_punct,
        asian_support: args.asian_support,
        case_sensitive: args.case_sensitive,
    };
    report(&metric, &systems(&args.files)?, &args.files)
}

/// Reads the files of translations, of which there are as many as what is to be done needs.
fn systems(args: &TranslationArgs) -> Result<Vec<SegmentFile>> {
    match (args.translations.len(), args.paired_bootstrap) {
        (1, true) => {
            let fault = Fault::new("--paired-bootstrap compares systems, but there is one --hyp");
            return Err(fault.hint("give --hyp for each system, the baseline first").into());
        }
        (n, false) if n > 1 => {
            let fault = Fault::new(format!("{n} times --hyp; one system is scored at a time"));
            return Err(fault
                .hint("--paired-bootstrap compares systems with the first one")
                .into());
        }
        _ => {}
    }
    if args.translations.iter().filter(|path| file(Some(path)).is_none()).count() > 1 {
        let fault = Fault::new("--hyp names standard input twice, which can be read once");
        return Err(fault.hint("give one of the systems as a file").into());
    }
    let mut systems = Vec::new();
    for path in &args.translations {
        systems.push(match file(Some(path)) {
            Some(path) => SegmentFile::translations(path)?,
            None => SegmentFile::translations_from(io::stdin().lock(), "standard input")?,
        });
    }
    Ok(systems)
}

/// BLEU makes words itself; tokenised translations get a score that compares with no other.
fn note_tokenised(translations: &SegmentFile) {
    let n = translations.segments.iter().filter(|segment| segment.ends_with(" .")).count();
    if n >= TOKENISED_LINES {
        tell(&format!(
            "note: {}: {n} lines end in a full stop after a blank; BLEU is meant for text that is not \
             tokenised (or choose --tokenize none)",
            translations.name
        ));
    }
}

fn report<M: TranslationMetric>(
    metric: &M,
    systems: &[SegmentFile],
    args: &TranslationArgs,
) -> Result<()> {
    let mut references = Vec::new();
    for path in &args.references {
        references.push(SegmentFile::references(path)?);
    }
    let mut corpora = Vec::new();
    for system in systems {
        corpora.push(score_translations(metric.clone(), &references, system)?);
    }
    if args.paired_bootstrap {
        return comparison(systems, &corpora, args);
    }
    for (system, corpus) in systems.iter().zip(&corpora) {
        if args.sentence {
            sentences(system, corpus, args.json)?;
        } else if args.json {
            let data = score_data(corpus, &system.name, &corpus.finish());
            print_json(&format!("{}-score", M::METRIC.name), &data)?;
        } else {
            print(&format!("{}\n{}\n", corpus.finish(), corpus.signature()))?;
        }
    }
    Ok(())
}

fn score_data<M: TranslationMetric>(corpus: &Corpus<M>, file: &str, scores: &M::Score) -> Value {
    json!({
        "file": file,
        "metric": M::METRIC,
        "signature": corpus.signature(),
        "scores": scores,
    })
}

/// A line for each segment, so that the lines stand beside those of the files; the signature goes to standard error.
fn sentences<M: TranslationMetric>(
    system: &SegmentFile,
    corpus: &Corpus<M>,
    as_json: bool,
) -> Result<()> {
    let mut text = String::new();
    for (i, score) in corpus.segment_scores().enumerate() {
        if as_json {
            let mut data = score_data(corpus, &system.name, &score);
            data["line"] = json!(i + 1);
            let kind = format!("{}-sentence", M::METRIC.name);
            text += &regard::report::json_line(&kind, &data)?;
        } else {
            text += &score.to_string();
        }
        text.push('\n');
    }
    if !as_json {
        tell(&corpus.signature());
    }
    print(&text)
}

fn comparison<M: TranslationMetric>(
    systems: &[SegmentFile],
    corpora: &[Corpus<M>],
    args: &TranslationArgs,
) -> Result<()> {
    let [baseline, others @ ..] = corpora else { return Ok(()) };
    let resamples = args.resamples as usize;
    let mut rows: Vec<(Resampled, Option<f64>)> = Vec::new();
    for other in others {
        let result = paired_bootstrap(baseline, other, resamples, args.seed)?;
        if rows.is_empty() {
            rows.push((result.baseline, None));
        }
        rows.push((result.system, Some(result.p_value)));
    }
    let signature = baseline.bootstrap_signature(resamples, args.seed);
    let files = systems.iter().map(|system| system.name.as_str());
    if args.json {
        let rows = files.zip(&rows).map(|(file, (resampled, p_value))| {
            json!({
                "file": file,
                "score": resampled.score,
                "mean": resampled.mean,
                "half_width": resampled.half_width,
                "p_value": p_value,
            })
        });
        let data = json!({
            "metric": M::METRIC,
            "signature": signature,
            "resamples": resamples,
            "seed": args.seed,
            "systems": rows.collect::<Vec<_>>(),
        });
        return print_json("paired-bootstrap", &data);
    }
    let line = baseline.finish().to_string();
    let name = line.split(" = ").next().unwrap_or(M::METRIC.name);
    let mut table = Table::new([
        ("system", Align::Left),
        (name, Align::Right),
        ("mean", Align::Right),
        ("± 95 %", Align::Right),
        ("p", Align::Right),
    ]);
    for (i, (file, (resampled, p_value))) in files.zip(&rows).enumerate() {
        let role = if i == 0 { "baseline: " } else { "" };
        table.push([
            format!("{role}{file}"),
            format!("{:.2}", resampled.score),
            format!("{:.2}", resampled.mean),
            format!("{:.2}", resampled.half_width),
            p_value.map_or_else(|| "-".to_owned(), |p| format!("{p:.4}")),
        ]);
    }
    print(&format!("{}{signature}\n", table.to_text()))
}
