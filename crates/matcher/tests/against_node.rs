//! Compares patterns with the recorded answers of Node's `RegExp` in `fixtures/rules/regexp-node.json`.

use pijs_matcher::{Limits, Pattern, PatternSet, Precision};
use std::fs;

#[test]
fn patterns_answer_as_node_did() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/rules/regexp-node.json");
    let kept: serde_json::Value = serde_json::from_slice(&fs::read(path).expect("the fixture")).expect("it is JSON");
    let cases = kept["cases"].as_array().expect("cases");
    let mut exact = 0;
    for case in cases {
        let text = |number: usize| case[number].as_str().expect("a text");
        let (source, flags, text, matches) = (text(0), text(1), text(2), text(3).ends_with('1'));
        let pattern = Pattern::parse(source, flags).unwrap_or_else(|error| panic!("/{source}/{flags}: {error}"));
        let is_exact = pattern.precision() == Precision::Exact;
        let set = PatternSet::new(&[pattern], Limits::default());
        for size in [1, 3, usize::MAX] {
            let mut scan = set.begin();
            let mut stays = false;
            let mut rest = text;
            let holds = loop {
                let end = rest.char_indices().nth(size).map_or(rest.len(), |(offset, _)| offset);
                let (piece, after) = rest.split_at(end);
                let mut holds = stays;
                scan.read(piece, |hit| {
                    holds = true;
                    stays |= hit.is_settled;
                });
                rest = after;
                if rest.is_empty() {
                    break holds;
                }
            };
            assert!(holds || !matches, "/{source}/{flags} matches {text:?}");
            assert!(!is_exact || holds == matches, "/{source}/{flags} does not match {text:?}");
        }
        exact += usize::from(is_exact);
    }
    assert!(cases.len() >= 3_000 && exact * 2 > cases.len(), "{exact} of {} are exact", cases.len());
}
