//! Tests editors of extensions, completion, and key handlers that precede the editor.

use super::{NOTHING, open};
use crate::support::World;

const EDITOR: &str = r#"
class Plain {
  text = "";
  constructor(tui: any) { (this as any).tui = tui; }
  getText() { return this.text; }
  setText(text: string) { this.text = text; (this as any).onChange?.(text); }
  handleInput(data: string) {
    if (data === "\r") {
      const said = this.text;
      this.setText("");
      (this as any).onSubmit?.(said);
    } else if (data === "\u0007") throw new Error("the-editor-broke");
    else this.setText(this.text + data.replaceAll("\u001b[200~", "").replaceAll("\u001b[201~", ""));
  }
  render(width: number) { return [`own editor ${width}: ${this.text.toUpperCase()}|`]; }
  invalidate() {}
}
export default function (pi: any) {
  pi.on("session_start", (_event: any, ctx: any) => ctx.ui.setEditorComponent((tui: any) => new Plain(tui)));
  pi.registerCommand("text", { handler: async (_: string, ctx: any) => {
    ctx.ui.setEditorText("put there");
    ctx.ui.pasteToEditor(", pasted");
    ctx.ui.notify(`holds: ${ctx.ui.getEditorText()}; own: ${ctx.ui.getEditorComponent() !== undefined}`);
  } });
  pi.registerCommand("plain", { handler: async (_: string, ctx: any) => ctx.ui.setEditorComponent(undefined) });
  pi.registerCommand("forge", { handler: async (_: string, ctx: any) => {
    ctx.ui.setEditorComponent((tui: any) => {
      const editor = new Plain(tui);
      setTimeout(() => { (editor as any).onSubmit("never said by the person"); ctx.ui.notify("has tried"); }, 5);
      return editor;
    });
  } });
}
"#;

#[test]
fn an_editor_of_an_extension_takes_the_place_of_pis() {
    let world = World::new();
    let mut terminal = open(&world, EDITOR, &[&["hello back"]], &[]);
    terminal.sees("own editor 90: |");
    terminal.presses("hello", "own editor 90: HELLO|");
    terminal.presses("\r", "> hello");
    terminal.sees("hello back");
    terminal.answers("/text", "holds: put there, pasted; own: true");
    terminal.sees("own editor 90: PUT THERE, PASTED|");
}

#[test]
fn an_editor_cannot_submit_text_without_a_key() {
    let world = World::new();
    let mut terminal = open(&world, EDITOR, &[&["never"]], &[]);
    terminal.sees("own editor 90: |");
    terminal.answers("/forge", "has tried");
    // The text that the extension could not submit stays in the editor.
    terminal.sees("own editor 90: NEVER SAID BY THE PERSON|");
    // Keys still go to the editor.
    terminal.send("mine");
    let rows = terminal.sees("own editor 90: NEVER SAID BY THE PERSONMINE|");
    assert!(!rows.iter().any(|row| row.starts_with("> ")), "{rows:#?}");
}

#[test]
fn a_command_of_the_shell_from_an_editor_is_a_question() {
    let world = World::new();
    let mut terminal = open(&world, EDITOR, &[&["never"]], &[]);
    terminal.sees("own editor 90: |");
    terminal.answers("!echo from the shell > made.txt", "pi asks you about");
    terminal.sees("echo from the shell");
    std::thread::sleep(std::time::Duration::from_millis(400));
    terminal.send("n");
    terminal.sees_no_more("pi asks you about");
    terminal.sees("wrote this command");
    assert!(!world.project().join("made.txt").exists());
}

#[test]
fn an_editor_that_throws_gives_way_to_pis() {
    let world = World::new();
    let mut terminal = open(&world, EDITOR, &[&["an answer"]], &[]);
    terminal.presses("kept", "own editor 90: KEPT|");
    terminal.presses("\u{7}", "the-editor-broke");
    terminal.sees_no_more("own editor 90");
    terminal.presses(" and more", "kept and more");
    // The text may be the extension's, so Enter sends it only after the user could read it.
    std::thread::sleep(std::time::Duration::from_millis(400));
    terminal.presses("\r", "> kept and more");
    terminal.sees("an answer");
}

const KEYS: &str = r##"
export default function (pi: any) {
  pi.on("session_start", (_event: any, ctx: any) => {
    const stop = ctx.ui.onTerminalInput((data: string) => {
      if (data === "x") return { consume: true };
      if (data === "a") return { data: "b" };
      if (data === "y") return { data: "\r" };
      if (data === "z") throw new Error("no z");
      if (data === "q") stop();
      return undefined;
    });
  });
  pi.registerCommand("sure", { handler: async (_: string, ctx: any) => ctx.ui.notify(`sure: ${await ctx.ui.input("Sure?")}`) });
}
"##;

#[test]
fn listeners_take_and_change_keys() {
    let world = World::new();
    let mut terminal = open(&world, KEYS, &[&["never"]], &[]);
    terminal.presses("1a2x3y4z5", "1b234z5");
    terminal.sees("no z");
    let rows = terminal.sees("does not send your prompt");
    assert!(!rows.iter().any(|row| row.starts_with("> ")), "{rows:#?}");
    terminal.send("\u{15}qax");
    terminal.until("untouched keys", |rows| rows.iter().any(|row| row.trim_end() == "qax"));
}

#[test]
fn key_listeners_see_only_dialogs_of_their_extension() {
    let world = World::new();
    world.write("project/other.ts", r#"export default (pi: any) => pi.registerCommand("other", { handler: async (_: string, ctx: any) => ctx.ui.notify(`other: ${await ctx.ui.input("Other?")}`) });"#);
    let other = world.project().join("other.ts").display().to_string();
    let mut terminal = open(&world, KEYS, &[&["never"]], &["-e", &other]);
    terminal.answers("/sure", "Sure?");
    terminal.presses("ax\r", "sure: b");
    terminal.answers("/other", "Other?");
    terminal.presses("ax\r", "other: ax");
}

const COMPLETES: &str = r##"
const provider = (current: any) => ({
  triggerCharacters: ["#"],
  async getSuggestions(lines: string[], line: number, col: number, options: any) {
    const token = lines[line]!.slice(0, col).split(" ").at(-1)!;
    if (!token.startsWith("#")) return current.getSuggestions(lines, line, col, options);
    const items = [41, 42].map((n) => ({ value: `#${n}`, label: `#${n}`, description: `issue ${n}` }));
    return { items: items.filter((item) => item.value.startsWith(token)), prefix: token };
  },
  applyCompletion: (...args: any[]) => current.applyCompletion(...args),
});
export default function (pi: any) {
  pi.on("session_start", (_event: any, ctx: any) => {
    ctx.ui.addAutocompleteProvider(provider);
    ctx.ui.addAutocompleteProvider((current: any) => ({ ...current, getSuggestions: (...args: any[]) => current.getSuggestions(...args) }));
  });
  pi.registerCommand("deploy", {
    description: "deploys it",
    getArgumentCompletions: async (prefix: string) => ["staging", "production"].filter((name) => name.startsWith(prefix)).map((name) => ({ value: name, label: name })),
    handler: async (args: string, ctx: any) => ctx.ui.notify(`deployed to ${args}`),
  });
}
"##;

#[test]
fn typed_text_is_completed() {
    let world = World::new();
    world.write("project/source/main.rs", "");
    let mut terminal = open(&world, COMPLETES, &[&["an answer"]], &[]);
    terminal.presses("/dep", "deploys it");
    terminal.send("\t");
    terminal.sees_no_more("deploys it");
    terminal.presses("st", "> staging");
    terminal.send("\t");
    terminal.sees_no_more("> staging");
    terminal.presses("\r", "deployed to staging");
    terminal.presses("see #", "issue 42");
    // The extension sets the text; input typed in the meantime is appended.
    terminal.presses("\u{1b}[B\t in @mai", "source/main.rs");
    terminal.send("\t");
    terminal.until("the file", |rows| rows.iter().any(|row| row.trim_end() == "see #42 in @source/main.rs"));
    terminal.presses("\r", "> see #42 in @source/main.rs");
    terminal.sees("an answer");
}

#[test]
fn pi_completes_by_itself() {
    let world = World::new();
    world.write("project/notes/one.txt", "");
    let mut terminal = open(&world, NOTHING, &[&["x"]], &[]);
    terminal.presses("/hotk", "list the keys");
    // The only matching command is submitted at once.
    terminal.presses("\r", "alt+up: edit the queued messages");
    terminal.presses("look at no\t", "look at notes/");
    terminal.presses("o\t", "look at notes/one.txt");
    terminal.presses("\u{15}/na", "name the session");
    terminal.send("\u{1b}");
    terminal.sees_no_more("name the session");
}

const EXPANDED: &str = r#"
export default function (pi: any) {
  pi.registerShortcut("f6", { handler: (ctx: any) => ctx.ui.notify(`holds ${ctx.ui.getEditorText().length}`) });
  pi.registerCommand("paste", { handler: async (_: string, ctx: any) => ctx.ui.pasteToEditor("x".repeat(1001)) });
  let said = "";
  pi.on("input", (event: any) => void (said = `said ${event.text.length} in ${event.text.split("\n").length} lines`));
  pi.on("agent_end", (_event: any, ctx: any) => ctx.ui.notify(said));
}
"#;

#[test]
fn a_large_paste_is_shown_as_a_marker_and_sent_whole() {
    let world = World::new();
    let mut terminal = open(&world, EXPANDED, &[&["one"], &["two"]], &[]);
    let pasted = format!("\u{1b}[200~{}end\u{1b}[201~", "line\r".repeat(20));
    terminal.presses(&format!("see {pasted}"), "see [paste #1 +21 lines]");
    terminal.presses("\u{1b}[17~", "holds 107");
    // The marker is deleted as a unit, and restored as one.
    terminal.send("\u{7f}");
    terminal.sees_no_more("[paste #1");
    terminal.presses("\u{1f}", "[paste #1 +21 lines]");
    terminal.presses(" now\r", "said 111 in 21 lines");
    terminal.sees("one");
    terminal.answers("/paste", "[paste #1 1001 chars]");
    terminal.insists("\r", "said 1001 in 1 lines");
    terminal.sees("two");
}

#[test]
fn earlier_input_is_recalled_as_in_pi() {
    let world = World::new();
    let mut terminal = open(&world, NOTHING, &[&["one"], &["two"], &["three"]], &[]);
    terminal.answers("first", "one");
    terminal.answers("second", "two");
    let editor_is = |terminal: &mut super::Terminal, text: &str| {
        terminal.until(text, |rows| rows.iter().any(|row| row.trim_end() == text));
    };
    // Moves to the beginning of a draft; the draft is restored at the end.
    terminal.send("draft\u{1b}[A\u{1b}[A");
    editor_is(&mut terminal, "second");
    terminal.send("\u{1b}[A");
    editor_is(&mut terminal, "first");
    terminal.send("\u{1b}[B\u{1b}[B!");
    editor_is(&mut terminal, "!draft");
    terminal.send("\u{15}\u{5}\u{15}\u{1b}[A\u{1b}[A again\r");
    terminal.sees("> againfirst");
    terminal.sees("three");
}
