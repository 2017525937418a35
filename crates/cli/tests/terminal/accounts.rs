//! Tests `/login` with providers of extensions.

use super::pty::Terminal;
use crate::support::{ModelServer, Reply, World, openai};
use serde_json::{Value, json};

/// A provider whose log-in prompts for a name, and whose tokens expire at once until they are renewed.
const PROVIDER: &str = r#"
const log: string[] = [];
export default function (pi: any) {
  pi.registerProvider("acme", {
    baseUrl: "BASE",
    api: "openai-completions",
    models: [{ id: "one", name: "One", reasoning: false, input: ["text"], contextWindow: 1000, maxTokens: 100,
      cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 } }],
    oauth: {
      name: "Acme Works",
      async login(callbacks: any) {
        callbacks.onAuth({ url: "https://acme.example/login", instructions: "Say friend" });
        callbacks.onProgress("one moment");
        const tier = await callbacks.onSelect({ message: "Which tier?", options: [{ id: "t1", label: "Free" }, { id: "t2", label: "Paid" }] });
        const user = await callbacks.onPrompt({ message: "Who are you?", placeholder: "a name" });
        if (user === "nobody") throw new Error("nobody may not log in");
        return { access: `access-of-${user}`, refresh: "refresh-1", expires: 1, tier };
      },
      async refreshToken(credentials: any) {
        log.push(`renewed ${credentials.refresh}`);
        return { ...credentials, access: `${credentials.access}-again`, refresh: "refresh-2", expires: Date.now() + 3_600_000 };
      },
      getApiKey: (credentials: any) => `${credentials.access}/${credentials.tier}`,
      modifyModels: (models: any[], credentials: any) => models.map((model) => ({ ...model, name: `${model.name} for ${credentials.tier}` })),
    },
  });
  pi.registerCommand("log", { handler: async (_: string, ctx: any) => {
    const model = ctx.modelRegistry.find("acme", "one");
    ctx.ui.notify(`${log.join(", ")}; ${model.name}; ${ctx.modelRegistry.isUsingOAuth(model)}; ${JSON.stringify(ctx.modelRegistry.getProviderAuthStatus("acme"))}`);
  } });
}
"#;

fn stored(world: &World) -> Value {
    serde_json::from_str(&world.read("home/.pi/agent/auth.json")).expect("auth.json")
}

#[test]
fn an_extension_logs_in_and_its_log_in_is_renewed_and_taken_out() {
    let world = World::new();
    let server = ModelServer::start(["from acme", "once more"].map(|text| Reply::Stream(openai(&[text]))).to_vec());
    let file = world.write("project/acme.ts", PROVIDER.replace("BASE", &server.url));
    let args = ["--no-extensions", "-e", file.to_str().expect("a path")];
    let mut terminal = Terminal::start(world.command(&args));
    terminal.sees("pi  no model");

    terminal.answers("/login acme", "Which tier?");
    terminal.sees("https://acme.example/login");
    terminal.presses("\u{1b}", "the login with Acme Works failed: Login cancelled");
    terminal.answers("/login", "> Acme Works");
    terminal.presses("\r", "Which tier?");
    terminal.presses("\u{1b}[B", "> Paid");
    terminal.presses("\r", "Who are you?");
    terminal.presses("me\r", "logged in with Acme Works");
    terminal.sees("pi  acme/one");
    let acme = &stored(&world)["acme"];
    assert_eq!(acme["type"], "oauth");
    assert_eq!(acme["access"], "access-of-me-again", "the session takes a model, for which the token is renewed");
    assert_eq!(acme["refresh"], "refresh-2");
    terminal.answers("hello", "from acme");
    terminal.answers("/log", r#"renewed refresh-1; One for t2; true; {"configured":true,"source":"stored"}"#);
    assert!(server.heads()[0].contains("bearer access-of-me-again/t2"), "{:?}", server.heads());

    // A session without a user uses the login as well.
    let file = file.to_str().expect("a path");
    let run = world.pi(&["-p", "hello", "--model", "acme/one", "--no-extensions", "-e", file]);
    assert!(run.succeeded().stdout.contains("once more"), "{}", run.stdout);
    assert!(server.heads()[1].contains("bearer access-of-me-again/t2"), "{:?}", server.heads());

    terminal.answers("/logout acme", "Acme Works was removed from auth.json");
    assert_eq!(stored(&world), json!({}));
    terminal.answers("/log", r#"One; false; {"configured":false}"#);
    terminal.say("/quit");
    let (_, bytes) = terminal.ends();
    assert!(!bytes.contains("access-of-me"), "a token was shown");
}

#[test]
fn stored_credentials_are_not_shared_between_extensions() {
    let world = World::new();
    let server = ModelServer::start(vec![Reply::Stream(openai(&["never"]))]);
    let entry = json!({"type": "oauth", "access": "a", "refresh": "r", "expires": 9e15, "extension": "npm:another"});
    world.write("home/.pi/agent/auth.json", json!({"acme": entry}).to_string());
    let file = world.write("project/acme.ts", PROVIDER.replace("BASE", &server.url));
    let args = ["--no-extensions", "-e", file.to_str().expect("a path")];
    let mut terminal = Terminal::start(world.command(&args));
    terminal.sees("pi  no model");
    terminal.answers("/log", r#"; One; false; {"configured":false}"#);
    terminal.say("/quit");
    terminal.ends();
    world
        .pi(&["-p", "hello", "--model", "acme/one", "--no-extensions", "-e", file.to_str().expect("a path")])
        .failed(1, &["acme/one"]);
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn an_extension_cannot_take_the_account_of_a_builtin_provider() {
    let world = World::new();
    world.write("home/.pi/agent/auth.json", r#"{"groq": {"type": "api_key", "key": "the-persons"}}"#);
    let file =
        world.write("project/groq.ts", PROVIDER.replace("\"acme\"", "\"groq\"").replace("BASE", "http://127.0.0.1:9"));
    let args = ["--no-extensions", "-e", file.to_str().expect("a path")];
    let mut terminal = Terminal::start(world.command(&args));
    terminal.sees("pi  ");
    terminal.answers("/login groq", "API key of Groq");
    terminal.send("\u{1b}");
    terminal.sees_no_more("API key of Groq");
    terminal.say("/quit");
    terminal.ends();
    assert_eq!(stored(&world)["groq"]["key"], "the-persons");
}

#[test]
fn a_session_with_a_log_in_is_replayed() {
    let world = World::new();
    let tape = world.path().join("login.tape");
    let tape = tape.to_str().expect("a path");
    let mut terminal = Terminal::start(world.command(&["--no-extensions", "--tape", tape]));
    terminal.sees("pi  no model");
    terminal.answers("/login groq", "API key of Groq");
    terminal.presses("gsk-of-a-person", "***************");
    terminal.presses("\r", "the key of Groq was stored in auth.json");
    terminal.sees("pi  groq/");
    terminal.answers("!echo of the shell", "of the shell");
    terminal.answers("/logout groq", "Groq was removed from auth.json");
    terminal.say("/quit");
    assert_eq!(terminal.ends().0, 0);
    let replayed = world.pi(&["replay", tape, "--json"]);
    let outcome: Value = serde_json::from_str(&replayed.succeeded().stdout).expect("JSON");
    assert_eq!((&outcome["equal"], &outcome["agent"]["stopped_at"]), (&json!(true), &Value::Null), "{outcome:#}");
    // The entries contain the model that the login selected, and the shell command.
    assert!(outcome["agent"]["entries"].as_u64() >= Some(2), "{outcome:#}");
}
