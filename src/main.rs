//! The `taskvisor` program.

fn main() {}
