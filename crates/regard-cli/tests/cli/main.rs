//! The built binary, run as a user runs it: help, exit codes, bad input, whole paths, and runs that
//! are killed and resumed.

mod bad_input;
mod bench;
mod demo;
mod full_disk;
mod help;
mod look;
mod mechanisms;
mod pipeline;
mod resume;
mod score;
mod support;
mod train;
mod translate;
mod translate_bad_input;
mod translate_support;
