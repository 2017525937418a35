//! Tests error messages: each fits on one screen, has a code, and names the cause and the next step.

mod support;

use support::{ModelServer, Reply, World};

fn with_extension(world: &World, source: &str) -> support::Run {
    let model = world.script(&[&["hi"]]);
    let path = world.write("project/ext.ts", source).display().to_string();
    world.pi(&["-p", "x", "--model", &model, "-e", &path])
}

#[test]
fn a_prompt_without_a_model_names_the_choices() {
    let world = World::new();
    world.pi(&["-p", "x"]).failed(2, &["--model", "script:", "openai/", "anthropic/"]);
    world.pi(&["-p", "x", "--model", "nobody"]).failed(2, &["nobody", "script:"]);
    world.pi(&["hello"]).failed(2, &["--model"]);
}

#[test]
fn an_extension_that_cannot_be_loaded_is_named_with_the_remedy() {
    let world = World::new();
    let model = world.script(&[&["hi"]]);
    let broken = world.write("project/syntax.ts", "export default () => {\n  const = 1;\n};\n").display().to_string();
    let run = world.pi(&["-p", "x", "--model", &model, "-e", "./syntax.ts"]);
    run.failed(1, &[&format!("error: {broken}: it does not build"), "syntax.ts:2"]);
    world.write("project/mine/package.json", r#"{"name":"mine","version":"1.0.0","pi":{"extensions":["./a.ts"]}}"#);
    world.write("project/mine/a.ts", "import ms from 'no-such-ms';\nexport default () => console.log(ms);\n");
    world.pi(&["-p", "x", "--model", &model, "-e", "./mine"]).failed(
        1,
        &["Cannot find module 'no-such-ms'", "add no-such-ms to `dependencies`", "npm install", "pi install"],
    );
}

#[test]
fn an_unknown_flag_is_refused_by_name() {
    let world = World::new();
    let model = world.script(&[&["hi"]]);
    world.pi(&["-p", "x", "--model", &model, "--nonsense"]).failed(2, &["--nonsense"]);
    world.pi(&["-p", "x", "--modle", &model]).failed(2, &["--modle", "did you mean --model or --mode?"]);
    let run = world.pi(&["-p", "x", "--tools", "rea,nothing", "--model", &model]);
    run.succeeded();
    assert!(run.stderr.contains("no tool is called rea; did you mean read?"), "{}", run.stderr);
    assert!(run.stderr.contains("no tool is called nothing; there are read, "), "{}", run.stderr);
}

#[test]
fn a_misspelt_command_is_not_sent_as_a_prompt() {
    let world = World::new();
    world.pi(&["instal", "./x"]).failed(2, &["instal", "did you mean: pi install?"]);
    world.pi(&["lst"]).failed(2, &["lst", "did you mean: pi list?"]);
    world.pi(&["rm", "x"]).failed(2, &["rm", "did you mean: pi remove?"]);
    world.pi(&["uninstall", "x"]).failed(1, &["x"]);
    world.pi(&["ext", "grants", "alow", "x", "exec"]).failed(2, &["alow", "did you mean: pi ext grants allow?"]);
    world
        .write("project/mine/package.json", r#"{"name":"scheduler","version":"1.0.0","pi":{"extensions":["./a.ts"]}}"#);
    world.write("project/mine/a.ts", "export default () => {};\n");
    world.pi(&["install", "./mine"]).succeeded();
    world.pi(&["ext", "grants", "allow", "schedulr", "exec"]).failed(1, &["schedulr", "did you mean scheduler?"]);
    let nothing = world.pi(&["install"]);
    assert!(nothing.succeeded().stderr.contains("the one package is in place"), "{}", nothing.stderr);
    world.pi(&["-p", "x", "--model", "gpt5"]).failed(2, &["gpt5", "did you mean ", "/gpt-5"]);
}

#[test]
fn repeated_reports_are_printed_once_with_a_count() {
    let world = World::new();
    let model = world.script(&[&["a", "b", "c", "d"]]);
    let source = "export default (pi: any) => {
      pi.on('message_update', () => { throw new Error('the same each time'); });
      pi.on('message_update', () => console.error('so is this'));
      pi.on('message_update', () => console.log('output'));
    };";
    let path = world.write("project/ext.ts", source).display().to_string();
    let run = world.pi(&["-p", "x", "--model", &model, "-e", &path]);
    let count = |words: &str| run.stderr.matches(words).count();
    assert_eq!((count("the same each time"), count("so is this")), (2, 2), "{}", run.succeeded().stderr);
    assert_eq!(count("more times"), 2, "{}", run.stderr);
    assert!(count("output") > 3, "what it prints for people is no report: {}", run.stderr);
}

#[test]
fn a_missing_extension_is_named() {
    let world = World::new();
    let model = world.script(&[&["hi"]]);
    world.pi(&["-p", "x", "--model", &model, "-e", "./nowhere.ts"]).failed(1, &["nowhere.ts", "does not exist"]);
}

#[test]
fn a_syntax_error_shows_the_place() {
    let world = World::new();
    with_extension(&world, "export default function (pi) {\n  const x = ;\n}\n")
        .failed(1, &["ext.ts", "const x = ;", "BD_SYNTAX"]);
}

#[test]
fn an_import_that_cannot_be_resolved_shows_the_place() {
    let world = World::new();
    with_extension(&world, "import { a } from './missing';\nexport default () => a;\n")
        .failed(1, &["ext.ts", "./missing", "BD_RESOLVE"]);
}

#[test]
fn a_factory_that_throws_is_reported_with_its_typescript_position() {
    let world = World::new();
    with_extension(
        &world,
        "interface A { b: string }\n\nexport default function (pi: unknown) {\n  const a: A = { b: 'x' };\n  throw new Error('no luck ' + a.b);\n}\n",
    )
    .failed(1, &["no luck x", "ext.ts:5"]);
}

#[test]
fn a_default_export_must_be_a_function() {
    let world = World::new();
    with_extension(&world, "export default { name: 'x' };\n")
        .failed(1, &["ext.ts", "does not export a valid factory function"]);
    with_extension(&world, "export const x = 1;\n").failed(1, &["does not export a valid factory function"]);
}

#[test]
fn an_exhausted_script_says_so() {
    let world = World::new();
    let model = world.raw_script("");
    world.pi(&["-p", "x", "--model", &model]).failed(1, &["model.jsonl"]);
    world.pi(&["-p", "x", "--model", "script:/nowhere/at/all.jsonl"]).failed(1, &["/nowhere/at/all.jsonl"]);
}

#[test]
fn provider_failures_are_told_apart() {
    let world = World::new();
    world.write("home/.pi/agent/settings.json", r#"{"retry":{"enabled":false}}"#);
    let ask = |replies: Vec<Reply>| {
        let server = ModelServer::start(replies);
        let mut command = world.command(&["-p", "x", "--model", "openai/m", "--base-url", &server.url]);
        command.env("OPENAI_API_KEY", "not-for-your-eyes");
        let run = support::run(command);
        assert!(!run.stderr.contains("not-for-your-eyes"));
        run
    };
    let plain = |status, body: &str| vec![Reply::Plain(status, "content-type: application/json\r\n", body.to_owned())];
    ask(plain(401, r#"{"error":{"message":"Incorrect API key"}}"#)).failed(1, &["401", "OPENAI_API_KEY"]);
    ask(plain(404, r#"{"error":{"message":"no such model"}}"#)).failed(1, &["404", "no such model"]);
    ask(vec![Reply::Stream(vec!["data: {not json\n\n".into()])]).failed(1, &["invalid chat completion chunk"]);
    ask(vec![Reply::Stream(vec!["data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hal\"}}]}\n\n".into()])])
        .failed(1, &["ended"]);
}

#[test]
fn a_key_that_is_missing_is_named() {
    let world = World::new();
    world.pi(&["-p", "x", "--model", "anthropic/m"]).failed(1, &["ANTHROPIC_API_KEY"]);
}

#[test]
fn install_refuses_what_it_cannot_use_and_changes_nothing() {
    let world = World::new();
    world.pi(&["install", "./nowhere"]).failed(1, &["nowhere"]);
    world.write("project/empty/package.json", r#"{"name":"empty","version":"1.0.0"}"#);
    world.pi(&["install", "./empty"]).failed(1, &["empty", "IN_MANIFEST"]);
    world.pi(&["install", "npm:thing", "--registry", "http://127.0.0.1:9"]).failed(1, &["127.0.0.1:9"]);
    let list = world.pi(&["list", "--json"]);
    assert_eq!(list.succeeded().stdout.trim(), "[]");
}

#[test]
fn help_teaches() {
    let world = World::new();
    let help = world.pi(&["--help"]);
    for word in ["install", "demo", "--model", "script:", "Exit codes"] {
        assert!(help.succeeded().stdout.contains(word), "{word} is missing in:\n{}", help.stdout);
    }
}

#[test]
fn a_home_that_cannot_be_written_is_no_riddle() {
    let world = World::new();
    // Uses a file as the folder, because root can write to every folder, but nothing can be created below a file.
    world.write("file", "");
    let home = world.path().join("file/home");
    let model = world.script(&[&["hi"]]);
    let run = |args: &[&str]| {
        let mut command = world.command(args);
        command.env("HOME", &home).env_remove("XDG_CACHE_HOME");
        support::run(command)
    };
    run(&["-p", "x", "--model", &model]).failed(1, &["session", "file/home", "--no-session"]);
    let answered = run(&["-p", "x", "--model", &model, "--no-session", "-e", &support::pi_ttsr()]);
    assert_eq!(answered.succeeded().stdout, "hi\n");
    assert!(answered.stderr.contains("cache"), "{}", answered.stderr);
    run(&["install", &support::pi_ttsr()]).failed(1, &["file/home"]);
}

#[test]
fn a_tool_name_conflict_is_reported_once() {
    let world = World::new();
    let tool = r#"export default (pi: any) => pi.registerTool({ name: "dup", label: "dup", description: "d", parameters: { type: "object", properties: {} }, execute: async () => ({ content: [] }) });"#;
    let (one, two) = (world.write("project/one.ts", tool), world.write("project/two.ts", tool));
    let (one, two) = (one.to_str().expect("a path"), two.to_str().expect("a path"));
    let model = world.script(&[&["x"]]);
    for mode in [&["-p", "hi"][..], &["--mode", "json", "hi"][..], &["--mode", "rpc"][..]] {
        let mut args = vec!["-e", one, "-e", two, "--model", &model];
        args.extend(mode);
        let stderr = world.pi(&args).succeeded().stderr.clone();
        assert_eq!(stderr.matches("Tool \"dup\" conflicts with").count(), 1, "{mode:?}:\n{stderr}");
    }
}

#[test]
fn an_installed_extension_that_cannot_be_loaded_is_reported_and_the_session_goes_on() {
    let world = World::new();
    let model = world.script(&[&["hi"]]);
    let folder = "home/.pi/agent/extensions";
    world.write(&format!("{folder}/bad.ts"), "export default () => { throw new Error('no luck'); };\n");
    world.write(
        &format!("{folder}/good.ts"),
        "export default (pi: any) => pi.on('session_start', () => console.log('good is here'));\n",
    );
    for mode in [&["-p", "x"][..], &["--mode", "json", "x"][..], &["--mode", "rpc"][..]] {
        let mut args = vec!["--model", &model];
        args.extend(mode);
        let run = world.pi(&args);
        run.succeeded();
        let reported = match mode.contains(&"rpc") {
            false => run.stderr.clone(),
            true => {
                let records = run.events_of("extension_error");
                assert_eq!(records[0]["event"], "load", "{records:?}");
                records[0]["error"].to_string()
            }
        };
        assert!(reported.contains("no luck") && reported.contains("bad.ts"), "{mode:?}: {reported}");
        assert!(run.stderr.contains("good is here"), "{mode:?}: {}", run.stderr);

        args.push("--fail-on-extension-error");
        let run = world.pi(&args);
        run.failed(1, &["no luck", "bad.ts"]);
        assert!(!run.stderr.contains("good is here"));
    }
    // An extension that is named for this run must load.
    let bad = world.path().join(folder).join("bad.ts").display().to_string();
    world.pi(&["-p", "x", "--model", &model, "-e", &bad]).failed(1, &["no luck", "bad.ts"]);
    world.pi(&["-p", "x", "--model", &model, "--no-extensions"]).succeeded();
}

#[test]
fn one_bad_entry_of_a_package_does_not_disable_the_others() {
    let world = World::new();
    let model = world.script(&[&["hi"]]);
    let folder = "home/.pi/agent/extensions/several";
    world.write(&format!("{folder}/package.json"), r#"{"pi":{"extensions":["./a.ts","./b.ts","./c.ts"]}}"#);
    for (name, code) in [("a", "throw new Error('no a')"), ("b", "console.log('b is here')"), ("c", "throw 'no c'")] {
        world.write(&format!("{folder}/{name}.ts"), format!("export default () => {{ {code}; }};\n"));
    }
    let run = world.pi(&["-p", "x", "--model", &model]);
    run.succeeded();
    for words in ["no a", "b is here", "no c"] {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
}

#[test]
fn a_folder_with_a_broken_manifest_does_not_disable_its_neighbours() {
    let world = World::new();
    let model = world.script(&[&["hi"]]);
    let folder = "home/.pi/agent/extensions";
    world.write(&format!("{folder}/a.ts"), "export default () => console.log('a is here');\n");
    world.write(&format!("{folder}/z/index.ts"), "export default () => console.log('z is here');\n");
    world.write(&format!("{folder}/m/index.ts"), "export default () => {};\n");
    world.write(&format!("{folder}/m/package.json"), "{\"pi\": ");
    let run = world.pi(&["-p", "x", "--model", &model]);
    run.succeeded();
    for words in ["IN_MANIFEST", "a is here", "z is here"] {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
    // A broken manifest in the parent folder does not affect extensions in their own folders.
    world.write(&format!("{folder}/package.json"), "{\"pi\": ");
    let run = world.pi(&["-p", "x", "--model", &model]);
    assert!(run.succeeded().stderr.contains("z is here"), "{}", run.stderr);
}

#[test]
fn a_grant_on_the_command_line_that_cannot_be_read_ends_the_run() {
    let world = World::new();
    let model = world.script(&[&["hi"]]);
    world.write("home/.pi/agent/extensions/good.ts", "export default () => {};\n");
    world.pi(&["-p", "x", "--model", &model, "--allow", "http:ex*mple.org"]).failed(2, &["ex*mple.org"]);
}
