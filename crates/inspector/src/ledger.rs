//! Reads the gate's decisions from the ledger of the session.

use pijs_protocol::ExtensionId;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A decision about one hostcall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Whether the call was allowed.
    pub allowed: bool,
    /// The rule that decided: `grant`, `policy`, `no_person`, ...
    pub rule: String,
    /// Path, command or host of the call, as displayed.
    pub subject: Option<String>,
}

/// Reads the decisions from the lines of a ledger, by extension and call id. Lines of other kinds are skipped.
pub fn decisions(ledger: &str) -> BTreeMap<(ExtensionId, String), Decision> {
    ledger.lines().filter_map(|line| decision(&serde_json::from_str(line).ok()?)).collect()
}

fn decision(line: &Value) -> Option<((ExtensionId, String), Decision)> {
    if line["event"] != "policy.decision" {
        return None;
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let extension = line["correlation"]["extension_id"].as_str()?.into();
    let call = text(&line["correlation"]["host_call_id"])?;
    let data = &line["data"];
    let decision = Decision {
        allowed: data["allowed"].as_bool()?,
        rule: text(&data["rule"]).unwrap_or_default(),
        subject: text(&data["subject"]),
    };
    Some(((extension, call), decision))
}
