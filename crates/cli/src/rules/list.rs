//! `pi rules list` and `pi rules show`.

use super::FromArgs;
use crate::output::{clean, stdout};
use pijs_rules::ast::AstPatterns;
use pijs_rules::diagnostic::printable;
use pijs_rules::{
    Activity, Bucket, CompiledScope, Condition, Diagnostic, Repeat, Rule, ScopeToken, Severity, StreamKind, Window,
    lint,
};
use pijs_runtime::Environment;
use pijs_runtime::rules::RuleSet;
use pijs_runtime::similar_names;
use pijs_runtime::{Result, UserError};
use pijs_terminal::counted;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
        let rows = json!({
            "on": set.is_on, "rules": rows, "disabled": off, "problems": problems(&set), "untrusted": set.untrusted,
        });
        stdout(&rows.to_string());
        return Ok(());
    }
    let findings = Findings::of(&set);
    let unusable: Vec<String> = findings.without_rule(&set).map(|(path, _)| name_of(path)).collect();
    let names = rules.iter().map(|(rule, _)| rule.name.as_str()).chain(unusable.iter().map(String::as_str));
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0).clamp(4, 32);
    for (rule, activity) in &rules {
        let state = match &activity.reason {
            None => format!("active    {}{}", action(rule, &set), findings.note(rule)),
            Some(reason) => format!("{:<9} {reason}{}", activity.bucket.to_string(), findings.note(rule)),
        };
        stdout(&printable(&format!("{:<width$}  {state}", rule.name.as_str())));
        let place = rule.path.as_deref().map_or_else(|| "built-in".to_owned(), |path| shown(environment, path));
        let description = rule.description.as_ref().map_or_else(String::new, |text| format!(": {text}"));
        stdout(&printable(&format!("{:<width$}    {place}{description}", "")));
    }
    let disabled: Vec<&Rule> = set.files.iter().flat_map(|file| &file.disabled).collect();
    for rule in &disabled {
        stdout(&format!("{:<width$}  off       its file says `enabled: false`", printable(rule.name.as_str())));
    }
    for (path, errors) in findings.without_rule(&set) {
        let message = errors.first().map(|error| error.message.as_str()).unwrap_or_default();
        stdout(&printable(&format!("{:<width$}  unusable  {message}", name_of(path))));
        stdout(&printable(&format!("{:<width$}    {}", "", shown(environment, path))));
    }
    for problem in &set.problems {
        stdout(&printable(&format!("warning: {problem}")));
    }
    match findings.errors.len() + set.problems.len() {
        0 => {}
        1 => stdout("1 file has errors: pi rules lint"),
        count => stdout(&format!("{count} files have errors: pi rules lint")),
    }
    if let Some(folder) = &set.untrusted {
        let folder = printable(&shown(environment, folder));
        stdout(&format!("the rules in {folder} have no effect in sessions until you trust this folder: pi trust"));
    }
    if set.files.is_empty() && set.problems.is_empty() {
        stdout(&printable(&set.nothing_found()));
    } else if !set.is_on {
        stdout("rules are off: turn them on with `pi --rules`, or \"ttsr\": {\"enabled\": true} in settings.json");
    }
    Ok(())
}

/// The findings of `pi rules lint`, by file.
struct Findings {
    errors: BTreeMap<PathBuf, Vec<Diagnostic>>,
    warnings: BTreeMap<PathBuf, Vec<Diagnostic>>,
}

impl Findings {
    fn of(set: &RuleSet) -> Self {
        let mut warnings: BTreeMap<PathBuf, Vec<Diagnostic>> = BTreeMap::new();
        for finding in
            lint::lint(&set.files, &set.settings).into_iter().filter(|finding| finding.severity == Severity::Warning)
        {
            warnings.entry(finding.path.clone()).or_default().push(finding);
        }
        Self { errors: errors(set), warnings }
    }

    /// Names the first finding in the file of a rule, as the end of a line about the rule.
    fn note(&self, rule: &Rule) -> String {
        let of = |found: &BTreeMap<PathBuf, Vec<Diagnostic>>, kind: &str| {
            let found = found.get(rule.path.as_deref()?)?;
            let more = match found.len() - 1 {
                0 => String::new(),
                more => format!(" and {}", counted(more, &format!("more {kind}"))),
            };
            Some(format!("; {kind} in its file: {}{more}", found.first()?.message))
        };
        of(&self.errors, "error").or_else(|| of(&self.warnings, "warning")).unwrap_or_default()
    }

    /// Returns the files that have no rule because of their errors.
    fn without_rule<'a>(&'a self, set: &'a RuleSet) -> impl Iterator<Item = (&'a Path, &'a [Diagnostic])> {
        let empty = set.files.iter().filter(|file| file.rules.is_empty() && file.disabled.is_empty());
        empty.filter_map(|file| Some((file.path.as_path(), self.errors.get(&file.path)?.as_slice())))
    }
}

/// Returns the errors in each file that has any. [`RuleSet::problems`] has the files that cannot be read.
fn errors(set: &RuleSet) -> BTreeMap<PathBuf, Vec<Diagnostic>> {
    lint::errors(&set.files, &set.settings)
}

/// Returns the name of the rule that a file would have.
fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the errors in rule files, unreadable files first.
fn problems(set: &RuleSet) -> Vec<String> {
    let errors = errors(set).into_values().flatten().map(|error| error.to_string());
    set.problems.iter().cloned().chain(errors).collect()
}

/// Returns the errors in the file of a rule.
pub(crate) fn errors_of(set: &RuleSet, rule: &Rule) -> Vec<Diagnostic> {
    rule.path.as_ref().and_then(|path| errors(set).remove(path)).unwrap_or_default()
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
    rows.extend(errors_of(&set, &rule).into_iter().map(|error| ("error", error.message)));
    rows.extend(rule.description.iter().map(|text| ("description", text.clone())));
    rows.extend(rule.conditions.iter().map(|condition| ("condition", literal(condition))));
    rows.extend(ast_conditions(&rule).into_iter().map(|pattern| ("astCondition", pattern)));
    rows.extend(rule.question.iter().map(|question| ("question", question.clone())));
    if rule.always_apply {
        rows.push(("alwaysApply", "true".to_owned()));
    }
    if !rule.agents.is_empty() {
        rows.push(("agents", rule.agents.join(", ")));
    }
    if activity.reason.is_none() {
        rows.push(("fires", action(&rule, &set)));
    }
    if !rule.conditions.is_empty() || !rule.ast_conditions.is_empty() {
        rows.extend(settings(&rule, &set));
    }
    for (label, value) in rows {
        stdout(&format!("{label:<17} {}", printable(&value)));
    }
    stdout(&format!("\n{}", clean(rule.content.trim_end())));
    Ok(())
}

/// Lists the scope and the repetition of a rule, by the keys of rule files. Marks values that are not set in the rule.
fn settings(rule: &Rule, set: &RuleSet) -> Vec<(&'static str, String)> {
    let own = |text: String, is_own: bool| if is_own { text } else { format!("{text} (the setting)") };
    let name = |value: Value| value.as_str().unwrap_or_default().to_owned();
    let mut rows = vec![("scope", scope(rule))];
    if !rule.globs.is_empty() {
        rows.push(("globs", rule.globs.join(", ")));
    }
    rows.push(("where", name(json!(rule.region))));
    rows.push(("settle", name(json!(rule.settle))));
    if rule.window != Window::default() {
        rows.push(("reads", name(json!(rule.window))));
    }
    let mode = rule.interrupt_mode.unwrap_or(set.settings.interrupt_mode);
    rows.push(("interruptMode", own(name(json!(mode)), rule.interrupt_mode.is_some())));
    let mode = rule.context_mode.unwrap_or(set.settings.context_mode);
    rows.push(("contextMode", own(name(json!(mode)), rule.context_mode.is_some())));
    let repeat = match rule.repeat.unwrap_or_else(|| set.settings.repeat()) {
        Repeat::Once => "once".to_owned(),
        Repeat::AfterGap { turns: 0 } => "every time".to_owned(),
        Repeat::AfterGap { turns } => format!("after {}", counted(turns as usize, "turn")),
        Repeat::Cooldown { seconds } => format!("after {}", counted(seconds as usize, "second")),
    };
    rows.push(("repeat", own(repeat, rule.repeat.is_some())));
    rows.extend(rule.max_firings.map(|most| ("maxFirings", most.to_string())));
    let most = rule.max_retries_per_turn.unwrap_or(set.settings.max_retries_per_turn);
    rows.push(("maxRetriesPerTurn", own(most.to_string(), rule.max_retries_per_turn.is_some())));
    rows
}

/// Returns the patterns of ast-grep, each with its problem.
fn ast_conditions(rule: &Rule) -> Vec<String> {
    let (_, problems) = AstPatterns::compile(&rule.ast_conditions);
    let mut patterns = rule.ast_conditions.clone();
    for problem in problems.into_iter().filter(|problem| !problem.is_doubt) {
        patterns[problem.index] += &format!(" ({})", problem.message);
    }
    patterns
}

/// Finds the rule that is in use with a name.
pub(crate) fn find(set: &RuleSet, name: &str) -> Result<(Rule, Activity)> {
    let rules = set.with_activity();
    let is_named = |(rule, _): &&(Rule, Activity)| rule.name.as_str() == name;
    let named: Vec<&(Rule, Activity)> = rules.iter().filter(is_named).collect();
    let counts = named.iter().find(|(_, activity)| activity.bucket != Bucket::Inactive).or(named.first());
    if let Some((rule, activity)) = counts {
        return Ok((rule.clone(), activity.clone()));
    }
    if let Some(failure) = unusable(set, name) {
        return Err(failure);
    }
    let names = rules.iter().map(|(rule, _)| rule.name.as_str());
    let failure = UserError::failed(format!("there is no rule {name:?} here"));
    Err(match similar_names(name, names, |near| format!("{near:?}")) {
        Some(near) => failure.help(format!("did you mean {near}? `pi rules list` lists them")),
        None => failure.help("`pi rules list` lists them"),
    })
}

/// Returns the error about a name that is that of a disabled rule, or of a file without a rule.
fn unusable(set: &RuleSet, name: &str) -> Option<UserError> {
    if let Some(off) = set.files.iter().flat_map(|file| &file.disabled).find(|rule| rule.name.as_str() == name) {
        let path = off.path.as_ref().map(|path| printable(&path.display().to_string())).unwrap_or_default();
        let message = format!("the rule {name} is off: {path} says `enabled: false`");
        return Some(UserError::failed(message).help("remove that line"));
    }
    let errors = errors(set);
    let file = set.files.iter().find(|file| file.rules.is_empty() && name_of(&file.path) == name)?;
    let first = errors.get(&file.path)?.first()?;
    Some(
        UserError::failed(format!("the file of the rule {name} cannot be used: {}", first.brief()))
            .help("pi rules lint shows the line"),
    )
}

fn to_json(rule: &Rule, activity: &Activity) -> Value {
    let mut row = serde_json::to_value(rule).expect("a rule serializes to JSON");
    let members = row.as_object_mut().expect("a rule is an object");
    members.shift_remove("content");
    if let Value::Object(activity) = serde_json::to_value(activity).expect("an activity serializes to JSON") {
        members.extend(activity);
    }
    row
}

/// Shortens a path relative to the home or the working folder.
pub(crate) fn shown(environment: &Environment, path: &Path) -> String {
    let dirs = &environment.dirs;
    if let Ok(rest) = path.strip_prefix(&dirs.cwd) {
        return rest.display().to_string();
    }
    path.strip_prefix(&dirs.home).map_or_else(|_| path.display().to_string(), |rest| format!("~/{}", rest.display()))
}

fn literal(condition: &Condition) -> String {
    let literal = format!("/{}/{}", condition.source, condition.flags);
    match condition.check() {
        Ok(_) => literal,
        Err(error) => format!("{literal} (is not a regular expression: {})", error.message),
    }
}

fn scope(rule: &Rule) -> String {
    if rule.scope.is_empty() {
        return "text, tool".to_owned();
    }
    rule.scope.iter().map(ScopeToken::to_string).collect::<Vec<_>>().join(", ")
}

/// Describes the action of a rule on the streams that it reads.
fn action(rule: &Rule, set: &RuleSet) -> String {
    let mode = rule.interrupt_mode.unwrap_or(set.settings.interrupt_mode);
    let name = |stream: StreamKind| match stream {
        StreamKind::Text => "text",
        StreamKind::Thinking => "thinking",
        StreamKind::Tool => "tools",
    };
    let scope = CompiledScope::new(rule);
    let (stops, reminds): (Vec<StreamKind>, Vec<StreamKind>) =
        scope.streams().partition(|&stream| mode.interrupts(stream));
    let names = |streams: Vec<StreamKind>| streams.into_iter().map(name).collect::<Vec<_>>().join(" and ");
    match (stops.is_empty(), reminds.is_empty()) {
        (true, _) => "only reminds".to_owned(),
        (false, true) => "stops the reply".to_owned(),
        (false, false) => format!("stops {}, reminds on {}", names(stops), names(reminds)),
    }
}
