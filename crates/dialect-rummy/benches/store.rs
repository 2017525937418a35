//! Prints how long verbs take over 100,000 entries: `cargo bench -p pijs-dialect-rummy`.

fn main() {}
