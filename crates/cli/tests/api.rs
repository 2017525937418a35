//! Tests every member of pi's API that an extension may use, through the real command.
//!
//! An extension of a test reports with `pi.log("info", WHAT, DATA)`; the test reads it back from the ledger. Each run's ledger is
//! validated against its schema and its chain is verified.

mod support;

use pijs_hostcall::ledger::verify;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use support::{Run, World};

/// The common beginning of every extension in these tests.
const PRELUDE: &str = "const sayer = (pi: any) => (what: string, data?: unknown) => pi.log('info', what, data);\n";

/// One run, and the reports of its extensions.
struct ApiRun {
    world: World,
    run: Run,
    ledger: Vec<Value>,
}

impl ApiRun {
    /// Returns the reports under this name, in order.
    fn all(&self, what: &str) -> Vec<Value> {
        let said = self.ledger.iter().map(|line| &line["data"]["extension"]).filter(|said| said["event"] == what);
        said.map(|said| said["data"].clone()).collect()
    }

    /// Returns the only report under this name.
    #[track_caller]
    fn one(&self, what: &str) -> Value {
        let all = self.all(what);
        assert_eq!(all.len(), 1, "{what}: {all:?}\nstderr:\n{}", self.run.stderr);
        all[0].clone()
    }

    /// Returns the entries of the session file, one per line.
    fn session(&self) -> Vec<Value> {
        let folder = self.world.home().join(".pi/agent/sessions");
        files_below(&folder).iter().flat_map(|file| lines_of(file)).collect()
    }

    fn lines(&self, event: &str) -> Vec<&Value> {
        self.ledger.iter().filter(|line| line["event"] == event).collect()
    }
}

fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(read) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<_> = read.map(|item| item.expect("entry").path()).collect();
    found.sort();
    found.into_iter().flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

fn lines_of(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("a text file");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

fn validator(schema: &str) -> jsonschema::Validator {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema").join(schema);
    let schema = serde_json::from_str(&std::fs::read_to_string(file).expect("a schema")).expect("JSON");
    jsonschema::validator_for(&schema).expect("a schema")
}

/// Reads every ledger of a home. Checks that each line matches the schema, and that each chain is complete.
fn ledger(home: &Path) -> Vec<Value> {
    let schema = validator("pi.ext.log.v1.schema.json");
    let mut all = Vec::new();
    for file in files_below(&home.join(".pi/agent/logs/extensions")) {
        verify(&*std::fs::read(&file).expect("a ledger")).expect("a whole chain");
        for line in lines_of(&file) {
            let wrong: Vec<String> = schema.iter_errors(&line).map(|error| error.to_string()).collect();
            assert!(wrong.is_empty(), "{wrong:?}\n{line}");
            all.push(line);
        }
    }
    all
}

/// Runs `pi -p PROMPT --mode json` with single-file extensions.
fn run_in(world: World, prompt: &str, model: &str, extensions: &[(&str, &str)], more: &[&str]) -> ApiRun {
    let mut args: Vec<String> = ["-p", prompt, "--mode", "json", "--model", model].map(str::to_owned).to_vec();
    for (name, source) in extensions {
        let path = world.write(&format!("ext/{name}.ts"), format!("{PRELUDE}{source}"));
        args.extend(["-e".to_owned(), path.display().to_string()]);
    }
    args.extend(more.iter().map(|arg| (*arg).to_owned()));
    let run = world.pi(&args);
    let ledger = ledger(&world.home());
    ApiRun { world, run, ledger }
}

fn run(source: &str, more: &[&str]) -> ApiRun {
    let world = World::new();
    let model = world.script(&[&["ok"]]);
    let seen = run_in(world, "x", &model, &[("one", source)], more);
    seen.run.succeeded();
    seen
}

fn body(code: &str) -> String {
    format!(
        "export default (pi: any) => {{ const say = sayer(pi); pi.on('session_start', async (event: any, ctx: any) => {{ {code} }}); }};\n"
    )
}

/// Runs an extension that executes the code when the session starts.
fn at_start(code: &str, more: &[&str]) -> ApiRun {
    run(&body(code), more)
}

/// Returns a script that calls a tool once and then ends.
fn tool_script(name: &str, arguments: &str) -> String {
    let call =
        json!({"events": [{"tool_call": {"id": "c1", "name": name, "arguments": arguments}}], "stop": "tool_use"});
    let done = json!({"events": [{"text": "done"}], "stop": "end_turn"});
    format!("{call}\n{done}\n")
}

fn with_tool(source: &str, name: &str, arguments: &str) -> ApiRun {
    let world = World::new();
    let model = world.raw_script(&tool_script(name, arguments));
    let seen = run_in(world, "x", &model, &[("one", source)], &[]);
    seen.run.succeeded();
    seen
}

fn tool_end(seen: &ApiRun) -> Value {
    seen.run.events_of("tool_execution_end").into_iter().next().expect("the tool ran")
}

#[test]
fn async_and_sync_factories_run_in_load_order() {
    let world = World::new();
    let model = world.script(&[&["ok"]]);
    let source =
        "export default async (pi: any) => { const say = sayer(pi); await new Promise((done) => setTimeout(done, 5));
        pi.on('session_start', () => say('async')); };";
    let sync =
        "export default function (pi: any) { const say = sayer(pi); pi.on('session_start', () => say('sync')); }";
    let seen = run_in(world, "x", &model, &[("one", source), ("two", sync)], &[]);
    seen.run.succeeded();
    let order: Vec<_> = seen.ledger.iter().filter(|line| line["source"]["component"] == "extension").collect();
    let order: Vec<_> = order.iter().map(|line| &line["data"]["extension"]["event"]).collect();
    assert_eq!(order, ["async", "sync"], "load order");
}

#[test]
fn actions_of_a_running_factory_are_pi_s_error() {
    let world = World::new();
    let model = world.script(&[&["ok"]]);
    let seen = run_in(world, "x", &model, &[("one", "export default (pi: any) => { pi.sendMessage({}); };")], &[]);
    seen.run.failed(1, &["Failed to load extension", "Extension runtime not initialized", "one.ts:2"]);
}

#[test]
fn events_of_a_run_come_in_pi_s_order_and_on_returns_how_to_stop() {
    let seen = run(
        "export default (pi: any) => { const say = sayer(pi);
           for (const name of ['session_start', 'before_agent_start', 'agent_start', 'turn_start', 'turn_end', 'agent_end', 'session_shutdown'])
             pi.on(name, (event: any) => say('event', event.type));
           const stop = pi.on('turn_start', () => say('never')); stop(); };",
        &[],
    );
    let order = [
        "session_start",
        "before_agent_start",
        "agent_start",
        "turn_start",
        "turn_end",
        "agent_end",
        "session_shutdown",
    ];
    assert_eq!(seen.all("event"), order);
    assert_eq!(seen.all("never"), [] as [Value; 0]);
}

const ADD: &str = "export default (pi: any) => { const say = sayer(pi);
  pi.registerTool({ name: 'add', label: 'Add', description: 'adds', executionMode: 'sequential',
    parameters: { type: 'object', required: ['a', 'b'], properties: { a: { type: 'integer' }, b: { type: 'integer' } } },
    async execute(id: string, input: any, signal: any, onUpdate: any, ctx: any) {
      say('called', { id, input, aborted: signal.aborted, cwd: ctx.cwd === process.cwd() });
      onUpdate({ content: [{ type: 'text', text: 'half' }], details: {} });
      await Promise.resolve();
      if (input.a === 13) throw new Error('unlucky');
      return { content: [{ type: 'text', text: String(input.a + input.b) }], details: { sum: input.a + input.b } };
    } }); };";

#[test]
fn a_tool_gets_checked_and_coerced_arguments_and_its_result_reaches_the_model() {
    let seen = with_tool(ADD, "add", r#"{"a": "2", "b": 3}"#);
    let called = seen.one("called");
    assert_eq!(called["input"], json!({"a": 2, "b": 3}), "text became a number");
    assert_eq!((&called["id"], &called["aborted"], &called["cwd"]), (&json!("c1"), &json!(false), &json!(true)));
    let update = &seen.run.events_of("tool_execution_update")[0];
    assert_eq!(update["partialResult"]["content"][0]["text"], "half");
    let end = tool_end(&seen);
    assert_eq!((&end["isError"], &end["result"]["content"][0]["text"]), (&json!(false), &json!("5")));
    let kept =
        seen.session().into_iter().find(|entry| entry["message"]["role"] == "toolResult").expect("in the session");
    assert_eq!(kept["message"]["details"], json!({"sum": 5}));
}

#[test]
fn a_tool_that_throws_or_is_called_wrongly_tells_the_model() {
    let seen = with_tool(ADD, "add", r#"{"a": 13, "b": 3}"#);
    let end = tool_end(&seen);
    assert_eq!((&end["isError"], &end["result"]["content"][0]["text"]), (&json!(true), &json!("unlucky")));
    let seen = with_tool(ADD, "add", r#"{"a": "x"}"#);
    let text = tool_end(&seen)["result"]["content"][0]["text"].as_str().expect("text").to_owned();
    assert!(text.starts_with("Validation failed for tool \"add\"") && text.contains("- a:"), "{text}");
    assert_eq!(seen.all("called"), [] as [Value; 0], "it was not called");
}

#[test]
fn prepare_arguments_runs_before_the_check() {
    let source = "export default (pi: any) => { const say = sayer(pi);
      pi.registerTool({ name: 'greet', description: 'greets',
        parameters: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
        prepareArguments(raw: any) { if (raw.fail) throw new Error('cannot prepare'); return { name: raw.who }; },
        execute: async (id: string, input: any) => ({ content: [{ type: 'text', text: 'hi ' + input.name }] }) }); };";
    assert_eq!(tool_end(&with_tool(source, "greet", r#"{"who": "Ada"}"#))["result"]["content"][0]["text"], "hi Ada");
    let end = tool_end(&with_tool(source, "greet", r#"{"fail": true}"#));
    assert_eq!((&end["isError"], &end["result"]["content"][0]["text"]), (&json!(true), &json!("cannot prepare")));
}

#[test]
fn a_command_gets_its_arguments_untrimmed_and_the_model_is_not_asked() {
    let world = World::new();
    let model = world.script(&[]);
    let source = "export default (pi: any) => { const say = sayer(pi);
      pi.registerCommand('go', { description: 'goes', handler: async (args: string, ctx: any) => say('args', [args, ctx.cwd === process.cwd()]) });
      pi.registerCommand('boom', { handler: async () => { throw new Error('bang'); } }); };";
    let seen = run_in(world, "/go  a  b ", &model, &[("one", source)], &[]);
    seen.run.succeeded();
    assert_eq!(seen.one("args"), json!([" a  b ", true]));
    assert_eq!(seen.run.events_of("agent_start").len(), 0);
    let world = World::new();
    let model = world.script(&[]);
    run_in(world, "/boom", &model, &[("one", source)], &[]).run.failed(1, &["bang"]);
}

#[test]
fn flags_come_from_the_command_line() {
    let source = "export default (pi: any) => { const say = sayer(pi);
      pi.registerFlag('plan', { type: 'boolean', description: 'plans' });
      pi.registerFlag('level', { type: 'string', default: 'low' });
      pi.on('session_start', () => say('flags', [pi.getFlag('plan') ?? null, pi.getFlag('level'), pi.getFlag('other') ?? null])); };";
    assert_eq!(run(source, &[]).one("flags"), json!([null, "low", null]));
    assert_eq!(run(source, &["--plan", "--level=high"]).one("flags"), json!([true, "high", null]));
}

#[test]
fn exec_runs_only_what_was_granted_and_ends_in_time() {
    let code = "say('ran', await pi.exec('echo', ['a b', '$HOME']));";
    let refused = at_start(code, &[]).one("ran");
    assert_eq!((&refused["code"], &refused["stdout"]), (&json!(1), &json!("")));
    assert!(refused["stderr"].as_str().is_some_and(|text| text.contains("exec")), "{refused}");
    let ran = at_start(code, &["--allow", "exec:echo"]).one("ran");
    assert_eq!(ran, json!({"stdout": "a b $HOME\n", "stderr": "", "code": 0, "killed": false}));
    let killed = at_start("say('ran', await pi.exec('sleep', ['600'], { timeout: 50 }));", &["--allow", "exec:sleep"]);
    assert_eq!(killed.one("ran")["killed"], true);
    let denied = at_start(code, &["--allow", "exec:echo", "--deny", "exec"]).one("ran");
    assert_eq!(denied["code"], 1, "a deny list wins");
}

#[test]
fn messages_are_delivered_as_asked() {
    let world = World::new();
    let model = world.script(&[&["one"], &["two"], &["three"]]);
    let source = "export default (pi: any) => { let first = true;
      const draft = (content: string) => ({ customType: 'note', content, display: true });
      pi.on('session_start', () => {
        pi.sendMessage(draft('at once'));
        pi.sendMessage(draft('with the prompt'), { deliverAs: 'nextTurn' });
      });
      pi.on('turn_start', () => { if (!first) return; first = false;
        pi.sendUserMessage('and last', { deliverAs: 'followUp' });
        pi.sendMessage(draft('steered'), { deliverAs: 'steer' });
        pi.sendUserMessage('steered too', { deliverAs: 'steer' });
      }); };";
    let seen = run_in(world, "the prompt", &model, &[("one", source)], &[]);
    seen.run.succeeded();
    let text = |entry: &Value| match &entry["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    let said: Vec<String> = seen
        .session()
        .iter()
        .filter_map(|entry| match entry["type"].as_str() {
            Some("message") => (entry["message"]["role"] != "system").then(|| text(&entry["message"])),
            Some("custom_message") => Some(text(entry)),
            _ => None,
        })
        .collect();
    // Steering messages sent at the turn's start are part of its request, one at a time (fixtures/event-order/waiting).
    let order =
        ["at once", "the prompt", "with the prompt", "steered", "one", "steered too", "two", "and last", "three"];
    assert_eq!(said, order);
}

#[test]
fn a_message_may_trigger_a_turn_of_its_own() {
    let world = World::new();
    let model = world.script(&[&["triggered"], &["asked"]]);
    let source =
        body("pi.sendMessage({ customType: 'note', content: 'begin', display: false }, { triggerTurn: true });");
    let seen = run_in(world, "x", &model, &[("one", &source)], &[]);
    seen.run.succeeded();
    assert_eq!(seen.run.events_of("agent_start").len(), 2, "one for the message, one for the prompt");
    // At the end of a run the agent is still busy, as in pi (fixtures/drive/late-prompts).
    let late = |options: &str| {
        let world = World::new();
        let model = world.script(&[&["answer"], &["again"]]);
        let source = format!(
            "export default (pi: any) => {{ let once = true; pi.on('agent_end', () => {{ if (once) {{ once = false; setTimeout(() => {{}}, 0); pi.sendUserMessage('more'{options}); }} }}); }};"
        );
        let seen = run_in(world, "x", &model, &[("one", &source)], &[]);
        seen.run.succeeded();
        seen
    };
    let refused = late("");
    assert_eq!(refused.run.events_of("agent_start").len(), 1);
    assert!(refused.run.stderr.contains("Agent is already processing"), "{}", refused.run.stderr);
    let followed = late(", { deliverAs: 'followUp' }");
    assert_eq!(followed.run.events_of("agent_start").len(), 2, "{}", followed.run.stderr);
}

#[test]
fn an_appended_entry_is_visible_at_once_and_stored() {
    let seen = at_start(
        "const before = ctx.sessionManager.getEntries().length;
         pi.appendEntry('state', { n: 1 });
         const entries = ctx.sessionManager.getEntries();
         say('entries', [entries.length - before, entries.at(-1).customType, entries.at(-1).data, ctx.sessionManager.getLeafId() === entries.at(-1).id]);",
        &[],
    );
    assert_eq!(seen.one("entries"), json!([1, "state", {"n": 1}, true]));
    let kept = seen.session().into_iter().find(|entry| entry["type"] == "custom").expect("in the file");
    assert_eq!((&kept["customType"], &kept["data"]), (&json!("state"), &json!({"n": 1})));
}

#[test]
fn the_bus_reaches_other_extensions_with_a_copy() {
    let world = World::new();
    let model = world.script(&[&["ok"]]);
    let listen = "export default (pi: any) => { const say = sayer(pi);
      pi.events.on('news', (data: any) => { say('heard', data); data.n = 2; pi.events.emit('reply', data); }); };";
    let emit = "export default (pi: any) => { const say = sayer(pi); const data = { n: 1 };
      pi.events.on('reply', (back: any) => say('reply', [back.n, data.n]));
      const stop = pi.events.on('news', () => say('own')); stop();
      pi.on('session_start', () => pi.events.emit('news', data)); };";
    let seen = run_in(world, "x", &model, &[("one", listen), ("two", emit)], &[]);
    seen.run.succeeded();
    assert_eq!(seen.one("heard"), json!({"n": 1}));
    assert_eq!(seen.one("reply"), json!([2, 1]), "what it sent is its own");
    assert_eq!(seen.all("own"), [] as [Value; 0]);
}

#[test]
fn calls_and_emissions_nest_about_as_deep_as_in_node() {
    let seen = at_start(
        "let heard = 0;
         pi.events.on('deep', () => { if (++heard < 1000) pi.events.emit('deep', heard); });
         pi.events.emit('deep', 0);
         const down = (left: number): number => (left === 0 ? 0 : 1 + down(left - 1));
         say('deep', [heard, down(5000)]);",
        &[],
    );
    assert_eq!(seen.one("deep"), json!([1000, 5000]), "{}", seen.run.stderr);
}

#[test]
fn without_a_person_dialogs_give_pi_s_fall_backs() {
    let seen = at_start(
        "ctx.ui.notify('n'); ctx.ui.notify('w', 'warning'); ctx.ui.setStatus('k', 'v'); ctx.ui.setStatus('k', undefined);
         say('answers', [await ctx.ui.select('t', ['a']) ?? null, await ctx.ui.confirm('t', 'm'), await ctx.ui.input('t', 'p') ?? null, await pi.ui.confirm('t', 'm')]);
         say('facts', [ctx.hasUI, ctx.mode, ctx.cwd === process.cwd()]);",
        &[],
    );
    assert_eq!(seen.one("answers"), json!([null, false, null, false]));
    assert_eq!(seen.one("facts"), json!([false, "json", true]));
}

#[test]
fn the_session_manager_reads_the_session() {
    let seen = run(
        "export default (pi: any) => { const say = sayer(pi); pi.on('agent_end', (event: any, ctx: any) => {
           const sm = ctx.sessionManager, branch = sm.getBranch(), leaf = sm.getLeafEntry();
           say('read', { cwd: sm.getCwd() === ctx.cwd, id: sm.getSessionId() === sm.getHeader().id, file: sm.getSessionFile().startsWith(sm.getSessionDir()),
             roles: branch.filter((e: any) => e.type === 'message').map((e: any) => e.message.role), leaf: leaf.id === branch.at(-1).id,
             entry: sm.getEntry(leaf.id).id === leaf.id, tree: sm.getTree().length, name: sm.getSessionName() ?? null, label: sm.getLabel(leaf.id) ?? null,
             other: pi.session.getSessionId() === sm.getSessionId() });
         }); };",
        &[],
    );
    let expected = json!({"cwd": true, "id": true, "file": true, "roles": ["system", "user", "assistant"], "leaf": true,
        "entry": true, "tree": 1, "name": null, "label": null, "other": true});
    assert_eq!(seen.one("read"), expected);
}

#[test]
fn a_run_can_be_seen_and_aborted() {
    let world = World::new();
    let events: Vec<Value> =
        std::iter::repeat_n(json!({"text": "word "}), 50).flat_map(|text| [text, json!({"delay_ms": 20})]).collect();
    let model = world.raw_script(&json!({"events": events, "stop": "end_turn"}).to_string());
    let source = "export default (pi: any) => { const say = sayer(pi); let once = true;
      pi.on('session_start', (e: any, ctx: any) => say('idle', [ctx.isIdle(), ctx.signal === undefined, ctx.hasPendingMessages()]));
      pi.on('message_update', (e: any, ctx: any) => { if (!once) return; once = false;
        const signal = ctx.signal; signal.addEventListener('abort', () => say('fired', signal.aborted));
        say('running', [ctx.isIdle(), signal.aborted]); ctx.abort(); }); };";
    let seen = run_in(world, "x", &model, &[("one", source)], &[]);
    assert_eq!(seen.one("idle"), json!([true, true, false]));
    assert_eq!(seen.one("running"), json!([false, false]));
    assert_eq!(seen.one("fired"), true);
    assert_eq!(seen.run.code, 0, "the events say how it ended: {}", seen.run.stderr);
    assert!(seen.run.events_of("message_update").len() < 50, "it was cut short");
}

/// Starts a server that answers one request; its thread returns the request.
fn loopback() -> (u16, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut taken = [0; 4096];
        let mut text = String::new();
        while !text.contains("\r\n\r\nping") {
            let count = stream.read(&mut taken).expect("a request");
            assert_ne!(count, 0, "the request ended early: {text}");
            text.push_str(std::str::from_utf8(&taken[..count]).expect("ASCII"));
        }
        let answer = "HTTP/1.1 201 Created\r\nx-answer: yes\r\ncontent-length: 4\r\nconnection: close\r\n\r\npong";
        stream.write_all(answer.as_bytes()).expect("sent");
        text
    });
    (port, served)
}

#[test]
fn http_reaches_only_granted_servers() {
    let (port, served) = loopback();
    let code = format!(
        "try {{ const r = await pi.http({{ url: 'http://127.0.0.1:{port}/p?q', method: 'POST', headers: {{ 'x-mine': '1' }}, body: 'ping' }});
           say('got', [r.status, new TextDecoder().decode(r.body), r.headers.find(([name]: any) => name === 'x-answer')[1]]); }}
         catch (error: any) {{ say('error', [error.name, error.code]); }}"
    );
    for more in [&[][..], &["--allow", "http"], &["--policy", "permissive"]] {
        assert_eq!(at_start(&code, more).one("error"), json!(["HostcallError", "denied"]), "{more:?}");
    }
    let seen = at_start(&code, &["--allow", &format!("http:127.0.0.1:{port}")]);
    assert_eq!(seen.one("got"), json!([201, "pong", "yes"]));
    let request = served.join().expect("served");
    assert!(request.starts_with("POST /p?q HTTP/1.1\r\n") && request.contains("x-mine: 1\r\n"), "{request}");
}

#[test]
fn log_lines_are_written_to_the_ledger() {
    let seen = at_start(
        "pi.log('warn', 'deploy', { n: 1, apiKey: 'sk-12345' }); try { pi.log('loud', 'x'); } catch (e: any) { say('bad', e.message); }",
        &[],
    );
    let line = seen.ledger.iter().find(|line| line["data"]["extension"]["event"] == "deploy").expect("logged");
    assert_eq!((&line["level"], &line["source"]["component"]), (&json!("warn"), &json!("extension")));
    assert_eq!(line["data"]["extension"]["data"]["n"], 1);
    assert!(!line.to_string().contains("sk-12345"), "{line}");
    assert!(seen.one("bad").as_str().is_some_and(|text| text.contains("loud")));
}

#[test]
fn files_are_read_and_written_within_the_grants() {
    let code = "const told = async (work: Promise<unknown>) => work.then((value) => value ?? 'ok', (error: any) => error.code);
      say('files', [await told(pi.fs.writeFile('out/a.txt', 'x')), await told(pi.fs.mkdir('out', { recursive: true })), await told(pi.fs.writeFile('out/a.txt', 'é')),
        await told(pi.fs.appendFile('out/a.txt', new Uint8Array([33]))), await told(pi.fs.readText('out/a.txt')), await told(pi.fs.readFile('out/a.txt').then((b: any) => b.length)),
        await told(pi.fs.exists('nope')), await told(pi.fs.stat('out').then((s: any) => s.kind)), await told(pi.fs.readdir('out')),
        await told(pi.fs.readText('nope')), await told(pi.fs.remove('out', { recursive: true })), await told(pi.fs.readText('/etc/passwd'))]);";
    let seen = at_start(code, &["--allow", "write:out/**", "--allow", "write:out"]);
    let expected = json!(["io", "ok", "ok", "ok", "é!", 3, false, "dir", ["a.txt"], "io", "ok", "denied"]);
    assert_eq!(seen.one("files"), expected);
    let denied = at_start("say('code', await pi.fs.writeFile('a', 'x').then(() => 'ok', (e: any) => e.code));", &[]);
    assert_eq!(denied.one("code"), "denied");
    assert!(!denied.world.project().join("a").exists());
}

#[test]
fn environment_variables_are_granted_by_name() {
    let code = "say('env', await pi.env('HOME').then((e: any) => typeof e.HOME)); say('path', await pi.env('SECRET_X').then((e: any) => [...(e.SECRET_X ?? '')].join(' '), (e: any) => e.code));";
    let world = World::new();
    let model = world.script(&[&["ok"]]);
    let path = world.write("ext/one.ts", format!("{PRELUDE}{}", body(code)));
    for (more, expected) in [(vec![], "denied"), (vec!["--allow", "env:SECRET_X"], "h i d d e n - v a l u e")] {
        let mut args = vec!["-p", "x", "--mode", "json", "--model", &model, "-e", path.to_str().expect("UTF-8")];
        args.extend(more);
        let mut command = world.command(&args);
        command.env("SECRET_X", "hidden-value");
        support::run(command).succeeded();
        let lines = ledger(&world.home());
        let said = |what: &str| {
            let line = lines.iter().rfind(|line| line["data"]["extension"]["event"] == what).expect("said");
            line["data"]["extension"]["data"].clone()
        };
        assert_eq!((said("env"), said("path")), (json!("string"), json!(expected)));
    }
}

#[test]
fn pi_tool_runs_the_built_in_tools_under_the_extension_s_grants() {
    let world = World::new();
    world.write("project/src/a.txt", "needle here\n");
    world.write("project/src/b.md", "nothing\n");
    world.write("outside/secret.txt", "needle outside\n");
    std::os::unix::fs::symlink(world.path().join("outside"), world.project().join("src/link")).expect("a link");
    let model = world.script(&[&["ok"]]);
    let code = "const told = (name: string, input: any) => pi.tool(name, input).then((r: any) => r.content[0].text, (e: any) => [e.code, e.details.reason]);
      say('tools', { read: await told('read', { path: 'src/a.txt' }), grep: await told('grep', { pattern: 'needle' }), find: await told('find', { pattern: '*.md' }),
        ls: await told('ls', { path: 'src' }), write: await told('write', { path: 'out/w.txt', content: 'x y' }), edit: await told('edit', { path: 'out/w.txt', edits: [{ oldText: 'x', newText: 'z' }] }),
        bash: await told('bash', { command: 'echo $HOME_OF_NOBODY$OPENAI_API_KEY; cat out/w.txt' }),
        link: await told('read', { path: 'src/link/secret.txt' }), outside: await told('read', { path: '../outside/secret.txt' }),
        denied: await told('write', { path: 'other.txt', content: '' }), missing: await told('read', { path: 'nope' }), wrong: await told('read', {}), unknown: await told('nope', {}) });";
    let grants = ["--allow", "write:out/**", "--allow", "write:out", "--allow", "exec:bash", "--allow", "tool"];
    let seen = run_in(world, "x", &model, &[("one", &body(code))], &grants);
    seen.run.succeeded();
    let tools = seen.one("tools");
    assert_eq!(tools["read"], "needle here\n");
    assert_eq!(tools["grep"], "src/a.txt:1: needle here", "a link out of the project is not searched");
    assert_eq!(tools["find"], "src/b.md");
    assert!(tools["ls"].as_str().is_some_and(|text| text.contains("a.txt\nb.md")), "{tools}");
    assert!(tools["write"].as_str().is_some_and(|text| text.contains("wrote to out/w.txt")), "{tools}");
    assert_eq!(tools["bash"], "\nz y", "{tools}");
    assert_eq!(tools["link"][0], "denied", "{tools}");
    assert_eq!(tools["outside"][0], "denied", "{tools}");
    assert_eq!(tools["denied"][0], "denied");
    assert_eq!(tools["missing"], json!(["io", "tool_failed"]));
    assert_eq!(tools["wrong"][0], "invalid_request");
    assert_eq!(tools["unknown"], json!(["invalid_request", "unknown_tool"]));
    assert!(!seen.world.project().join("other.txt").exists());
    let ends = seen.lines("host_call.end");
    assert!(ends.iter().any(|line| line["data"]["method"] == "tool" && line["data"]["capability"] == "exec"));
}

#[test]
fn pi_tool_runs_tools_of_other_extensions() {
    let world = World::new();
    let model = world.script(&[&["ok"]]);
    let code = "say('sum', await pi.tool('add', { a: '1', b: 2 }).then((r: any) => r.details)); say('threw', await pi.tool('add', { a: 13, b: 1 }).catch((e: any) => [e.code, e.message]));";
    let denied = "say('denied', await pi.tool('add', { a: 1, b: 2 }).catch((e: any) => e.code));";
    let grants = ["--allow", "tool"];
    let seen = run_in(world, "x", &model, &[("one", ADD), ("two", &body(code))], &grants);
    seen.run.succeeded();
    assert_eq!(seen.one("sum"), json!({"sum": 3}));
    assert_eq!(seen.one("threw"), json!(["io", "unlucky"]));
    let world = World::new();
    let model = world.script(&[&["ok"]]);
    let seen = run_in(world, "x", &model, &[("one", ADD), ("two", &body(denied))], &[]);
    assert_eq!(seen.one("denied"), "denied");
}

#[test]
fn the_active_tools_can_be_listed_and_chosen() {
    let world = World::new();
    let model = world.raw_script(&tool_script("write", r#"{"path": "a", "content": "b"}"#));
    let source = format!(
        "{}\nconst start = (pi: any) => {{ const say = sayer(pi); pi.on('session_start', () => {{
           const all = pi.getAllTools(); say('all', all.map((tool: any) => tool.name)); say('keys', Object.keys(all.at(-1)));
           say('active', pi.getActiveTools()); pi.setActiveTools(['read', 'add', 'nope']); say('chosen', pi.getActiveTools()); }}); }};
         export default (pi: any) => {{ add(pi); start(pi); }};",
        ADD.replace("export default", "const add =")
    );
    let seen = run_in(world, "x", &model, &[("one", &source)], &[]);
    seen.run.succeeded();
    assert_eq!(seen.one("all"), json!(["read", "bash", "powershell", "edit", "write", "grep", "find", "ls", "add"]));
    assert_eq!(seen.one("keys"), json!(["name", "description", "parameters", "promptGuidelines", "sourceInfo"]));
    assert_eq!(seen.one("active"), json!(["read", "bash", "edit", "write", "add"]));
    assert_eq!(seen.one("chosen"), json!(["read", "add"]));
    assert_eq!(
        tool_end(&seen)["result"]["content"][0]["text"],
        "Tool write not found",
        "the model has the chosen ones only"
    );
}

#[test]
fn every_member_that_pi_declares_exists() {
    let lists: Value = serde_json::from_str(include_str!("../../../fixtures/api/members-0.87.1.json")).expect("JSON");
    let source = format!(
        "export default (pi: any) => {{ const say = sayer(pi); pi.registerCommand('probe', {{ handler: async (args: string, ctx: any) => {{
           const look = (owner: any, members: any, path: string) => {{ for (const [name, kind] of Object.entries(members)) {{
             if (!(name in owner)) say('missing', `${{path}}.${{name}}`);
             else if (kind !== 'value' && typeof owner[name] !== 'function') say('missing', `${{path}}.${{name}}()`); }} }};
           const lists = {lists};
           look(pi, lists.pi, 'pi'); look(ctx, lists.command, 'ctx'); look(ctx.ui, lists.ui, 'ctx.ui');
           look(ctx.sessionManager, lists.sessionManager, 'ctx.sessionManager');
           look(ctx.modelRegistry, lists.modelRegistry, 'ctx.modelRegistry');
           look(ctx.modelRegistry.runtime, lists.modelRuntime, 'ctx.modelRegistry.runtime');
           await ctx.newSession({{ withSession: async (next: any) => look(next, lists.replaced, 'withSession') }});
           console.log('looked'); }} }});
           pi.on('session_start', (event: any, ctx: any) => {{
             const missing = Object.keys(lists.ctx).filter((name) => !(name in ctx));
             say('context', missing); }}); const lists = {lists}; }};"
    );
    let world = World::new();
    let model = world.script(&[]);
    let seen = run_in(world, "/probe", &model, &[("one", &source)], &[]);
    seen.run.succeeded();
    assert_eq!(seen.all("missing"), [] as [Value; 0]);
    // Once at the start, and once in the new session.
    assert_eq!(seen.all("context"), [json!([]), json!([])]);
}

#[test]
fn the_policy_decides_calls_without_a_grant() {
    let code = "say('ran', (await pi.exec('echo', ['x'])).code);";
    assert_eq!(at_start(code, &["--policy", "strict"]).one("ran"), 1);
    assert_eq!(at_start(code, &["--policy", "prompt"]).one("ran"), 1, "nobody to ask");
    let seen = at_start(code, &["--policy", "permissive"]);
    assert_eq!(seen.one("ran"), 0);
    let decision =
        seen.lines("policy.decision").into_iter().find(|line| line["data"]["capability"] == "exec").expect("decided");
    assert_eq!((&decision["level"], &decision["data"]["rule"]), (&json!("warn"), &json!("permissive")));
    assert_eq!(at_start(code, &["--policy", "permissive", "--deny", "exec"]).one("ran"), 1);
}

#[test]
fn start_and_end_lines_of_a_call_name_the_same_call() {
    let seen = at_start("await pi.fs.exists('x'); await pi.exec('echo');", &[]);
    let starts = seen.lines("host_call.start");
    assert!(!starts.is_empty());
    for start in starts {
        let id = &start["correlation"]["host_call_id"];
        let ends: Vec<_> =
            seen.lines("host_call.end").into_iter().filter(|end| end["correlation"]["host_call_id"] == *id).collect();
        assert_eq!(ends.len(), 1, "{start}");
        for key in ["capability", "method", "params_hash"] {
            assert_eq!(ends[0]["data"][key], start["data"][key]);
            assert!(start["data"][key].is_string(), "{start}");
        }
    }
}
