//! Lines about rules for the terminal and `-p`: one for each firing, and one at the end of a turn.

use pijs_agent::{AgentEvent, VERDICT_TYPE, VerdictAction};
use pijs_llm::provider::one_line;
use pijs_rules::{FiredRule, RetryLedger};
use pijs_terminal::counted;
use serde::Deserialize as _;
use serde_json::Value;

/// Returns the line that reports an event of rules, or a verdict of an extension; `None` for other events.
pub fn event_line(event: &AgentEvent<'_>) -> Option<String> {
    match event {
        AgentEvent::RuleFired(fired) => Some(one_line(&fired.line())),
        // A firing of a rule has its own line.
        AgentEvent::StreamVerdict(verdict) if !verdict.extension.starts_with("rule:") => match verdict.action {
            VerdictAction::Remind => Some(one_line(&format!(
                "{} would stop the reply again, and has reached its limit: the reply stays, and the model is reminded",
                verdict.extension
            ))),
            VerdictAction::Retry | VerdictAction::Stop => None,
        },
        AgentEvent::MessageDiscarded { extension, .. } if !extension.starts_with("rule:") => {
            Some(one_line(&format!("{extension} stopped the reply; the model tries again")))
        }
        AgentEvent::Notice { name: "rule_report", payload } => {
            Some(format!("warning: {}", payload["message"].as_str()?))
        }
        AgentEvent::Notice { name: "rules_turn_end", payload } => turn_line(&RetryLedger::deserialize(*payload).ok()?),
        _ => None,
    }
}

/// Returns the lines on the message that rules put into the conversation, one for each; `None` for other entries.
///
/// A resumed session has shown them by [`event_line`].
pub fn entry_lines(entry: &Value) -> Option<Vec<String>> {
    let details = &entry["details"];
    let is_of_rules = entry["customType"] == VERDICT_TYPE && details["extension"].as_str()?.starts_with("rule:");
    if !is_of_rules {
        return None;
    }
    // A reminder was shown when its rules fired.
    let rules: Vec<FiredRule> = serde_json::from_value(details["rules"].clone()).unwrap_or_default();
    let line =
        |rule: FiredRule| one_line(&format!("rule {} stopped the reply: {}", rule.name, rule.site.excerpt.trim()));
    Some(rules.into_iter().map(line).collect())
}

/// Sums up a turn in which replies were stopped.
fn turn_line(ledger: &RetryLedger) -> Option<String> {
    if ledger.interrupts == 0 {
        return None;
    }
    let (replies, tokens) = (counted(ledger.interrupts, "reply"), counted(ledger.tokens_burned, "token"));
    let were = if ledger.tokens_burned == 1 { "was" } else { "were" };
    Some(format!("rules stopped {replies} in this turn; about {tokens} {were} thrown away"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_agent::VerdictEvent;
    use pijs_protocol::StreamSource;
    use serde_json::json;

    #[test]
    fn an_ineffective_verdict_is_reported_but_not_those_of_rules() {
        let told = |extension: &str, action| {
            let (extension, source) = (extension.to_owned(), StreamSource::Text);
            let verdict = VerdictEvent { extension, source, offset: 0, latency_us: 0, attempt: 4, action };
            event_line(&AgentEvent::StreamVerdict(&verdict))
        };
        assert!(told("no-todo", VerdictAction::Remind).is_some_and(|line| line.contains("has reached its limit")));
        assert_eq!(told("no-todo", VerdictAction::Retry), None);
        assert_eq!(told("rule:no-todo", VerdictAction::Remind), None);
    }

    #[test]
    fn a_message_of_rules_has_a_line_for_each_and_those_of_extensions_have_none() {
        let site =
            json!({"pattern": {"kind": "regex", "index": 0}, "offset": 1, "line": 1, "column": 1, "excerpt": " a\nb"});
        let rule = json!({"name": "r", "content": "x", "interrupts": true, "site": site});
        let entry = |extension: &str, rules: Value| json!({"customType": VERDICT_TYPE, "details": {"extension": extension, "rules": rules}});
        assert_eq!(
            entry_lines(&entry("rule:r", json!([rule]))),
            Some(vec!["rule r stopped the reply: a b".to_owned()])
        );
        assert_eq!(entry_lines(&entry("rule:r", Value::Null)), Some(Vec::new()));
        assert_eq!(entry_lines(&entry("npm:x", json!([rule]))), None);
        assert_eq!(entry_lines(&json!({"customType": "note"})), None);
    }

    #[test]
    fn a_turn_without_a_stopped_reply_has_no_line() {
        assert_eq!(turn_line(&RetryLedger { reminders: 2, ..RetryLedger::default() }), None);
        let ledger = RetryLedger { interrupts: 2, tokens_burned: 31, ..RetryLedger::default() };
        let line = turn_line(&ledger).expect("a line about two stopped replies");
        assert_eq!(line, "rules stopped 2 replies in this turn; about 31 tokens were thrown away");
    }
}
