//! The `extc` command.

fn main() {}
