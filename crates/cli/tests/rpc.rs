//! Tests `pi --mode rpc` with a client that speaks pi's protocol over pipes.

mod support;

use serde_json::{Value, json};
use std::io::Write;
use support::World;
use support::client::Client;

const EXTENSION: &str = r#"
export default function (pi: any) {
  pi.on("session_start", async (_event: unknown, ctx: any) => {
    ctx.ui.setTitle("started");
    ctx.ui.setWidget("w", ["line"], { placement: "belowEditor" });
    ctx.ui.setWidget("f", () => ({ render: () => [], invalidate() {} }));
    ctx.ui.setStatus("s", undefined);
  });
  pi.registerCommand("ask", {
    description: "asks",
    handler: async (_args: string, ctx: any) => {
      const seen = {
        picked: (await ctx.ui.select("Pick", ["a", "b"])) ?? null,
        sure: await ctx.ui.confirm("Sure?", "really"),
        cancelled: (await ctx.ui.input("Name", "place")) ?? null,
        edited: (await ctx.ui.editor("Edit", "pre")) ?? null,
        late: await ctx.ui.confirm("Nobody", "answers", { timeout: 30 }),
        custom: (await ctx.ui.custom(() => ({ render: () => [], invalidate() {} }))) ?? null,
        theme: ctx.ui.setTheme("light"),
        mode: ctx.mode,
        hasUI: ctx.hasUI,
      };
      ctx.ui.notify(JSON.stringify(seen), "warning");
    },
  });
  pi.registerCommand("fail", {
    handler: async () => {
      throw new Error("on purpose");
    },
  });
  pi.registerCommand("later", {
    handler: async () => {
      pi.sendUserMessage("from the extension");
    },
  });
}
"#;

fn start(world: &World, model: &str) -> Client {
    start_with(world, model, &["--no-session"])
}

fn start_with(world: &World, model: &str, options: &[&str]) -> Client {
    let extension = world.write("project/ext.ts", EXTENSION).display().to_string();
    Client::start(world, &[&["-ne", "-e", &extension, "--model", model], options].concat())
}

#[test]
fn a_prompt_is_accepted_streamed_as_deltas_and_settled() {
    let world = World::new();
    let model = world.script(&[&["Hel", "lo"]]);
    let mut client = start(&world, &model);
    let id = client.send(json!({"type": "prompt", "message": "hi\u{2028}there"}));
    let (before, response) = client.until(|record| record["id"] == id.as_str());
    let data = json!({"disposition": "started"});
    assert_eq!(response, json!({"id": id, "type": "response", "command": "prompt", "success": true, "data": data}));
    assert!(before.iter().all(|record| record["type"] != "session"), "no header: {before:#?}");
    let (events, _) = client.until(|record| record["type"] == "agent_settled");
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    // The model's prompt, the user's message, and the reply.
    let expected = ["message_start", "message_end", "message_start", "message_end", "message_start", "message_update"];
    assert_eq!(kinds[..2], ["agent_start", "turn_start"]);
    assert_eq!(kinds[2..8], expected);
    assert_eq!(kinds[kinds.len() - 3..], ["message_end", "turn_end", "agent_end"]);
    let deltas: Vec<&Value> = events
        .iter()
        .filter(|event| event["assistantMessageEvent"]["type"] == "text_delta")
        .map(|event| &event["assistantMessageEvent"]["delta"])
        .collect();
    assert_eq!(deltas, ["Hel", "lo"]);
    let update = events.iter().find(|event| event["type"] == "message_update").expect("an update");
    assert!(update.get("message").is_none() && update["assistantMessageEvent"].get("partial").is_none(), "{update}");
    assert!(update["usage"].is_object());
    assert_eq!(client.call(json!({"type": "get_last_assistant_text"}))["data"], json!({"text": "Hello"}));
    let messages = client.call(json!({"type": "get_messages"}));
    let roles: Vec<_> =
        messages["data"]["messages"].as_array().expect("a list").iter().map(|one| &one["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant"]);
    let state = client.call(json!({"type": "get_state"}));
    assert_eq!((&state["data"]["isStreaming"], &state["data"]["messageCount"]), (&json!(false), &json!(3)));
    assert_eq!(client.end(), 0);
}

/// Responses contain the disposition of a text, because clients of pi 1.5 throw without it.
#[test]
fn responses_contain_the_disposition_of_a_text() {
    let world = World::new();
    let events = json!([{"text": "slow"}, {"delay_ms": 600_000}]);
    let model = world.raw_script(&format!("{}\n", json!({"events": events, "stop": "end_turn"})));
    let extension = "export default (pi: any) => {
      pi.registerCommand('boom', { handler: async () => { throw new Error('bang'); } });
      pi.registerCommand('ok', { handler: async () => {} });
      pi.on('input', (event: any) => (event.text === 'eat' ? { action: 'handled' } : undefined));
    };";
    let extension = world.write("project/taken.ts", extension).display().to_string();
    let mut client = Client::start(&world, &["-ne", "--no-session", "-e", &extension, "--model", &model]);
    let became = |client: &mut Client, command: Value| {
        let answer = client.call(command);
        (answer["success"].clone(), answer["data"]["disposition"].clone())
    };
    for (command, expected) in [
        (json!({"type": "prompt", "message": "/ok"}), "handled"),
        (json!({"type": "prompt", "message": "/boom"}), "handled"),
        (json!({"type": "prompt", "message": "eat"}), "handled"),
        (json!({"type": "steer", "message": "eat"}), "handled"),
        (json!({"type": "prompt", "message": "go"}), "started"),
        (json!({"type": "prompt", "message": "more", "streamingBehavior": "steer"}), "queued"),
        (json!({"type": "prompt", "message": "later", "streamingBehavior": "followUp"}), "queued"),
        (json!({"type": "steer", "message": "now"}), "queued"),
        (json!({"type": "follow_up", "message": "then"}), "queued"),
        (json!({"type": "follow_up", "message": "eat"}), "handled"),
    ] {
        assert_eq!(became(&mut client, command.clone()), (json!(true), json!(expected)), "{command}");
    }
    assert_eq!(became(&mut client, json!({"type": "prompt", "message": "bare"})), (json!(false), Value::Null));
    client.call(json!({"type": "abort"}));
    assert_eq!(client.end(), 0);
}

#[test]
fn dialogs_go_to_the_client_and_their_answers_to_the_extension() {
    let world = World::new();
    let model = world.script(&[]);
    let mut client = start(&world, &model);
    let (before, _) = client.until(|record| record["method"] == "setStatus");
    let shown: Vec<_> = before.iter().map(|record| (&record["method"], &record["widgetKey"])).collect();
    assert_eq!(shown, [(&json!("setTitle"), &Value::Null), (&json!("setWidget"), &json!("w"))], "no component");
    assert_eq!(before[1]["widgetPlacement"], "belowEditor");

    let id = client.send(json!({"type": "prompt", "message": "/ask"}));
    let asked = client.request("select");
    assert_eq!((&asked["title"], &asked["options"]), (&json!("Pick"), &json!(["a", "b"])));
    client.write(&json!({"type": "extension_ui_response", "id": "nobody waits for this", "value": "b"}));
    client.write(&json!({"type": "extension_ui_response", "id": asked["id"], "value": "b"}));
    let asked = client.request("confirm");
    client.write(&json!({"type": "extension_ui_response", "id": asked["id"], "confirmed": true}));
    let asked = client.request("input");
    assert_eq!(asked["placeholder"], "place");
    client.write(&json!({"type": "extension_ui_response", "id": asked["id"], "cancelled": true}));
    let asked = client.request("editor");
    client.write(&json!({"type": "extension_ui_response", "id": asked["id"], "value": "pre and post"}));
    let asked = client.request("confirm");
    assert_eq!(asked["timeout"], 30, "the host waits for it: {asked}");
    let notice = client.request("notify");
    let expected = json!({
        "picked": "b", "sure": true, "cancelled": null, "edited": "pre and post", "late": false, "custom": null,
        "theme": {"success": false, "error": "Theme switching not supported in RPC mode"}, "mode": "rpc", "hasUI": true,
    });
    let seen: Value = serde_json::from_str(notice["message"].as_str().expect("a text")).expect("JSON");
    assert_eq!(seen, expected);
    assert_eq!(notice["notifyType"], "warning");
    assert_eq!(client.response(&id)["success"], true);
    assert_eq!(client.end(), 0);
}

#[test]
fn errors_of_a_command_are_its_response() {
    let world = World::new();
    let model = world.script(&[&["one"], &["two"]]);
    let mut client = start(&world, &model);
    client.write(&json!("no object"));
    client.until(|record| record["success"] == false && record.get("id").is_none());
    client.stdin.as_mut().expect("open").write_all(b"{not json}\r\n\r\n").expect("pi reads");
    let (_, parse) = client.until(|record| record["command"] == "parse");
    assert!(parse["error"].as_str().expect("a text").starts_with("Failed to parse command: "), "{parse}");
    for (command, words) in [
        (json!({"type": "no_such_thing"}), "Unknown command: no_such_thing"),
        (json!({"type": "prompt"}), "message must be a string"),
        (json!({"type": "get_entries", "since": "nothing"}), "Entry not found: nothing"),
        (json!({"type": "set_session_name", "name": "  "}), "Session name cannot be empty"),
        (json!({"type": "steer", "message": "/ask"}), "cannot be queued"),
    ] {
        let response = client.call(command.clone());
        assert_eq!(response["success"], false, "{command}");
        assert!(response["error"].as_str().expect("a text").contains(words), "{response}");
    }
    let id = client.send(json!({"type": "prompt", "message": "/fail"}));
    let (before, _) = client.until(|record| record["type"] == "response" && record["id"] == id.as_str());
    let error = before.iter().find(|record| record["type"] == "extension_error").expect("an error record");
    assert_eq!((&error["event"], &error["error"]), (&json!("command"), &json!("on purpose")));
    assert_eq!(client.call(json!({"type": "set_session_name", "name": " mine "}))["success"], true);
    assert_eq!(client.call(json!({"type": "get_state"}))["data"]["sessionName"], "mine");
    let commands = client.call(json!({"type": "get_commands"}));
    let names: Vec<_> =
        commands["data"]["commands"].as_array().expect("a list").iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["ask", "fail", "later"]);
    assert_eq!(client.end(), 0);
}

#[test]
fn a_run_of_an_extension_and_the_tree_of_entries_are_seen() {
    let world = World::new();
    let model = world.script(&[&["answer"]]);
    let mut client = start(&world, &model);
    client.send(json!({"type": "prompt", "message": "/later"}));
    let (events, _) = client.until(|record| record["type"] == "agent_settled");
    let said = events.iter().find(|event| event["message"]["role"] == "user").expect("the extension's message");
    assert_eq!(said["message"]["content"][0]["text"], "from the extension");
    let entries = client.call(json!({"type": "get_entries"}));
    let entries = entries["data"]["entries"].as_array().expect("a list").clone();
    let since = client.call(json!({"type": "get_entries", "since": entries[0]["id"]}));
    assert_eq!(since["data"]["entries"].as_array().expect("a list").len(), entries.len() - 1);
    let tree = client.call(json!({"type": "get_tree"}));
    assert_eq!(tree["data"]["tree"][0]["entry"]["id"], entries[0]["id"]);
    assert_eq!(tree["data"]["tree"][0]["children"][0]["entry"]["id"], entries[1]["id"]);
    assert_eq!(tree["data"]["leafId"], entries.last().expect("entries")["id"]);
    assert_eq!(client.call(json!({"type": "get_session_stats"}))["data"]["userMessages"], 1);
    assert_eq!(client.call(json!({"type": "abort"}))["success"], true);
    assert_eq!(client.call(json!({"type": "clear_queue"}))["data"], json!({"steering": [], "followUp": []}));
    assert_eq!(client.end(), 0);
}

/// Commands of pi's `rpc-commands.md` that change something get the documented responses.
#[test]
fn model_queues_and_shell_are_changed_as_the_document_says() {
    let world = World::new();
    let model = world.script(&[&["one"]]);
    let mut client = start(&world, &model);
    let state = client.call(json!({"type": "get_state"}))["data"].clone();
    for member in ["model", "thinkingLevel", "isStreaming", "isCompacting", "sessionId", "messageCount"] {
        assert!(state.get(member).is_some(), "{member}: {state}");
    }
    let expected = json!(["one-at-a-time", "one-at-a-time", true]);
    let modes = |state: &Value| json!([state["steeringMode"], state["followUpMode"], state["autoCompactionEnabled"]]);
    assert_eq!(modes(&state), expected);
    for (command, data) in [
        (json!({"type": "set_steering_mode", "mode": "all"}), None),
        (json!({"type": "set_follow_up_mode", "mode": "all"}), None),
        (json!({"type": "set_auto_compaction", "enabled": false}), None),
        (json!({"type": "set_auto_retry", "enabled": false}), None),
        (json!({"type": "abort_retry"}), None),
        (json!({"type": "abort_bash"}), None),
        (json!({"type": "set_thinking_level", "level": "high"}), None),
        (json!({"type": "cycle_model"}), Some(Value::Null)),
        (json!({"type": "cycle_thinking_level"}), Some(Value::Null)),
        (json!({"type": "get_available_thinking_levels"}), Some(json!({"levels": ["off"]}))),
        (json!({"type": "get_available_models"}), Some(json!({"models": [state["model"]]}))),
    ] {
        let response = client.call(command.clone());
        assert_eq!(response["success"], true, "{command}: {response}");
        assert_eq!(response.get("data"), data.as_ref(), "{command}");
    }
    let state = client.call(json!({"type": "get_state"}))["data"].clone();
    assert_eq!(modes(&state), json!(["all", "all", false]));
    let (provider, id) = (&state["model"]["provider"], &state["model"]["id"]);
    let set = client.call(json!({"type": "set_model", "provider": provider, "modelId": id}));
    assert_eq!(set["data"], state["model"]);
    for (command, words) in [
        (json!({"type": "set_model", "provider": "no", "modelId": "such"}), "Model not found: no/such"),
        (json!({"type": "set_steering_mode", "mode": "some"}), "there is no mode \"some\""),
        (json!({"type": "compact"}), "Nothing to compact"),
        (json!({"type": "fork", "entryId": "none"}), "Invalid entry ID for forking"),
        (json!({"type": "switch_session", "sessionPath": 1}), "sessionPath must be a string"),
        (json!({"type": "export_html"}), "Cannot export in-memory session to HTML"),
        (json!({"type": "bash"}), "command must be a string"),
    ] {
        let response = client.call(command.clone());
        assert_eq!(response["success"], false, "{command}: {response}");
        assert!(response["error"].as_str().expect("a text").contains(words), "{response}");
    }
    let id = client.send(json!({"type": "bash", "command": "echo out; exit 3"}));
    let (before, result) = client.until(|record| record["type"] == "response" && record["id"] == id.as_str());
    let update =
        before.iter().find(|record| record["type"] == "bash_execution_update").expect("an update with the output");
    assert_eq!((&update["id"], &update["delta"]), (&json!(id), &json!("out\n")));
    let expected = json!({"output": "out\n", "exitCode": 3, "cancelled": false, "truncated": false});
    assert_eq!(result["data"], expected);
    let messages = client.call(json!({"type": "get_messages"}));
    assert_eq!(messages["data"]["messages"][0]["role"], "bashExecution");
    let id = client.send(json!({"type": "bash", "command": "echo on; sleep 600", "excludeFromContext": true}));
    client.until(|record| record["type"] == "bash_execution_update");
    assert_eq!(client.call(json!({"type": "abort_bash"}))["success"], true);
    assert_eq!(client.response(&id)["data"]["cancelled"], true);
    assert_eq!(client.end(), 0);
}

#[test]
fn sessions_are_begun_forked_cloned_switched_and_exported() {
    let world = World::new();
    let model = world.script(&[&["<answer>"]]);
    let mut client = start_with(&world, &model, &[]);
    client.send(json!({"type": "prompt", "message": "first"}));
    client.until(|record| record["type"] == "agent_settled");
    let state = |client: &mut Client| client.call(json!({"type": "get_state"}))["data"].clone();
    let first = state(&mut client);
    let exported = client.call(json!({"type": "export_html", "outputPath": "out.html"}));
    let page = std::fs::read_to_string(exported["data"]["path"].as_str().expect("a path")).expect("it is there");
    assert!(page.contains("first") && page.contains("&lt;answer&gt;"), "{page}");
    let said = client.call(json!({"type": "get_fork_messages"}))["data"]["messages"][0].clone();
    assert_eq!(said["text"], "first");
    let clone = client.call(json!({"type": "clone"}));
    assert_eq!(clone["data"], json!({"cancelled": false}), "{clone}");
    let cloned = state(&mut client);
    assert_ne!(cloned["sessionId"], first["sessionId"]);
    assert_eq!(cloned["messageCount"], 3);
    let forked = client.call(json!({"type": "fork", "entryId": said["entryId"]}));
    assert_eq!(forked["data"], json!({"text": "first", "cancelled": false}), "{forked}");
    assert_eq!(state(&mut client)["messageCount"], 1, "what the model was told before");
    let new = client.call(json!({"type": "new_session"}));
    assert_eq!(new["data"], json!({"cancelled": false}));
    let back = client.call(json!({"type": "switch_session", "sessionPath": first["sessionFile"]}));
    assert_eq!(back["data"], json!({"cancelled": false}), "{back}");
    let again = state(&mut client);
    assert_eq!((&again["sessionId"], &again["messageCount"]), (&first["sessionId"], &json!(3)));
    assert_eq!(client.end(), 0);
}

/// As in pi, commands written before the end of the input are answered, and then the session shuts down.
#[test]
fn commands_written_before_the_end_of_the_input_are_answered() {
    let world = World::new();
    let extension = world.write(
        "project/piped.ts",
        r#"
export default function (pi: any) {
  pi.registerCommand("steps", {
    handler: async (_args: string, ctx: any) => {
      await Promise.resolve();
      ctx.ui.notify("first");
      await new Promise((done) => setImmediate(done));
      ctx.ui.notify("second");
    },
  });
  pi.on("session_shutdown", (event: any, ctx: any) => ctx.ui.notify(event.reason));
}
"#,
    );
    let commands = world.write(
        "commands",
        concat!(
            "{\"id\":\"a\",\"type\":\"get_state\"}\n",
            "{\"id\":\"b\",\"type\":\"prompt\",\"message\":\"/steps\"}\n",
            "{\"id\":\"c\",\"type\":\"set_session_name\",\"name\":\"piped\"}"
        ),
    );
    let options = ["--mode", "rpc", "-ne", "--no-session", "-e", &extension.display().to_string()];
    let mut command = world.command(&options);
    command.stdin(std::fs::File::open(commands).expect("written"));
    let run = support::run(command);
    run.succeeded();
    let records: Vec<Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).expect("a record on each line")).collect();
    let answered = |id: &str| records.iter().any(|record| record["id"] == id && record["success"] == true);
    assert!(["a", "b", "c"].iter().all(|id| answered(id)), "{records:#?}");
    let notices: Vec<_> =
        records.iter().filter(|record| record["method"] == "notify").map(|record| &record["message"]).collect();
    assert_eq!(notices, ["first", "second", "quit"]);
}

#[test]
fn a_reload_reads_extensions_again_and_keeps_what_cannot_be_compiled() {
    let world = World::new();
    let version = |number: u32| {
        format!(
            "import {{ name }} from './lib';
             export default (pi: any) => {{
               pi.registerCommand('again', {{ handler: async (_: string, ctx: any) => ctx.reload() }});
               pi.registerCommand('version', {{ handler: async (_: string, ctx: any) =>
                 ctx.ui.notify('{number} ' + name + ' ' + pi.getFlag('flag')) }});
               pi.registerFlag('flag', {{ type: 'string', default: 'none' }});
             }};"
        )
    };
    let other =
        "export default (pi: any) => pi.on('session_start', (_: any, ctx: any) => ctx.ui.notify('other is there'));";
    world.write("home/.pi/agent/extensions/tool/lib.ts", "export const name = 'old';");
    world.write("home/.pi/agent/extensions/tool/index.ts", version(1));
    let model = world.script(&[]);
    let options = ["--model", &model, "--no-session", "--isolation", "thread", "--flag", "given"];
    let mut client = Client::start(&world, &options);
    let mut says = |command: &str| {
        let id = client.send(json!({"type": "prompt", "message": command}));
        let (before, _) = client.until(|record| record["id"] == id.as_str() && record["type"] == "response");
        let told = before.iter().find(|record| record["method"] == "notify");
        told.map_or(Value::Null, |told| told["message"].clone())
    };
    assert_eq!(says("/version"), "1 old given");
    world.write("home/.pi/agent/extensions/tool/index.ts", version(2));
    says("/again");
    assert_eq!(says("/version"), "2 old given");
    world.write("home/.pi/agent/extensions/tool/lib.ts", "export const name = 'new';");
    says("/again");
    assert_eq!(says("/version"), "2 new given");
    world.write("home/.pi/agent/extensions/tool/index.ts", "export default (pi: any) => {\n  pi.on(;\n};\n");
    world.write("home/.pi/agent/extensions/other.ts", other);
    client.send(json!({"type": "prompt", "message": "/again"}));
    let (before, there) = client.until(|record| record["method"] == "notify");
    assert_eq!(there["message"], "other is there");
    let error = before.iter().find(|record| record["type"] == "extension_error").expect("an error");
    let message = error["error"].as_str().expect("a message");
    assert!(!message.starts_with("error:"), "{message}");
    for part in ["BD_SYNTAX", "index.ts:2:9", "pi.on(;", "the earlier version stays loaded"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    client.send(json!({"type": "prompt", "message": "/version"}));
    assert_eq!(client.request("notify")["message"], "2 new given");
    // A file that throws, before or in its export, does not end the session: the error names the position and is printed once.
    for broken in [
        "const one = 1;\nthrow new Error('at the top');\nexport default () => {};\n",
        "export default (pi: any) => {\n  pi.registerCommand('version', {handler: async () => {}});\n  throw new Error('in it');\n};\n",
    ] {
        world.write("home/.pi/agent/extensions/tool/index.ts", broken);
        client.send(json!({"type": "prompt", "message": "/again"}));
        let (before, _) = client.until(|record| record["method"] == "notify");
        let error = before.iter().find(|record| record["type"] == "extension_error").expect("an error");
        let message = error["error"].as_str().expect("a message");
        let line = broken.lines().position(|line| line.contains("throw")).expect("it throws") + 1;
        for part in [&format!("index.ts:{line}:"), "the earlier version stays loaded"] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert_eq!(message.matches("Failed to load").count(), 1, "{message}");
        client.send(json!({"type": "prompt", "message": "/version"}));
        let told = client.until(|record| record["method"] == "notify" && record["message"] != "other is there").1;
        assert_eq!(told["message"], "2 new given");
    }
    // A new session has the same code.
    world.write("home/.pi/agent/extensions/tool/index.ts", version(3));
    client.call(json!({"type": "new_session"}));
    client.send(json!({"type": "prompt", "message": "/version"}));
    let told = client.until(|record| record["method"] == "notify" && record["message"] != "other is there").1;
    assert_eq!(told["message"], "2 new given");
    assert_eq!(client.end(), 0);
}

/// Runs a command of an extension and answers each permission prompt; returns their number, and the notifications.
fn answering(client: &mut Client, command: &str, answer: &str) -> (usize, Vec<Value>) {
    let id = client.send(json!({"type": "prompt", "message": command}));
    let (mut questions, mut told) = (0, Vec::new());
    loop {
        let (_, record) = client.until(|record| {
            matches!(record["method"].as_str(), Some("select" | "notify"))
                || (record["id"] == id.as_str() && record["type"] == "response")
        });
        match record["method"].as_str() {
            Some("select") => {
                questions += 1;
                client.write(&json!({"type": "extension_ui_response", "id": record["id"], "value": answer}));
            }
            Some(_) => told.push(record["message"].clone()),
            None => return (questions, told),
        }
    }
}

#[test]
fn answers_for_the_session_outlive_a_reload_unless_the_grants_of_this_very_package_changed() {
    let world = World::new();
    let code = |name: &str| {
        format!(
            "import {{ execFileSync }} from 'node:child_process';
             export default (pi: any) => {{
               pi.registerCommand('{name}', {{ handler: async (_: string, ctx: any) => {{
                 try {{ execFileSync('true', []); ctx.ui.notify('ran'); }} catch {{ ctx.ui.notify('refused'); }}
               }} }});
               pi.registerCommand('{name}-again', {{ handler: async (_: string, ctx: any) => ctx.reload() }});
             }};"
        )
    };
    for name in ["one", "two"] {
        let manifest = json!({"name": name, "version": "1.0.0", "pi": {"extensions": ["./a.ts"]}});
        world.write(&format!("project/{name}/package.json"), manifest.to_string());
        world.write(&format!("project/{name}/a.ts"), code(name));
        world.pi(&["install", &format!("./{name}")]).succeeded();
    }
    let model = world.script(&[]);
    let mut client = Client::start(&world, &["--model", &model, "--no-session", "--isolation", "thread"]);
    let session = "Allow this for the session";
    assert_eq!(answering(&mut client, "/one", session), (1, vec![json!("ran")]));
    assert_eq!(answering(&mut client, "/two", session), (1, vec![json!("ran")]));
    world.pi(&["ext", "grants", "allow", "two", "exec:date"]).succeeded();
    answering(&mut client, "/one-again", "Deny");
    assert_eq!(answering(&mut client, "/one", "Deny"), (0, vec![json!("ran")]), "nothing of it changed");
    assert_eq!(answering(&mut client, "/two", "Deny"), (1, vec![json!("refused")]), "its grants are other ones");
    // The extension's own code has changed.
    world.write("project/one/a.ts", code("one") + "\nexport const more = 1;\n");
    answering(&mut client, "/one-again", "Deny");
    assert_eq!(answering(&mut client, "/one", "Deny"), (1, vec![json!("refused")]));
    assert_eq!(client.end(), 0);
}

#[test]
fn an_answer_for_one_call_is_not_repeated_for_the_next_call() {
    let world = World::new();
    // No extension handles `session_start`.
    let code = "import { execFileSync } from 'node:child_process';
      export default (pi: any) => pi.registerCommand('run', { handler: async (_: string, ctx: any) => {
        try { execFileSync('true', []); ctx.ui.notify('ran'); } catch (error: any) { ctx.ui.notify(error.message); }
      } });";
    world.write("project/run.ts", code);
    let model = world.script(&[]);
    let mut client = Client::start(&world, &["--model", &model, "--no-session", "-e", "./run.ts"]);
    for _ in 0..2 {
        assert_eq!(answering(&mut client, "/run", "Allow this once"), (1, vec![json!("ran")]));
        let (questions, told) = answering(&mut client, "/run", "Deny");
        assert!(questions == 1 && told != [json!("ran")], "{told:?}");
    }
    assert_eq!(client.end(), 0);
}

#[test]
fn a_package_that_looks_around_as_it_starts_asks_one_question_for_each_file_that_is_there() {
    let world = World::new();
    let there = world.write("elsewhere/there", "x").display().to_string();
    let absent = world.path().join("elsewhere/absent").display().to_string();
    world.write("node_modules/dependency/package.json", r#"{"name":"dependency","version":"1.2.3","main":"a.js"}"#);
    world.write("node_modules/dependency/a.js", "module.exports = 1;");
    world.write("tools/mine/package.json", r#"{"name":"mine","version":"4.5.6","pi":{"extensions":["./src/a.ts"]}}"#);
    let code = r#"
      import dependency from "dependency";
      import * as fs from "node:fs";
      import { createRequire } from "node:module";
      import { fileURLToPath } from "node:url";
      const require = createRequire(import.meta.url);
      const version = (path: string) => JSON.parse(fs.readFileSync(path, "utf8")).version;
      const looks: any[] = [fs.existsSync, fs.statSync, fs.lstatSync, fs.accessSync, fs.realpathSync];
      export default (pi: any) => {
        const seen: string[] = [
          version(fileURLToPath(new URL("../package.json", import.meta.url))),
          version(require.resolve("dependency/package.json")),
        ];
        pi.on("session_start", async (_: any, ctx: any) => {
          for (const path of ["ABSENT", "THERE"]) {
            for (const look of looks) {
              try { seen.push(String(look(path) === false)); } catch (error: any) { seen.push(error.code); }
            }
            for (const look of [fs.promises.stat, fs.promises.lstat, fs.promises.access, fs.promises.realpath] as any[]) {
              await look(path).catch((error: any) => seen.push(error.code));
            }
          }
          ctx.ui.notify(seen.join(" ") + dependency);
        });
      };"#;
    world.write("tools/mine/src/a.ts", code.replace("ABSENT", &absent).replace("THERE", &there));
    let model = world.script(&[]);
    world.pi(&["install", "../tools/mine"]).succeeded();
    let mut client = Client::start(&world, &["--model", &model, "--no-session"]);
    let asked = client.request("select");
    assert!(asked["title"].as_str().is_some_and(|title| title.contains(&there)), "{asked}");
    client.write(&json!({"type": "extension_ui_response", "id": asked["id"], "value": "Deny"}));
    let (before, told) = client.until(|record| record["method"] == "notify");
    assert!(before.iter().all(|record| record["method"] != "select"), "{before:#?}");
    let refused = ["true", &["EACCES"; 8].join(" ")].join(" ");
    assert_eq!(told["message"], format!("4.5.6 1.2.3 {refused} {refused}1"), "a no and nothing there look the same");
    assert_eq!(client.end(), 0);
}
