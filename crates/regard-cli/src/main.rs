//! The `regard` command.
fn main() {}
