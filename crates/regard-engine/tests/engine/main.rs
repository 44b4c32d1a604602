//! The engine's tests, one program: what they share is compiled once. `faults.rs` beside it needs another build
//! of the engine, and is a program of its own.

mod agreement;
mod errors;
mod exact;
mod golden;
mod laws;
mod same_bits;
mod support;
