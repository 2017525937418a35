//! Lines about rules for the terminal and `-p`: one for each firing, and one at the end of a turn.

use pijs_agent::AgentEvent;
use pijs_llm::provider::one_line;
use pijs_rules::RetryLedger;
use serde::Deserialize as _;

/// Returns the line on an event of rules; `None` for other events.
pub(crate) fn event_line(event: &AgentEvent<'_>) -> Option<String> {
    match event {
        AgentEvent::RuleFired(fired) => Some(one_line(&fired.line())),
        AgentEvent::Notice { name: "rule_report", payload } => {
            Some(format!("warning: {}", payload["message"].as_str()?))
        }
        AgentEvent::Notice { name: "rules_turn_end", payload } => turn_line(&RetryLedger::deserialize(*payload).ok()?),
        _ => None,
    }
}

/// Sums up a turn in which replies were stopped.
fn turn_line(ledger: &RetryLedger) -> Option<String> {
    let replies = match ledger.interrupts {
        0 => return None,
        1 => "1 reply".to_owned(),
        count => format!("{count} replies"),
    };
    Some(format!("rules stopped {replies} in this turn; about {} tokens were thrown away", ledger.tokens_burned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_without_a_stopped_reply_has_no_line() {
        assert_eq!(turn_line(&RetryLedger { reminders: 2, ..RetryLedger::default() }), None);
        let ledger = RetryLedger { interrupts: 2, tokens_burned: 31, ..RetryLedger::default() };
        let line = turn_line(&ledger).expect("two replies were stopped");
        assert_eq!(line, "rules stopped 2 replies in this turn; about 31 tokens were thrown away");
    }
}
