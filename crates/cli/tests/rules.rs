//! Streamed rules as a user meets them: files, `pi rules ...`, and a session that a rule stops.

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
    assert!(run.stderr.contains("`ttsr.enabled` cannot be \"yes\""), "{}", run.stderr);
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
    let lint = pi(&world, &["rules", "lint"]);
    assert_eq!(lint.code, 1, "{}", lint.stdout);
    assert!(lint.stdout.contains("2 | condition: '(['"), "{}", lint.stdout);
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
    assert!(said.contains("Rules are off here"), "{said}");
    let scanned = pi(&world, &["rules", "scan", "--fail"]);
    assert_eq!(scanned.code, 1);
    assert!(scanned.stdout.contains("no-todo would stop it after"), "{}", scanned.stdout);
    assert!(scanned.stdout.contains("2 replies in 2 sessions: 1 matches"), "{}", scanned.stdout);
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
        "go       active",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
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
fn a_changed_file_counts_from_the_next_turn_on() {
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
