//! Benchmarks that anyone can run: how fast attention is on this machine, in numbers that another program
//! can be held against.

mod attention;
mod cases;
mod measure;

pub use attention::{BenchError, BenchLine, ShapeLine, chosen, measure_line, passes};
pub use cases::{Case, VARIANTS, cases};
pub use measure::Pass;
