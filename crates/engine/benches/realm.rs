//! Figures of one realm.
fn main() {}
