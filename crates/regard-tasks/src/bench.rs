//! Benchmarks that anyone can run: how fast attention and training are on this machine, in numbers that
//! another program can be held against.

mod attention;
mod cases;
mod choice;
mod measure;
pub mod train;

pub use attention::{BenchLine, ShapeLine, chosen, measure_line, passes};
pub use cases::{Case, VARIANTS, cases};
pub use choice::BenchError;
pub use measure::Pass;
