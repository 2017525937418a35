//! Tests overlays, and components that fail.

use super::open;
use crate::support::World;

/// Timed changes are seconds apart, so that each is displayed even on a busy machine.
const OVERLAYS: &str = r#"
const panel = (name: string, keys: string[] = []) => ({
  focused: false,
  render() { return [`[${name} ${(this as any).focused ? "has the keys" : "waits"} ${keys.join("")}]`]; },
  handleInput(data: string) { keys.push(data); },
  invalidate() {},
});
export default function (pi: any) {
  pi.registerCommand("two", { handler: async (_: string, ctx: any) => {
    await ctx.ui.custom((tui: any, _theme: any, _keys: any, done: any) => {
      const one = tui.showOverlay(panel("one"), { anchor: "top-left", width: 40, nonCapturing: true });
      const two = tui.showOverlay(panel("two"), { anchor: "top-left", width: 40, offsetY: 2, nonCapturing: true });
      return {
        render: () => [`one ${one.isFocused()} ${one.isHidden()}, two ${two.isFocused()}`, `bounds ${JSON.stringify(two.getBounds())}`],
        handleInput(data: string) {
          if (data === "1") one.focus();
          if (data === "h") one.setHidden(true);
          if (data === "s") one.setHidden(false);
          if (data === "q") { one.hide(); two.hide(); done("left"); }
          tui.requestRender();
          if (data === "1") setTimeout(() => { one.unfocus(); two.focus(); tui.requestRender(); }, 3000);
        },
      };
    });
    ctx.ui.notify("both are gone");
  } });
  pi.registerCommand("wide", { handler: async (_: string, ctx: any) => {
    const value = ctx.ui.custom((_tui: any, _theme: any, _keys: any, done: any) => ({ render: () => ["only on wide screens"], handleInput: () => done(1) }),
      { overlay: true, overlayOptions: () => ({ width: 30, visible: (columns: number) => columns > 200 }) });
    ctx.ui.notify("nothing to see");
  } });
  pi.registerCommand("handle", { handler: async (_: string, ctx: any) => {
    let handle: any;
    const value = await ctx.ui.custom((_tui: any, _theme: any, _keys: any, done: any) => ({
      render: () => [`shown, hidden: ${handle?.isHidden()}`],
      handleInput(data: string) {
        if (data === "h") { handle.setHidden(true); setTimeout(() => handle.setHidden(false), 3000); }
        if (data === "\r") done("done");
        if (data === "x") handle.hide();
      },
    }), { overlay: true, onHandle: (given: any) => (handle = given) });
    ctx.ui.notify(`overlay: ${value}`);
  } });
  pi.registerCommand("part", { handler: async (_: string, ctx: any) => {
    const value = await ctx.ui.custom((tui: any, _theme: any, _keys: any, done: any) => {
      const part = { focused: false, render: () => [], handleInput: (data: string) => done(`part got ${data}`) };
      tui.setFocus(part);
      return { render: () => ["a component with a part"], handleInput() { tui.setFocus(part); tui.requestRender(); } };
    });
    ctx.ui.notify(value);
  } });
  pi.registerCommand("broken", { handler: async (which: string, ctx: any) => {
    const broken = { render: () => { throw new Error(`no-lines-of-${which}`); }, handleInput() {} };
    const brittle = { render: () => ["brittle"], handleInput() { throw new Error(`no-keys-of-${which}`); } };
    if (which === "widget") ctx.ui.setWidget("w", () => broken);
    if (which === "header") ctx.ui.setHeader(() => broken);
    if (which === "footer") ctx.ui.setFooter(() => broken);
    if (which === "factory") ctx.ui.custom(() => { throw new Error("no factory"); }).catch((error: any) => ctx.ui.notify(`caught: ${error.message}`));
    if (which === "custom") ctx.ui.notify(`custom: ${await ctx.ui.custom(() => broken)}`);
    if (which === "keys") ctx.ui.notify(`keys: ${await ctx.ui.custom(() => brittle, { overlay: true })}`);
    if (which === "later") {
      let times = 0;
      ctx.ui.setWidget("w", (tui: any) => {
        setTimeout(() => tui.requestRender(), 5);
        return { render: () => { if (times++ > 0) throw new Error("no-second-picture"); return ["the first picture"]; } };
      });
    }
  } });
}
"#;

#[test]
fn handles_move_the_keys_between_overlays() {
    let world = World::new();
    let mut terminal = open(&world, OVERLAYS, &[&["x"]], &[]);
    terminal.answers("/two", "one false false, two false");
    let rows = terminal.sees("bounds {\"row\":2,\"col\":0,\"width\":40,\"height\":1}");
    assert!(rows[0].starts_with("[one waits") && rows[2].starts_with("[two waits"), "{rows:#?}");
    terminal.presses("h", "one false true");
    terminal.sees_no_more("[one");
    terminal.presses("s", "[one waits");
    terminal.presses("1", "[one has the keys");
    terminal.sees("one true false");
    // The extension closes the overlays itself.
    terminal.sees("[two has the keys");
    terminal.sees("[one waits");
    terminal.presses("ab", "[two has the keys ab]");
}

#[test]
fn an_overlay_is_where_and_when_its_options_say() {
    let world = World::new();
    let mut terminal = open(&world, OVERLAYS, &[&["x"]], &[]);
    terminal.say("/wide");
    let rows = terminal.sees("nothing to see");
    assert!(!rows.iter().any(|row| row.contains("only on wide screens")), "{rows:#?}");
    // A hidden overlay gets no keys.
    terminal.answers("/handle", "shown, hidden: false");
    terminal.send("h");
    terminal.sees_no_more("shown, hidden");
    terminal.sees("shown, hidden: false");
    terminal.presses("\r", "overlay: done");
    terminal.answers("/handle", "shown, hidden: false");
    terminal.presses("x", "overlay: undefined");
    terminal.sees_no_more("shown, hidden");
    terminal.answers("/part", "a component with a part");
    terminal.send("a");
    terminal.presses("b", "part got");
}

#[test]
fn a_component_that_throws_is_reported_and_removed() {
    let world = World::new();
    let mut terminal = open(&world, OVERLAYS, &[&["x"]], &[]);
    for (which, said) in [
        ("widget", "no-lines-of-widget"),
        ("header", "no-lines-of-header"),
        ("footer", "no-lines-of-footer"),
        ("factory", "caught: no factory"),
        ("custom", "custom: undefined"),
        ("later", "no-second-picture"),
    ] {
        terminal.say(&format!("/broken {which}"));
        terminal.sees(said);
    }
    let rows = terminal.sees_no_more("the first picture");
    assert!(!rows.iter().any(|row| row.contains("<render error")), "{rows:#?}");
    terminal.answers("/broken keys", "brittle");
    terminal.presses("k", "no-keys-of-keys");
    terminal.sees("keys: undefined");
    terminal.sees_no_more("brittle");
    terminal.presses("typed after all of it", "typed after all of it");
}

const KEYS: &str = r#"
export default function (pi: any) {
  const seen: string[] = [];
  const panel = (done: any, more: object) => ({
    ...more,
    render: () => ["seen:" + seen.map((data) => JSON.stringify(data)).join("")],
    handleInput(data: string) { data === "q" ? done(0) : seen.push(data); },
  });
  const show = (name: string, more: object) => pi.registerCommand(name, { handler: async (_: string, ctx: any) => {
    seen.length = 0;
    await ctx.ui.custom((_tui: any, _theme: any, _keys: any, done: any) => panel(done, more));
    ctx.ui.notify(`${name} is over`);
  } });
  show("presses", {});
  show("releases", { wantsKeyRelease: true });
}
"#;

#[test]
fn key_releases_are_reported_only_on_request() {
    let world = World::new();
    let mut terminal = open(&world, KEYS, &[&["x"]], &[]);
    let keys = "a\u{1b}[97;1:3u\u{1b}[1;1:3Ab";
    for (command, seen) in
        [("presses", r#"seen:"a""b""#), ("releases", r#"seen:"a""\u001b[97;1:3u""\u001b[1;1:3A""b""#)]
    {
        terminal.answers(&format!("/{command}"), "seen:");
        terminal.presses(keys, seen);
        terminal.presses("q", &format!("{command} is over"));
    }
    // pi's own editor ignores the event.
    terminal.presses("x\u{1b}[120;1:3uy", "xy");
}

const HEARS: &str = r#"
export default function (pi: any) {
  const heard: string[] = [];
  for (const name of ["ui_prompt_start", "ui_prompt_end"])
    pi.on(name, (event: any) => void heard.push(`${name[10]}:${event.kind}:${event.title ?? "-"}`));
  pi.registerCommand("ask", { handler: async (_: string, ctx: any) => {
    await ctx.ui.confirm("Sure?", "really");
    await Promise.all([ctx.ui.select("First", ["a"]), ctx.ui.input("Second")]);
    await ctx.ui.custom((_tui: any, _theme: any, _keys: any, done: any) => ({ render: () => ["a panel"], handleInput: () => done(1) }));
    const tell = () => void (heard.length < 6 ? setTimeout(tell, 20) : ctx.ui.notify(heard.join(" ")));
    tell();
  } });
}
"#;

#[test]
fn extensions_are_notified_of_dialogs() {
    let world = World::new();
    let mut terminal = open(&world, HEARS, &[&["x"]], &[]);
    terminal.answers("/ask", "really");
    terminal.presses("\r", "Second");
    terminal.presses("\u{1b}", "First");
    terminal.presses("\u{1b}", "a panel");
    let heard = "s:confirm:Sure? e:confirm:Sure? s:select:First e:select:First s:custom:- e:custom:-";
    terminal.presses("k", heard);
}
