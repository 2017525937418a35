//! Tests of events: order, combination of answers, isolation.

use crate::lab::Lab;
use pijs_host::{Event, HostOptions, Signal};
use serde_json::json;

const BOTH: &[&str] = &["handlers-a", "handlers-b"];

#[test]
fn handlers_run_in_order_and_an_exception_skips_no_later_one() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(BOTH).await;
        lab.host.emit(Event::new("agent_start")).await;
        assert_eq!(lab.logs(), ["a1", "a3", "b1"]);
        let complaints = lab.complaints();
        let place = "Extension \"handlers-a/index.ts\" error: a2 broke (handlers-a/index.ts:10:";
        assert!(complaints.len() == 1 && complaints[0].starts_with(place), "{complaints:?}");
    });
}

#[test]
fn a_tool_call_is_changed_in_place_and_not_by_replacing_it() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(BOTH).await;
        let event = Event::new("tool_call").with("toolName", "read").with("input", json!({ "path": "x" }));
        let outcome = lab.host.emit(event).await;
        assert_eq!(outcome.payload["input"], json!({ "path": "x", "seen": ["a", "b"] }));
        assert_eq!(outcome.answer, None);
    });
}

#[test]
fn a_tool_call_is_blocked_by_an_answer_and_by_an_exception() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(BOTH).await;
        for (tool, reason, thrown) in [("forbidden", "a says no", false), ("explode", "not this one", true)] {
            let outcome = lab.host.emit(Event::new("tool_call").with("toolName", tool).with("input", json!({}))).await;
            assert_eq!(outcome.answer, Some(json!({ "block": true, "reason": reason })));
            assert_eq!((outcome.stopped, outcome.thrown.is_some()), (true, thrown));
            assert_eq!(outcome.payload["input"]["seen"], json!(["a"]), "the second extension is not asked");
        }
        assert!(lab.complaints().is_empty(), "nothing is reported, as under pi");
    });
}

#[test]
fn an_answer_without_the_capability_is_ignored_and_blocks_nothing() {
    let lab = Lab::with(HostOptions::default(), &["context.modify"]);
    lab.run(async {
        lab.load(BOTH).await;
        for tool in ["forbidden", "explode"] {
            let event = Event::new("tool_call").with("toolName", tool).with("input", json!({ "seen": [] }));
            let outcome = lab.host.emit(event).await;
            assert_eq!((outcome.answer, outcome.stopped, outcome.thrown), (None, false, None));
            assert_eq!(outcome.payload["input"], json!({ "seen": [] }));
        }
        let refusals = lab.complaints().iter().filter(|line| line.contains("\"tool.modify\" is not granted")).count();
        assert_eq!(refusals, 4, "{:?}", lab.complaints());
        let input = lab.host.emit(Event::new("input").with("text", "go")).await;
        assert_eq!(input.answer_field("text").expect("granted"), "go a b");
    });
}

#[test]
fn input_is_transformed_in_a_chain_and_handled_by_one() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(BOTH).await;
        let go = lab.host.emit(Event::new("input").with("text", "go")).await;
        assert_eq!(go.answer, Some(json!({ "action": "transform", "text": "go a b" })));
        let stop = lab.host.emit(Event::new("input").with("text", "stop")).await;
        assert_eq!(stop.answer, Some(json!({ "action": "handled" })));
        let nobody = lab.host.emit(Event::new("resources_discover")).await;
        assert_eq!(nobody.answer, None);
    });
}

#[test]
fn the_system_prompt_is_chained_and_messages_are_collected() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(BOTH).await;
        let outcome = lab.host.emit(Event::new("before_agent_start").with("systemPrompt", "base")).await;
        let answer = outcome.answer.expect("both answer");
        assert_eq!(answer["systemPrompt"], "base+a+b");
        assert_eq!(answer["messages"][0]["content"], "base");
        assert_eq!(answer["messages"][1]["content"], "base+a", "getSystemPrompt sees the chain");
    });
}

#[test]
fn a_message_keeps_its_role() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(BOTH).await;
        let message = json!({ "role": "assistant", "content": [] });
        let outcome = lab.host.emit(Event::new("message_end").with("message", message.clone())).await;
        assert_eq!((outcome.answer, &outcome.payload["message"]), (None, &message));
        assert_eq!(
            lab.complaints(),
            ["Extension \"handlers-a/index.ts\" error: message_end handlers must return a message with the same role"]
        );
    });
}

#[test]
fn the_state_is_read_without_a_hostcall_and_is_current_after_one() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["reads-state"]).await;
        let first = json!({ "type": "custom", "id": "e1", "parentId": null, "timestamp": "" });
        lab.host.session_entries(pijs_protocol::wire::EntriesDelta { keep: 0, append: vec![first.into()] });
        lab.host.set_state("isIdle", false);
        lab.host.emit(Event::new("session_start").with("reason", "startup")).await;
        assert_eq!(lab.logs(), ["1 -> 2, idle false, cwd /project", "e1,e2"]);
        assert_eq!(lab.calls.lock().expect("no panic").len(), 1, "only the append asked the host");
    });
}

#[test]
fn the_bus_calls_its_own_realm_at_once_and_the_others_afterwards() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["bus-talks", "bus-hears"]).await;
        lab.host.emit(Event::new("session_start").with("reason", "startup")).await;
        let refused = "pi.events: the function f belongs to another extension and cannot be called from here";
        lab.until_log(refused).await;
        let own = ["own ear: hello", "emitted", "own ear: with a function"];
        let others = ["other ear: hello", "other ear: with a function", refused];
        assert_eq!(lab.logs(), [own, others].concat());
        assert_eq!(lab.complaints(), [""; 0]);
    });
}

#[test]
fn the_signal_of_the_run_is_live() {
    let lab = Lab::new();
    lab.run(async {
        lab.load(&["watches-signal"]).await;
        let signal = Signal::new();
        lab.host.emit(Event::new("agent_start")).await;
        lab.host.set_signal(Some(&signal));
        lab.host.emit(Event::new("agent_start")).await;
        signal.abort();
        lab.host.emit(Event::new("agent_start")).await;
        assert_eq!(lab.logs(), ["signal undefined", "signal false", "signal true"]);
    });
}
