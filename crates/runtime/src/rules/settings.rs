//! Reads the settings `ttsr.*` of a session's rules, overridden by the command line.

use super::sources::RuleProgram;
use crate::config::RulesConfig;
use crate::environment::Environment;
use crate::user_error::{Result, UserError};
use pijs_rules::RuleSettings;
use serde_json::{Map, Value};
use std::path::Path;

/// Settings and options of a session's rules.
#[derive(Debug, Clone)]
pub(crate) struct RuleOptions {
    pub(crate) rules: RuleSettings,
    /// Programs whose folders are read too.
    pub(crate) peers: Vec<RuleProgram>,
    /// Whether the built-in rules are requested: by `"builtinRules": true` or `--rules-from built-in`.
    pub(crate) has_built_in: bool,
}

/// Reads the user's settings, overridden by a trusted project's, overridden by the command line's.
///
/// # Errors
///
/// Fails if a member of `ttsr` has a wrong type or value; the message names it.
pub(crate) fn read(environment: &Environment, args: &RulesConfig) -> Result<RuleOptions> {
    let mut members = Map::new();
    for (file, settings) in crate::settings::by_file(environment) {
        match settings.get("ttsr") {
            None => {}
            Some(Value::Object(given)) => {
                check(given, &file)?;
                members.extend(given.clone());
            }
            Some(other) => {
                return Err(UserError::usage(format!("{}: `ttsr` is {other}, not an object", file.display()))
                    .help("write \"ttsr\": {\"enabled\": true}"));
            }
        }
    }
    given(members, args)
}

fn given(members: Map<String, Value>, args: &RulesConfig) -> Result<RuleOptions> {
    let mut peers = args.from.clone();
    peers.extend(members.get("rulesFrom").and_then(Value::as_array).into_iter().flatten().filter_map(peer));
    let is_asked = members.get("builtinRules") == Some(&Value::Bool(true));
    let mut rules: RuleSettings = serde_json::from_value(Value::Object(members))
        .map_err(|error| UserError::usage(format!("the settings `ttsr` cannot be read: {error}")))?;
    let has_built_in = rules.builtin_rules && (is_asked || peers.contains(&RuleProgram::BuiltIn));
    rules.enabled = args.enabled.unwrap_or(rules.enabled || !args.from.is_empty());
    Ok(RuleOptions { rules, peers, has_built_in })
}

fn peer(name: &Value) -> Option<RuleProgram> {
    // Settings are written by hand.
    name.as_str()?.to_lowercase().parse().ok()
}

/// Checks the members of one file one by one, so that the message can name the wrong one.
fn check(members: &Map<String, Value>, file: &Path) -> Result<()> {
    let file = file.display();
    if let Some(names) = members.get("rulesFrom") {
        let unknown = match names.as_array() {
            Some(names) => names.iter().find(|name| peer(name).is_none()),
            None => Some(names),
        };
        if let Some(unknown) = unknown {
            return Err(UserError::usage(format!("{file}: `ttsr.rulesFrom` names {unknown}, which is not known"))
                .help("write a list of \"omp\", \"cursor\" and \"built-in\""));
        }
    }
    let known = serde_json::to_value(RuleSettings::default()).expect("settings serialize to JSON");
    for (name, value) in members {
        // pi and oh-my-pi have members that have no effect here (`judge`).
        let Some(default) = known.get(name) else { continue };
        let one = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        serde_json::from_value::<RuleSettings>(one).map_err(|error| {
            let help = match default {
                Value::Bool(_) => format!("write \"{name}\": true or \"{name}\": false"),
                default => format!("write it as, for example, \"{name}\": {default}"),
            };
            UserError::usage(format!("{file}: `ttsr.{name}` cannot be {value}: {error}")).help(help)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_rules::{ContextMode, InterruptMode};
    use serde_json::json;

    fn parsed(members: Value) -> Result<RuleSettings> {
        let Value::Object(members) = members else { panic!("an object") };
        check(&members, Path::new("home/settings.json"))?;
        Ok(given(members, &RulesConfig::default())?.rules)
    }

    #[test]
    fn rules_are_off_by_default_and_members_of_other_programs_are_left_alone() {
        let settings = parsed(json!({"judge": "auto"})).expect("read");
        assert_eq!(settings, RuleSettings::default());
        assert!(!settings.enabled);
    }

    #[test]
    fn members_are_read_by_their_own_names() {
        let settings =
            parsed(json!({"enabled": true, "interruptMode": "always", "contextMode": "keep"})).expect("read");
        assert!(settings.enabled);
        assert_eq!(settings.interrupt_mode, InterruptMode::Always);
        assert_eq!(settings.context_mode, ContextMode::Keep);
    }

    #[test]
    fn a_wrong_member_is_named_with_an_example() {
        let failure = parsed(json!({"interruptMode": "sometimes"})).expect_err("wrong");
        let message = failure.to_string();
        assert!(message.contains("`ttsr.interruptMode` cannot be \"sometimes\""), "{message}");
        assert!(message.contains("\"interruptMode\": \"prose-only\""), "{message}");
        for (members, part) in [
            (json!({"enabled": "yes"}), "write \"enabled\": true or"),
            (json!({"enabled": "yes"}), "home/settings.json: `ttsr.enabled`"),
            (json!({"rulesFrom": ["cursr"]}), "home/settings.json: `ttsr.rulesFrom` names \"cursr\""),
            (json!({"rulesFrom": "omp"}), "write a list of \"omp\""),
        ] {
            let message = parsed(members).expect_err("wrong").to_string();
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}
