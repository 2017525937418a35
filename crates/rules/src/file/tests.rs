use super::*;
use crate::rule::{Condition, ScopeToken};
use crate::scope;
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
    }
    // Of the files that oh-my-pi leaves out, one has no text and one is switched off.
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
