//! Tests which prompt texts are used. pi's own texts need pi's package, so `cargo xtask conformance` compares them; in these
//! tests no registry is available.

mod support;

use std::process::Command;
use support::{ModelServer, Reply, World, openai};

/// The source of replies: a server, or a recording.
enum Answers<'a> {
    Server(&'a ModelServer),
    Script,
}

/// Returns a command that runs a prompt and prints the system prompt as extensions see it.
fn asking(world: &World, answers: &Answers, words: Option<&str>) -> Command {
    let model: Vec<String> = match answers {
        Answers::Server(server) => {
            ["--model", "openai/m", "--api-key", "k", "--base-url", &server.url].map(str::to_owned).into()
        }
        Answers::Script => vec!["--model".to_owned(), world.script(&[&["hi"]])],
    };
    let extension = world.write(
        "project/ext.ts",
        "export default (pi) => pi.on('before_agent_start', (event, ctx) => {\n\
         \x20 console.error(JSON.stringify([event.systemPrompt, event.systemPrompt === ctx.getSystemPrompt()]));\n\
         });\n",
    );
    world.write("home/.npmrc", "registry=http://127.0.0.1:9/\nfetch-retries=0\n");
    let extension = extension.display().to_string();
    let mut args: Vec<String> = ["-p", "x", "--no-session", "-e", &extension].map(str::to_owned).into();
    args.extend(model);
    let mut command = world.command(&args);
    command.env("XDG_CACHE_HOME", world.path().join("cache"));
    match words {
        Some(words) => command.env("PIJS_WORDS", words),
        None => command.env_remove("PIJS_WORDS"),
    };
    command
}

#[test]
fn without_pis_package_our_own_prompt_texts_are_used() {
    let world = World::new();
    let server = ModelServer::start(vec![Reply::Stream(openai(&["hi"])); 3]);
    let said = support::run(asking(&world, &Answers::Server(&server), None));
    assert_eq!(said.succeeded().stdout, "hi\n");
    assert!(said.stderr.contains("pi's own prompt is not available"), "{}", said.stderr);
    assert!(said.stderr.contains("You are a coding agent."), "{}", said.stderr);
    assert!(said.stderr.contains(",true]"), "{}", said.stderr);
    assert!(!world.home().join(".pi/agent/pi").exists(), "no documentation was had either");

    // A user who disables fetching, or selects PiJS's own texts, gets no notice.
    let mut offline = asking(&world, &Answers::Server(&server), None);
    offline.env("PI_OFFLINE", "1");
    // Nothing is fetched for a recorded reply.
    let recorded = asking(&world, &Answers::Script, None);
    for command in [offline, asking(&world, &Answers::Server(&server), Some("own")), recorded] {
        let said = support::run(command);
        assert_eq!(said.succeeded().stdout, "hi\n");
        assert!(!said.stderr.contains("is not available"), "{}", said.stderr);
        assert!(said.stderr.contains("You are a coding agent."), "{}", said.stderr);
    }
}

#[test]
fn nothing_is_fetched_for_a_session_without_extensions() {
    let world = World::new();
    let server = ModelServer::start(vec![Reply::Stream(openai(&["hi"]))]);
    world.write("home/.npmrc", "registry=http://127.0.0.1:9/\nfetch-retries=0\n");
    let args = ["-p", "x", "--no-session", "--model", "openai/m", "--api-key", "k", "--base-url", &server.url];
    let mut command = world.command(&args);
    command.env("XDG_CACHE_HOME", world.path().join("cache")).env_remove("PIJS_WORDS");
    let said = support::run(command);
    assert_eq!((said.succeeded().stdout.as_str(), said.stderr.as_str()), ("hi\n", ""));
}

#[test]
fn an_unavailable_supplied_package_is_named() {
    let world = World::new();
    let mut command = world.command(&["ext", "supply"]);
    command.env("XDG_CACHE_HOME", world.path().join("cache")).env("PI_OFFLINE", "1");
    let said = support::run(command);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("@earendil-works/pi-agent-core@"), "{}", said.stderr);
    assert!(said.stderr.contains("run `pi ext supply` once"), "{}", said.stderr);
}

#[test]
fn a_started_agent_reads_only_files_that_were_checked() {
    let world = World::new();
    let file = world.write("project/notes.txt", "the notes");
    let session = world.write("project/old.jsonl", "");
    let (file, session) = (file.display().to_string(), session.display().to_string());
    let attached = format!("@{file}");
    let model = world.script(&[&["hi"]]);
    let identity = |kind: &str, path: &str| {
        use std::os::unix::fs::MetadataExt as _;
        let found = std::fs::metadata(path).expect("a file");
        format!("{kind}{}:{}", found.dev(), found.ino())
    };
    let uses: [(&str, &str, &[&str]); 3] = [
        ("r", &file, &[&attached, "x"]),
        ("r", &file, &["--append-system-prompt", &file, "x"]),
        ("w", &session, &["--session", &session, "x"]),
    ];
    for (kind, named, args) in uses {
        let run = |checked: &str| {
            let mut command = world.command(&[&["-p", "--model", &model, "--no-extensions"], args].concat());
            command.env("PIJS_STARTED_WITH", checked).output().expect("it runs")
        };
        assert!(run(&identity(kind, named)).status.success(), "{args:?}");
        let refused = run(&identity(kind, world.path().to_str().expect("a path")));
        assert!(!refused.status.success(), "{args:?}");
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(told.contains("not the file that was checked"), "{told}");
    }
}
