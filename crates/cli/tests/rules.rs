//! Tests streamed rules through the command: files, `pi rules ...`, and a session with a reply that a rule stops.

mod support;

use serde_json::{Value, json};
use support::{Run, World};

const NO_TODO: &str =
    "---\ndescription: no notes\ncondition: '\\bTODO\\b'\ninterruptMode: always\n---\nFinish the work.\n";

fn with_rule(text: &str) -> World {
    let world = World::new();
    world.write("home/.pi/rules/no-todo.md", text);
    world
}

fn pi(world: &World, args: &[&str]) -> Run {
    world.pi(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
}

fn ask(world: &World, replies: &[&[&str]], more: &[&str]) -> Run {
    let model = world.script(replies);
    let mut args = vec!["-p", "x", "--mode", "json", "--model", &model];
    args.extend(more);
    pi(world, &args)
}

fn fired(run: &Run) -> Vec<Value> {
    run.events_of("rule_fired").iter().map(|event| event["rule"].clone()).collect()
}

#[test]
fn rules_are_off_until_they_are_turned_on() {
    let world = with_rule(NO_TODO);
    let replies: &[&[&str]] = &[&["a TO", "DO b"], &["done"]];
    assert!(fired(&ask(&world, replies, &[])).is_empty());
    assert_eq!(fired(&ask(&world, replies, &["--rules"])), ["no-todo"]);
    world.write("home/.pi/agent/settings.json", json!({"ttsr": {"enabled": true}}).to_string());
    assert_eq!(fired(&ask(&world, replies, &[])), ["no-todo"]);
    assert!(fired(&ask(&world, replies, &["--no-rules"])).is_empty());
    world.write("home/.pi/agent/settings.json", json!({"ttsr": {"enabled": "yes"}}).to_string());
    let run = ask(&world, replies, &[]);
    assert!(run.stderr.contains("agent/settings.json: `ttsr.enabled` cannot be \"yes\""), "{}", run.stderr);
    assert!(run.stderr.contains("write \"enabled\": true or \"enabled\": false"), "{}", run.stderr);
}

#[test]
fn the_rules_option_may_come_first() {
    let world = with_rule(NO_TODO);
    let model = world.script(&[&["a TODO b"], &["done"]]);
    let run = pi(&world, &["--rules", "-p", "x", "--mode", "json", "--model", &model]);
    assert_eq!(fired(run.succeeded()), ["no-todo"]);
}

#[test]
fn a_project_has_rules_once_it_is_trusted() {
    let world = World::new();
    world.write("project/.pi/rules/no-todo.md", NO_TODO);
    let replies: &[&[&str]] = &[&["a TODO b"], &["done"]];
    let run = ask(&world, replies, &["--rules"]);
    assert!(fired(&run).is_empty());
    assert!(run.stderr.contains("`pi trust`"), "{}", run.stderr);
    assert_eq!(fired(&ask(&world, replies, &["--rules", "--approve"])), ["no-todo"]);
}

#[test]
fn a_mistake_in_a_file_is_a_warning_and_the_other_rules_run() {
    let world = with_rule(NO_TODO);
    world.write("home/.pi/rules/broken.md", "---\ncondition: '(['\n---\ntext\n");
    let run = ask(&world, &[&["a TODO b"], &["done"]], &["--rules"]);
    assert_eq!(fired(run.succeeded()), ["no-todo"]);
    assert!(run.stderr.contains("broken.md:2:"), "{}", run.stderr);
    assert_eq!(run.stderr.matches("warning: ").count(), 1, "{}", run.stderr);
    let lint = pi(&world, &["rules", "lint"]);
    assert_eq!(lint.code, 1, "{}", lint.stdout);
    let missing = pi(&world, &["rules", "lint", "nosuch.md"]);
    assert!(missing.stderr.contains("give pi rules lint a rule file"), "{}", missing.stderr);
    assert!(lint.stdout.contains("2 | condition: '(['"), "{}", lint.stdout);
}

#[test]
fn each_file_with_an_error_is_one_line_of_a_session_a_list_and_a_lint() {
    let world = with_rule(NO_TODO);
    world.write("home/.pi/rules/misspelt.md", "---\ndescription: no any\ncondtion: ':\\s*any\\b'\n---\ntext\n");
    world.write("home/.pi/rules/none.md", "---\nscope: text\n---\ntext\n");
    world.write("home/.pi/rules/two.md", "---\ncondition: x\ninterruptMode: allways\nwhere: cdoe\n---\ntext\n");
    world.write("home/.pi/rules/yaml.md", "---\ncondition: x\n  - y\nscope: [text\n---\ntext\n");
    let run = ask(&world, &[&["done"]], &["--rules"]);
    let warnings: Vec<&str> = run.succeeded().stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 4, "{}", run.stderr);
    for (warning, parts) in warnings.iter().zip([
        &["misspelt.md:3:1", "unknown key `condtion`, so the rule has no condition", "did you mean `condition`?"][..],
        &["none.md:1:1", "the rule is never used: it has no condition", "add `condition: 'PATTERN'`"],
        &["two.md:3:16", "`interruptMode` cannot be `allways`", "did you mean `always`?", "1 more error in this file"],
        &["1 more rule file with errors"],
    ]) {
        let is_complete = parts.iter().all(|part| warning.contains(part)) && warning.ends_with(": pi rules lint");
        assert!(is_complete, "{warning}");
    }
    let listed = pi(&world, &["rules", "list"]);
    let said = &listed.succeeded().stdout;
    for part in [
        "4 files have errors: pi rules lint",
        "two       active    stops text, reminds on tools; error in its file: `interruptMode` cannot be `allways` and 1 more error",
        "misspelt  rulebook  it has no condition; error in its file: unknown key `condtion`",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let lint = pi(&world, &["rules", "lint", "--json"]);
    let found: Value = serde_json::from_str(&lint.stdout).expect("JSON");
    let errors = found["findings"].as_array().expect("a list").iter().filter(|found| found["severity"] == "error");
    let files: std::collections::BTreeSet<&str> = errors.filter_map(|found| found["path"].as_str()).collect();
    assert_eq!(files.len(), 4, "{files:?}");
}

#[test]
fn a_rule_with_a_mistake_is_explained_without_a_session() {
    let world = with_rule(NO_TODO);
    world.write("home/.pi/rules/misspelt.md", "---\ncondtion: x\n---\ntext\n");
    world.write("home/.pi/rules/empty.md", "---\ncondition: x\n---\n");
    world.write("home/.pi/rules/off.md", "---\nenabled: false\ncondition: x\n---\ntext\n");
    world.write("home/.pi/rules/advice.md", "---\ndescription: only advice\n---\ntext\n");
    for (name, part) in [
        ("misspelt", "misspelt.md:2:1: unknown key `condtion`"),
        ("empty", "empty.md:3:3: the rule has no text"),
        ("off", "off.md says `enabled: false`"),
        ("advice", "the rule advice does not read replies: it has no condition"),
        ("no-todo", "there is no session of this folder"),
    ] {
        let explained = pi(&world, &["rules", "explain", name]);
        assert_eq!(explained.code, 1, "{name}: {}", explained.stdout);
        assert!(explained.stderr.contains(part), "{name}: {}", explained.stderr);
    }
    let listed = pi(&world, &["rules", "list"]);
    assert!(listed.succeeded().stdout.contains("empty     unusable  the rule has no text"), "{}", listed.stdout);
    world.write("project/past.jsonl", "");
    pi(&world, &["rules", "explain", "no-todo", "past.json"])
        .failed(1, &["No such file", "did you mean ", "past.jsonl?"]);
}

#[test]
fn the_example_leads_to_a_stopped_reply() {
    let world = World::new();
    let init = pi(&world, &["rules", "init", "--user"]);
    assert!(init.succeeded().stdout.contains("no-filler-text.md"), "{}", init.stdout);
    let again = pi(&world, &["rules", "init", "--user"]);
    assert!(again.stderr.contains("exists already"), "{}", again.stderr);
    let text = world.write("project/page.md", "Title\n\nLorem ipsum dolor.\n").display().to_string();
    let hit = pi(&world, &["rules", "test", &text, "--fail"]);
    assert_eq!(hit.code, 1, "{}", hit.stdout);
    assert!(hit.stdout.contains("no-filler-text: stops the reply at line 3"), "{}", hit.stdout);
    assert!(pi(&world, &["rules", "lint"]).succeeded().stdout.contains("0 errors, 0 warnings"));
    let run = ask(&world, &[&["Lorem ", "ipsum dolor"], &["words"]], &["--rules"]);
    assert_eq!(fired(&run), ["no-filler-text"]);
}

#[test]
fn past_sessions_are_counted_explained_and_scanned() {
    let world = with_rule(NO_TODO);
    ask(&world, &[&["a TODO b"], &["done"]], &["--rules"]).succeeded();
    ask(&world, &[&["another TODO", " c"]], &[]).succeeded();
    let stats: Value =
        serde_json::from_str(&pi(&world, &["rules", "stats", "--json"]).succeeded().stdout).expect("JSON");
    assert_eq!(stats["ledger"]["rules"]["no-todo"]["interrupts"], 1);
    assert_eq!(stats["ledger"]["tokensBurned"], 2);
    let explained = pi(&world, &["rules", "explain", "no-todo"]);
    let said = &explained.succeeded().stdout;
    assert!(said.contains("reply 1, text, line 1: another TODO\n    condition 1 fires, and stops the reply"), "{said}");
    assert!(said.contains("Rules are off in this folder, except in a run with `pi --rules`"), "{said}");
    let scanned = pi(&world, &["rules", "scan", "--fail"]);
    assert_eq!(scanned.code, 1);
    // Replies are counted per session.
    assert!(scanned.stdout.contains("reply 1, text, line 1: no-todo would stop it after"), "{}", scanned.stdout);
    assert!(scanned.stdout.contains("2 replies in 2 sessions: 1 match"), "{}", scanned.stdout);
}

#[test]
fn a_rule_that_fired_in_the_session_explains_later_matches() {
    let world = with_rule(NO_TODO);
    ask(&world, &[&["a TODO b"], &["done"]], &["--rules"]).succeeded();
    ask(&world, &[&["another TODO"]], &["--rules", "-c"]).succeeded();
    let explained = pi(&world, &["rules", "explain", "no-todo"]);
    let said = &explained.succeeded().stdout;
    assert!(said.contains("before reply 1: stopped the reply"), "{said}");
    assert!(!said.contains("Rules are off"), "the session ran with rules: {said}");
    let later = "reply 2, text, line 1: another TODO\n    condition 1 has no effect: it fires once in a session";
    assert!(said.contains(later), "{said}");
}

#[test]
fn a_reply_past_a_limit_is_explained_as_in_the_session() {
    let text = NO_TODO.replace("---\nFinish", "repeatGap: 0\nmaxRetriesPerTurn: 1\n---\nFinish");
    let world = with_rule(&text);
    ask(&world, &[&["a TODO b"], &["TODO again"]], &["--rules"]).succeeded();
    let explained = pi(&world, &["rules", "explain", "no-todo"]);
    let said = &explained.succeeded().stdout;
    let reminded = "reply 1, text, line 1: TODO\n    condition 1 fires, and only reminds: the rule's limit of 1";
    assert!(said.contains(reminded), "{said}");
    let stats = pi(&world, &["rules", "stats"]);
    assert!(stats.stdout.contains("1 session, 1 reply: 1 stopped, 1 reminder, "), "{}", stats.stdout);
}

#[test]
fn a_file_that_breaks_in_a_session_is_a_warning() {
    let world = with_rule(NO_TODO);
    let path = world.home().join(".pi/rules/no-todo.md").display().to_string();
    let broken = "---\ncondition: '(NOTE'\n---\nFinish.\n";
    let call = json!({"events": [{"tool_call": {"name": "write", "arguments": {"path": path, "content": broken}}}]});
    let lines = [call, json!({"events": [{"text": "a TODO"}]})];
    let model =
        format!("script:{}", world.write("model.jsonl", lines.map(|line| line.to_string()).join("\n")).display());
    let run = pi(&world, &["-p", "x", "--model", &model, "--rules"]);
    let warnings: Vec<&str> = run.succeeded().stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 1, "{}", run.stderr);
    assert!(warnings[0].contains("no-todo.md:2:"), "{}", run.stderr);
}

#[test]
fn a_file_that_cannot_be_read_is_named_by_a_list() {
    let world = World::new();
    world.write("home/.pi/rules/empty.md", "");
    world.write("home/.pi/rules/latin1.md", b"---\ncondition: \xe9\n---\ntext\n");
    let listed = pi(&world, &["rules", "list"]);
    let said = &listed.succeeded().stdout;
    assert!(said.contains("2 files have errors: pi rules lint") && !said.contains("no rule file"), "{said}");
    let json: Value = serde_json::from_str(&pi(&world, &["rules", "list", "--json"]).succeeded().stdout).expect("JSON");
    let problems = json["problems"].to_string();
    assert!(problems.contains("empty.md:1:1") && problems.contains("latin1.md:2:12"), "{problems}");
}

#[test]
fn show_prints_all_settings_of_a_rule() {
    let world = with_rule(NO_TODO);
    let rule = "---\ncondition: ['x', '(']\nwhere: code\nsettle: word\ncooldown: 5\nmaxFirings: 2\n---\na\u{1b}[2Jb\n";
    world.write("home/.pi/rules/all.md", rule);
    world.write("home/.pi/rules/advice.md", "---\ndescription: only advice\n---\ntext\n");
    let shown = pi(&world, &["rules", "show", "all"]);
    let said = &shown.succeeded().stdout;
    for part in [
        "/(/ (is not a regular expression: ",
        "stops text, reminds on tools",
        "where             code",
        "settle            word",
        "contextMode       discard (the setting)",
        "repeat            after 5 seconds",
        "maxFirings        2",
        "maxRetriesPerTurn 3 (the setting)",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains('\u{1b}'), "{said}");
    let advice = pi(&world, &["rules", "show", "advice"]);
    assert!(!advice.succeeded().stdout.contains("fires"), "{}", advice.stdout);
}

#[test]
fn a_test_without_a_hit_explains_ignored_matches() {
    let world = with_rule(NO_TODO);
    let rule = "---\ncondition: TODO\nscope: tool:write(*.ts)\n---\ntext\n";
    world.write("home/.pi/rules/typed.md", rule);
    let text = world.write("project/a.txt", "a TODO").display().to_string();
    let try_it = |args: &[&str]| pi(&world, &[&["rules", "test", &text][..], args].concat()).succeeded().stdout.clone();
    let thinking = try_it(&["--as", "thinking", "-o", "no-todo"]);
    assert!(thinking.contains("no rule fires (1 active;"), "{thinking}");
    assert!(thinking.contains("no-todo: its match at line 1, column 7 has no effect: its scope"), "{thinking}");
    assert!(thinking.contains("try --as text, or --as tool"), "{thinking}");
    let text_only = try_it(&["-o", "typed"]);
    assert!(text_only.contains("try --as tool --tool write --path FILE"), "{text_only}");
    let other = try_it(&["--as", "tool", "-o", "typed"]);
    assert!(other.contains("has no effect: no glob matches "), "{other}");
    for name in ["b", "c", "d"] {
        world.write(&format!("home/.pi/rules/{name}.md"), NO_TODO);
    }
    let many = world.write("project/b.txt", "TODO").display().to_string();
    let many = pi(&world, &["rules", "test", &many, "--fail"]);
    assert!(many.stderr.contains("4 rules fired"), "{}", many.stderr);
    let apart = "---\ncondition: 'x'\ninterruptMode: always\nrepeatGap: 0\nmaxRetriesPerTurn: 0\n---\ntext\n";
    world.write("home/.pi/rules/apart.md", apart);
    let text = world.write("project/c.txt", "x").display().to_string();
    let degraded = pi(&world, &["rules", "test", &text]);
    assert!(
        degraded.stdout.contains("apart: reminds at line 1, column 2 (the rule's limit of 0"),
        "{}",
        degraded.stdout
    );
}

#[cfg(unix)]
#[test]
fn files_that_are_no_sessions_do_not_keep_the_others_from_being_read() {
    let world = World::new();
    let fired = |tokens: u64| {
        let site =
            json!({"pattern": {"kind": "regex", "index": 0}, "offset": 1, "line": 1, "column": 1, "excerpt": "x"});
        let rule = json!({"name": "a\u{1b}[31m\nb", "content": "x", "interrupts": true, "site": site});
        let details = json!({"extension": "rule:a", "rules": [rule], "tokensBurned": tokens});
        json!({"type": "custom_message", "customType": "stream_verdict", "details": details}).to_string()
    };
    world.write("sessions/a.jsonl", [fired(u64::MAX).as_bytes(), b"\n\xff\xfe not UTF-8\n"].concat());
    world.write("sessions/b.jsonl", fired(u64::MAX));
    let folder = world.write("sessions/c.txt", "").parent().expect("a folder").display().to_string();
    let pipe = std::process::Command::new("mkfifo").arg(format!("{folder}/pipe.jsonl")).status();
    assert!(pipe.expect("mkfifo runs").success());
    let stats = pi(&world, &["rules", "stats", &folder]);
    let said = &stats.succeeded().stdout;
    assert!(said.contains(&format!("2 sessions, 0 replies: 2 stopped, 0 reminders, {} tokens", u64::MAX)), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
    assert!(stats.stderr.contains("1 line skipped: not JSON"), "{}", stats.stderr);
}

#[test]
fn a_list_says_why_a_rule_is_not_active() {
    let world = with_rule(NO_TODO);
    world.write("home/.pi/rules/advice.md", "---\ndescription: only advice\n---\ntext\n");
    world.write("home/.pi/rules/off.md", "---\nenabled: false\ncondition: x\n---\ntext\n");
    world.write("home/.cursor/rules/go.mdc", "---\ndescription: go\nglobs: *.go\ncondition: panic\n---\ntext\n");
    let listed = pi(&world, &["rules", "list", "--rules-from", "cursor"]);
    let said = &listed.succeeded().stdout;
    for part in [
        "no-todo  active    stops the reply",
        "advice   rulebook  it has no condition",
        "off      off ",
        "go       active    only reminds",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let world = World::new();
    world.write("home/.pi/rules/off.md", "---\nenabled: false\ncondition: x\n---\ntext\n");
    let off = pi(&world, &["rules", "list"]);
    assert!(!off.succeeded().stdout.contains("no rule file"), "{}", off.stdout);
    let world = with_rule(NO_TODO);
    let shown = pi(&world, &["rules", "show", "no-tood"]);
    assert!(shown.stderr.contains("did you mean \"no-todo\"?"), "{}", shown.stderr);
}

#[test]
fn cases_are_answered_by_delta() {
    let world = with_rule(NO_TODO);
    let cases = json!([
        {"id": "a", "source": "text", "deltas": ["so ", "TO", "DO"]},
        {"id": "b", "source": "tool", "tool": "bash", "deltas": ["{\"command\":\"ec", "ho TODO\"", "}"]},
        {"id": "c", "source": "text", "deltas": ["TODO"], "settings": {"enabled": false}},
        {"id": "d", "turns": [{"source": "text", "deltas": ["TODO"]}, {"source": "text", "deltas": ["TODO"]}]},
    ]);
    let cases = world.write("cases.json", cases.to_string()).display().to_string();
    let answered = pi(&world, &["rules", "test", "--cases", &cases, "--json"]);
    let rows: Vec<Value> =
        answered.succeeded().stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rows[0], json!({"id": "a", "first": {"no-todo": 2}}));
    assert_eq!(rows[1], json!({"id": "b", "first": {"no-todo": 1}}));
    assert_eq!(rows[2], json!({"id": "c", "first": {}}));
    assert_eq!(rows[3], json!({"id": "d", "turns": [{"first": {"no-todo": 0}}, {"first": {}}]}));
}

#[test]
fn a_changed_rule_file_applies_from_the_next_turn() {
    let world = with_rule(NO_TODO);
    // The first turn's tool writes the rule that the second turn breaks.
    let rule = "---\ncondition: LATER\ninterruptMode: always\n---\nNot later.\n";
    let path = world.home().join(".pi/rules/later.md").display().to_string();
    let call = json!({"events": [{"tool_call": {"name": "write", "arguments": {"path": path, "content": rule}}}]});
    let lines = [call, json!({"events": [{"text": "see you LATER"}]}), json!({"events": [{"text": "now"}]})];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let model = format!("script:{}", world.write("model.jsonl", lines.join("\n")).display());
    let run = pi(&world, &["-p", "x", "--mode", "json", "--model", &model, "--rules"]);
    assert_eq!(fired(run.succeeded()), ["later"], "{}", run.stdout);
}

#[test]
fn an_extension_cannot_say_that_a_rule_has_fired() {
    let world = with_rule(NO_TODO);
    let forge = r#"export default (pi: any) => pi.on("agent_start", () => {
      try { pi.appendEntry("pijs.rule_fired", { ruleRecords: [{ name: "no-todo", turn: 0 }] }); }
      catch (error: any) { console.log("refused: " + error.message); }
    });"#;
    let extension = world.write("project/forge.ts", forge).display().to_string();
    let first = ask(&world, &[&["hello"]], &["--rules", "-e", &extension]);
    assert!(first.succeeded().stderr.contains("refused: "), "{}", first.stderr);
    assert_eq!(fired(&ask(&world, &[&["a TODO b"], &["done"]], &["--rules", "-c"])), ["no-todo"]);
}

#[test]
fn a_condition_that_was_given_up_is_reported_by_every_command_that_runs_it() {
    let world = with_rule("---\ncondition: '(a*)*\\1(?<=c\\1)b'\n---\nFinish the work.\n");
    let reply = format!("{}b", "a".repeat(64));
    ask(&world, &[&[&reply]], &[]).succeeded();
    ask(&world, &[&[&reply]], &[]).succeeded();
    let warning = "it backtracks too much on this text, and is not tested on the rest";
    let scanned = pi(&world, &["rules", "scan"]);
    let said = &scanned.succeeded().stderr;
    assert!(said.contains("(and in 1 session more)") && said.contains(warning), "{said}");
    let failed = pi(&world, &["rules", "scan", "--fail"]);
    failed.failed(1, &["1 condition could not be tested to the end", "rewrite the conditions"]);
    assert!(!pi(&world, &["rules", "scan", "--json"]).succeeded().stdout.contains(r#""reports":[]"#));
    let explained = pi(&world, &["rules", "explain", "no-todo"]);
    assert!(explained.succeeded().stderr.contains(warning), "{}", explained.stderr);
    assert!(explained.stdout.contains("A condition was not tested on all of it"), "{}", explained.stdout);
    let text = world.write("project/reply.txt", &reply).display().to_string();
    pi(&world, &["rules", "test", &text, "--fail"]).failed(1, &[warning, "1 condition could not be tested to the end"]);
}

#[test]
fn an_option_for_rules_without_a_rule_file_names_the_folders() {
    let world = World::new();
    let replies: &[&[&str]] = &[&["hello"]];
    let run = ask(&world, replies, &["--rules"]);
    let (project, home) = (world.project().canonicalize().expect("a path"), world.home());
    let folders = format!("in {}/.pi/rules, {}/.pi/rules; `pi rules init`", project.display(), home.display());
    assert!(run.succeeded().stderr.contains(&folders), "{}", run.stderr);
    for command in ["list", "lint"] {
        let run = pi(&world, &["rules", command]);
        assert!(run.succeeded().stdout.contains(&folders), "{}", run.stdout);
    }
    let run = ask(&world, replies, &["--rules-from", "omp"]);
    assert!(run.succeeded().stderr.contains("/.omp/agent/rules; `pi rules init`"), "{}", run.stderr);
    let quiet = |world: &World, args: &[&str]| {
        let run = ask(world, replies, args);
        assert!(!run.succeeded().stderr.contains("no rule file"), "{}", run.stderr);
    };
    quiet(&world, &["--rules", "--rules-from", "built-in"]);
    quiet(&world, &["--rules", "--no-rules"]);
    // A user who enabled rules for all folders gets no notice in a folder without rules.
    world.write("home/.pi/agent/settings.json", json!({"ttsr": {"enabled": true}}).to_string());
    quiet(&world, &[]);
    quiet(&with_rule("---\nenabled: false\ncondition: x\n---\ntext\n"), &["--rules"]);
}

#[test]
fn a_text_for_every_prompt_stands_beside_the_appended_file_and_follows_its_file() {
    let world = with_rule("---\nalwaysApply: true\n---\nAlways be brief.\n");
    world.write("home/.pi/agent/APPEND_SYSTEM.md", "the user's end");
    let path = world.home().join(".pi/rules/no-todo.md").display().to_string();
    let changed = "---\nalwaysApply: true\n---\nAlways be long.\n";
    let record = r#"export default (pi: any) => {
      pi.on("before_agent_start", (event: any) => console.log("appended: " + JSON.stringify(event.systemPromptOptions.appendSystemPrompt)));
    };"#;
    let extension = world.write("project/record.ts", record).display().to_string();
    let call = json!({"events": [{"tool_call": {"name": "write", "arguments": {"path": path, "content": changed}}}]});
    let lines: Vec<String> = [call, json!({"events": [{"text": "done"}]}), json!({"events": [{"text": "again"}]})]
        .iter()
        .map(Value::to_string)
        .collect();
    let model = world.raw_script(&lines.join("\n"));
    let run = pi(&world, &["-p", "one", "two", "--model", &model, "--rules", "-e", &extension]);
    let said = &run.succeeded().stderr;
    assert!(said.contains(r#"appended: "the user's end\n\nAlways be brief.""#), "{said}");
    assert!(said.contains(r#"appended: "the user's end\n\nAlways be long.""#), "{said}");
}
