//! Readers of the files people already have, vocabularies and batches.
//!
//! File → [`Sentences`] → [`Sentence`] → [`Vocab`], [`LabelSet`] → [`plan`], and back with
//! [`write_sentence`]. This crate knows no model.
//!
//! | format | file | one file of code |
//! |---|---|---|
//! | CoNLL-U | `conllu.rs` | ten tab columns; the label is any column or one feature |
//! | columns | `columns.rs` | a token and its columns a line (BIO, IOB2, IOBES, CoNLL-2003) |
//! | text | `text.rs` | one sentence a line, without labels |
//!
//! Parallel text (line N of two files, or two columns of a table) is read by [`read_parallel`] and [`read_pair_table`];
//! a [`Tokeniser`] makes numbers of it, and text of numbers.
//!
//! Each is read plain or gzipped (told apart by the first bytes, not by the name), with LF or CRLF,
//! with or without a byte order mark or a last line end. A broken line is a [`DataError`] that names
//! file, line and text.
//!
//! ```
//! use regard_data::{Format, Sentences, write_sentence};
//!
//! let file = "# a comment\n1\tDogs\tO\n2\tbark\tO\n\n";
//! let format = Format::Columns { token: 1, label: Some(2), comments: true };
//! let sentences: Vec<_> =
//!     Sentences::new(file.as_bytes(), "dogs", &format)?.collect::<Result<_, _>>()?;
//! assert_eq!(sentences.len(), 1);
//! assert_eq!(sentences[0].words, ["Dogs", "bark"]);
//! assert_eq!(sentences[0].labels, ["O", "O"]);
//!
//! // The user's own lines come back, with the label filled in.
//! let labels = ["NOUN".to_owned(), "VERB".to_owned()];
//! let mut out = Vec::new();
//! write_sentence(&mut out, &sentences[0], &format, Some(&labels))?;
//! assert_eq!(String::from_utf8_lossy(&out), "# a comment\n1\tDogs\tNOUN\n2\tbark\tVERB\n\n");
//! # Ok::<(), regard_data::DataError>(())
//! ```

mod batch;
mod columns;
mod conllu;
mod error;
mod format;
mod length_filter;
mod lines;
mod parallel;
mod reader;
mod rng;
mod sentence;
mod subword;
mod text;
mod tokeniser;
mod tsv;
mod vocab;
mod word_pieces;
mod word_stats;
mod write;

pub use batch::{plan, plan_in_order};
pub use columns::BLANK_TOKEN;
pub use conllu::ConllUColumn;
pub use error::DataError;
pub use format::Format;
pub use length_filter::{Filtered, LengthFilter};
pub use lines::MAX_LINE_BYTES;
pub use parallel::{
    Pair, PairColumn, PairColumns, Segments, read_pair_table, read_parallel, read_segments,
    read_translated,
};
pub use reader::{Sentences, open_file, read_path};
pub use rng::SplitMix64;
pub use sentence::{Line, LineEnd, LineKind, Sentence, Separator};
pub use tokeniser::{BEGIN, BEGIN_ID, END, END_ID, Tokeniser, TokeniserKind, TokeniserSettings};
pub use vocab::{LabelSet, UNK, UNK_ID, Vocab};
pub use word_stats::WordStats;
pub use write::{write_lines, write_sentence};
