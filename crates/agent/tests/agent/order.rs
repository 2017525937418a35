//! Tests the order of events, commands and input, and the contents of requests.

use crate::support::{Fake, World, fixture};
use pijs_agent::{AgentControl, DeliverAs, Ending};
use pijs_llm::message::CustomMessage;
use pijs_protocol::StreamSource;
use serde_json::{Value, json};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const ALL: &[&str] = &[
    "session_start",
    "resources_discover",
    "input",
    "before_agent_start",
    "agent_start",
    "turn_start",
    "message_start",
    "message_end",
    "context",
    "before_provider_request",
    "after_provider_response",
    "tool_execution_start",
    "tool_call",
    "tool_result",
    "tool_execution_end",
    "turn_end",
    "agent_end",
    "session_shutdown",
];

fn custom(text: &str) -> CustomMessage {
    CustomMessage {
        custom_type: "t".into(),
        content: text.into(),
        display: Some(true),
        details: None,
        timestamp: 0,
        authors: Default::default(),
    }
}

#[tokio::test]
async fn events_come_in_pis_order() {
    let fake = ALL.iter().fold(Fake::default(), |fake, event| fake.on(event, |_| None));
    let world = World::new(&fixture("abort-on-third-delta.jsonl"), fake);
    world.agent.start("startup").await.unwrap();
    world.agent.prompt("go").await.unwrap();
    world.agent.shutdown("quit").await;
    assert_eq!(
        *world.fake.emitted.borrow(),
        [
            "session_start",
            "resources_discover",
            "input",
            "before_agent_start",
            "agent_start",
            "turn_start",
            // The message that declares prompt and tools precedes the user message.
            "message_start",
            "message_end",
            "message_start",
            "message_end",
            "context",
            "before_provider_request",
            "after_provider_response",
            "message_start",
            "message_end",
            "turn_end",
            "agent_end",
            "session_shutdown",
        ]
    );
}

#[tokio::test]
async fn a_command_takes_the_text_with_its_arguments_untrimmed_and_an_unknown_one_goes_to_the_model() {
    let world = World::new(&fixture("abort-on-third-delta.jsonl"), Fake::default());
    let outcome = world.agent.prompt("/known  a b ").await.unwrap();
    assert!(matches!(outcome.ending, Ending::Handled));
    assert_eq!(*world.fake.emitted.borrow(), ["/known[ a b ]"]);
    assert!(world.payloads().is_empty());
    world.agent.prompt("/other x").await.unwrap();
    assert!(world.payloads()[0].to_string().contains("/other x"));
}

#[tokio::test]
async fn input_is_transformed_or_handled() {
    let fake = Fake::default().on("input", |event| match event.payload["text"].as_str().unwrap() {
        "mine" => Some(json!({"action": "handled"})),
        text => Some(json!({"action": "transform", "text": text.to_uppercase()})),
    });
    let world = World::new(&fixture("abort-on-third-delta.jsonl"), fake);
    assert!(matches!(world.agent.prompt("mine").await.unwrap().ending, Ending::Handled));
    world.agent.prompt("loud").await.unwrap();
    assert!(world.payloads()[0].to_string().contains("LOUD"));
}

#[tokio::test]
async fn handlers_change_prompt_context_and_body() {
    let fake = Fake::default()
        .on("before_agent_start", |_| {
            Some(json!({"systemPrompt": "OTHER", "messages": [{"customType": "x", "content": "ADDED", "display": true}]}))
        })
        .on("context", |event| {
            let mut messages = event.payload["messages"].clone();
            messages.as_array_mut().unwrap().retain(|message| message["role"] != "user");
            Some(json!({"messages": messages}))
        })
        .on("before_provider_request", |event| {
            let mut payload = event.payload["payload"].clone();
            payload["marked"] = true.into();
            Some(payload)
        });
    let world = World::new(&fixture("abort-on-third-delta.jsonl"), fake);
    world.agent.prompt("SAID").await.unwrap();
    let body = &world.payloads()[0];
    assert_eq!(body["system"], "OTHER");
    assert_eq!(body["marked"], true);
    assert!(body.to_string().contains("ADDED") && !body.to_string().contains("SAID"), "{body}");
    assert!(world.session_text().contains("SAID"), "the session keeps what was said");
}

#[tokio::test]
async fn a_message_end_handler_replaces_the_message_unless_the_role_differs() {
    let fake = Fake::default().on("message_end", |event| {
        let mut message = event.payload["message"].clone();
        if message["role"] == "user" {
            message["role"] = "assistant".into();
        } else {
            message["content"] = json!([{"type": "text", "text": "REPLACED"}]);
        }
        Some(json!({"message": message}))
    });
    let world = World::new(&fixture("abort-on-third-delta.jsonl"), fake);
    let outcome = world.agent.prompt("SAID").await.unwrap();
    assert_eq!(outcome.message.unwrap().text(), "REPLACED");
    assert!(world.session_text().contains("SAID") && !world.session_text().contains("never-sent"));
}

#[tokio::test]
async fn messages_for_the_next_turn_follow_the_prompt_and_a_trigger_starts_a_run() {
    let world = World::new(&fixture("abort-on-third-delta.jsonl"), Fake::default());
    world.control.send_message(custom("LATER"), Some(DeliverAs::NextTurn), None).unwrap();
    world.agent.prompt("FIRST").await.unwrap();
    let messages = world.payloads()[0]["messages"].to_string();
    assert!(messages.find("FIRST").unwrap() < messages.find("LATER").unwrap(), "{messages}");
    world.control.send_message(custom("TRIGGER"), None, Some(true)).unwrap();
    assert!(world.agent.settle().await.unwrap().is_some());
    assert!(world.payloads()[1].to_string().contains("TRIGGER"));
}

/// Runs a session in which a handler sends a follow-up the first time it is called.
async fn followed_up_in(event: &'static str) -> World {
    let control: Rc<OnceCell<AgentControl>> = Rc::default();
    let (known, sent) = (Rc::clone(&control), Cell::new(false));
    let fake = Fake::default().on(event, move |_| {
        if !sent.replace(true) {
            let control = known.get().expect("the world is set up");
            control.send_user_message("FOLLOWS".into(), Some(DeliverAs::FollowUp), false).unwrap();
        }
        None
    });
    let world = World::new(&fixture("abort-on-third-delta.jsonl"), fake);
    assert!(control.set(world.control.clone()).is_ok());
    world.agent.prompt("FIRST").await.unwrap();
    world.agent.settle().await.unwrap();
    world
}

#[tokio::test]
async fn messages_sent_during_the_end_of_a_run_are_answered() {
    // A message in flight must not begin a run that waits for the message's own delivery.
    for event in ["turn_end", "agent_end", "agent_before_settle"] {
        let world = tokio::time::timeout(Duration::from_secs(120), followed_up_in(event)).await.expect(event);
        assert_eq!(world.payloads().len(), 2, "{event}");
        assert!(world.payloads()[1].to_string().contains("FOLLOWS"), "{event}");
        assert!(world.control.is_idle(), "{event}");
    }
}

#[tokio::test]
async fn a_failed_reply_is_kept_and_marked_and_its_tools_do_not_run() {
    let fake = Fake::default().with_tools(&["fast"], |_, _| panic!("must not run"));
    let world = World::new(&fixture("fails-midway.jsonl"), fake);
    let outcome = world.agent.prompt("go").await.unwrap();
    assert!(matches!(&outcome.ending, Ending::Failed(error) if error.to_string() == "overloaded"), "{outcome:?}");
    let last = world.events_of("message_end").pop().unwrap();
    assert_eq!(last["message"]["stopReason"], "error");
    assert_eq!(last["message"]["content"][0]["text"], "partial");
    let names: Vec<Value> = world.events().iter().map(|event| event["type"].clone()).rev().take(3).collect();
    assert_eq!(names, ["agent_settled", "agent_end", "turn_end"]);
}

#[tokio::test]
async fn an_exhausted_script_is_named_in_the_error() {
    let world = World::new(&fixture("fails-midway.jsonl"), Fake::default());
    world.agent.prompt("one").await.unwrap();
    let outcome = world.agent.prompt("two").await.unwrap();
    let Ending::Failed(error) = outcome.ending else { panic!("{:?}", outcome.ending) };
    assert!(error.to_string().contains("has 1 line, and this is request 2"), "{error}");
}

/// Returns the bytes that json mode writes for a reply with this many deltas.
async fn written(deltas: usize) -> usize {
    let directory = tempfile::tempdir().unwrap();
    let events: Vec<Value> = (0..deltas).map(|_| serde_json::json!({"text": "8 bytes "})).collect();
    let script = directory.path().join("long.jsonl");
    std::fs::write(&script, serde_json::json!({"events": events, "stop": "end_turn"}).to_string()).unwrap();
    let world = World::new(&format!("script:{}", script.display()), Fake::default());
    world.agent.prompt("go").await.unwrap();
    let updates = world.events_of("message_update");
    assert_eq!(updates.len(), deltas + 2, "its beginning and its end");
    updates.iter().map(|update| update.to_string().len()).sum()
}

#[tokio::test]
async fn json_output_is_linear_in_the_reply() {
    let (short, long) = (written(100).await, written(400).await);
    assert!(long < 4 * short, "{short} bytes, then {long}");
}

/// Each delta is shown after its verdict, although the handlers have already seen later ones.
#[tokio::test]
async fn deltas_that_arrived_together_are_judged_together_and_shown_one_by_one() {
    let world: Rc<OnceCell<World>> = Rc::default();
    let shown = |world: &World| -> Vec<String> {
        let deltas = world.events_of("message_update").into_iter();
        deltas.filter_map(|event| event["assistantMessageEvent"]["delta"].as_str().map(str::to_owned)).collect()
    };
    let seen: Rc<RefCell<Vec<(String, usize)>>> = Rc::default();
    let fake = Fake::default().judges(&[StreamSource::Text], {
        let (world, seen) = (Rc::clone(&world), Rc::clone(&seen));
        move |delta, _| {
            let before = world.get().map_or(0, |world| shown(world).len());
            seen.borrow_mut().push((delta.chunk.clone(), before));
            (delta.chunk == "f").then_some(None)
        }
    });
    let events: Vec<Value> = ["a", "b", "", "c", "d", "e", "f", "g"].map(|text| json!({ "text": text })).into();
    let scripts = tempfile::tempdir().unwrap();
    let script = scripts.path().join("reply.jsonl");
    std::fs::write(&script, json!({ "events": events, "stop": "end_turn" }).to_string()).unwrap();
    assert!(world.set(World::new(&format!("script:{}", script.display()), fake)).is_ok());
    let world = world.get().unwrap();
    world.agent.start("startup").await.unwrap();
    world.agent.prompt("go").await.unwrap();
    let expected = [("a", 0), ("b", 0), ("c", 0), ("d", 0), ("e", 4), ("f", 4)];
    assert_eq!(*seen.borrow(), expected.map(|(chunk, before)| (chunk.to_owned(), before)));
    assert_eq!(shown(world), ["a", "b", "c", "d", "e"], "and the one that was stopped is not");
}
