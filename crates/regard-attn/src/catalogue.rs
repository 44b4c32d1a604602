//! The catalogue: every part and every mechanism with its formula, source and usual mistakes.
//!
//! The entry of a part or mechanism stands in its own file; [`all`] lists them. The command
//! `regard mechanisms`, the documentation and the tests read this list.
//!
//! ```
//! use regard_attn::catalogue::{Kind, all, find};
//!
//! let entry = find("scaled-dot").unwrap(); // `-` and `_` are the same here
//! assert_eq!(entry.kind, Kind::Score);
//! assert_eq!(entry.formula, "s = q·k / √d_k");
//! assert_eq!(entry.paper.unwrap().year, 2017);
//! assert!(all().iter().filter(|e| e.kind == Kind::Mechanism).count() >= 6);
//! ```

use serde::Serialize;

use crate::{mechanisms, normaliser, position, scope, score};

/// What an entry describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Four parts joined, as a paper does.
    Mechanism,
    /// A [`Score`](crate::Score).
    Score,
    /// A [`Normaliser`](crate::Normaliser).
    Normaliser,
    /// A [`Scope`](crate::Scope).
    Scope,
    /// A [`Position`](crate::Position).
    Position,
}

/// One part or mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The name by which [`find`] and the parts' `name` methods know it, such as `scaled_dot`.
    pub name: &'static str,
    /// Part or mechanism.
    pub kind: Kind,
    /// What it is, in a few words.
    pub title: &'static str,
    /// The formula.
    pub formula: &'static str,
    /// The parts that a mechanism joins; `None` for a part.
    pub parts: Option<Parts>,
    /// Where it comes from; `None` where no one paper introduced it.
    pub paper: Option<Paper>,
    /// The cells of a mechanism in the survey's taxonomy; `None` for a part.
    pub taxonomy: Option<Taxonomy>,
    /// What goes in and what comes out.
    pub shapes: &'static str,
    /// Time, and memory where it is above linear.
    pub cost: &'static str,
    /// What is often done wrong.
    pub mistakes: &'static [&'static str],
    /// A Rust expression that makes it.
    pub example: &'static str,
}

/// The parts of a mechanism by name; where it leaves a choice, all that it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// Scores.
    pub score: &'static [&'static str],
    /// Normalisers.
    pub normaliser: &'static [&'static str],
    /// Scopes; `lengths` may be added to any of them by `and`.
    pub scope: &'static [&'static str],
    /// Positions.
    pub position: &'static [&'static str],
}

/// A source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Paper {
    /// First author, or both of two.
    pub author: &'static str,
    /// Year of publication.
    pub year: u16,
    /// Title.
    pub title: &'static str,
    /// Where to read it.
    pub link: &'static str,
}

/// The four axes of Chaudhari et al., *An Attentive Survey of Attention Models*
/// (<https://arxiv.org/abs/1904.02874>). Where the survey does not name a mechanism, the cells
/// are our reading of its definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Taxonomy {
    /// Number of sequences: `distinctive`, `co` or `self`.
    pub sequences: &'static str,
    /// Levels of abstraction: `single` or `multi`.
    pub levels: &'static str,
    /// Positions that are attended to: `soft` (all of the scope, each by its weight; the survey's
    /// soft and global), `hard` (one of them) or `local` (those near to a place).
    pub positions: &'static str,
    /// Representations: `single`, `multi-representational` or `multi-dimensional`.
    pub representations: &'static str,
}

/// The text of an expression, on one line, that the compiler has checked but that is never run.
macro_rules! example {
    ($($expression:tt)+) => {{
        const _: fn() = || {
            let _ = $($expression)+;
        };
        const TEXT: &str = stringify!($($expression)+);
        const LINE: ([u8; TEXT.len()], usize) = $crate::catalogue::one_line(TEXT);
        match std::str::from_utf8(LINE.0.split_at(LINE.1).0) {
            Ok(line) => line,
            Err(_) => panic!("whitespace is ASCII"),
        }
    }};
}
pub(crate) use example;

/// One space in place of each run of whitespace (the compiler breaks long texts into lines), and no
/// comma before a closing parenthesis; also the length that is left of the N bytes.
pub(crate) const fn one_line<const N: usize>(text: &str) -> ([u8; N], usize) {
    let (mut line, mut len, mut i) = ([b' '; N], 0, 0);
    while i < N {
        let byte = text.as_bytes()[i];
        if byte == b')' && len > 0 && line[len - 1] == b',' {
            line[len - 1] = byte;
        } else if !byte.is_ascii_whitespace() {
            line[len] = byte;
            len += 1;
        } else if line[len - 1] != b' ' {
            len += 1;
        }
        i += 1;
    }
    (line, len)
}

/// Bahdanau et al. 2015.
pub(crate) const BAHDANAU: Paper = Paper {
    author: "Bahdanau",
    year: 2015,
    title: "Neural Machine Translation by Jointly Learning to Align and Translate",
    link: "https://arxiv.org/abs/1409.0473",
};

/// Luong et al. 2015.
pub(crate) const LUONG: Paper = Paper {
    author: "Luong",
    year: 2015,
    title: "Effective Approaches to Attention-based Neural Machine Translation",
    link: "https://arxiv.org/abs/1508.04025",
};

/// Vaswani et al. 2017.
pub(crate) const VASWANI: Paper = Paper {
    author: "Vaswani",
    year: 2017,
    title: "Attention Is All You Need",
    link: "https://arxiv.org/abs/1706.03762",
};

/// Yeh et al. 2019.
pub(crate) const YEH: Paper = Paper {
    author: "Yeh",
    year: 2019,
    title: "Transformer-Transducer: End-to-End Speech Recognition with Self-Attention",
    link: "https://arxiv.org/abs/1910.12977",
};

static ALL: [Entry; 79] = [
    mechanisms::self_attention::DOT,
    mechanisms::self_attention::SCALED_DOT,
    mechanisms::additive_self::ENTRY,
    mechanisms::multi_head::ENTRY,
    mechanisms::causal::ENTRY,
    mechanisms::cross::ENTRY,
    mechanisms::grouped_query::MULTI_QUERY,
    mechanisms::grouped_query::GROUPED,
    mechanisms::truncated::ENTRY,
    mechanisms::sliding_window::ENTRY,
    mechanisms::blocks::ENTRY,
    mechanisms::packed::ENTRY,
    mechanisms::relative::ENTRY,
    mechanisms::t5::ENTRY,
    mechanisms::alibi::ENTRY,
    mechanisms::roformer::ENTRY,
    mechanisms::gemma2::ENTRY,
    mechanisms::query_key_norm::ENTRY,
    mechanisms::sigmoid::ENTRY,
    mechanisms::bahdanau::ENTRY,
    mechanisms::luong_global::ENTRY,
    mechanisms::luong_local_m::ENTRY,
    mechanisms::luong_local_p::ENTRY,
    mechanisms::sparsemax::ENTRY,
    mechanisms::entmax::ENTRY,
    mechanisms::show_attend_tell::SOFT,
    mechanisms::show_attend_tell::HARD,
    mechanisms::graph::ENTRY,
    mechanisms::graph_v2::ENTRY,
    mechanisms::self_on_graph::ENTRY,
    mechanisms::stand_alone::ENTRY,
    mechanisms::convolution::ENTRY,
    mechanisms::additive_pooling::ENTRY,
    mechanisms::memory::ENTRY,
    mechanisms::sasrec::ENTRY,
    score::dot::ENTRY,
    score::scaled_dot::ENTRY,
    score::additive::ENTRY,
    score::general::ENTRY,
    score::cosine::ENTRY,
    score::distance::ENTRY,
    score::gat::ENTRY,
    score::gatv2::ENTRY,
    score::location::ENTRY,
    score::softcap::ENTRY,
    score::scaled::ENTRY,
    score::head_scale::ENTRY,
    normaliser::softmax::ENTRY,
    normaliser::temperature::ENTRY,
    normaliser::sparsemax::ENTRY,
    normaliser::entmax15::ENTRY,
    normaliser::sigmoid::ENTRY,
    normaliser::identity::ENTRY,
    normaliser::hard::ENTRY,
    normaliser::sampled::ENTRY,
    scope::full::ENTRY,
    scope::lengths::ENTRY,
    scope::causal::ENTRY,
    scope::window::ENTRY,
    scope::window_2d::ENTRY,
    scope::predicted_centre::ENTRY,
    scope::blocks::ENTRY,
    scope::documents::ENTRY,
    scope::graph::ENTRY,
    scope::given::ENTRY,
    scope::and::ENTRY,
    scope::or::ENTRY,
    position::none::ENTRY,
    position::sinusoidal::ENTRY,
    position::learned::ENTRY,
    position::rotary::ENTRY,
    position::relative_bias::ENTRY,
    position::alibi::ENTRY,
    position::shaw::ENTRY,
    position::relative_2d::ENTRY,
    position::quadratic::ENTRY,
    position::gaussian::ENTRY,
    position::dense_bias::ENTRY,
    position::chain::ENTRY,
];

/// Every entry: mechanisms first, then scores, normalisers, scopes and positions.
pub fn all() -> &'static [Entry] {
    &ALL
}

/// The entry of this name; `-` and `_` are taken as the same. `None` for an unknown name.
pub fn find(name: &str) -> Option<&'static Entry> {
    let name = name.replace('-', "_");
    ALL.iter().find(|entry| entry.name == name)
}
