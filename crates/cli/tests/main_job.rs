//! Tests the main job: an unchanged pi-ttsr stops a streaming reply, the reply is discarded, the rule is injected, the turn is
//! retried.

mod support;

use serde_json::Value;
use support::{ModelServer, Reply, World, anthropic, openai};

const SECRET: &str = "'@old";

/// Returns all events of the front end after the first `message_discarded`.
fn after_discard(events: &[Value]) -> &[Value] {
    let at = events.iter().position(|event| event["type"] == "message_discarded").expect("a discarded message");
    &events[at..]
}

fn mentions(value: &Value, text: &str) -> bool {
    value.to_string().contains(text)
}

fn text_deltas(events: &[Value]) -> Vec<String> {
    events
        .iter()
        .filter(|event| event["type"] == "message_update")
        .filter_map(|event| event["assistantMessageEvent"]["delta"].as_str().map(str::to_owned))
        .collect()
}

fn final_text(events: &[Value]) -> String {
    let message = events
        .iter()
        .rfind(|event| event["type"] == "message_end" && event["message"]["role"] == "assistant")
        .expect("an assistant message");
    message["message"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn world_with_rule() -> World {
    let world = World::new();
    world.rule("no-old-sdk", r#"trigger: "from ['\"]@old-sdk/""#, "Use @new-sdk instead.");
    world
}

/// Runs a prompt with a model on `server`, and expects the last reply `clean`.
fn asked_through(world: &World, server: &ModelServer, model: &str, path: &str, key: &str) {
    let url = format!("{}{path}", server.url);
    let ttsr = support::pi_ttsr();
    let mut command = world.command(&["-p", "x", "--model", model, "--mode", "json", "-e", &ttsr, "--base-url", &url]);
    command.env(key, "k");
    assert_eq!(final_text(&support::run(command).succeeded().events()), "clean");
}

/// Returns the only message of a request that contains the rule.
fn injected(request: &Value) -> &Value {
    let messages = request["messages"].as_array().expect("messages").iter();
    let found: Vec<&Value> = messages.filter(|message| mentions(message, "TTSR RULE: no-old-sdk")).collect();
    assert_eq!(found.len(), 1, "{request}");
    found[0]
}

#[test]
fn the_delta_that_completes_the_match_is_never_seen() {
    let world = world_with_rule();
    let model =
        world.script(&[&["import x fr", "om '@old", "-sdk", "/core'; more"], &["import x from '@new-sdk/core'"]]);
    let run = world.ttsr(&model, &[]);
    let events = run.succeeded().events();

    let verdicts = run.events_of("stream_verdict");
    assert_eq!(verdicts.len(), 1, "{}", run.stdout);
    assert_eq!(verdicts[0]["source"], "text");
    // The offset is the length of the text that was displayed before the verdict.
    assert_eq!(verdicts[0]["offset"], "import x from '@old-sdk".len());
    assert_eq!(run.events_of("message_discarded").len(), 1);

    let before: Vec<&Value> = events
        .iter()
        .take_while(|event| event["type"] != "stream_verdict" && event["type"] != "message_discarded")
        .collect();
    let let_through: Vec<String> = text_deltas(&before.into_iter().cloned().collect::<Vec<_>>());
    assert_eq!(let_through.concat(), "import x from '@old-sdk");
    assert!(!run.stdout.contains("/core'; more"), "the delta that tripped reached a listener");
    assert_eq!(final_text(&events), "import x from '@new-sdk/core'");
}

#[test]
fn discarded_text_is_in_no_later_event_and_in_no_session_entry() {
    let world = world_with_rule();
    let model = world.script(&[&["junk-7319 from '@old", "-sdk/core'"], &["clean"]]);
    let session = world.path().join("session.jsonl").display().to_string();
    let run = world.ttsr(&model, &["--session", &session]);
    let events = run.succeeded().events();
    for event in after_discard(&events) {
        assert!(!mentions(event, "junk-7319"), "{event}");
    }
    let file = world.read("session.jsonl");
    assert!(!file.contains("junk-7319") && !file.contains(SECRET), "{file}");
    assert_eq!(file.matches("Use @new-sdk instead.").count(), 1, "{file}");
    assert!(file.lines().any(|line| line.contains("\"custom_message\"") && line.contains("TTSR RULE: no-old-sdk")));
}

#[test]
fn the_rule_is_in_the_next_request_once_and_the_junk_is_not_openai() {
    let world = world_with_rule();
    let server = ModelServer::start(vec![
        Reply::StreamThenStall(support::open_openai(&["junk-7319 from '@old", "-sdk/core'"])),
        Reply::Stream(openai(&["clean"])),
    ]);
    asked_through(&world, &server, "openai/m", "/v1", "OPENAI_API_KEY");
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].0, "/v1/chat/completions");
    assert!(!mentions(&requests[0].1, "TTSR RULE"));
    assert!(!mentions(&requests[1].1, "junk-7319") && !mentions(&requests[1].1, SECRET));
    assert_eq!(injected(&requests[1].1)["role"], "system", "this wire takes system messages in mid-conversation");
    assert_eq!(server.closed_early(), 1, "the aborted stream's connection was dropped");
}

#[test]
fn the_rule_is_in_the_next_request_once_and_the_junk_is_not_anthropic() {
    let world = world_with_rule();
    let server = ModelServer::start(vec![
        Reply::StreamThenStall(support::open_anthropic(&["junk-7319 from '@old", "-sdk/core'"])),
        Reply::Stream(anthropic(&["clean"])),
    ]);
    asked_through(&world, &server, "anthropic/m", "", "ANTHROPIC_API_KEY");
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].0, "/v1/messages?beta=true");
    assert!(!mentions(&requests[1].1, "junk-7319") && !mentions(&requests[1].1, SECRET));
    assert_eq!(injected(&requests[1].1)["role"], "user", "this wire has no system role in mid-conversation");
    assert_eq!(server.closed_early(), 1, "the aborted stream's connection was dropped");
}

#[test]
fn a_rule_that_has_fired_lets_the_second_match_pass() {
    let world = world_with_rule();
    let model = world.script(&[&["a from '@old-sdk/1'"], &["b from '@old-sdk/2'"]]);
    let run = world.ttsr(&model, &[]);
    assert_eq!(run.succeeded().events_of("message_discarded").len(), 1);
    assert_eq!(final_text(&run.events()), "b from '@old-sdk/2'");
}

#[test]
fn max_firings_and_the_cap_per_turn_are_honoured() {
    let world = World::new();
    world.rule("twice", "trigger: BAD\nmaxFirings: 2", "Not BAD.");
    let model = world.script(&[&["BAD 1"], &["BAD 2"], &["BAD 3"]]);
    let run = world.ttsr(&model, &[]);
    assert_eq!(run.succeeded().events_of("message_discarded").len(), 2);
    assert_eq!(final_text(&run.events()), "BAD 3");

    let world = World::new();
    world.rule("always", "trigger: BAD\nmaxFirings: 99", "Not BAD.");
    let model = world.script(&[&["BAD 1"], &["BAD 2"], &["BAD 3"], &["BAD 4"]]);
    let run = world.ttsr(&model, &[]);
    assert_eq!(run.succeeded().events_of("message_discarded").len(), 3, "three aborts a turn");
    assert_eq!(final_text(&run.events()), "BAD 4", "past the cap the text is let through");
}

#[test]
fn a_rule_does_not_fire_during_its_cooldown() {
    let world = World::new();
    world.rule("slow", "trigger: BAD\nmaxFirings: 9\ncooldown: 3600", "Not BAD.");
    let model = world.script(&[&["BAD 1"], &["BAD 2"]]);
    let run = world.ttsr(&model, &[]);
    assert_eq!(run.succeeded().events_of("message_discarded").len(), 1);
    assert_eq!(final_text(&run.events()), "BAD 2");
}

#[test]
fn line_scope_sees_lines_across_deltas_and_not_across_line_ends() {
    let world = World::new();
    world.rule("line", "trigger: \"^const x\"", "No const x.");
    let model = world.script(&[&["let y\nco", "nst", " x = 1"], &["ok"]]);
    let run = world.ttsr(&model, &[]);
    assert_eq!(run.succeeded().events_of("stream_verdict")[0]["offset"], "let y\nconst".len());

    let world = World::new();
    world.rule("line", "trigger: \"foo bar\"", "No foo bar.");
    let model = world.script(&[&["foo\r\n", "bar foo", "\n bar"]]);
    let run = world.ttsr(&model, &[]);
    assert_eq!(run.succeeded().events_of("message_discarded").len(), 0);
}

#[test]
fn line_ends_match_before_a_carriage_return() {
    let blank = |flags: &str| format!("trigger: '^\\s*let (x|[$]y|\\$z)$'\nflags: '{flags}'");
    for (frontmatter, deltas, hit) in [
        ("trigger: 'TODO$'".to_owned(), ["a TODO\r\n", "b"], true),
        ("trigger: 'TODO$'".to_owned(), ["a TODO now\r\n", "b"], false),
        ("trigger: '^$'".to_owned(), ["a\r\nb", "\r\nc"], false),
        ("trigger: '^$'".to_owned(), ["a\r\n\r\nb", ""], true),
        ("trigger: '[^a]$'".to_owned(), ["a\r\nba", "\r\na"], false),
        ("trigger: 'end(?<$n>;)$|\\k<$n>x'".to_owned(), ["the end;\r\n", "b"], true),
        (blank(""), ["let $y\r\n", "b"], true),
        (blank("m"), ["let $z\r\n", "b"], true),
        (blank(""), ["let z$\r\n", "b"], false),
    ] {
        let world = World::new();
        world.rule("end", &frontmatter, "No.");
        let model = world.script(&[&deltas, &["ok"]]);
        let discarded = world.ttsr(&model, &[]).succeeded().events_of("message_discarded").len();
        assert_eq!(discarded, usize::from(hit), "{frontmatter} on {deltas:?}");
    }
}

#[test]
fn chunk_scope_sees_one_delta_and_accumulated_scope_all_of_them() {
    let world = World::new();
    world.rule("chunk", "trigger: foobar\nscope: chunk", "No.");
    let model = world.script(&[&["foo", "bar"]]);
    assert_eq!(world.ttsr(&model, &[]).succeeded().events_of("message_discarded").len(), 0);
    let model = world.script(&[&["x", "foobar"], &["ok"]]);
    assert_eq!(world.ttsr(&model, &[]).succeeded().events_of("message_discarded").len(), 1);

    let world = World::new();
    world.rule("all", "trigger: \"one[\\\\s\\\\S]*three\"\nscope: accumulated", "No.");
    let model = world.script(&[&["one\r\n", "two\r\nthr", "ee"], &["ok"]]);
    assert_eq!(world.ttsr(&model, &[]).succeeded().events_of("message_discarded").len(), 1);
}

#[test]
fn text_beyond_ascii_and_split_surrogate_pairs_match() {
    let world = World::new();
    world.rule("smile", "trigger: \"nö 😀!\"", "No smiling.");
    // The surrogates of U+1F600 are in two deltas, as JSON allows.
    let model = world.raw_script(concat!(
        r#"{"events":[{"text":"nö \ud83d"},{"text":"\ude00"},{"text":"! more"}],"stop":"end_turn"}"#,
        "\n",
        r#"{"events":[{"text":"ok"}],"stop":"end_turn"}"#,
    ));
    let run = world.ttsr(&model, &[]);
    assert_eq!(run.succeeded().events_of("message_discarded").len(), 1, "{}", run.stdout);
    assert_eq!(final_text(&run.events()), "ok");
}

#[test]
fn bad_rule_files_are_named_and_skipped() {
    let world = World::new();
    world.rule("good", "trigger: BAD", "Not BAD.");
    world.rule("no-trigger", "scope: line", "x");
    world.rule("bad-regex", "trigger: \"(\"", "x");
    world.rule("bad-flag", "trigger: a\nflags: q", "x");
    world.rule("bad-scope", "trigger: a\nscope: word", "x");
    world.write("project/.pi/rules/latin.md", b"---\ntrigger: \xe9\n---\nx\n");
    world.write("project/.pi/rules/huge.md", vec![b'x'; 10 << 20]);
    std::fs::create_dir_all(world.project().join(".pi/rules/folder.md")).expect("a folder");
    let model = world.script(&[&["BAD"], &["ok"]]);
    let run = world.ttsr(&model, &[]);
    assert_eq!(run.succeeded().events_of("message_discarded").len(), 1, "the good rule still works");
    for name in ["no-trigger", "bad-regex", "bad-flag", "bad-scope", "latin", "huge", "folder"] {
        assert!(run.stderr.contains(name), "{name} is not named in:\n{}", run.stderr);
    }
}

#[test]
fn rules_of_the_user_apply_too() {
    let world = World::new();
    world.write("home/.pi/rules/mine.md", "---\ntrigger: BAD\n---\nNot BAD.\n");
    let model = world.script(&[&["BAD"], &["ok"]]);
    assert_eq!(world.ttsr(&model, &[]).succeeded().events_of("message_discarded").len(), 1);
}

#[test]
fn without_rules_a_reply_passes_untouched() {
    let world = World::new();
    let model = world.script(&[&["a ", "b ", "c"]]);
    let run = world.ttsr(&model, &[]);
    assert_eq!(text_deltas(&run.succeeded().events()), ["a ", "b ", "c"]);
    let text = world.pi(&["-p", "x", "--model", &model]);
    assert_eq!(text.succeeded().stdout, "a b c\n");
}
