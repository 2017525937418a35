//! Tests members of pi's packages other than the extension API, for which PiJS has its own messages or limits. Scenarios test the
//! behaviour in common with pi: `fixtures/pi-packages`, played by `scenarios.rs`.
//!
//! The packages are fetched once; `PIJS_CONFORMANCE_OFFLINE=1` skips these tests, like all cases that need packages.

#[expect(dead_code, reason = "these tests compare with no trace")]
mod drive;

use drive::{drive, is_offline};
use serde_json::json;

/// Runs an extension with this source and returns its notifications.
fn notifications(source: &str) -> Vec<String> {
    told_in("rpc", source)
}

fn told_in(mode: &str, source: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("main.ts"), source).expect("written");
    let scenario = json!({
        "name": "written", "extensions": ["./main.ts"], "ui": {"mode": mode}, "steps": [{"command": "/go"}],
    });
    let file = folder.path().join("scenario.json");
    std::fs::write(&file, scenario.to_string()).expect("written");
    let trace = drive(&file, "thread", &[]);
    let items = trace["trace"].as_array().expect("a trace has items");
    let told = items.iter().filter(|item| item["method"] == "notify");
    told.map(|item| item["args"][0].as_str().expect("a text").to_owned()).collect()
}

/// Hints name pi's keys, also before a component is created.
#[test]
fn hints_at_the_terminal_name_pis_keys() {
    if is_offline() {
        return;
    }
    let told = told_in(
        "tui",
        r#"
        import { keyText } from "@earendil-works/pi-coding-agent";
        export default (pi: any) => pi.registerCommand("go", { handler: async (_: string, ctx: any) => {
            ctx.ui.notify(`Press ${keyText("app.tools.expand")} for full output`);
        } });
    "#,
    );
    assert_eq!(told, ["Press ctrl+o for full output"]);
}

#[test]
fn whole_programs_and_logins_name_an_alternative() {
    if is_offline() {
        return;
    }
    let told = notifications(
        r#"
        import { InteractiveMode, main, runRpcMode } from "@earendil-works/pi-coding-agent";
        import { radiusProvider } from "@earendil-works/pi-ai/providers/all";
        export default (pi) => pi.registerCommand("go", { async handler(_args, ctx) {
            for (const use of [() => new InteractiveMode(), () => main([]), () => runRpcMode(), () => radiusProvider().auth.oauth.login({})]) {
                try { await use(); ctx.ui.notify("went through"); } catch (error) { ctx.ui.notify(error.message); }
            }
            ctx.ui.notify(String([InteractiveMode, main, runRpcMode].every((name) => name[Symbol.for("pijs.refused")] === true)));
        } });
        "#,
    );
    assert_eq!(told.len(), 5, "{told:?}");
    let wanted = ["ctx.ui.custom", "RpcClient", "pi --mode rpc", "auth.json", "true"];
    for (said, part) in told.iter().zip(wanted) {
        assert!(said.contains(part), "{said}");
    }
}

/// The extension itself sends requests to an image model, so the gate decides about the server.
#[test]
fn image_requests_pass_the_gate() {
    if is_offline() {
        return;
    }
    // A scenario may connect to 127.0.0.1 only, not to other addresses of this machine.
    let server = std::net::TcpListener::bind("127.0.0.2:0").expect("a port");
    let address = server.local_addr().expect("an address");
    let source = r#"
        import { generateImages, getImageModels } from "@earendil-works/pi-ai";
        export default (pi) => pi.registerCommand("go", { async handler(_args, ctx) {
            const [model] = getImageModels("openrouter");
            const made = await generateImages({ ...model, baseUrl: "http://ADDRESS" }, { input: [] }, { apiKey: "k", maxRetries: 0 });
            ctx.ui.notify(`${made.stopReason} ${made.errorMessage}`);
        } });
    "#;
    assert_eq!(notifications(&source.replace("ADDRESS", &address.to_string())), ["error Connection error."]);
    server.set_nonblocking(true).expect("a socket");
    assert!(server.accept().is_err(), "a server that nobody granted was reached");
}

/// The schema of `models.json` is compiled when the first file is read. The messages are those of the real pi.
#[test]
fn a_wrong_list_of_models_is_described_as_by_pi() {
    if is_offline() {
        return;
    }
    let told = notifications(
        r#"
        import { writeFileSync } from "node:fs";
        import { join } from "node:path";
        import { ModelRuntime } from "@earendil-works/pi-coding-agent";
        const cost = { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 };
        const compat = { thinkingFormat: "zai", chatTemplateKwargs: { a: { $var: "thinking.enabled" }, b: null } };
        const models = [{ id: "m", cost: { ...cost, tiers: [{ inputTokensAbove: 5, ...cost }] }, compat }];
        const right = { x: { baseUrl: "https://x.invalid", apiKey: "K", api: "openai-completions", models } };
        const wrong = {
            x: {
                baseUrl: "",
                models: [{ id: "m", input: ["sound"], cost: { input: 1 } }],
                modelOverrides: { m: { inputLimits: { images: { resize: { jpegQuality: 101 } } } } },
            },
            y: { oauth: "other" },
        };
        export default (pi) => pi.registerCommand("go", { async handler(_args, ctx) {
            for (const providers of [right, wrong]) {
                const modelsPath = join(ctx.cwd, "listed.json");
                writeFileSync(modelsPath, JSON.stringify({ providers }));
                const runtime = await ModelRuntime.create({ modelsPath, refreshOnCreate: false });
                ctx.ui.notify((runtime.getError() ?? "no error").replace(modelsPath, "listed.json"));
            }
        } });
        "#,
    );
    let wrong = "Invalid models.json schema:\n\
        \x20 - providers.x.baseUrl: must not have fewer than 1 characters\n\
        \x20 - providers.x.models.0.input.0: must be equal to constant\n\
        \x20 - providers.x.models.0.input.0: must be equal to constant\n\
        \x20 - providers.x.models.0.input.0: must match a schema in anyOf\n\
        \x20 - providers.x.models.0.cost.output: must have required properties output, cacheRead, cacheWrite\n\
        \x20 - providers.x.modelOverrides.m.inputLimits.images.resize.jpegQuality: must be <= 100\n\
        \x20 - providers.y.oauth: must be equal to constant\n\nFile: listed.json";
    assert_eq!(told, ["no error", wrong]);
}
