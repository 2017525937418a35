//! Tests pi's own commands and keys for the session, and the rendering of a reply.

use super::pty::Terminal;
use super::{NOTHING, open, open_with};
use crate::support::World;

#[test]
fn a_session_is_forked_gone_back_in_and_resumed() {
    let world = World::new();
    let mut terminal = open(&world, NOTHING, &[&["one back"], &["two back"], &["three back"]], &[]);
    terminal.answers("one", "one back");
    terminal.answers("two", "two back");
    terminal.answers("/name the first", "the session is called the first");
    terminal.answers("/session", "2 prompts, 2 replies");
    // Forking puts the message of that entry into the editor.
    terminal.answers("/fork", "From which prompt?");
    terminal.sees("> two");
    terminal.presses("\r", "this is a new session");
    terminal.sees_no_more("two back");
    terminal.presses(" again\r", "> two again");
    terminal.sees("three back");
    terminal.answers("/resume", "Which session?");
    terminal.presses("the first\r", "two back");
    terminal.sees_no_more("three back");
    terminal.answers("/tree", "Go to which entry?");
    terminal.send("one back\r");
    terminal.sees_no_more("two back");
    terminal.sees("one back");
    // Pressing Escape twice opens the tree as well.
    terminal.presses_twice("\u{1b}", "Go to which entry?");
    terminal.send("\u{1b}");
    terminal.sees_no_more("Go to which entry?");
}

#[test]
fn steps_through_the_tree_are_replayed() {
    let world = World::new();
    let tape = world.path().join("tree.tape");
    let tape = tape.to_str().expect("a path");
    let mut terminal = open(&world, NOTHING, &[&["one back"], &["two back"], &["three back"]], &["--tape", tape]);
    terminal.answers("one", "one back");
    terminal.answers("two", "two back");
    terminal.answers("/tree", "Go to which entry?");
    terminal.send("one back\r");
    terminal.sees_no_more("two back");
    terminal.answers("three", "three back");
    terminal.say("/quit");
    assert_eq!(terminal.ends().0, 0);
    let replayed = world.pi(&["replay", tape]);
    assert!(replayed.succeeded().stdout.contains("3 requests"), "{}", replayed.stdout);
}

#[test]
fn a_session_is_copied_and_written_out() {
    let world = World::new();
    let mut terminal = open(&world, NOTHING, &[&["an **answer**"]], &[]);
    terminal.answers("/copy", "no reply to copy yet");
    terminal.answers("a question", "an answer");
    terminal.answers("/copy", "on the clipboard");
    terminal.answers("/export talk.md", "exported to");
    terminal.answers("/export talk.jsonl", "talk.jsonl");
    terminal.answers("/export talk.md", "cannot write ");
    terminal.answers("/settings", "compact automatically  on");
    terminal.presses("\r", "compact automatically  off");
    terminal.send("\u{1b}");
    terminal.sees_no_more("compact automatically");
    terminal.answers("/model nothing/like-it", "no available model is called nothing/like-it");
    terminal.presses("\u{10}", "only one model is available");
    terminal.presses("\u{c}", "Which model?");
    terminal.presses("\r", "model: script:");
    terminal.say("/quit");
    let (code, bytes) = terminal.ends();
    assert_eq!(code, 0);
    assert!(bytes.contains("\u{1b}]52;c;YW4gKiphbnN3ZXIqKg==\u{7}"), "the clipboard");
    assert!(world.read("project/talk.md").contains("## Assistant\n\nan **answer**"));
    assert!(world.read("project/talk.jsonl").lines().count() > 2);
}

#[test]
fn a_reply_is_shown_as_markdown() {
    let world = World::new();
    let reply = "# Title\n\nsome **bold** and `code`\n\n- item\n\n|a|b|\n|-|-|\n|1|2|\n\n```js\nlet x = 1;\n```\n\u{1b}]0;stolen\u{7}end";
    let mut terminal = open(&world, NOTHING, &[&[reply]], &[]);
    terminal.say("show");
    let rows = terminal.sees("end");
    let row =
        |text: &str| rows.iter().position(|row| row.trim_end() == text).unwrap_or_else(|| panic!("{text}: {rows:#?}"));
    for text in ["Title", "some bold and code", "- item", "│ a │ b │", "  let x = 1;", "```js"] {
        row(text);
    }
    assert!(terminal.is_bold(row("Title"), 0) && terminal.is_bold(row("some bold and code"), 5));
    assert!(!terminal.is_bold(row("some bold and code"), 0));
    terminal.say("/quit");
    assert!(!terminal.ends().1.contains("stolen\u{7}"));
}

const NAMES: &str = r#"
export default function (pi: any) {
  for (const name of ["tools", "model"]) pi.registerCommand(name, { handler: async (_: string, ctx: any) => ctx.ui.notify(`${name} of the extension`) });
}
"#;

const THROWS: &str = r#"
export default function (pi: any) {
  pi.registerCommand("go", { handler: async () => { throw new Error("no such ticket"); } });
}
"#;

#[test]
fn errors_of_commands_are_shown() {
    let world = World::new();
    let mut terminal = open(&world, THROWS, &[&["x"]], &[]);
    terminal.answers("/go", "no such ticket");
    terminal.say("/quit");
    assert_eq!(terminal.ends().0, 0);
}

#[test]
fn only_commands_of_pi_have_precedence_over_extensions() {
    let world = World::new();
    let mut terminal = open(&world, NAMES, &[&["x"]], &[]);
    terminal.answers("/tools", "tools of the extension");
    terminal.answers("/model", "Which model?");
}

const TRANSFORMS: &str = r#"
export default function (pi: any) {
  pi.registerMarkdownTransformer((text: string, { messageType }: any) => `${text.replaceAll("secret", "**hidden**")} (${messageType})`);
}
"#;

#[test]
fn extensions_change_markdown_before_it_is_shown() {
    let world = World::new();
    let mut terminal = open(&world, TRANSFORMS, &[&["the secret", " is out"]], &[]);
    terminal.answers("what secret", "the hidden is out (assistant)");
    terminal.sees("(user)");
}

#[test]
fn a_command_of_the_shell_is_interrupted() {
    let world = World::new();
    let mut terminal = open(&world, NOTHING, &[&["x"]], &[]);
    terminal.answers("!echo begun && sleep 600", "$ echo begun");
    terminal.presses("\u{1b}", "begun");
    terminal.answers("!!echo after it", "  after it");
}

const THINKS: &str = r#"
export default function (pi: any) {
  pi.registerShortcut("ctrl+k", { description: "never", handler: (ctx: any) => ctx.ui.notify("never to be seen") });
  pi.registerShortcut("ctrl+u", { description: "greets", handler: (ctx: any) => ctx.ui.notify("greeted") });
  pi.registerShortcut("f7", { handler: (ctx: any) => ctx.ui.notify(`expanded: ${ctx.ui.getToolsExpanded()}`) });
  pi.on("session_start", (_event: any, ctx: any) => {
    ctx.ui.setHiddenThinkingLabel("pondering");
    ctx.ui.setWidget("theme", (_tui: any, theme: any) => ({ render: () => [theme.fg("accent", `theme: ${theme.name}`)], invalidate() {} }));
  });
  pi.registerCommand("themes", { handler: async (_: string, ctx: any) => {
    const mine = ctx.ui.getAllThemes().find((theme: any) => theme.name === "mine");
    ctx.ui.notify(`mine: ${mine?.path.endsWith("mine.json")} ${ctx.ui.getTheme("mine")?.getFgAnsi("accent").slice(2)}`);
    ctx.ui.notify(`set: ${ctx.ui.setTheme("mine").success} ${ctx.ui.theme.name} ${ctx.ui.setTheme("none").error}`);
  } });
}
"#;

#[test]
fn shortcuts_of_extensions_run_unless_they_conflict() {
    let world = World::new();
    let theme = r##"{"name": "mine", "vars": {"x": "#010203"}, "colors": {"accent": "x"}}"##;
    world.write("home/.pi/agent/themes/mine.json", theme);
    let model =
        world.raw_script(r#"{"events": [{"thinking": "deep thoughts"}, {"text": "the answer"}], "stop": "end_turn"}"#);
    let mut terminal = open_with(&world, THINKS, &model, &[]);
    terminal.sees("built-in shortcut. Skipping.");
    terminal.sees("app.tree.filter.userOnly");
    terminal.presses("\u{15}", "greeted");
    terminal.presses("\u{f}\u{1b}[18~", "expanded: true");
    terminal.answers("/hotkeys", "ctrl+u: greets");
    terminal.sees("theme: dark");
    terminal.answers("/themes", "mine: true 38;2;1;2;3m");
    terminal.sees("set: true mine Theme not found: none");
    terminal.sees("theme: mine");
    terminal.answers("think", "deep thoughts");
    terminal.sees("the answer");
    terminal.presses("\u{14}", "pondering");
    terminal.sees_no_more("deep thoughts");
    terminal.presses("\u{14}", "deep thoughts");
}

const PACKED: &str = r#"
export default function (pi: any) {
  const shown = (ctx: any) => ctx.ui.getAllThemes().map((theme: any) => theme.name).join(",");
  pi.on("session_start", (_event: any, ctx: any) => ctx.ui.setStatus("first", `at first ${shown(ctx)} ${ctx.ui.theme.name}`));
  pi.on("resources_discover", () => ({ themePaths: ["./found.json"] }));
  pi.registerCommand("themes", { handler: async (_: string, ctx: any) => {
    ctx.ui.notify(`then ${shown(ctx)} ${ctx.ui.setTheme("found").success} ${ctx.ui.theme.getFgAnsi("accent").slice(2)}`);
  } });
}
"#;

#[test]
fn themes_come_from_packages_and_from_extensions_that_name_them() {
    let world = World::new();
    let theme = |name: &str| format!(r##"{{"name": "{name}", "colors": {{"accent": "#0a0b0c"}}}}"##);
    let manifest =
        r#"{"name": "pack", "version": "1.0.0", "pi": {"extensions": ["./index.ts"], "themes": ["./themes"]}}"#;
    world.write("project/pack/package.json", manifest);
    world.write("project/pack/index.ts", PACKED);
    world.write("project/pack/themes/packed.json", theme("packed"));
    world.write("project/pack/found.json", theme("found"));
    world.write("home/.pi/agent/settings.json", r#"{"theme": "packed"}"#);
    let model = world.script(&[&["x"]]);
    let mut terminal = Terminal::start(world.command(&["-ne", "-e", "./pack", "--model", &model]));
    terminal.is_ready();
    terminal.sees("at first dark,light,packed packed");
    terminal.answers("/themes", "then dark,light,packed,found true 38;2;10;11;12m");
}
