//! Tests streamed verdicts: discarded replies, injected texts, caps.

use crate::support::{Fake, World, fixture, inject};
use pijs_agent::{Cap, Ending, VerdictCaps};
use pijs_llm::provider::ProviderOptions;
use pijs_protocol::StreamSource;
use serde_json::Value;

fn trips_once() -> Fake {
    let mut fired = false;
    Fake::default().judges(&[StreamSource::Text], move |_, text| {
        (text.contains("TRIP") && !std::mem::replace(&mut fired, true)).then(|| inject("RULE: do not trip"))
    })
}

fn trips_always() -> Fake {
    Fake::default().judges(&[StreamSource::Text], |_, text| text.contains("TRIP").then(|| inject("RULE")))
}

fn deltas(events: &[Value]) -> Vec<String> {
    events.iter().filter_map(|event| event["assistantMessageEvent"]["delta"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn an_abort_takes_effect_at_its_delta_and_discards_the_reply() {
    let world = World::new(&fixture("abort-on-third-delta.jsonl"), trips_once());
    world.agent.start("startup").await.unwrap();
    let outcome = world.agent.prompt("go").await.unwrap();
    assert!(matches!(outcome.ending, Ending::Done), "{outcome:?}");
    assert_eq!(outcome.message.unwrap().text(), "clean reply");
    assert_eq!(*world.fake.judged.borrow(), ["keep ", "junk-1", " TRIP", "clean ", "reply"]);

    let events = world.events();
    let at = events.iter().position(|event| event["type"] == "message_discarded").expect("discarded");
    assert_eq!(deltas(&events[..at]), ["keep ", "junk-1"]);
    assert!(!Value::from(events.clone()).to_string().contains("TRIP"), "the delta that tripped is in no event");
    assert!(!Value::from(events[at..].to_vec()).to_string().contains("junk-1"));
    assert_eq!(events[at]["attempt"], 1);
    assert_eq!(events[at]["extension"], "path:fake");
    assert_eq!(events[at]["tokens_burned"], 4, "16 bytes at four a token");

    let verdict = &world.events_of("stream_verdict")[0];
    assert_eq!(verdict["offset"], "keep junk-1".len());
    assert_eq!(verdict["source"], "text");
    assert_eq!(verdict["latency_us"], 7);

    let second = world.payloads()[1].to_string();
    assert!(!second.contains("junk-1") && !second.contains("TRIP"), "{second}");
    assert_eq!(second.matches("RULE: do not trip").count(), 1);
    let file = world.session_text();
    assert!(!file.contains("junk-1") && !file.contains("TRIP"), "{file}");
    assert_eq!(file.lines().filter(|line| line.contains("\"type\":\"custom_message\"")).count(), 1);

    world.agent.prompt("more").await.unwrap();
    let third = world.payloads()[2].to_string();
    assert!(!third.contains("junk-1"), "{third}");
    assert_eq!(third.matches("RULE: do not trip").count(), 1, "the injection stays in the conversation, once");
}

#[tokio::test]
async fn every_message_that_starts_ends_or_is_discarded() {
    let world = World::new(&fixture("always-trips.jsonl"), trips_always());
    world.agent.prompt("go").await.unwrap();
    let mut open = 0;
    for event in world.events() {
        match event["type"].as_str().unwrap() {
            "message_start" => open += 1,
            "message_end" | "message_discarded" => open -= 1,
            "message_update" => assert_eq!(open, 1),
            _ => {}
        }
        assert!((0..=1).contains(&open), "{event}");
    }
    assert_eq!(open, 0);
}

#[tokio::test]
async fn beyond_the_cap_of_a_turn_the_content_becomes_a_reminder() {
    let world = World::new(&fixture("always-trips.jsonl"), trips_always());
    let outcome = world.agent.prompt("go").await.unwrap();
    assert_eq!(outcome.message.unwrap().text(), "TRIP 4 TRIP again");
    assert_eq!(outcome.verdicts.discarded, 3);
    assert_eq!(outcome.verdicts.let_through, 1);
    assert_eq!(world.events_of("message_discarded").len(), 3);
    let actions: Vec<Value> =
        world.events_of("stream_verdict").iter().map(|verdict| verdict["action"].clone()).collect();
    assert_eq!(actions, ["retry", "retry", "retry", "remind"]);
    let before = world.payloads().last().unwrap().to_string().matches("RULE").count();
    world.agent.prompt("again").await.unwrap();
    let after = world.payloads().last().unwrap().to_string().matches("RULE").count();
    assert_eq!((before, after), (3, 4), "the reminder goes with the next request");
}

#[tokio::test]
async fn the_cap_of_a_session_holds_over_turns() {
    let rule = Cap { per_turn: 3, per_session: 2 };
    let caps = VerdictCaps { rule, ..VerdictCaps::default() };
    let world = World::with(&fixture("always-trips.jsonl"), trips_always(), &ProviderOptions::default(), caps);
    let outcome = world.agent.prompt("go").await.unwrap();
    assert_eq!(outcome.verdicts.discarded, 2);
    assert_eq!(outcome.message.unwrap().text(), "TRIP 3");
}

#[tokio::test]
async fn an_abort_without_retry_ends_the_run() {
    let fake = Fake::default().judges(&[StreamSource::Text], |delta, _| (delta.chunk == "junk-1").then_some(None));
    let world = World::new(&fixture("abort-on-third-delta.jsonl"), fake);
    let outcome = world.agent.prompt("go").await.unwrap();
    assert!(matches!(outcome.ending, Ending::Stopped { extension } if extension == "path:fake"));
    assert!(outcome.message.is_none());
    assert_eq!(world.payloads().len(), 1);
    assert_eq!(world.events_of("agent_end").len(), 1);
    assert_eq!(world.events().last().unwrap()["type"], "agent_settled");
    assert_eq!(world.events_of("message_discarded").len(), 1);
}

#[tokio::test]
async fn thinking_and_tool_arguments_are_judged_for_subscribers() {
    let sources = [StreamSource::Text, StreamSource::Thinking, StreamSource::Tool];
    let fake = Fake::default().judges(&sources, |delta, text| match delta.source {
        StreamSource::Thinking => text.contains("SECRET").then(|| inject("think again")),
        StreamSource::Tool => text
            .contains("EVIL")
            .then(|| inject(&format!("do not {} {}", delta.tool_name.as_deref().unwrap(), delta.file_paths.join(",")))),
        StreamSource::Text => None,
    });
    let world = World::new(&fixture("thinking-and-tool.jsonl"), fake);
    world.agent.prompt("go").await.unwrap();
    let sources: Vec<Value> =
        world.events_of("stream_verdict").iter().map(|verdict| verdict["source"].clone()).collect();
    assert_eq!(sources, ["thinking", "tool"]);
    assert!(world.payloads()[2].to_string().contains("do not write x.ts"));
    assert!(!world.path("x.ts").exists(), "the aborted call did not run");
    assert!(world.events_of("tool_execution_start").is_empty());
}

#[tokio::test]
async fn streams_without_subscribers_are_not_judged() {
    let fake = Fake::default().judges(&[StreamSource::Text], |_, _| None);
    let world = World::new(&fixture("thinking-and-tool.jsonl"), fake);
    world.agent.prompt("go").await.unwrap();
    assert_eq!(*world.fake.judged.borrow(), ["a"]);
}
