//! Settings of rummy that its plugins read from `process.env`: names, defaults, and values of the user's environment.
//!
//! These are the loop and budget settings of rummy's documentation, none of which is an address or a key. The realm receives them
//! without a grant for the environment; all other variables require consent.

use pijs_runtime::Environment;
use serde_json::{Map, Value};

/// Names and defaults of the settings. Without a default, a setting exists only if the user sets it.
const SETTINGS: &[(&str, Option<&str>)] = &[
    ("RUMMY_BUDGET_CEILING", Some("0.9")),
    ("RUMMY_DEBUG", None),
    ("RUMMY_FETCH_TIMEOUT", Some("300000")),
    ("RUMMY_MAX_COMMANDS", Some("99")),
    ("RUMMY_MAX_CYCLE_PERIOD", Some("4")),
    ("RUMMY_MAX_ENTRY_TOKENS", Some("512")),
    ("RUMMY_MAX_STALLS", Some("3")),
    ("RUMMY_MAX_TURNS", Some("15")),
    ("RUMMY_MAX_UPDATE_REPEATS", Some("3")),
    ("RUMMY_MIN_CYCLES", Some("3")),
    ("RUMMY_RETENTION_DAYS", Some("31")),
    ("RUMMY_RPC_TIMEOUT", Some("30000")),
    ("RUMMY_TEMPERATURE", Some("0.5")),
    ("RUMMY_THINK", Some("1")),
    ("RUMMY_TOKEN_DIVISOR", Some("2")),
];

/// Returns the value of a setting; `None` if it has neither a value nor a default.
pub fn setting<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
    let default = SETTINGS.iter().find(|(known, _)| *known == name).and_then(|(_, default)| *default);
    environment.variable(name).or(default)
}

/// Returns a numeric setting; the default if the user's value is not a number.
pub fn number<T: std::str::FromStr>(environment: &Environment, name: &str) -> Option<T> {
    let default =
        || SETTINGS.iter().find(|(known, _)| *known == name).and_then(|(_, default)| default.as_ref()?.parse().ok());
    environment.variable(name).and_then(|value| value.parse().ok()).or_else(default)
}

/// Returns the settings as variables of the realm.
pub(crate) fn variables(environment: &Environment) -> Map<String, Value> {
    let known = SETTINGS.iter().filter_map(|(name, _)| Some(((*name).to_owned(), setting(environment, name)?.into())));
    known.collect()
}
