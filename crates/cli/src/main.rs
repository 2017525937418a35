//! The `pi` command: argument parsing and wiring; it decides nothing.

fn main() {}
