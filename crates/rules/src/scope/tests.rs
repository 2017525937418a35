use super::names::{doubt, misspelt_tool};
use super::*;
use crate::rule::Origin;

fn compiled(scope: &str, globs: &[&str]) -> CompiledScope {
    let mut rule = Rule::new("r", Origin::Project, "x");
    rule.scope = split(scope)
        .into_iter()
        .map(|(_, token)| parse_token(token).unwrap_or(ScopeToken::Unreadable { token: token.to_owned() }))
        .collect();
    rule.globs = globs.iter().map(|&glob| glob.to_owned()).collect();
    CompiledScope::new(&rule)
}

#[test]
fn a_list_is_split_outside_of_brackets_and_quotes() {
    let parts = |text| split(text).into_iter().map(|(_, part)| part).collect::<Vec<_>>();
    assert_eq!(parts("text, tool:edit(*.{a,b}),[x,y] ,"), ["text", "tool:edit(*.{a,b})", "[x,y]"]);
    assert_eq!(parts(r#""text","think,ing", 'tool'"#), ["text", "think,ing", "tool"]);
    assert_eq!(parts("a(b,[c,(d,e)],f"), ["a(b,[c,(d,e)],f"]);
    assert_eq!(parts(")a,b"), [")a", "b"]);
    assert_eq!(split("  x,  'y'"), [(2, "x"), (7, "y")]);
}

#[test]
fn tokens() {
    let tool = |name: Option<&str>, glob: Option<&str>| {
        Ok(ScopeToken::Tool { name: name.map(str::to_owned), glob: glob.map(str::to_owned) })
    };
    assert_eq!(parse_token("TEXT"), Ok(ScopeToken::Text));
    assert_eq!(parse_token("ToolCall"), tool(None, None));
    assert_eq!(parse_token("Tool:Edit(*.{ts,tsx})"), tool(Some("edit"), Some("*.{ts,tsx}")));
    assert_eq!(parse_token("tool(**/a/**)"), tool(None, Some("**/a/**")));
    assert_eq!(parse_token("bash"), tool(Some("bash"), None));
    assert_eq!(parse_token("toolbox(*.a)"), tool(Some("toolbox"), Some("*.a")));
    assert_eq!(parse_token("toolcall(*.a)"), tool(Some("toolcall"), Some("*.a")));
    for bad in ["tool:edit(*.ts", "edit()", "a b", "tool:", "*.ts", "edit(*.ts)x", "a(b)c)", "edit(*.{a)", "é"] {
        assert!(parse_token(bad).is_err(), "{bad}");
    }
}

#[test]
fn an_unclosed_bracket_is_named() {
    let why = |token: &str| parse_token(token).expect_err(token).0;
    assert_eq!(why("tool:edit([*.ts), text"), "has `[` without `]`");
    assert_eq!(why("tool:edit(*.{ts,tsx), text"), "has `{` without `}`");
    assert_eq!(why("tool:edit(*.ts"), "has parentheses that are not closed");
}

#[test]
fn tokens_that_no_call_can_match_are_reported() {
    let never = |token: &str, globs: &[&str]| {
        let globs: Vec<String> = globs.iter().map(|&glob| glob.to_owned()).collect();
        never_matches(&parse_token(token).expect(token), &globs).is_some()
    };
    for (token, globs) in [
        ("bash(*.ts)", &[][..]),
        ("bash", &["*.ts"]),
        ("edit(*.ts)", &["*.py"]),
        ("edit(src/**/*.{ts,tsx})", &["*.py", "lib/*.{rs,go}"]),
    ] {
        assert!(never(token, globs), "{token} {globs:?}");
    }
    for (token, globs) in [
        ("bash", &[][..]),
        ("edit(*.ts)", &[]),
        ("edit(*.ts)", &["*.py", "src/*"]),
        ("edit(*.ts)", &["*.{ts,py}"]),
        ("edit(*.t?)", &["*.ts"]),
        ("edit(*.ts)", &["!*.py"]),
        ("edit", &["*.py"]),
        ("text", &["*.py"]),
    ] {
        assert!(!never(token, globs), "{token} {globs:?}");
    }
    assert_eq!((misspelt_tool("edt"), misspelt_tool("edit"), misspelt_tool("lsp")), (Some("edit"), None, None));
}

#[test]
fn paths_are_tested_in_all_forms_as_a_whole_and_by_name() {
    let is_match = |glob: &str, path: &str| {
        compiled(&format!("tool({glob})"), &[]).matches(StreamKind::Tool, Some("x"), &[path], "/proj") == Match::Yes
    };
    for (glob, path) in [
        ("*.ts", "a.ts"),
        ("*.ts", "src/deep/a.ts"),
        ("src/*.ts", "./src/a.ts"),
        ("src/*.ts", "/proj/src/a.ts"),
        ("src/*.ts", "lib/../src/a.ts"),
        ("src\\a", "srca"),
        ("src/*.ts", r"src\a.ts"),
        ("/proj/**", "a.ts"),
        ("**/tests/**", "/other/tests/a"),
        ("**/a.ts", "a.ts"),
        ("{a,b/*}.rs", "b/x.rs"),
        ("[!b]*", "a"),
        ("!*.md", "a.ts"),
        (".*", ".env"),
        ("*", ".env"),
    ] {
        assert!(is_match(glob, path), "{glob} {path}");
    }
    for (glob, path) in [
        ("*.ts", "a.TS"),
        ("src/*.ts", "src/b/a.ts"),
        ("src/*.ts", "/other/src/a.ts"),
        ("*.ts", "a.tsx"),
        ("!*.md", "a.md"),
    ] {
        assert!(!is_match(glob, path), "{glob} {path}");
    }
}

#[test]
fn globs_are_about_characters() {
    // Expected values were produced by Bun 1.4.5.
    for (glob, path, expected) in [
        ("?.ts", "é.ts", true),
        ("?", "日", true),
        ("?", "😀", true),
        ("??", "😀", false),
        ("??", "éa", true),
        ("[é].ts", "é.ts", true),
        ("[à-ï]*", "éa.ts", true),
        ("[日-本]", "月", true),
        ("[😀é]", "😀", true),
        ("[!é].ts", "é.ts", false),
        ("[!é].ts", "日.ts", true),
        ("[!a].ts", "日.ts", true),
        ("{é,日}.ts", "日.ts", true),
        ("*é*.ts", "aéb.ts", true),
        ("日本/**/?.ts", "日本/a/é.ts", true),
        (r"\é\[é\]", "é[é]", true),
        (r"a\\xc3\xa9", r"a\xc3xa9", true),
        ("?", "\n", true),
    ] {
        assert_eq!(PathGlob::new(glob).expect(glob).is_match(path), expected, "{glob} {path}");
    }
}

#[test]
fn globs_and_scope_must_both_hold() {
    use Match::{NeedsPath, No, Yes};
    use StreamKind::{Text, Thinking, Tool};
    let ask = |scope: &str, globs: &[&str], stream, tool, paths: &[&str]| {
        compiled(scope, globs).matches(stream, tool, paths, "/proj")
    };
    assert_eq!(ask("", &[], Text, None, &[]), Yes);
    assert_eq!(ask("", &[], Thinking, None, &[]), No);
    assert_eq!(ask("", &[], Tool, Some("any"), &[]), Yes);
    assert_eq!(ask("", &["*.rs"], Text, None, &[]), No);
    assert_eq!(ask("", &["*.rs"], Tool, Some("any"), &[]), NeedsPath);
    assert_eq!(ask("", &["*.ts", "*.rs"], Tool, Some("any"), &["a.rs"]), Yes);
    assert_eq!(ask("edit(src/*)", &["*.rs"], Tool, Some("EDIT"), &["src/a.rs"]), Yes);
    assert_eq!(ask("edit(src/*)", &["*.rs"], Tool, Some("edit"), &["lib/a.rs"]), No);
    assert_eq!(ask("edit(src/*)", &["*.rs"], Tool, Some("write"), &[]), No);
    assert_eq!(ask("edit(src/*)", &[], Tool, Some("edit"), &[]), NeedsPath);
    assert_eq!(ask("edit(src/*), edit", &[], Tool, Some("edit"), &[]), Yes);
    assert_eq!(ask("bash", &[], Tool, Some("bash"), &["a"]), Yes);
    assert_eq!(ask("edit(", &[], Tool, Some("edit"), &["a"]), No);
    assert_eq!(ask("", &["{"], Tool, Some("edit"), &["a"]), No);
    for (scope, globs, reachable, fires) in [
        ("edit(", &[][..], false, false),
        ("text", &["*.rs"][..], true, false),
        ("text, tool", &["*.rs"][..], true, true),
        ("", &["{"][..], true, false),
        ("thinking", &[][..], true, true),
    ] {
        let compiled = compiled(scope, globs);
        assert_eq!((compiled.is_reachable(), compiled.can_fire()), (reachable, fires), "{scope} {globs:?}");
    }
}

#[test]
fn a_word_that_is_no_scope_is_doubted() {
    let of = |token: &str, is_own: bool| {
        let Ok(ScopeToken::Tool { name: Some(name), .. }) = parse_token(token) else { return None };
        doubt(token, &name, is_own).map(|(_, help)| help)
    };
    for (token, help) in [
        ("tols", "did you mean `tool`?"),
        ("tols(*.ts)", "did you mean `tool`?"),
        ("texts", "did you mean `text`?"),
        ("toolcals", "did you mean `tool`?"),
        ("thinkng", "did you mean `thinking`?"),
        ("wirte", "did you mean `tool:write`?"),
        ("tool:edt", "did you mean `tool:edit`?"),
        ("webfetch", "to name a tool of an extension write `tool:webfetch`"),
    ] {
        assert!(of(token, true).is_some_and(|said| said.contains(help)), "{token}: {:?}", of(token, true));
    }
    for token in ["text", "bash", "tool:webfetch", "mcp__docs__search", "find(*.ts)"] {
        assert_eq!(of(token, true), None, "{token}");
    }
    assert_eq!(of("ast_edit", false), None, "tools of other programs are not known");
}
