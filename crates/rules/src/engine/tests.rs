//! Repetition, caps, records, regions, settling, paths and hot reload, through the public interface.

use super::*;
use crate::rule::{Condition, ContextMode, InterruptMode, Origin, Region, Repeat, ScopeToken, Settle, Window};

fn rule(name: &str, pattern: &str) -> Rule {
    let mut rule = Rule::new(name, Origin::Project, format!("Mind {name}."));
    rule.conditions.push(Condition { source: pattern.to_owned(), flags: "m".to_owned() });
    rule.interrupt_mode = Some(InterruptMode::Always);
    rule
}

fn tool(name: Option<&str>, glob: Option<&str>) -> ScopeToken {
    ScopeToken::Tool { name: name.map(str::to_owned), glob: glob.map(str::to_owned) }
}

fn settings() -> RuleSettings {
    RuleSettings { enabled: true, ..RuleSettings::default() }
}

fn engine(rules: Vec<Rule>) -> RuleEngine {
    RuleEngine::new(rules, settings(), EngineOptions { cwd: "/proj".to_owned(), ..EngineOptions::default() })
}

/// Reads a message. Returns the delta and the rule names of each firing; the end of the message counts as a delta.
fn text(engine: &mut RuleEngine, deltas: &[&str]) -> Vec<(usize, String)> {
    text_at(engine, deltas, 0)
}

fn text_at(engine: &mut RuleEngine, deltas: &[&str], now_ms: u64) -> Vec<(usize, String)> {
    engine.reset_buffers();
    let mut fired = Vec::new();
    for (index, delta) in deltas.iter().enumerate() {
        fired.extend(engine.check_delta(delta, &MatchContext::text(now_ms)).map(|firing| (index, names(&firing))));
    }
    fired.extend(engine.end_of_message(now_ms).iter().map(|firing| (deltas.len(), names(firing))));
    fired
}

/// Reads the arguments of a tool call, one character at a time. Returns the text so far and the rule names of each firing.
fn call(engine: &mut RuleEngine, name: &str, arguments: &str) -> Vec<(String, String)> {
    engine.reset_buffers();
    let context = MatchContext::tool(name, "call", 0);
    let mut fired = Vec::new();
    for (at, character) in arguments.char_indices() {
        let firing = engine.check_delta(character.encode_utf8(&mut [0; 4]), &context);
        fired.extend(firing.map(|firing| (arguments[..at + character.len_utf8()].to_owned(), names(&firing))));
    }
    fired.extend(engine.end_of_call(&context).map(|firing| ("end".to_owned(), names(&firing))));
    fired
}

fn names(firing: &Firing) -> String {
    let mark = |rule: &FiredRule| format!("{}{}", rule.name, if rule.interrupts { "!" } else { "" });
    firing.rules.iter().map(mark).collect::<Vec<_>>().join(" ")
}

fn at(delta: usize, names: &str) -> Vec<(usize, String)> {
    vec![(delta, names.to_owned())]
}

fn after(text: &str, names: &str) -> Vec<(String, String)> {
    vec![(text.to_owned(), names.to_owned())]
}

#[test]
fn rules_of_one_delta_fire_together() {
    let mut informing = rule("b", "TODO");
    informing.interrupt_mode = Some(InterruptMode::Never);
    let mut engine = engine(vec![rule("a", "DO;"), informing, rule("c", "never")]);
    assert_eq!(text(&mut engine, &["a TO", "DO;", " x"]), at(1, "a! b"));
}

#[test]
fn a_site_has_line_column_and_excerpt() {
    let mut engine = engine(vec![rule("a", "TODO")]);
    engine.check_delta("größe\nsecond TO", &MatchContext::text(0));
    let firing = engine.check_delta("DO here\nthird", &MatchContext::text(0)).expect("it fires");
    let site = &firing.rules[0].site;
    assert_eq!((site.offset, site.line, site.column), ("größe\nsecond TODO".len(), 2, 12));
    assert_eq!(site.excerpt, "second TODO here");
    assert_eq!(site.pattern, PatternIndex::Regex(0));
}

#[test]
fn a_rule_with_once_fires_once_in_a_session() {
    let mut engine = engine(vec![rule("a", "TODO")]);
    for turn in 0..20 {
        engine.begin_turn();
        assert_eq!(text(&mut engine, &["TODO"]).len(), usize::from(turn == 0));
        engine.end_turn();
    }
}

#[test]
fn a_gap_is_counted_in_turns_that_end() {
    let mut gap = rule("a", "TODO");
    gap.repeat = Some(Repeat::AfterGap { turns: 2 });
    let mut engine = engine(vec![gap]);
    let mut fired = Vec::new();
    for _ in 0..5 {
        engine.begin_turn();
        fired.push(text(&mut engine, &["TODO"]).len());
        engine.end_turn();
    }
    assert_eq!(fired, [1, 0, 1, 0, 1]);
}

#[test]
fn a_cooldown_uses_the_callers_clock() {
    let mut cooling = rule("a", "TODO");
    cooling.repeat = Some(Repeat::Cooldown { seconds: 10 });
    let mut engine = engine(vec![cooling]);
    let mut fires = |now_ms| !text_at(&mut engine, &["TODO"], now_ms).is_empty();
    assert!(fires(1_000) && !fires(10_999) && fires(11_000));
}

#[test]
fn firings_of_a_session_are_limited() {
    let mut limited = rule("a", "TODO");
    limited.repeat = Some(Repeat::AfterGap { turns: 0 });
    limited.max_firings = Some(2);
    let mut engine = engine(vec![limited.clone()]);
    assert_eq!((0..5).map(|_| text(&mut engine, &["TODO"]).len()).sum::<usize>(), 2);
    let records = engine.injected_records();
    let mut resumed = super::tests::engine(vec![limited]);
    resumed.restore(records);
    assert_eq!(text(&mut resumed, &["TODO"]), []);
}

#[test]
fn caps_turn_interrupts_into_reminders_and_the_ledger_has_the_cap() {
    let mut again = rule("a", "TODO");
    again.repeat = Some(Repeat::AfterGap { turns: 0 });
    again.max_retries_per_turn = Some(1);
    let mut other = rule("b", "FIXME");
    other.repeat = Some(Repeat::AfterGap { turns: 0 });
    let settings = RuleSettings { max_retries_per_turn: 3, max_retries_per_session: 5, ..settings() };
    let mut engine = RuleEngine::new(vec![again, other], settings, EngineOptions::default());
    engine.begin_turn();
    let mut fired = Vec::new();
    for word in ["TODO", "TODO", "FIXME", "FIXME", "FIXME"] {
        fired.extend(text(&mut engine, &[word]).into_iter().map(|(_, names)| names));
        engine.burned(10);
    }
    assert_eq!(fired, ["a!", "a", "b!", "b!", "b"]);
    let turn = engine.end_turn();
    assert_eq!((turn.interrupts, turn.reminders, turn.tokens_burned), (3, 2, 30));
    assert_eq!(turn.rules[&RuleName::new("a")].degraded, [(Degraded::RulePerTurn(1), 1)]);
    assert_eq!(turn.rules[&RuleName::new("b")].degraded, [(Degraded::PerTurn(3), 1)]);
    assert_eq!(turn.rules[&RuleName::new("b")].tokens_burned, 20);
    engine.begin_turn();
    assert_eq!(text(&mut engine, &["TODO"]), at(0, "a!"));
    assert_eq!(text(&mut engine, &["FIXME"]), at(0, "b!"));
    assert_eq!(text(&mut engine, &["FIXME"]), at(0, "b"));
    let session = engine.ledger();
    assert_eq!(session.interrupts, 5);
    assert!(session.rules[&RuleName::new("b")].degraded.contains(&(Degraded::PerSession(5), 1)));
    let json = serde_json::to_string(session).expect("it is data");
    assert_eq!(serde_json::from_str::<RetryLedger>(&json).expect("it was written by serde"), *session);
}

#[test]
fn the_mode_decides_on_which_streams_a_rule_interrupts() {
    let mut prose = rule("a", "TODO");
    prose.interrupt_mode = None;
    let mut engine = engine(vec![prose]);
    assert_eq!(call(&mut engine, "bash", r#"{"c":"TODO"}"#), after(r#"{"c":"TODO"#, "a"));
    engine.retract(&RuleName::new("a"));
    assert_eq!(text(&mut engine, &["TODO"]), at(0, "a!"));
}

#[test]
fn one_rule_that_discards_the_partial_reply_is_enough() {
    let mut keep = rule("a", "TODO");
    keep.context_mode = Some(ContextMode::Keep);
    let mode = |rules| match engine(rules).check_delta("TODO", &MatchContext::text(0)).expect("it fires").action {
        Action::Interrupt { context_mode } => context_mode,
        Action::Remind => panic!("it interrupts"),
    };
    assert_eq!(mode(vec![keep.clone()]), ContextMode::Keep);
    assert_eq!(mode(vec![rule("b", "TODO"), keep.clone()]), ContextMode::Discard);
    assert_eq!(mode(vec![keep, rule("b", "TODO")]), ContextMode::Discard);
}

#[test]
fn records_survive_the_process_with_their_turn() {
    let mut gap = rule("a", "TODO");
    gap.repeat = Some(Repeat::AfterGap { turns: 3 });
    let mut first = engine(vec![gap.clone()]);
    for _ in 0..5 {
        first.begin_turn();
        first.end_turn();
    }
    assert_eq!(text(&mut first, &["TODO"]), at(0, "a!"));
    first.end_turn();
    let json = serde_json::to_string(&first.injected_records()).expect("they are data");
    assert_eq!(json, r#"[{"name":"a","turn":5,"atMs":0,"count":1}]"#);
    let records: Vec<InjectedRecord> = serde_json::from_str(&json).expect("it was written by serde");
    let mut second = engine(vec![gap]);
    second.restore(records);
    second.set_current_turn(first.current_turn());
    let mut fired = Vec::new();
    for _ in 6..10 {
        second.begin_turn();
        fired.push(text(&mut second, &["TODO"]).len());
        second.end_turn();
    }
    assert_eq!(fired, [0, 0, 1, 0]);
}

#[test]
fn rules_are_replaced_between_messages_and_records_stay() {
    let mut engine = engine(vec![rule("a", "TODO"), rule("b", "FIXME")]);
    assert_eq!(text(&mut engine, &["TODO"]), at(0, "a!"));
    engine.check_delta("FIX", &MatchContext::text(0));
    engine.replace_rules(vec![rule("c", "NEW")]);
    // The message keeps the rules it began with.
    assert!(engine.check_delta("ME NEW", &MatchContext::text(0)).is_some_and(|firing| names(&firing) == "b!"));
    engine.end_of_message(0);
    assert_eq!(text(&mut engine, &["TODO FIXME NEW"]), at(0, "c!"));
    engine.begin_turn();
    engine.replace_rules(vec![rule("b", "NEW"), rule("a", "TODO"), rule("d", "NEW")]);
    assert_eq!(text(&mut engine, &["TODO FIXME NEW"]), at(0, "d!"));
    assert_eq!(engine.ledger().rules.len(), 4);
}

#[test]
fn nothing_fires_unless_enabled() {
    let off = RuleSettings::default();
    let mut engine = RuleEngine::new(vec![rule("a", "TODO")], off, EngineOptions::default());
    assert_eq!(text(&mut engine, &["TODO"]), []);
}

#[test]
fn a_rule_may_wait_for_the_end_of_the_word_or_line() {
    let settled = |settle, pattern: &str, deltas: &[&str]| {
        let mut rule = rule("a", pattern);
        rule.settle = settle;
        text(&mut engine(vec![rule]), deltas).first().map(|fired| fired.0)
    };
    let todo = r"\bTODO\b";
    assert_eq!(settled(Settle::Now, todo, &["TODO", "S"]), Some(0));
    assert_eq!(settled(Settle::Word, todo, &["TODO", "S", " "]), None);
    assert_eq!(settled(Settle::Word, todo, &["TODO", " x"]), Some(1));
    assert_eq!(settled(Settle::Word, todo, &["TODO"]), Some(1));
    assert_eq!(settled(Settle::Word, "TODO", &["TODO", "S", "é", "."]), Some(3));
    assert_eq!(settled(Settle::Word, "f\\(", &["f(", "x"]), Some(1));
    assert_eq!(settled(Settle::Line, todo, &["TODO", " x", "y\nz", "w"]), Some(2));
    assert_eq!(settled(Settle::Line, todo, &["TODO", " x"]), Some(2));
    assert_eq!(settled(Settle::Line, "TODO$", &["TODO", "", "x", "\n"]), None);
    assert_eq!(settled(Settle::Line, "TODO$", &["TODO", "\n"]), Some(1));
    assert_eq!(settled(Settle::Line, "TODO\n", &["TODO", "\n"]), Some(1));
}

#[test]
fn a_rule_may_read_code_or_prose_alone() {
    let region = |region, pattern: &str, deltas: &[&str]| {
        let mut rule = rule("a", pattern);
        rule.region = region;
        text(&mut engine(vec![rule]), deltas).first().map(|fired| fired.0)
    };
    let reply = ["Avoid eval(", ".\n```js\nev", "al(1)\n``", "`\nThen ev", "al(2)"];
    assert_eq!(region(Region::Any, r"eval\(", &reply), Some(0));
    assert_eq!(region(Region::Code, r"eval\(", &reply), Some(2));
    assert_eq!(region(Region::Prose, r"eval\(\d", &reply), Some(4));
    // Each block is a separate text; prose continues after it.
    let reply = ["one\n```\na\n```\n", "```\nb\n", "```\ntwo"];
    assert_eq!(region(Region::Code, r"a\s+b", &reply), None);
    assert_eq!(region(Region::Code, r"(?<![^])b", &reply), Some(1));
    assert_eq!(region(Region::Prose, r"one\ntwo", &reply), Some(2));
}

#[test]
fn a_site_in_a_code_block_is_that_of_the_reply() {
    let mut code = rule("a", r"eval\(");
    code.region = Region::Code;
    let mut engine = engine(vec![code]);
    let firing = engine.check_delta("x\n```\n\n  eval(1)\n", &MatchContext::text(0)).expect("it fires");
    let site = &firing.rules[0].site;
    assert_eq!((site.offset, site.line, site.column, site.excerpt.as_str()), (14, 4, 8, "  eval(1)"));
}

#[test]
fn arguments_of_tools_are_code() {
    let mut code = rule("code", "TODO");
    code.region = Region::Code;
    let mut prose = rule("prose", "TODO");
    prose.region = Region::Prose;
    let mut engine = engine(vec![code, prose]);
    assert_eq!(call(&mut engine, "bash", r#"{"command":"TODO"}"#), after(r#"{"command":"TODO"#, "code!"));
}

#[test]
fn a_window_may_be_a_line_or_a_delta() {
    let window = |window, pattern: &str, deltas: &[&str]| {
        let mut rule = rule("a", pattern);
        rule.conditions[0].flags = String::new();
        rule.window = window;
        text(&mut engine(vec![rule]), deltas).first().map(|fired| fired.0)
    };
    assert_eq!(window(Window::Line, "^b$", &["a\nb", "\nc"]), Some(0));
    assert_eq!(window(Window::Line, "^b$", &["a\nbc", "\nc"]), None);
    assert_eq!(window(Window::Line, "^b$", &["a\r", "\nb", "x\r\nb\r\n"]), Some(1));
    assert_eq!(window(Window::Line, "b$", &["ab\r\nc"]), Some(0));
    assert_eq!(window(Window::Line, "a\\sb", &["a\nb"]), None);
    assert_eq!(window(Window::Line, "b$", &["ab", "\r", "\n"]), Some(0));
    assert_eq!(window(Window::Chunk, "^b$", &["a", "b", "c"]), Some(1));
    assert_eq!(window(Window::Chunk, "ab", &["a", "b"]), None);
    assert_eq!(window(Window::Accumulated, "ab", &["a", "b"]), Some(1));
}

#[test]
fn thinking_is_read_if_it_is_in_scope() {
    let mut thinking = rule("a", "TODO");
    thinking.scope = vec![ScopeToken::Thinking];
    let mut engine = engine(vec![thinking, rule("b", "TODO")]);
    let firing = engine.check_delta("TODO", &MatchContext::thinking(0)).expect("it fires");
    assert_eq!(names(&firing), "a!");
}

#[test]
fn edits_that_are_the_text_of_their_json_are_read_as_edits() {
    let mut engine = RuleEngine::new(
        vec![
            Rule {
                scope: vec![tool(Some("edit"), Some("*.ts"))],
                repeat: Some(Repeat::AfterGap { turns: 0 }),
                ..rule("a", "NEW")
            },
            Rule { scope: vec![tool(Some("edit"), Some("*.py"))], ..rule("b", "NEW") },
        ],
        settings(),
        EngineOptions::default(),
    );
    let edits =
        r#"[{"oldText": "x", "newText": "y"}, {"oldText": "NEW", "newText": "q\"OLD\n"}, {"newText": "a\tNEW"}]"#;
    let path_first = serde_json::json!({"path": "a.ts", "edits": edits}).to_string();
    let at = path_first.rfind("NEW").expect("it is there") + 3;
    assert_eq!(call(&mut engine, "edit", &path_first), after(&path_first[..at], "a!"));
    let text = serde_json::Value::from(edits).to_string();
    let path_last = format!(r#"{{"edits": {text}, "path": "a.ts"}}"#);
    assert_eq!(call(&mut engine, "edit", &path_last), after(&path_last[..path_last.len() - 1], "a!"));
    // The other arguments are read as before.
    let flat = r#"{"edits": "[]", "path": "a.ts", "newText": "NEW"}"#;
    assert_eq!(call(&mut engine, "edit", flat), after(&flat[..flat.len() - 2], "a!"));
    let old = r#"{"path": "a.ts", "edits": "[{\"oldText\": \"NEW\", \"newText\": \"\"}]"}"#;
    assert_eq!(call(&mut engine, "edit", old), []);
}

#[test]
fn an_edit_is_judged_by_what_it_adds() {
    let fires = |arguments: &str| call(&mut engine(vec![rule("a", "TODO")]), "edit", arguments);
    assert_eq!(fires(r#"{"path":"TODO.md","old_string":"TODO","new_string":"done"}"#), []);
    let text = r#"{"path":"a","edits":[{"oldText":"TODO","newText":"x"},{"oldText":"y","newText":"TODO"#;
    assert_eq!(fires(&format!("{text}\"}}]}}")), after(text, "a!"));
    assert_eq!(fires(r#"{"input":"*** Update File: a\n-TODO\n+x\n TODO"}"#), []);
    assert_eq!(fires(r#"{"path":"a","edits":[{"op":"create","diff":"TODO"}]}"#).len(), 1);
    assert_eq!(fires(r#"{"path":"a","edits":[{"op":"update","diff":"TODO"}]}"#), []);
}

#[test]
fn arguments_are_matched_decoded() {
    let fires = |arguments: &str| call(&mut engine(vec![rule("a", "^rm -rf /$")]), "bash", arguments);
    let text = r#"{"command":"cd x\nrm -rf \/"#;
    assert_eq!(fires(&format!("{text}\"}}")), after(text, "a!"));
    // Two values are separate texts.
    assert_eq!(fires(r#"{"a":"rm ","b":"-rf /"}"#), []);
}

#[test]
fn a_match_waits_for_its_path() {
    let mut typescript = rule("a", "eval");
    typescript.scope = vec![tool(Some("write"), Some("*.ts"))];
    let fires = |arguments: &str| call(&mut engine(vec![typescript.clone()]), "write", arguments);
    let text = r#"{"content":"eval(1)","path":"src/a.ts""#;
    assert_eq!(fires(&format!("{text}}}")), after(text, "a!"));
    let text = r#"{"path":"src/a.ts","content":"eval"#;
    assert_eq!(fires(&format!("{text}(1)\"}}")), after(text, "a!"));
    assert_eq!(fires(r#"{"content":"eval(1)","path":"src/a.rs"}"#), []);
    assert_eq!(fires(r#"{"content":"eval(1)"}"#), []);
    // A truncated path is used as it is.
    assert_eq!(fires(r#"{"content":"eval(1)","path":"src/a.ts"#), after("end", "a!"));
}

#[test]
fn a_path_is_used_once_it_is_complete() {
    let mut typescript = rule("a", "eval");
    typescript.globs = vec!["*.ts".to_owned()];
    let mut others = rule("b", "eval");
    others.globs = vec!["!*.md".to_owned()];
    for settle in [Settle::Now, Settle::Word] {
        (typescript.settle, others.settle) = (settle, settle);
        let fires = |arguments: &str| call(&mut engine(vec![typescript.clone(), others.clone()]), "write", arguments);
        assert_eq!(fires(r#"{"content":"eval(1)","path":"x.md"}"#), []);
        let text = r#"{"content":"eval(1)","path":"src/a.tsx""#;
        assert_eq!(fires(&format!("{text}}}")), after(text, "b!"));
        let text = r#"{"content":"eval(1)","path":"src/a.ts""#;
        assert_eq!(fires(&format!("{text}}}")), after(text, "a! b!"));
        let text = r#"{"notes_path":"x.md","content":"eval(1)","path":"a.go""#;
        assert_eq!(fires(&format!("{text}}}")), after(text, "b!"));
    }
}

#[test]
fn a_match_waits_without_cost() {
    let judgements = |matches: usize, paths: usize| {
        let mut typescript = rule("a", "TODO");
        typescript.scope = vec![tool(Some("edit"), Some("*.ts"))];
        let mut engine = engine(vec![typescript]);
        let context = MatchContext::tool("edit", "call", 0);
        let path = |number: usize| format!("\"dir/file{number}.py\"");
        let names: Vec<String> = (0..paths).map(path).collect();
        let mut deltas = vec![format!("{{\"paths\":[{}],\"edits\":[", names.join(","))];
        deltas.extend((0..matches).map(|_| "{\"newText\":\"TODO\"},".to_owned()));
        deltas.push("],\"paths\":[".to_owned());
        deltas.extend(names.iter().map(|name| format!("{name},")));
        for delta in deltas {
            assert!(engine.check_delta(&delta, &context).is_none());
        }
        let before = engine.stats().judgements;
        assert!(engine.check_delta("\"a.ts\"", &context).is_some());
        assert!(engine.end_of_call(&context).is_none());
        (before, engine.stats().judgements - before)
    };
    // One judgement for each match, and two for each path, which was known before or came later.
    assert_eq!(judgements(100, 10).0, 120);
    assert_eq!(judgements(4_000, 100).0, 4_200);
    // Each match is visited once for each object around it.
    assert!(judgements(4_000, 100).1 < 2 * 4_000 + 10);
}

#[test]
fn a_path_belongs_to_the_texts_of_its_object() {
    let mut python = rule("a", "except:");
    python.globs = vec!["*.py".to_owned()];
    let fires = |arguments: &str| call(&mut engine(vec![python.clone()]), "lint", arguments).len();
    assert_eq!(fires(r#"{"files":[{"path":"a.py","text":"x"},{"path":"b.ts","text":"except:"}]}"#), 0);
    assert_eq!(fires(r#"{"files":[{"path":"a.ts","text":"x"},{"text":"except:","path":"b.py"}]}"#), 1);
    assert_eq!(fires(r#"{"paths":["a.ts","b.py"],"files":[{"text":"except:"}]}"#), 1);
    let mut engine = engine(vec![python.clone()]);
    let patch = r#"{"input":"*** Update File: a.ts\n+except:\n*** Update File: b.py\n+x\n"}"#;
    assert_eq!(call(&mut engine, "apply_patch", patch), []);
    let patch = r#"{"input":"*** Update File: a.ts\n+x\n*** Update File: b.py\n+except:\n"}"#;
    let fired = call(&mut engine, "apply_patch", patch);
    assert_eq!(fired.len(), 1);
}

#[test]
fn calls_are_distinguished_by_id() {
    let mut engine = engine(vec![rule("a", "TODO")]);
    let (one, two) = (MatchContext::tool("bash", "1", 0), MatchContext::tool("bash", "2", 0));
    assert!(engine.check_delta(r#"{"c":"TO"#, &one).is_none());
    assert!(engine.check_delta(r#"{"c":"DO"#, &two).is_none());
    let firing = engine.check_delta("DO", &one).expect("it fires");
    assert_eq!(firing.call.as_deref(), Some("1"));
}

#[test]
fn a_snapshot_replaces_the_text() {
    let mut engine = engine(vec![rule("a", "TODO"), rule("b", "end$")]);
    engine.check_delta("TO", &MatchContext::text(0));
    assert!(engine.check_snapshot("DO", &MatchContext::text(0)).is_none());
    assert!(engine.check_snapshot("a TODO", &MatchContext::text(0)).is_some());
    let context = MatchContext { paths: &["src/a.rs"], ..MatchContext::tool("write", "1", 0) };
    let firing = engine.check_snapshot("the end", &context).expect("it fires");
    assert_eq!(firing.rules[0].site.path.as_deref(), Some("src/a.rs"));
}

#[test]
fn the_trace_has_the_reason_why_a_match_did_not_fire() {
    let mut scoped = rule("scoped", "TODO");
    scoped.scope = vec![ScopeToken::Thinking];
    let mut settled = rule("settled", r"TODO\b");
    settled.settle = Settle::Line;
    let mut globbed = rule("globbed", "TODO");
    globbed.globs = vec!["*.rs".to_owned()];
    let options = EngineOptions { trace: 100, ..EngineOptions::default() };
    let mut engine = RuleEngine::new(vec![rule("once", "TODO"), scoped, settled, globbed], settings(), options);
    text(&mut engine, &["TODO"]);
    text(&mut engine, &["TODO"]);
    call(&mut engine, "write", r#"{"content":"TODO","path":"a.ts"}"#);
    call(&mut engine, "write", r#"{"content":"TODO"}"#);
    let outcomes: Vec<(&str, &Outcome)> = engine.trace().map(|entry| (entry.rule.as_str(), &entry.outcome)).collect();
    let has = |name, outcome: &Outcome| outcomes.contains(&(name, outcome));
    assert!(has("once", &Outcome::Fired { interrupts: true, degraded: None }));
    assert!(has("once", &Outcome::Repeat(Blocked::Once { turn: 0 })));
    assert!(has("scoped", &Outcome::OutOfScope));
    assert!(has("settled", &Outcome::Unsettled));
    assert!(has("settled", &Outcome::Fired { interrupts: true, degraded: None }));
    assert!(has("globbed", &Outcome::PathMismatch { paths: vec!["a.ts".to_owned()] }));
    assert!(has("globbed", &Outcome::PathUnknown));
}

#[test]
fn a_pattern_that_needs_backtracking_is_tested_on_the_text() {
    let mut engine = engine(vec![rule("a", r"\b(\w+) \1\b")]);
    assert_eq!(text(&mut engine, &["it is ", "ver", "y v", "ery", " good"]), at(3, "a!"));
}

#[test]
fn a_pattern_that_backtracks_too_much_is_given_up_and_reported() {
    let mut engine = engine(vec![rule("slow", r"(a*)*\1(?<=c\1)b"), rule("a", "TODO")]);
    let slow = format!("{}b", "a".repeat(64));
    assert_eq!(text(&mut engine, &[&slow, &slow, " TODO"]), at(2, "a!"));
    let reports: Vec<String> = engine.take_reports().iter().map(ToString::to_string).collect();
    assert_eq!(
        reports,
        [
            r"rule slow, condition `(a*)*\1(?<=c\1)b`: it backtracks too much on this text, and is not tested on the rest"
        ]
    );
    assert_eq!(engine.take_reports(), []);
}

#[test]
fn a_pattern_with_many_states_silences_no_rule() {
    let mut engine = engine(vec![rule("gap", r"[aeiou][\s\S]{30}zz"), rule("a", r"\bTODO\b")]);
    let mut state = 7_u32;
    for _ in 0..20_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let delta = if state >> 31 == 0 { "the sky " } else { "my rhyth" };
        assert!(engine.check_delta(delta, &MatchContext::text(0)).is_none());
    }
    assert_eq!(engine.take_reports(), []);
    let end = format!(" TODO e{}zz", "x".repeat(30));
    let firing = engine.check_delta(&end, &MatchContext::text(0)).expect("it fires");
    assert_eq!(names(&firing), "gap! a!");
}

#[test]
fn an_invalid_condition_does_not_affect_the_others() {
    let mut broken = rule("a", "([unclosed");
    broken.conditions.push(Condition { source: "TODO".to_owned(), flags: String::new() });
    let mut engine = engine(vec![broken]);
    let firing = engine.check_delta("TODO", &MatchContext::text(0)).expect("it fires");
    assert_eq!(firing.rules[0].site.pattern, PatternIndex::Regex(1));
    assert_eq!(engine.take_reports().len(), 1);
}

#[cfg(feature = "ast")]
#[test]
fn ast_conditions_read_code_blocks_and_new_code() {
    let mut debug = Rule::new("a", Origin::Project, "x");
    debug.ast_conditions.push("console.debug($$$ARGS)".to_owned());
    let fires = |deltas: &[&str]| text(&mut engine(vec![debug.clone()]), deltas);
    assert_eq!(fires(&["Use console.debug(1):\n", "```ts\n// console.debug(1)\nf()\n```\n"]), []);
    assert_eq!(fires(&["See:\n```ts\nconsole.de", "bug(1)\n`", "``\nend"]), at(2, "a!"));
    assert_eq!(fires(&["```ts\nconsole.debug(1)"]), at(1, "a!"));
    let mut engine = engine(vec![debug.clone()]);
    let firing =
        engine.check_delta("See:\n```ts\n\n  console.debug(1)\n```\n", &MatchContext::text(0)).expect("it fires");
    let site = &firing.rules[0].site;
    assert_eq!((site.line, site.column, site.excerpt.as_str()), (4, 3, "  console.debug(1)"));
    let edit = r#"{"path":"a.ts","old_string":"console.debug(1)","new_string":"f()"}"#;
    assert_eq!(call(&mut super::tests::engine(vec![debug.clone()]), "edit", edit), []);
    let edit = r#"{"new_string":"console.debug(1)","path":"a.ts"}"#;
    assert_eq!(call(&mut super::tests::engine(vec![debug]), "edit", edit), after("end", "a"));
}

#[test]
fn a_session_may_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<RuleEngine>();
}
