//! What holds for every part, for all of them together, and against other implementations.

mod catalogue;
mod convolution;
mod errors;
mod golden;
mod golden_parts;
mod laws;
mod leaks;
mod normalisers;
mod outputs;
mod papers;
mod parts;
mod positions;
mod problem;
mod reference;
mod sampling;
mod scopes;
mod scores;
