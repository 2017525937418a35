//! Tests tool calls: interception, concurrency, and calls that must not run.

use crate::support::{Fake, World, fixture};
use futures_util::FutureExt;
use pijs_agent::ToolFate;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

fn answer(text: &str) -> ToolFate {
    ToolFate::Returned(json!({"content": [{"type": "text", "text": text}], "details": {}}))
}

fn results(world: &World) -> Vec<(String, String, bool)> {
    world
        .events_of("message_end")
        .iter()
        .map(|event| &event["message"])
        .filter(|message| message["role"] == "toolResult")
        .map(|message| {
            let text = message["content"][0]["text"].as_str().unwrap().to_owned();
            (message["toolCallId"].as_str().unwrap().to_owned(), text, message["isError"] == true)
        })
        .collect()
}

#[tokio::test]
async fn calls_run_concurrently_and_results_keep_their_order() {
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    let (sender, receiver) = (RefCell::new(Some(sender)), RefCell::new(Some(receiver)));
    // `slow` ends only after `fast` has run, so sequential execution would hang.
    let fake = Fake::default().with_tools(&["slow", "fast"], move |name, input| {
        if name == "fast" {
            sender.borrow_mut().take().unwrap().send(()).unwrap();
            return std::future::ready(answer(&format!("fast {}", input["n"]))).boxed_local();
        }
        let receiver = receiver.borrow_mut().take().unwrap();
        async move {
            receiver.await.unwrap();
            answer("slow")
        }
        .boxed_local()
    });
    let world = World::new(&fixture("two-tools.jsonl"), fake);
    world.agent.prompt("go").await.unwrap();
    assert_eq!(results(&world), [("a".into(), "slow".into(), false), ("b".into(), "fast 2".into(), false)]);
    let ends: Vec<Value> =
        world.events_of("tool_execution_end").iter().map(|event| event["toolCallId"].clone()).collect();
    assert_eq!(ends, ["b", "a"], "ends come as tools end");
    let starts: Vec<Value> =
        world.events_of("tool_execution_start").iter().map(|event| event["args"].clone()).collect();
    assert_eq!(starts, [json!({"n": 1}), json!({"n": "2"})], "raw, before coercion");
}

#[tokio::test]
async fn a_tool_call_handler_changes_the_input_and_a_tool_result_handler_the_result() {
    let fake = Fake::default()
        .with_tools(&["slow", "fast"], |_, input| std::future::ready(answer(&input["n"].to_string())).boxed_local())
        .changes("tool_call", |payload| payload["input"]["n"] = 40.into())
        .on("tool_result", |event| {
            (event.payload["toolName"] == "fast")
                .then(|| json!({"isError": true, "content": [{"type": "text", "text": "no"}]}))
        });
    let world = World::new(&fixture("two-tools.jsonl"), fake);
    world.agent.prompt("go").await.unwrap();
    assert_eq!(results(&world), [("a".into(), "40".into(), false), ("b".into(), "no".into(), true)]);
    let reply = &world.payloads()[1]["messages"];
    assert!(reply.to_string().contains(r#""arguments":{"n":1}"#), "history keeps what the model said: {reply}");
}

#[tokio::test]
async fn a_blocked_call_does_not_run_and_fires_no_tool_result() {
    let ran = Rc::new(Cell::new(0));
    let counter = ran.clone();
    let fake = Fake::default()
        .with_tools(&["slow", "fast"], move |_, _| {
            counter.set(counter.get() + 1);
            std::future::ready(answer("ran")).boxed_local()
        })
        .on("tool_call", |event| {
            (event.payload["toolName"] == "slow").then(|| json!({"block": true, "reason": "not today"}))
        })
        .on("tool_result", |_| None);
    let world = World::new(&fixture("two-tools.jsonl"), fake);
    world.agent.prompt("go").await.unwrap();
    assert_eq!(results(&world), [("a".into(), "not today".into(), true), ("b".into(), "ran".into(), false)]);
    assert_eq!(ran.get(), 1);
    assert_eq!(world.fake.emitted.borrow().iter().filter(|name| *name == "tool_result").count(), 1);
}

#[tokio::test]
async fn arguments_that_were_cut_off_never_reach_handler_or_tool() {
    let fake = Fake::default()
        .with_tools(&["fast"], |_, _| panic!("must not run"))
        .on("tool_call", |_| panic!("must not be asked"));
    let world = World::new(&fixture("truncated-call.jsonl"), fake);
    world.agent.prompt("go").await.unwrap();
    let results = results(&world);
    assert!(results[0].2 && results[0].1.contains("was not executed"), "{results:?}");
}

#[tokio::test]
async fn unknown_and_failing_tools_are_reported_to_the_model() {
    let fake =
        Fake::default().with_tools(&["fast"], |_, _| std::future::ready(ToolFate::Threw("boom".into())).boxed_local());
    let world = World::new(&fixture("two-tools.jsonl"), fake);
    world.agent.prompt("go").await.unwrap();
    assert_eq!(results(&world), [("a".into(), "Tool slow not found".into(), true), ("b".into(), "boom".into(), true)]);
}
