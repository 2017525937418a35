//! Tests native rules in the loop: order, caps, and resuming in another process.

use crate::support::{Fake, World, fixture};
use pijs_agent::{ChangedRules, RuleSource, SessionRules, VerdictCaps};
use pijs_protocol::StreamSource;
use pijs_rules::engine::EngineOptions;
use pijs_rules::{Condition, ContextMode, InterruptMode, Origin, Repeat, Rule, RuleEngine, RuleSettings};
use pijs_session_store::{Body, Session};
use serde_json::Value;

fn rule(name: &str, condition: &str) -> Rule {
    let mut rule = Rule::new(name, Origin::Project, format!("TEXT of {name}"));
    rule.conditions.push(Condition { source: condition.to_owned(), flags: String::new() });
    rule.interrupt_mode = Some(InterruptMode::Always);
    rule
}

fn again_and_again(name: &str, condition: &str) -> Rule {
    Rule { repeat: Some(Repeat::AfterGap { turns: 0 }), ..rule(name, condition) }
}

fn session_rules(rules: Vec<Rule>) -> SessionRules {
    session_rules_of(rules, None)
}

fn session_rules_of(rules: Vec<Rule>, source: Option<Box<dyn RuleSource>>) -> SessionRules {
    let settings = RuleSettings { enabled: true, ..RuleSettings::default() };
    SessionRules::new(RuleEngine::new(rules, settings, EngineOptions::default()), source)
}

fn listening() -> Fake {
    Fake::default().judges(&[StreamSource::Text], |_, _| None).on("rule_fired", |_| None)
}

fn actions(world: &World) -> Vec<Value> {
    world.events_of("rule_fired").iter().map(|event| event["action"].clone()).collect()
}

#[tokio::test]
async fn a_rule_stops_the_reply_before_extensions_see_the_delta() {
    let world =
        World::ruled(&fixture("abort-on-third-delta.jsonl"), listening(), session_rules(vec![rule("no-trip", "TRIP")]));
    let outcome = world.agent.prompt("go").await.unwrap();
    assert_eq!(outcome.message.unwrap().text(), "clean reply");
    assert_eq!(*world.fake.judged.borrow(), ["keep ", "junk-1", "clean ", "reply"]);

    let fired = &world.events_of("rule_fired")[0];
    assert_eq!((&fired["rule"], &fired["source"], &fired["line"]), (&"no-trip".into(), &"text".into(), &1.into()));
    assert_eq!(fired["excerpt"], "keep junk-1 TRIP");
    assert!(world.fake.emitted.borrow().contains(&"rule_fired".to_owned()), "extensions observe it");
    let discarded = &world.events_of("message_discarded")[0];
    assert_eq!((&discarded["extension"], &discarded["tokens_burned"]), (&"rule:no-trip".into(), &4.into()));

    let second = world.payloads()[1].to_string();
    assert_eq!(second.matches("TEXT of no-trip").count(), 1);
    assert!(!second.contains("keep junk-1\""), "the stopped reply is not sent: {second}");
    assert!(!second.contains("from the extension"), "rules are the user's own words");
}

#[tokio::test]
async fn a_rule_at_its_cap_only_reminds() {
    let once = Rule { max_retries_per_turn: Some(1), ..again_and_again("no-trip", "TRIP") };
    let world = World::ruled(&fixture("always-trips.jsonl"), Fake::default(), session_rules(vec![once]));
    let outcome = world.agent.prompt("go").await.unwrap();
    assert_eq!(outcome.message.unwrap().text(), "TRIP 2");
    assert_eq!(actions(&world), ["retry", "remind"]);
    let degraded = world.events_of("rule_fired")[1]["degraded"].clone();
    assert_eq!(degraded, "the rule's limit of 1 interrupt in a turn is reached");
    let ledger = &world.events_of("rules_turn_end")[0];
    assert_eq!((&ledger["interrupts"], &ledger["reminders"]), (&1.into(), &1.into()));
    let file = world.session_text();
    assert_eq!(
        file.matches("\"customType\":\"pijs.rule_fired\"").count(),
        1,
        "it is on file before it is sent: {file}"
    );
    world.agent.prompt("again").await.unwrap();
    assert!(world.payloads()[2].to_string().contains("Your last reply broke this rule"), "the reminder comes along");
}

#[tokio::test]
async fn beyond_the_session_limit_a_rule_only_reminds() {
    let caps = VerdictCaps { discarded: 2, ..VerdictCaps::default() };
    let world = World::capped(
        &fixture("always-trips.jsonl"),
        Fake::default(),
        caps,
        session_rules(vec![again_and_again("no-trip", "TRIP")]),
    );
    world.agent.prompt("go").await.unwrap();
    assert_eq!(actions(&world), ["retry", "retry", "remind"]);
    let degraded = world.events_of("rule_fired")[2]["degraded"].clone();
    assert_eq!(degraded, "the limit of discarded replies or tokens in a session is reached");
    let ledger = &world.events_of("rules_turn_end")[0];
    assert_eq!((&ledger["interrupts"], &ledger["reminders"]), (&2.into(), &1.into()));
    assert_eq!(world.events_of("message_discarded").len(), 2);
}

/// A source that returns rules with warnings once.
struct OnceChanged(Option<ChangedRules>);

impl RuleSource for OnceChanged {
    fn changed(&mut self) -> Option<ChangedRules> {
        self.0.take()
    }
}

#[tokio::test]
async fn an_error_in_a_changed_file_is_reported_once() {
    let settings = RuleSettings { enabled: true, ..RuleSettings::default() };
    let engine = RuleEngine::new(vec![rule("no-trip", "TRIP")], settings, EngineOptions::default());
    let mut broken = rule("no-trip", "(TRIP");
    broken.conditions.push(Condition { source: "NEVER".to_owned(), flags: String::new() });
    let warnings = vec!["no-trip.md:2:1: error: ...".to_owned()];
    let changed = ChangedRules { rules: vec![broken], warnings, ..ChangedRules::default() };
    let world = World::ruled(
        &fixture("abort-on-third-delta.jsonl"),
        Fake::default(),
        SessionRules::new(engine, Some(Box::new(OnceChanged(Some(changed))))),
    );
    world.agent.prompt("go").await.unwrap();
    assert!(actions(&world).is_empty());
    let messages: Vec<Value> = world.events_of("rule_report").iter().map(|report| report["message"].clone()).collect();
    assert_eq!(messages, ["no-trip.md:2:1: error: ..."]);
}

/// A source that returns different prompt sections, one after the other.
struct Sections(Vec<&'static str>);

impl RuleSource for Sections {
    fn changed(&mut self) -> Option<ChangedRules> {
        let section = (!self.0.is_empty()).then(|| self.0.remove(0).to_owned());
        section.map(|section| ChangedRules { prompt_section: Some(section), ..ChangedRules::default() })
    }
}

#[tokio::test]
async fn a_changed_prompt_section_applies_from_the_next_prompt() {
    // The second section arrives while the model answers the first prompt.
    let source = Sections(vec!["CHANGED BEFORE", "CHANGED MEANWHILE"]);
    let rules = session_rules_of(Vec::new(), Some(Box::new(source)));
    let rules = rules.with_prompt_section(Some("AT FIRST".to_owned()));
    let world = World::ruled(&fixture("abort-on-third-delta.jsonl"), Fake::default(), rules);
    world.agent.prompt("go").await.unwrap();
    world.agent.prompt("on").await.unwrap();
    let payloads = world.payloads();
    let (first, second) = (payloads[0].to_string(), payloads[1].to_string());
    assert!(first.contains("CHANGED BEFORE") && !first.contains("AT FIRST"), "{first}");
    assert!(!first.contains("CHANGED MEANWHILE") && second.contains("CHANGED MEANWHILE"), "{second}");
}

#[tokio::test]
async fn a_rule_on_arguments_keeps_the_call_from_running() {
    let world = World::ruled(
        &fixture("thinking-and-tool.jsonl"),
        Fake::default(),
        session_rules(vec![rule("no-evil", "EVIL")]),
    );
    world.agent.prompt("go").await.unwrap();
    world.agent.prompt("on").await.unwrap();
    let fired = &world.events_of("rule_fired")[0];
    assert_eq!((&fired["toolName"], &fired["path"]), (&"write".into(), &"x.ts".into()));
    assert!(!world.path("x.ts").exists());
    assert!(world.events_of("tool_execution_start").is_empty());
}

#[tokio::test]
async fn a_pattern_of_code_is_found_when_the_arguments_end_and_before_the_call_runs() {
    let mut rule = Rule::new("no-debug", Origin::Project, "TEXT");
    rule.ast_conditions.push("console.debug($$$A)".to_owned());
    rule.interrupt_mode = Some(InterruptMode::ToolOnly);
    let world = World::ruled(&fixture("rule-at-end-of-call.jsonl"), Fake::default(), session_rules(vec![rule]));
    let outcome = world.agent.prompt("go").await.unwrap();
    assert_eq!(outcome.message.unwrap().text(), "without");
    assert!(!world.path("x.ts").exists());
}

#[tokio::test]
async fn a_reply_that_is_kept_stays_in_the_conversation() {
    let keep = Rule { context_mode: Some(ContextMode::Keep), ..rule("no-trip", "TRIP") };
    let world = World::ruled(&fixture("abort-on-third-delta.jsonl"), Fake::default(), session_rules(vec![keep]));
    world.agent.prompt("go").await.unwrap();
    assert!(world.events_of("message_discarded").is_empty());
    let second = world.payloads()[1].to_string();
    assert!(second.contains("keep junk-1") && second.contains("TEXT of no-trip"), "{second}");
    let starts = world.events_of("message_start").len();
    assert_eq!(starts, world.events_of("message_end").len());
}

#[tokio::test]
async fn a_reminder_on_the_last_reply_goes_with_the_first_request_of_the_next_process() {
    let never = || Rule { interrupt_mode: Some(InterruptMode::Never), ..rule("no-trip", "TRIP") };
    let world = World::ruled(&fixture("always-trips.jsonl"), Fake::default(), session_rules(vec![never()]));
    world.agent.start("startup").await.unwrap();
    world.agent.prompt("go").await.unwrap();
    assert_eq!(actions(&world), ["remind"]);
    let edited = Rule { content: "EDITED".to_owned(), ..never() };
    let world =
        World::resumed(&fixture("always-trips.jsonl"), Fake::default(), world.end(), session_rules(vec![edited]));
    world.agent.start("startup").await.unwrap();
    world.agent.prompt("more").await.unwrap();
    let asked = world.payloads()[0].to_string();
    assert_eq!(asked.matches("Your last reply broke this rule").count(), 1, "{asked}");
    assert!(asked.contains("EDITED") && !asked.contains("TEXT of no-trip"), "the rule's text is that of its file");
    // The reminder was delivered, so a third process does not send it again.
    let world =
        World::resumed(&fixture("always-trips.jsonl"), Fake::default(), world.end(), session_rules(vec![never()]));
    world.agent.start("startup").await.unwrap();
    world.agent.prompt("more").await.unwrap();
    let asked = world.payloads()[0].to_string();
    assert_eq!(asked.matches("Your last reply broke this rule").count(), 1, "{asked}");
}

#[tokio::test]
async fn the_limit_of_a_session_holds_over_processes() {
    let settings = RuleSettings { enabled: true, max_retries_per_session: 2, ..RuleSettings::default() };
    let rules = || {
        let rules = vec![again_and_again("no-trip", "TRIP")];
        SessionRules::new(RuleEngine::new(rules, settings.clone(), EngineOptions::default()), None)
    };
    let world = World::ruled(&fixture("always-trips.jsonl"), Fake::default(), rules());
    world.agent.start("startup").await.unwrap();
    world.agent.prompt("go").await.unwrap();
    assert_eq!(actions(&world), ["retry", "retry", "remind"]);
    let world = World::resumed(&fixture("always-trips.jsonl"), Fake::default(), world.end(), rules());
    world.agent.start("startup").await.unwrap();
    world.agent.prompt("more").await.unwrap();
    assert_eq!(actions(&world), ["remind"]);
}

#[tokio::test]
async fn a_kept_part_of_a_reply_counts_as_no_turn_in_the_next_process() {
    let keep = || Rule { context_mode: Some(ContextMode::Keep), ..rule("no-trip", "TRIP") };
    let world = World::ruled(&fixture("abort-on-third-delta.jsonl"), Fake::default(), session_rules(vec![keep()]));
    world.agent.start("startup").await.unwrap();
    world.agent.prompt("go").await.unwrap();
    let turns = world.agent.with_rules(|engine| engine.current_turn());
    let world =
        World::resumed(&fixture("always-trips.jsonl"), Fake::default(), world.end(), session_rules(vec![keep()]));
    world.agent.start("startup").await.unwrap();
    assert_eq!(world.agent.with_rules(|engine| engine.current_turn()), turns);
}

#[tokio::test]
async fn a_rule_that_fired_stays_fired_after_compaction_in_a_new_process() {
    let world = World::ruled(
        &fixture("abort-on-third-delta.jsonl"),
        Fake::default(),
        session_rules(vec![rule("no-trip", "TRIP")]),
    );
    world.agent.start("startup").await.unwrap();
    world.agent.prompt("go").await.unwrap();
    assert_eq!(actions(&world), ["retry"]);
    let directory = world.end();

    let mut session =
        Session::open(&directory.path().join("session.jsonl"), directory.path(), pijs_environment::Ambient::system())
            .unwrap();
    let last = session.leaf().cloned().unwrap();
    let compaction = Body::Compaction {
        summary: "what was said".to_owned(),
        first_kept_entry_id: last,
        tokens_before: 10,
        extra: Default::default(),
    };
    session.append(compaction).unwrap();
    session.sync().unwrap();
    drop(session);

    let world = World::resumed(
        &fixture("always-trips.jsonl"),
        Fake::default(),
        directory,
        session_rules(vec![rule("no-trip", "TRIP"), rule("other", "TRIP 1")]),
    );
    world.agent.start("startup").await.unwrap();
    let outcome = world.agent.prompt("more").await.unwrap();
    assert_eq!(outcome.message.unwrap().text(), "TRIP 2");
    let fired: Vec<Value> = world.events_of("rule_fired").iter().map(|event| event["rule"].clone()).collect();
    assert_eq!(fired, ["other"], "the rule that fired before compaction is spent");
    let turns = world.agent.with_rules(|engine| engine.current_turn());
    assert_eq!(turns, Some(2), "the first turn was counted from the file");
}
