//! Tests fifty extensions in one session: their order, name conflicts, and the isolation of failures.

mod support;

use serde_json::{Value, json};
use support::World;

const COUNT: usize = 50;

/// Extension `N`. All subscribe to the same events, share a bus, and register some equal names; one in ten fails.
const SOURCE: &str = r#"
const own = N;
const heard: number[] = [];
export default (pi: any) => {
  pi.registerTool({ name: `tool_${own}`, description: `tool ${own}`, parameters: { type: "object", properties: {} },
    execute: async () => ({ content: [{ type: "text", text: `answer ${own}` }] }) });
  if (own === 3 || own === 8) pi.registerTool({ name: "same", description: `same of ${own}`, parameters: { type: "object", properties: {} },
    execute: async () => ({ content: [{ type: "text", text: `same of ${own}` }] }) });
  pi.registerCommand(own < 2 ? "shared" : `command-${own}`, { handler: async () => {} });
  (globalThis as any).shared = ((globalThis as any).shared ?? 0) + 1;
  (Array.prototype as any).extra = own;
  pi.events.on("ping", (data: { from: number; list: number[] }) => {
    heard.push(data.from);
    data.list.push(own);
  });
  pi.on("session_start", () => {
    if (own % 10 === 5) throw new Error(`broken ${own}`);
    const list: number[] = [];
    if (own < 3) pi.events.emit("ping", { from: own, list });
  });
  pi.on("before_agent_start", async (event: any) => {
    if (own % 7 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    if (own === 20) throw new Error("no prompt of mine");
    return { systemPrompt: `${event.systemPrompt} <${own}>` };
  });
  pi.on("agent_end", (_: unknown, ctx: any) => {
    const prompt = own === 49 ? ctx.getSystemPrompt() : undefined;
    pi.appendEntry("said", { own, heard, prompt, shared: (globalThis as any).shared, extra: ([] as any).extra });
  });
};"#;

fn entries(world: &World) -> Vec<Value> {
    let folder = world.home().join(".pi/agent/sessions");
    let project = std::fs::read_dir(folder).expect("sessions").next().expect("a project").expect("an entry").path();
    let session = std::fs::read_dir(project).expect("sessions").next().expect("a session").expect("an entry").path();
    let text = std::fs::read_to_string(session).expect("a session");
    text.lines().map(|line| serde_json::from_str(line).expect("an entry")).collect()
}

fn fifty(isolation: &str) {
    let world = World::new();
    let mut args: Vec<String> = ["-p", "go", "--mode", "json", "--isolation", isolation].map(str::to_owned).into();
    for number in 0..COUNT {
        let path = world.write(&format!("ext/e{number:02}.ts"), SOURCE.replace("own = N", &format!("own = {number}")));
        args.extend(["-e".to_owned(), path.display().to_string()]);
    }
    let call = |id: &str, name: &str| json!({ "tool_call": { "id": id, "name": name, "arguments": "{}" } });
    let script = [
        json!({ "events": [call("a", "tool_41"), call("b", "same")], "stop": "tool_use" }),
        json!({ "events": [{ "text": "done" }], "stop": "end_turn" }),
    ];
    args.extend(["--model".to_owned(), world.raw_script(&script.map(|line| line.to_string()).join("\n"))]);
    let run = world.pi(&args);
    run.succeeded();

    // A name belongs to the first extension that registers it, and a notice says so.
    let results: Vec<Value> =
        run.events_of("tool_execution_end").iter().map(|end| end["result"]["content"][0]["text"].clone()).collect();
    assert_eq!(results, [json!("answer 41"), json!("same of 3")]);
    assert!(run.stderr.contains("\"same\"") && run.stderr.contains("e08.ts"), "{}", run.stderr);
    // An error names its extension and does not affect others.
    for broken in ["broken 5", "broken 15", "broken 45", "no prompt of mine"] {
        assert!(run.stderr.contains(broken), "{broken} is missing in:\n{}", run.stderr);
    }

    let said: Vec<Value> = entries(&world)
        .into_iter()
        .filter(|entry| entry["customType"] == "said")
        .map(|entry| entry["data"].clone())
        .collect();
    // Handlers run in load order.
    assert_eq!(
        said.iter().map(|each| each["own"].as_u64()).collect::<Vec<_>>(),
        (0..COUNT as u64).map(Some).collect::<Vec<_>>()
    );
    let marks: String = (0..COUNT).filter(|number| *number != 20).map(|number| format!(" <{number}>")).collect();
    let prompt = said[COUNT - 1]["prompt"].as_str().expect("a prompt");
    assert!(prompt.ends_with(&marks), "{prompt}");
    for each in &said {
        // An event on the bus reaches every extension in order, including the sender; globals and prototypes are separate.
        assert_eq!(each["heard"], json!([0, 1, 2]), "{each}");
        assert_eq!((&each["shared"], &each["extra"]), (&json!(1), &each["own"]), "{each}");
    }
}

#[test]
fn fifty_extensions_keep_their_order_in_processes() {
    fifty("process");
}

#[test]
fn fifty_extensions_keep_their_order_in_one_thread() {
    fifty("thread");
}
