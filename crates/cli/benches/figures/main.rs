//! Measures every performance target of PiJS on this machine, and prints a table with the figures of other programs.
//!
//! ```sh
//! cargo bench -p pijs-cli --bench figures                 # all of them, about two minutes
//! cargo bench -p pijs-cli --bench figures -- stream       # those whose name contains a word
//! ```
//!
//! Each module measures one part of the product through its public API and returns [`Figure`]s; [`table`] prints them. A slow
//! result is not a failure: the tests check counts instead. Each measurement asserts its preconditions: that the rules are
//! loaded, that the calls were allowed, that the server saw the end.

mod build;
mod calls;
mod http;
mod lines;
mod peers;
mod replay;
mod shapes;
mod start;
mod stream;
mod table;
mod tiers;
mod ttsr;
mod world;

use table::Figure;

/// A part of the table: its name on the command line, and the function that measures it.
type Part = (&'static str, fn() -> Vec<Figure>);

/// The parts, in the order of the table; the slowest part is last.
const PARTS: &[Part] = &[
    ("start", start::figures),
    ("realm", start::realm),
    ("stream", stream::figures),
    ("hostcall", calls::figures),
    ("build", build::figures),
    ("http", http::figures),
    ("lines", lines::figures),
    ("ttsr", ttsr::figures),
    ("replay", replay::figures),
    ("shapes", shapes::figures),
    ("tiers", tiers::figures),
];

fn main() {
    pijs_realm::worker::enter();
    // cargo passes `--bench`; arguments that are not options select parts by name.
    let words: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    table::head();
    for (name, measure) in PARTS {
        if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
            measure().iter().for_each(table::row);
        }
    }
    table::foot();
}
