//! A self-contained page to look into attention, made from a report.
//!
//! [`page`] gives one HTML file that needs no network and no other file: a grid of all heads, one
//! head large as a heat map and as lines, and, for a chosen query and key, every number from q and
//! k to the context, computed again by the browser beside the engine's. [`demo_page`] puts a table
//! of results on top and holds several sentences.
//!
//! A program that drives the page finds its parts under names that stay:
//!
//! | selector | holds |
//! |---|---|
//! | `#data` | the reports as a JSON array |
//! | `#sentence`, `#query`, `#key` | the choices, as `select` elements with counts from 0 |
//! | `#words [data-word]` | a word; inside, `[data-label][data-probability]` |
//! | `#heads button[data-layer][data-head]` | the thumbnail of a head |
//! | `#heatmap td[data-query][data-key][data-weight]` | a cell; class `forbidden` outside the scope |
//! | `#readout` | the pair pointed at, in words |
//! | `#step-weights tr[data-key]` | a key of the chosen query; its cells `td[data-name][data-value]` are named `score-engine`, `score-here`, `exp`, `weight-engine`, `weight-here` |
//! | `#step-context tr[data-dimension]` | a dimension of the context; cells `context-engine`, `context-here` |
//! | `#check[data-agree]` | whether engine and browser agree on the head |
//! | `#check[data-size]` | size of the terms that the head's scores add up, which the allowed difference is scaled by |
//!
//! [`alignment_page`] shows a translation: source × target, every head as a picture, without a script.
//!
//! The view is kept in the address: `page.html#layer=1&head=2&query=3&key=0`.

mod alignment;
mod page;
mod template;

pub use alignment::alignment_page;
pub use page::{ViewerError, demo_page, page};
