//! Runs `fixtures/rummy/rpc/methods.json`: messages of clients in order, with the expected responses.
//!
//! A line is `{"client": N, "method", "params"}` with one of `result` (objects may have more members), `error` (part of the
//! message), and `work` (the name of the host's work); or `{"db": NAME, "params"}`, a statement that the host runs.

use super::{Connection, Incoming, Offered, Reply, Work, catalogue};
use crate::{Options, Store};
use serde_json::{Value, json};

fn contains(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            expected.iter().all(|(name, value)| contains(actual.get(name).unwrap_or(&Value::Null), value))
        }
        (Value::Array(actual), Value::Array(expected)) => {
            actual.len() == expected.len() && actual.iter().zip(expected).all(|(one, other)| contains(one, other))
        }
        // Attributes are returned as JSON in a string.
        (Value::String(text), Value::Object(_)) => {
            serde_json::from_str(text).is_ok_and(|inner: Value| contains(&inner, expected))
        }
        _ => actual == expected,
    }
}

fn name(work: &Work) -> &'static str {
    match work {
        Work::Drain { .. } => "drain",
        Work::Abort { .. } => "abort",
        Work::Resolve(_) => "resolve",
        Work::Tool(_) => "tool",
        Work::Plugin { .. } => "plugin",
        Work::Cancelled { .. } => "cancelled",
    }
}

#[test]
fn client_calls_match_the_fixture() {
    let cases: Value =
        serde_json::from_str(include_str!("../../../../fixtures/rummy/rpc/methods.json")).expect("the fixture is JSON");
    let methods = json!({ "remote/double": { "description": "Doubles.", "params": {}, "requiresInit": true } });
    let offered = Offered {
        tools: vec!["sh".to_owned(), "get".to_owned()],
        methods: methods.as_object().cloned().unwrap_or_default(),
        ..Offered::default()
    };
    let mut wrong = Vec::new();
    for case in cases.as_array().expect("cases") {
        let mut store = Store::in_memory(Options::default()).unwrap();
        let mut clients = [Connection::default(), Connection::default()];
        for (number, line) in case["calls"].as_array().expect("calls").iter().enumerate() {
            if let Some(name) = line["db"].as_str() {
                store.statement(name, "run", &line["params"]).unwrap();
                continue;
            }
            let client = usize::try_from(line["client"].as_u64().unwrap_or(0)).unwrap();
            let incoming = Incoming {
                id: Some(json!(number)),
                method: line["method"].as_str().expect("a method").to_owned(),
                params: line["params"].as_object().cloned().unwrap_or_default(),
            };
            let (_, reply) = clients[client].call(&mut store, &incoming, &offered, 1_700_000_000_000).unwrap();
            let (value, work, error) = match &reply {
                Ok(Reply::Done(value)) => (value.clone(), None, None),
                Ok(Reply::Begun(value, work)) => (value.clone(), Some(name(work)), None),
                Ok(Reply::Work(work)) => {
                    if let Work::Resolve(resolution) = work {
                        store.settle(resolution, "done").unwrap();
                    }
                    (Value::Null, Some(name(work)), None)
                }
                Err(error) => (Value::Null, None, Some(error.to_string())),
            };
            let is_right = match line["error"].as_str() {
                Some(part) => error.as_deref().is_some_and(|error| error.contains(part)),
                None => error.is_none() && line.get("result").is_none_or(|expected| contains(&value, expected)),
            };
            if !is_right || work != line["work"].as_str() {
                wrong.push(format!("{}: call {}: {line}\n  came to {reply:?}", case["name"], number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn messages_are_read_or_refused() {
    let read = Incoming::read(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).unwrap();
    assert_eq!((read.id, read.method.as_str()), (Some(json!(1)), "ping"));
    for (text, says) in [
        ("x", "not JSON"),
        (r#"{"id":1,"method":"ping"}"#, "jsonrpc"),
        (r#"{"jsonrpc":"2.0","id":1}"#, "discover"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, "an object"),
    ] {
        let error = Incoming::read(text).unwrap_err();
        assert_eq!(error["error"]["code"], -32603);
        assert!(error["error"]["message"].as_str().unwrap().contains(says), "{error}");
    }
}

/// Every method and notification of the tables in rummy's plugin guide, "RPC Methods", is in the catalogue.
#[test]
fn the_catalogue_is_whole() {
    let catalogue = catalogue(&Offered { tools: vec!["sh".to_owned()], ..Offered::default() });
    for method in [
        "rummy/hello",
        "ping",
        "discover",
        "set",
        "get",
        "rm",
        "cp",
        "mv",
        "update",
        "getModels",
        "addModel",
        "removeModel",
        "getRuns",
        "getRun",
        "getEntries",
        "file/constraint",
        "file/drop",
        "getConstraints",
        "stream",
        "stream/completed",
        "stream/aborted",
        "stream/cancel",
        "sh",
    ] {
        assert!(catalogue["methods"][method]["description"].is_string(), "{method}: {catalogue}");
    }
    for method in
        ["rummy/hello", "run/state", "run/progress", "run/proposal", "stream/cancelled", "ui/render", "ui/notify"]
    {
        assert!(catalogue["notifications"][method]["params"].is_object(), "{method}");
    }
    assert_eq!(catalogue["methods"]["stream"]["params"]["chunk"], "The new output.");
    assert_eq!(catalogue["methods"]["getRuns"]["params"]["limit"], "optional: Maximum number of rows.");
}
