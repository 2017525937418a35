//! Compares the result of a run with the case's expectations.

use crate::case::Expect;
use crate::invariants;
use crate::world::World;
use serde_json::{Map, Value};

/// The output of a run.
#[derive(Debug, Default)]
pub(crate) struct RunOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Output of the terminal.
    pub(crate) screen: String,
}

impl RunOutput {
    /// Returns the values that the extension reported: one member per line, after the word `@report`.
    pub(crate) fn reports(&self) -> Map<String, Value> {
        let mut reports = Map::new();
        for line in self.stderr.lines().chain(self.screen.lines()).chain(self.stdout.lines()) {
            let Some((_, json)) = line.split_once("@report ") else { continue };
            let mut values = serde_json::Deserializer::from_str(json).into_iter::<Map<String, Value>>();
            if let Some(Ok(members)) = values.next() {
                reports.extend(members);
            }
        }
        reports
    }
}

/// Checks the texts on the streams.
pub(crate) fn words(expected: &Expect, said: &RunOutput) -> Result<(), String> {
    for (stream, text, wanted, unwanted) in [
        ("stdout", &said.stdout, &expected.stdout, &expected.not_stdout),
        ("stderr", &said.stderr, &expected.stderr, &expected.not_stderr),
        ("screen", &said.screen, &expected.screen, &expected.not_screen),
    ] {
        if let Some(missing) = wanted.iter().find(|words| !text.contains(words.as_str())) {
            return Err(format!("{stream} lacks {missing:?}"));
        }
        if let Some(words) = unwanted.iter().find(|words| text.contains(words.as_str())) {
            return Err(format!("{stream} has {words:?}"));
        }
    }
    Ok(())
}

/// Checks reports, ledger, session, events and requests.
pub(crate) fn values(world: &World, expected: &Expect, said: &RunOutput) -> Result<(), String> {
    let reports = said.reports();
    for (name, pattern) in &expected.reports {
        let value = reports.get(name).ok_or_else(|| format!("the extension did not report {name:?}: {reports:?}"))?;
        matches(pattern, value).map_err(|why| format!("report {name:?}: {why}\n  in {value}"))?;
    }
    if let Some(name) = expected.not_reports.iter().find(|name| reports.contains_key(*name)) {
        return Err(format!("the extension reported {name:?}: {}", reports[name]));
    }
    let ledger = invariants::lines_of(world, "home/.pi/agent/logs/**/*.jsonl");
    each("ledger", &ledger, &expected.ledger, &expected.not_ledger)?;
    let session = invariants::lines_of(world, "home/.pi/agent/sessions/**/*.jsonl");
    each("session", &session, &expected.session, &expected.not_session)?;
    if !expected.events.is_empty() || !expected.not_events.is_empty() {
        let events: Vec<Value> = said.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        each("stdout", &events, &expected.events, &expected.not_events)?;
    }
    if let Some(pattern) = &expected.json {
        let value: Value = serde_json::from_str(&said.stdout).map_err(|error| format!("stdout is no JSON: {error}"))?;
        matches(pattern, &value).map_err(|why| format!("stdout: {why}\n  in {value}"))?;
    }
    for (name, patterns) in &expected.requests {
        let requests = world.requests(name)?;
        let all = Value::Array(requests);
        matches(&Value::Array(patterns.clone()), &all)
            .map_err(|why| format!("requests of {name}: {why}\n  in {all}"))?;
    }
    Ok(())
}

fn each(what: &str, lines: &[Value], wanted: &[Value], unwanted: &[Value]) -> Result<(), String> {
    for pattern in wanted {
        if !lines.iter().any(|line| matches(pattern, line).is_ok()) {
            return Err(format!("no line of the {what} is like {pattern} ({} lines)", lines.len()));
        }
    }
    for pattern in unwanted {
        if let Some(line) = lines.iter().find(|line| matches(pattern, line).is_ok()) {
            return Err(format!("a line of the {what} is like {pattern}: {line}"));
        }
    }
    Ok(())
}

/// Returns whether a value matches a pattern.
///
/// Objects may have more members than the pattern, arrays have to have as many items. An object with one member that
/// starts with `$` is a condition: `$contains` (part of a text, or an item of an array), `$lacks`, `$regex`, `$any`,
/// `$absent`, `$one_of`, `$not`, `$min`, `$max`, `$length`.
pub(crate) fn matches(pattern: &Value, value: &Value) -> Result<(), String> {
    match (pattern, value) {
        (Value::Object(members), _) if is_condition(members) => {
            let (name, argument) = members.iter().next().expect("one member");
            condition(name, argument, value)
        }
        (Value::Object(wanted), Value::Object(is)) => wanted.iter().try_for_each(|(key, pattern)| {
            let value = is.get(key).unwrap_or(&Value::Null);
            matches(pattern, value).map_err(|why| format!(".{key}{why}"))
        }),
        (Value::Array(wanted), Value::Array(is)) => {
            if wanted.len() != is.len() {
                return Err(format!(": {} items, not {}", is.len(), wanted.len()));
            }
            wanted
                .iter()
                .zip(is)
                .enumerate()
                .try_for_each(|(at, (pattern, value))| matches(pattern, value).map_err(|why| format!("[{at}]{why}")))
        }
        (wanted, is) if wanted == is => Ok(()),
        (Value::Number(wanted), Value::Number(is)) if wanted.as_f64() == is.as_f64() => Ok(()),
        (wanted, is) => Err(format!(": {is}, not {wanted}")),
    }
}

fn is_condition(members: &Map<String, Value>) -> bool {
    members.len() == 1 && members.keys().all(|key| key.starts_with('$'))
}

fn condition(name: &str, argument: &Value, value: &Value) -> Result<(), String> {
    let contains = || match value {
        Value::Array(items) => items.iter().any(|item| matches(argument, item).is_ok()),
        Value::String(text) => argument.as_str().is_some_and(|words| text.contains(words)),
        other => argument.as_str().is_some_and(|words| other.to_string().contains(words)),
    };
    let holds = match name {
        "$contains" => contains(),
        "$lacks" => !contains(),
        "$regex" => {
            let pattern = argument.as_str().ok_or("$regex wants a text")?;
            let regex = regex::Regex::new(pattern).map_err(|error| error.to_string())?;
            value.as_str().is_some_and(|text| regex.is_match(text))
        }
        "$any" => !value.is_null(),
        "$absent" => value.is_null(),
        "$one_of" => argument.as_array().is_some_and(|all| all.iter().any(|one| matches(one, value).is_ok())),
        "$not" => matches(argument, value).is_err(),
        "$min" => value.as_f64() >= argument.as_f64() && value.is_number(),
        "$max" => value.as_f64() <= argument.as_f64() && value.is_number(),
        "$length" => {
            let length = value.as_array().map(Vec::len).or_else(|| value.as_str().map(str::len));
            matches(argument, &length.map_or(Value::Null, Value::from)).is_ok()
        }
        other => return Err(format!("no condition is called {other}")),
    };
    if holds { Ok(()) } else { Err(format!(": not so: {name} {argument}")) }
}
