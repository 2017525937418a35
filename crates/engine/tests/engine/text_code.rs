//! Tests the compilation of text by a guest, with a host that allows it.

use crate::support::{Answers, Guest, Sources};
use pijs_protocol::HostCall;
use serde_json::{Value, json};

const GUEST: Sources<'static> = &[("main.js", include_str!("../fixtures/guests/text.js"))];

fn guest() -> Guest {
    let mut guest = Guest::new(GUEST);
    guest.host = Answers { compiles: true, ..Answers::default() };
    guest
}

#[test]
fn functions_are_made_of_text_as_the_language_says() {
    assert_eq!(
        guest().ask("functions", &[]),
        json!({
            "sum": 3,
            "text": "function anonymous(a,b\n) {\nreturn a + b\n}",
            "name": ["anonymous", 2],
            "kinds": [true, true, true, true],
            "async": 2,
            "yielded": [1, 2],
            "class": [true, true, 7],
            "sloppy": true,
            "tagged": "a-1-b",
            "named": ["Function", 1, "AsyncFunction", "eval", 1],
            "identity": [true, true, true, true, true],
            "scope": "undefined",
        })
    );
}

#[test]
fn evaluated_text_has_global_scope() {
    assert_eq!(
        guest().ask("evaluated", &[]),
        json!({ "value": 3, "same": [{}, true], "global": 5, "lexical": [1, 2, "undefined"], "direct": "undefined", "json": [1] })
    );
}

#[test]
fn a_syntax_error_has_a_position() {
    assert_eq!(
        guest().ask("wrong", &[]),
        json!([
            ["SyntaxError", "Unexpected identifier 'b'", "    at <anonymous>:3:10"],
            ["SyntaxError", "Unexpected token '='", "    at <anonymous>:1:5"],
            ["SyntaxError", "Unexpected token '}'", "    at <anonymous>"],
            ["SyntaxError", "Unexpected token '}'", "    at <anonymous>"],
            ["SyntaxError", "Unexpected token '}'", "    at <anonymous>"],
            ["SyntaxError", "Unexpected token '}'", "    at <anonymous>"],
            ["SyntaxError", "Unexpected token '*'", "    at <anonymous>:3:1"],
            ["SyntaxError", "Unexpected end of input", "    at <anonymous>:2:4"],
        ])
    );
}

#[test]
fn each_text_is_requested_with_its_length_and_digest() {
    let mut guest = guest();
    guest.ask("evaluated", &[]);
    let HostCall { capability, method, params, .. } = &guest.host.calls[0];
    assert_eq!((capability.as_str(), method.as_str()), ("eval", "module"));
    let (digest, mut others) = (params["digest"].clone(), params.clone());
    others.remove("digest");
    assert_eq!(Value::Object(others), json!({ "op": "compile", "bytes": 5 }));
    assert!(digest.as_str().is_some_and(|digest| digest.starts_with("sha256:") && digest.len() == 71));
    guest.host.calls.clear();
    guest.ask("probes", &[]);
    assert_eq!(guest.host.calls.len(), 4);
    assert!(guest.host.calls.iter().all(|call| call.params["probe"] == true));
}

#[test]
fn the_bounds_of_text_hold() {
    let bounds = guest().ask("bounds", &[]);
    let expected =
        "RangeError: Cannot compile text: at run time up to 1 MB are compiled per text, 16 MB and 10000 texts in all";
    assert_eq!(bounds, json!({ "long": expected, "many": expected, "compiled": 10000 }));
}

#[test]
fn text_has_the_imports_of_a_module_compiled_at_run_time() {
    let mut guest = guest();
    let answers = guest.ask("imports", &[]);
    for answer in answers.as_array().expect("a list") {
        assert!(answer.as_str().is_some_and(|text| text.starts_with("refused: Cannot find module")), "{answers}");
    }
}
