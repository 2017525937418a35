//! Tests the rules of comparison. `fixtures/conformance/compare/cases.json` contains the reference implementation's results: the
//! positions of differences, in the reference's order.

use pijs_conformance::compare::{Options, compare};
use serde_json::Value;
use std::path::Path;

#[test]
fn differences_match_the_reference_cases() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/conformance/compare/cases.json");
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file).expect("cases")).expect("JSON");
    assert!(cases.len() > 20);
    for case in cases {
        let ignore = case["options"]["ignore"].as_array().into_iter().flatten();
        let options = Options {
            lanes: case["options"]["lanes"] == true,
            ignore: ignore.filter_map(|name| name.as_str().map(str::to_owned)).collect(),
        };
        let differences = compare(&case["expected"], &case["actual"], &options);
        let mut places: Vec<&str> = differences.iter().map(|difference| difference.place.as_str()).collect();
        let mut expected: Vec<&str> =
            case["places"].as_array().expect("places").iter().filter_map(Value::as_str).collect();
        // Members of an object are sorted in PiJS, and in file order in the reference.
        places.sort_unstable();
        expected.sort_unstable();
        assert_eq!(places, expected, "{}", case["name"]);
    }
}

#[test]
fn every_expected_document_equals_itself_and_no_other_scenario() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/conformance/expected/dev");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("expected").map(|entry| entry.expect("entry").path()).collect();
    files.retain(|file| file.is_file());
    files.sort();
    let documents: Vec<Value> = files
        .iter()
        .map(|file| serde_json::from_str(&std::fs::read_to_string(file).expect("document")).expect("JSON"))
        .collect();
    for (one, next) in documents.iter().zip(documents.iter().cycle().skip(1)) {
        assert!(compare(one, one, &Options::default()).is_empty(), "{}", one["name"]);
        assert!(!compare(one, next, &Options::default()).is_empty(), "{} and {}", one["name"], next["name"]);
    }
}
