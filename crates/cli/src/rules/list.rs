//! `pi rules list` and `pi rules show`.

use super::FromArgs;
use super::set::RuleSet;
use crate::args::similar;
use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::output::stdout;
use pijs_rules::{Activity, Bucket, Condition, InterruptMode, Rule, ScopeToken};
use serde_json::{Value, json};
use std::path::Path;

/// Runs `pi rules list`.
pub(crate) fn list(environment: &Environment, from: &FromArgs) -> Result<()> {
    let set = from.read(environment)?;
    let rules = set.with_activity();
    if from.json {
        let rows: Vec<Value> = rules.iter().map(|(rule, activity)| to_json(rule, activity)).collect();
        let off: Vec<Value> = set
            .files
            .iter()
            .flat_map(|file| &file.disabled)
            .map(|rule| json!({"name": rule.name, "path": rule.path, "bucket": "inactive", "reason": "disabledByFile"}))
            .collect();
        let rows = json!({"on": set.is_on, "rules": rows, "disabled": off, "problems": set.problems, "untrusted": set.untrusted});
        stdout(&rows.to_string());
        return Ok(());
    }
    let width = rules.iter().map(|(rule, _)| rule.name.as_str().chars().count()).max().unwrap_or(0).clamp(4, 32);
    for (rule, activity) in &rules {
        let state = match &activity.reason {
            None => format!("active    {}", interrupts(rule, &set)),
            Some(reason) => format!("{:<9} {reason}", activity.bucket.to_string()),
        };
        stdout(&format!("{:<width$}  {state}", rule.name.as_str()));
        let place = rule.path.as_deref().map_or_else(|| "built-in".to_owned(), |path| shown(environment, path));
        let description = rule.description.as_ref().map_or_else(String::new, |text| format!(": {text}"));
        stdout(&format!("{:<width$}    {place}{description}", ""));
    }
    for rule in set.files.iter().flat_map(|file| &file.disabled) {
        stdout(&format!("{:<width$}  off       its file says `enabled: false`", rule.name.as_str()));
    }
    for problem in &set.problems {
        stdout(&format!("warning: {problem}"));
    }
    if let Some(folder) = &set.untrusted {
        let folder = shown(environment, folder);
        stdout(&format!("the rules in {folder} do not count in sessions until you trust this folder: pi trust"));
    }
    if rules.is_empty() {
        stdout("no rules here; `pi rules init` writes one");
    } else if !set.is_on {
        stdout("rules are off: turn them on with `pi --rules`, or \"ttsr\": {\"enabled\": true} in settings.json");
    }
    Ok(())
}

/// Runs `pi rules show`.
pub(crate) fn show(environment: &Environment, name: &str, from: &FromArgs) -> Result<()> {
    let set = from.read(environment)?;
    let (rule, activity) = find(&set, name)?;
    if from.json {
        let mut row = to_json(&rule, &activity);
        row["content"] = json!(rule.content);
        stdout(&row.to_string());
        return Ok(());
    }
    let place = rule.path.as_deref().map_or_else(|| "built-in".to_owned(), |path| shown(environment, path));
    let state =
        activity.reason.as_ref().map_or_else(|| "active".to_owned(), |reason| format!("{}: {reason}", activity.bucket));
    let mut rows = vec![("rule", rule.name.to_string()), ("file", place), ("state", state)];
    rows.extend(rule.description.iter().map(|text| ("description", text.clone())));
    rows.extend(rule.conditions.iter().map(|condition| ("condition", literal(condition))));
    rows.extend(rule.ast_conditions.iter().map(|pattern| ("astCondition", pattern.clone())));
    rows.extend(rule.question.iter().map(|question| ("question", question.clone())));
    rows.push(("scope", scope(&rule)));
    if !rule.globs.is_empty() {
        rows.push(("globs", rule.globs.join(", ")));
    }
    rows.push(("fires", interrupts(&rule, &set)));
    for (label, value) in rows {
        stdout(&format!("{label:<13} {value}"));
    }
    stdout(&format!("\n{}", rule.content.trim_end()));
    Ok(())
}

/// Finds a rule by its name: the one that counts.
pub(crate) fn find(set: &RuleSet, name: &str) -> Result<(Rule, Activity)> {
    let rules = set.with_activity();
    let is_named = |(rule, _): &&(Rule, Activity)| rule.name.as_str() == name;
    let named: Vec<&(Rule, Activity)> = rules.iter().filter(is_named).collect();
    let counts = named.iter().find(|(_, activity)| activity.bucket != Bucket::Inactive).or(named.first());
    if let Some((rule, activity)) = counts {
        return Ok((rule.clone(), activity.clone()));
    }
    let names = rules.iter().map(|(rule, _)| rule.name.as_str());
    let failure = Failure::failed(format!("there is no rule {name:?} here"));
    Err(match similar(name, names) {
        Some(near) => failure.help(format!("did you mean {near:?}? `pi rules list` lists them")),
        None => failure.help("`pi rules list` lists them"),
    })
}

fn to_json(rule: &Rule, activity: &Activity) -> Value {
    let mut row = serde_json::to_value(rule).expect("a rule is plain values");
    let members = row.as_object_mut().expect("a rule is an object");
    members.shift_remove("content");
    if let Value::Object(activity) = serde_json::to_value(activity).expect("an activity is plain values") {
        members.extend(activity);
    }
    row
}

/// Writes a path from the home or the working folder.
pub(crate) fn shown(environment: &Environment, path: &Path) -> String {
    let dirs = &environment.dirs;
    if let Ok(rest) = path.strip_prefix(&dirs.cwd) {
        return rest.display().to_string();
    }
    path.strip_prefix(&dirs.home).map_or_else(|_| path.display().to_string(), |rest| format!("~/{}", rest.display()))
}

fn literal(condition: &Condition) -> String {
    format!("/{}/{}", condition.source, condition.flags)
}

fn scope(rule: &Rule) -> String {
    if rule.scope.is_empty() {
        return "text, tool".to_owned();
    }
    let token = |token: &ScopeToken| match token {
        ScopeToken::Text => "text".to_owned(),
        ScopeToken::Thinking => "thinking".to_owned(),
        ScopeToken::Tool { name, glob } => {
            let name = name.as_ref().map_or_else(|| "tool".to_owned(), |name| format!("tool:{name}"));
            glob.as_ref().map_or_else(|| name.clone(), |glob| format!("{name}({glob})"))
        }
        other => format!("{other:?}"),
    };
    rule.scope.iter().map(token).collect::<Vec<_>>().join(", ")
}

fn interrupts(rule: &Rule, set: &RuleSet) -> String {
    match rule.interrupt_mode.unwrap_or(set.settings.interrupt_mode) {
        InterruptMode::Never => "reminds",
        InterruptMode::ProseOnly => "stops text and thinking, reminds on tools",
        InterruptMode::ToolOnly => "stops tool calls, reminds on text and thinking",
        InterruptMode::Always => "stops the reply",
    }
    .to_owned()
}
