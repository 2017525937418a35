//! Checks that `docs/compatibility.md` equals the output of its generator, from the committed lists and a probe of a realm.

use pijs_conformance::baseline::Baseline;
use pijs_conformance::compatibility::page;
use pijs_conformance::corpus::{Corpus, OFFLINE};
use pijs_conformance::coverage::Coverage;
use pijs_conformance::features::Fixture;
use std::path::Path;

#[test]
fn the_page_matches_the_lists_and_a_probe_of_a_realm() {
    // The realm also probes packages that pi supplies, which come from the registry.
    if std::env::var_os(OFFLINE).is_some_and(|value| !value.is_empty()) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = root.join("fixtures/conformance");
    let corpus = Corpus::read(&folder).expect("the corpus");
    let baseline = Baseline::read(&folder.join("baseline.json")).expect("the baseline");
    let coverage = Coverage::measure(Path::new(env!("CARGO_BIN_EXE_pi-attacked")), &root.join("fixtures/api"));
    let features = Fixture::all(&root.join("fixtures/features")).expect("the features");
    let features: Vec<Fixture> = features.into_iter().map(|(_, fixture)| fixture).collect();
    let expected = page(&corpus, &baseline, &coverage.expect("a look at a realm"), &features);
    if pijs_testkit::updates_expected() {
        std::fs::write(root.join("docs/compatibility.md"), &expected).expect("the page can be written");
    }
    let committed = std::fs::read_to_string(root.join("docs/compatibility.md")).expect("the page");
    for (line, (committed, expected)) in committed.lines().zip(expected.lines()).enumerate() {
        assert_eq!(committed, expected, "line {}: run `cargo xtask conformance --docs`", line + 1);
    }
    assert_eq!(committed.lines().count(), expected.lines().count(), "run `cargo xtask conformance --docs`");
}
