//! Compares the request bodies of the clients with the bodies of pi's clients, member by member and in order
//! (`fixtures/providers/requests.json`, and `requests.expected.json` written by `capture-requests.mjs` there).

use super::recorded_tests::{folder, opened, serve};
use super::{Model, Outgoing};
use crate::pi_context::request;
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::fmt::Write;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

fn read(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder().join(name)).unwrap()).unwrap()
}

fn model(case: &Value, address: &str) -> Model {
    let mut model = json!({"id": "m", "name": "M", "provider": "p", "baseUrl": address, "reasoning": false,
        "input": ["text"], "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}, "contextWindow": 100_000,
        "maxTokens": 5000, "api": case["api"]});
    model.as_object_mut().unwrap().extend(case["model"].as_object().unwrap().clone());
    Model::from_value(&model).unwrap()
}

#[tokio::test]
async fn requests_equal_those_of_pi_member_by_member() {
    let (given, expected) = (read("requests.json"), read("requests.expected.json"));
    let cases = given["cases"].as_array().unwrap();
    assert!(cases.len() >= 170 && cases.len() == expected["cases"].as_array().unwrap().len());
    let mut differences = String::new();
    for (case, expected) in cases.iter().zip(expected["cases"].as_array().unwrap()) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let provider = opened(model(case, &format!("http://{}", listener.local_addr().unwrap())));
        let mut options = case["options"].clone();
        options["sessionId"] = json!("the-session");
        let asked = request(&given["conversations"][case["conversation"].as_str().unwrap()], &options);
        let payload = provider.payload(&asked);
        let shown = payload.to_string();
        let server = tokio::spawn(serve(listener, Vec::new()));
        provider.send(Outgoing::from(payload), CancellationToken::new()).collect::<Vec<_>>().await;
        let (head, body) = server.await.unwrap();
        let (url, betas) =
            (head.split(' ').nth(1), head.lines().find_map(|line| line.strip_prefix("anthropic-beta: ")));
        let expected = |member: &str| expected.get(member).and_then(Value::as_str);
        for (what, actual, expected) in [
            ("payload", Some(shown.as_str()), expected("payload")),
            ("body", Some(body.as_str()), expected("body").or(expected("payload"))),
            ("betas", betas, expected("betas")),
            ("url", url, expected("url").map(str::to_lowercase).as_deref()),
        ] {
            if actual != expected {
                let (actual, expected) = (actual.unwrap_or("-"), expected.unwrap_or("-"));
                writeln!(differences, "{}: {what}\n  expected {expected}\n  actual   {actual}", case["name"]).unwrap();
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}
