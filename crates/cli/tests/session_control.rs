//! Tests session control by extensions: models, trees, other sessions, reloads, and their own providers.

mod support;

use serde_json::{Value, json};
use support::client::Client;
use support::{Run, World};

/// Runs the command `/go` of an extension with this body; texts passed to `say` become the lines of stderr.
fn go(world: &World, model: &str, body: &str, more: &[&str]) -> Run {
    let source = format!(
        "const said: string[] = [];
         export default (pi: any) => {{
           const say = (...what: unknown[]) => pi.appendEntry('said', what);
           {body}
         }};"
    );
    let path = world.write("ext/one.ts", source);
    let mut args = vec!["-p", "/go", "--mode", "json", "--model", model, "-e", path.to_str().expect("UTF-8")];
    args.extend(more);
    let run = world.pi(&args);
    run.succeeded();
    run
}

/// Returns the messages of all sessions in the home, in the order of files and lines.
fn said(world: &World) -> Vec<Value> {
    let mut found = Vec::new();
    let folder = world.home().join(".pi/agent/sessions");
    let mut files: Vec<_> = walk(&folder);
    files.sort();
    for file in files {
        for line in std::fs::read_to_string(file).expect("a session").lines() {
            let entry: Value = serde_json::from_str(line).expect("an entry");
            if entry["customType"] == "said" {
                found.push(entry["data"].clone());
            }
        }
    }
    found
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let Ok(listing) = std::fs::read_dir(folder) else { return Vec::new() };
    listing
        .map(|item| item.expect("an entry").path())
        .flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] })
        .collect()
}

fn answers(world: &World, count: usize) -> String {
    let replies: Vec<Vec<&str>> = (0..count).map(|_| vec!["ok"]).collect();
    let replies: Vec<&[&str]> = replies.iter().map(Vec::as_slice).collect();
    world.script(&replies)
}

#[test]
fn a_command_continues_in_a_new_session_with_a_new_context() {
    let world = World::new();
    let model = answers(&world, 2);
    let body = "pi.on('session_start', (event: any) => { if (event.reason === 'new') say('started', event.reason); });
      pi.registerCommand('go', { handler: async (args: string, ctx: any) => {
        const before = ctx.sessionManager.getSessionId();
        const result = await ctx.newSession({
          setup: async (manager: any) => { manager.appendMessage({ role: 'user', content: 'from setup', timestamp: 1 }); },
          withSession: async (next: any) => {
            await next.sendUserMessage('hello');
            const roles = next.sessionManager.getEntries().filter((entry: any) => entry.type === 'message').map((entry: any) => entry.message.role);
            let stale = '';
            try { pi.getActiveTools(); } catch (error: any) { stale = error.message.slice(0, 27); }
            try { ctx.isIdle(); stale += '!'; } catch { stale += ' both'; }
            next.sessionManager.appendCustomEntry('said', [next.sessionManager.getSessionId() !== before, roles, stale]);
          } });
        if (result.cancelled) throw new Error('cancelled');
      } });";
    go(&world, &model, body, &[]);
    assert_eq!(
        said(&world),
        [
            json!(["started", "new"]),
            json!([true, ["user", "system", "user", "assistant"], "This extension ctx is stale both"])
        ]
    );
}

#[test]
fn a_handler_may_keep_the_session() {
    let world = World::new();
    let model = answers(&world, 1);
    let body = "pi.on('session_before_switch', () => ({ cancel: true }));
      pi.registerCommand('go', { handler: async (args: string, ctx: any) => {
        const result = await ctx.newSession({ withSession: async () => { throw new Error('must not run'); } });
        say(result.cancelled, pi.getActiveTools().length > 0); pi.sendUserMessage('so that it is kept'); } });";
    go(&world, &model, body, &[]);
    assert_eq!(said(&world), [json!([true, true])]);
}

#[test]
fn a_reload_makes_new_modules_and_the_command_finishes_in_the_old_ones() {
    let world = World::new();
    let model = answers(&world, 1);
    let body = "let count = 0;
      pi.on('session_shutdown', (event: any) => { count += 1; say('down', event.reason, count); });
      pi.on('session_start', (event: any) => { say('up', event.reason, count); if (event.reason === 'reload') pi.sendUserMessage('keep'); });
      pi.registerCommand('go', { handler: async (args: string, ctx: any) => { count = 5; await ctx.reload(); count += 1; console.log('after', count); } });";
    let run = go(&world, &model, body, &[]);
    assert_eq!(
        said(&world),
        [
            json!(["up", "startup", 0]),
            json!(["down", "reload", 6]),
            json!(["up", "reload", 0]),
            json!(["down", "quit", 1])
        ]
    );
    assert!(run.stderr.contains("after 7"), "{}", run.stderr);
}

#[test]
fn a_command_navigates_and_forks_the_tree() {
    let world = World::new();
    let model = answers(&world, 3);
    let body = "pi.on('session_before_tree', (event: any) => { say('before', event.preparation.entriesToSummarize.length > 0); });
      pi.on('session_tree', (event: any, ctx: any) => { say('tree', event.newLeafId === ctx.sessionManager.getLeafId()); });
      pi.on('session_start', (event: any, ctx: any) => { if (event.reason === 'fork') say('forked', ctx.sessionManager.getEntries().filter((entry: any) => entry.type === 'message').length); });
      pi.registerCommand('go', { handler: async (args: string, ctx: any) => {
        pi.sendUserMessage('one'); await ctx.waitForIdle();
        pi.sendUserMessage('two'); await ctx.waitForIdle();
        const users = ctx.sessionManager.getEntries().filter((entry: any) => entry.message?.role === 'user');
        const first = users[0], second = users[1];
        const moved = await ctx.navigateTree(second.id);
        say(moved.cancelled, ctx.sessionManager.getBranch().filter((entry: any) => entry.type === 'message').length);
        let wrong = '';
        try { await ctx.navigateTree('nope'); } catch (error: any) { wrong = error.message; }
        say(wrong);
        pi.setLabel(first.id, 'start'); say(ctx.sessionManager.getLabel(first.id));
        await ctx.fork(second.id);
      } });";
    go(&world, &model, body, &[]);
    let said = said(&world);
    assert!(said.contains(&json!(["before", true])), "{said:?}");
    assert!(said.contains(&json!(["tree", true])), "{said:?}");
    assert!(said.contains(&json!([false, 3])), "{said:?}");
    assert!(said.contains(&json!(["Entry nope not found"])), "{said:?}");
    assert!(said.contains(&json!(["start"])), "{said:?}");
}

#[test]
fn a_provider_of_an_extension_answers_with_its_own_stream_function() {
    let world = World::new();
    let body = "pi.on('before_provider_request', (event: any) => ({ ...event.payload, seen: true }));
      pi.on('after_provider_response', (event: any) => { say('response', event.status); });
      pi.registerProvider('mine', { baseUrl: 'http://localhost', apiKey: 'k', api: 'mine-api',
        models: [{ id: 'm', name: 'M', reasoning: false, input: ['text'], cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, contextWindow: 1000, maxTokens: 100 }],
        async *streamSimple(model: any, context: any, options: any) {
          const sent = await options.onPayload({ body: context.messages.length });
          await options.onResponse({ status: 201, headers: {} });
          const text = `${model.id} ${options.apiKey} ${JSON.stringify(sent)}`;
          const message = { role: 'assistant', content: [{ type: 'text', text }], api: 'mine-api', provider: 'mine', model: 'm',
            usage: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } }, stopReason: 'stop', timestamp: 0 };
          yield { type: 'start', partial: message };
          yield { type: 'text_start', contentIndex: 0, partial: message };
          yield { type: 'text_delta', contentIndex: 0, delta: text, partial: message };
          yield { type: 'text_end', contentIndex: 0, content: text, partial: message };
          yield { type: 'done', reason: 'stop', message };
        } });
      pi.on('model_select', (event: any) => { say('selected', event.model.id, event.previousModel.provider); });
      pi.registerCommand('go', { handler: async (args: string, ctx: any) => {
        const model = ctx.modelRegistry.find('mine', 'm');
        say('set', await pi.setModel(model), ctx.model.id, await pi.setModel({ provider: 'nobody', id: 'x' }));
        pi.sendUserMessage('hi'); await ctx.waitForIdle(); } });";
    let model = answers(&world, 1);
    let run = go(&world, &model, body, &["--allow", "provider"]);
    let last = run.events_of("message_end").pop().expect("a reply");
    assert_eq!(last["message"]["content"][0]["text"], "m k {\"body\":2,\"seen\":true}", "{last}");
    assert_eq!(
        said(&world),
        [json!(["selected", "m", "script"]), json!(["set", true, "m", false]), json!(["response", 201])]
    );
}

#[test]
fn a_denied_provider_is_not_registered() {
    let world = World::new();
    let model = answers(&world, 1);
    let body = "pi.registerProvider('mine', { baseUrl: 'http://localhost', apiKey: 'k', api: 'openai-completions', models: [{ id: 'm' }] });
      pi.registerCommand('go', { handler: async () => { say(await pi.setModel({ provider: 'mine', id: 'm' })); pi.sendUserMessage('x'); } });";
    go(&world, &model, body, &["--deny", "provider"]);
    assert_eq!(said(&world), [json!([false])]);
}

#[test]
fn an_extension_asks_the_model_without_ever_seeing_a_key() {
    let world = World::new();
    let model = world.script(&[&["aside"], &["ok"]]);
    let body = "pi.registerCommand('go', { handler: async (args: string, ctx: any) => {
        const auth = await ctx.modelRegistry.getApiKeyAndHeaders(ctx.model);
        const reply = await ctx.modelRegistry.complete(ctx.model, { systemPrompt: 's', messages: [{ role: 'user', content: 'q', timestamp: 0 }] }, { apiKey: auth.apiKey });
        say(auth.ok, auth.apiKey, reply.content[0].text, reply.stopReason);
        pi.sendUserMessage('x'); } });";
    go(&world, &model, body, &[]);
    assert_eq!(said(&world), [json!([true, "pijs-session-key:script", "aside", "stop"])]);
}

#[test]
fn a_session_is_compacted_by_a_handlers_own_summary() {
    let world = World::new();
    let model = answers(&world, 2);
    let body = "pi.on('session_before_compact', (event: any) => ({ compaction: { summary: 'MINE', firstKeptEntryId: event.preparation.firstKeptEntryId, tokensBefore: event.preparation.tokensBefore } }));
      pi.on('session_compact', (event: any) => { say('compacted', event.compactionEntry.summary, event.fromExtension, event.reason); });
      pi.registerCommand('go', { handler: async (args: string, ctx: any) => {
        pi.sendUserMessage('y'); await ctx.waitForIdle();
        pi.sendUserMessage('x'.repeat(100_000)); await ctx.waitForIdle();
        const done: any = await new Promise((resolve) => ctx.compact({ onComplete: resolve, onError: (error: Error) => resolve(error.message) }));
        say(done.summary ?? done, ctx.sessionManager.buildSessionContext().messages.map((message: any) => message.role).slice(0, 2)); } });";
    go(&world, &model, body, &[]);
    assert_eq!(
        said(&world),
        [json!(["compacted", "MINE", true, "manual"]), json!(["MINE", ["system", "compactionSummary"]])]
    );
}

/// An extension that records the callbacks that run, and exits pi at several points.
const LEAVES: &str = r#"
import { appendFileSync } from "node:fs";
export default (pi: any) => {
  const say = (...what: unknown[]) => appendFileSync("noted.jsonl", `${JSON.stringify(what)}\n`);
  process.on("exit", (code: number) => say("exit", code));
  pi.on("session_shutdown", (event: any) => say("shutdown", event.reason));
  pi.registerFlag("at-start", { type: "boolean" });
  pi.registerFlag("in-reply", { type: "boolean" });
  pi.on("session_start", () => { if (pi.getFlag("at-start")) process.exit(5); });
  pi.on("message_update", () => { if (pi.getFlag("in-reply")) process.exit("4"); });
  pi.on("agent_start", () => say("asked"));
  pi.registerCommand("leave", {
    handler: async (code: string) => {
      say("leaving");
      process.exit(Number(code));
      say("never");
    },
  });
  pi.registerCommand("down", { handler: async (_: string, ctx: any) => { ctx.shutdown(); say("went on"); } });
};
"#;

/// Returns the record that [`LEAVES`] has written.
fn noted(world: &World) -> Value {
    world.read("project/noted.jsonl").lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")).collect()
}

#[test]
fn an_extension_that_controls_the_session_may_end_pi() {
    let ended = |options: &[&str], code: i32, expected: Value| {
        let world = World::new();
        let extension = world.write("ext/leaves.ts", LEAVES).display().to_string();
        let reply = json!({"events": [{"text": "one"}, {"delay_ms": 600_000}], "stop": "end_turn"});
        let model = world.raw_script(&format!("{reply}\n{reply}\n"));
        let run = world.pi(&[&["--allow", "write", "--model", &model, "-e", &extension][..], options].concat());
        assert_eq!((run.code, noted(&world)), (code, expected), "{options:?}: {}", run.stderr);
        run
    };
    let allowed = ["--allow", "session.control"];
    let with = |options: &[&'static str]| [&allowed[..], options].concat();
    let left = |code: i32| json!([["leaving"], ["exit", code], ["shutdown", "quit"]]);
    let stderr = ended(&with(&["-p", "/leave 0", "never asked"]), 0, left(0)).stderr;
    // A load that takes a long time is announced.
    assert!(stderr.lines().all(|line| line == "loading extensions ..."), "{stderr}");
    ended(&with(&["-p", "/leave 7"]), 7, left(7));
    ended(&with(&["--mode", "json", "-p", "/leave 3", "never asked"]), 3, left(3));
    ended(&with(&["--at-start", "-p", "never asked"]), 5, json!([["exit", 5], ["shutdown", "quit"]]));
    ended(&with(&["--isolation", "thread", "-p", "/leave 2"]), 2, left(2));
    let run = ended(&["--deny", "session.control", "-p", "/leave 0"], 1, json!([["leaving"], ["shutdown", "quit"]]));
    assert!(run.stderr.contains("session.control"), "{}", run.stderr);
    let world = World::new();
    let extension = world.write("ext/leaves.ts", LEAVES).display().to_string();
    let reply = json!({"events": [{"text": "one"}, {"delay_ms": 600_000}], "stop": "end_turn"});
    let model = world.raw_script(&format!("{reply}\n"));
    let options = ["--allow", "write", "--model", &model, "-e", &extension, "--in-reply", "-p", "go"];
    let run = world.pi(&[&allowed[..], &options].concat());
    assert_eq!(run.code, 4, "{}", run.stderr);
    assert_eq!(noted(&world).as_array().and_then(|lines| lines.last()), Some(&json!(["shutdown", "quit"])));
}

#[test]
fn over_rpc_an_extension_ends_pi_in_order() {
    for (command, code, expected) in [
        ("/leave 6", 6, json!([["leaving"], ["exit", 6], ["shutdown", "quit"]])),
        ("/down", 0, json!([["went on"], ["shutdown", "quit"]])),
    ] {
        let world = World::new();
        let extension = world.write("ext/leaves.ts", LEAVES).display().to_string();
        let model = answers(&world, 1);
        let options = ["--model", &model, "-e", &extension, "--allow", "session.control", "--allow", "write"];
        let mut client = Client::start(&world, &options);
        let answer = client.call(json!({"type": "prompt", "message": command}));
        assert_eq!(answer["success"], true, "{answer}");
        // The input of pi stays open, but pi exits by itself.
        let ended = client.child.wait().expect("pi ends");
        assert_eq!((ended.code(), noted(&world)), (Some(code), expected), "{command}");
    }
}

/// As in pi, the events of json mode say how a reply ended, and a run in text mode without a reply prints the reason.
#[test]
fn a_run_that_an_extension_aborts_ends_as_in_pi() {
    let world = World::new();
    let source = "export default (pi: any) => { let once = true;
      pi.on('message_update', (_: any, ctx: any) => { if (once) ctx.abort(); once = false; }); };";
    let extension = world.write("ext/aborts.ts", source).display().to_string();
    let slow = json!({"events": [{"text": "one"}, {"delay_ms": 600_000}], "stop": "end_turn"});
    let model = world.raw_script(&format!("{slow}\n{}\n", json!({"events": [{"text": "two"}], "stop": "end_turn"})));
    let ask = |options: &[&str]| world.pi(&[&["--model", &model, "-e", &extension][..], options].concat());
    ask(&["-p", "go"]).failed(1, &["aborted"]);
    assert_eq!(ask(&["-p", "go", "and on"]).succeeded().stdout, "two\n");
    let run = ask(&["--mode", "json", "-p", "go"]);
    assert_eq!(run.succeeded().events_of("agent_end")[0]["messages"][2]["stopReason"], "aborted");
    let bad = world.raw_script(&format!("{}\n", json!({"events": [{"error": "no such thing"}]})));
    world.pi(&["--model", &bad, "-p", "go"]).failed(1, &["no such thing"]);
    let run = world.pi(&["--model", &bad, "--mode", "json", "-p", "go"]);
    assert_eq!(run.succeeded().events_of("agent_end")[0]["messages"][2]["errorMessage"], "no such thing");
}
