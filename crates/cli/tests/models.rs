//! Tests models and keys as configured by a user of pi: in `models.json`, `auth.json`, the environment, settings, `--model` and
//! similar options, and by extensions.

mod support;

use serde_json::json;
use std::process::Stdio;
use support::{ModelServer, Reply, Run, World, anthropic, openai, run};

const SECRET: &str = "hush-hush-and-then-some";

/// Returns a world whose `models.json` has one provider on loopback.
fn world(server: &ModelServer, key: &str) -> World {
    let world = World::new();
    world.write("home/.pi/agent/settings.json", r#"{"retry": {"enabled": false}}"#);
    let config = json!({"providers": {"mine": {"baseUrl": format!("{}/v1", server.url), "api": "openai-completions",
        "apiKey": key, "headers": {"X-Team": "$TEAM"}, "models": [{"id": "small"}, {"id": "large", "reasoning": true}]}}});
    world.write("home/.pi/agent/models.json", format!("// mine\n{config}"));
    world
}

fn ask(world: &World, args: &[&str], variables: &[(&str, &str)]) -> Run {
    let mut command = world.command(&[&["-p", "hi", "-ne"], args].concat());
    command.env("TEAM", "team-seven").envs(variables.iter().copied());
    run(command)
}

#[test]
fn a_key_from_a_command_in_models_json_reaches_only_the_provider() {
    let server = ModelServer::start(vec![Reply::Stream(openai(&["Hello."]))]);
    let world = world(&server, &format!("!printf %s {SECRET}"));
    let extension = "export default (pi) => {\n  pi.on('before_provider_headers', (event) => console.error('headers', JSON.stringify(event.headers)));\n  pi.on('session_start', async (_, ctx) => {\n    const model = ctx.modelRegistry.find('mine', 'small');\n    const given = await ctx.modelRegistry.getApiKeyAndHeaders(model);\n    console.error('given', JSON.stringify(given), ctx.modelRegistry.getProviderAuthStatus('mine').source);\n  });\n};\n";
    let path = world.write("project/spy.ts", extension).display().to_string();
    let answered = ask(&world, &["--model", "mine/small", "-e", &path], &[]);
    answered.succeeded();
    assert_eq!(answered.stdout.trim(), "Hello.");
    let head = &server.heads()[0];
    assert!(head.contains(&format!("authorization: bearer {SECRET}")) && head.contains("x-team: team-seven"), "{head}");
    assert_eq!(server.requests()[0].1["model"], "small");
    assert!(answered.stderr.contains("models_json_command"), "{}", answered.stderr);
    for secret in [SECRET, "team-seven"] {
        assert!(!answered.stderr.contains(secret), "{}", answered.stderr);
        let kept = std::process::Command::new("grep").args(["-rl", secret]).arg(world.home()).output().unwrap();
        let kept = String::from_utf8(kept.stdout).unwrap();
        assert!(kept.lines().all(|file| file.ends_with("models.json")), "{kept}");
    }
}

#[test]
fn keys_are_taken_from_the_run_then_the_file_then_the_configuration() {
    let server = ModelServer::start(vec![Reply::Stream(openai(&["ok"])); 3]);
    let world = world(&server, "$MINE");
    let variables = [("MINE", "from-the-variable")];
    ask(&world, &["--model", "mine/small"], &variables).succeeded();
    world.write("home/.pi/agent/auth.json", r#"{"mine": {"type": "api_key", "key": "from-the-file"}}"#);
    ask(&world, &["--model", "mine/small"], &variables).succeeded();
    ask(&world, &["--model", "mine/small", "--api-key", "from-the-run"], &variables).succeeded();
    let heads = server.heads();
    for (head, key) in heads.iter().zip(["from-the-variable", "from-the-file", "from-the-run"]) {
        assert!(head.contains(&format!("authorization: bearer {key}")), "{head}");
    }
}

#[test]
fn a_login_of_the_real_pi_is_used_until_it_expires() {
    let server = ModelServer::start(vec![Reply::Stream(openai(&["ok"]))]);
    let world = world(&server, "$MINE");
    let log_in = |expires: u64| {
        let entry = json!({"type": "oauth", "access": SECRET, "refresh": "refresh-token", "expires": expires});
        world.write("home/.pi/agent/auth.json", json!({"mine": entry}).to_string());
    };
    log_in(9_000_000_000_000);
    ask(&world, &["--model", "mine/small"], &[]).succeeded();
    assert!(server.heads()[0].contains(&format!("authorization: bearer {SECRET}")));
    log_in(1);
    let ended = ask(&world, &["--model", "mine/small"], &[]);
    ended.failed(1, &["the login for mine", "has expired"]);
    assert!(!ended.stderr.contains(SECRET));
}

#[test]
fn a_model_name_may_be_partial_and_end_with_a_level() {
    let server = ModelServer::start(vec![Reply::Stream(openai(&["ok"])); 3]);
    let world = world(&server, "k-e-y-s");
    ask(&world, &["--model", "mine/larg:high"], &[]).succeeded();
    ask(&world, &["--provider", "mine", "--model", "large", "--thinking", "low"], &[]).succeeded();
    ask(&world, &["--model", "mine/unheard-of"], &[]).succeeded();
    let bodies = server.bodies();
    assert_eq!((&bodies[0]["model"], &bodies[0]["reasoning_effort"]), (&json!("large"), &json!("high")));
    assert_eq!((&bodies[1]["model"], &bodies[1]["reasoning_effort"]), (&json!("large"), &json!("low")));
    assert_eq!(bodies[2]["model"], "unheard-of");
    let warned = ask(&world, &["--model", "mine/small", "--thinking", "much"], &[]);
    assert!(warned.stderr.contains("Invalid thinking level \"much\". Valid values: off, minimal"));
    ask(&world, &["--model", "x", "--provider", "nobody"], &[]).failed(2, &["nobody", "--list-models"]);
}

#[test]
fn settings_choose_where_the_command_line_does_not_and_a_session_keeps_its_model() {
    let server = ModelServer::start(vec![Reply::Stream(openai(&["ok"])); 4]);
    let world = world(&server, "k-e-y-s");
    ask(&world, &[], &[]).succeeded();
    let settings = r#"{"retry": {"enabled": false}, "defaultProvider": "mine", "defaultModel": "large", "defaultThinkingLevel": "low"}"#;
    world.write("home/.pi/agent/settings.json", settings);
    ask(&world, &["--model", "mine/small", "--session", "s.jsonl"], &[]).succeeded();
    ask(&world, &["--session", "s.jsonl"], &[]).succeeded();
    ask(&world, &[], &[]).succeeded();
    let models: Vec<_> = server.bodies().into_iter().map(|body| body["model"].clone()).collect();
    assert_eq!(models, ["small", "small", "small", "large"]);
    assert_eq!(server.bodies()[3]["reasoning_effort"], "low");
}

#[test]
fn usable_models_are_listed_and_missing_keys_are_explained() {
    let server = ModelServer::start(Vec::new());
    let world = world(&server, "$MINE");
    let list = |more: &[&str], variables: &[(&str, &str)]| {
        let mut command = world.command(&[&["-ne", "--list-models"], more].concat());
        command.envs(variables.iter().copied());
        run(command)
    };
    let none = list(&[], &[]);
    none.succeeded();
    assert!(none.stdout.contains("ANTHROPIC_API_KEY") && !none.stdout.contains("mine"), "{}", none.stdout);
    let mine = list(&[], &[("MINE", "k")]);
    assert_eq!(
        mine.stdout,
        "provider  model  context  max-out  thinking  images\nmine      large  128K     16.4K    yes       no\nmine      small  128K     16.4K    no        no\n"
    );
    let opus = list(&["opus48"], &[("ANTHROPIC_API_KEY", "k")]);
    assert!(
        opus.stdout.lines().nth(1).is_some_and(|line| line.starts_with("anthropic  claude-opus-4-8")),
        "{}",
        opus.stdout
    );
}

#[test]
fn unusable_models_are_reported_with_the_cause() {
    let world = World::new();
    let ask = |model: &str, variable: &str| {
        let mut command = world.command(&["-p", "hi", "-ne", "--model", model]);
        command.env(variable, "k-e-y-s");
        run(command)
    };
    ask("mistral/devstral-medium-latest", "MISTRAL_API_KEY")
        .failed(1, &["mistral/devstral-medium-latest", "mistral-conversations"]);
    ask("openai/gpt-5.5", "NOT_ITS_KEY").failed(1, &["openai/gpt-5.5", "OPENAI_API_KEY", "auth.json"]);
    world.write("home/.pi/agent/models.json", "{\"providers\": {\"x\": {\"models\": 7}}}");
    ask("x/y", "NONE").failed(2, &["models.json", "providers.x.models", "x/y"]);
}

#[test]
fn models_json_changes_the_url_of_a_known_provider() {
    let server = ModelServer::start(vec![Reply::Stream(anthropic(&["Moved."]))]);
    let world = World::new();
    let config = json!({"providers": {"anthropic": {"baseUrl": server.url}}});
    world.write("home/.pi/agent/models.json", config.to_string());
    let mut command = world.command(&["-p", "hi", "-ne", "--model", "anthropic/claude-opus-4-8:low", "--mode", "json"]);
    command.env("ANTHROPIC_API_KEY", "k-e-y-s");
    let answered = run(command);
    answered.succeeded();
    let (path, body) = &server.requests()[0];
    assert_eq!((path.as_str(), &body["model"]), ("/v1/messages?beta=true", &json!("claude-opus-4-8")));
    assert_eq!((&body["thinking"]["type"], &body["output_config"]["effort"]), (&json!("adaptive"), &json!("low")));
    let end = &answered.events_of("agent_end")[0];
    let reply = end["messages"].as_array().unwrap().last().unwrap();
    // 10 input tokens at 5 dollars and 5 output tokens at 25 dollars per million.
    assert_eq!(reply["usage"]["cost"]["total"], json!(0.000_175));
}

#[test]
fn a_model_that_an_extension_registers_can_be_named() {
    let server = ModelServer::start(vec![Reply::Stream(openai(&["From the extension."]))]);
    let world = World::new();
    let source = format!(
        "export default (pi) => pi.registerProvider('brought', {{ baseUrl: '{}/v1', apiKey: 'k-e-y-s', api: 'openai-completions', headers: {{ 'x-a': '1' }}, models: [{{ id: 'm1', name: 'M', reasoning: false, input: ['text'], cost: {{ input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }}, contextWindow: 1000, maxTokens: 100, headers: {{ 'x-b': '2' }} }}] }});\n",
        server.url
    );
    let path = world.write("project/provider.ts", source).display().to_string();
    let answered = world.pi(&["-p", "hi", "-ne", "-e", &path, "--allow", "provider", "--model", "brought/m1"]);
    answered.succeeded();
    assert_eq!(answered.stdout.trim(), "From the extension.");
    let head = &server.heads()[0];
    assert!(head.contains("bearer k-e-y-s") && head.contains("x-a: 1") && head.contains("x-b: 2"), "{head}");
}

/// An extension sees the model catalogue before a session and in one.
#[test]
fn extensions_see_the_catalogue() {
    let world = World::new();
    let source = "import { getModel, getModels, getProviders } from '@earendil-works/pi-ai';\nconst early = getModel('anthropic', 'claude-opus-4-8');\nexport default (pi) => {\n  pi.on('session_start', (_, ctx) => {\n    const registry = ctx.modelRegistry;\n    console.error(JSON.stringify({ early: early.name, here: registry.find('openai', 'gpt-5.5').api, all: registry.getAll().length > 1000, usable: [...new Set(registry.getAvailable().map((model) => model.provider))], of: getModels('groq').length > 0, providers: getProviders().length > 30, none: registry.find('openai', 'nothing') ?? null, status: registry.getProviderAuthStatus('groq') }));\n  });\n};\n";
    let path = world.write("project/spy.ts", source).display().to_string();
    let model = world.script(&[&["hi"]]);
    let mut command = world.command(&["-p", "x", "-ne", "-e", &path, "--model", &model]);
    command.env("GROQ_API_KEY", "k-e-y-s");
    let answered = run(command);
    answered.succeeded();
    let seen = answered.stderr.lines().find_map(|line| line.find('{').map(|at| line[at..].to_owned())).expect("seen");
    let seen: serde_json::Value = serde_json::from_str(&seen).expect("JSON");
    assert_eq!(
        seen,
        json!({"early": "Claude Opus 4.8", "here": "openai-responses", "all": true, "usable": ["groq", "script"],
            "of": true, "providers": true, "none": null,
            "status": {"configured": true, "source": "environment", "label": "GROQ_API_KEY"}})
    );
}

#[test]
fn piped_input_precedes_the_typed_prompt() {
    let server = ModelServer::start(vec![Reply::Stream(openai(&["ok"])); 3]);
    let world = world(&server, "k-e-y-s");
    let pipe = |args: &[&str], text: &str| {
        use std::io::Write;
        let mut command = world.command(&[&["-ne", "--model", "mine/small"], args].concat());
        command.env("TEAM", "t").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(pipe(&[], "piped\n").trim(), "ok");
    pipe(&["and typed"], " piped \n");
    pipe(&["-p", "and typed"], "piped");
    let asked: Vec<_> = server
        .bodies()
        .iter()
        .map(|body| body["messages"].as_array().unwrap().last().unwrap()["content"][0]["text"].clone())
        .collect();
    assert_eq!(asked, ["piped", "pipedand typed", "pipedand typed"]);
    world.pi(&["-ne", "--model", "mine/small"]).failed(2, &["are not a terminal", "pi -p"]);
}
