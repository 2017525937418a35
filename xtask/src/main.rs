//! Checks and generators of the workspace: `deps`, `codegen`.

fn main() {}
