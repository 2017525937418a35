//! Tests streamed verdicts of single-file extensions: order, isolation, promises and time limits.

mod support;

use serde_json::Value;
use support::{Run, World};

fn ask(world: &World, replies: &[&[&str]], extensions: &[(&str, &str)]) -> Run {
    let model = world.script(replies);
    let mut args: Vec<String> = ["-p", "x", "--mode", "json", "--model", &model].map(str::to_owned).to_vec();
    for (name, source) in extensions {
        let path = world.write(&format!("project/{name}.ts"), source);
        args.extend(["-e".to_owned(), path.display().to_string()]);
    }
    world.pi(&args)
}

fn final_text(run: &Run) -> String {
    let events = run.events();
    let message = events
        .iter()
        .rfind(|event| event["type"] == "message_end" && event["message"]["role"] == "assistant")
        .expect("an assistant message");
    message["message"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn abort_on(word: &str, content: &str) -> String {
    format!(
        "export default (pi) => {{ let fired = false; pi.on('stream_text', ({{ accumulated }}) => {{
           if (!fired && accumulated.includes({word:?})) {{ fired = true; return {{ abort: true, retry: {{ content: {content:?} }} }}; }}
         }}); }};"
    )
}

#[test]
fn the_first_abort_in_load_order_wins() {
    let world = World::new();
    let run = ask(
        &world,
        &[&["so BAD"], &["so BAD again"], &["fine"]],
        &[("one", &abort_on("BAD", "from one")), ("two", &abort_on("BAD", "from two"))],
    );
    let verdicts = run.succeeded().events_of("stream_verdict");
    let who: Vec<&str> = verdicts.iter().map(|verdict| verdict["extension"].as_str().expect("named")).collect();
    assert_eq!(who.len(), 2, "{}", run.stdout);
    assert!(who[0].contains("one") && who[1].contains("two"), "{who:?}");
    assert_eq!(final_text(&run), "fine");
}

#[test]
fn a_handler_that_throws_is_reported_and_muted_after_three_strikes() {
    let world = World::new();
    let run = ask(
        &world,
        &[&["a", "b", "c", "d", "e"]],
        &[(
            "bad",
            "let calls = 0;\nexport default (pi: any) => {\n  pi.on('stream_text', () => { calls++; throw new Error('oops ' + calls); });\n};\n",
        )],
    );
    assert_eq!(final_text(run.succeeded()), "abcde");
    assert!(run.stderr.contains("oops 1") && run.stderr.contains("bad.ts:3"), "{}", run.stderr);
    assert!(run.stderr.contains("oops 3") && !run.stderr.contains("oops 4"), "{}", run.stderr);
}

#[test]
fn a_handler_that_never_returns_is_stopped_and_the_session_goes_on() {
    let world = World::new();
    let run = ask(
        &world,
        &[&["a", "b BAD", " c"], &["fine"]],
        &[
            (
                "stuck",
                "export default (pi) => { pi.on('stream_text', ({ chunk }) => { if (chunk === 'a') { try { for (;;); } catch {} } }); };",
            ),
            ("good", &abort_on("BAD", "not BAD")),
        ],
    );
    assert_eq!(final_text(run.succeeded()), "fine", "the neighbour's verdict still counts");
    assert!(run.stderr.contains("stuck"), "{}", run.stderr);
}

#[test]
fn a_promise_that_settles_without_waiting_counts() {
    let world = World::new();
    let run = ask(
        &world,
        &[&["so BAD"], &["fine"]],
        &[(
            "quick",
            "export default (pi) => { let n = 0; pi.on('stream_text', async ({ chunk }) => {
            await null; await Promise.resolve();
            if (n++ === 0 && chunk.includes('BAD')) return { abort: true, retry: { content: 'no' } }; }); };",
        )],
    );
    assert_eq!(run.succeeded().events_of("message_discarded").len(), 1, "{}", run.stderr);
    assert_eq!(final_text(&run), "fine");
}

#[test]
fn a_promise_that_waits_is_reported_once_and_does_not_count() {
    let world = World::new();
    world.write("project/note.txt", "n");
    let run = ask(
        &world,
        &[&["BAD 1", "BAD 2", "BAD 3"]],
        &[("late", "import { readFile } from 'node:fs/promises';
          export default (pi) => { pi.on('stream_text', async () => { await readFile('note.txt'); return { abort: true }; }); };")],
    );
    assert_eq!(final_text(run.succeeded()), "BAD 1BAD 2BAD 3");
    let reports: Vec<&str> = run.stderr.lines().filter(|line| line.contains("late")).collect();
    assert_eq!(reports.len(), 1, "{}", run.stderr);
}

#[test]
fn an_abort_without_retry_ends_the_run() {
    let world = World::new();
    let run = ask(
        &world,
        &[&["a", "STOP", "b"], &["never asked"]],
        &[(
            "stop",
            "export default (pi) => { pi.on('stream_text', ({ chunk }) => chunk === 'STOP' ? { abort: true } : undefined); };",
        )],
    );
    assert_eq!(run.events_of("message_discarded").len(), 1, "{}", run.stdout);
    assert!(!run.stdout.contains("never asked"));
}

#[test]
fn handlers_subscribe_to_other_sources() {
    let world = World::new();
    let model = world.raw_script(concat!(
        r#"{"events":[{"thinking":"hm SECRET"},{"text":"a"}],"stop":"end_turn"}"#,
        "\n",
        r#"{"events":[{"tool_call":{"id":"c1","name":"write","arguments":"{\"path\":\"x.ts\",\"con"}},{"tool_call":{"id":"c1","name":"write","arguments":"tent\":\"EVIL\"}"}}],"stop":"tool_use"}"#,
        "\n",
        r#"{"events":[{"text":"fine"}],"stop":"end_turn"}"#,
    ));
    let source = "export default (pi) => { pi.on('stream_text', (e) => {
        if (e.source === 'thinking' && e.accumulated.includes('SECRET')) return { abort: true, retry: { content: 'think again' } };
        if (e.source === 'tool' && e.accumulated.includes('EVIL')) return { abort: true, retry: { content: 'do not ' + e.toolName + ' ' + e.filePaths } };
      }, { sources: ['text', 'thinking', 'tool'] }); };";
    let path = world.write("project/all.ts", source).display().to_string();
    let run = world.pi(&["-p", "x", "--mode", "json", "--model", &model, "-e", &path]);
    let sources: Vec<Value> =
        run.succeeded().events_of("stream_verdict").into_iter().map(|verdict| verdict["source"].clone()).collect();
    assert_eq!(sources, ["thinking", "tool"]);
    assert!(run.stdout.contains("do not write x.ts"), "{}", run.stdout);
    assert!(!world.project().join("x.ts").exists(), "the aborted call did not run");
    assert_eq!(final_text(&run), "fine");
}

#[test]
fn handlers_get_only_text_by_default() {
    let world = World::new();
    let model = world.raw_script(r#"{"events":[{"thinking":"BAD"},{"text":"fine"}],"stop":"end_turn"}"#);
    let path = world.write("project/text.ts", abort_on("BAD", "no")).display().to_string();
    let run = world.pi(&["-p", "x", "--mode", "json", "--model", &model, "-e", &path]);
    assert_eq!(run.succeeded().events_of("message_discarded").len(), 0);
}

#[test]
fn malformed_results_are_not_verdicts() {
    let world = World::new();
    let run = ask(
        &world,
        &[&["a", "b"]],
        &[(
            "odd",
            "let n = 0; export default (pi) => { pi.on('stream_text', () => [{ abort: 'yes' }, { abort: true, retry: { content: 7 } }][n++]); };",
        )],
    );
    assert_eq!(final_text(run.succeeded()), "ab");
    assert!(run.stderr.contains("odd"), "{}", run.stderr);
}
