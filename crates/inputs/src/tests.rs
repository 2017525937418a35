//! Runs `fixtures/inputs/*.toml`: sequences of events with their expected effects. The beginning of each file explains its
//! notation.

use super::*;
use pijs_llm::message::{BashExecution, Content};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

#[derive(Deserialize)]
struct Fixture {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    steps: String,
}

/// Runs the steps of a case. Returns the steps with their actual effects.
fn run(steps: &str) -> String {
    let mut inputs = Inputs::default();
    let mut reports = BTreeMap::new();
    let mut ran = String::new();
    for line in steps.lines().filter(|line| !line.trim().is_empty()) {
        let step = line.split("=>").next().unwrap_or_default().trim();
        let effects = match step {
            "?" => predicates(&inputs),
            step => {
                let effects = inputs.apply(event(step, &mut reports));
                effects.into_iter().map(|effect| shown(effect, &mut reports)).collect()
            }
        };
        ran += &format!("{step} => {}", effects.join("; "));
        ran = ran.trim_end().to_owned() + "\n";
    }
    ran
}

/// Parses an event. `reports` contains the sizes of reports that front ends have not received.
fn event(step: &str, reports: &mut BTreeMap<usize, usize>) -> InputEvent {
    let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
    let words: Vec<&str> = rest.split(' ').collect();
    let has = |word: &str| words.contains(&word);
    let mut deliver_as = [DeliverAs::Steer, DeliverAs::FollowUp, DeliverAs::NextTurn].into_iter();
    let deliver_as = deliver_as.find(|how| has(how.as_str()));
    let sender = words.iter().position(|word| *word == "by").map(|at| ExtensionId::new(words[at + 1]));
    let text = words[0].to_owned();
    let content = || Authored::by(None, Content::from(words[0]));
    match word {
        "prompt" => InputEvent::Prompt,
        "triggered" => InputEvent::Triggered,
        "message" => {
            let trigger_turn = has("trigger").then_some(true).or(has("no-trigger").then_some(false));
            InputEvent::Message { message: custom(&text), deliver_as, trigger_turn, sender }
        }
        "user" => InputEvent::UserMessage { content: content(), deliver_as, expand: has("expand"), sender },
        "queue" => InputEvent::Queue {
            message: Message::User(content().message(0)),
            deliver_as: deliver_as.expect("a queue is named"),
        },
        "bash" => InputEvent::Bash { authors: Default::default(), execution: bash(&text) },
        "abort" => InputEvent::Abort,
        "abort-retry" => InputEvent::AbortRetry,
        "clear" => InputEvent::Clear,
        "take" => InputEvent::Take(match rest {
            "steering" => Queue::Steering,
            "follow-up" => Queue::FollowUp,
            "next-turn" => Queue::NextTurn,
            "after-turn" => Queue::AfterTurn,
            "after-run" => Queue::AfterRun,
            other => panic!("there is no queue {other:?}"),
        }),
        "spoken" => InputEvent::Spoken { text },
        "shown" => InputEvent::Shown { bytes: reports.pop_first().expect("a report is due").1 },
        "session-replaced" => InputEvent::SessionReplaced,
        "run-began" => InputEvent::RunBegan,
        "run-ended" => InputEvent::RunEnded,
        "agent-end-began" => InputEvent::AgentEndBegan,
        "agent-end-ended" => InputEvent::AgentEndEnded,
        "retry-began" => InputEvent::RetryBegan,
        "retry-ended" => InputEvent::RetryEnded,
        "triggered-run-ended" => InputEvent::TriggeredRunEnded,
        "summary-began" => InputEvent::SummaryBegan,
        "summary-ended" => InputEvent::SummaryEnded,
        "begin" => InputEvent::Begin(named(&Stage::ALL, rest)),
        "end" => InputEvent::End(named(&Stage::ALL, rest)),
        "enter" => InputEvent::Enter(named(&Line::ALL, rest)),
        "leave" => InputEvent::Leave(named(&Line::ALL, words[0]), words[1].parse().expect("a ticket is a number")),
        other => panic!("there is no event {other:?}"),
    }
}

fn named<T: fmt::Debug + Copy>(all: &[T], name: &str) -> T {
    let is_named = |value: &&T| format!("{value:?}").eq_ignore_ascii_case(name);
    *all.iter().find(is_named).unwrap_or_else(|| panic!("there is no {name:?}"))
}

/// Returns a message; a text of the form `xN` is N bytes long.
fn custom(text: &str) -> CustomMessage {
    let long = text.strip_prefix('x').and_then(|count| count.parse().ok()).map(|count| "x".repeat(count));
    serde_json::from_value(serde_json::json!({"customType": "c", "content": long.as_deref().unwrap_or(text)}))
        .expect("a custom message")
}

fn bash(command: &str) -> BashExecution {
    serde_json::from_value(serde_json::json!({"command": command})).expect("a command")
}

fn shown(effect: InputEffect, reports: &mut BTreeMap<usize, usize>) -> String {
    let by = |sender: Option<ExtensionId>| sender.map(|sender| format!(" by {sender}")).unwrap_or_default();
    let how = |how: Option<DeliverAs>| how.map(|how| format!(" {}", how.as_str())).unwrap_or_default();
    let expands = |expand: bool| if expand { " expand" } else { "" };
    let short = |text: &String| if text.len() > 20 { format!("x{}", text.len()) } else { text.clone() };
    match effect {
        InputEffect::Append(message) => format!("append {}", message.content.text()),
        InputEffect::AppendBash { execution, .. } => format!("append {}", execution.command),
        InputEffect::Refuse(refusal) => format!("refuse {refusal:?}"),
        InputEffect::ScheduleRun { sender } => format!("schedule{}", by(sender)),
        InputEffect::HandleInput { content, deliver_as, expand } => {
            format!("hear {}{}{}", content.content.text(), how(deliver_as), expands(expand))
        }
        InputEffect::Contend { content, expand, sender } => {
            format!("contend {}{}{}", content.content.text(), expands(expand), by(sender))
        }
        InputEffect::Give(Message::User(message)) => format!("give {}", message.content.text()),
        InputEffect::Give(Message::Custom(message)) => format!("give {}", short(&message.content.text())),
        InputEffect::Give(other) => format!("give {other:?}"),
        InputEffect::CancelRun => "cancel run".to_owned(),
        InputEffect::CancelSummaries => "cancel summaries".to_owned(),
        InputEffect::PublishIdle(is_idle) => format!("idle {is_idle}"),
        InputEffect::PublishPending(is_pending) => format!("pending {is_pending}"),
        InputEffect::ShowQueues { steering, follow_up, bytes } => {
            reports.insert(reports.last_key_value().map_or(0, |(at, _)| at + 1), bytes);
            let all = |texts: Vec<String>| texts.iter().map(short).collect::<Vec<_>>().join(" ");
            format!("show [{}] [{}]", all(steering), all(follow_up))
        }
        InputEffect::Ticket(ticket) => format!("ticket {ticket}"),
    }
}

/// Returns the names of the predicates that are true.
fn predicates(inputs: &Inputs) -> Vec<String> {
    let all = [
        ("idle", inputs.is_idle()),
        ("accepts-run", inputs.accepts_run()),
        ("settled", inputs.is_settled()),
        ("come-to-rest", inputs.has_come_to_rest()),
        ("quiescent", inputs.is_quiescent()),
        ("streaming", inputs.is_streaming()),
        ("summarising", inputs.is_summarising()),
        ("retrying", inputs.is_retrying()),
        ("has-queued", inputs.has_queued()),
    ];
    let holds = all.iter().filter(|(_, holds)| *holds).map(|(name, _)| (*name).to_owned());
    let first = |(line, ticket): (Line, u64)| inputs.is_first(line, ticket).then(|| format!("{line:?} {ticket}"));
    let tickets = Line::ALL.into_iter().flat_map(|line| (1..10).map(move |ticket| (line, ticket)));
    let stages = Stage::ALL.into_iter().filter(|stage| !inputs.is_over(*stage)).map(|stage| format!("{stage:?}"));
    let all: Vec<String> = holds.chain(stages).chain(tickets.filter_map(first)).collect();
    vec![all.join(" ").to_lowercase()]
}

#[test]
fn events_have_the_effects_of_the_fixtures() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/inputs");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("the folder is there").flatten().collect();
    files.sort_by_key(std::fs::DirEntry::path);
    let mut wrong = String::new();
    for file in files {
        let text = std::fs::read_to_string(file.path()).expect("a file of cases");
        let cases: Fixture = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.path().display()));
        for Case { name, steps } in cases.case {
            let lines = steps.lines().map(str::trim).filter(|line| !line.is_empty());
            let expected: String = lines.map(|line| format!("{line}\n")).collect();
            let actual = run(&steps);
            if actual != expected {
                wrong += &format!("{name}\n{actual}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "these cases went otherwise, as follows:\n{wrong}");
}

#[test]
fn a_stage_without_waiters_does_not_wake_anything() {
    assert!(!InputEvent::End(Stage::Unread).releases());
    assert!(Stage::ALL.into_iter().filter(|stage| InputEvent::End(*stage).releases()).count() == Stage::COUNT - 1);
    assert!(Stage::ALL.into_iter().all(|stage| !InputEvent::Begin(stage).releases()));
}
