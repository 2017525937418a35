use super::*;
use crate::activity::{self, Bucket, Reason};
use crate::lint;
use crate::rule::{Condition, ScopeToken};
use crate::scope;
use crate::settings::RuleSettings;
use serde_json::Value;
use std::fs;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/rules")
}

/// Lists the files of a folder by name.
fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(&path).expect("a text"))).collect()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|item| item.as_str().expect("a text").to_owned()).collect()
}

#[cfg_attr(not(feature = "ast"), ignore = "rules of AST conditions alone never fire without them")]
#[test]
fn rules_have_the_members_that_oh_my_pi_gives_them() {
    let folder = fixtures().join("oracle");
    let expected: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("expected.json")).expect("a file")).expect("JSON");
    let parsed: Vec<ParsedFile> = files(&folder.join("rules"))
        .iter()
        .map(|(path, text)| parse(path, text, Format::Omp, Origin::Project))
        .collect();
    let rules: Vec<&Rule> = parsed.iter().flat_map(|file| &file.rules).collect();
    let listed: Vec<&Value> =
        expected["rules"].as_array().expect("a list").iter().filter(|rule| rule["provider"] == "agents").collect();
    let mut names: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    names.sort_unstable();
    let mut expected_names: Vec<&str> = listed.iter().filter_map(|rule| rule["name"].as_str()).collect();
    expected_names.sort_unstable();
    assert_eq!(names, expected_names);
    let settings = RuleSettings { enabled: true, ..RuleSettings::default() };
    for expected in listed {
        let rule = rules.iter().find(|rule| rule.name.as_str() == expected["name"]).expect("a rule");
        let name = rule.name.as_str();
        let conditions: Vec<Condition> =
            strings(&expected["condition"]).iter().map(|text| Condition::from_inline(text)).collect();
        assert_eq!(rule.conditions, conditions, "{name}");
        assert_eq!(rule.ast_conditions, strings(&expected["astCondition"]), "{name}");
        let scope: Vec<ScopeToken> = strings(&expected["scope"])
            .into_iter()
            .map(|token| scope::parse_token(&token).unwrap_or(ScopeToken::Unreadable { token }))
            .collect();
        assert_eq!(rule.scope, scope, "{name}");
        assert_eq!(rule.globs, strings(&expected["globs"]), "{name}");
        assert_eq!(rule.agents, strings(&expected["agents"]), "{name}");
        assert_eq!(rule.always_apply, expected["alwaysApply"] == true, "{name}");
        assert_eq!(rule.description.as_deref(), expected["description"].as_str(), "{name}");
        assert_eq!(rule.question.as_deref(), expected["question"].as_str(), "{name}");
        let mode = rule.interrupt_mode.map(|mode| serde_json::to_value(mode).expect("JSON"));
        assert_eq!(mode.as_ref(), expected.get("interruptMode"), "{name}");
        let activity = activity::activity(rule, &settings, Some(activity::MAIN_AGENT));
        let bucket = match (activity.bucket, activity.reason) {
            // oh-my-pi may let a model judge it after the reply, and reads no stream for it either.
            (Bucket::Stream, _) | (_, Some(Reason::Judged)) => "ttsr",
            (Bucket::Always, _) => "always",
            (Bucket::Rulebook, _) => "rulebook",
            (Bucket::Inactive, _) => "none",
        };
        assert_eq!(bucket, expected["bucket"], "{name}");
    }
    // Of the files that oh-my-pi ignores, one has no text and one is disabled.
    let without = |file: &&ParsedFile| file.rules.is_empty();
    let left_out: Vec<(String, usize)> = parsed
        .iter()
        .filter(without)
        .map(|file| (file.path.file_name().unwrap_or_default().to_string_lossy().into_owned(), file.disabled.len()))
        .collect();
    assert_eq!(left_out, [("dv-disabled.md".to_owned(), 1), ("dv-empty.md".to_owned(), 0)]);
    let empty = parsed.iter().find(|file| file.path.ends_with("dv-empty.md")).expect("a file");
    assert!(empty.diagnostics.iter().any(|found| found.message == "the rule has no text"), "{:?}", empty.diagnostics);
    assert_eq!(expected["warnings"].as_array().map(Vec::len), Some(1));
}

/// Parses the fixtures of a folder. The path of each is its file name.
fn parsed(folder: &Path) -> Vec<ParsedFile> {
    let parse = |(path, text): &(PathBuf, String)| {
        let name = Path::new(path.file_name().expect("a name"));
        parse(name, text, Format::of_path(name), Origin::Project)
    };
    files(folder).iter().map(parse).collect()
}

fn assert_snapshot(name: &str, content: &str) {
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(fixtures());
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, content));
}

#[test]
#[cfg_attr(not(feature = "ast"), ignore = "patterns of ast-grep are among the fixtures")]
fn each_mistake_has_a_position_and_a_hint() {
    let findings = lint::lint(&parsed(&fixtures().join("files")), &RuleSettings::default());
    let page: String = findings.iter().map(|found| found.render() + "\n\n").collect();
    assert_snapshot("findings", &page);
}

#[test]
fn keys_become_members() {
    let mut page = String::new();
    for file in parsed(&fixtures().join("files")) {
        for rule in file.rules.iter().chain(&file.disabled) {
            let plain = serde_json::to_value(Rule::new("", Origin::Project, "")).expect("JSON");
            let mut members = serde_json::to_value(rule).expect("JSON");
            let members = members.as_object_mut().expect("an object");
            members.retain(|key, value| plain.get(key) != Some(value) && key != "path");
            let off = if file.rules.is_empty() { " (off)" } else { "" };
            page += &format!("{}{off}\n", file.path.display());
            for (key, value) in members {
                page += &format!("    {key}: {value}\n");
            }
        }
    }
    assert_snapshot("members", &page);
}

#[test]
fn limits_apply_to_any_file() {
    let parse = |text: &str| parse(Path::new("a.md"), text, Format::Pi, Origin::Project);
    let front = |front: &str| parse(&format!("---\n{front}\n---\ntext"));
    let says = |file: &ParsedFile, text: &str| {
        let found = file.diagnostics.iter().any(|found| found.message.contains(text));
        assert!(found, "{text}: {:?}", file.diagnostics.first());
    };
    says(&parse(&"x".repeat(MAX_FILE + 1)), "more than 1048576");
    says(&front(&format!("a: {}", "x".repeat(front::MAX_FRONT_MATTER))), "more than 65536 bytes");
    says(&front(&format!("a: {}{}", "[".repeat(40), "]".repeat(40))), "nested more than 32 deep");
    says(&front(&format!("a:\n  {}x", "- ".repeat(30_000))), "nested more than 32 deep");
    says(&front(&format!("{}x", "? ".repeat(30_000))), "nested more than 32 deep");
    let many: String = (0..300).map(|n| format!("\n  - 'x{n}'")).collect();
    let file = front(&format!("condition:{many}"));
    assert_eq!(file.rules[0].conditions.len(), MAX_CONDITIONS);
    says(&file, "more than 200 items");
    // Each line expands to ten times the line before it.
    let mut bomb = "a0: &a0 [x, x]\n".to_owned();
    for n in 1..12 {
        bomb += &format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(", "));
    }
    says(&front(&bomb), "more than 10000 values");
    let shared = front("scope: &s [text]\ncondition: &c ['a', 'b']\nastCondition: *c");
    assert_eq!(shared.rules[0].ast_conditions, ["a", "b"]);
    for hostile in [
        "a: &a [*a]",
        "{",
        "}",
        "\u{0}",
        "%YAML 9\n---\na",
        "!!binary x: y",
        "? a\n: b",
        "- - -",
        "condition: |\n  a\n  (b",
        "condition: >-\n  (a\n  b",
        "condition: 'a\n  (b'",
        "condition: \"a\\\n  (b\"",
        "condition: \"\\U0001F600(\"",
        "scope: ''''",
        "scope: \"'\"",
        "globs: '[z-a]'",
        "globs: '\\'",
        "trigger: \"\\u12\"",
        "trigger: \"\\é\"",
        "trigger: \"\\uéé\"",
    ] {
        let _ = lint::lint(&[front(hostile), parse(hostile)], &RuleSettings::default());
    }
    let braces = format!("scope: 'tool({}{})'", "{a,".repeat(240), "}".repeat(240));
    let stars = format!("globs: '{}'", "**/".repeat(330));
    let names = format!("condition: '{}'", (0..700).map(|n| format!("(?<g{n}>)")).collect::<String>());
    for hostile in [braces, stars, names] {
        let _ = lint::lint(&[front(&hostile)], &RuleSettings::default());
    }
    for text in ["", "-", "---", "---\n", "---\n---", "---\n---\n", "---é\n---", "----\n---", "\u{FEFF}---\n---\nx"] {
        parse(text);
    }
}

#[cfg(feature = "ast")]
#[test]
fn a_bad_ast_condition_is_found() {
    let found = |condition: &str| -> Vec<String> {
        let text = format!("---\nastCondition:\n  - 'f($A)'\n  - '{condition}'\n---\nbody");
        let file = super::parse(Path::new("a.md"), &text, Format::Pi, Origin::Project);
        lint::lint(&[file], &RuleSettings::default()).iter().map(ToString::to_string).collect()
    };
    assert_eq!(found("g($A)"), [""; 0]);
    let alone = "a.md:4:6: error: astCondition 2 consists of `$$$` alone (write `$NAME` for one node, or put it into code such \
                 as `f($$$ARGS)`)";
    assert_eq!(found("$$$A"), [alone]);
    let broken = found("f(");
    assert!(broken[0].starts_with("a.md:4:6: error: astCondition 2 has a syntax error in "), "{broken:?}");
}

/// Returns the rule files in the code fences of a page.
fn rule_files(page: &str) -> Vec<String> {
    let fences = page.split("```").skip(1).step_by(2);
    let file = |fence: &str| {
        let begin = fence.find("\n---\n")? + 1;
        // A here-document ends with its delimiter.
        Some(fence[begin..].split("\nRULE\n").next().unwrap_or_default().to_owned())
    };
    fences.filter_map(file).collect()
}

/// Returns the lint findings for a rule file.
fn linted(text: &str) -> String {
    let file = parse(Path::new("page.md"), text, Format::Pi, Origin::Project);
    assert_eq!(file.rules.len(), 1, "{text}");
    lint::lint(&[file], &RuleSettings::default()).iter().map(|found| found.render() + "\n\n").collect()
}

#[test]
fn rules_in_documents_have_no_findings() {
    for page in [include_str!("../../../../docs/guide/rules.md"), include_str!("../../../../README.md")] {
        let files = rule_files(page);
        assert!(!files.is_empty());
        for text in files {
            assert_eq!(linted(&text), "", "{text}");
        }
    }
}

#[test]
fn the_table_of_keys_has_every_key_and_no_other() {
    let page = include_str!("../../../../docs/guide/rules.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("| key | value |")).skip(2);
    let cells = rows.take_while(|line| line.starts_with('|')).filter_map(|row| row.split('|').nth(1));
    let mut named: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    // Keys of other programs are named below the table.
    named.extend(["question", "trigger"]);
    let mut keys = KEYS.to_vec();
    named.sort_unstable();
    keys.sort_unstable();
    assert_eq!(named, keys);
}

#[cfg_attr(not(feature = "ast"), ignore = "one of the lines is a pattern of ast-grep")]
#[test]
fn each_line_of_the_example_has_no_findings() {
    let example = include_str!("../../../cli/src/rules/init/example.md");
    assert_eq!(linted(example), "");
    let is_key = |line: &&str| line.strip_prefix('#').is_some_and(|line| line.starts_with(char::is_alphabetic));
    let lines: Vec<&str> = example.lines().filter(is_key).collect();
    assert_eq!(lines.len(), 8);
    for line in lines {
        let text = example.replacen(line, &line[1..], 1);
        assert_eq!(linted(&text), "", "{line}");
    }
}

proptest::proptest! {
    /// Parses arbitrary text, which must not panic.
    #[test]
    fn no_text_makes_parsing_panic(
        front in r#"([a-zA-Z-]{1,12}:)?[ -~\n\t\ré😀'"\[\](){}*&|\\:#,-]{0,80}"#,
        key in "condition|scope|globs|trigger|agents|flags|cooldown|repeat|where|astCondition",
        value in r"\PC{0,40}",
        is_mdc in proptest::bool::ANY,
    ) {
        for text in [
            format!("---\n{front}\n---\nbody"),
            format!("---\n{key}: {value}\n---\nbody"),
            format!("---\n{key}: \"{value}\"\n{front}\n---\nbody"),
            front.clone(),
        ] {
            let path = Path::new(if is_mdc { "a.mdc" } else { "a.md" });
            let file = parse(path, &text, Format::of_path(path), Origin::Project);
            for found in lint::lint(&[file], &RuleSettings::default()) {
                let rendered = found.render();
                proptest::prop_assert!(found.line >= 1 && found.column >= 1 && rendered.contains('^'));
                proptest::prop_assert!(!rendered.contains(|c: char| c.is_control() && c != '\n'), "{rendered:?}");
            }
        }
    }
}
