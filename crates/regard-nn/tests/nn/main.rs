//! The tests of this crate, one program: what they share is compiled once.

mod checkpoint;
mod common;
mod golden;
mod gradients;
mod laws;
mod learning;
mod refusals;
mod translation_golden;
mod translation_gradients;
mod translation_laws;
mod translation_learning;
mod translation_parts;
mod translation_refusals;
